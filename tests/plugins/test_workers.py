"""Worker processes of a torch DataLoader: fork and spawn after calls in the parent, shares of processors, a kill."""

import os
import signal

import numpy as np
import pytest
from test_python import hc  # noqa: F401  (a fixture)

try:
    import torch
    from torch.utils.data import DataLoader
except ImportError:
    torch = None

pytestmark = pytest.mark.skipif(torch is None, reason="no torch")
X, H = np.ones((4, 20000), np.float32), np.hanning(3000).astype(np.float32)


class Items:
    """Items of a worker: (result of NumPy, result of torch, random numbers, n_threads of NumPy's plans)."""

    def __init__(self, augment, killed=None):
        self.augment, self.killed = augment, killed

    def __len__(self):
        return 8

    def __getitem__(self, i):
        import haloconv
        if i == self.killed and torch.utils.data.get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        y = haloconv.convolve_tensors(X, H)
        z = haloconv.torch.convolve(torch.from_numpy(X), torch.from_numpy(H))
        reverberated = self.augment(torch.ones(1, 1, 64))
        shares = [key[2] for key in haloconv._arrays._plans.by_key]
        return y[:, ::500].copy(), z[:, ::500].clone(), reverberated.flatten(), shares


@pytest.fixture
def items(hc, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.manual_seed(7)
    augment = hc.torch.ApplyImpulseResponse(torch.randn(200, 30), p=1.0)
    Items(augment)[0]  # starts the thread pools of the parent
    return Items(augment)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_compute_what_the_parent_does(hc, items, start):
    y, z = (np.asarray(value) for value in items[0][:2])
    drawn = []
    n_workers = 2 if start == "fork" else 1  # a spawned one imports torch for seconds
    for got in DataLoader(items, batch_size=None, num_workers=n_workers, multiprocessing_context=start, timeout=60):
        assert np.array_equal(got[0], y) and np.array_equal(got[1], z)
        drawn.append(got[2].numpy().tobytes())
    assert len(drawn) == 8 and len(set(drawn)) >= 6  # 200 responses; workers that share a seed draw 4


class Draws:
    """Items of a worker: (its number, the responses that a module with a seed draws)."""

    def __init__(self, augment):
        self.augment = augment

    def __len__(self):
        return 8

    def __getitem__(self, i):
        self.augment(torch.ones(16, 1, 8))
        return torch.utils.data.get_worker_info().id, self.augment.chosen


def test_each_worker_has_its_draws_which_repeat(hc):
    def draws(seed, torch_seed, epochs=2):
        torch.manual_seed(torch_seed)
        data = DataLoader(Draws(hc.torch.ApplyImpulseResponse(torch.randn(1000, 3), p=1.0, seed=seed)), batch_size=None,
                          num_workers=2, multiprocessing_context="fork", timeout=60)
        return [tuple(chosen.tolist()) for _ in range(epochs) for _, chosen in data]

    first = draws(5, 7)
    assert len(set(first)) == 16  # workers, items and epochs
    assert draws(5, 7) == first
    assert not set(first) & set(draws(6, 7)) and not set(first) & set(draws(5, 8))


def test_a_worker_asks_for_its_share(hc, items, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # torch's number is nearer
    monkeypatch.setattr(hc._arrays._plans, "by_key", {})  # the parent's
    for *_, shares in DataLoader(items, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60):
        assert shares == [1]


def test_a_killed_worker_is_an_error_and_no_deadlock(hc, items):
    killed = Items(items.augment, killed=3)
    with pytest.raises(RuntimeError, match="DataLoader worker"):
        list(DataLoader(killed, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60))
    y, z = items[0][:2]
    assert np.array_equal(y, z.numpy())  # the parent goes on
    assert len(list(DataLoader(items, batch_size=None, num_workers=1, multiprocessing_context="fork", timeout=60))) == 8


N_PROCESSORS = len(os.sched_getaffinity(0))


@pytest.mark.parametrize("text, n", [("", 0), ("1", 1), ("2,4", min(2, N_PROCESSORS)), ("all", 0), ("-3", 0),
                                     ("100000", N_PROCESSORS)])
def test_share_of_a_process(hc, monkeypatch, text, n):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert hc._library._threads(0) == n and hc._library._threads(5) == 5


def test_a_share_is_no_larger_than_the_affinity_mask(hc, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert hc._library._threads(0) == 1
