"""A release: its version, the library's ABI beside that of the release before (abidiff), the plugins, the
bill of materials, and licences. `make release-test` installs the files themselves in empty roots."""

import hashlib
import os
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


def test_the_notes_of_a_release_are_short():
    notes = release.notes()
    assert notes.startswith(f"## {VERSION}") and notes in (ROOT / "NEWS.md").read_text()
    assert 20 < len(notes.splitlines()) <= 90


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


# ---- ABI -------------------------------------------------------------------------------------------------------------
ABI = ROOT / "packaging/libhaloconv.abi"


def abidiff(description, headers):
    if SAN or not shutil.which("abidiff"):
        pytest.skip("no abidiff (Debian: abigail-tools)" if not SAN else "a sanitizer's library has symbols of its own")
    library = BUILD / "libhaloconv.so"
    if ".debug_info" not in output("readelf", "-SW", library):
        pytest.skip("the library was built without -g")
    headers.mkdir(exist_ok=True)
    for header in PUBLIC_HEADERS:
        shutil.copy(header, headers)
    return subprocess.run(
        ["abidiff", "--exported-interfaces-only", "--no-architecture",
         "--suppressions", ROOT / "packaging/libhaloconv.abignore", "--headers-dir2", headers, "--drop-private-types",
         "--no-added-syms", description, library],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def test_the_library_keeps_the_abi_of_its_release(tmp_path):
    """If this fails, a program of that release would not work with this library: soname and map must change."""
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


# ---- what is bundled -------------------------------------------------------------------------------------------------
def test_the_wheel_of_the_gpu_module_has_the_licence_of_the_cuda_runtime(tmp_path):
    """The toolkit's folder has it as EULA.txt, or beside the files of its packages from pip."""
    for folder, text in [("EULA.txt", "one"), ("dist-info/nvidia_cuda_runtime-13.0.96/licenses/License.txt", "two")]:
        toolkit = tmp_path / text / "cuda-13.0"
        (toolkit / "lib64").mkdir(parents=True)
        archive = toolkit / "lib64/libcudart_static.a"
        archive.write_text("")
        row = haloconv_build.licences([archive])["LIBRARIES.txt"].decode().splitlines()[-1]
        assert row.startswith("libcudart_static.a: LicenseRef-NVIDIA-CUDA-Toolkit-EULA; ") and "was not found" in row
        (toolkit / folder).parent.mkdir(parents=True, exist_ok=True)
        (toolkit / folder).write_text(f"NVIDIA's licence, {text}")
        files = haloconv_build.licences([archive])
        assert files["libcudart_static.txt"].decode() == f"NVIDIA's licence, {text}"
        assert files["LIBRARIES.txt"].decode().endswith("; libcudart_static.a of cuda-13.0\n")


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """Two archives of the plugins of this build."""
    if SAN or not (BUILD / "haloconv.lv2/manifest.ttl").exists():
        pytest.skip("built without plugins, or with a sanitizer")
    folder = tmp_path_factory.mktemp("plugins")
    for kind, name in [("lv2", "haloconv.lv2"), ("clap", "haloconv.clap"), ("vst3", "haloconv.vst3")]:
        if (BUILD / name).is_dir():
            shutil.copytree(BUILD / name, folder / "installed" / kind / name, ignore=shutil.ignore_patterns("*.wav"))
        elif (BUILD / name).exists():
            (folder / "installed" / kind).mkdir(parents=True)
            shutil.copy(BUILD / name, folder / "installed" / kind)
    os.environ["SOURCE_DATE_EPOCH"] = "1000000000"
    for name in ("one", "two"):
        (folder / name).mkdir()
        for path in (folder / "installed").rglob("*"):
            os.utime(path)
        release.plugins(folder / "installed", folder / name)
    del os.environ["SOURCE_DATE_EPOCH"]
    return folder


def test_an_archive_of_plugins_has_the_same_bytes_each_time(plugins):
    one, two = (next((plugins / name).iterdir()) for name in ("one", "two"))
    assert one.name == two.name and one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as archive:
        entries = archive.getmembers()
    assert {(entry.mtime, entry.uid, entry.uname) for entry in entries} == {(1000000000, 0, "root")}
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)


def test_a_plugin_of_the_archive_has_the_libraries_that_it_needs(plugins, tmp_path):
    with tarfile.open(next((plugins / "one").iterdir())) as archive:
        archive.extractall(tmp_path)
    binaries = [path for path in tmp_path.rglob("*") if path.is_file() and haloconv_build.machine_of(path)]
    assert binaries
    for path in binaries:
        libs = path.parent if path.parent.name == "libs" else path.parent / "libs"
        for name in re.findall(r"NEEDED +(\S+)", output("objdump", "-p", path)):
            system = haloconv_build.OF_THE_SYSTEM.match(name) or re.match(r"lib(cairo|X11)\.", name)
            assert system or (libs / name).exists(), f"{path.name} needs {name}"


def test_the_bill_of_materials_names_each_library_with_version_and_licence(plugins):
    held = next((plugins / "one").iterdir())
    bill = release.bill_of_materials(plugins / "one", 1000000000)
    assert bill == release.bill_of_materials(plugins / "one", 1000000000)
    assert bill["spdxVersion"] == "SPDX-2.3" and bill["creationInfo"]["created"] == "2001-09-09T01:46:40Z"
    packages = {package["SPDXID"]: package for package in bill["packages"]}
    assert len(packages) == len(bill["packages"])
    for relation in bill["relationships"]:
        assert relation["relatedSpdxElement"] in packages
        assert relation["spdxElementId"] in {*packages, "SPDXRef-DOCUMENT"}
    with tarfile.open(held) as archive:
        copies = {os.path.basename(name) for name in archive.getnames() if "/libs/" in name}
        files = {os.path.basename(name) for name in archive.getnames() if "/licenses/" in name}
    names = {package["name"] for package in bill["packages"]}
    assert {haloconv_build.own_name(name) for name in names} >= copies and len(copies) > 5
    for package in bill["packages"]:
        assert re.fullmatch(r"[\w.+-]+( (AND|WITH) [\w.+-]+)*", package["licenseConcluded"]), package
        if package["name"].startswith("lib"):
            assert package["versionInfo"][0].isdigit() and "was not found" not in str(package), package
    whole = packages[release.spdx_id("File", held.name)]
    assert whole["checksums"][0]["checksumValue"] == hashlib.sha256(held.read_bytes()).hexdigest()
    assert "LGPL-2.1-or-later" in whole["licenseConcluded"] and "LICENSE" in files and len(files) > 8


def test_the_bill_of_materials_has_the_adapters_with_their_own_version(tmp_path):
    haloconv_build.build_adapters(tmp_path)
    bill = release.bill_of_materials(tmp_path, 1000000000)
    (package,) = bill["packages"]
    version = haloconv_build.version("haloconv-adapters")
    assert package["name"] == f"haloconv_adapters-{version}-py3-none-any.whl" and package["licenseConcluded"] == "MIT"
    assert package["versionInfo"] == version != VERSION
