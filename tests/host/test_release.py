"""A release: its version, the library's ABI beside that of the release before (abidiff), the archive of the plugins, the bill
of materials, and licences. `make release-test` installs the files themselves in empty roots."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
from conftest import BUILD, PUBLIC_HEADERS, ROOT, SAN

sys.path[:0] = [str(ROOT / "packaging"), str(ROOT / "plugins/python")]
import haloconv_build  # noqa: E402
import release  # noqa: E402

VERSION = haloconv_build.version()


@pytest.mark.parametrize("name,pattern", [
    ("CITATION.cff", r"^version: (.*)$"), ("NEWS.md", r"^## (\S+)"), ("packaging/arch/PKGBUILD", r"^pkgver=(.*)$"),
    ("packaging/conda/recipe.yaml", r'^  version: "(.*)"$'), ("packaging/debian/changelog", r"^haloconv \((.*)-\d+\)")])
def test_every_file_names_the_version_of_the_header(name, pattern):
    assert re.findall(pattern, (ROOT / name).read_text(), re.M)[:1] == [VERSION]


# ---- ABI -------------------------------------------------------------------------------------------------------------
ABI = ROOT / "packaging/libhaloconv.abi"


def abidiff(description, headers):
    if SAN or not shutil.which("abidiff"):
        pytest.skip("no abidiff (Debian: abigail-tools)" if not SAN else "a sanitizer's library has symbols of its own")
    library = BUILD / "libhaloconv.so"
    if ".debug_info" not in subprocess.run(["readelf", "-SW", library], stdout=subprocess.PIPE, text=True, check=True).stdout:
        pytest.skip("the library was built without -g")
    headers.mkdir(exist_ok=True)
    for header in PUBLIC_HEADERS:
        shutil.copy(header, headers)
    return subprocess.run(
        ["abidiff", "--exported-interfaces-only", "--no-architecture", "--suppressions", ROOT / "packaging/libhaloconv.abignore",
         "--headers-dir2", headers, "--drop-private-types", "--no-added-syms", description, library],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def test_the_library_keeps_the_abi_of_its_release(tmp_path):
    """If this fails, a program that was built with the release would not work with this library: soname and map change."""
    done = abidiff(ABI, tmp_path / "headers")
    assert done.returncode == 0, done.stdout
    assert ABI.stat().st_size <= 150_000


def without_member(text, struct, last):
    """The description of a library whose struct lacks its last or its second member."""
    begin = text.index(f"class-decl name='{struct}' size")
    end = text.index("</class-decl>", begin)
    members = [begin + at.start() for at in re.finditer("<data-member ", text[begin:end])]
    cut = (members[-1], end) if last else (members[1], members[2])
    text = text[:cut[0]] + text[cut[1]:]
    return re.sub(rf"(name='{struct}' size-in-bits=')(\d+)", lambda at: at[1] + str(int(at[2]) - 64), text)


def test_a_change_of_the_abi_is_found(tmp_path):
    text = ABI.read_text()
    for name, older, status in [
            ("a call is gone", text.replace("'hc_strerror'", "'hc_former'"), 12),
            ("a struct without a size has a new member", without_member(text, "hc_route", True), 4),
            ("a member is in the middle", without_member(text, "hc_config", False), 4),
            ("a struct with a size has a new member at its end", without_member(text, "hc_config", True), 0),
            ("a call is new", re.sub(r" *<elf-symbol name='hc_version'.*?/>\n", "", text), 0)]:
        assert older != text, name
        (tmp_path / "older.abi").write_text(older)
        done = abidiff(tmp_path / "older.abi", tmp_path / "headers")
        assert done.returncode == status, (name, done.stdout)


def test_every_struct_with_a_size_may_grow():
    text = "".join(header.read_text() for header in PUBLIC_HEADERS)
    sized = set(re.findall(r"typedef struct (hc_\w+) *\{.*\n(?: */\*.*\n)*    size_t size;", text))
    grows = re.compile(re.search(r"name_regexp = (.*)", (ROOT / "packaging/libhaloconv.abignore").read_text())[1])
    names = set(re.findall(r"typedef struct (hc_\w+)", text))
    assert len(sized) > 5 and {name for name in names if grows.match(name)} == sized
