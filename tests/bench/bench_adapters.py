#!/usr/bin/env python3
"""Reverberation in other projects by their own functions and by haloconv.patch(), in turns.

    tests/bench/bench_adapters.py [--utterances N] [--device cuda]

As their users call it: N (2,000) utterances of 2 to 20 s at 16 kHz with one of 200 responses of 0.3 to 2 s each, made
here. On the CPU: lhotse, SpeechBrain and audiomentations, one utterance a call, samples in memory; *loader*: lhotse's
cut.load_audio() of two WAV files a cut, from the page cache. On the GPU: the projects that compute there, batches of 32
utterances that are padded to the longest. Median of three turns, in ms an utterance and hours of sound in an hour;
PYTHON needs the projects, and haloconv in build/. Output: a Markdown table.
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

RATE, TURNS, ROOMS, BATCH = 16000, 3, 200, 32


def room(generator, seconds):
    n = int(RATE * seconds)
    decay = np.exp(-6.9 * np.arange(n, dtype=np.float32) / n)
    response = generator.standard_normal(n).astype(np.float32) * decay * 0.05
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


def gpu_batches(sounds, device):
    import torch
    batches = [[torch.from_numpy(x) for x in sounds[i:i + BATCH]] for i in range(0, len(sounds), BATCH)]
    return [torch.nn.utils.rnn.pad_sequence(batch, batch_first=True).to(device) for batch in batches]


def gpu_speechbrain_calls(_folder, sounds, rooms, pairs):
    import torch
    from speechbrain.processing import signal_processing
    batches, hs = gpu_batches(sounds, "cuda"), [torch.from_numpy(h)[None].cuda() for h in rooms]
    yield "speechbrain", lambda: [signal_processing.reverberate(x, hs[k]) for x, (_, k) in zip(batches, pairs)]


def gpu_torchaudio_calls(_folder, sounds, rooms, pairs):
    import torch
    import torchaudio.functional
    batches = gpu_batches(sounds, "cuda")
    chosen = gpu_batches([rooms[k] for _, k in pairs], "cuda")
    yield "torchaudio", lambda: [torchaudio.functional.fftconvolve(x, h) for x, h in zip(batches, chosen)]


def gpu_torch_audiomentations_calls(_folder, sounds, rooms, pairs):
    # The part that computes: its reader of responses does not work with torchaudio 2.9 and later.
    from torch_audiomentations.augmentations import impulse_response
    batches = [x[:, None] for x in gpu_batches(sounds, "cuda")]
    chosen = [h[:, None] for h in gpu_batches([rooms[k] for _, k in pairs], "cuda")]
    yield "torch-audiomentations", lambda: [impulse_response.convolve(x, h) for x, h in zip(batches, chosen)]


CALLS = {"cpu": {"lhotse": lhotse_calls, "speechbrain": speechbrain_calls, "audiomentations": audiomentations_calls},
         "cuda": {"speechbrain": gpu_speechbrain_calls, "torchaudio": gpu_torchaudio_calls,
                  "torch_audiomentations": gpu_torch_audiomentations_calls}}


def ms_of(call, device):
    start = time.perf_counter()
    call()
    if device == "cuda":
        import torch
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--utterances", type=int, default=2000, metavar="N")
    parser.add_argument("--device", choices=list(CALLS), default="cpu")
    arguments = parser.parse_args()
    n, device = arguments.utterances, arguments.device
    warnings.simplefilter("ignore")
    generator = np.random.default_rng(1)
    lengths = (int(RATE * generator.uniform(2, 20)) for _ in range(n))
    sounds = [generator.standard_normal(frames).astype(np.float32) * 0.1 for frames in lengths]
    rooms = [room(generator, generator.uniform(0.3, 2)) for _ in range(ROOMS)]
    pairs = [(i, int(generator.integers(ROOMS))) for i in range(n)]
    seconds = sum(map(len, sounds)) / RATE
    print("| | its own, ms | haloconv, ms | times faster | its own, hours an hour | haloconv |")
    print("|---|--:|--:|--:|--:|--:|")
    for project, calls in CALLS[device].items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                for name, call in calls(pathlib.Path(folder), sounds, rooms, pairs):
                    times = [[], []]
                    for turn in range(2 * (TURNS + (device == "cuda"))):  # on a GPU one turn to warm up
                        if turn % 2:
                            haloconv.patch(project)
                        times[turn % 2].append(ms_of(call, device))
                        haloconv.unpatch(project)
                    theirs, ours = (statistics.median(some[-TURNS:]) for some in times)
                    hours = [f"{seconds / ms * 1000:,.0f}" for ms in (theirs, ours)]
                    print(f"| {name} | {theirs / n:.3g} | {ours / n:.3g} | {theirs / ours:.2f} | {' | '.join(hours)} |",
                          flush=True)
            except ImportError as error:
                print(f"{project}: {error}", file=sys.stderr)
    print(f"\n{n} utterances, {seconds / 3600:.2f} h of sound, {len(os.sched_getaffinity(0))} processors")


if __name__ == "__main__":
    main()
