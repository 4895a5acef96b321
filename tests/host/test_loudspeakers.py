"""The loudspeakers of the channels: an output has those of its input, or one line says that its format cannot keep
them. They are read and written here without libsndfile."""

import io
import shutil
import struct
import subprocess
import tarfile

import numpy as np
import pytest
from conftest import HALOCONV, good, noise, write
from test_sound_headers import PCM, encode, fmt, samples, wav

# by name, where a reader would look for them: 5.1 and 5.1(side), 7.1 and 7.1(wide), 4.0 and quad, ...
MASKS = {"mono": 0x4, "left": 0x1, "stereo": 0x3, "rear pair": 0x600, "lrc": 0x7, "4.0": 0x107, "quad": 0x33,
         "quad side": 0x603, "5.0": 0x37, "5.0 side": 0x607, "5.1": 0x3f, "5.1 side": 0x60f, "6.1": 0x70f,
         "7.1": 0x63f, "7.1 wide": 0xff, "5.1.2": 0x503f}
AMBISONIC = bytes.fromhex("2107d3118644c8c1ca000000")


def extensible(path, n_channels, mask, bits=24):
    data, _ = encode(samples(n_channels), PCM, bits, bits // 8)
    path.write_bytes(wav(fmt(PCM, n_channels, bits, n_channels * bits // 8, 40, loudspeakers=mask), data))


def loudspeakers(content):
    """The channel mask of a WAV or RF64; None: it has no field for one."""
    assert content[:4] in (b"RIFF", b"RF64") and content[8:12] == b"WAVE"
    at = 12
    while content[at:at + 4] != b"fmt ":
        at += 8 + struct.unpack_from("<I", content, at + 4)[0]
    tag, n_channels = struct.unpack_from("<HH", content, at + 8)
    return struct.unpack_from("<I", content, at + 28)[0] if tag == 0xFFFE else None


def count(mask):
    return bin(mask).count("1")


@pytest.fixture
def one(folder):
    write("one.wav", np.array([[1.0]]))
    return folder


@pytest.mark.parametrize("name", MASKS)
def test_an_output_has_the_loudspeakers_of_its_input(one, backend, name):
    mask = MASKS[name]
    extensible(one / "in.wav", count(mask), mask)
    for options in ([], ["--format", "rf64:float"], ["--format", "wavex:pcm16"], ["--format", "float"]):
        done = good("convolve", "in.wav", "one.wav", "-o", "out.wav", "--backend", backend, *options)
        assert loudspeakers((one / "out.wav").read_bytes()[:99]) == mask, options
        assert "loudspeakers" not in done.stderr


@pytest.mark.parametrize("n_channels", [1, 2, 4, 6, 8])
def test_an_input_without_loudspeakers_stays_without(one, n_channels):
    extensible(one / "in.wav", n_channels, 0)
    good("convolve", "in.wav", "one.wav", "-o", "out.wav")
    assert loudspeakers((one / "out.wav").read_bytes()[:99]) == 0
    data, _ = encode(samples(n_channels), PCM, 16, 2)
    (one / "plain.wav").write_bytes(wav(fmt(PCM, n_channels, 16, n_channels * 2), data))
    good("convolve", "plain.wav", "one.wav", "-o", "out.wav")
    assert loudspeakers((one / "out.wav").read_bytes()) is None


def test_more_or_fewer_loudspeakers_than_channels_are_kept(one):
    for n_channels, mask in ((6, 0x3), (2, 0x3f), (3, 0x80000000)):
        extensible(one / "in.wav", n_channels, mask)
        good("convolve", "in.wav", "one.wav", "-o", "out.wav")
        assert loudspeakers((one / "out.wav").read_bytes()[:99]) == mask


def test_a_pipe_has_the_loudspeakers_of_its_input(one):
    extensible(one / "in.wav", 6, 0x60f)
    for command in (f"{HALOCONV} convolve in.wav one.wav -o - > out.wav",
                    f"cat in.wav | {HALOCONV} convolve - one.wav -o out.wav",
                    f"cat in.wav | {HALOCONV} convolve - one.wav -o - | cat > out.wav"):
        subprocess.run(command, shell=True, check=True, timeout=60, capture_output=True)
        assert loudspeakers((one / "out.wav").read_bytes()[:99]) == 0x60f, command


def test_a_mask_with_other_channels_gives_the_usual_loudspeakers(one):
    """A stereo mix of 5.1 is left and right; 5.1 of mono is 5.1; other numbers have none."""
    extensible(one / "in.wav", 1, 0x4)
    for n_out, mask in ((2, 0x3), (4, 0), (6, 0x3f), (7, 0), (8, 0x63f)):
        write("many.wav", noise(5, n_out))
        good("convolve", "in.wav", "many.wav", "-o", "out.wav")
        assert loudspeakers((one / "out.wav").read_bytes()[:99]) == mask, n_out
    extensible(one / "in.wav", 1, 0)
    good("convolve", "in.wav", "many.wav", "-o", "out.wav")
    assert loudspeakers((one / "out.wav").read_bytes()[:99]) == 0


def flac(path, n_channels, mask=None):
    """A FLAC as other programs write it; mask: with a comment about its loudspeakers."""
    write(path, noise(100, n_channels), subtype="PCM_16", format="FLAC")
    if mask is None:
        return
    content = path.read_bytes()
    text = f"WAVEFORMATEXTENSIBLE_CHANNEL_MASK=0x{mask:04X}".encode()
    comments = struct.pack("<I4sII5sI", 4, b"test", 2, 5, b"A=bcd", len(text)) + text
    end = 4 + 4 + 34  # behind STREAMINFO, which is now not the last block
    blocks, at, last = [], end, bool(content[4] & 0x80)
    while not last:
        last, size = bool(content[at] & 0x80), int.from_bytes(content[at + 1:at + 4], "big")
        at += 4 + size
    path.write_bytes(content[:4] + bytes([0]) + content[5:end] + bytes([0x84]) + len(comments).to_bytes(3, "big") +
                     comments + content[at:])


def test_a_flac_has_the_loudspeakers_of_its_specification(one):
    for n_channels, mask in enumerate((0x4, 0x3, 0x7, 0x33, 0x37, 0x3f, 0x70f, 0x63f), 1):
        flac(one / "in.flac", n_channels)
        good("convolve", "in.flac", "one.wav", "-o", "out.wav")
        assert loudspeakers((one / "out.wav").read_bytes()[:99]) == (None if n_channels <= 2 else mask)
        good("convolve", "out.wav", "one.wav", "-o", "again.flac")
        said = good("convolve", "in.flac", "one.wav", "-o", "again.flac").stderr
        assert "loudspeakers" not in said


def test_the_comment_of_a_flac_gives_its_loudspeakers(one):
    for mask in (0x60f, 0x107, 0x600):
        flac(one / "in.flac", count(mask), mask)
        said = good("convolve", "in.flac", "one.wav", "-o", "out.wav").stderr
        assert loudspeakers((one / "out.wav").read_bytes()[:99]) == mask and "loudspeakers" not in said
        said = good("convolve", "in.flac", "one.wav", "-o", "out.flac").stderr
        assert f"does not keep the loudspeakers of the input (channel mask 0x{mask:x}); use --format wavex" in said


@pytest.mark.parametrize("ending,options", [("w64", []), ("flac", []), ("au", []), ("caf", []), ("aiff", []),
                                            ("wav", ["--format", "wav:pcm16"])])
def test_a_format_that_cannot_keep_them_is_named_once(one, ending, options):
    for i in range(3):
        extensible(one / f"in{i}.wav", 6, 0x60f)
    said = good("convolve", "in0.wav", "one.wav", "-o", f"out.{ending}", *options).stderr
    assert said.count("does not keep the loudspeakers") == 1 and f"out.{ending}: {ending}" in said
    said = good("batch", "--inputs", "in*.wav", "--masks", "one.wav", "-o", "out", "--format", ending).stderr
    assert said.count("does not keep the loudspeakers") == 1


def test_a_batch_keeps_the_loudspeakers(one, backend):
    inputs = {"side.wav": 0x60f, "seven.wav": 0x63f, "none.wav": 0}
    (one / "in").mkdir()
    for name, mask in inputs.items():
        extensible(one / "in" / name, count(mask) or 4, mask)
    with tarfile.open("in.tar", "w") as tar:
        for name in inputs:
            tar.add(one / "in" / name, name)
    good("batch", "--inputs", "in/*", "--masks", "one.wav", "-o", "out", "--backend", backend)
    good("batch", "--inputs", "in.tar", "--masks", "one.wav", "-o", "tars", "--backend", backend)
    made, = one.glob("tars/*.tar")
    with tarfile.open(made) as tar:
        for name, mask in inputs.items():
            written, = one.glob(f"out/{name[:-4]}*.wav")
            assert loudspeakers(written.read_bytes()[:99]) == mask
            assert loudspeakers(tar.extractfile(name).read()) == mask


@pytest.mark.parametrize("options", [["--format", "wavex:float"], ["--format", "rf64:float"]])
def test_a_mask_has_the_usual_loudspeakers(one, options):
    write("two.wav", noise(100, 2))
    good("mask", "trim", "two.wav", "-o", "out.wav", *options)
    assert loudspeakers((one / "out.wav").read_bytes()[:99]) == MASKS["stereo"]


def test_b_format_stays_b_format(one):
    extensible(one / "in.wav", 4, 0)
    content = (one / "in.wav").read_bytes()
    at = content.index(bytes.fromhex("000000001000800000aa00389b71"))
    (one / "in.wav").write_bytes(content[:at] + b"\0\0" + AMBISONIC + content[at + 14:])
    good("convolve", "in.wav", "one.wav", "-o", "out.wav")
    assert AMBISONIC in (one / "out.wav").read_bytes()[:100]


def test_ffmpeg_reads_the_same_layout(one):
    if not shutil.which("ffprobe"):
        pytest.skip("no ffprobe")
    for mask, layout in ((0x60f, "5.1(side)"), (0x63f, "7.1"), (0x107, "4.0"), (0x3f, "5.1")):
        extensible(one / "in.wav", count(mask), mask)
        good("convolve", "in.wav", "one.wav", "-o", "out.wav")
        done = subprocess.run(["ffprobe", "-v", "error", "-show_entries", "stream=channel_layout", "-of", "csv=p=0",
                               "out.wav"], capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout.strip() == layout
