"""The example programs of dsp/examples/ and the one in haloconv.h: each is built as its head says, run, and its output
compared with numpy."""

import os
import re
import shlex
import subprocess

import numpy as np
import pytest
from conftest import BUILD, ROOT, SAN, assert_close
from scipy.signal import fftconvolve

EXAMPLES = sorted((ROOT / "dsp/examples").glob("*.c"))


def build_line(path):
    """The command in the head of an example, with pkg-config's part as $(...)."""
    return re.search(r"^ \*   (cc .*)$", path.read_text(), re.M).group(1)


def built_and_run(folder, words, name, *arguments):
    """Build a program by a command line, run it; its printed text."""
    words[0] = os.environ.get("CC", "cc")
    strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror",
              *([f"-fsanitize={SAN}"] if SAN else [])]
    subprocess.run([*words, *strict], check=True, timeout=120)
    (folder / "libhaloconv.so.1").symlink_to(BUILD / "libhaloconv.so")
    done = subprocess.run([f"./{name}", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=120, env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def run_example(folder, name):
    """Build an example with the library of this build, run it; its printed line, its output [channels x frames]."""
    command = build_line(ROOT / f"dsp/examples/{name}.c").replace("$(pkg-config --cflags --libs haloconv)",
                                                                 f"-I{ROOT}/dsp -L{BUILD} -lhaloconv")
    assert "$(" not in command and command.endswith(f" -o {name}")
    words = shlex.split(command.replace(f"{name}.c", str(ROOT / f"dsp/examples/{name}.c")))
    return built_and_run(folder, words, name, "y.f32"), np.fromfile("y.f32", np.float32).astype(np.float64)


def input_of(channel, n):
    """The input of the examples, in float32 arithmetic as in C."""
    k = np.arange(n) % 4800 * (37 + channel) % 101
    return (k.astype(np.float32) / np.float32(50.5) - np.float32(1)).astype(np.float64)


def decaying(wave, n):
    return (wave * np.exp(-6.9 * np.arange(n) / n)).astype(np.float32).astype(np.float64)


def test_the_shortest_program_of_the_header_prints_its_taps(folder):
    page = re.search(r" \* The shortest program\n(.*?)\n \* Which header", (ROOT / "dsp/haloconv.h").read_text(), re.S)[1]
    (folder / "shortest.c").write_text("".join(line[5:] + "\n" for line in page.splitlines()))
    words = ["cc", "shortest.c", f"-I{ROOT}/dsp", f"-L{BUILD}", "-lhaloconv", "-o", "shortest"]
    assert built_and_run(folder, words, "shortest") == "1 0.5 0.25\n"


def test_file_in_memory_gives_the_whole_tail(folder):
    frames, taps = 600000, 24000
    said, y = run_example(folder, "file_in_memory")
    assert re.match(r"600000 frames in, 623999 frames out, .*, block \d+, queue depth [1-9]", said), said
    k = np.arange(taps)
    want = [fftconvolve(input_of(ch, frames), decaying(0.02 * np.sin(0.0622 * (ch + 1) * k), taps)) for ch in range(2)]
    assert_close(y.reshape(2, -1).T, np.stack(want, 1))
    assert np.abs(y.reshape(2, -1)[:, -taps // 2:]).max() > 0


def test_live_with_swap_fades_from_one_mask_to_the_other(folder):
    frames, taps, fade = 48000, 12000, 480
    said, y = run_example(folder, "live_with_swap")
    numbers = re.match(r"blocks 750, late 0, swaps 2, last swap at frame (\d+), swap_delay (\d+), fade 480\n$", said)
    assert numbers, said
    at = int(numbers.group(1))
    assert 0 < at < frames - fade - taps // 2 and at % 64 == 0, at
    low, high = (fftconvolve(input_of(0, frames),
                             decaying(0.01 * np.sin(6.283185307 * hz * np.arange(taps) / 48000), taps))[:frames]
                 for hz in (475, 950))
    t = np.clip((np.arange(frames) - at + 1) / (fade + 1), 0, 1)
    gain = t * t * (3 - 2 * t)  # the smoothstep of a mask swap
    assert_close(y[:, None], (1 - gain) * low + gain * high)


def test_matrix_adds_what_each_input_gives_each_output(folder):
    n, frames, taps, delay = 4, 25600, 6000, 48
    said, y = run_example(folder, "matrix")
    assert re.match(r"16 routes, 25600 frames on .+, \d+\.\d MB\n$", said), said
    k = np.arange(taps)
    xs = [input_of(ch, frames) for ch in range(n)]
    own = [decaying(0.02 * np.sin(0.1 * (ch + 1) * k), taps) for ch in range(n)]
    cross = np.concatenate([np.zeros(delay), 0.1 * decaying(0.02 * np.cos(0.05 * k), taps)])
    want = [sum(fftconvolve(xs[i], own[i] if i == o else cross)[:frames] for i in range(n)) for o in range(n)]
    assert_close(y.reshape(n, -1).T, np.stack(want, 1))


def test_moving_source_goes_round_the_head(folder):
    """Each level of the responses fades to the entries of its hops, as the printed lines say."""
    blocks, block, n, taps = 750, 64, 24, 4800
    frames = blocks * block
    said, y = run_example(folder, "moving_source")
    levels = [[int(number) for number in re.findall(r"\d+", line)] for line in said.splitlines()]
    assert len(levels) == 2 and levels[0] == [0, block, 0, block], said
    k, t = np.arange(taps), np.arange(frames)
    entries = (np.arange(blocks) * n + blocks // 2) // blocks % n  # at each block
    want = np.zeros((frames, 2))
    for e in range(n):
        for ear in range(2):
            side = np.sin(2 * np.pi * e / n) * (1 - 2 * ear)
            h = decaying(0.002 * np.sin(0.01 * (e + 1) * k + ear), taps)
            h[int(16 * (1 - side) + 0.5)] += 0.3 + 0.2 * side
            for (offset, hop, delay, fade), end in zip(levels, [levels[1][0], taps]):
                now = (t - delay) // hop * hop // block  # the block at whose start the level took its request
                old = ((t - delay) // hop - 1) * hop // block
                g = np.minimum(((t - delay) % hop + 1) / fade, 1)
                is_now, is_old = (entries[np.clip(at, 0, blocks - 1)] == e for at in (now, old))
                part = fftconvolve(input_of(0, frames), np.concatenate([np.zeros(offset), h[offset:end]]))[:frames]
                want[:, ear] += (g * is_now + (1 - g) * is_old) * part
    assert_close(y.reshape(2, -1).T, want)


def test_tensors_learns_the_filter(folder):
    said, h = run_example(folder, "tensors")
    fell = re.match(r"60 steps: the error fell by (\d+) dB\n$", said)
    assert fell and int(fell.group(1)) > 100, said
    assert_close(h[:, None], decaying(0.5 * np.cos(0.2 * np.arange(100)), 100)[:, None])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_needs_the_public_headers_only(path):
    """Nothing but haloconv*.h and the C library; and it stays short."""
    names = re.findall(r'#include (["<].*[">])', path.read_text())
    assert all(re.match(r"<(haloconv\w*|[a-z]+)\.h>$", name) for name in names), names
    assert 40 <= len(path.read_text().splitlines()) <= 80
    assert len(EXAMPLES) >= 5
