#!/usr/bin/env python3
"""Plays engines of many shapes by the clock (`haloconv bench engine`) and prints one table.

    tests/bench/bench_shapes.py [SET ...]      sets: cuda (a GPU), shared (many engines on one GPU), cpu (default)

SHAPE_SECONDS (10) is the length of each run; HALOCONV (build/haloconv) is the program. All responses differ. A block
is missed when its output is not there one period after the block was due: because the engine took longer, or because
the system woke the program too late.
"""

import json
import os
import subprocess
import sys

HALOCONV = os.environ.get("HALOCONV", "build/haloconv")
SECONDS = os.environ.get("SHAPE_SECONDS", "10")

SETS = {
    "cuda": [
        ("512 x 512 responses of 1 s", "--inputs 512 --routes matrix --seconds 1 --backend cuda"),
        ("256 x 256 responses of 1 s, `--spin`", "--inputs 256 --routes matrix --seconds 1 --backend cuda --spin"),
        ("256 x 256 responses of 1 s", "--inputs 256 --routes matrix --seconds 1 --backend cuda"),
        ("the same, with 65,536 new responses twice a second",
         "--inputs 256 --routes matrix --seconds 1 --backend cuda --renew 0.5"),
        ("16,384 channels of 1 s", "--inputs 16384 --seconds 1 --backend cuda"),
        ("32,768 channels of 1 s", "--inputs 32768 --seconds 1 --backend cuda"),
        ("65,536 channels of 1 s", "--inputs 65536 --seconds 1 --backend cuda"),
        ("32 x 32 responses of 1 s", "--inputs 32 --routes matrix --seconds 1 --block 8 --backend cuda"),
        ("1 input, 32 outputs, 10 s, `--spin`",
         "--inputs 1 --outputs 32 --routes matrix --seconds 10 --backend cuda --spin"),
        ("1 input, 32 outputs, 10 s", "--inputs 1 --outputs 32 --routes matrix --seconds 10 --backend cuda"),
        ("stereo, 4,096 taps, `--spin`", "--taps 4096 --backend cuda --spin"),
        ("stereo, 4,096 taps", "--taps 4096 --backend cuda"),
    ],
    "shared": [(f"{n} stereo engine{'s' * (n > 1)} of 3 s, `{backend}`",
                f"--engines {n} --seconds 3 --backend {backend}")
               for n in (1, 50) for backend in ("cuda", "hybrid", "cpu")],
    "cpu": [
        ("stereo, 3 s", "--seconds 3 --backend cpu"),
        ("8 x 8 responses of 1 s", "--inputs 8 --routes matrix --seconds 1 --backend cpu"),
        ("16 x 16 responses of 1 s", "--inputs 16 --routes matrix --seconds 1 --backend cpu"),
        ("64 channels of 1 s", "--inputs 64 --seconds 1 --backend cpu"),
    ],
}


def row(name, options):
    command = [HALOCONV, "bench", "engine", *options.split(), "--time", SECONDS, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return f"| {name} | {done.stderr.strip()} | | | | | |"
    r = json.loads(done.stdout)
    return (f"| {name} | {r['block']} | {r['period_us']:.0f} | {r['p50_us']:.1f} | {r['p999_us']:.0f} | "
            f"{r['missed_by_engine']} of {r['blocks']} | {r['missed_by_wakeup']} |")


def main():
    print(f"48 kHz, {SECONDS} s each.\n")
    print("| shape | frames | period us | p50 us | p99.9 us | missed by the engine | by the system |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name in sys.argv[1:] or ["cpu"]:
        for shape in SETS[name]:
            print(row(*shape), flush=True)


main()
