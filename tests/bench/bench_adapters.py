#!/usr/bin/env python3
"""Reverberation in lhotse, SpeechBrain and audiomentations, by their own functions and by haloconv.patch(), in turns.

    tests/bench/bench_adapters.py [--utterances N]

As their users call it: N (2,000) utterances of 2 to 20 s at 16 kHz with one of 200 responses of 0.3 to 2 s each, made
here. *adapter*: samples in memory; *loader*: lhotse's cut.load_audio() of two WAV files a cut, from the page cache.
Median of three turns, in ms an utterance; PYTHON needs the projects, and haloconv in build/. Output: a Markdown table.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

import numpy as np
import soundfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
os.environ.setdefault("HALOCONV_LIBRARY", str(BUILD / "libhaloconv.so"))
sys.path.insert(0, str(ROOT / "plugins/python"))
import haloconv  # noqa: E402

RATE, TURNS, ROOMS = 16000, 3, 200


def room(generator, seconds):
    n = int(RATE * seconds)
    response = generator.standard_normal(n).astype(np.float32) * np.exp(-6.9 * np.arange(n, dtype=np.float32) / n) * 0.05
    response[40] = 1
    return response


def lhotse_calls(folder, sounds, rooms, pairs):
    import lhotse
    for name, values in (("s", sounds), ("r", rooms)):
        for i, x in enumerate(values):
            soundfile.write(folder / f"{name}{i}.wav", x, RATE, subtype="FLOAT")
    recordings = [lhotse.Recording.from_file(folder / f"r{i}.wav") for i in range(len(rooms))]
    cuts = [lhotse.Recording.from_file(folder / f"s{i}.wav").to_cut().reverb_rir(recordings[k], affix_id=False)
            for i, k in pairs]
    in_memory = [recording.move_to_memory(format="wav") for recording in recordings]  # decoded at each call, though
    transforms = [lhotse.augmentation.ReverbWithImpulseResponse(recording) for recording in in_memory]
    yield "lhotse", lambda: [transforms[k](sounds[i][None], RATE) for i, k in pairs]
    yield "lhotse, loader", lambda: [cut.load_audio() for cut in cuts]


def speechbrain_calls(_folder, sounds, rooms, pairs):
    import torch
    from speechbrain.processing import signal_processing
    xs, hs = [torch.from_numpy(x)[None] for x in sounds], [torch.from_numpy(h)[None] for h in rooms]
    yield "speechbrain", lambda: [signal_processing.reverberate(xs[i], hs[k]) for i, k in pairs]


def audiomentations_calls(folder, sounds, rooms, pairs):
    import audiomentations
    (folder / "rooms").mkdir()
    for k, h in enumerate(rooms):
        soundfile.write(folder / f"rooms/{k}.wav", h, RATE, subtype="FLOAT")
    transform = audiomentations.ApplyImpulseResponse(folder / "rooms", p=1.0, lru_cache_size=len(rooms))
    for file in transform.ir_files:  # into the cache
        transform.parameters.update(should_apply=True, ir_file_path=file)
        transform.apply(sounds[0][:100], RATE)
    yield "audiomentations", lambda: [transform(sounds[i], RATE) for i, _ in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", type=int, default=2000, metavar="N")
    n = parser.parse_args().utterances
    warnings.simplefilter("ignore")
    generator = np.random.default_rng(1)
    sounds = [generator.standard_normal(int(RATE * generator.uniform(2, 20))).astype(np.float32) * 0.1 for _ in range(n)]
    rooms = [room(generator, generator.uniform(0.3, 2)) for _ in range(ROOMS)]
    pairs = [(i, int(generator.integers(ROOMS))) for i in range(n)]
    print("| | its own, ms | haloconv, ms | times faster |\n|---|--:|--:|--:|")
    for project, calls in (("lhotse", lhotse_calls), ("speechbrain", speechbrain_calls),
                           ("audiomentations", audiomentations_calls)):
        with tempfile.TemporaryDirectory() as folder:
            try:
                for name, call in calls(pathlib.Path(folder), sounds, rooms, pairs):
                    times = [[], []]
                    for turn in range(2 * TURNS):
                        if turn % 2:
                            haloconv.patch(project)
                        start = time.perf_counter()
                        call()
                        times[turn % 2].append((time.perf_counter() - start) * 1000 / n)
                        haloconv.unpatch(project)
                    theirs, ours = map(statistics.median, times)
                    print(f"| {name} | {theirs:.3g} | {ours:.3g} | {theirs / ours:.2f} |", flush=True)
            except ImportError as error:
                print(f"{project}: {error}", file=sys.stderr)
    print(f"\n{n} utterances, {len(os.sched_getaffinity(0))} processors")


if __name__ == "__main__":
    main()
