"""The layers of the code: which folder may include and call which, what headers promise, what the library exports.

    host, plugins -> dsp/haloconv*.h <- dsp/live -> dsp/engine -> dsp/device/backend.h <- {dsp/cpu, kernels/backend}
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import BUILD, PUBLIC_HEADERS, ROOT, SAN


# ---- what a folder includes ------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=None)
def declarations(header):
    return re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)


def calls_of(header):
    return set(re.findall(r"\b(hc_\w+)\(", declarations(header)))


def includes(path):
    return re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', path.read_text(), re.M)


def sources(folder, *endings):
    return [p for p in (ROOT / folder).rglob("*") if p.suffix in endings]


def belongs_to(name, folder):
    """Does an #include name a file of this folder?"""
    return (ROOT / folder / pathless(name, folder)).exists() if "/" not in name else name.startswith(folder + "/")


def pathless(name, folder):
    return name[len(folder) + 1:] if name.startswith(folder + "/") else name


@pytest.mark.parametrize("folder", ["host", "plugins", "impulses"])
def test_hosts_know_only_the_public_headers(folder):
    for path in sources(folder, ".c", ".h"):
        for name in includes(path):
            own = (path.parent / name).exists()
            inside = (not own and belongs_to(name, "dsp")) or belongs_to(name, "kernels") and not own
            public = name in [h.name for h in PUBLIC_HEADERS] + [f"dsp/{h.name}" for h in PUBLIC_HEADERS]
            public = public or name.startswith("dsp/signal/")  # arithmetic that the readers of masks share
            public = public or name.startswith("dsp/base/")  # library, program and plugins share it
            public = public or (path.name, name) == ("sound_in.c", "dsp/sndfile_log.h")  # text only; it calls nothing
            public = public or (path.name, name) == ("sound_in.h", "dsp/masks/sound_header.h")  # headers, for libsndfile
            public = public or (path.name, name) == ("mask_operation_time.c", "dsp/masks/resample.h")  # of samples
            public = public or (path.name, name) == ("batch.c", "dsp/backends/gpu_rules.h")  # arithmetic; it calls nothing
            bench = name == "dsp/bench.h" and path.parent == ROOT / "host/bench"
            assert not inside or bench or public, f"{path.relative_to(ROOT)} includes {name}"
            assert "cuda" not in name.lower(), f"{path.relative_to(ROOT)} includes {name}"


def test_the_engine_knows_no_cuda():
    for path in sources("dsp", ".c", ".h"):
        for name in includes(path):
            assert not re.search(r"cuda|cufft|\.cuh?$", name.lower()), f"{path.relative_to(ROOT)} includes {name}"
            assert not name.startswith(("host/", "kernels/", "plugins/")), f"{path.relative_to(ROOT)} includes {name}"
            assert (path.parent / name).exists() or not (ROOT / "host" / name).exists(), f"{path.name} includes {name}"
    for path in sources("dsp/engine", ".c", ".h"):
        assert not re.search(r"\b([AH][0-9]{2,3}|RTX|GeForce)\b", path.read_text()), f"{path.name} names a GPU model"


@pytest.mark.parametrize("folder", ["dsp", "host", "plugins"])
def test_library_program_and_plugin_are_the_same_with_and_without_cuda(folder):
    """No source asks for CUDA, and no object needs what is in the GPU module."""
    for path in sources(folder, ".c", ".h"):
        assert not re.search(r"#\s*(el)?if.*CUDA(?!CC)", path.read_text()), f"{path.relative_to(ROOT)}: #if CUDA"
    needs_nm()
    for name, path in objects_of(BUILD).items():
        if name.startswith(folder + "/"):
            needed = [symbol for symbol in symbols((path,))[path][1] if re.search("cuda", symbol, re.I)]
            assert not needed, f"{name} needs {needed}"


def test_kernels_know_no_host():
    for path in sources("kernels", ".cu", ".cuh", ".h"):
        for name in includes(path):
            own = (path.parent / name).exists()
            assert own or not (ROOT / "host" / name).exists(), f"{path.relative_to(ROOT)} includes {name}"
            assert "sndfile" not in name and "jack" not in name, f"{path.relative_to(ROOT)} includes {name}"
            if not own and belongs_to(name, "dsp"):
                inside = pathless(name, "dsp")
                assert inside.startswith(("base/", "device/", "haloconv")) or inside == "backends/gpu_module.h", f"{path.relative_to(ROOT)} includes {name}"


def test_the_product_contains_no_ladder():
    for folder in ("dsp", "host", "plugins", "kernels/backend", "kernels/fft", "kernels/files", "kernels/module", "kernels/resident", "kernels/tensors"):
        for path in sources(folder, ".c", ".cu", ".cuh", ".h"):
            for name in includes(path):
                assert not belongs_to(name, "kernels/ladder"), f"{path.relative_to(ROOT)} includes {name}"
    needs_nm()
    for path in (BUILD / "haloconv", BUILD / "libhaloconv.so"):
        names = path.exists() and subprocess.run(["nm", str(path)], stdout=subprocess.PIPE, text=True, check=True)
        assert not names or not re.search(r" (rung|ladder)_", names.stdout), f"{path} contains the kernel ladder"


# ---- names ------------------------------------------------------------------------------------------------------------
FUNCTION = re.compile(r"^(?!typedef|return|else|extern|struct \w+ \{)[A-Za-z_][\w <>*(),]*?[ *](\w+)\([^;{}]*\)\s*\{", re.M)


def defined_in(text):
    """The functions and the structs that a source of C or CUDA defines at the beginning of a line."""
    code = re.sub(r"/\*(?:.|\n)*?\*/|//.*|^\s*#(?:.*\\\n)*.*|__launch_bounds__\((?:[^()]|\([^()]*\))*\)", "", text, flags=re.M)
    code = re.sub(r"^template <.*?>\s(?=\w)", "", code, flags=re.M)
    names = {name for name in FUNCTION.findall(code) if name not in ("if", "for", "while", "switch", "main")}
    return names, set(re.findall(r"^struct (\w+) \{", code, re.M))


def names_of_several(files):
    """{name: [file]} of the functions, and of the structs, that more than one file defines. files: {file: text}."""
    homes = {}, {}
    for file, text in files.items():
        for home, names in zip(homes, defined_in(text)):
            for name in names:
                home.setdefault(name, []).append(file)
    return [{name: there for name, there in home.items() if len(there) > 1} for home in homes]


def test_a_name_stands_in_one_file():
    """So that grep finds what a call means. The ladder is a program of its own; a few names are the same thing in two places."""
    files = {str(path.relative_to(ROOT)): path.read_text()
             for folder in ("dsp", "kernels", "host", "plugins") for path in sources(folder, ".c", ".h", ".cu", ".cuh")
             if "kernels/ladder" not in str(path)}
    assert sum(len(defined_in(text)[0]) for text in files.values()) > 4000
    for kind, found, limit in zip(("functions", "structs"), names_of_several(files), (60, 10)):
        lines = [f"{name}: {', '.join(there)}" for name, there in sorted(found.items())]
        assert len(lines) <= limit, f"{len(lines)} {kind} have the name of another file's:\n" + "\n".join(lines)


def test_a_name_of_two_files_is_found():
    one = """struct thing {
    int n;
};
static __global__ void __launch_bounds__(size<8>(2)) product(float *y,
                                         int n)
{
    if (n) called(n);
}
template <int N> static int of_template(void) { return N; }
"""
    two = "/* int in_a_comment(void) { */\nint declared(int n);\nint product(int n)\n{\n    return called(n);\n}\n"
    three = "struct thing;\nstruct thing {\n};\nint in_a_comment(void) { return 0; }\nint declared(int n) { return n; }\n"
    assert defined_in(one) == ({"product", "of_template"}, {"thing"})
    assert names_of_several({"1": one, "2": two, "3": three}) == [{"product": ["1", "2"]}, {"thing": ["1", "3"]}]


# ---- headers and the exported names ----------------------------------------------------------------------------------
@pytest.mark.parametrize("header", [*PUBLIC_HEADERS, ROOT / "dsp/bench.h"], ids=lambda path: path.name)
@pytest.mark.parametrize("compiler,standard,ending",
                         [("cc", "c11", "c"), ("c++", "c++17", "cc"), ("c++", "c++11", "cc")])
def test_each_header_stands_alone(folder, compiler, standard, ending, header):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    (folder / f"one.{ending}").write_text(f'#include "{header.name}"\n'
                                          'int main(void) { hc_config c; hc_config_init(&c); return c.rate; }\n')
    subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                    f"-I{ROOT}/dsp",
                    f"one.{ending}"], check=True, timeout=60)


@pytest.mark.parametrize("header", PUBLIC_HEADERS, ids=lambda path: path.name)
def test_the_public_headers_name_no_device(header):
    assert not re.search(r"cuda|sndfile|cufft", declarations(header), re.I)
    standard = ["stddef.h", "stdint.h"]
    assert includes(header) == standard if header.name == "haloconv.h" else set(includes(header)) <= {
        "haloconv.h", "haloconv_masks.h", "haloconv_scenes.h", *standard}


@pytest.mark.parametrize("header", [*PUBLIC_HEADERS, ROOT / "dsp/bench.h"], ids=lambda path: path.name)
def test_every_call_carries_its_tag(header):
    """[rt] or [setup], in the comment before the call or behind it on its line."""
    parts = re.split(r"(/\*.*?\*/)", header.read_text(), flags=re.S)
    calls = 0
    for before, code, behind in zip(parts[1::2], parts[2::2], parts[3::2] + [""]):
        for call in re.finditer(r"\b(hc_\w+)\(", code):
            calls += 1
            tags = before if "\n" in code[call.end():] else before + behind
            assert re.search(r"\[(rt|setup)\]", tags), f"{call.group(1)} has no tag"
    assert calls == len(calls_of(header)) > 0


def test_no_header_declares_what_another_does():
    names = [name for header in [*PUBLIC_HEADERS, ROOT / "dsp/bench.h"] for name in calls_of(header)]
    assert len(names) == len(set(names)) and len(calls_of(ROOT / "dsp/haloconv.h")) >= 12


def test_the_library_names_no_option_of_the_program():
    """C and Python programs show its messages, too. `python -m haloconv.ray` is a program with options."""
    for folder in ("dsp", "kernels/backend", "kernels/fft", "kernels/files", "kernels/module", "kernels/resident", "plugins"):
        for path in sources(folder, ".c", ".h", ".cu", ".cuh", ".py"):
            for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', declarations(path)) if path.name != "ray_batch.py" else []:
                assert not re.search(r"(^|[^-])--[a-z]", text), f"{path.relative_to(ROOT)}: {text}"


def test_the_debian_package_lists_the_calls_of_the_map():
    """Another list ends dpkg-gensymbols, or lintian after it, with an error."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "dsp/haloconv.map").read_text(), flags=re.S)
    mapped = {f"{call}@{node}" for node, body in re.findall(r"(\w+) *\{(.*?)\}", text, re.S)
              for call in [*re.findall(r"\bhc_\w+", body), node]}
    listed = re.findall(r"^ (\S+) \S+$", (ROOT / "packaging/debian/libhaloconv1.symbols").read_text(), re.M)
    assert len(mapped) > 60 and sorted(listed) == sorted(mapped)


def test_library_exports_its_own_names_only():
    if not shutil.which("nm") or SAN:
        pytest.skip("no nm, or a sanitizer's names are there too")
    done = subprocess.run(["nm", "-D", "--defined-only", str(BUILD / "libhaloconv.so")], stdout=subprocess.PIPE,
                          text=True, check=True)
    exported = dict(re.split("@+", line.split()[-1]) for line in done.stdout.splitlines() if "@" in line)
    private = {name for name, version in exported.items() if version == "HALOCONV_PRIVATE"}
    assert private == set(calls_of(ROOT / "dsp/bench.h")), private
    exported = {name: version for name, version in exported.items() if name not in private}
    declared = set().union(*map(calls_of, PUBLIC_HEADERS))
    assert exported.keys() == declared, exported.keys() ^ declared
    number = re.search(r"soname,libhaloconv\.so\.(\d+)", (ROOT / "dsp/dsp.mk").read_text())[1]
    assert {version.split(".")[0] for version in exported.values()} == {f"HALOCONV_{number}"}


def test_programs_and_plugins_with_two_versions_of_the_library_call_their_own(folder):
    """A program with libhaloconv.so.1 loads a plugin with libhaloconv.so.2, here the same code with other names."""
    if SAN:
        pytest.skip("a sanitizer's library needs the sanitizer in the program")
    one, two = BUILD / "libhaloconv.so", folder / "libhaloconv.so.2"
    (folder / "2.map").write_text((ROOT / "dsp/haloconv.map").read_text().replace("HALOCONV_1", "HALOCONV_2"))
    needs = subprocess.run(["objdump", "-p", one], stdout=subprocess.PIPE, text=True, check=True).stdout
    libraries = [f"-l:{name}" for name in re.findall(r"NEEDED +(\S+)", needs) if not name.startswith("ld-")]
    (folder / "home.h").write_text('#define _GNU_SOURCE\n#include "haloconv.h"\n#include <dlfcn.h>\n#include <stdio.h>\n'
                                   'static const char *(*volatile call)(void) = hc_version;\n'
                                   'static void print(void) { Dl_info is; dladdr((void *)call, &is);\n'
                                   '    printf("%s %d\\n", is.dli_fname, call() != NULL); }\n')
    (folder / "plugin.c").write_text('#include "home.h"\nvoid run(void) { print(); }\n')
    (folder / "program.c").write_text('#include "home.h"\nint main(void) {\n    print();\n'
                                      '    ((void (*)(void))dlsym(dlopen("./plugin.so", RTLD_NOW), "run"))();\n}\n')
    os.symlink(one, folder / "libhaloconv.so.1")
    for arguments in [["-shared", "-Wl,-soname,libhaloconv.so.2", "-Wl,--version-script=2.map", "-Wl,--whole-archive",
                       BUILD / "libhaloconv.a", "-Wl,--no-whole-archive", *libraries, "-o", two],
                      ["-shared", "-fPIC", "plugin.c", two, "-o", "plugin.so"],
                      ["-fPIC", "-pie", "program.c", "libhaloconv.so.1", "-o", "program"]]:
        subprocess.run(["cc", "-I.", f"-I{ROOT}/dsp", *arguments], check=True, timeout=60)
    done = subprocess.run(["./program"], env={**os.environ, "LD_LIBRARY_PATH": "."}, stdout=subprocess.PIPE, text=True,
                          check=True, timeout=60)
    assert re.fullmatch(r"\S*libhaloconv\.so\.1 1\n\S*libhaloconv\.so\.2 1\n", done.stdout), done.stdout


def test_library_never_prints_and_never_exits():
    for path in sources("dsp", ".c"):
        if path.parent == ROOT / "dsp/examples":
            continue  # programs
        text = re.sub(r"/\*.*?\*/|\"(\\.|[^\"\\])*\"", "", path.read_text(), flags=re.S)
        found = re.search(r"\b(printf|fprintf|puts|fputs|perror|exit|abort|_exit|putchar)\s*\(", text)
        assert not found, f"{path.relative_to(ROOT)}: {found.group(0)}"

# ---- what a folder calls: the symbols of the built objects -----------------------------------------------------------
PUBLIC = [f"dsp/{header.name}" for header in PUBLIC_HEADERS]
ANY = ["any"]

# {folder of the caller: {folder of the callee: what may be used there}}: the names that a header declares, or one name.
# Every folder of dsp/ may use dsp/base/.
ARROWS = {
    "dsp/device": {},
    "dsp/fft": {},
    "dsp/cpu": {"dsp/fft": ANY, "dsp/device": ANY},
    "dsp/backends": {"dsp/device": ANY, "dsp/cpu": ["dsp/device/backend.h", "dsp/device/scene_backend.h", "dsp/cpu/cpu_costs.h"]},
    "dsp/scene": {"dsp/backends": ["dsp/backends/backends.h"], "dsp/device": ANY},
    "dsp/tensors": {"dsp/backends": ["dsp/backends/backends.h"]},
    "dsp/engine": {"dsp/backends": ANY, "dsp/device": ANY, "dsp/scene": ANY},
    "dsp/banks": {"dsp/masks": ANY, "dsp/signal": ANY, "dsp/scene": ["bank_check"]},
    "dsp/live": {"dsp/engine": PUBLIC + ["dsp/engine/engine.h"], "dsp/import": PUBLIC,
                 "dsp/signal": ["k_weighting"], "dsp/banks": PUBLIC, "dsp/scene": PUBLIC},
    "dsp/masks": {},
    "dsp/import": {"dsp/masks": ANY, "dsp/signal": ANY, "dsp/banks": PUBLIC},
    "dsp/signal": {},
    "kernels/fft": {},
    "kernels/backend": {"dsp/base": ANY, "dsp/device": ANY, "kernels/fft": ANY},
    "kernels/files": {"dsp/base": ANY, "dsp/device": ANY, "kernels/backend": ANY, "kernels/fft": ANY},
    "kernels/module": {"dsp/base": ANY, "dsp/device": ANY, "kernels/backend": ANY, "kernels/files": ANY,
                       "kernels/resident": ["kernels/resident/resident_head.h"], "kernels/tensors": ["tensors_cuda"]},
    "kernels/resident": {"dsp/base": ANY, "dsp/device": ANY, "kernels/backend": ANY},
    "kernels/tensors": {"dsp/base": ["fail"], "kernels/backend": ["kernels/backend/cuda_error.h"]},
    "kernels/ladder": {},
    "host": {},
    "host/main": {"host": ANY, "host/files": ANY, "host/live/session": ANY, "host/live/remotes": ANY, "host/live/devices": ANY,
                  "host/live/servers": ANY, "host/batch": ANY, "host/masks": ANY,
                  "host/bench": ANY, "host/design": ANY, "host/measure": ANY},
    "host/files": {"host": ANY, "host/scene": ANY},
    "host/scene": {"host": ANY},
    "host/masks": {"host": ANY, "host/files": ANY,
                   "host/plot": ["host/plot/plot_masks.h"]},
    "host/design": {"host": ANY, "host/masks": ["host/masks/mask_write.h",
                                                  "host/masks/headroom.h"],
                    "host/files": ["host/files/text_out.h", "host/files/mask_diagnostics.h", "host/files/sound_format.h"],
                    "host/plot": ["host/plot/plot.h", "host/plot/plot_masks.h"]},
    "host/plot": {"host": ANY, "host/files": ANY},
    "host/measure": {"host": ANY, "host/files": ANY, "host/masks": ["host/masks/mask_write.h"],
                     "host/live/servers": ["host/live/servers/jack_server.h", "host/commands.h"], "host/live/devices": ["host/live/devices/portaudio_device.h", "host/commands.h"],
                     "host/live/session": ["host/live/session/preset.h"],
                     "host/design": ["host/commands.h", "host/design/calibration.h", "host/design/correction_report.h",
                                     "host/design/design_files.h"],
                     "host/plot": ["host/plot/plot.h", "host/plot/plot_masks.h"]},
    "host/live/session": {"host": ANY, "host/files": ["host/files/part_file.h", "host/files/text_out.h"]},
    "host/live/remotes": {"host": ANY, "host/files": ["host/files/part_file.h"], "host/live/session": ANY, "host/panel": ["host/panel/panel.h"]},
    "host/live/devices": {"host": ANY, "host/panel": ["host/panel/panel.h"], "host/live/session": ANY, "host/live/remotes": ANY},
    "host/live/servers": {"host": ANY, "host/live/session": ANY, "host/live/remotes": ANY},
    "host/panel": {"host": ANY, "host/files": ["host/files/sound_in.h"],
                   "host/plot": ["host/plot/plot.h", "host/plot/plot_masks.h"]},
    "host/batch": {"host": ANY, "host/files": ANY, "host/scene": ANY},
    "host/bench": {"host": ANY},
    "plugins/haloconv.clap": {"plugins/core": ANY, "plugins/window": ["plugins/window/window.h"]},
    "plugins/haloconv.lv2": {"plugins/core": ANY, "plugins/window": ["plugins/window/window.h"]},
    "plugins/haloconv.vst3": {"plugins/core": ANY, "plugins/window": ["plugins/window/window.h"]},
    "plugins/window": {},
}


def arrow(caller, callee):
    """The headers (or single names) that the caller's folder may use of the callee's; None: nothing."""
    if caller.startswith(("host", "plugins/window")) and callee == "dsp/signal":
        return ANY
    if caller.startswith(("dsp/", "host", "plugins")) and callee == "dsp/base":
        return ANY
    if caller.startswith(("host", "plugins")) and callee.startswith("dsp"):
        return PUBLIC + {"host/bench": ["dsp/bench.h"], "host/masks": ["dsp/masks/resample.h"],
                         "host/files": ["dsp/masks/sound_header.h"]}.get(caller, [])
    return ARROWS.get(caller, {}).get(callee)


def circle(uses):
    """A circle of the graph {folder: set of folders}, as a list of folders, or None."""
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder):]
        if folder in done:
            return None
        path.append(folder)
        found = next(filter(None, map(visit, sorted(uses.get(folder, ())))), None)
        path.pop()
        done.add(folder)
        return found

    return next(filter(None, map(visit, sorted(uses))), None)


def test_folders_form_no_circle():
    """In includes, and in what the arrows allow."""
    uses = {caller: set(callees) for caller, callees in ARROWS.items()}
    for path in sources("dsp", ".c", ".h") + sources("kernels", ".cu", ".cuh", ".h") + sources("host", ".c", ".h"):
        for name in includes(path):
            found = [base / name for base in (path.parent, ROOT) if (base / name).exists()]
            if found:
                caller, callee = (str(p.resolve().parent.relative_to(ROOT)) for p in (path, found[0]))
                uses.setdefault(caller, set()).add(callee)
    for folder, others in uses.items():  # a header of dsp/ belongs to the folder that implements it
        uses[folder] = others - {folder, "dsp"}
    assert not circle(uses), " -> ".join(circle(uses))


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"] and circle({"a": {"b", "c"}, "b": {"c"}}) is None


@functools.lru_cache(maxsize=None)
def symbols(objects):
    """{object: (names that it defines, names that it takes from others)}, of the names that a linker sees.

    objects  a tuple of paths
    """
    if not objects:
        return {}
    done = subprocess.run(["nm", "-A", *map(str, objects)], stdout=subprocess.PIPE, text=True, check=True)
    table = {path: (set(), set()) for path in objects}
    for line in done.stdout.splitlines():
        path, entry = line.rsplit(":", 1)
        kind, name = entry.split()[-2:]
        if kind == "U" or kind.isupper() or kind in "vw":
            table[pathlib.Path(path)][kind in "Uvw"].add(name)
    return table


def objects_of(build):
    """{name: path} of the product's objects in a build folder, as `dsp/fft/fft.o`; not those whose source is gone."""
    roots = [build] + ([] if list(build.glob("kernels/ladder/*.o")) else [build / "cuda_on_cpu"])
    found = {}
    for root in roots:
        for path in [p for top in ("dsp", "kernels", "host", "plugins") for p in (root / top).rglob("*.o")]:
            name = path.relative_to(root)
            # simd.c is compiled once for each instruction set; fft_short.c, as fft_short_v4_16_8, more often
            stem = re.sub(r"_(base|v3|v4)(_\d+_\d+)?$", "", path.stem)
            if any((ROOT / name).with_name(stem + ending).exists() for ending in (".c", ".cu")):
                found.setdefault(str(name), path)
    return found


@functools.lru_cache(maxsize=None)
def words(header):
    return set(re.findall(r"\w+", declarations(header)))


def is_named(symbol, allowed, root):
    """Is the symbol the allowed name, or declared in the allowed header? C++ wraps a name: _Z8fir_openi."""
    if "/" not in allowed:
        return symbol == allowed
    return any(re.search(rf"(^|\d){word}", symbol) if symbol.startswith("_Z") else word == symbol
               for word in words(root / allowed))


def breaches(objects, arrows=arrow, root=ROOT):
    """Lines `a/x.o uses y of b/z.o`, for all that the arrows do not allow. objects: {name: path}."""
    table = symbols(tuple(objects.values()))
    definers = {}
    for name, path in objects.items():
        for symbol in table[path][0]:
            definers.setdefault(symbol, []).append(name)
    lines = []
    for name, path in objects.items():
        folder = str(pathlib.PurePath(name).parent)
        for symbol in table[path][1]:
            # The program and a plugin are linked by themselves: each has its own function of a name that both define.
            there = definers.get(symbol, [])
            there = [n for n in there if n.split("/")[0] == name.split("/")[0]] or there
            for other in there:
                callee = str(pathlib.PurePath(other).parent)
                allowed = ANY if callee == folder else arrows(folder, callee) or []
                if allowed != ANY and not any(is_named(symbol, one, root) for one in allowed):
                    lines.append(f"{name} uses {symbol} of {other}")
    return sorted(lines)


def needs_nm():
    if not shutil.which("nm"):
        pytest.skip("no nm")


def test_calls_follow_the_arrows():
    needs_nm()
    objects = objects_of(BUILD)
    if not any(name.startswith("dsp/engine/") for name in objects):
        pytest.skip(f"no objects in {BUILD}")
    found = breaches(objects)
    assert not found, "\n" + "\n".join(found)


def test_files_of_the_live_core_form_no_circle_of_calls():
    needs_nm()
    objects = {name: path for name, path in objects_of(BUILD).items() if name.startswith("dsp/live/")}
    if not objects:
        pytest.skip("not built")
    table = symbols(tuple(objects.values()))
    definers = {symbol: name for name, path in objects.items() for symbol in table[path][0]}
    uses = {name: {definers[symbol] for symbol in table[path][1] if symbol in definers} - {name}
            for name, path in objects.items()}
    assert len(uses["dsp/live/work.o"]) > 3, uses
    assert not circle(uses), " -> ".join(circle(uses))


def test_a_call_against_the_arrows_is_found(folder):
    """The check itself, on four planted objects: one may call the other by a header, one calls past it."""
    needs_nm()
    if not shutil.which("cc"):
        pytest.skip("no cc")
    texts = {"a/well": "int y(void); int x(void); int x(void) { return y(); }",
             "a/ill": "int z(void); int v(void); int v(void) { return z(); }",
             "b/both": "int y(void); int y(void) { return 1; } int z(void); int z(void) { return 2; }",
             "c/stranger": "int y(void); int w(void); int w(void) { return y(); }"}
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["cc", "-c", f"{name}.c", "-o", f"{name}.o"], check=True, timeout=60)
    (folder / "b/both.h").write_text("int y(void); /* z is not for others */")
    objects = {f"{name}.o": folder / f"{name}.o" for name in texts}
    found = breaches(objects, lambda caller, callee: ["b/both.h"] if (caller, callee) == ("a", "b") else None, folder)
    assert found == ["a/ill.o uses z of b/both.o", "c/stranger.o uses y of b/both.o"]


def test_every_arrow_is_used():
    """An arrow that nothing follows any more is taken out. The arrows of CUDA count where its objects were built."""
    needs_nm()
    objects = objects_of(BUILD)
    if not any(name.startswith("host/bench/") for name in objects) or SAN:
        pytest.skip(f"not all objects are in {BUILD}")
    for caller, callees in ARROWS.items():
        for callee in callees:
            if "kernels" in caller + callee:
                continue
            found = breaches(objects, lambda a, b, gone=(caller, callee): None if (a, b) == gone else ANY)
            assert found, f"nothing in {caller} uses {callee} any more"
