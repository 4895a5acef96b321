"""Headers of sound files by every writer: the samples are those that the header means, as a mask, as an input and from
a pipe, or one line refuses the file. The samples are decoded here, without libsndfile."""

import io
import itertools
import struct
import subprocess
import tarfile

import numpy as np
import pytest
from conftest import HALOCONV, assert_close, good, haloconv, read, write

N = 61
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
UNCLOSED = "stream that was not closed; it is read to the end of the file"


def samples(n_channels, seed=5):
    """Whole numbers of 32 bits."""
    return np.random.default_rng(seed).integers(-2 ** 31, 2 ** 31, (N, n_channels))


def encode(x, tag, bits, container):
    """The bytes of the samples, left-justified in their containers, and what they mean."""
    if tag == FLOAT:
        values = (x / 2 ** 31).astype(f"<f{container}")
        return values.tobytes(), values.astype(np.float64)
    kept = x >> (32 - bits) << (32 - bits)
    if bits <= 8:  # without a sign
        return ((kept >> 24) + 128).astype("u1").tobytes(), kept / 2 ** 31
    wide = kept.astype("<i4")[..., None].view("u1").reshape(*x.shape, 4)
    return wide[..., max(4 - container, 0):].tobytes(), kept / 2 ** 31


def fmt(tag, n_channels, bits, align, size=16, valid=None, loudspeakers=0, byte_rate=None, order="<"):
    head = struct.pack(order + "HHIIHH", EXTENSIBLE if size == 40 else tag, n_channels, 48000,
                       48000 * align if byte_rate is None else byte_rate, align, bits)
    if size == 18:
        head += struct.pack(order + "H", 0)
    if size == 40:
        head += struct.pack(order + "HHIH", 22, valid or bits, loudspeakers, tag)
        head += bytes.fromhex("000000001000800000aa00389b71")
    return head


def chunk(name, body, size=None, order="<"):
    return name + struct.pack(order + "I", len(body) if size is None else size) + body + b"\0" * (len(body) % 2)


def wav(form, data, size=None, before=b"", after=b"", magic=b"RIFF", order="<", riff=None):
    chunks = before + chunk(b"fmt ", form, order=order) + chunk(b"data", data, size, order) + after
    return magic + struct.pack(order + "I", 4 + len(chunks) if riff is None else riff) + b"WAVE" + chunks


def decoded(name, content, how):
    """What haloconv reads of the file: float samples [frames, channels], and its messages."""
    write("one.wav", np.array([[1.0]]))
    with open(name, "wb") as file:
        file.write(content)
    if how == "mask":
        done = haloconv("convolve", "one.wav", name, "-o", "y.wav", "--format", "wav:float")
    elif how == "pipe":
        done = subprocess.run(f"cat {name} | {HALOCONV} convolve - one.wav -o y.wav --format wav:float", shell=True,
                              capture_output=True, text=True, timeout=60)
    else:
        done = haloconv("convolve", name, "one.wav", "-o", "y.wav", "--format", "wav:float")
    return (read("y.wav") if done.returncode == 0 else None), done.stderr


WAYS = ["mask", "input", "pipe"]
LAYOUTS = [(PCM, 16, 2), (PCM, 24, 3), (PCM, 24, 4), (PCM, 20, 3), (PCM, 20, 4), (PCM, 16, 3), (PCM, 16, 4),
           (PCM, 12, 2), (PCM, 12, 4), (PCM, 32, 4), (PCM, 8, 1), (FLOAT, 32, 4), (FLOAT, 64, 8)]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("tag,bits,container", LAYOUTS)
def test_a_container_wider_than_its_bits_is_read(folder, tag, bits, container, how):
    for size, n_channels in itertools.product((16, 18, 40), (1, 2)):
        data, want = encode(samples(n_channels), tag, bits, container)
        form = fmt(tag, n_channels, bits, n_channels * container, size)
        got, said = decoded("x.wav", wav(form, data), how)
        assert got is not None, said
        assert_close(got, want, quantum=2.0 ** -24)
        assert "not closed" not in said


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("bits,valid", [(24, 16), (24, 20), (32, 16), (32, 20), (32, 24)])
def test_valid_bits_of_a_container_are_read(folder, bits, valid, how):
    data, want = encode(samples(2), PCM, valid, bits // 8)
    got, said = decoded("x.wav", wav(fmt(PCM, 2, bits, bits // 4, 40, valid), data), how)
    assert_close(got, want, quantum=2.0 ** -24)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("tag,bits,align,byte_rate,n_channels", [
    (PCM, 24, 4, 48000 * 3, 1),   # the rate of bytes contradicts the frame
    (PCM, 16, 6, None, 4),        # no whole number of bytes
    (PCM, 16, 2, None, 2),        # narrower
    (PCM, 8, 2, None, 1),         # with a sign, or without?
    (PCM, 24, 8, None, 1),
    (FLOAT, 32, 8, None, 1)])
def test_a_container_that_is_not_clear_is_refused(folder, tag, bits, align, byte_rate, n_channels, how):
    got, said = decoded("x.wav", wav(fmt(tag, n_channels, bits, align, 16, byte_rate=byte_rate), bytes(480)), how)
    assert got is None and said.count("haloconv: ") == 1
    name = "-" if how == "pipe" else "x.wav"
    assert f"{name}: its header has {bits} bits a sample, but frames of {align} bytes for {n_channels} channel" in said
    assert f"nBlockAlign); write it again with frames of {bits // 8 * n_channels} bytes" in said


@pytest.mark.parametrize("how", WAYS)
def test_a_wrong_block_align_beside_two_right_fields_is_ignored(folder, how):
    data, want = encode(samples(2), PCM, 16, 2)
    got, said = decoded("x.wav", wav(fmt(PCM, 2, 16, 2, byte_rate=48000 * 4), data), how)
    assert_close(got, want, quantum=2.0 ** -24)


def rf64(data, size, ds64):
    head = chunk(b"ds64", struct.pack("<QQQI", 0, ds64, 0, 0))
    return wav(fmt(PCM, 1, 16, 2), data, size, head, magic=b"RF64", riff=0xFFFFFFFF)


def w64(form, data, size=None):
    guid = bytes.fromhex("f3acd3118cd100c04f8edb8a")
    pad = bytes(-len(data) % 8)
    body = b"wave" + guid + b"fmt " + guid + struct.pack("<Q", 24 + len(form)) + form
    body += b"data" + guid + struct.pack("<Q", 24 + len(data) if size is None else size) + data + pad
    return b"riff" + bytes.fromhex("2e91cf11a5d628db04c10000") + struct.pack("<Q", 24 + len(body)) + body


def aiff(data, size):
    rate = struct.pack(">HQ", 16383 + 15, 48000 << 48)
    return (b"FORM" + bytes(4) + b"AIFF" + chunk(b"COMM", struct.pack(">hIh", 1, 0, 16) + rate, order=">") +
            b"SSND" + struct.pack(">III", size, 0, 0) + data)


def caf(data, size):
    return (b"caff" + struct.pack(">HH", 1, 0) + b"desc" + struct.pack(">qd4s5I", 32, 48000, b"lpcm", 0, 2, 1, 1, 16) +
            b"data" + struct.pack(">qI", size, 0) + data)


def lengths():
    little, want = encode(samples(1), PCM, 16, 2)
    big = np.frombuffer(little, "<i2").astype(">i2").tobytes()
    form = fmt(PCM, 1, 16, 2)
    for riff in (0, 8, 36, 36 + len(little), 0xFFFFFFFF):
        yield f"wav-0-{riff}", "x.wav", wav(form, little, 0, riff=riff), want, True
    wide, wide_want = encode(samples(2), PCM, 24, 4)
    yield "wide", "x.wav", wav(fmt(PCM, 2, 24, 8), wide, 0), wide_want, True
    for size in (0xFFFFFFFF, 0x7FFFFFFF + 1):
        yield f"wav-{size:x}", "x.wav", wav(form, little, size, riff=size), want, False
    rifx = wav(fmt(PCM, 1, 16, 2, order=">"), big, 0, magic=b"RIFX", order=">")
    yield "rifx", "x.wav", rifx, want, True
    for size, ds64, is_unclosed in ((0xFFFFFFFF, 0, True), (0, 0, True), (0xFFFFFFFF, len(little), False),
                                    (0xFFFFFFFF, 2 ** 64 - 1, False)):
        content = rf64(little, size, ds64)
        yield f"rf64-{size:x}-{ds64:x}", "x.rf64", content, want, is_unclosed
        yield f"bw64-{size:x}-{ds64:x}", "x.wav", b"BW64" + content[4:], want, is_unclosed
    padded, padded_want = encode(samples(1)[:60], PCM, 16, 2)
    yield "w64-0", "x.w64", w64(form, padded, 0), padded_want, True
    yield "w64-24", "x.w64", w64(form, padded, 24), padded_want, True
    yield "w64-whole", "x.w64", w64(form, padded), padded_want, False
    yield "aiff-0", "x.aiff", aiff(big, 0), want, True
    yield "aiff-8", "x.aiff", aiff(big, 8), want, True
    yield "caf-0", "x.caf", caf(big, 0), want, True
    yield "caf-4", "x.caf", caf(big, 4), want, True
    yield "caf-unknown", "x.caf", caf(big, -1), want, False
    yield "au-0", "x.au", b".snd" + struct.pack(">5I", 24, 0, 3, 48000, 1) + big, want, True
    yield "au-unknown", "x.au", b".snd" + struct.pack(">5I", 24, 0xFFFFFFFF, 3, 48000, 1) + big, want, False


LENGTHS = list(lengths())


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name,content,want,is_unclosed", [row[1:] for row in LENGTHS], ids=[row[0] for row in LENGTHS])
def test_a_stream_that_was_not_closed_is_read_to_its_end(folder, name, content, want, is_unclosed, how):
    got, said = decoded(name, content, how)
    assert got is not None, said
    assert_close(got, want, quantum=2.0 ** -24)
    assert said.count(UNCLOSED) == is_unclosed


@pytest.mark.parametrize("how", WAYS)
def test_a_header_that_libsndfile_cannot_use_is_refused_in_plain_words(folder, how):
    data, _ = encode(samples(1), PCM, 16, 2)
    form = fmt(PCM, 1, 16, 2)
    refused = [wav(form[:4] + bytes(4) + form[8:], data), wav(form, data, after=chunk(b"data", data))]
    for content in refused[:1] if how == "pipe" else refused:  # a pipe ends after its first chunk of samples
        got, said = decoded("x.wav", content, how)
        assert got is None
        assert ": its header is incomplete, or contradicts itself; download it again, or restore it" in said


def test_a_limit_of_open_files_is_named(folder):
    write("x.wav", np.zeros((9, 1)))
    seen = set()
    for n in range(4, 9):
        command = ["sh", "-c", f'ulimit -n {n}; exec "$0" info x.wav', HALOCONV]
        done = subprocess.run(command, capture_output=True, text=True)
        if "Too many open files" in done.stderr:
            seen.add(n)
            assert "x.wav: cannot be read" in done.stderr and "limit of open files (ulimit -n)" in done.stderr
    assert seen


@pytest.mark.parametrize("how", WAYS)
def test_a_sound_without_frames_stays_without(folder, how):
    """Chunks behind the samples are no samples."""
    for after in (b"", chunk(b"LIST", b"INFOINAM" + struct.pack("<I", 4) + b"name"), chunk(b"id3 ", b"abc")):
        got, said = decoded("x.wav", wav(fmt(PCM, 1, 16, 2), b"", after=after), how)
        assert got is None and "has no frames" in said


@pytest.mark.parametrize("how", WAYS)
def test_chunks_around_the_samples_are_no_samples(folder, how):
    data, want = encode(samples(1), PCM, 24, 4)
    plain, plain_want = encode(samples(1)[:60], PCM, 24, 3)
    info = chunk(b"LIST", b"INFOINAM" + struct.pack("<I", 4) + b"name")
    for before, after in itertools.product((b"", info, chunk(b"JUNK", bytes(27)), chunk(b"bext", bytes(602)),
                                            chunk(b"fact", struct.pack("<I", N)), chunk(b"PAD ", bytes(5000))),
                                           (b"", info, chunk(b"odd ", b"abc"))):
        for form, content, wanted in ((fmt(PCM, 1, 24, 4), data, want), (fmt(PCM, 1, 24, 3), plain, plain_want)):
            got, said = decoded("x.wav", wav(form, content, before=before, after=after), how)
            assert got is not None, said
            assert_close(got, wanted, quantum=2.0 ** -24)


def test_a_pipe_with_a_list_that_is_named_like_samples_is_read_as_its_file(folder):
    data, want = encode(samples(1), PCM, 16, 2)
    for body in (b"data", b"data" + struct.pack("<I", 4) + b"abcd", b"data" + struct.pack("<I", 400), b"data\0\0"):
        content = wav(fmt(PCM, 1, 16, 2), data, before=chunk(b"LIST", body))
        ways = [decoded("x.wav", content, how)[0] for how in ("input", "pipe")]
        assert (ways[0] is None) == (ways[1] is None)
        if ways[0] is not None:
            assert_close(ways[0], want, quantum=2.0 ** -24)
            assert_close(ways[1], want, quantum=2.0 ** -24)


def test_a_file_that_is_cut_short_is_refused(folder):
    for container in (3, 4):
        data, _ = encode(samples(1), PCM, 24, container)
        content = wav(fmt(PCM, 1, 24, container), data)
        for how in ("mask", "input"):
            got, said = decoded("x.wav", content[:-30], how)
            assert got is None and "is cut short" in said


@pytest.mark.parametrize("how", WAYS)
def test_only_the_length_of_the_samples_tells_that_a_long_file_is_cut_short(folder, how):
    """RF64 and W64: the size of the whole file may be wrong; a length beyond 4 GiB is no placeholder."""
    data, want = encode(samples(1)[:60], PCM, 16, 2)
    for size, is_cut in ((len(data), False), (len(data) + 2, True), (3 << 30, False), (5 << 30, True)):
        for whole in (0, size, 10 ** 6, 1 << 40):
            wide = bytearray(w64(fmt(PCM, 1, 16, 2), data, 24 + size))
            wide[16:24] = struct.pack("<Q", whole)
            head = chunk(b"ds64", struct.pack("<QQQI", whole, size, 0, 0))
            narrow = wav(fmt(PCM, 1, 16, 2), data, 0xFFFFFFFF, head, magic=b"RF64", riff=0xFFFFFFFF)
            for name, content in (("x.rf64", narrow), ("x.wav", b"BW64" + narrow[4:]), ("x.w64", bytes(wide))):
                got, said = decoded(name, content, how)
                assert (got is None) == is_cut and ("is cut short" in said) == is_cut, (name, size, whole, said)
                if not is_cut:
                    assert_close(got, want, quantum=2.0 ** -24)


@pytest.mark.parametrize("how", ["mask", "input"])
def test_a_length_that_no_program_writes_for_an_unknown_one_is_read_with_a_note(folder, how):
    """2.5 GB of a WAV may have been true."""
    data, want = encode(samples(1), PCM, 16, 2)
    placeholders = [0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF - 36, 0xFFFFFFFE, 0xFFFFFFFF, 0x7F000000]
    for size in [*placeholders, 2_500_000_000, 0x7F123456, 0xC0100000]:
        got, said = decoded("x.wav", wav(fmt(PCM, 1, 16, 2), data, size, riff=0xFFFFFFFF), how)
        assert_close(got, want, quantum=2.0 ** -24)
        assert (UNCLOSED in said) == (size not in placeholders), (hex(size), said)


def test_a_batch_reads_wide_and_unclosed_members_of_a_tar(folder):
    write("one.wav", np.array([[1.0]]))
    wide, wide_want = encode(samples(1), PCM, 24, 4)
    little, want = encode(samples(1), PCM, 16, 2)
    with tarfile.open("in.tar", "w") as tar:
        for name, content in (("wide.wav", wav(fmt(PCM, 1, 24, 4), wide)),
                              ("open.wav", wav(fmt(PCM, 1, 16, 2), little, 0))):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    said = good("batch", "--inputs", "in.tar", "--masks", "one.wav", "-o", "out", "--format", "wav:float").stderr
    assert said.count(UNCLOSED) == 1 and "open.wav" in said
    made, = folder.glob("out/*.tar")
    with tarfile.open(made) as tar:
        tar.extractall("members")
    assert_close(read("members/wide.wav"), wide_want, quantum=2.0 ** -24)
    assert_close(read("members/open.wav"), want, quantum=2.0 ** -24)


def test_a_device_decodes_wide_and_unclosed_files(folder, backend):
    write("one.wav", np.array([[1.0]]))
    for bits, size in ((24, None), (16, 0)):
        data, want = encode(samples(2), PCM, bits, 4)
        with open("x.wav", "wb") as file:
            file.write(wav(fmt(PCM, 2, bits, 8), data, size))
        good("convolve", "x.wav", "one.wav", "-o", "y.wav", "--format", "wav:float", "--backend", backend)
        assert_close(read("y.wav"), want, quantum=2.0 ** -24)
