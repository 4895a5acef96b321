"""No kernel spills registers to local memory, by the report that ptxas made when it was compiled (kernels/*/*.ptxas).
The libraries can be loaded late."""

import re
import subprocess

import pytest
from conftest import BUILD, ROOT

SOURCES = sorted((ROOT / "kernels").glob("*/*.cu"))
PROPERTIES = re.compile(r"Function properties for (\S+)\s*\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, "
                        r"(\d+) bytes spill loads")
TARGET = re.compile(r"Compiling entry function '(\S+)' for '(sm_\w+)'")


def need_cuda():
    if not (BUILD / "cuda_flags").read_text().strip():
        pytest.skip("built without CUDA")


def local_memory(report):
    """(kernel, target, frame, stores, loads) of each function that uses local memory, and how many there were."""
    found, n, target = [], 0, "?"
    for line in re.split(r"(?=^ptxas info)", report, flags=re.MULTILINE):
        if entry := TARGET.search(line):
            target = entry[2]
        if seen := PROPERTIES.search(line):
            n += 1
            if any(int(seen[i]) for i in (2, 3, 4)):
                found.append((seen[1], target, *(int(seen[i]) for i in (2, 3, 4))))
    return found, n


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_no_kernel_spills(source):
    report = (BUILD / source.relative_to(ROOT)).with_suffix(".ptxas")
    if not report.exists():
        pytest.skip("not built with nvcc")
    found, n = local_memory(report.read_text())
    assert n or "__global__" not in source.read_text(), "no kernel in the report"
    assert not found, "\n".join(f"{kernel} for {target}: frame {frame}, spill stores {stores}, loads {loads} bytes"
                                for kernel, target, frame, stores, loads in found)


@pytest.mark.parametrize("library", ["libhaloconv.so", "libhaloconv_cuda.so"])
def test_a_library_can_be_loaded_by_a_running_program(library):
    """Static thread-local storage is scarce then, and CUDA's runtime, which is in the GPU module, needs 8 KiB."""
    if not (BUILD / library).exists():
        pytest.skip(f"{library} is not built")
    flags = subprocess.run(["readelf", "-dW", BUILD / library], check=True, capture_output=True, text=True).stdout
    assert "NEEDED" in flags and "STATIC_TLS" not in flags
