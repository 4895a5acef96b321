"""haloconv_build - builds and packs the Python wheel.

`pip install .` calls build_wheel (PEP 517), which runs `make wheel`. That links the library and runs this file:

    haloconv_build.py LIBRARY FOLDER copies|system [GPU_MODULE ARCHIVE...]

which packs the module, LIBRARY and copies of the shared libraries that LIBRARY needs into a wheel in FOLDER; with
`system` the wheel needs those of the machine. ARCHIVE is a static library in GPU_MODULE: the wheel has its licence, too.

    haloconv/*.py, libhaloconv.so     its DT_RPATH is $ORIGIN/libs, for itself and for the libraries that it loads
    haloconv/libhaloconv_cuda.so      the GPU module, if the build has CUDA
    haloconv/libs/hc-sndfile.so.1     copies; their names, and all references to them, begin with "hc-" instead of
                                      "lib": the package soundfile loads another libsndfile.so.1 into the same process
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
Name: haloconv
Version: {version}
Summary: Convolution of sound with long FIR filters and impulse responses, live and offline, on the CPU or an NVIDIA GPU
Author: The haloconv authors
License-Expression: {licence}
{licence_files}Keywords: audio,convolution,fir,impulse response,reverberation,cuda
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Multimedia :: Sound/Audio
Requires-Python: >=3.8
Requires-Dist: numpy
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
Description-Content-Type: text/markdown

{readme}"""

# Libraries that every Linux with this C library has: the list of PEP 600's policies.
OF_THE_SYSTEM = re.compile(r"linux-vdso|ld-linux|lib(c|m|mvec|dl|rt|pthread|util|resolv|z|gcc_s|stdc\+\+)\.so")
# Licences (SPDX) by the name of a library's file, without "lib" and the ending.
LICENCES = {"sndfile": "LGPL-2.1-or-later", "soxr": "LGPL-2.1-or-later", "mpg123": "LGPL-2.1-only",
            "mp3lame": "LGPL-2.0-or-later", "yaml-0": "MIT", "mysofa": "BSD-3-Clause", "FLAC": "BSD-3-Clause",
            "ogg": "BSD-3-Clause", "vorbis": "BSD-3-Clause", "vorbisenc": "BSD-3-Clause", "opus": "BSD-3-Clause",
            "gomp": "GPL-3.0-or-later WITH GCC-exception-3.1",
            "cudart_static": "LicenseRef-NVIDIA-CUDA-Toolkit-EULA"}


def version():
    return re.search(r'^#define HC_VERSION "(.*)"', (ROOT / "dsp/haloconv.h").read_text(), re.M)[1]


def ask(*command):
    """Returns the output of a command; an empty text if it fails or is not there."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return ""


# ---- the libraries of a wheel ---------------------------------------------------------------------------------------
def shared_libraries(library):
    """The shared libraries, {name: path}, that a library and its libraries need beyond those of the system."""
    lines, found = ask("ldd", str(library)), {}
    if not lines:
        raise SystemExit(f"haloconv: ldd does not list the libraries that {library} needs; is it there, and built for "
                         "this machine? make wheel WHEEL_LIBS=0 copies none")
    for name, path in re.findall(r"^\s*(\S+) => (not found|\S+)", lines, re.M):
        if not OF_THE_SYSTEM.match(name):
            if path == "not found":
                raise SystemExit(f"haloconv: {library} needs {name}, which this machine does not have; "
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


def platform_tag(libraries):
    """manylinux_2_N_...: N is the newest version of glibc's interface that the libraries use."""
    minor = max((int(n) for data in libraries for n in re.findall(rb"\0GLIBC_2\.(\d+)(?=[.\0])", data)), default=None)
    if minor is None:
        raise SystemExit("haloconv: a wheel with copies of libraries needs glibc; build it with WHEEL_LIBS=0")
    return f"manylinux_2_{minor}_{os.uname().machine}"


def licence_of(path):
    name = re.sub(r"^lib|\.(a|so.*)$", "", path.name)
    return LICENCES.get(name, f"LicenseRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}")


def licences(libraries):
    """The licence files, {name: text}, of libraries [path in the machine]: Debian's copyright files, and a list."""
    rows, files = [], {}
    for path in libraries:
        real = path.resolve()
        package = ask("dpkg-query", "-S", f"*/{real.parent.name}/{real.name}").split(": ")[0].split(":")[0]
        source = ask("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package) if package else ""
        rows.append(f"{path.name}: {licence_of(path)}; {'Debian source package ' + source if source else real.name}\n")
        text = pathlib.Path("/usr/share/doc", package or "-", "copyright")
        if text.exists():
            files[f"{package}.txt"] = text.read_bytes()
    for name in sorted(set(re.findall(rb"/usr/share/common-licenses/([\w.-]*\w)", b"".join(files.values())))):
        text = pathlib.Path("/usr/share/common-licenses", name.decode())
        if text.exists():
            files[f"{text.name}.txt"] = text.read_bytes()
    files["LIBRARIES.txt"] = (
        "haloconv is under the MIT licence. This wheel also holds the libraries below.\n\n" + "".join(rows)).encode()
    return files


# ---- files ----------------------------------------------------------------------------------------------------------
def metadata(libraries=(), licence_files=()):
    found = sorted({licence_of(path) for path in libraries} - {"MIT"})
    return METADATA.format(version=version(), licence=" AND ".join(["MIT", *found]),
                           licence_files="".join(f"License-File: {name}\n" for name in licence_files),
                           readme=(ROOT / "README.md").read_text(encoding="utf-8")).encode()


def write_wheel(folder, tag, files, licence_files, libraries=()):
    """Write a wheel of files {name: bytes}, and return its name. The same files give the same bytes."""
    info = f"haloconv-{version()}.dist-info"
    licence_files = {"LICENSE": (ROOT / "LICENSE").read_bytes(), **licence_files}
    files = {**files, f"{info}/METADATA": metadata(libraries, licence_files),
             f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: haloconv_build {version()}\nRoot-Is-Purelib: false\n"
                               f"Tag: {tag}\n").encode(),
             **{f"{info}/licenses/{name}": text for name, text in licence_files.items()}}
    record = ""
    name = f"haloconv-{version()}-{tag}.whl"
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(pathlib.Path(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(path, data):
            entry = zipfile.ZipInfo(path)  # 1980: no time of the build
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if ".so" in path else 0o100644) << 16
            wheel.writestr(entry, data)
        for path, data in files.items():
            add(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
        add(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode())
    return name


def pack(library, folder, gpu_module=None, archives=(), copies=True):
    """Write the wheel of a library, and return its path. archives: static libraries that the GPU module contains."""
    shared = shared_libraries(library) if copies else {}
    binaries = {"haloconv/libhaloconv.so": library, **{f"haloconv/libs/{own_name(n)}": p for n, p in shared.items()}}
    if gpu_module:
        binaries["haloconv/libhaloconv_cuda.so"] = gpu_module
    binaries = {name: renamed(path.read_bytes(), shared) for name, path in binaries.items()}
    modules = {f"haloconv/{p.name}": p.read_bytes() for p in sorted((ROOT / "plugins/python/haloconv").glob("*.py"))}
    tag = platform_tag(binaries.values()) if copies else f"linux_{os.uname().machine}"
    held = [*shared.values(), *archives]
    return pathlib.Path(folder, write_wheel(folder, f"py3-none-{tag}", {**modules, **binaries},
                                            licences(held) if held else {}, held))


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


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = pathlib.Path(wheel_directory).resolve()
    run_make(config_settings, "wheel", f"WHEEL_FOLDER={folder}")
    return max(folder.glob(f"haloconv-{version()}-*.whl"), key=lambda path: path.stat().st_mtime_ns).name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The module of the source tree, which finds the library in build/."""
    run_make(config_settings, "build/libhaloconv.so", "gpu-module", "BUILD=build")
    return write_wheel(wheel_directory, "py3-none-any", {"haloconv.pth": f"{ROOT}/plugins/python\n".encode()}, {})


def build_sdist(sdist_directory, config_settings=None):
    """The files that git has; without git, all but those that builds write."""
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


def main(library, folder, libraries, gpu_module=None, *archives):
    copies = {"copies": True, "system": False}[libraries]
    path = pack(pathlib.Path(library), folder, gpu_module and pathlib.Path(gpu_module),
                [pathlib.Path(archive) for archive in archives], copies)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
