"""Masks from strangers: a file that is too long is refused before it takes memory or hours."""

import os
import resource
import struct
import subprocess

import numpy as np
import pytest
from conftest import HALOCONV, SAN, good, measured, refused, write

GB = 1 << 30
FEW_MB = 300 if SAN else 60  # of the program itself; reading a file of 10 GB took 4100
PCM16 = struct.pack("<HHIIHH", 1, 1, 48000, 96000, 2, 16)


def ends_in_little_memory(*args, exits, says=""):
    done, megabytes = measured(*args, capture_output=True, text=True)
    assert done.returncode in exits and says in done.stderr, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    assert megabytes < FEW_MB, f"{megabytes} MB: {done.stderr}"


def refused_in_little_memory(*args, says):
    ends_in_little_memory(*args, exits=[1], says=says)


def sparse(name, head, size, tail=b""):
    """A file of `size` bytes with a hole behind its head."""
    with open(name, "wb") as f:
        f.write(head)
        f.seek(size - len(tail))
        f.write(tail)
        f.truncate(size)
    return name


def wav(fmt=PCM16, claim=0xffffffff):
    return b"RIFF\xff\xff\xff\xffWAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", claim)


def rf64(claim):
    return (b"RF64\xff\xff\xff\xffWAVEds64" + struct.pack("<IQQQI", 28, claim + 72, claim, claim // 2, 0) + b"fmt " +
            struct.pack("<I", 16) + PCM16 + b"data\xff\xff\xff\xff")


def w64(claim):
    def guid(name):
        return name + bytes.fromhex("F3ACD3118CD100C04F8EDB8A")

    return (b"riff" + bytes.fromhex("2E91CF11A5D628DB04C10000") + struct.pack("<Q", claim + 104) + guid(b"wave") +
            guid(b"fmt ") + struct.pack("<Q", 40) + PCM16 + guid(b"data") + struct.pack("<Q", claim + 24))


def caf(claim):
    return (b"caff\0\1\0\0desc" + struct.pack(">qd4sIIIII", 32, 48000, b"lpcm", 0, 2, 1, 1, 16) + b"data" +
            struct.pack(">q", claim) + bytes(4))


def aiff(claim):
    return (b"FORM\xff\xff\xff\xf0AIFFCOMM" + struct.pack(">IhIh", 18, 1, claim // 2, 16) +
            bytes([0x40, 14, 0xbb, 0x80, 0, 0, 0, 0, 0, 0]) + b"SSND" + struct.pack(">III", claim + 8, 0, 0))


HEADS = {"wav": wav(), "rf64": rf64(10 * GB - 200), "w64": w64(10 * GB - 200), "caf": caf(10 * GB - 200),
         "aiff": aiff(4 * GB - 100), "au": b".snd" + struct.pack(">IIIII", 24, 0xffffffff, 3, 48000, 1)}


@pytest.mark.parametrize("kind", HEADS)
def test_a_long_sound_file_is_refused_by_its_header(folder, kind):
    refused_in_little_memory("info", sparse(f"long.{kind}", HEADS[kind], 10 * GB), says="is longer than 268435456")


@pytest.mark.parametrize("rate,to,says", [(6000, 96000, "is longer than 16777216"), (1, 48000, "too far"),
                                          (0x7fffffff, 48000, "too far")],
                         ids=["long", "slow", "fast"])
def test_the_length_counts_that_the_mask_will_have_at_the_sessions_rate(folder, rate, to, says):
    fmt = struct.pack("<HHIIHH", 1, 1, rate, rate, 1, 8)
    sparse("slow.wav", wav(fmt), 100 << 20)
    refused_in_little_memory("check", "slow.wav", "--rate", to, says=says)


@pytest.mark.parametrize("name,head,tail,says",
                         [("a.txt", b"1\n", b"", "a.txt:2: is not text"),
                          ("b.csv", b"1,2\n", b"\n3,4\n", "b.csv:2: is not text"),
                          ("c.conf", b"/convolver/new 1 1 64 100\n", b"", "name a file that is a configuration")],
                         ids=["txt", "csv", "conf"])
def test_a_text_with_a_hole_is_refused_in_little_memory(folder, name, head, tail, says):
    refused_in_little_memory("check", sparse(name, head, GB, tail), says=says)


@pytest.mark.parametrize("name,first", [("a.txt", "1"), ("b.csv", "1,2"), ("c.conf", "/convolver/new 1 1 64 100")],
                         ids=["txt", "csv", "conf"])
def test_a_line_has_at_most_65536_bytes(folder, name, first):
    (folder / name).write_text(f"{first}\n#{65535 * 'x'}\n")
    good("check", name)
    (folder / name).write_text(f"{first}\n#{65536 * 'x'}\n")
    refused("check", name, says=[f"{name}:2: ", "65536"])


@pytest.mark.skipif(bool(SAN), reason="a sanitizer needs terabytes of addresses")
def test_taps_do_not_vanish_for_lack_of_memory(folder):
    """A text whose third line does not fit into memory is not a text of two lines."""
    sparse("h.txt", b"1\n0.5\n#", GB, b"\n0.25\n")
    refused("info", "h.txt", says="h.txt:3: ",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (GB * 3 // 4, GB * 3 // 4)))


FLAC = b"fLaC\x80\0\0\x22\x10\0\x10\0\0\0\0\0\0\0\x0b\xb8\0\xff\xff\xff\xff\xff" + bytes(16)
LIES = {"caf": (caf(1 << 61), 1000), "w64": (w64(1 << 61), 1000), "rf64": (rf64(1 << 61), 1000), "flac": (FLAC, 1000),
        "wav": (wav(claim=200), 10 * GB), "aiff": (aiff(200), 10 * GB)}


@pytest.mark.parametrize("kind", LIES)
def test_a_header_that_lies_takes_no_memory(folder, kind):
    """One that claims 2^60 frames in a small file, and one that claims 100 in a large file."""
    ends_in_little_memory("info", sparse(f"lie.{kind}", *LIES[kind]), exits=[0, 1])


@pytest.mark.parametrize("ending", ["wav", "txt", "conf"])
def test_a_file_without_an_end_is_refused_at_once(folder, ending):
    """A pipe whose writer never comes, and a device: also as a sound file of a configuration."""
    os.mkfifo(f"pipe.{ending}")
    os.symlink("/dev/zero", f"zero.{ending}")
    for name in [f"pipe.{ending}", f"zero.{ending}"]:
        refused("check", name, says=[name, "not a regular file"], timeout=60)
        if ending != "conf":
            (folder / "t.conf").write_text(f"/convolver/new 1 1 64 100\n/impulse/read 1 1 1 0 0 0 1 {name}\n")
            refused("check", "t.conf", says=["t.conf:2", name, "not a regular file"], timeout=60)


@pytest.mark.parametrize("command", [
    ["run", "./pipe"], ["batch", "pipe", "-o", "out"], ["convolve", "x.wav", "bank.csv", "-o", "y.wav", "--path", "pipe"],
    ["live", "h.wav", "--midi-map", "pipe"], ["design", "correct", "h.wav", "-o", "y.wav", "--target", "pipe"]],
    ids=["run", "batch", "path", "midi-map", "target"])
def test_a_named_pipe_is_no_text(folder, command):
    os.mkfifo("pipe")
    for name in ("x.wav", "h.wav"):
        write(name, np.ones((100, 1), np.float32))
    (folder / "bank.csv").write_text("file,azimuth,elevation,distance\nh.wav,0,0,1\nx.wav,90,0,1\n")
    refused(*command, exit=2 if command[0] == "run" else 1, says=["pipe", "not a regular file"], timeout=20)


def test_a_pipe_of_the_shell_is_a_list(folder):
    write("x.wav", np.ones((100, 1), np.float32))
    run = f"{HALOCONV} batch <(printf 'input,mask,output\nx.wav,x.wav,y.wav\n') -o out -q"
    assert subprocess.run(["bash", "-c", run], check=False).returncode == 0 and (folder / "out/y.wav").exists()


def test_filters_in_series_are_counted_before_they_are_made(folder):
    """15 s and 1.6 GB of convolutions came before the refusal."""
    (folder / "eq.txt").write_text("Filter: ON PK Fc 50 Hz Gain -6 dB Q 2\n" * 19000)
    done, megabytes = measured("check", "eq.txt", capture_output=True, text=True)
    assert done.returncode == 1 and "need more than 134217728 taps in all" in done.stderr, done.stderr
    assert megabytes < (FEW_MB if not SAN else 800), megabytes  # AddressSanitizer keeps 256 MB of what is freed


def test_adding_up_has_an_end(folder):
    """Half a megabyte of text would keep a live session's loader busy for many minutes."""
    write("long.wav", np.zeros((1 << 24, 1), np.int16), subtype="PCM_U8")
    (folder / "t.conf").write_text("/convolver/new 1 1 64 16777216\n" + "/impulse/read 1 1 1 0 0 0 1 long.wav\n" * 5000)
    refused("info", "t.conf", says=["t.conf:4099: ", "put their sum into a sound file", "and 902 more"], timeout=60)


# ---- files of other kinds --------------------------------------------------------------------------------------------
FOREIGN = {  # name, first bytes, what is told
    "zip": ("x.wav", b"PK\3\4\x14\0\0\0", "is a zip archive; unpack it"),
    "gzip": ("x.wav", b"\x1f\x8b\x08\0", "is compressed by gzip; unpack it"),
    "7z": ("x.wav", b"7z\xbc\xaf\x27\x1c\0\4", "is a 7z archive; unpack it"),
    "rar": ("x.wav", b"Rar!\x1a\7\1\0", "is a rar archive; unpack it"),
    "xz": ("x.wav", b"\xfd7zXZ\0", "is compressed by xz; unpack it"),
    "page": ("x.wav", b"<!DOCTYPE html>\n<html><head>", "is a web page; download the file itself"),
    "page as text": ("x.txt", b"<!DOCTYPE html>\n<html><head>", "is a web page; download the file itself"),
    "page as configuration": ("x.conf", b"<html>\n<head>", "is a web page; download the file itself"),
    "EasyEffects": ("x.json", b'{\n "output": {"convolver#0": {"kernel-name": "hall"}}}', "is JSON, but no preset of EasyEffects"),
    "JamesDSP": ("x.txt", b"bass_enable=false\nconvolver_file=/home/me/hall.irs\n", "give its name the ending .conf"),
    "MP4": ("x.m4a", b"\0\0\0\x1cftypM4A \0\0\2\0", "is an MP4 (M4A); convert it to WAV: ffmpeg -i FILE FILE.wav"),
    "git-lfs": ("x.wav", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "run git lfs pull"),
    "PDF": ("x.wav", b"%PDF-1.7\n%", "is a PDF"),
    "HDF5": ("x.wav", b"\x89HDF\r\n\x1a\n", "the ending .sofa"),
    "Ogg": ("x.ogg", b"OggS\0\2" + bytes(20) + b"\1\x33\x7fFLAC\1\0", "is a FLAC in Ogg; convert it to WAV"),
    "bank": ("x.txt", b"Audiotec_Fischer\r\nBand1\r\n", "export the filters from REW as text"),
    "table": ("x.txt", b"Number\tEnabled\tControl\tType\n1\tTrue\tAuto\tPK\n", "export the filters as text"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_kind_is_named_with_the_way_out(folder, kind):
    name, head, says = FOREIGN[kind]
    (folder / name).write_bytes(head.ljust(600, b"\0" if b"\0" in head else b" "))
    refused("info", name, says=f"{name}: ")
    refused("info", name, says=says)
    if not name.endswith((".txt", ".conf")):
        write("ir.wav", np.ones(4, dtype=np.float32), 48000)
        refused("convolve", name, "ir.wav", "-o", "y.wav", says=says)


@pytest.mark.parametrize("name,code", [("x.opus", ("OGG", "OPUS")), ("x.ogg", ("OGG", "VORBIS")),
                                       ("x.wav", ("WAV", "IMA_ADPCM")), ("x.au", ("AU", "ULAW")), ("x.flac", ("FLAC", "PCM_24")),
                                       ("y.wav", ("WAV", "FLOAT"))])
def test_a_mask_of_a_lossy_code_is_told(folder, name, code):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(name, 0.5 * np.sin(np.arange(4800) / 9), 48000, format=code[0], subtype=code[1])
    is_lossy = name != "y.wav" and name != "x.flac"
    assert (f"{name}: warning: its samples have a lossy code" in good("info", name).stderr) == is_lossy
