"""The Python wheel: pip builds it from the source archive and installs it into an empty environment.

pip's `make` packs the library of this build; nothing is compiled.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from conftest import BUILD, CUDA, ROOT, SAN, generator, noise

sys.path.insert(0, str(ROOT / "plugins/python"))
import haloconv_build  # noqa: E402

# The variables of the make above us would go to the make of pip; the others would help the module to find a library.
CLEAN = {name: value for name, value in os.environ.items() if not re.match(
    "MAKE|MFLAGS|LD_|PYTHON|HALOCONV|BUILD|PIP_NO|PIP_REQUIRE", name)}


def run(*command, **kwargs):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, timeout=300, **{"env": CLEAN, **kwargs})
    assert done.returncode == 0, f"{command[:4]}: {done.stdout}"
    return done.stdout


class Environment:
    """An environment of Python that has NumPy and nothing else; without a network."""

    def __init__(self, folder):
        self.folder, self.python = folder, folder / "venv/bin/python"
        run(sys.executable, "-m", "venv", folder / "venv")
        site = "import sysconfig; print(sysconfig.get_path('purelib'))"
        self.site = pathlib.Path(run(self.python, "-c", site).strip())
        numpy = pathlib.Path(np.__file__).parent
        for path in [numpy, *numpy.parent.glob("numpy-*info"), *numpy.parent.glob("numpy.libs")]:
            (self.site / path.name).symlink_to(path)
        self.archive = folder / haloconv_build.build_sdist(folder)

    def install(self, make, *what):
        script = self.folder / "make"
        script.write_text(f"#!/bin/sh\n{make}\n")
        script.chmod(0o755)
        return run(self.python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", "--no-cache-dir",
                   *what, env={**CLEAN, "MAKE": script})

    def use(self, text, *arguments):
        """Run a program that prints JSON, without any variable that could lead to another library."""
        return json.loads(run(self.python, "-c", text, *arguments, cwd=self.folder, env={}))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if SAN:
        pytest.skip("a sanitized library needs a sanitized Python")
    if subprocess.run([sys.executable, "-c", "import ensurepip"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("Python cannot make environments (Debian: python3-venv)")
    made = Environment(tmp_path_factory.mktemp("wheel"))
    old = " ".join(f"-o {shlex.quote(str(BUILD / name))}" for name in ("wheel/libhaloconv.so", "libhaloconv_cuda.so"))
    made.install(f'exec make {old} BUILD={shlex.quote(str(BUILD))} {shlex.quote(CUDA)} "$@"',
                 made.archive)
    return made


def test_an_installed_wheel_convolves(wheel):
    x, h = noise(3000, seed=1)[:, 0], noise(700, seed=2)[:, 0]
    np.savez(wheel.folder / "sound.npz", x=x, h=h)
    got = wheel.use("""if True:
        import json, sys
        import numpy as np
        import haloconv
        torch = "torch" in sys.modules
        given = np.load("sound.npz")
        y = haloconv.convolve(given["x"], given["h"], backend="cpu")
        print(json.dumps([torch, haloconv.__file__, haloconv.devices(), y.tolist()]))""")
    want = np.convolve(x.astype(np.float64), h.astype(np.float64))
    assert not got[0] and got[1] == str(wheel.site / "haloconv/__init__.py")
    assert ["cpu"] == [name for name, _ in got[2] if name == "cpu"]
    assert (wheel.site / "haloconv/libhaloconv_cuda.so").exists() == (CUDA != "WITH_CUDA=0")
    error = np.abs(np.array(got[3]) - want).max() / np.abs(want).max()
    assert error <= 1e-6, error


def test_an_installed_wheel_reads_sound_files_with_its_own_libraries(wheel):
    if not list(wheel.site.glob("haloconv/libs/*sndfile*")):
        pytest.skip("built without libsndfile")
    rate, sound = 48000, generator(3).uniform(-0.5, 0.5, 500)
    soundfile.write(wheel.folder / "mask.flac", sound, rate, subtype="PCM_24")
    responses, mapped = wheel.use("""if True:
        import json
        import haloconv
        bank = haloconv.Bank("mask.flac", rate=48000)
        other = haloconv.Bank("mask.flac", rate=44100)
        with open("/proc/self/maps") as maps:
            paths = sorted({line.split()[-1] for line in maps if ".so" in line})
        print(json.dumps([bank.responses.ravel().tolist(), paths]))""")
    assert np.abs(np.array(responses) - sound).max() < 1e-6
    own = sorted(str(path) for path in (wheel.site / "haloconv/libs").iterdir())
    assert own and set(own) <= set(mapped)
    others = [path for path in mapped if re.search("lib(sndfile|soxr|yaml|mysofa|FLAC)", path)]
    assert not others, others


def test_a_wheel_needs_only_the_c_library(wheel):
    folder = wheel.site / "haloconv"
    libraries = [folder / "libhaloconv.so", *(folder / "libs").iterdir()]
    names = {path.name for path in libraries}
    for path in libraries:
        needed = re.findall(r"NEEDED +(\S+)", run("objdump", "-p", path))
        assert needed, path
        others = [name for name in needed if name not in names and not re.match(
            r"(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|z|gcc_s|stdc\+\+))\.so\.\d+$", name)]
        assert not others, f"{path.name} needs {others}"


def test_metadata_of_a_wheel(wheel):
    said = wheel.use("""if True:
        import importlib.metadata, json
        import haloconv
        said = importlib.metadata.metadata("haloconv")
        files = [str(path.locate()) for path in importlib.metadata.files("haloconv") if "licenses" in str(path)]
        said = {name: said.get_all(name) for name in said}
        print(json.dumps({**said, "files": files, "is": haloconv.__version__}))""")
    header = re.search(r'HC_VERSION "(.*)"', (ROOT / "dsp/haloconv.h").read_text())[1]
    assert said["Version"] == [header] and said["is"] == header and said["Name"] == ["haloconv"]
    assert "numpy" in said["Requires-Dist"] and said["Provides-Extra"] == ["torch"]
    held = next(pathlib.Path(path).read_text() for path in said["files"] if path.endswith("/LIBRARIES.txt"))
    for name in os.listdir(wheel.site / "haloconv/libs"):
        assert re.search(rf"^{re.escape('lib' + name[3:])}: ", held, re.M), f"no licence of {name}: {held}"
    licences = said["License-Expression"][0].split(" AND ")  # none that would bind the module
    assert "MIT" in licences and not [one for one in licences if one.startswith("GPL") and "exception" not in one]
    assert {pathlib.Path(path).name for path in said["files"]} == set(said["License-File"])
    tag = re.search("^Tag: (.*)", next(wheel.site.glob("haloconv-*.dist-info/WHEEL")).read_text(), re.M)[1]
    assert re.fullmatch(rf"py3-none-manylinux_2_\d+_{os.uname().machine}", tag)


def test_an_editable_installation_is_the_source_tree(wheel):
    shutil.unpack_archive(wheel.archive, wheel.folder)
    source = next(path for path in wheel.folder.glob("haloconv-*") if path.is_dir())
    (source / "build").mkdir()
    shutil.copy(BUILD / "libhaloconv.so", source / "build")
    wheel.install('echo "$@" >"$(dirname "$0")/goals"', "-e", source)
    assert "build/libhaloconv.so" in (wheel.folder / "goals").read_text().split()
    got = wheel.use("import haloconv, json; print(json.dumps([haloconv.__file__, haloconv.__version__]))")
    assert got == [str(source / "plugins/python/haloconv/__init__.py"), haloconv_build.version()]


def test_a_failure_of_make_is_one_line(monkeypatch):
    for make, text in [("false", "make failed; its last lines say why"), ("/no/make", "install make and a C compiler")]:
        monkeypatch.setenv("MAKE", make)
        with pytest.raises(SystemExit, match=f"^haloconv: .*{text}$"):
            haloconv_build.run_make({"WITH_CUDA": "0"}, "wheel")


def test_a_library_that_ldd_cannot_read_is_refused(tmp_path):
    """Without its list the wheel would lack the copies, and its tag would still promise them."""
    for path in [tmp_path / "none.so", ROOT / "README.md"]:
        with pytest.raises(SystemExit, match="^haloconv: ldd does not list .*WHEEL_LIBS=0"):
            haloconv_build.shared_libraries(path)
