"""Every error is one line with a remedy, gives exit status 1 (2: wrong usage), and leaves no file behind."""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import HALOCONV, SAN, chance, copy_program, good, haloconv, noise, read, refused, write


@pytest.fixture
def inputs(folder):
    write("x.wav", noise(20000, 2))
    write("h.wav", noise(500, 2))
    return folder


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def refused_and_clean(folder, *args, **kwargs):
    before = names(folder)
    says = refused(*args, **kwargs)
    assert names(folder) == before, "something was left behind"
    return says


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_in_a_mask(inputs, value):
    h = noise(500, 2)
    h[137, 1] = value
    write("bad.wav", h)
    for command in [("convolve", "x.wav", "bad.wav", "-o", "y.wav"), ("info", "bad.wav")]:
        says = refused_and_clean(inputs, *command, says=["bad.wav", "137"])
        assert "channel 2" in says


@pytest.mark.parametrize("name", ["empty.wav", "empty.txt", "empty.flac"])
def test_empty_file(inputs, name):
    (inputs / name).touch()
    refused_and_clean(inputs, "convolve", "x.wav", name, "-o", "y.wav", says=name)
    refused_and_clean(inputs, "info", name, says=name)
    if not name.endswith("txt"):
        refused_and_clean(inputs, "convolve", name, "h.wav", "-o", "y.wav", says=name)


@pytest.mark.parametrize("format", ["float", "pcm16", "flac"])
def test_an_output_beyond_a_float_is_refused(inputs, format):
    """Never NaN in a file, nor a count of clipped samples that no gain would avoid."""
    write("huge.wav", np.full((300, 2), 3e38, np.float32))
    write("loud.wav", np.full((300, 2), 1e25, np.float32))  # its squares are beyond
    says = refused_and_clean(inputs, "convolve", "huge.wav", "h.wav", "-o", "y.wav", "--gain", "60", "--format", format)
    assert "range of a float" in says and "gain" in says
    (inputs / "l.csv").write_text("input,mask,level\nhuge.wav,h.wav,none\nhuge.wav,h.wav,rms\nloud.wav,h.wav,rms\n"
                                  "x.wav,h.wav,none\n")
    done = haloconv("batch", "l.csv", "-o", "out", "--gain", "60", "--format", "float", "-q")
    assert done.returncode == 1 and done.stderr.count("range of a float") == 3, done.stderr
    assert [p.name for p in (inputs / "out").glob("*.wav")] == ["x_h.wav"]


def test_no_frames(inputs):
    write("none.wav", np.zeros((0, 2), np.float32))
    refused_and_clean(inputs, "convolve", "x.wav", "none.wav", "-o", "y.wav", says="no frames")
    refused_and_clean(inputs, "info", "none.wav", says="no frames")
    done = haloconv("convolve", "none.wav", "h.wav", "-o", "y.wav", "--backend", "cpu")
    if done.returncode == 0:  # the convolution of nothing is nothing, or the tail of nothing
        assert not read("y.wav").any()
    else:
        assert done.returncode == 1 and "none.wav" in done.stderr and not (inputs / "y.wav").exists()


def test_a_remedy_fits_what_was_tried(inputs):
    says = refused_and_clean(inputs, "convolve", "x.wav", "h.wav", "h.wav", "-o", "y.wav", exit=2, says="got 3 names")
    assert "`haloconv mask convolve` makes one mask of several" in says
    assert "mask convolve" not in refused_and_clean(inputs, "check", "h.wav", "h.wav", exit=2, says="got 2 names")
    write("fast.wav", noise(100), 1100000)  # beyond what any release of libFLAC writes
    refused_and_clean(inputs, "convolve", "fast.wav", "fast.wav", "-o", "y.flac", says="use another --format, such as wav:pcm24")


def test_text_without_numbers(inputs):
    (inputs / "words.txt").write_text("these are words\n")
    refused_and_clean(inputs, "convolve", "x.wav", "words.txt", "-o", "y.wav", says="words.txt:1")


def test_lines_that_end_with_cr_alone_are_not_columns(inputs):
    (inputs / "mac.txt").write_bytes(b"1\r0.5\r0.25\r")
    refused("info", "mac.txt", says=["mac.txt:1", "CR alone"])
    (inputs / "dos.txt").write_bytes(b"1\r\n0.5 # half\r\n\r\n0.25\r\r\n")
    assert "1 channel, 3 frames" in good("info", "dos.txt").stdout


@pytest.mark.parametrize("length", [4, 11, 12, 30, 44, 45])
def test_truncated_header(inputs, length):
    (inputs / "cut.wav").write_bytes((inputs / "x.wav").read_bytes()[:length])
    for args in [("cut.wav", "h.wav"), ("x.wav", "cut.wav")]:
        done = haloconv("convolve", *args, "-o", "y.wav", "-q")
        assert done.returncode in (0, 1), done.stderr
        if done.returncode == 1:
            assert "cut.wav" in done.stderr and not (inputs / "y.wav").exists()


def test_truncated_sound(inputs):
    """A file shorter than its header says is convolved as far as it goes, or refused; there is never noise after it."""
    whole = (inputs / "x.wav").read_bytes()
    (inputs / "cut.wav").write_bytes(whole[:len(whole) // 2])
    (inputs / "one.txt").write_text("1\n")
    done = haloconv("convolve", "cut.wav", "one.txt", "-o", "y.wav", "--backend", "cpu")
    if done.returncode == 0:
        got, want = read("y.wav"), read("x.wav")
        assert 9000 < len(got) <= 10000
        assert np.abs(got - want[:len(got)]).max() < 1e-6
    else:
        assert done.returncode == 1 and "cut.wav" in done.stderr


def test_truncated_flac(inputs):
    write("x.flac", noise(50000, 2), subtype="PCM_16")
    whole = (inputs / "x.flac").read_bytes()
    (inputs / "cut.flac").write_bytes(whole[:len(whole) // 2])
    before = names(inputs)
    done = haloconv("convolve", "cut.flac", "h.wav", "-o", "y.wav")
    assert done.returncode in (0, 1)
    if done.returncode == 1:
        assert "cut.flac" in done.stderr and names(inputs) == before


@pytest.mark.parametrize("bad", ["missing.wav", "folder", "no/such/place.wav", "/dev/null"])
def test_bad_input_and_mask(inputs, bad):
    (inputs / "folder").mkdir()
    refused_and_clean(inputs, "convolve", bad, "h.wav", "-o", "y.wav", says=bad)
    refused_and_clean(inputs, "convolve", "x.wav", bad, "-o", "y.wav", says=bad)
    refused_and_clean(inputs, "info", bad, says=bad)


@pytest.mark.parametrize("bad", ["folder", "no/such/place.wav", "missing/"])
def test_bad_output(inputs, bad):
    (inputs / "folder").mkdir()
    refused_and_clean(inputs, "convolve", "x.wav", "h.wav", "-o", bad, says=bad)
    refused_and_clean(inputs, "design", "hilbert", "--taps", "11", "-o", bad, "--format", "wav:float", says=bad)


READ = {"input": ("h.wav", "x.wav"), "mask": ("h.wav", "h.wav"), "mask of a rate": ("%r/h-%r.wav", "48000/h-48000.wav"),
        "brackets": ("[h]-%r.wav", "[h]-48000.wav"), "configuration": ("m.conf", "m.conf"),
        "its file": ("m.conf", "parts/h.wav"), "its file of a rate": ("m.conf", "parts/h-48000.wav")}


@pytest.mark.parametrize("way", ["name", "symbolic link", "hard link", "standard output"])
@pytest.mark.parametrize("what", READ)
def test_an_output_is_never_a_file_that_is_read(inputs, what, way):
    mask, output = READ[what]
    for path in ("48000/h-48000.wav", "[h]-48000.wav", "parts/h.wav", "parts/h-48000.wav"):
        (inputs / path).parent.mkdir(exist_ok=True)
        shutil.copy("h.wav", path)
    (inputs / "m.conf").write_text("/convolver/new 2 2 64 500\n/cd parts\n/impulse/read 1 1 1 0 0 0 1 h.wav\n"
                                   "/impulse/read 2 2 1 0 0 0 1 h-%r.wav\n")
    link = inputs / f"link{pathlib.Path(output).suffix}"
    if way == "symbolic link":
        link.symlink_to(output)
    if way == "hard link":
        link.hardlink_to(output)
    before = {path: path.read_bytes() for path in inputs.rglob("*") if path.is_file()}
    says = [link.name if "link" in way else "-" if way == "standard output" else output, "would be overwritten"]
    if way == "standard output":
        with open(output, "ab") as stdout:
            done = subprocess.run([str(HALOCONV), "convolve", "x.wav", mask, "-o", "-", "--format", "au"],
                                  stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 1 and says[1] in done.stderr, done.stderr
    else:
        refused("convolve", "x.wav", mask, "-o", link if "link" in way else output, "--format", "wav", says=says)
        if "[" not in mask:  # a pattern in a batch
            (inputs / "l.csv").write_text(f"input,mask,output\nx.wav,{mask},{says[0]}\n")
            refused("batch", "l.csv", "-o", ".", "--format", "wav", says=says)
            (inputs / "l.csv").unlink()
    assert {path: path.read_bytes() for path in inputs.rglob("*") if path.is_file()} == before


def test_standard_input_is_not_overwritten(inputs):
    with open("x.wav", "rb") as stdin:
        refused("convolve", "-", "h.wav", "-o", "x.wav", stdin=stdin, says="would be overwritten")


@pytest.mark.parametrize("name", ["y.m4a", "room.xyz", "a.wav/../y.1", "y.txt"])
def test_an_extension_that_no_format_has_is_refused(inputs, name):
    (inputs / "a.wav").mkdir()
    commands = [["convolve", "x.wav", "h.wav", "-o", name]]
    commands += [["design", "hilbert", "--taps", "11", "-o", name]] * (name != "y.txt")
    extension = name[name.rindex("."):]
    for command in commands:
        for options in ([], ["--format", "pcm16"]):
            says = refused_and_clean(inputs, *command, *options, says=[f"no format has the extension {extension};"])
        listed = re.search("use one of ([^,]*),", says)[1].split()
        assert {".wav", ".flac", ".aif"} <= set(listed) and extension not in listed
    for known in listed[::9] if name == "y.m4a" else ():  # a listed one is refused for another reason, if at all
        done = haloconv("design", "hilbert", "--taps", "11", "-o", f"z{known}")
        assert "no format" not in done.stderr
    good(*commands[0], "--format", "au", "-q")
    assert pathlib.Path(name).read_bytes()[:4] == b".snd", "--format decides"
    (inputs / "l.csv").write_text(f"input,mask,output\nx.wav,h.wav,{pathlib.Path(name).name}\n")
    done = haloconv("batch", "l.csv", "-o", "out", "-q")
    assert done.returncode == 1 and f"the extension {extension}" in done.stderr
    shutil.copy("x.wav", f"x{extension}")
    (inputs / "l.csv").write_text(f"input,mask\nx{extension},h.wav\n")
    good("batch", "l.csv", "-o", "out", "-q")
    assert [path.name for path in (inputs / "out").glob("x_h*")] == ["x_h.wav"], "batch chooses one that it can write"


def test_garbage_is_no_sound(inputs):
    (inputs / "bad.wav").write_bytes(bytes(chance(1).randrange(256) for _ in range(10000)))
    refused_and_clean(inputs, "convolve", "bad.wav", "h.wav", "-o", "y.wav", says="bad.wav")
    refused_and_clean(inputs, "convolve", "x.wav", "bad.wav", "-o", "y.wav", says="bad.wav")


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)


def test_no_permission(inputs):
    if os.getuid() != 0:
        pytest.skip("needs root, to become nobody")
    program = inputs / "haloconv"  # where nobody can reach it
    copy_program(program)
    for parent in [inputs, *inputs.parents][:4]:
        if parent != inputs.anchor and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    (inputs / "secret.wav").write_bytes((inputs / "h.wav").read_bytes())
    (inputs / "secret.wav").chmod(0o600)
    (inputs / "open").mkdir()
    (inputs / "open").chmod(0o777)

    def run(*args):
        done = subprocess.run([str(program), *args], preexec_fn=as_nobody, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        return done.returncode, done.stderr

    code, err = run("convolve", "x.wav", "h.wav", "-o", "open/y.wav")
    assert code == 0, err
    for args in [("secret.wav", "h.wav", "-o", "open/z.wav"), ("x.wav", "secret.wav", "-o", "open/z.wav"),
                 ("x.wav", "h.wav", "-o", "z.wav")]:
        code, err = run("convolve", *args)
        assert code == 1 and "ermission" in err, (args, code, err)
    assert names(inputs / "open") == ["y.wav"] and "z.wav" not in names(inputs)


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


@pytest.mark.parametrize("ignore", [True, False])
@pytest.mark.parametrize("output", ["y.wav", "y.flac", "y.ogg"])
def test_file_size_limit(inputs, output, ignore):
    def limit():
        limit_file_size()
        if not ignore:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    before = names(inputs)
    write("x.wav", noise(200000, 2))
    done = haloconv("convolve", "x.wav", "h.wav", "-o", output, "--backend", "cpu", preexec_fn=limit)
    assert names(inputs) == before
    assert done.returncode == 1 and output in done.stderr, (done.returncode, done.stderr)


def test_full_disk(inputs):
    """A tmpfs of 256 KiB, where mounting is allowed."""
    small = inputs / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(small)],
                      stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        write("x.wav", noise(200000, 2))
        refused("convolve", "x.wav", "h.wav", "-o", "small/y.wav", says=["small/y.wav", "space"])
        refused("convolve", "x.wav", "h.wav", "-o", "small/y.flac", says=["small/y.flac"])
        refused("design", "room", "--rt60", "3", "-o", "small/room.wav", says="small/room.wav")
        assert names(small) == []
        (small / "y.wav").write_bytes(b"what was there before")
        refused("convolve", "x.wav", "h.wav", "-o", "small/y.wav")
        assert (small / "y.wav").read_bytes() == b"what was there before"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_full_standard_output(inputs):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([str(HALOCONV), "convolve", "x.wav", "h.wav", "-o", "-", "--format", "wav"], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("haloconv: "), done.stderr
    for args in [["--help"], ["info", "h.wav"], ["info", "h.wav", "--json"], ["convolve", "--help"]]:
        with open("/dev/full", "wb") as full:
            done = subprocess.run([str(HALOCONV), *args], stdout=full, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1, args


def test_closed_pipe(inputs):
    write("x.wav", noise(300000, 2))
    line = f"'{HALOCONV}' convolve x.wav h.wav -o - --format wav -q | head -c 100 >/dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout.strip() in ("1", "141"), (done.stdout, done.stderr)


@pytest.mark.parametrize("args", [
    [], ["nonsense"], ["convolve"], ["convolve", "x.wav"], ["convolve", "x.wav", "h.wav"],
    ["convolve", "x.wav", "h.wav", "z", "-o", "y.wav"], ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--nonsense"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--gain"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--gain", "loud"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--gain", "nan"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--block", "-1"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--block", "99999999999"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--block", "12x"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--tail", "half"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--backend", "tpu"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--method", "magic"], ["info"], ["info", "h.wav", "x.wav"],
    ["info", "h.wav", "--block", "x"],
    ["design"], ["design", "lowpass"], ["design", "nonsense", "-o", "y.wav"], ["design", "lowpass", "-o", "y.wav"],
    ["design", "lowpass", "--cutoff", "8000", "-o", "y.wav"],
    ["design", "lowpass", "--cutoff", "30000", "--taps", "11", "-o", "y.wav"],
    ["design", "lowpass", "--cutoff", "-1", "--taps", "11", "-o", "y.wav"],
    ["design", "highpass", "--cutoff", "100", "--taps", "10", "-o", "y.wav"],
    ["design", "bandpass", "--cutoff", "200,100", "--taps", "11", "-o", "y.wav"],
    ["design", "bandpass", "--cutoff", "200", "--taps", "11", "-o", "y.wav"],
    ["design", "room", "-o", "y.wav"], ["design", "room", "--rt60", "-1", "-o", "y.wav"],
    ["design", "room", "--rt60", "1", "--channels", "0", "-o", "y.wav"],
    ["design", "lowpass", "--cutoff", "8000", "--taps", "0", "-o", "y.wav"],
    ["design", "lowpass", "--cutoff", "8000", "--taps", "11", "--window", "square", "-o", "y.wav"],
    ["convolve", "x.wav", "h.wav", "-o", ""], ["design", "hilbert", "--taps", "11", "-o", ""],
    ["batch", "list.csv", "-o", ""],
    ["design", "hilbert", "--taps", "11", "-o", "y.conf"],
    ["design", "hilbert", "--taps", "11", "-o", "y.txt", "--format", "wav"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--raw", "99999999999,2,pcm16"],
    ["convolve", "x.wav", "h.wav", "-o", "y.wav", "--raw", "1,2"],
    ["devices", "x"], ["devices", "--nonsense"]], ids=" ".join)
def test_wrong_usage(inputs, args):
    before = names(inputs)
    done = haloconv(*args)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "haloconv" in done.stderr and done.stdout == ""
    assert names(inputs) == before


def test_missing_device_is_said(inputs):
    done = haloconv("convolve", "x.wav", "h.wav", "-o", "y.wav", "--backend", "cuda:63")
    assert done.returncode == 1 and ("cuda" in done.stderr or "GPU" in done.stderr) and "CPU" in done.stderr
    assert not (inputs / "y.wav").exists()


def has_nameless_files(folder):
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
        return True
    except OSError:
        return False


def writes_into(folder, pid):
    """Has the program a file in this folder, without a name or named .part, that it has begun to write?"""
    try:
        fds = list(pathlib.Path(f"/proc/{pid}/fd").iterdir())
        return any(os.readlink(fd).startswith((f"{folder}/#", f"{folder}/.y")) and fd.stat().st_size for fd in fds)
    except OSError:  # one that was just closed
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU,
                                    signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL], ids=lambda number: number.name)
def test_no_ending_leaves_a_file_behind(inputs, number):
    """If the file system has no nameless files, the next run removes what signals left that cannot be handled."""
    with open("long.raw", "wb") as file:
        file.truncate(4 * 48000 * 3600)  # an hour of silence in no space at all
    before = names(inputs)
    run = subprocess.Popen([str(HALOCONV), "convolve", "long.raw", "h.wav", "-o", "y.wav", "--raw", "48000,2,pcm16",
                            "--method", "direct", "-q"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    started = time.time()
    while not writes_into(inputs.resolve(), run.pid) and time.time() - started < 20 and run.poll() is None:
        time.sleep(0.01)
    assert run.poll() is None, "it ended before it could be stopped"
    assert "y.wav" not in names(inputs), "an output half written has its name"
    run.send_signal(number)
    run.communicate(timeout=60)
    assert run.returncode in (-number, 128 + number) or SAN and run.returncode > 0, run.returncode
    if has_nameless_files(inputs) or number in (signal.SIGINT, signal.SIGTERM):
        assert names(inputs) == before
    good("convolve", "x.wav", "h.wav", "-o", "y.wav", "-q")
    assert names(inputs) == sorted([*before, "y.wav"])


@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_nobody_elses(inputs, closed):
    """Else the first file opened would become standard error and receive the messages."""
    (inputs / "list.csv").write_text("input,mask,output\nmissing.wav,h.wav,a.wav\nx.wav,h.wav,b.wav\n"
                                     "missing.wav,h.wav,c.wav\n")
    for args in ("convolve x.wav h.wav -o y.wav", "batch list.csv -o out --workers 1", "check list.csv --json"):
        subprocess.run(["bash", "-c", f"'{HALOCONV}' {args} {closed}"], stdout=subprocess.DEVNULL, check=False,
                       timeout=60)
    assert read("y.wav").shape == read("out/b.wav").shape == (20499, 2)
    journal = (inputs / "out/haloconv-batch.journal").read_text()
    kinds = [line[:5] if line.startswith("#") else line.split(" ")[-1] for line in journal.splitlines()]
    assert kinds == ["# pro", "b.wav", "# row", "# row"], journal


@pytest.mark.parametrize("name", ["no\x1b[31mred.wav", "two\nlines.wav", "x\x07\x7f.wav"])
def test_what_steers_a_terminal_stays_out_of_messages(inputs, name):
    for args in [("convolve", name, "h.wav"), ("convolve", "x.wav", name)]:
        says = refused(*args, "-o", "y.wav")
        assert says.isprintable() or says[:-1].isprintable(), repr(says)
    done = good("convolve", "x.wav", "h.wav", "-o", name)
    assert done.stderr.count("\n") == 1 and done.stderr[:-1].isprintable() and read(name).any()


def test_reasons_end_without_a_dot(inputs):
    (inputs / "bad.wav").write_bytes(b"RIFF\x10\0\0\0WAVEfmt ")
    assert ".;" not in refused("convolve", "bad.wav", "h.wav", "-o", "y.wav")


def test_links_stay_links(inputs):
    (inputs / "link.wav").symlink_to("there.wav")
    refused_and_clean(inputs, "convolve", "x.wav", "h.wav", "-o", "link.wav", says="link to a file that is not there")
    (inputs / "there.wav").touch()
    good("convolve", "x.wav", "h.wav", "-o", "link.wav", "-q")
    assert (inputs / "link.wav").is_symlink() and len(read("there.wav")) == 20499


def test_failure_keeps_the_old_output(inputs):
    (inputs / "y.wav").write_bytes(b"what was there before")
    refused("convolve", "x.wav", "missing.wav", "-o", "y.wav")
    assert (inputs / "y.wav").read_bytes() == b"what was there before"
    good("convolve", "x.wav", "h.wav", "-o", "y.wav", "-q")
    assert len(read("y.wav")) == 20499


# ---- broken masks by the hundred ------------------------------------------------------------------------------------
def mutate(data, draw):
    data = bytearray(data)
    for _ in range(draw.choice([1, 2, 5, 20])):
        kind = draw.randrange(5)
        at = draw.randrange(min(len(data), 80 if draw.random() < 0.7 else len(data)) or 1) if data else 0
        if kind == 0 and data:
            data[at] = draw.randrange(256)
        elif kind == 1 and data:
            data[at:at + 4] = draw.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80",
                                             b"\1\0\0\0", b"\0\0\xc0\x7f"])
        elif kind == 2 and data:
            del data[at:at + draw.randrange(1, 20)]
        elif kind == 3:
            data[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 20)))
        else:
            del data[draw.randrange(len(data) + 1):]
    return bytes(data)


@pytest.mark.parametrize("kind", ["wav", "wavex", "flac", "txt", "csv", "input"])
def test_broken_files_never_crash(folder, kind):
    write("x.wav", noise(300, 2))
    write("h.wav", noise(40, 2))
    ending = {"wavex": "wav", "input": "wav"}.get(kind, kind)
    if ending in ("txt", "csv"):
        separator = "," if ending == "csv" else " "
        seed = "".join(separator.join(f"{v:.6g}" for v in row) + "\n" for row in noise(40, 2)).encode() + b"# end\n"
    else:
        write(f"seed.{ending}", noise(60, 2), subtype="PCM_24" if kind != "wav" else "FLOAT",
              format={"wavex": "WAVEX", "flac": "FLAC"}.get(kind, "WAV"))
        seed = (folder / f"seed.{ending}").read_bytes()
    draw = chance(f"haloconv {kind}")
    outcomes = {0: 0, 1: 0}
    for i in range(60):
        data = mutate(seed, draw)
        (folder / f"bad.{ending}").write_bytes(data)
        args = ("convolve", "bad.wav", "h.wav") if kind == "input" else ("convolve", "x.wav", f"bad.{ending}")
        runs = [(*args, "-o", "y.wav", "-q", "--backend", "cpu")] + ([] if kind == "input"
                                                                     else [("info", f"bad.{ending}")])
        for run in runs:
            done = haloconv(*run, timeout=30, text=False)
            (folder / "keep").write_bytes(data)
            err = done.stderr.decode(errors="replace")
            assert done.returncode in (0, 1), f"{kind} {i}: {run[0]} ended with {done.returncode}: {err}"
            outcomes[done.returncode] += 1
    assert outcomes[1] > 10, f"the mutations do no harm: {outcomes}"
