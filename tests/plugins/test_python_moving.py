"""The Python module's moving sources: Bank, Stream.steer and convolve_moving, compared with float64 sums in numpy."""

import gc
import itertools
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import BUILD, ROOT, chance, generator, noise
from scipy.signal import fftconvolve
from test_python import close, hc  # noqa: F401  (a fixture)

ARC = [(az, el) for el in (-30, 0, 30, 60) for az in range(0, 360, 30)] + [(0, 90)]  # directions of a made-up bank


def responses(entries=len(ARC), outputs=2, taps=700, seed=1):
    return noise(entries * outputs * taps, seed=seed, scale=0.1).reshape(entries, outputs, taps)


def aligned(h):
    """The responses, which begin with the same pulse: only such responses are mixed."""
    h = h.copy()
    h[..., :24] = 0
    h[..., 0] = 2
    return h


def moving_sum(x, h, at, step):
    """The output for entries or rows of weights [steps, entries] that begin at each step, with fades of one step."""
    n = len(x)
    weights = np.zeros((-(-n // step) + 1, len(h)))
    for i in range(len(weights)):
        row = at[min(i, len(at) - 1)]
        weights[i] = row if np.ndim(row) else np.arange(len(h)) == row
    t = np.arange(n)
    g = ((t % step + 1) / step)[:, None]
    share = g * weights[t // step] + (1 - g) * weights[np.maximum(t // step - 1, 0)]
    return sum(share[:, [e]] * np.stack([fftconvolve(x.astype(np.float64), ear.astype(np.float64))[:n]
                                         for ear in h[e]], 1) for e in np.flatnonzero(share.any(0)))


# ---- banks ----------------------------------------------------------------------------------------------------------
def test_a_bank_tells_its_properties(hc):
    h = responses()
    bank = hc.Bank(h, rate=48000, positions=ARC)
    assert (bank.entries, bank.outputs, bank.taps, bank.rate, bank.notes) == (len(ARC), 2, 700, 48000, "")
    assert np.array_equal(bank.responses, h) and bank.positions.dtype == np.float32
    assert np.allclose(bank.positions[3], [0, np.cos(np.pi / 6), -0.5]) and np.allclose(bank.positions[-1], [0, 0, 1])
    other = hc.Bank(h.tolist(), positions=bank.positions)
    assert other.rate is None and np.array_equal(other.positions, bank.positions)
    assert hc.Bank(h[:, 0]).responses.shape == (len(ARC), 1, 700) and hc.Bank(h).positions is None


def test_an_overflow_of_a_moving_source_is_silent_and_said(hc):
    x, h = noise(4000, seed=3)[:, 0], responses(2)
    x[1000] = 3e38
    with pytest.warns(RuntimeWarning, match="of the result are beyond"):
        y = hc.convolve_moving(x, h * 10, [(0, 0, 0), (2000, 0, 1)], backend="cpu")
    assert np.isfinite(y).all() and y[:500].any() and y[2500:].any()


@pytest.mark.parametrize("taps", [1, 2, 3, 100])
def test_the_largest_gain_is_of_any_sine(hc, taps):
    h = responses(5, 2, taps, seed=taps)
    want = 20 * np.log10(max(np.abs(np.fft.rfft(r.astype(float), 1 << 18)).max() for r in h.reshape(-1, taps)))
    assert abs(hc.Bank(h).gain_db - want) < 0.01
    scaled = hc.Bank(h, normalise=True)
    assert scaled.gain_db == 0 and abs(hc.Bank(scaled.responses).gain_db) < 0.01
    assert np.allclose(scaled.responses, h * 10 ** (-want / 20), rtol=2e-3)
    assert hc.Bank(np.zeros((1, 1, 5))).gain_db <= -200


def test_the_nearest_entry_is_by_angle_then_by_distance(hc):
    positions = np.concatenate([hc.position(*np.array(ARC).T, r) for r in (1.0, 2.0)])
    bank = hc.Bank(responses(2 * len(ARC)), positions=positions)
    draw = chance("nearest")
    for _ in range(300):
        az, el, r = draw.uniform(-720, 720), draw.uniform(-90, 90), draw.choice([0.5, 1.2, 1.7, 9])
        angles = np.arccos(np.clip(hc.position(*np.array(ARC).T) @ hc.position(az, el), -1, 1))
        assert bank.nearest(az, el, r) == int(np.argmin(angles)) + (len(ARC) if r > 1.5 else 0), (az, el, r)


def test_a_mix_points_where_it_should(hc):
    """Inside the range the weighted directions add up to the direction, and never jump."""
    bank = hc.Bank(aligned(responses()), positions=ARC)
    units = bank.positions.astype(np.float64)
    draw = chance("mix")
    for _ in range(300):
        az, el = draw.uniform(0, 360), draw.uniform(-25, 90)
        entries, weights = bank.mix(az, el)
        assert len(entries) <= 4 and len(set(entries)) == len(entries) and (weights > 0).all()
        assert abs(weights.sum() - 1) < 1e-6
        middle = weights @ units[entries]
        assert middle @ hc.position(az, el) / np.linalg.norm(middle) > 1 - 1e-9, (az, el, entries, weights)
        assert (units[entries] @ hc.position(az, el) > np.cos(np.deg2rad(45))).all()
    for direction in [lambda a: (a, 10), lambda a: (a, -70), lambda a: (20, a / 4 - 45)]:
        before = None
        for a in np.arange(0, 360, 0.5):
            now = np.zeros(len(ARC))
            entries, weights = bank.mix(*direction(a))
            now[entries] = weights
            assert before is None or np.abs(now - before).max() < 0.15, (direction(a), before, now)
            before = now
    for e, (az, el) in enumerate(ARC):
        assert [int(entry) for entry in bank.mix(az, el)[0]] == [e]
    two = hc.Bank(aligned(responses(2 * len(ARC))), positions=np.concatenate([r * units for r in (1, 2)]))
    for r, first in [(1.2, 0), (3, len(ARC))]:
        (near, shares), (entries, weights) = two.mix(77, 5, r), bank.mix(77, 5)
        assert dict(zip(near - first, shares.round(5))) == dict(zip(entries, weights.round(5)))
    ring = hc.Bank(aligned(responses(4)), positions=[(0, 0), (90, 0), (180, 0), (270, 0)])
    entries, weights = ring.mix(30, 40)
    assert sorted(entries) == [0, 1] and abs(weights[list(entries).index(1)] - 0.366) < 1e-3
    assert list(hc.Bank(responses(1), positions=[(10, 0)]).mix(200, 0)[0]) == [0]


@pytest.mark.parametrize("kind", ["folder", "sofa"])
def test_a_bank_of_a_file_is_a_bank_of_an_array(hc, folder, backend, kind):
    """Attributes, nearest entries and sound are the same."""
    where = BUILD / "impulses/head" if kind == "folder" else pathlib.Path("/usr/share/libmysofa/default.sofa")
    if kind == "sofa" and not where.exists():
        pytest.skip("no SOFA file of libmysofa")
    try:
        file = hc.Bank(where, grid=0)
    except hc.Error as error:
        assert error.code == -5, error
        pytest.skip("built without SOFA")
    h = file.responses
    array = hc.Bank(h, rate=file.rate, positions=file.positions)
    assert array.responses.shape == (file.entries, file.outputs, file.taps) and file.rate in (44100, 48000)
    assert abs(array.gain_db - file.gain_db) < 0.02
    draw = chance("file")
    for _ in range(200):
        az, el, r = draw.uniform(0, 360), draw.uniform(-90, 90), draw.uniform(0.2, 4)
        a, b = (hc.position(az, el) @ file.positions[bank.nearest(az, el, r)] for bank in (file, array))
        assert abs(a - b) < 1e-5, (az, el)  # two entries may be equally near
        mixes = [bank.mix(az, el, r) for bank in (file, array)]
        one, other = (weights @ file.positions[entries] for entries, weights in mixes)
        assert np.abs(one - other).max() < 1e-3, (az, el, mixes)
    x, path = noise(5000)[:, 0], generator(3).integers(0, file.entries, 5000 // 256)
    close(hc.convolve_moving(x, file, path, mode="causal", backend=backend), moving_sum(x, h, path, 256))
    assert np.array_equal(hc.convolve_moving(x, file, path, backend=backend),
                          hc.convolve_moving(x, array, path, backend=backend))
    assert abs(hc.Bank(where, normalise=True).gain_db) < 1e-3
    grid = hc.Bank(str(where), rate=32000, grid=20)
    assert grid.rate == 32000 and grid.entries > file.entries / 4 and "grid" in grid.notes
    mixed = hc.Bank(where)
    assert mixed.entries > file.entries and np.array_equal(mixed.responses[:file.entries, :, :file.taps], h)


def test_refused_banks_are_exceptions(hc, folder):
    with pytest.raises(hc.Error, match="nowhere.sofa"):
        hc.Bank("nowhere.sofa")
    bad = responses(3)
    bad[1, 0, 7] = np.nan
    for words, match in [((bad,), r"not finite at \[1, 0, 7\]"), ((np.ones(5),), "shape"),
                         ((np.ones((0, 1, 5)),), "shape"), ((responses(3), None, np.ones((2, 3))), "positions"),
                         ((responses(3), None, np.full((3, 3), np.inf)), "positions"),
                         ((responses(3), 2**40), "rate"), ((responses(3), None, None, 5), "grid"),
                         (("a.sofa", None, np.ones((3, 3))), "positions"), (("a.sofa", 2**40), "rate")]:
        with pytest.raises(ValueError, match=match):
            hc.Bank(*words)
    with pytest.raises(TypeError, match="complex"):
        hc.Bank(responses(3).astype(complex))
    head, x = BUILD / "impulses/head", np.ones(9, np.float32)
    for call in (lambda: hc.Bank(f"{head}\0.sofa"), lambda: hc.Bank(pathlib.Path(f"{head}\0b")),
                 lambda: hc.Stream(backend="cpu\0"), lambda: hc.Stream(method="fft\0x"),
                 lambda: hc.convolve(x, x, backend="cpu\0"),
                 lambda: hc.convolve_moving(x, hc.Bank(responses(3)), [(0, 0, 1)], backend="cpu\0")):
        with pytest.raises(ValueError, match="has a NUL character"):
            call()
    bank = hc.Bank(responses(3))
    for find in (bank.nearest, bank.mix):
        with pytest.raises(ValueError, match="no positions"):
            find(10)


# ---- streams --------------------------------------------------------------------------------------------------------
def steered_sum(x, h, requests, levels):
    """requests[b]: entry at block b of 64 frames; each level takes, delays and fades its own part of the responses."""
    n, out = len(x), np.zeros((len(x), h.shape[1]))
    t = np.arange(n)
    for level in levels:
        now = (t - level["delay"]) // level["hop"]
        g = np.minimum(((t - level["delay"]) % level["hop"] + 1) / level["fade"], 1)
        entry = [requests[np.clip(hop * level["hop"] // 64, 0, len(requests) - 1)] for hop in (now, now - 1)]
        part = slice(level["offset"], level["offset"] + level["n_taps"])
        for e, ear in itertools.product(range(len(h)), range(h.shape[1])):
            taps = np.concatenate([np.zeros(level["offset"]), h[e, ear, part].astype(np.float64)])
            share = g * (entry[0] == e) + (1 - g) * (entry[1] == e)
            out[:, ear] += share * fftconvolve(x.astype(np.float64), taps)[:n]
    return out


@pytest.mark.parametrize("taps,n_levels", [(1, 1), (300, 1), (5000, 2)])
def test_a_steered_stream_is_the_sum_of_its_levels(hc, backend, taps, n_levels):
    x, h = noise(64 * 200, 2, seed=2), responses(6, 2, taps, seed=3)
    bank = hc.Bank(h, rate=48000)
    requests = [np.repeat(generator(s).integers(0, 6, 100), 2) for s in (4, 5)]
    with hc.Stream(sources=2, bank=bank, backend=backend) as stream:
        assert (stream.n_in, stream.n_out, stream.max_taps, stream.sources, stream.rate) == (2, 2, 1, 2, 48000)
        assert len(stream.steer_levels) == n_levels and stream.steer_levels[0]["delay"] == 0
        assert sum(level["n_taps"] for level in stream.steer_levels) == taps and stream.info["bank_memory"] > 0
        got = []
        for b in range(200):
            for source in range(2):
                stream.steer(source, 5 - requests[source][b])  # the last request before a block wins
                stream.steer(source, int(requests[source][b]))
            got.append(stream.process(x[64 * b:64 * b + 64]))
        levels = stream.steer_levels
    close(np.concatenate(got), sum(steered_sum(x[:, s], h, requests[s], levels) for s in range(2)))


def test_steering_takes_directions_positions_mixes_and_silence(hc):
    h, x = responses(taps=50), noise(640)[:, 0]
    bank, plain = hc.Bank(h, positions=ARC), hc.Bank(responses(3, taps=50, seed=9))
    one = np.stack([[fftconvolve(x, ear)[:640] for ear in entry] for entry in h]).transpose(0, 2, 1)
    entries, weights = bank.mix(100, 10)
    cases = [(dict(entry=7), one[7]), (dict(azimuth=91, elevation=2, mix=False), one[15]),
             (dict(azimuth=0, elevation=80, distance=3, gain=0.5, mix=False), 0.5 * one[-1]),
             (dict(xyz=(0, -2, 0.1), mix=False), one[21]), (dict(entries=[1, 2, 3, 4], weights=[1, -0.5, 0, 2], gain=0.5),
                                                one[1] / 2 - one[2] / 4 + one[4]),
             (dict(entries=[4, 4]), 2 * one[4]), (dict(entries=[]), 0 * one[0]),
             (dict(azimuth=100, elevation=10), np.tensordot(weights, one[entries], 1)),
             (dict(entry=2, bank=plain), np.stack([fftconvolve(x, ear)[:640] for ear in plain.responses[2]], 1))]
    with hc.Stream(sources=1, bank=bank, backend="cpu") as stream:
        assert (stream.process(x) == 0).all()  # silent until the first steer
        stream.add_bank(plain)
        stream.add_bank(bank)
        for given, want in cases:
            stream.reset()
            stream.steer(0, **given)
            close(stream.process(x), want)
            assert np.abs(want).max() > 0 or given == {"entries": []}


def test_sources_play_beside_a_mask(hc, backend):
    x, h, mask = noise(6400, 2, seed=4), responses(2, 2, 900), noise(1000, 4, seed=5)
    with hc.Stream(2, sources=1, bank=hc.Bank(h), backend=backend) as stream:
        stream.swap(mask)
        stream.steer(0, 1)
        got = stream.process(x)
    want = hc.convolve(x, mask, mode="causal", backend="cpu") + moving_sum(x[:, 0], h, [1], 64)
    close(got, want)


def test_refused_steering_is_an_exception(hc):
    bank, other = hc.Bank(responses(3), rate=48000), hc.Bank(responses(3), rate=44100)
    with pytest.raises(ValueError, match="sources=1"):
        hc.Stream(bank=bank)
    with pytest.raises(ValueError, match="rate=96000"):
        hc.Stream(sources=1, bank=bank, rate=96000, backend="cpu")
    with pytest.raises(ValueError, match="n_out=2"):
        hc.Stream(sources=1, bank=bank, n_out=1, backend="cpu")
    with pytest.raises(hc.Error, match="bank_taps"):
        hc.Stream(sources=1, bank=bank, bank_taps=100, backend="cpu")
    with pytest.raises(hc.Error, match="n_sources"):
        hc.Stream(1, sources=2, backend="cpu")
    with hc.Stream(1, backend="cpu") as stream, pytest.raises(ValueError, match="source 0 is out of range"):
        stream.steer(0, 1)
    with hc.Stream(sources=2, bank=bank, backend="cpu") as stream:
        with pytest.raises(ValueError, match="rate=48000"):
            stream.add_bank(other)
        for words, given, match in [((2, 0), {}, "source 2"), ((-1, 0), {}, "source -1"), ((0, 3), {}, "entry 3"),
                                    ((0, -1), {}, "entry -1"), ((0,), {}, "missing"),
                                    ((0, 1), {"azimuth": 3}, "entry, azimuth"),
                                    ((0,), {"azimuth": 3}, "no positions"), ((0,), {"entries": [0] * 5}, "at most 4"),
                                    ((0,), {"entries": [0, 1], "weights": [1]}, "a weight"),
                                    ((0, 1), {"weights": [0.5]}, "weights belong to entries"),
                                    ((0, 1), {"gain": np.nan}, "not a finite"),
                                    ((0, 1), {"gain": 1e300}, "not a finite"),
                                    ((0, 1), {"bank": other}, "add_bank")]:
            with pytest.raises(ValueError, match=match):
                stream.steer(*words, **given)
        stream.drop_bank(bank)
        stream.drop_bank(bank)
        with pytest.raises(ValueError, match="add_bank"):
            stream.steer(0, 1)
    for call in (lambda: stream.steer(0, 1), lambda: stream.add_bank(bank), lambda: stream.steer_levels):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_threads_steer_while_a_stream_plays_and_closes(hc):
    x, banks = noise(64 * 50, 4, seed=9), [hc.Bank(responses(8, 2, 2000, seed=s)) for s in range(2)]
    for round in range(4):
        stream, wrong = hc.Stream(sources=4, bank=banks[0], backend="cpu"), []

        def steer(source, stream=stream, wrong=wrong):
            try:
                for i in itertools.count():
                    stream.steer(source, i % 8)
                    if source == 0 and i % 50 == 0:
                        stream.drop_bank(banks[0])
                        stream.add_bank(banks[1])
                        stream.add_bank(banks[0])
            except ValueError as error:
                if "closed" not in str(error) and "add_bank" not in str(error):
                    wrong.append(error)

        threads = [threading.Thread(target=steer, args=(s,)) for s in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            assert np.isfinite(stream.process(x)).all()
        stream.close()
        for thread in threads:
            thread.join()
        assert not wrong


def test_banks_and_streams_go_in_any_order(hc):
    """The library frees a bank once no stream plays it; streams alike share its copy."""
    x, h = noise(640)[:, 0], responses(3, taps=3000)
    for order in itertools.permutations(range(3)):
        bank = hc.Bank(h)
        made = [hc.Stream(sources=1, bank=bank, backend="cpu"), hc.Stream(sources=1, bank=bank, backend="cpu"), bank]
        assert len(bank._made) == 1 and made[1].info["bank_memory"] == 0
        for stream in made[:2]:
            stream.steer(0, 1)
            stream.process(x)
        del bank, stream
        for i in order:
            made[i] = None
            gc.collect()
            for left in made[:2]:
                if left:
                    left.steer(0, 2)
                    assert np.isfinite(left.process(x)).all()
    stream = hc.Stream(sources=1, bank=hc.Bank(h), backend="cpu")
    memory = stream.info["bank_memory"]
    for _ in range(5):
        stream.add_bank(hc.Bank(h))
        stream.drop_bank(stream._bank)
    gc.collect()
    assert stream.info["bank_memory"] == memory
    code = ("import haloconv, numpy as np\nb = haloconv.Bank(np.ones((2, 2, 9)), positions=[(0, 0), (90, 0)])\n"
            "s = haloconv.Stream(sources=1, bank=b, backend='cpu')\ns.steer(0, azimuth=80)\ns.process(np.ones(100))\n"
            "haloconv.convolve_moving(np.ones(100), b, [0], backend='cpu')")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "plugins/python", capture_output=True, text=True,
                          check=True, env={**os.environ, "HALOCONV_LIBRARY": str(BUILD / "libhaloconv.so")})
    assert done.stderr == ""


# ---- whole signals --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n,taps,step", [(1, 1, 16), (5000, 700, 256), (5001, 3000, 100), (20000, 5, 1000),
                                         (900, 50, 65536)])
def test_a_path_is_the_time_varying_sum(hc, backend, n, taps, step):
    x, h = noise(n, seed=n)[:, 0], responses(9, 2, taps, seed=taps)
    path = generator(n).integers(0, 9, -(-n // step))
    bank = hc.Bank(h)
    want = moving_sum(np.concatenate([x, np.zeros(taps - 1, np.float32)]), h, path, step)
    if backend == "cuda" and step > 4096:
        with pytest.raises(hc.Error, match="steps of 65536 frames are too long; use 4096 or fewer"):
            hc.convolve_moving(x, bank, path, step=step, backend=backend)
        backend = "auto"  # the CPU then
    close(hc.convolve_moving(x, bank, path, step=step, backend=backend), want)
    close(hc.convolve_moving(x, bank, path, step=step, mode="causal", backend=backend), want[:n])
    again = hc.convolve_moving(x[:, None], h, path.tolist(), step=step, backend=backend, n_threads=1)
    assert np.array_equal(again, hc.convolve_moving(x, bank, path, step=step, backend=backend))
    mono = hc.convolve_moving(x, h[:, 0], path, step=step, backend=backend)
    close(mono[:, None], want[:, :1])


def test_paths_of_any_kind_are_one_path(hc):
    """A list in frames or seconds, a function, arrays of entries and positions."""
    x, h, step, rate = noise(4096, 2, seed=6), responses(taps=90), 128, 16000
    bank = hc.Bank(h, rate=rate, positions=ARC)
    path = generator(7).integers(0, len(ARC), (32, 2))
    path[10:14, 1] = -1  # silence
    padded = np.concatenate([h, np.zeros_like(h[:1])])
    want = sum(moving_sum(x[:, s], padded, path[:, s], step) for s in range(2))
    places = [[None if e < 0 else bank.positions[e] for e in row] for row in path]
    paths = {
        "entries": path,
        "frames": [(128 * i - i % 5, s, int(path[i, s])) for s in range(2) for i in range(32)],
        "seconds": [((128 * i - i % 100) / rate, np.int64(s), path[i, s]) for i in range(32) for s in range(2)],
        "positions": [(128 * i, s, places[i][s]) for i in range(32) for s in range(2)],
        "function": lambda t, s: places[round(t * rate / 128)][s],
    }
    for name, given in paths.items():
        got = hc.convolve_moving(x, bank, given, step=step, mode="causal", backend="cpu")
        assert got.shape == want.shape, name
        close(got, want)
    path[10:14, 1] = 3
    for given in (bank.positions[path], hc.position(*np.array(ARC)[path].transpose(2, 0, 1), 2)):
        close(hc.convolve_moving(x, bank, given, step=step, mode="causal", backend="cpu"),
              sum(moving_sum(x[:, s], h, path[:, s], step) for s in range(2)))
    turn = hc.position(np.arange(32) * 7, 20)
    mixes = np.zeros((32, len(ARC)))
    for i in range(32):
        entries, weights = bank.mix(7 * i, 20)
        mixes[i, entries] = weights
    close(hc.convolve_moving(x[:, 0], bank, turn, step=step, mode="causal", backend="cpu"),
          moving_sum(x[:, 0], h, mixes, step))
    close(hc.convolve_moving(x[:, 0], bank, turn, step=step, mode="causal", mix=False, backend="cpu"),
          moving_sum(x[:, 0], h, [bank.nearest(7 * i, 20) for i in range(32)], step))
    assert (hc.convolve_moving(x, bank, [], backend="cpu") == 0).all()
    late = hc.convolve_moving(x[:, 0], bank, [(200, 0, 5)], step=step, backend="cpu")
    assert (late[:256] == 0).all() and np.abs(late[256:]).max() > 0


def test_a_tone_moved_over_a_bank_of_a_file_does_not_step(hc):
    """By a path and by steering, without a word about grids and mixes; nearest entries step."""
    bank, rate = hc.Bank(BUILD / "impulses/head", rate=16000), 16000
    x = np.sin(2 * np.pi * 1000 / rate * np.arange(4 * rate)).astype(np.float32)

    def steered(**options):
        with hc.Stream(1, sources=1, bank=bank, block=64, backend="cpu") as stream:
            got = []
            for at in range(0, len(x), 64):
                stream.steer(0, azimuth=90 * at / rate, **options)
                got.append(stream.process(x[at:at + 64]))
        return np.concatenate(got)

    def beside(y):
        power = np.abs(np.fft.rfft(y[1600:-1600] * np.blackman(len(y) - 3200)[:, None], axis=0)) ** 2
        return 10 * np.log10(power[np.abs(np.fft.rfftfreq(len(y) - 3200, 1 / rate) - 1000) > 40].sum() / power.sum())
    moved = [hc.convolve_moving(x, bank, lambda t, source: hc.position(90 * t), mode="causal", backend="cpu", **options)
             for options in ({}, {"mix": False})]
    for smooth, stepping in (moved, (steered(), steered(mix=False))):
        assert beside(smooth) < -60 and beside(stepping) > beside(smooth) + 10, (beside(smooth), beside(stepping))


def test_refused_paths_are_exceptions(hc):
    x, bank = np.ones(1000, np.float32), hc.Bank(responses(3))
    there = hc.Bank(responses(3), rate=48000, positions=[(0, 0), (90, 0), (180, 0)])
    for given, match in [(dict(path=[3]), "entry 3"), (dict(path=[(0, 1, 0)]), "source 1"),
                         (dict(path=[(0, -1, 0)]), "source"),
                         (dict(path=[(0.5, 0, 0)]), "rate"), (dict(path=lambda t, s: 0), "rate"),
                         (dict(path=[(0, 0, (1, 0, 0))]), "no positions"), (dict(path=[(0, 0)]), "time, source, target"),
                         (dict(path=np.zeros((4, 2), int)), "shape"), (dict(path=np.zeros((4, 1, 2))), "shape"),
                         (dict(path=[0], mode="same"), "give full or causal"), (dict(path=[(0, 0, 0.5)]), "whole number"),
                         (dict(path=[0], bank=there, rate=44100), "rate=44100"),
                         (dict(path=[(0, 0, (1, 0))], bank=there), "is not a position"),
                         (dict(path=[(0, 0, (np.nan, 0, 0))], bank=there), "is not a position"),
                         (dict(path=[(np.nan, 0, 0)], bank=there), "time"), (dict(path=[0], step=0), "step 0"),
                         (dict(path=[0], step=2**32 + 256), "step")]:
        with pytest.raises(ValueError, match=match):
            hc.convolve_moving(x, **{"bank": bank, "backend": "cpu", **given})
    for given, match in [(dict(step=8), "step"), (dict(backend="tpu"), "tpu"), (dict(n_threads=-1), "n_threads")]:
        with pytest.raises(hc.Error, match=match):
            hc.convolve_moving(x, bank, [0], **{"backend": "cpu", **given})
    with pytest.raises(TypeError, match="complex"):
        hc.convolve_moving(x.astype(complex), bank, [0])
    x[[3, 700]] = np.nan, np.inf
    with pytest.warns(RuntimeWarning, match="2 samples"):
        y = hc.convolve_moving(x, bank, [1], backend="cpu")
    x[[3, 700]] = 0
    assert np.array_equal(y, hc.convolve_moving(x, bank, [1], backend="cpu"))
    assert hc.convolve_moving(x[:0], bank, [1], mode="causal", backend="cpu").shape == (0, 2)


def test_threads_convolve_with_one_bank(hc):
    """Each thread has a renderer; the bank keeps those of the last step for the next call."""
    bank, xs = hc.Bank(responses(9, 2, 2000)), [noise(9000, seed=s)[:, 0] for s in range(6)]
    paths = [generator(s).integers(0, 9, 36) for s in range(6)]
    want = [hc.convolve_moving(x, bank, path, backend="cpu") for x, path in zip(xs, paths)]
    assert len(bank._renderers[1]) == 1
    got = [None] * 6

    def run(i):
        for _ in range(3):
            hc.convolve_moving(xs[i], bank, paths[i], step=128, backend="cpu", n_threads=1)
            got[i] = hc.convolve_moving(xs[i], bank, paths[i], backend="cpu", n_threads=1)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(a, b) for a, b in zip(got, want)) and 1 <= len(bank._renderers[1]) <= 6
