"""The chunks beside the samples of WAV and AIFF: `haloconv convolve` and `batch` keep them, or name them."""

import random
import struct

import numpy as np
import pytest
import soundfile
from conftest import good, haloconv, noise, write

RATE = 48000
TIME, CUES = 123456789012, [1000, 3000]


def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def bext(version=2):
    body = bytearray(602) + b"A=PCM,F=48000,W=16\r\n"
    body[:9] = b"Some news"
    body[338:348] = struct.pack("<QH", TIME, version)
    body[412:422] = struct.pack("<5h", -2300, 500, -100, -1800, -2000)
    return bytes(body)


def kept_chunks(labels=(b"verse", b"chorus!")):
    points = [struct.pack("<II4sIII", i + 1, at, b"data", 0, 0, at) for i, at in enumerate(CUES)]
    names = [chunk(b"labl", struct.pack("<I", i + 1) + text + b"\0") for i, text in enumerate(labels)]
    return {b"bext": bext(), b"cue ": struct.pack("<I", 2) + b"".join(points), b"LIST": b"adtl" + b"".join(names),
            b"smpl": struct.pack("<9I", 0, 0, 20833, 60, 0, 0, 0, 1, 0) + struct.pack("<6I", 7, 0, 1500, 1900, 0, 0),
            b"iXML": b"<BWFXML></BWFXML>"}


def recording(path, chunks, n=5000):
    """A WAV of 16 bits: bext before the samples, the others behind."""
    form = chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16))
    body = [chunk(k, v) for k, v in chunks.items()]
    data = chunk(b"data", (noise(n, seed=1)[:, 0] * 20000).astype("<i2").tobytes())
    all_of_it = b"WAVE" + b"".join(b for b in body if b[:4] == b"bext") + form + data
    all_of_it += b"".join(b for b in body if b[:4] != b"bext")
    path.write_bytes(b"RIFF" + struct.pack("<I", len(all_of_it)) + all_of_it)


def found_chunks(path, order="<"):
    data, at, found = path.read_bytes(), 12, {}
    while at + 8 <= len(data):
        size = struct.unpack(order + "I", data[at + 4:at + 8])[0]
        found[data[at:at + 4]] = data[at + 8:at + 8 + size]
        at += 8 + size + size % 2
    return found


@pytest.fixture
def bwf(folder):
    recording(folder / "in.wav", kept_chunks())
    write(folder / "h.wav", noise(300, seed=2, scale=0.01), RATE)
    return folder


@pytest.mark.parametrize("form", ["wav", "wavex", "rf64"])
@pytest.mark.parametrize("labels", [(b"verse", b"chorus!"), (b"a", b"b"), (b"ab", b"abc"), (b"", b"12345678")])
def test_chunks_of_a_wav_are_kept(bwf, form, labels):
    chunks = kept_chunks(labels)
    recording(bwf / "in.wav", chunks)
    done = good("convolve", "in.wav", "h.wav", "-o", "out.wav", "--format", form, "--backend", "cpu")
    assert "dropped" not in done.stderr and len(soundfile.read("out.wav")[0]) == 5299
    got = found_chunks(bwf / "out.wav")
    for name in (b"cue ", b"smpl"):
        assert got[name] == chunks[name], name
    loudness_unknown = chunks[b"bext"][:412] + b"\xff\x7f" * 5 + chunks[b"bext"][422:]
    assert got[b"bext"].rstrip(b"\0") == loudness_unknown and got[b"iXML"].strip() == chunks[b"iXML"]
    at, texts = 4, []
    while at < len(got[b"LIST"]):
        size = struct.unpack("<I", got[b"LIST"][at + 4:at + 8])[0]
        texts.append(got[b"LIST"][at + 12:at + 8 + size].split(b"\0")[0])
        at += 8 + size + size % 2
    assert tuple(texts) == labels and at == len(got[b"LIST"])


def test_a_cut_input_moves_its_times(bwf):
    (bwf / "l.csv").write_text("input,mask,output,start\nin.wav,h.wav,o.wav,0.03\n")  # 1440 frames
    done = good("batch", "l.csv", "-o", "out", "--backend", "cpu")
    got = found_chunks(bwf / "out/o.wav")
    assert "dropped" not in done.stderr and struct.unpack("<Q", got[b"bext"][338:346])[0] == TIME + 1440
    assert got[b"cue "] == struct.pack("<I", 1) + struct.pack("<II4sIII", 2, 1560, b"data", 0, 0, 1560)
    assert struct.unpack("<6I", got[b"smpl"][36:]) == (7, 0, 60, 460, 0, 0)


def test_dropped_chunks_are_named_once(bwf):
    said = "out.flac: dropped: bext, cue, smpl, LIST, iXML\n"
    assert said in good("convolve", "in.wav", "h.wav", "-o", "out.flac", "--backend", "cpu").stderr
    recording(bwf / "in.wav", {b"LIST": b"INFO" + chunk(b"INAM", b"A title\0")})
    done = good("convolve", "in.wav", "h.wav", "-o", "out.flac", "--backend", "cpu")
    assert "dropped" not in done.stderr and soundfile.SoundFile("out.flac").title == "A title"
    recording(bwf / "in.wav", {b"bext": bext(), b"iXML": b"x" * 70000})
    done = good("convolve", "in.wav", "h.wav", "-o", "out.wav", "--backend", "cpu")
    assert "out.wav: dropped: iXML\n" in done.stderr and b"bext" in found_chunks(bwf / "out.wav")
    recorded = (bwf / "in.wav").read_bytes()
    done = good("convolve", "-", "h.wav", "-o", "out.wav", "--backend", "cpu", input=recorded, text=False)
    assert b"out.wav: dropped: bext" in done.stderr
    for name in ("a.wav", "b.wav"):
        recording(bwf / name, {b"bext": bext()})
    done = good("batch", "--inputs", "[ab].wav", "--masks", "h.wav", "-o", "out", "--format", "flac", "--backend", "cpu")
    assert done.stderr.count("dropped: bext\n") == 1, done.stderr


def test_markers_of_an_aiff_are_kept(bwf):
    mark = struct.pack(">H", 1) + struct.pack(">HI", 1, 1234) + b"\x05verse"
    samples = (noise(2000, seed=1)[:, 0] * 20000).astype(">i2").tobytes()
    rate = b"\x40\x0e\xbb\x80" + bytes(6)
    parts = [(b"COMM", struct.pack(">hIh", 1, 2000, 16) + rate), (b"MARK", mark), (b"SSND", bytes(8) + samples)]
    body = b"AIFF" + b"".join(k + struct.pack(">I", len(v)) + v for k, v in parts)
    (bwf / "in.aiff").write_bytes(b"FORM" + struct.pack(">I", len(body)) + body)
    done = good("convolve", "in.aiff", "h.wav", "-o", "out.aiff", "--backend", "cpu")
    assert "dropped" not in done.stderr and found_chunks(bwf / "out.aiff", ">")[b"MARK"].rstrip(b"\0") == mark
    assert "out.wav: dropped: MARK\n" in good("convolve", "in.aiff", "h.wav", "-o", "out.wav", "--backend", "cpu").stderr


def test_damaged_chunks_damage_no_output(bwf):
    """Whatever a chunk has: the samples of the output can be read, and are the same."""
    random.seed(1)
    good("convolve", "in.wav", "h.wav", "-o", "want.wav", "--backend", "cpu", "-q")
    want = soundfile.read("want.wav")[0]
    for _ in range(40):
        chunks = {name: bytearray(data) for name, data in kept_chunks().items()}
        for name, data in chunks.items():
            for _ in range(random.choice([0, 1, 4])):
                data[random.randrange(4 * (name == b"LIST"), len(data))] = random.choice([0, 1, 127, 255])
            del data[len(data) - random.choice([0, 0, 1, 7, len(data)]):]
        recording(bwf / "in.wav", chunks)
        done = haloconv("convolve", "in.wav", "h.wav", "-o", "out.wav", "--backend", "cpu", "-q")
        assert done.returncode in (0, 1), done.stderr
        if done.returncode == 0:
            assert np.array_equal(soundfile.read("out.wav")[0], want), chunks
