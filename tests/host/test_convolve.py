"""haloconv convolve against scipy's convolution in float64."""

import filecmp
import functools
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import scipy.signal
import soundfile
from conftest import (BUILD, HALOCONV, PEAK_SHARE, assert_close, convolve, generator, good, haloconv, noise, read,
                      refused, write)


def full(x, h):
    """Every pair of columns of x and h, convolved in float64."""
    return np.stack([scipy.signal.oaconvolve(x[:, i].astype(np.float64), h[:, i].astype(np.float64))
                     for i in range(x.shape[1])], axis=1)


@pytest.mark.parametrize("method", ["direct", "fft", "auto"])
@pytest.mark.parametrize("n_channels,n_taps,n_frames", [(1, 1, 1000), (1, 777, 5), (1, 4097, 30011), (2, 48000, 100003),
                                                        (3, 513, 9000), (8, 1000, 4000)])
def test_full_convolution(folder, backend, method, n_channels, n_taps, n_frames):
    x, h = noise(n_frames, n_channels, 1), noise(n_taps, n_channels, 2)
    report = convolve(write("x.wav", x), write("h.wav", h), "y.wav", "--method", method, backend=backend)
    assert_close(read("y.wav"), full(x, h))
    assert report["frames_in"] == n_frames and report["frames_out"] == n_frames + n_taps - 1
    assert report["channels_in"] == report["channels_out"] == n_channels
    assert report["method"] == method or method == "auto"


@pytest.mark.parametrize("block", [1, 64, 100, 4096, 65536])
def test_block_size_changes_nothing(folder, backend, block):
    x, h = noise(20011, 2, 3), noise(3000, 2, 4)
    convolve(write("x.wav", x), write("h.wav", h), "y.wav", "--block", block, backend=backend)
    assert_close(read("y.wav"), full(x, h))


def test_mono_mask_plays_on_every_channel(folder, backend):
    x, h = noise(8000, 5, 5), noise(900, 1, 6)
    convolve(write("x.wav", x), write("h.wav", h), "y.wav", backend=backend)
    assert_close(read("y.wav"), full(x, np.repeat(h, 5, axis=1)))


def test_mono_input_gets_an_output_a_mask_channel(folder, backend):
    x, h = noise(8000, 1, 7), noise(900, 6, 8)
    report = convolve(write("x.wav", x), write("h.wav", h), "y.wav", backend=backend)
    assert report["channels_out"] == 6
    assert_close(read("y.wav"), full(np.repeat(x, 6, axis=1), h))


def test_true_stereo(folder, backend):
    x, h = noise(8000, 2, 9), noise(900, 4, 10)
    convolve(write("x.wav", x), write("h.wav", h), "y.wav", backend=backend)
    ll, lr, rl, rr = [full(x[:, i // 2:i // 2 + 1], h[:, i:i + 1])[:, 0] for i in range(4)]
    assert_close(read("y.wav"), np.stack([ll + rl, lr + rr], axis=1))


@pytest.mark.parametrize("n_in,n_mask", [(2, 3), (3, 2), (4, 2), (2, 8), (3, 9)])
def test_other_channel_counts_are_refused(folder, n_in, n_mask):
    write("x.wav", noise(100, n_in))
    write("h.wav", noise(10, n_mask))
    says = refused("convolve", "x.wav", "h.wav", "-o", "y.wav", says=[str(n_mask), str(n_in)])
    assert "1" in says and sorted(p.name for p in folder.iterdir()) == ["h.wav", "x.wav"]


@pytest.mark.parametrize("n_taps", [1, 2, 5, 100, 101])
def test_tails(folder, backend, n_taps):
    x, h = noise(3000, 1, 11), noise(n_taps, 1, 12)
    write("x.wav", x)
    write("h.wav", h)
    want = full(x, h)
    for tail, first, length in [("full", 0, 3000 + n_taps - 1), ("same", 0, 3000), ("centre", (n_taps - 1) // 2, 3000)]:
        report = convolve("x.wav", "h.wav", "y.wav", "--tail", tail, backend=backend)
        assert report["frames_out"] == length
        assert_close(read("y.wav"), want[first:first + length])


def test_textbook_figure_7_1(folder, backend):
    """N = 1...7 and M = 3 4 5 4 3, centred: the book's 22, 38, 57, 76, 95, 90, 74 (P[0] is its first exercise)."""
    write("n.wav", np.arange(1, 8, dtype=np.float32)[:, None])
    (folder / "m.txt").write_text("3\n4\n5\n4\n3\n")
    convolve("n.wav", "m.txt", "p.wav", "--tail", "centre", backend=backend)
    assert_close(read("p.wav"), np.array([22, 38, 57, 76, 95, 90, 74.0]))


def test_gains(folder, backend):
    x, h = noise(3000, 2, 13), noise(50, 2, 14)
    write("x.wav", x)
    write("h.wav", h)
    wet, dry = full(x, h), np.concatenate([x, np.zeros((49, 2))]).astype(np.float64)
    for options, want in [(["--gain", "-6"], 10 ** (-6 / 20) * wet), (["--wet", "3.5"], 10 ** (3.5 / 20) * wet),
                          (["--dry", "0"], wet + dry), (["--dry", "-3", "--wet", "-12"],
                                                        10 ** (-12 / 20) * wet + 10 ** (-3 / 20) * dry),
                          (["--dry", "0", "--wet", "off"], dry),
                          (["--gain", "6", "--dry", "-1"], 10 ** (6 / 20) * (wet + 10 ** (-1 / 20) * dry)),
                          (["--gain", "0"], wet)]:
        convolve("x.wav", "h.wav", "y.wav", *options, backend=backend)
        assert_close(read("y.wav"), want)


def test_one_channel_goes_dry_to_every_output(folder, backend):
    x, h = noise(3000, 1, 15), noise(50, 3, 16)
    convolve(write("x.wav", x), write("h.wav", h), "y.wav", "--dry", "-3", "--wet", "-12", backend=backend)
    dry = np.concatenate([x, np.zeros((49, 1))]).astype(np.float64)
    assert_close(read("y.wav"), 10 ** (-12 / 20) * full(np.repeat(x, 3, 1), h) + 10 ** (-3 / 20) * np.repeat(dry, 3, 1))


def test_dry_needs_as_many_outputs_as_inputs(folder):
    write("x.wav", noise(100, 2))
    (folder / "h.conf").write_text("/convolver/new 2 3 64 100\n/impulse/dirac 1 3 1 0\n")
    refused("convolve", "x.wav", "h.conf", "-o", "y.wav", "--dry", "0", says="--dry")


def test_json_report(folder, backend):
    write("x.wav", noise(96000, 2))
    write("h.wav", noise(4000, 2))
    report = convolve("x.wav", "h.wav", "y.wav", backend=backend)
    for field in ["frames_in", "frames_out", "channels_in", "channels_out", "backend", "method", "seconds",
                  "times_realtime", "clipped", "gain_to_avoid_clipping"]:
        assert field in report
    assert 0 < report["seconds"] < 60 and report["clipped"] == 0
    assert report["times_realtime"] == pytest.approx(2 / report["seconds"], rel=0.01)


def test_quiet_says_nothing(folder):
    write("x.wav", noise(1000, 1))
    write("h.wav", noise(10, 1))
    done = good("convolve", "x.wav", "h.wav", "-o", "y.wav", "-q")
    assert done.stdout == "" and done.stderr == ""


def test_clipping_is_counted_and_the_gain_avoids_it(folder, backend):
    x, h = noise(5000, 1, 15, scale=0.9), noise(40, 1, 16, scale=1.0)
    write("x.wav", x, subtype="PCM_16")
    write("h.wav", h)
    want = full(soundfile.read("x.wav", always_2d=True)[0], h)
    report = convolve("x.wav", "h.wav", "y.wav", "--dither", "off", backend=backend)
    beyond = (np.abs(want) > 1).sum()
    assert beyond > 100 and abs(report["clipped"] - beyond) <= 2  # a sample just at full scale may round either way
    assert np.abs(read("y.wav") - np.clip(want, -1, 1 - 2 ** -15)).max() <= 2 ** -15
    peak_db = 20 * np.log10(np.abs(want).max())
    assert -peak_db - 0.2 <= report["gain_to_avoid_clipping"] <= -peak_db
    again = convolve("x.wav", "h.wav", "y.wav", "--gain", report["gain_to_avoid_clipping"], backend=backend)
    assert again["clipped"] == 0
    assert 0.9 < np.abs(read("y.wav")).max() <= 1


def test_clipping_is_said(folder):
    write("x.wav", noise(5000, 1, 15, scale=0.9), subtype="PCM_16")
    write("h.wav", noise(40, 1, 16, scale=1.0))
    done = good("convolve", "x.wav", "h.wav", "-o", "y.wav")
    line = [line for line in done.stderr.splitlines() if "clipped" in line][0]
    gain = float(line.split("--gain ")[1].split()[0].rstrip(",;"))
    assert "clipped" not in good("convolve", "x.wav", "h.wav", "-o", "y.wav", "--gain", gain).stderr


def test_float_output_does_not_clip(folder):
    x, h = noise(5000, 1, 15, scale=0.9), noise(40, 1, 16, scale=1.0)
    report = convolve(write("x.wav", x), write("h.wav", h), "y.wav")
    assert report["clipped"] == 0 and np.abs(read("y.wav")).max() > 1


def test_nan_in_the_input_counts_as_zero(folder, backend):
    x, h = noise(4000, 2, 17), noise(300, 2, 18)
    dirty = x.copy()
    dirty[100, 0], dirty[2500, 1], dirty[3000, 0] = np.nan, np.inf, -np.inf
    clean = np.where(np.isfinite(dirty), dirty, 0)
    report = convolve(write("x.wav", dirty), write("h.wav", h), "y.wav", backend=backend)
    assert report["non_finite"] == 3
    assert_close(read("y.wav"), full(clean, h))


@pytest.mark.parametrize("ending,separator", [("txt", " "), ("txt", "\t"), ("csv", ","), ("csv", ";"), ("csv", ", ")])
def test_text_masks(folder, backend, ending, separator):
    x, h = noise(2000, 2, 19), noise(33, 2, 20)
    lines = [separator.join(f"{v:.9g}" for v in row) for row in h]
    (folder / f"h.{ending}").write_text("# a mask\n" + "\n".join(lines[:10]) + " # ten\n\n" + "\n".join(lines[10:]))
    convolve(write("x.wav", x), f"h.{ending}", "y.wav", backend=backend)
    assert_close(read("y.wav"), full(x, h))


def test_text_mask_belongs_to_any_rate(folder):
    x = noise(2000, 1, 21)
    (folder / "h.txt").write_text("0.5\n0\n-0.25\n")
    convolve(write("x.wav", x, rate=22050), "h.txt", "y.wav")
    assert_close(read("y.wav"), full(x, np.array([[0.5], [0], [-0.25]])))


@pytest.mark.parametrize("rate_in,rate_mask", [(48000, 44100), (44100, 48000), (48000, 96000), (44100, 8000)])
def test_mask_of_another_rate_is_resampled(folder, backend, rate_in, rate_mask):
    """The convolution of band-limited signals is that of scipy with the mask resampled by scipy."""
    t = np.arange(rate_mask // 4) / rate_mask
    mask = (np.exp(-((t - 0.05) / 0.004) ** 2) * np.cos(2 * np.pi * 700 * (t - 0.05)) * 0.02)[:, None]
    write("h.wav", mask, rate=rate_mask, subtype="DOUBLE")
    x = noise(rate_in // 2, 1, 22)
    done = good("convolve", write("x.wav", x, rate=rate_in), "h.wav", "-o", "y.wav", "--backend", backend)
    assert "resampled" in done.stderr and str(rate_mask) in done.stderr and str(rate_in) in done.stderr
    t = np.arange(rate_in // 4) / rate_in  # expected: the same bell sampled at the other rate
    right = np.exp(-((t - 0.05) / 0.004) ** 2) * np.cos(2 * np.pi * 700 * (t - 0.05))
    right = (right * 0.02)[:, None] * rate_mask / rate_in
    want = full(x, right)
    got = read("y.wav")
    assert abs(len(got) - len(want)) <= 2
    n = min(len(got), len(want))
    assert_close(got[:n], want[:n], share=1e-4)


def test_no_resample_takes_the_mask_as_it_is(folder):
    x, h = noise(3000, 1, 23), noise(400, 1, 24)
    done = good("convolve", write("x.wav", x), write("h.wav", h, rate=44100), "-o", "y.wav", "--no-resample")
    assert "44100" in done.stderr
    assert_close(read("y.wav"), full(x, h))


def test_filters_without_a_rate_have_the_rate_of_the_sound_also_without_resampling(folder):
    write("x.wav", noise(3000, 1, 23), rate=44100)
    (folder / "eq.txt").write_text("Filter 1: ON PK Fc 9000 Hz Gain 9 dB Q 2\n")
    assert "Hz" not in good("convolve", "x.wav", "eq.txt", "-o", "a.wav", "-q").stderr
    assert "48000" not in good("convolve", "x.wav", "eq.txt", "-o", "y.wav", "--no-resample").stderr
    assert_close(read("y.wav"), read("a.wav"))


# ---- formats --------------------------------------------------------------------------------------------------------
LOSSLESS_BITS = {"PCM_S8": 8, "PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32, "FLOAT": 24, "DOUBLE": 24,
                 "ALAC_16": 16, "ALAC_20": 20, "ALAC_24": 24, "ALAC_32": 32, "DWVW_12": 12, "DWVW_16": 16,
                 "DWVW_24": 24}
OUR_CONTAINER = {"SVX": "svx", "MAT4": "mat4", "MAT5": "mat5", "MPC2K": "mpc2k", "IRCAM": "ircam", "MP3": "mpeg"}
OUR_SUBTYPE = {"PCM_S8": "pcms8", "PCM_U8": "pcmu8", "PCM_16": "pcm16", "PCM_24": "pcm24", "PCM_32": "pcm32",
               "IMA_ADPCM": "ima", "MS_ADPCM": "msadpcm", "GSM610": "gsm", "VOX_ADPCM": "vox", "NMS_ADPCM_16": "nms16",
               "NMS_ADPCM_24": "nms24", "NMS_ADPCM_32": "nms32", "G721_32": "g721", "G723_24": "g723-24",
               "G723_40": "g723-40", "DWVW_12": "dwvw12", "DWVW_16": "dwvw16", "DWVW_24": "dwvw24", "DPCM_8": "dpcm8",
               "DPCM_16": "dpcm16", "ALAC_16": "alac16", "ALAC_20": "alac20", "ALAC_24": "alac24", "ALAC_32": "alac32",
               "MPEG_LAYER_I": "mp1", "MPEG_LAYER_II": "mp2", "MPEG_LAYER_III": "mp3"}


PACKED = ("FLAC", "OGG", "MP3")  # and ALAC: their encoders are tested at 48 kHz, the rest at 8 kHz
# The least signal to noise in dB of 20 s of noise and of music, of formats that lose something.
LOSSY = {"ULAW": (35, 35), "ALAW": (35, 35), "IMA_ADPCM": (13, 19), "MS_ADPCM": (10, 14), "GSM610": (0.5, 12),
         "VOX_ADPCM": (13, 19), "NMS_ADPCM_16": (7, 13), "NMS_ADPCM_24": (12, 17), "NMS_ADPCM_32": (16, 20),
         "G721_32": (17, 8), "G723_24": (11, 7), "G723_40": (21, 9), "DPCM_8": (1, 1), "DPCM_16": (60, 60),
         "VORBIS": (3, 26), "OPUS": (0.5, 20), "MPEG_LAYER_III": (2, 30)}
# Programs that read a container by code of their own, in the order in which they are asked; but for NMS, and G.721 in
# WAV, which only libsndfile has.
READERS = {"sox": ("AIFF", "AU", "AVR", "FLAC", "HTK", "MP3", "NIST", "OGG", "SVX", "VOC", "WAV", "WAVEX"),
           "ffmpeg": ("AIFF", "AU", "CAF", "FLAC", "IRCAM", "MP3", "NIST", "OGG", "PVF", "RF64", "SDS", "SVX", "VOC",
                      "W64", "WAV", "WAVEX")}


def every_format():
    return [(f, s) for f in sorted(soundfile.available_formats()) for s in sorted(soundfile.available_subtypes(f))]


def rate_of(container, rate):
    return 44100 if container == "XI" else rate  # its header has none


def our_name(container, subtype):
    return OUR_CONTAINER.get(container, container.lower()) + ":" + OUR_SUBTYPE.get(subtype, subtype.lower())


@functools.lru_cache
def material(rate):
    """20 s of noise and 20 s of music: notes that decay, with overtones. [n][2], the samples of 16 bits."""
    t, music, draw = np.arange(20 * rate) / rate, np.zeros(20 * rate), generator(31)
    for start in range(0, 20 * rate, rate // 4):
        note, pitch = t[:len(t) - start][:2 * rate], 110 * 2 ** (draw.integers(0, 24) / 12)
        for k in range(1, 6):
            music[start:start + len(note)] += np.sin(2 * np.pi * k * pitch * note) * np.exp(-4 * note * k) / k
    x = np.stack([noise(20 * rate, 1, 30)[:, 0], music / np.abs(music).max() / 2], axis=1)
    return np.round(x * 32768) / 32768


@pytest.fixture(scope="module")
def full_folder(tmp_path_factory):
    """A folder without any space; one that is not there, if mounting is not allowed."""
    small = tmp_path_factory.mktemp("full")
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(small)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
        yield small / "missing"
        return
    try:
        (small / "filled").write_bytes(bytes(4096))
        yield small
    finally:
        subprocess.run(["umount", str(small)], check=True)


def decoded(path, container, subtype, rate, n_channels):
    """The samples of a sound file by another program, or libsndfile's if no other knows it."""
    if container != "RAW":
        info = soundfile.info(path)
        assert (info.format, info.subtype, info.samplerate) == (container, subtype, rate_of(container, rate))
    arguments = {"sox": ["-V1", path, "-t", "f32", "-"], "ffmpeg": ["-v", "error", "-i", path, "-f", "f32le", "-"]}
    unknown = subtype.startswith("NMS") or (container, subtype) == ("WAV", "G721_32")
    for program, containers in READERS.items():
        if container in containers and not unknown and shutil.which(program):
            found = subprocess.run([program, *arguments[program]], stdin=subprocess.DEVNULL, capture_output=True,
                                   timeout=60, check=False)
            if found.returncode == 0 and found.stdout:  # sox knows fewer subtypes
                return program, np.frombuffer(found.stdout, "<f4").reshape(-1, n_channels).astype(np.float64)
    raw = {"format": "RAW", "samplerate": rate, "channels": n_channels, "subtype": subtype}
    raw = raw if container == "RAW" else {}
    with soundfile.SoundFile(path, **raw) as sound:
        try:
            if sound.seekable():
                return "soundfile", sound.read(always_2d=True)
        except (soundfile.LibsndfileError, AssertionError):
            pass  # Dialogic and DWVW cannot seek, or know their length, though they say so
    # Some can only be read from end to end, which soundfile does not do; haloconv does.
    good("convolve", path, "one.txt", "-o", "back.wav", "--format", "wav:double", "--backend", "cpu", "-q",
         *(["--raw", f"{rate},{n_channels},{OUR_SUBTYPE.get(subtype, subtype.lower())}"] if raw else []))
    return "haloconv", read("back.wav")


def signal_to_noise_db(want, got):
    lag = np.argmax(scipy.signal.correlate(got[:1 << 14], want[:1 << 13], "valid", "fft"))
    have = got[lag:lag + len(want)]
    return 10 * np.log10((want[:len(have)] ** 2).sum() / ((have - want[:len(have)]) ** 2).sum())


def check_material(path, container, subtype, rate, x):
    program, got = decoded(path, container, subtype, rate, x.shape[1])
    where = f"{container} {subtype} read by {program}"
    if subtype in LOSSLESS_BITS:
        most = 119 if container == "SDS" else 16 if subtype.startswith("DWVW") else 0  # they have packets
        assert 0 <= len(got) - len(x) <= most, f"{where}: {len(got)} frames, want {len(x)}"
        assert_close(got[:len(x)], x, share=1e-7, quantum=1.01 * 2.0 ** (1 - LOSSLESS_BITS[subtype]))
        return
    assert 0 <= len(got) - len(x) <= 4096, f"{where}: {len(got)} frames, want {len(x)}"
    halves = [(x[:, 0], got[:, 0]), (x[:, 1], got[:, 1])] if x.shape[1] == 2 else [
        (x[at:at + len(x) // 2, 0], got[at:at + len(x) // 2 + 4096, 0]) for at in (0, len(x) // 2)]
    for name, least, (want, have) in zip(("noise", "music"), LOSSY[subtype], halves):
        db = signal_to_noise_db(want, have)
        assert db > least, f"{where}: {name} has {db:.1f} dB, want {least}"


@pytest.fixture(scope="module")
def material_files(tmp_path_factory):
    """FOLDER/RATE-CHANNELS.wav: two channels, or one after the other."""
    files = tmp_path_factory.mktemp("material")
    for rate in (8000, 48000):
        write(files / f"{rate}-2.wav", material(rate), rate, "PCM_16")
        write(files / f"{rate}-1.wav", material(rate).T.reshape(-1, 1), rate, "PCM_16")
    return files


def convolve_material(output, container, subtype, files, environment):
    """The finished program, and the material."""
    rate = 48000 if container in PACKED or subtype.startswith("ALAC") else 8000
    pathlib.Path("one.txt").write_text("1\n", encoding="ascii")
    for n_channels in (2, 1):
        done = haloconv("convolve", files / f"{rate}-{n_channels}.wav", "one.txt", "-o", output, "--format",
                        our_name(container, subtype), "--backend", "cpu", "--dither", "off", "-q", env=environment,
                        text=False)
        if b"cannot hold 2 channels" not in done.stderr:
            break
    return done, rate, material(rate) if n_channels == 2 else material(rate).T.reshape(-1, 1)


@pytest.mark.parametrize("container,subtype", every_format())
def test_every_format_is_whole_for_another_program(folder, material_files, full_folder, container, subtype):
    """Right to the format's precision, also if $TMPDIR is full; or refused, and then no file is there."""
    for environment in ({**os.environ, "TMPDIR": str(full_folder)}, None):
        done, rate, x = convolve_material("y.snd", container, subtype, material_files, environment)
        if done.returncode == 0:
            return check_material("y.snd", container, subtype, rate, x)
        assert done.returncode == 1 and not (folder / "y.snd").exists(), done.stderr
        says = done.stderr.decode()
        if "TMPDIR" not in says:
            pytest.skip(says.strip())
    pytest.fail(says)


@pytest.mark.parametrize("container,subtype", [next((f, s) for f, s in every_format() if f == container)
                                               for container in sorted(soundfile.available_formats())])
def test_a_pipe_gets_a_whole_file_or_none_if_tmpdir_is_full(folder, material_files, full_folder, container, subtype):
    environment = {**os.environ, "TMPDIR": str(full_folder)}
    done, rate, x = convolve_material("-", container, subtype, material_files, environment)
    if done.returncode == 0:
        (folder / "y.snd").write_bytes(done.stdout)
        check_material("y.snd", container, subtype, rate, x)
    else:
        assert done.returncode == 1 and done.stdout == b"", done.stderr


def test_every_format_of_the_help_is_tested():
    words = good("convolve", "--help").stdout.split("Names for --format:")[1].split("subtypes")
    at_once = {"containers", "vorbis,", "opus", "and", "mp3", "name", "container", "subtype", "at", "once"}
    tested = {name for pair in every_format() for name in our_name(*pair).split(":")}
    listed = {word for word in words[0].replace(";", "").split() if word not in at_once} | set(words[1].split())
    assert listed - tested <= {"mp1", "mp2"}, "libsndfile does not write them"
    assert tested - listed <= {"sd2"}, "sd2 keeps its header in a second file"


@pytest.mark.parametrize("format,n_channels", [
    ("caf:alac20", 1), ("caf:alac20", 2), ("caf:alac16", 8), ("caf:alac16", 9), ("paf:pcm24", 3), ("paf:pcm24", 8),
    ("caf:float", 400), ("caf:double", 1024), ("wav:float", 1024), ("wav:pcm24", 300)])
def test_formats_of_many_channels_are_right_or_refused(folder, format, n_channels):
    """libsndfile writes some formats that it cannot read; haloconv refuses them before it writes."""
    write("x.wav", noise(2000, n_channels), subtype="PCM_16")
    (folder / "one.txt").write_text("1\n")
    done = haloconv("convolve", "x.wav", "one.txt", "-o", "y", "--format", format, "--backend", "cpu")
    if done.returncode == 1:
        refuses = n_channels in (2, 3, 9) and "cannot hold" in done.stderr
        assert refuses or "breaks files of caf:alac" in done.stderr
        assert not (folder / "y").exists()
    else:
        assert_close(read("y")[:2000], read("x.wav"))


@pytest.mark.parametrize("subtype,kept", [("ALAC_16", "PCM_16"), ("ALAC_20", "PCM_24"), ("ALAC_24", "PCM_24"),
                                          ("ALAC_32", "PCM_32")])
def test_alac_never_destroys_a_file(folder, subtype, kept):
    """20 s of noise overflow a buffer of libsndfile up to 1.2.2; an ALAC input gives a .caf of the same bits."""
    write("x.wav", noise(20 * 48000, 1 if subtype == "ALAC_20" else 2, 28), subtype="PCM_24")
    write("x.caf", noise(4800, 1, 29), subtype=subtype)
    (folder / "one.txt").write_text("1\n")
    (folder / "y.caf").write_bytes(b"what was there before")
    done = haloconv("convolve", "x.wav", "one.txt", "-o", "y.caf", "--dither", "off", "--format",
                    OUR_SUBTYPE[subtype])
    if done.returncode == 0:
        kept = subtype
        assert_close(read("y.caf"), read("x.wav"), quantum=2.0 ** (1 - LOSSLESS_BITS[subtype]))
    else:
        assert done.returncode == 1 and "issue 973); use --format caf:pcm24 or flac" in done.stderr, done.stderr
        assert (folder / "y.caf").read_bytes() == b"what was there before"
    good("convolve", "x.caf", "one.txt", "-o", "y.caf", "--backend", "cpu", "--dither", "off")
    assert soundfile.info("y.caf").subtype == kept
    assert_close(read("y.caf"), read("x.caf"))


@pytest.mark.parametrize("name,container,subtype", [("y.flac", "FLAC", "PCM_16"), ("y.ogg", "OGG", "VORBIS"),
                                                    ("y.opus", "OGG", "OPUS"), ("y.aiff", "AIFF", "PCM_16"),
                                                    ("y.wav", "WAV", "PCM_16"), ("y.w64", "W64", "PCM_16"),
                                                    ("y.caf", "CAF", "PCM_16"), ("y.au", "AU", "PCM_16")])
def test_extension_chooses_the_format(folder, name, container, subtype):
    write("x.wav", noise(4800, 2, 25), subtype="PCM_16")
    (folder / "one.txt").write_text("1\n")
    good("convolve", "x.wav", "one.txt", "-o", name, "--backend", "cpu")
    assert (soundfile.info(name).format, soundfile.info(name).subtype) == (container, subtype)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "DOUBLE", "PCM_U8"])
def test_output_keeps_the_inputs_format(folder, subtype):
    write("x.wav", noise(4800, 2, 25), subtype=subtype)
    (folder / "one.txt").write_text("1\n")
    good("convolve", "x.wav", "one.txt", "-o", "y.wav", "--backend", "cpu")
    assert soundfile.info("y.wav").subtype == subtype


@pytest.mark.parametrize("name,subtype",
                         [("x.flac", "PCM_24"), ("x.ogg", "VORBIS"), ("x.aiff", "PCM_32"), ("x.w64", "FLOAT")])
def test_inputs_of_other_formats(folder, name, subtype):
    write(name, noise(9000, 2, 26), subtype=subtype)
    h = noise(100, 2, 27)
    convolve(name, write("h.wav", h), "y.wav", "--format", "float")
    assert_close(read("y.wav"), full(read(name), h))


def test_impossible_format_is_refused(folder):
    write("x.wav", noise(100, 2), rate=44100)
    write("h.wav", noise(10, 1), rate=44100)
    refused("convolve", "x.wav", "h.wav", "-o", "y.opus", says=["y.opus", "48000"])
    refused("convolve", "x.wav", "h.wav", "-o", "y.wav", "--format", "flac:float", says="flac")
    refused("convolve", "x.wav", "h.wav", "-o", "y.wav", "--format", "nonsense", exit=2, says="nonsense")


# ---- standard input and output --------------------------------------------------------------------------------------
@pytest.mark.parametrize("container", ["WAV", "AU", "FLAC", "OGG"])
def test_standard_input(folder, container):
    x, h = noise(30000, 2, 28), noise(500, 2, 29)
    write("x.snd", x, subtype="VORBIS" if container == "OGG" else "PCM_16", format=container)
    write("h.wav", h)
    data = (folder / "x.snd").read_bytes()
    done = subprocess.Popen([str(HALOCONV), "convolve", "-", "h.wav", "-o", "y.wav", "--format", "float", "-q"],
                            stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    _, err = done.communicate(data, timeout=60)  # a pipe, and not a file behind standard input
    assert done.returncode == 0, err
    assert_close(read("y.wav"), full(read("x.snd"), h))


def written_to_a_pipe(path):
    """The file as a program writes it that cannot go back to put the length into the header."""
    data = bytearray(path.read_bytes())
    if path.suffix == ".flac":  # no total of samples, no checksum
        data[21] &= 0xf0
        data[22:42] = bytes(20)
    else:  # SoX's placeholders in AIFF
        data[4:8] = (0x7f000050).to_bytes(4, "big")
        comm, ssnd = data.index(b"COMM"), data.index(b"SSND")
        data[comm + 10:comm + 14] = (0x7f000000 // 4).to_bytes(4, "big")
        data[ssnd + 4:ssnd + 8] = (0x7f000008).to_bytes(4, "big")
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["x.flac", "x.aiff"])
def test_files_whose_length_nobody_knew(folder, name):
    """As an input, through a pipe, and as a mask."""
    write(name, noise(20000, 2), subtype="PCM_16")
    x = read(name)
    written_to_a_pipe(folder / name)
    (folder / "one.txt").write_text("1\n")
    convolve(name, "one.txt", "file.wav", "--format", "wav:float")
    good("convolve", "-", "one.txt", "-o", "pipe.wav", "--format", "wav:float", text=False,
         input=(folder / name).read_bytes())
    write("click.wav", np.ones((1, 2), np.float32))
    convolve("click.wav", name, "mask.wav")
    for got in ("file.wav", "pipe.wav", "mask.wav"):
        assert_close(read(got), x)


@pytest.mark.parametrize("container", ["wav", "au", "flac", "raw"])
def test_standard_output(folder, container):
    x, h = noise(30000, 2, 30), noise(500, 2, 31)
    write("x.wav", x, subtype="PCM_24")
    write("h.wav", h)
    done = haloconv("convolve", "x.wav", "h.wav", "-o", "-", "--format", f"{container}:pcm24", "--gain", "-20",
                    text=False)
    assert done.returncode == 0, done.stderr
    (folder / "y").write_bytes(done.stdout)
    want = 0.1 * full(read("x.wav"), h)
    if container == "raw":
        got = soundfile.read("y", format="RAW", samplerate=48000, channels=2, subtype="PCM_24", endian="LITTLE")[0]
    else:
        got = read("y")
    assert_close(got, want, quantum=1.01 * 2.0 ** -23)


def test_two_in_a_row_through_pipes(folder):
    x, a, b = noise(30000, 1, 32), noise(100, 1, 33), noise(300, 1, 34)
    write("x.wav", x)
    write("a.wav", a)
    write("b.wav", b)
    line = f"'{HALOCONV}' convolve x.wav a.wav -o - -q | '{HALOCONV}' convolve - b.wav -o y.wav -q"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], stderr=subprocess.PIPE, timeout=60, text=True)
    assert done.returncode == 0, done.stderr
    assert_close(read("y.wav"), full(full(x, a), b))


@pytest.mark.parametrize("cut", range(4, 24, 2))
def test_a_pipe_that_ends_in_its_header_is_an_error(folder, cut):
    """libsndfile does not end on a WAV that a pipe cuts in a LIST chunk before the samples."""
    with soundfile.SoundFile("x.wav", "w", 48000, 2, "PCM_16") as file:
        file.title = "a title"
        file.write(noise(1000, 2))
    whole = (folder / "x.wav").read_bytes()
    write("h.wav", noise(10, 1))
    done = subprocess.run([HALOCONV, "convolve", "-", "h.wav", "-o", "y.wav"], input=whole[:whole.index(b"LIST") + cut],
                          stderr=subprocess.PIPE, timeout=20, check=False)
    assert done.returncode == 1 and done.stderr.startswith(b"haloconv: ") and not (folder / "y.wav").exists()


def test_headerless_input(folder):
    x, h = noise(5000, 2, 35), noise(50, 2, 36)
    pcm = np.round(x * 32767).astype("<i2")
    (folder / "x.raw").write_bytes(pcm.tobytes())
    good("convolve", "x.raw", write("h.wav", h), "-o", "y.wav", "--raw", "48000,2,pcm16", "--format", "wav:float",
         "--backend", "cpu")
    assert_close(read("y.wav"), full(pcm / 32768.0, h))


def test_json_on_standard_output_is_one_object(folder):
    write("x.wav", noise(100, 1))
    write("h.wav", noise(10, 1))
    assert json.loads(good("convolve", "x.wav", "h.wav", "-o", "y.wav", "--json").stdout)["frames_out"] == 109
    refused("convolve", "x.wav", "h.wav", "-o", "-", "--json", exit=2)


def level(x, kind):
    return np.abs(x).max() if kind == "peak" else np.sqrt((x ** 2).mean())


@pytest.mark.parametrize("source,kind,db,options", [
    ("x.wav", "peak", 0, "--level peak"), ("x.flac", "rms", 0, "--level rms"),
    ("-", "rms", -6, "--level rms --gain -6 --dry -3"), ("-", None, -1, "--normalise -1"),
    ("x.wav", None, 6, "--normalize 6")])
def test_level_and_peak_are_as_asked(folder, backend, source, kind, db, options):
    options = options.split()
    write("x.wav", noise(300000, 2, 61, scale=0.3), subtype="FLOAT")
    if source == "x.flac":
        write("x.flac", noise(300000, 2, 61, scale=0.3), subtype="PCM_24")
    x, h = read(source if source != "-" else "x.wav"), noise(3000, 2, 62)
    with open("x.wav", "rb") as file:
        pipe = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) if source == "-" else None
        done = good("convolve", source, write("h.wav", h), "-o", "y.wav", "--format", "wav:float", "--tail", "same",
                    "--json", "--backend", backend, *options, stdin=pipe.stdout if pipe else subprocess.DEVNULL)
        if pipe:
            pipe.stdout.close()
            assert pipe.wait() == 0
    want = full(x, h)[:len(x)] + (10 ** (-3 / 20) * x if "--dry" in options else 0)
    scale = 10 ** (db / 20) * (level(x, kind) / level(want, kind) if kind else 1 / np.abs(want).max())
    assert_close(read("y.wav"), scale * want, share=3 * PEAK_SHARE)
    report = json.loads(done.stdout)
    assert report["peak"] == pytest.approx(np.abs(scale * want).max(), rel=1e-5)
    assert report["scaled_db"] == pytest.approx(20 * np.log10(scale), abs=1e-4) and "scaled by" in done.stderr
    if kind is None:
        assert report["peak"] <= 10 ** (db / 20)


def test_scaled_outputs_at_the_edges(folder, full_folder):
    write("x.wav", noise(20000, 1, 63), subtype="PCM_16")
    write("h.wav", noise(100, 1, 64))
    assert convolve("x.wav", "h.wav", "y.wav", "--normalise", "0")["clipped"] == 0
    assert np.abs(read("y.wav")).max() > 1 - 2 ** -14
    report = convolve("x.wav", "h.wav", "y.wav", "--normalise", "3")
    assert report["clipped"] > 0
    says = good("convolve", "x.wav", "h.wav", "-o", "y.wav", "--normalise", "3").stderr
    assert "--normalise -0.1 would have avoided it" in says or "--normalise 0.0 would have avoided it" in says, says
    assert convolve("x.wav", "h.wav", "y.wav", "--level", "rms", "--gain", "off")["scaled_db"] is None
    write("silence.wav", np.zeros((100, 1)))
    for option in (["--level", "rms"], ["--level", "peak"], ["--normalise", "-1"]):
        convolve("silence.wav", "h.wav", "y.wav", *option)
        assert not read("y.wav").any(), "silence stays silence"
    x = noise(3000, 1, 65)
    write("clean.wav", np.where(np.arange(3000)[:, None] == 77, 0, x))
    x[77] = np.nan
    write("nan.wav", x)
    for name in ("clean", "nan"):
        convolve(f"{name}.wav", "h.wav", f"y-{name}.wav", "--level", "rms")
    assert filecmp.cmp("y-clean.wav", "y-nan.wav", shallow=False), "a sample that is not finite counts as 0"
    refused("convolve", "x.wav", "h.wav", "-o", "y.wav", "--level", "rms", "--normalise", "-1", exit=2, says="one of")
    refused("convolve", "x.wav", "h.wav", "-o", "y.wav", "--gain", "1", "--normalise", "-1", exit=2, says="--gain")
    refused("convolve", "x.wav", "h.wav", "-o", "z.wav", "--level", "rms", says="TMPDIR",
            env={**os.environ, "TMPDIR": str(full_folder)})
    assert not (folder / "z.wav").exists()


DITHERED = {"wav:pcm16": 16, "flac:pcm16": 16, "wav:pcmu8": 8, "aiff:pcms8": 8}


@pytest.mark.parametrize("format", [*DITHERED, "wav:pcm24", "wav:ulaw"])
def test_16_bits_or_fewer_are_dithered(folder, format):
    """A sine of 0.4 steps is heard through the dither; without dither it is silence. Other formats have no dither."""
    bits = DITHERED.get(format, 16)
    x = 0.4 * 2.0 ** (1 - bits) * np.sin(np.arange(40000) * 0.05)[:, None]
    args = ["convolve", write("x.wav", x), write("h.wav", noise(1, scale=0) + 1), "-q", "--format", format, "-o"]
    good(*args, "y.snd")
    good(*args, "off.snd", "--dither", "off")
    if format not in DITHERED:
        assert filecmp.cmp("off.snd", "y.snd", shallow=False)
        return
    assert not read("off.snd").any()
    heard = (read("y.snd") * x).sum() / (x ** 2).sum()  # its noise: the power of the error is 1/4 step
    assert abs(heard - 1) < 5 * 0.5 / np.sqrt(((x * 2.0 ** (bits - 1)) ** 2).sum())


def test_dither_is_the_same_everywhere(folder, backend):
    """On the CPU and on a device, with any blocks and any number of workers; in the frames that are there."""
    x = noise(30000, 2, 51)
    write("x.wav", x, subtype="PCM_16")
    (folder / "one.txt").write_text("0\n0\n1\n")
    (folder / "l.csv").write_text("".join(["input,mask,output\n"] + [f"x.wav,one.txt,{i}.wav\n" for i in range(5)]))
    convolve("x.wav", "one.txt", "want.wav", "--method", "direct", "--tail", "centre")
    assert 0 < np.abs(read("want.wav") - np.pad(x, ((1, 0), (0, 0)))[:-1]).max() <= 1.5 * 2.0 ** -15 + 2.0 ** -16
    convolve("x.wav", "one.txt", "y.wav", "--method", "direct", "--tail", "centre", "--block", 777, backend=backend)
    assert filecmp.cmp("y.wav", "want.wav", shallow=False)
    for workers in (1, 4):
        good("batch", "l.csv", "-o", f"out{workers}", "--workers", workers, "--method", "direct", "--tail", "centre",
             "--backend", backend, "-q", "--dither", "tpdf")
        assert all(filecmp.cmp(f"out{workers}/{i}.wav", "want.wav", shallow=False) for i in range(5))
    good("batch", "l.csv", "-o", "out4", "--dither", "off", "--method", "direct", "--tail", "centre", "--resume", "-q")
    assert not filecmp.cmp("out4/0.wav", "want.wav", shallow=False), "--resume makes it again with other dither"


def test_a_file_too_long_for_riff_becomes_rf64(folder):
    """A test build of the program, in which a RIFF file holds 1 MB of samples."""
    riff = [str(BUILD / "tests/haloconv_riff"), "convolve"]

    def run(*options):
        return subprocess.run([*riff, *map(str, options), "--backend", "cpu", "--method", "direct", "-q"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=100,
                              text=True)

    (folder / "half.txt").write_text("0.5\n")
    for n, is_long in [(125000, False), (125001, True)]:  # 8 bytes each
        x = noise(n)
        x.tofile("x.raw")
        done = run("x.raw", "half.txt", "-o", "y.wav", "--raw", "48000,1,float", "--format", "wav:double")
        assert done.returncode == 0, done.stderr
        info = soundfile.info("y.wav")
        assert info.frames == n and info.format == ("RF64" if is_long else "WAV"), info
        assert_close(read("y.wav"), 0.5 * x)
        done = run("x.raw", "half.txt", "-o", "y.aiff", "--raw", "48000,1,float", "--format", "aiff:double")
        assert done.returncode == (1 if is_long else 0), done.stderr
        assert not is_long or "use --format rf64" in done.stderr, done.stderr


def test_more_than_4_gib_becomes_rf64(folder):
    """Silence of 4.3 GB, from a pipe of zeros to a sparse file: only if the disk has enough space."""
    if not os.environ.get("HC_TEST_LONG"):
        pytest.skip("it writes 4 GiB: make soak runs it, and the test above has a smaller limit")
    if shutil.disk_usage(".").free < 12e9:
        pytest.skip("the disk has not enough space")
    (folder / "one.txt").write_text("1\n")
    n = (1 << 32) // 8 + 1000  # frames of 8 channels of 16 bits: just over 4 GiB on the way out as float
    with open("x.raw", "wb") as file:
        file.truncate(n * 2)
    report = convolve("x.raw", "one.txt", "y.wav", "--raw", "48000,1,pcm16", "--format", "wav:double", "--method",
                      "direct")
    assert report["frames_out"] == n
    info = soundfile.info("y.wav")
    assert info.frames == n and info.format == "RF64", info
