"""The Python wheels: pip builds one from the source archive and installs it into an empty environment.

pip's `make` packs the library and the program of this build; nothing is compiled.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import soundfile
from conftest import BUILD, CUDA, ROOT, SAN, generator, noise

sys.path.insert(0, str(ROOT / "plugins/python"))
import haloconv_build  # noqa: E402

# The variables of the make above us would go to the make of pip; the others would help the module to find a library.
MAX_BYTES = 8e6  # of the wheel with the libraries that it holds
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

    def pip(self, make, *command):
        """Run pip; `make` is a shell script that its make runs. A call of nvcc leaves the file bin/nvcc_calls."""
        (self.folder / "bin").mkdir(exist_ok=True)
        for name, script in [("make", make), ("bin/nvcc", 'echo "$@" >>"$0_calls"; exit 1')]:
            (self.folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (self.folder / name).chmod(0o755)
        return run(self.python, "-m", "pip", *command[:1], "--disable-pip-version-check", *command[1:],
                   env={**CLEAN, "MAKE": self.folder / "make", "PATH": f"{self.folder}/bin:{CLEAN['PATH']}"})

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
    prepared = " ".join(f"-o {shlex.quote(str(BUILD / name))}"
                        for name in ("wheel/libhaloconv.so", "wheel/haloconv", "impulses/made"))
    make = f'exec make {prepared} "$@" BUILD={shlex.quote(str(BUILD))} {shlex.quote(CUDA)}'
    made.pip(f'echo "$@" >>"$0_calls"; {make}', "wheel", "--no-index", "--no-cache-dir", "--no-deps", "--wheel-dir", made.folder, made.archive)
    made.file, = made.folder.glob("haloconv-*.whl")
    made.pip("exit 1", "install", "--no-index", made.file)
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
    assert own and {path for path in own if "jansson" not in path} <= set(mapped)  # the program alone needs jansson
    others = [path for path in mapped if re.search("lib(sndfile|soxr|yaml|mysofa|FLAC)", path)]
    assert not others, others


def test_a_wheel_needs_only_the_c_library(wheel):
    folder = wheel.site / "haloconv"
    libraries = [folder / "libhaloconv.so", *folder.glob("haloconv"), *(folder / "libs").iterdir()]
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
    assert "numpy>=1.21" in said["Requires-Dist"] and said["Provides-Extra"] == ["adapters", "cuda", "torch"]
    held = next(pathlib.Path(path).read_text() for path in said["files"] if path.endswith("/LIBRARIES.txt"))
    for name in os.listdir(wheel.site / "haloconv/libs"):
        assert re.search(rf"^{re.escape('lib' + name[3:])}: ", held, re.M), f"no licence of {name}: {held}"
    licences = said["License-Expression"][0].split(" AND ")  # none that would bind the module
    assert "MIT" in licences and not [one for one in licences if one.startswith("GPL") and "exception" not in one]
    assert {pathlib.Path(path).name for path in said["files"]} == set(said["License-File"])
    assert (wheel.site / "haloconv/py.typed").exists()


def test_the_tag_of_a_wheel_is_true(wheel, tmp_path):
    """The processor is that of all files, and the version of glibc that of the newest function that one needs."""
    tag = re.search("^Tag: (.*)", next(wheel.site.glob("haloconv-*.dist-info/WHEEL")).read_text(), re.M)[1]
    assert wheel.file.name == f"haloconv-{haloconv_build.version()}-{tag}.whl"
    assert wheel.file.stat().st_size <= MAX_BYTES
    zipfile.ZipFile(wheel.file).extractall(tmp_path)
    binaries = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert {"libhaloconv.so"} <= {path.name for path in binaries}
    needed = [int(minor) for path in binaries for minor in re.findall(r"\(GLIBC_2\.(\d+)", run("objdump", "-T", path))]
    assert tag == f"py3-none-manylinux_2_{max(needed)}_{os.uname().machine}"


def test_pip_calls_no_gpu_tool_and_builds_nothing_for_the_metadata(wheel, tmp_path, monkeypatch):
    goals = (wheel.folder / "make_calls").read_text().splitlines()
    nvcc_calls = wheel.folder / "bin/nvcc_calls"
    assert [set(line.split()) & {"wheel", "wheel-metadata"} for line in goals] == [{"wheel-metadata"}, {"wheel"}]
    assert not nvcc_calls.exists()
    for name in set(os.environ) - set(CLEAN):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{wheel.folder}/bin:{CLEAN['PATH']}")
    monkeypatch.setenv("BUILD", str(tmp_path / "build"))
    settings = dict([CUDA.split("=", 1)])
    info = tmp_path / haloconv_build.prepare_metadata_for_build_wheel(str(tmp_path), settings)
    assert [path.name for path in (tmp_path / "build").rglob("*.*")] == ["needs.so"]
    installed = next(wheel.site.glob("haloconv-*.dist-info"))
    assert (info / "METADATA").read_text() == (installed / "METADATA").read_text()
    assert sorted(os.listdir(info / "licenses")) == sorted(os.listdir(installed / "licenses"))
    monkeypatch.setenv("HALOCONV_WITH_CUDA", "1")
    with pytest.raises(SystemExit, match="make failed"):  # this nvcc has no version
        haloconv_build.prepare_metadata_for_build_wheel(str(tmp_path), {})
    assert nvcc_calls.exists()


def test_the_program_of_a_wheel_convolves_with_a_mask_that_it_brings(wheel):
    if not (wheel.site / "haloconv/haloconv").exists():
        pytest.skip("built without the program")
    sound = noise(2000, seed=5)[:, 0]
    soundfile.write(wheel.folder / "in.wav", sound, 48000, subtype="FLOAT")
    mask, _ = soundfile.read(BUILD / "impulses/hall.wav")
    want = np.stack([np.convolve(sound.astype(np.float64), column) for column in mask.T], 1)
    for i, program in enumerate([[wheel.folder / "venv/bin/haloconv"], [wheel.python, "-m", "haloconv"]]):
        run(*program, "convolve", "in.wav", "hall", "-o", f"out{i}.wav", cwd=wheel.folder, env={})
        got, _ = soundfile.read(wheel.folder / f"out{i}.wav")
        assert np.abs(got - want).max() <= 1e-6 * np.abs(want).max()


def test_the_program_of_a_wheel_says_what_it_never_has(wheel):
    """A library that its user installs would not bring JACK, PipeWire and PortAudio into it."""
    if not (wheel.site / "haloconv/haloconv").exists():
        pytest.skip("built without the program")
    soundfile.write(wheel.folder / "one.wav", np.ones((1, 1)), 48000)
    program = wheel.folder / "venv/bin/haloconv"
    for args in [["jack", "one.wav"], ["pipewire", "one.wav"], ["live", "one.wav"],
                 ["measure", "--jack", "-o", "x.wav"], ["measure", "--portaudio", "-o", "x.wav"]]:
        done = subprocess.run([program, *args], cwd=wheel.folder, env={}, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        says = r"haloconv: \w+: the program from pip has no \w+; install Debian's package haloconv, or build from source\n"
        assert done.returncode == 1 and re.fullmatch(says, done.stderr), (args, done.stderr)


def test_the_extra_cuda_brings_the_gpu_module(wheel):
    """Program and Python module look at the file of the other package: here it has the code of no GPU module."""
    source = wheel.folder / "module.c"
    source.write_text('#include <math.h>\nfloat half(float x) { return ldexpf(x, -1); }\n')
    module = wheel.folder / "libhaloconv_cuda.so"
    run(os.environ.get("CC", "gcc"), "-shared", "-fPIC", source, "-o", module, "-lm")
    haloconv_build.main("haloconv-cuda", str(wheel.folder), str(module))
    look = """if True:
        import json, os, haloconv
        try:
            haloconv.convolve([1.0], [1.0], backend="cuda")
        except haloconv.Error as error:
            print(json.dumps([str(error), os.environ.get("HALOCONV_CUDA")]))"""
    missing, _ = wheel.use(look)
    assert "libhaloconv_cuda.so is missing" in missing
    wheel.pip("exit 1", "install", "--no-index", "--find-links", wheel.folder, "haloconv[cuda]")
    found = str(wheel.site / "haloconv_cuda/libhaloconv_cuda.so")
    said, named = wheel.use(look)
    assert f"{found} is not a GPU module of haloconv" in said and named is None
    assert pathlib.Path(found).read_bytes() == module.read_bytes()
    wheel.pip("exit 1", "uninstall", "--yes", "haloconv-cuda")


def test_the_extra_adapters_brings_their_package(wheel, tmp_path):
    """Its wheel is for every machine, the same each time, and the same by pip from its folder of the source."""
    for name in ("one", "two"):
        haloconv_build.main("haloconv-adapters", str(tmp_path / name))
    made, again = (next((tmp_path / name).iterdir()) for name in ("one", "two"))
    assert made.name == f"haloconv_adapters-{haloconv_build.version('haloconv-adapters')}-py3-none-any.whl"
    assert made.read_bytes() == again.read_bytes()
    look = """if True:
        import json, haloconv
        try:
            haloconv.patch("scipy")
        except ModuleNotFoundError as error:
            print(json.dumps(str(error)))"""
    assert wheel.use(look).endswith("pip install 'haloconv[adapters]'")
    wheel.pip("exit 1", "install", "--no-index", "--find-links", made.parent, "haloconv[adapters]")
    assert "scipy is not installed" in wheel.use(look)
    shares = run(wheel.python, "-m", "haloconv.ray", "--help", cwd=wheel.folder, env={})
    assert shares.startswith("usage: python -m haloconv.ray")
    wheel.pip("exit 1", "uninstall", "--yes", "haloconv-adapters")
    assert wheel.use(look).endswith("pip install 'haloconv[adapters]'")
    shutil.unpack_archive(wheel.archive, tmp_path)
    source, = tmp_path.glob("haloconv-*/plugins/python/haloconv_adapters")
    wheel.pip("exit 1", "install", "--no-index", source)
    assert "scipy is not installed" in wheel.use(look)
    for path in zipfile.ZipFile(made).namelist():
        if path.endswith(".py"):
            assert (wheel.site / path).read_bytes() == (ROOT / "plugins/python" / path).read_bytes()
    assert not (wheel.site / "haloconv_adapters/pip").exists()
    wheel.pip("exit 1", "uninstall", "--yes", "haloconv-adapters")


def test_an_editable_installation_is_the_source_tree(wheel):
    shutil.unpack_archive(wheel.archive, wheel.folder)
    source = next(path for path in wheel.folder.glob("haloconv-*") if path.is_dir())
    (source / "build").mkdir()
    shutil.copy(BUILD / "libhaloconv.so", source / "build")
    wheel.pip('echo "$@" >"$0_goals"', "install", "--no-index", "-e", source)
    goals = (wheel.folder / "make_goals").read_text().split()
    assert "build/libhaloconv.so" in goals and "WITH_CUDA=0" not in goals
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


def test_a_wheel_for_another_processor_is_for_it(tmp_path):
    """Its files have the processor of its tag, and the emulator loads the library and convolves."""
    if not os.environ.get("HC_TEST_EMULATOR"):
        pytest.skip("make cross-test runs it")
    wheel = max((BUILD / "wheel").glob("haloconv-*.whl"), key=lambda path: path.stat().st_mtime)
    machine = re.search(r"manylinux_2_\d+_(\w+)\.whl", wheel.name)[1]
    assert machine != os.uname().machine
    zipfile.ZipFile(wheel).extractall(tmp_path)
    binaries = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert tmp_path / "haloconv/libhaloconv.so" in binaries
    for path in binaries:
        assert machine in run("readelf", "-h", path).lower(), path
    source, program = tmp_path / "use.c", tmp_path / "use"
    source.write_text("""
#include <dlfcn.h>
#include <haloconv.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "%s", dlerror()), 1;
    hc_config config;
    hc_engine *engine;
    char why[256];
    float taps[2] = {0.5f, 0.25f}, in[64] = {1}, out[64];
    ((void (*)(hc_config *))dlsym(library, "hc_config_init"))(&config);
    config.n_in = config.n_out = 1;
    if (((int (*)(const hc_config *, hc_engine **, char *, size_t))dlsym(library, "hc_open"))(&config, &engine, why, 256))
        return fprintf(stderr, "%s", why), 1;
    hc_route route = {.taps = taps, .n_taps = 2, .gain = 1};
    hc_mask *mask;
    if (((int (*)(hc_engine *, const hc_route *, size_t, int, hc_mask **, char *, size_t))dlsym(library, "hc_mask_make"))(
            engine, &route, sizeof route, 1, &mask, why, 256))
        return fprintf(stderr, "%s", why), 1;
    ((int (*)(hc_engine *, hc_mask *))dlsym(library, "hc_mask_swap"))(engine, mask);
    int (*process)(hc_engine *, const float *const *, float *const *, int) = dlsym(library, "hc_process");
    const float *ins[] = {in};
    float *outs[] = {out};
    for (int i = 0; i < 20; i++) process(engine, ins, outs, 64); /* the fade ends after 8 */
    printf("%s %g %g", ((const char *(*)(void))dlsym(library, "hc_version"))(), out[0], out[1]);
    return 0;
}
""")
    run(*shlex.split(os.environ["CC"]), f"-I{ROOT}/dsp", source, "-ldl", "-o", program)
    said = run(*shlex.split(os.environ["HC_TEST_EMULATOR"]), program, tmp_path / "haloconv/libhaloconv.so")
    assert said == f"{haloconv_build.version()} 0.5 0.25"
