"""A name may be any bytes; JSON has U+FFFD for those that are not UTF-8."""

import json
import os

import pytest
from conftest import convolve, good, haloconv, noise, write

NAMES = [b"latin-\xe9.wav", b"surrogate-\xed\xa0\x80.wav", b"cut-\xf0\x9f\x8e.wav", b"overlong-\xc0\xaf.wav",
         b"beyond-\xf4\x90\x80\x80.wav", b"quote-\"\\-'.wav", b"control-\x01\x1b[2J\n\x7f.wav",
         "ä-\u0800-\uffff-\U0001f3b5-\U0010ffff.wav".encode(), b"\xff\xfe.wav"]


def as_json(name):
    """The name with U+FFFD for each byte that is not part of a character."""
    return "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in name.decode(errors="surrogateescape"))


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_of_any_bytes_keeps_json_whole(folder, name):
    path = os.fsdecode(name)
    write("h.wav", noise(100, 1))
    os.rename("h.wav", name)
    for command in ["info", "check"]:
        assert json.loads(good(command, path, "--json").stdout)["file"] == as_json(name)
    write("x.wav", noise(50, 1))
    assert convolve("x.wav", path, path + ".out.wav")["frames_out"] == 149
    word = name.replace(b"\n", b"").replace(b"'", b"")
    lines = [b"/convolver/new 1 1 64 100", b"/jack/client 'c" + word + b"'", b"/input/name 1 'in " + word + b"'"]
    (folder / "t.conf").write_bytes(b"\n".join(lines))
    report = json.loads(good("info", "t.conf", "--json").stdout)
    assert (report["input"][0]["name"], report["client"]) == ("in " + as_json(word), "c" + as_json(word))
    (folder / "t.conf").write_bytes(lines[0] + b"\n" + word)
    done = haloconv("check", "t.conf", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["errors"] == 1
