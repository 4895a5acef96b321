"""haloconv.ray: a row's draw and sound are the same for any number of actors, also if one dies; `haloconv batch` on Ray."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import scipy.signal
from conftest import BUILD, HALOCONV, ROOT, SAN, assert_close, noise, read, write

RATE = 16000
sys.path.insert(0, str(ROOT / "plugins/python"))
os.environ["HALOCONV_LIBRARY"] = str(BUILD / "libhaloconv.so")
ENV = {"PYTHONPATH": f"{ROOT / 'plugins/python'}:{ROOT / 'tests'}", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
if SAN:
    pytest.skip("Python is not built with the sanitizer", allow_module_level=True)
haloconv = pytest.importorskip("haloconv")
from haloconv.ray import Reverb  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    """Two processors. The path of its socket must be short."""
    os.environ.update(ENV)
    address = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20,
                       logging_level="ERROR").address_info["gcs_address"]
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the actors cannot import this file
    yield address
    ray.shutdown()


@pytest.fixture
def sounds(folder):
    """Twelve sounds of unlike lengths in in/, at two rates; five rooms in rooms/."""
    (folder / "in").mkdir()
    (folder / "rooms").mkdir()
    for i in range(12):
        write(folder / f"in/u{i:02}.wav", noise(4000 + 977 * i, 1, seed=i), RATE if i % 3 else 8000, "FLOAT")
    for i, n in enumerate([1600, 1601, 3000, 1, 700]):
        room = noise(n, 1, seed=100 + i, scale=0.02)
        room[min(n - 1, 100 * i)] = 1
        write(folder / f"rooms/r{i}.wav", room, RATE, "FLOAT")
    return folder


def rows(folder, n_actors, reverb=Reverb, batch_size=2, **options):
    """The rows that n actors make of the sounds in in/, by path."""
    data = ray.data.read_audio(str(folder / "in"), include_paths=True, override_num_blocks=6)
    data = data.map_batches(reverb, fn_constructor_args=[str(folder / "rooms")], fn_constructor_kwargs=options,
                            concurrency=n_actors, batch_size=batch_size, num_cpus=0.5)
    return {pathlib.Path(row["path"]).name: row for row in data.take_all()}


class DiesOnce(Reverb):
    """The first call of all actors ends its process in mid work."""

    def __init__(self, *args, marker, **options):
        super().__init__(*args, **options)
        self.marker = marker

    def __call__(self, batch):
        out = super().__call__(batch)
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return out
        os._exit(1)


def test_rows_are_the_same_for_any_actors_also_if_one_dies(sounds):
    options = {"p": 0.8, "seed": 3, "keep_level": True}
    one = rows(sounds, 1, **options)
    two = rows(sounds, 2, DiesOnce, batch_size=3, marker=str(sounds / "died"), **options)
    assert (sounds / "died").exists() and sorted(one) == sorted(two) == [f"u{i:02}.wav" for i in range(12)]
    plain = Reverb(str(sounds / "rooms"), **options)  # no Ray: NumPy alone
    for name, row in one.items():
        x = read(sounds / "in" / name).T.astype(np.float32)
        batch = {"amplitude": [x], "sample_rate": [row["sample_rate"]], "path": [row["path"]]}
        want = plain(batch)
        assert want["response"][0] == row["response"] == two[name]["response"]
        assert want["amplitude"][0].tobytes() == row["amplitude"].tobytes() == two[name]["amplitude"].tobytes()
        if row["response"] < 0:
            assert row["amplitude"].tobytes() == x.tobytes()
    drawn = [row["response"] for row in one.values()]
    assert -1 in drawn and len(set(drawn)) > 3


def wanted(folder, x, rate, number, align, tail):
    h = haloconv.Bank(folder / f"rooms/r{number}.wav", rate=rate).responses[0, 0].astype(np.float64)
    y = scipy.signal.fftconvolve(x, h)
    at = int(np.abs(h).argmax()) if align else 0
    end = np.flatnonzero(h)[-1] + len(x) if tail == "full" else at + len(x)
    return np.concatenate([y, np.zeros(at)])[at:end]


@pytest.mark.parametrize("align, tail", [(True, "same"), (True, "full"), (False, "same"), (False, "full")])
def test_a_row_is_convolved_with_its_response(sounds, align, tail):
    reverb = Reverb(str(sounds / "rooms"), p=1, key="id", align=align, tail=tail)
    x = [noise(3000 + i, 1, seed=i)[:, 0].astype(np.float32) for i in range(20)]
    rates = [8000 if i % 2 else RATE for i in range(20)]
    out = reverb({"amplitude": x, "sample_rate": rates, "id": np.arange(20)})
    assert len(set(out["response"])) == 5
    for i in range(20):
        want = wanted(sounds, x[i], rates[i], out["response"][i], align, tail)
        assert out["amplitude"][i].shape == want.shape
        assert_close(out["amplitude"][i][:, None], want[:, None])


def test_the_amplitudes_become_arrow_without_a_copy(sounds):
    from ray.data._internal.tensor_extensions.arrow import ArrowVariableShapedTensorArray
    out = Reverb(str(sounds / "rooms"), key="id")(
        {"amplitude": [noise(900 + i, 2, seed=i).T for i in range(8)], "sample_rate": [RATE] * 8, "id": list("abcdefgh")})
    array = ArrowVariableShapedTensorArray.from_numpy(out["amplitude"])
    assert np.shares_memory(array.to_numpy(zero_copy_only=False)[3], out["amplitude"][3])


def test_levels_channels_and_rates(sounds):
    x = noise(5000, 2, seed=1).T
    batch = {"amplitude": [x], "sample_rate": [RATE], "path": ["a"]}
    h = np.zeros((1, 2, 50), np.float32)
    h[0, :, 9] = 3, 4
    out = Reverb(h, p=1, normalise="energy")(batch)["amplitude"][0]  # mean energy of a channel: 12.5
    assert_close(out.T, (x * np.array([[3], [4]]) / np.sqrt(12.5)).T)
    out = Reverb(h, p=1, keep_level=True, tail="full")(batch)["amplitude"][0]
    assert np.isclose(np.square(out).mean(), np.square(x).mean(), rtol=1e-5)
    with pytest.raises(ValueError, match="2 channels and a row has 1"):
        Reverb(h, p=1)({**batch, "amplitude": [x[:1]]})
    with pytest.raises(ValueError, match="bank is for 8000 Hz, and a row has 16000 Hz"):
        Reverb(haloconv.Bank(h, rate=8000), p=1)(batch)


def test_a_batch_without_its_columns_is_refused():
    reverb, batch = Reverb(np.ones((1, 4), np.float32)), {"amplitude": [np.ones(9)], "sample_rate": [RATE]}
    with pytest.raises(ValueError, match="include_paths=True"):
        reverb(batch)
    with pytest.raises(ValueError, match="no column 'sample_rate'"):
        reverb({"amplitude": [], "path": []})
    with pytest.raises(ValueError, match='batch_format="numpy"'):
        reverb([1])
    for wrong in ({"p": 2}, {"normalise": "rms"}, {"tail": "long"}, {"device": "tpu"}):
        with pytest.raises(ValueError, match="; give "):
            Reverb(np.ones((1, 4), np.float32), **wrong)
