"""haloconv.patch() of torchaudio, torch-audiomentations and pyroomacoustics: the projects' results, errors, limits."""

import io

import numpy as np
import pytest
from test_adapters import calls  # noqa: F401  (a fixture)
from test_adapters import close as _is_near
from test_python import hc  # noqa: F401  (a fixture)


@pytest.fixture
def torchaudio(hc):
    torchaudio = pytest.importorskip("torchaudio")
    theirs = torchaudio.functional.fftconvolve
    with hc.torch.install():
        assert torchaudio.functional.functional.fftconvolve is torchaudio.functional.fftconvolve is not theirs
        yield torchaudio, theirs
    assert torchaudio.functional.functional.fftconvolve is torchaudio.functional.fftconvolve is theirs


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
def test_torchaudio_convolves_as_before(torchaudio, mode):
    torch, (project, theirs) = pytest.importorskip("torch"), torchaudio
    torch.manual_seed(1)
    x, y = torch.randn(2, 3, 1000), torch.randn(1, 3, 301)
    for a, b in ((x, y), (y, x), (x.double(), y), (x[0, 0], y[0, 0].to(torch.int32)), (x.int(), y.int())):
        _is_near(project.functional.fftconvolve(a, b, mode), theirs(a, b, mode))
        _is_near(project.transforms.FFTConvolve(mode)(a, b), theirs(a, b, mode))
    gradients = []
    for function in (project.functional.fftconvolve, theirs):
        leaves = [value.clone().requires_grad_() for value in (x, y)]
        function(*leaves, mode).square().sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    for ours, original in zip(*gradients):
        _is_near(ours, original)


def test_haloconv_computes_what_it_can(torchaudio, calls):
    torch, project = pytest.importorskip("torch"), torchaudio[0]
    seen = calls("torchaudio")
    project.functional.fftconvolve(torch.ones(1, 5), torch.ones(1, 3))
    assert len(seen) == 1
    project.functional.fftconvolve(torch.ones(1, 5).double(), torch.ones(1, 3))
    assert len(seen) == 1


def test_torchaudio_refuses_in_its_words(torchaudio):
    torch, (project, theirs) = pytest.importorskip("torch"), torchaudio
    a = torch.ones(2, 5)
    for x, y, mode in ((a, torch.ones(5), "full"), (a, torch.ones(3, 5), "full"), (a, a, "wrong"),
                       (a, a[:, :0], "valid"), (a.to(torch.complex64), a, "full"),
                       (torch.tensor(1.0), torch.tensor(1.0), "full")):
        results = []
        for function in (project.functional.fftconvolve, theirs):
            try:
                results.append(function(x, y, mode).shape)
            except Exception as error:
                results.append((type(error), str(error)))
        assert results[0] == results[1]


def test_torchscript_has_torchaudios_function(torchaudio):
    torch, (project, theirs) = pytest.importorskip("torch"), torchaudio
    x, y = torch.randn(2, 500), torch.randn(2, 90)
    scripted, data = torch.jit.script(project.transforms.FFTConvolve("same")), io.BytesIO()
    torch.jit.save(scripted, data)
    data.seek(0)
    assert torch.equal(torch.jit.load(data)(x, y), theirs(x, y, "same"))
    traced = torch.jit.trace(project.functional.fftconvolve, (torch.ones(2, 500), y))
    assert torch.equal(traced(x, y), theirs(x, y))


def test_torch_audiomentations_convolves_as_before(hc, calls):
    torch, project = pytest.importorskip("torch"), pytest.importorskip("torch_audiomentations")
    theirs, seen = project.convolve, calls("torch_audiomentations")
    with hc.patch("torch_audiomentations") as names:
        assert len(names) == 3 and project.augmentations.impulse_response.convolve is project.convolve is not theirs
        for a, b in ((torch.randn(2, 3, 900), torch.randn(2, 1, 1300)), (torch.randn(2, 3, 900), torch.randn(30)),
                     (torch.randn(40).double(), torch.randn(2, 9)), (torch.randn(8), torch.randn(5, 8))):
            for mode in ("full", "valid", "same"):
                _is_near(project.convolve(a, b, mode), theirs(a, b, mode))
        assert len(seen) == 3 * 3  # all but float64
        with pytest.raises(ValueError, match="Unknown mode: wrong"):
            project.convolve(a, b, "wrong")
    assert project.augmentations.impulse_response.convolve is project.convolve is theirs


def test_pyroomacoustics_simulates_as_before(hc, calls):
    project = pytest.importorskip("pyroomacoustics")
    seen = calls("_scipy", "convolve_tensors")

    def simulate():
        room, rng = project.ShoeBox([5, 4, 3], fs=16000, max_order=3), np.random.RandomState(3)
        for k in range(2):
            room.add_source([1 + k, 1.5, 1], signal=rng.randn(4000), delay=0.01 * k)
        room.add_microphone_array(np.array([[3, 2, 1], [3.2, 2, 1]]).T)
        premix = room.simulate(return_premix=True)
        return premix, room.mic_array.signals

    theirs, before = project.Room.simulate, simulate()
    with hc.patch("pyroomacoustics"):
        assert project.ShoeBox.simulate is not theirs and project.ShoeBox.simulate.__doc__ == theirs.__doc__
        after = simulate()
        assert len(seen) == 2 * 2  # sources and microphones
        for ours, original in zip(after, before):
            _is_near(ours, original)
    assert project.ShoeBox.simulate is theirs
