"""The GPU module: where the library looks for it, what it refuses, and that nothing maps it without a request.

The module is a fake (tests/tools/fake_gpu.c), whose one device is called "a fake of VERSION".
"""

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, SAN, copy_program, good, noise, write

FAKE = BUILD / "tests/module/libhaloconv_cuda.so"
OTHER = BUILD / "tests/module/other/libhaloconv_cuda.so"
CLEAN = {name: value for name, value in os.environ.items() if name != "HALOCONV_CUDA"}


def devices(program, **more):
    """What `haloconv devices` prints of CPU and GPU."""
    done = subprocess.run([str(program), "devices"], env={**CLEAN, **more}, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=True)
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("audio"))


def put(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    return target


@pytest.fixture
def program(folder):
    """The program alone, in a folder `bin`, where no module is near."""
    for installed in ("/usr/local/lib/haloconv", "/usr/lib/haloconv"):
        if os.path.exists(f"{installed}/libhaloconv_cuda.so"):
            pytest.skip(f"there is a module in {installed}")
    (folder / "there/bin").mkdir(parents=True)
    copy_program(folder / "there/bin/haloconv")
    return folder / "there/bin/haloconv"


def test_a_missing_module_is_said_with_its_remedy(program):
    said = devices(program)
    assert "cpu" in said and "cuda:0" not in said
    assert "libhaloconv_cuda.so is missing; install haloconv-cuda (from source: make, with nvcc), or use the CPU" in said
    assert f"looked beside {program.parent}" in said
    write("x.wav", noise(100))
    (program.parent / "h.txt").write_text("1\n")
    done = subprocess.run([str(program), "convolve", "x.wav", str(program.parent / "h.txt"), "-o", "y.wav", "--backend",
                           "cuda"], env=CLEAN, text=True, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1 and "libhaloconv_cuda.so is missing" in done.stderr, done.stderr


@pytest.mark.parametrize("place", ["bin", "", "bin/haloconv", "lib/haloconv"])
def test_the_module_is_found_near_the_program(program, place):
    if place == "bin/haloconv":
        program = program.rename(program.with_name("program"))
    put(FAKE, program.parent.parent / place / FAKE.name)
    assert "a fake of" in devices(program)


@pytest.mark.parametrize("unsafe", [lambda path: os.chmod(path, 0o646), lambda path: os.chmod(path.parent, 0o777),
                                    lambda path: os.chown(path, 65534, 65534)], ids=["file", "folder", "owner"])
def test_a_module_that_anybody_could_have_written_is_refused(program, unsafe):
    if os.getuid() != 0:
        pytest.skip("needs root, to give a file to another user")
    module = put(FAKE, program.parent.parent / "lib/haloconv" / FAKE.name)
    unsafe(module)
    said = devices(program)
    assert "a fake of" not in said and f"{module} or its folder could have been written by a user other" in said, said
    assert "a fake of" in devices(program, HALOCONV_CUDA=str(module))  # the user's own choice


def test_a_fifo_is_no_module(program):
    os.mkfifo(program.parent / "fifo")
    assert "is damaged" in devices(program, HALOCONV_CUDA=str(program.parent / "fifo"))


@pytest.mark.parametrize("place", ["lib", "lib/haloconv", "lib/lv2/any.lv2"])
def test_the_module_is_found_near_a_library_and_a_plugin(folder, place):
    """A library that a process has loaded by a link, as libhaloconv.so.1."""
    real = put(BUILD / "libhaloconv.so", folder / ("lib/lv2/any.lv2" if "lv2" in place else "lib") / "libhaloconv.so.9")
    put(FAKE, folder / ("lib/haloconv" if "lv2" in place else place) / FAKE.name)
    (folder / "libhaloconv.so").symlink_to(real)
    assert load([folder / "libhaloconv.so"])["devices"][0][1].startswith("cuda:0\ta fake of")


def test_the_user_names_the_module(program):
    """HALOCONV_CUDA counts before a module near the program, and no other is tried then."""
    put(FAKE, program.with_name(FAKE.name))
    assert "a fake of" in devices(program, HALOCONV_CUDA="")
    said = devices(program, HALOCONV_CUDA="/nonexistent/module.so")
    assert "/nonexistent/module.so cannot be read: No such file" in said and "cuda:0" not in said
    program.with_name(FAKE.name).unlink()
    assert "a fake of" in devices(program, HALOCONV_CUDA=str(FAKE))


def test_a_module_of_another_version_is_refused_with_both_versions(program):
    put(OTHER, program.with_name(FAKE.name))
    said = devices(program)
    own = devices(program, HALOCONV_CUDA=str(FAKE)).split("a fake of ")[1].split()[0]
    assert "belongs to haloconv 0.0.1-1" in said and f"this is haloconv {own};" in said and "cuda:0" not in said, said
    put(FAKE, program.parent.parent / "lib/haloconv" / FAKE.name)  # one of the right version is found behind it
    assert f"a fake of {own}" in devices(program)


def test_a_file_that_is_no_module_is_refused(program):
    put(BUILD / "libhaloconv.so", program.with_name(FAKE.name))
    assert "is not a GPU module of haloconv" in devices(program)
    program.with_name(FAKE.name).write_text("not even a library\n" * 100)
    assert "is damaged; install haloconv-cuda again" in devices(program)


def test_a_truncated_module_is_refused_at_every_length(program):
    """The loader of the C library does not see it, and would end the process."""
    whole, cut = FAKE.read_bytes(), program.with_name(FAKE.name)
    for n in [0, 1, 63, 64, 200, 1000, len(whole) // 2, len(whole) - 1]:
        cut.write_bytes(whole[:n])
        assert "is damaged" in devices(program), f"{n} of {len(whole)} bytes"


def test_a_module_needs_no_permission_to_execute(program):
    """Loading a library only reads its file."""
    put(FAKE, program.with_name(FAKE.name)).chmod(0o444)
    assert "a fake of" in devices(program)


# ---- several copies of the library -----------------------------------------------------------------------------------
def load(libraries, then="", asks=True, **more):
    """Load libraries into one process, one after the other, and list the devices of each; then run the text `then`."""
    script = f"""if True:
        import _ctypes, ctypes, json, os, sys
        def mapped(name):
            with open("/proc/self/maps") as maps:
                return any(line.rstrip().endswith(name) for line in maps)
        def devices(library):
            text, found = ctypes.create_string_buffer(300), []
            while library.hc_list_devices(len(found), text, ctypes.c_size_t(300)) == 0:
                found.append(text.value.decode())
            return found
        libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]
        out = {{"loaded": mapped("libhaloconv_cuda.so")}}
        out["devices"] = [devices(library) for library in libraries] if {asks} else []
        {then}
        print(json.dumps(out))"""
    if SAN:
        pytest.skip("a sanitized library needs a sanitized Python")
    done = subprocess.run([sys.executable, "-c", script, *map(str, libraries)], env={**CLEAN, **more}, text=True,
                          stdout=subprocess.PIPE, timeout=60, check=True)
    return json.loads(done.stdout)


def test_two_versions_side_by_side_have_their_own_modules(folder):
    ours, other = put(BUILD / "libhaloconv.so", folder / "a/libhaloconv.so"), folder / "b/libhaloconv.so"
    put(FAKE, folder / "a" / FAKE.name)
    put(OTHER.with_name("libhaloconv.so"), other)
    put(OTHER, folder / "b" / FAKE.name)
    for order in ([ours, other], [other, ours]):
        gpus = [devices[1].split("a fake of ")[1] for devices in load(order)["devices"]]
        assert (gpus[order.index(other)] == "0.0.1-1") and gpus[order.index(ours)] != "0.0.1-1", gpus


def test_an_unloaded_library_leaves_the_module_to_another_copy(folder):
    copies = [put(BUILD / "libhaloconv.so", folder / name / "libhaloconv.so") for name in "ab"]
    out = load(copies, """_ctypes.dlclose(libraries[0]._handle)
        out["gone"] = not mapped("a/libhaloconv.so")
        out["later"] = devices(libraries[1])
        out["again"] = devices(ctypes.CDLL(sys.argv[1]))""", HALOCONV_CUDA=str(FAKE))
    assert not out["loaded"] and out["gone"], out
    assert "a fake of" in out["later"][1] and out["again"] == out["later"] == out["devices"][0]


def test_a_process_that_asks_for_no_gpu_does_not_map_the_module(folder):
    """Neither the program on the CPU, nor one that loads the library, nor one that scans the plugin."""
    def loads(*command):
        done = good(*command, env={**CLEAN, "HALOCONV_CUDA": str(FAKE), "LD_DEBUG": "files"})
        return "libhaloconv_cuda.so" in done.stderr
    write("x.wav", noise(4000))
    write("h.wav", noise(300, seed=2))
    assert loads("devices")
    for command in (["convolve", "x.wav", "h.wav", "-o", "y.wav"], ["check", "h.wav"], ["--version"]):
        assert not loads(*command), command
    plugins = [str(path) for path in BUILD.glob("haloconv.lv2/haloconv.so")]
    out = load([BUILD / "libhaloconv.so"], f"""
        for path in {plugins}:
            ctypes.CDLL(path).lv2_descriptor(0)
        out["scanned"] = mapped("libhaloconv_cuda.so")""", asks=False, HALOCONV_CUDA=str(FAKE))
    assert not out["loaded"] and not out["scanned"]
