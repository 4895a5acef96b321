"""haloconv_build - builds and packs the Python wheels.

`pip install .` calls build_wheel (PEP 517), which runs `make wheel`. That links library and program, and runs this file:

    haloconv_build.py haloconv FOLDER copies|system FILE...      the wheel of LIBRARY, PROGRAM, ... into FOLDER
    haloconv_build.py haloconv-cuda FOLDER MODULE [ARCHIVE]      the wheel of the GPU module
    haloconv_build.py haloconv-adapters FOLDER                   the wheel of plugins/python/haloconv_adapters
    haloconv_build.py metadata FOLDER copies|system FILE...      only the metadata that the first would have

FILE is the library, the program, the GPU module, a static library that is in them (the wheel has its licence, too), or
the folder of the masks that ship. The wheel holds copies of the shared libraries that they need; with `system` it needs
those of the machine.

    haloconv/*.py, py.typed           the module, and that its functions have annotations
    haloconv/libhaloconv.so, haloconv library and program; their DT_RPATH is $ORIGIN/libs, also for what they load
    haloconv/impulses/                the masks and the bank that ship, for the program
    haloconv/libs/hc-sndfile.so.1     copies; their names, and all references to them, begin with "hc-" instead of
                                      "lib": the package soundfile loads another libsndfile.so.1 into the same process
    haloconv-*.data/scripts/haloconv  starts the program; pip puts it on PATH
    haloconv-*.dist-info/             metadata, licences of the module and of each library that is in the wheel
"""

import base64
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {summary}
Author: The haloconv authors
License-Expression: {licence}
{licence_files}Keywords: audio,convolution,fir,impulse response,reverberation,cuda
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Multimedia :: Sound/Audio
Requires-Python: >=3.8
{requires}Description-Content-Type: text/markdown

{readme}"""

SUMMARIES = {
    "haloconv": "Convolution of sound with long FIR filters and impulse responses, live and offline, on the CPU or an "
                "NVIDIA GPU",
    "haloconv-cuda": "The GPU module of haloconv",
    "haloconv-adapters": "Other projects convolve by haloconv: haloconv.patch, and stages for Ray and NeMo Curator"}
REQUIRES = {
    "haloconv": """\
Requires-Dist: numpy>=1.21
Provides-Extra: adapters
Requires-Dist: haloconv-adapters; extra == "adapters"
Provides-Extra: cuda
Requires-Dist: haloconv-cuda=={version}; extra == "cuda"
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
""",
    "haloconv-cuda": "Requires-Dist: haloconv=={version}\n",
    "haloconv-adapters": "Requires-Dist: haloconv>=0.2.0\n"}  # the first one that calls the package

# Starts the program in place of Python. It does not import the module: NumPy would need more time than many a command.
SCRIPT = """\
#!python
import importlib.util
import runpy
runpy.run_path(importlib.util.find_spec("haloconv").submodule_search_locations[0] + "/_program.py", run_name="__main__")
"""

# Libraries that every Linux with this C library has: the list of PEP 600's policies.
OF_THE_SYSTEM = re.compile(r"linux-vdso|ld-linux|lib(c|m|mvec|dl|rt|pthread|util|resolv|z|gcc_s|stdc\+\+)\.so")
# Licences (SPDX) by the name of a library's file, without "lib" and the ending.
LICENCES = {"sndfile": "LGPL-2.1-or-later", "soxr": "LGPL-2.1-or-later", "mpg123": "LGPL-2.1-only",
            "mp3lame": "LGPL-2.0-or-later", "yaml-0": "MIT", "mysofa": "BSD-3-Clause", "FLAC": "BSD-3-Clause",
            "ogg": "BSD-3-Clause", "vorbis": "BSD-3-Clause", "vorbisenc": "BSD-3-Clause", "opus": "BSD-3-Clause",
            "jansson": "MIT", "archive": "BSD-2-Clause", "gomp": "GPL-3.0-or-later WITH GCC-exception-3.1",
            "pugl-upstream": "ISC", "cudart_static": "LicenseRef-NVIDIA-CUDA-Toolkit-EULA"}


def version(name="haloconv"):
    """The version of a package; haloconv-adapters has its own."""
    file, line = {"haloconv-adapters": ("plugins/python/haloconv_adapters/__init__.py", "__version__ =")}.get(
        name, ("dsp/haloconv.h", "#define HC_VERSION"))
    return re.search(f'^{line} "(.*)"', (ROOT / file).read_text(), re.M)[1]


def ask(*command):
    """Returns the output of a command; an empty text if the command fails or is absent."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return ""


# ---- the libraries of a wheel ---------------------------------------------------------------------------------------
def machine_of(path):
    """The processor of an ELF file, as uname has it; None: not an ELF file of a known processor."""
    head = path.read_bytes()[:20] if path.exists() else b""
    return {62: "x86_64", 183: "aarch64"}.get(int.from_bytes(head[18:20], "little")) if head[:4] == b"\x7fELF" else None


def needed_by(binary):
    """[(name, path or "not found")] of the shared libraries that a file needs, and those that they need."""
    if machine_of(binary) in (None, os.uname().machine):
        return re.findall(r"^\s*(\S+) => (not found|\S+)", ask("ldd", str(binary)), re.M)
    found, left = {}, [binary]  # ldd would run it: the compiler for that processor finds its libraries
    while left:
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", ask("readelf", "-dW", str(left.pop()))):
            if name not in found:
                path = pathlib.Path(ask(os.environ.get("CC", "cc"), f"-print-file-name={name}").strip())
                found[name] = str(path) if path.is_absolute() else "not found"
                if path.is_absolute() and not OF_THE_SYSTEM.match(name):
                    left.append(path)
    return list(found.items())


def shared_libraries(binary):
    """The shared libraries, {name: path}, that a file and its libraries need beyond those of the system."""
    needed, found = needed_by(binary), {}
    if not needed:
        raise SystemExit(f"haloconv: ldd does not list the libraries that {binary} needs; check that it exists and "
                         "is built for this machine, or copy no libraries: make wheel WHEEL_LIBS=0")
    for name, path in needed:
        if not OF_THE_SYSTEM.match(name):
            if path == "not found":
                raise SystemExit(f"haloconv: {binary} needs {name}, which this machine does not have; "
                                 "install its package, or build without that part (make WITH_...=0)")
            found[name] = pathlib.Path(path)
    return found


def own_name(name):
    """The name of a library's copy. It is as long as the old name, which is then replaced in place."""
    return re.sub("^lib", "hc-", name)


def renamed(data, names):
    """Replace the names of libraries in an ELF file's string table: its own (DT_SONAME) and those that it needs."""
    for name in names:
        data = data.replace(b"\0%s\0" % name.encode(), b"\0%s\0" % own_name(name).encode())
    return data


def platform_tag(binaries, machine, copies=True):
    """manylinux_2_N_...: N is the newest version of glibc's interface that the files use."""
    if not copies:
        return f"linux_{machine}"
    minor = max((int(n) for data in binaries for n in re.findall(rb"\0GLIBC_2\.(\d+)(?=[.\0])", data)), default=None)
    if minor is None:
        raise SystemExit("haloconv: a wheel with copies of libraries needs glibc; build it with WHEEL_LIBS=0")
    return f"manylinux_2_{max(minor, 17)}_{machine}"  # pip knows no older one on every processor


def licence_of(path):
    name = re.sub(r"^lib|\.(a|so.*)$", "", path.name)
    return LICENCES.get(name, f"LicenseRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}")


def licence_text(path, package):
    """The file with the text of a library's licence: its COPYING, Debian's, the CUDA Toolkit's; None: none is here."""
    texts = [path / "COPYING", *([pathlib.Path("/usr/share/doc", package, "copyright")] if package else [])]
    if "cudart" in path.name:  # EULA.txt in the toolkit's folder, or with the files of its packages from pip
        names = "EULA.txt", "dist-info/nvidia_cuda_runtime-*/licenses/*"
        texts += [text for folder in path.parents for name in names for text in sorted(folder.glob(name))]
    return next(filter(pathlib.Path.is_file, texts), None)


def licences(libraries, holder="wheel", place="haloconv/libs"):
    """The licence files, {name: text}, of libraries [path in the machine]: their texts, and a list."""
    rows, files = [], {}
    for path in libraries:
        real = path.resolve()
        package = ask("dpkg-query", "-S", f"*/{real.parent.name}/{real.name}").split(": ")[0].split(":")[0]
        fields = "${source:Package} ${source:Version}; ${Homepage}"
        source = ask("dpkg-query", "-W", "-f", fields, package) if package else ""
        text = licence_text(real, package)
        of = next((folder.name for folder in real.parents if folder.name.startswith("cuda-")), "this machine")
        source = f"Debian source package {source}" if source else f"{real.name} of {of}"
        rows.append(f"{path.name}: {licence_of(path)}; {source}"
                    f"{'' if text else ' (its licence was not found on the machine that built this)'}\n")
        if text:
            files[f"{package or path.stem}.txt"] = text.read_bytes()
    for name in sorted(set(re.findall(rb"/usr/share/common-licenses/([\w.-]*\w)", b"".join(files.values())))):
        text = pathlib.Path("/usr/share/common-licenses", name.decode())
        if text.exists():
            files[f"{text.name}.txt"] = text.read_bytes()
    files["LIBRARIES.txt"] = (
        f"haloconv is under the MIT licence. This {holder} also holds the libraries below. Those that end in .so...\n"
        f"are in {place}: the file of the named package, in which only names of libraries were changed (lib... to\n"
        "hc-...). Another build of the library can replace it. The sources are those of the Debian package, and the\n"
        "authors' at the address.\n\n" + "".join(rows)).encode()
    return files


# ---- files ----------------------------------------------------------------------------------------------------------
def metadata(libraries=(), licence_files=(), name="haloconv"):
    found = sorted({licence_of(path) for path in libraries} - {"MIT"})
    return METADATA.format(name=name, version=version(name), summary=SUMMARIES[name],
                           licence=" AND ".join(["MIT", *found]), requires=REQUIRES[name].format(version=version()),
                           licence_files="".join(f"License-File: {file}\n" for file in licence_files),
                           readme=(ROOT / "README.md").read_text(encoding="utf-8")).encode()


def info_files(libraries=(), name="haloconv"):
    """The metadata and the licences of a wheel that holds libraries, {path in .dist-info: bytes}."""
    files = {"LICENSE": (ROOT / "LICENSE").read_bytes(), **(licences(libraries) if libraries else {})}
    return {"METADATA": metadata(libraries, files, name), **{f"licenses/{file}": text for file, text in files.items()}}


def write_wheel(folder, tag, files, libraries=(), name="haloconv"):
    """Write a wheel of files {path: bytes}, and return its name. The same files give the same bytes."""
    base = f"{name.replace('-', '_')}-{version(name)}"
    info = f"{base}.dist-info"
    files = {**files, **{f"{info}/{path}": data for path, data in info_files(libraries, name).items()},
             f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: haloconv_build {version()}\n"
                               f"Root-Is-Purelib: {str(tag == 'py3-none-any').lower()}\n"
                               f"Tag: {tag}\n").encode()}
    record = ""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(pathlib.Path(folder, f"{base}-{tag}.whl"), "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(path, data):
            entry = zipfile.ZipInfo(path)  # 1980: no time of the build
            entry.compress_type = zipfile.ZIP_DEFLATED
            is_program = data[:4] == b"\x7fELF" or path.endswith("/scripts/haloconv")
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            wheel.writestr(entry, data)
        for path, data in files.items():
            add(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
        add(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode())
    return f"{base}-{tag}.whl"


def held(files, copies):
    """The libraries in a wheel of files [path]: {name: path} of the shared ones, and the static ones [path]."""
    binaries = [path for path in files if path.suffix != ".a" and not path.is_dir()]
    shared = {name: path for binary in binaries for name, path in shared_libraries(binary).items()} if copies else {}
    return dict(sorted(shared.items())), [path for path in files if path.suffix == ".a"]


def sources(package):
    """The files of a Python package, {path in the wheel: bytes}."""
    folder = ROOT / "plugins/python"
    return {str(path.relative_to(folder)): path.read_bytes() for pattern in ("*.py", "py.typed")
            for path in sorted((folder / package).rglob(pattern)) if path.parent.name != "pip"}


def pack(files, folder, copies=True):
    """Write the wheel of files [path] as this file's head lists them, and return its path."""
    shared, archives = held(files, copies)
    binaries = {f"haloconv/{path.name}": path for path in files if path.suffix != ".a" and not path.is_dir()}
    machines = {machine_of(path) for path in binaries.values()}
    binaries.update({f"haloconv/libs/{own_name(name)}": path for name, path in shared.items()})
    binaries = {name: renamed(path.read_bytes(), shared) for name, path in binaries.items()}
    others = sources("haloconv")
    for masks in filter(pathlib.Path.is_dir, files):
        others.update({f"haloconv/impulses/{path.relative_to(masks)}": path.read_bytes()
                       for path in sorted(masks.rglob("*.wav"))
                       if path.name != "drums.wav"})  # the sound of `make demo`
    if "haloconv/haloconv" in binaries:
        others[f"haloconv-{version()}.data/scripts/haloconv"] = SCRIPT.encode()
    tag = platform_tag(binaries.values(), machines.pop(), copies)
    return pathlib.Path(folder, write_wheel(folder, f"py3-none-{tag}", {**others, **binaries},
                                            [*shared.values(), *archives]))


def pack_module(module, folder, archives):
    """Write the wheel of the GPU module, and return its path."""
    if shared_libraries(module):
        raise SystemExit(f"haloconv: {module} needs {', '.join(shared_libraries(module))}; link it with the CUDA "
                         "runtime as a static library")
    data = module.read_bytes()
    files = {"haloconv_cuda/__init__.py": f'"""{SUMMARIES["haloconv-cuda"]}, which the package haloconv loads."""\n'.encode(),
             "haloconv_cuda/libhaloconv_cuda.so": data}
    return pathlib.Path(folder, write_wheel(folder, f"py3-none-{platform_tag([data], machine_of(module))}", files,
                                            archives, "haloconv-cuda"))


def write_metadata(files, folder, copies):
    """Write the .dist-info folder of the wheel that pack() would write, and return its path."""
    shared, archives = held(files, copies)
    info = pathlib.Path(folder, f"haloconv-{version()}.dist-info")
    for name, data in info_files([*shared.values(), *archives]).items():
        (info / name).parent.mkdir(parents=True, exist_ok=True)
        (info / name).write_bytes(data)
    return info


# ---- PEP 517 and PEP 660 --------------------------------------------------------------------------------------------
def run_make(settings, *goals):
    """Run make with the environment's variables and those of `pip install . -C NAME=VALUE`."""
    jobs = [] if "j" in os.environ.get("MAKEFLAGS", "").split("--")[0] else [f"-j{len(os.sched_getaffinity(0))}"]
    settings = [f"{name}={value}" for name, value in (settings or {}).items()]
    try:
        done = subprocess.run([os.environ.get("MAKE", "make"), *jobs, f"PYTHON={sys.executable}", *settings, *goals],
                              cwd=ROOT, check=False)
    except OSError as why:
        raise SystemExit(f"haloconv: {why}; install make and a C compiler") from None
    if done.returncode:
        raise SystemExit("haloconv: make failed; its last lines say why")


def run_wheel(settings, goal, folder):
    """Run make for a goal of the wheel, in a build folder that a person's `make` does not use.

    With HALOCONV_WITH_CUDA=1 in the environment the GPU module is built, and is in the wheel. Without it no GPU tool is
    called: kernels need more time than all other files.
    """
    folder = pathlib.Path(folder).resolve()
    settings = {**({} if "BUILD" in os.environ else {"BUILD": "build/pip"}), "OPT": "-O3",
                "WITH_CUDA": "1" if os.environ.get("HALOCONV_WITH_CUDA") == "1" else "0", **(settings or {})}
    run_make(settings, goal, f"WHEEL_FOLDER={folder}", "WHEEL_MODULE=inside")
    return folder


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without this hook pip would build the wheel to learn its name."""
    run_wheel(config_settings, "wheel-metadata", metadata_directory)
    return f"haloconv-{version()}.dist-info"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = run_wheel(config_settings, "wheel", wheel_directory)
    return max(folder.glob(f"haloconv-{version()}-*.whl"), key=lambda path: path.stat().st_mtime_ns).name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The module of the source tree, which finds the library in build/."""
    run_make(config_settings, "build/libhaloconv.so", "gpu-module", "BUILD=build")
    return write_wheel(wheel_directory, "py3-none-any", {"haloconv.pth": f"{ROOT}/plugins/python\n".encode()})


def build_adapters(wheel_directory, config_settings=None, metadata_directory=None):
    """The wheel of haloconv-adapters: any Python, any machine."""
    return write_wheel(wheel_directory, "py3-none-any", sources("haloconv_adapters"), name="haloconv-adapters")


def build_sdist(sdist_directory, config_settings=None):
    """The files in git; without git, all files but those that builds write."""
    names = ask("git", "-C", str(ROOT), "ls-files", "-z").split("\0")[:-1] or [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*")
        if not {"build", "dist", ".git", "__pycache__", "PKG-INFO"} & set(path.relative_to(ROOT).parts)]
    base = f"haloconv-{version()}"
    with tarfile.open(pathlib.Path(sdist_directory, f"{base}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as sdist:
        for name in sorted(names):
            if (ROOT / name).is_file():
                sdist.add(ROOT / name, f"{base}/{name}", recursive=False)
        entry = tarfile.TarInfo(f"{base}/PKG-INFO")
        text = metadata()
        entry.size = len(text)
        sdist.addfile(entry, io.BytesIO(text))
    return f"{base}.tar.gz"


def main(kind, folder, *arguments):
    if kind == "haloconv-adapters":
        path = pathlib.Path(folder, build_adapters(folder))
    elif kind == "haloconv-cuda":
        module, *archives = map(pathlib.Path, arguments)
        path = pack_module(module, folder, archives)
    else:
        write = {"haloconv": pack, "metadata": write_metadata}[kind]
        path = write([pathlib.Path(name) for name in arguments[1:]], folder,
                     {"copies": True, "system": False}[arguments[0]])
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB" if path.is_file() else path)


if __name__ == "__main__":
    main(*sys.argv[1:])
