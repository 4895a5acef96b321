"""haloconv.patch() of lhotse, SpeechBrain, audiomentations, ESPnet, NeMo: their results, random numbers and errors."""

import importlib
import json
import random

import numpy as np
import pytest
import scipy.signal
import soundfile
from test_python import hc  # noqa: F401  (a fixture)


def close(ours, theirs):
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    assert abs(ours - theirs).max() <= 1e-5 * abs(theirs).max()


@pytest.fixture
def calls(hc, monkeypatch):
    """calls(adapter, name): a list that grows with each call of this function of ours by an adapter, but for trials."""
    patches = importlib.import_module("haloconv_adapters.patches")

    def count(adapter, name="ours"):
        module, seen = importlib.import_module(f"haloconv_adapters.projects.{adapter}"), []
        function, check = getattr(module, name), patches._check_results

        def uncounted(*given):
            n = len(seen)
            check(*given)
            assert len(seen) > n, "the small signal of a trial does not reach haloconv"
            del seen[n:]

        monkeypatch.setattr(patches, "_check_results", uncounted)
        monkeypatch.setattr(module, name, lambda *arguments: seen.append(1) or function(*arguments))
        return seen
    return count


def rooms(folder, rate=16000, channels=1):
    generator, paths = np.random.default_rng(1), []
    for i, taps in enumerate((4000, 1601, 300)):
        response = generator.standard_normal((taps, channels)) * 0.2 * np.exp(-np.arange(taps) / taps * 6)[:, None]
        response[20 * i] = 1
        paths.append(folder / f"room{i}.wav")
        soundfile.write(paths[-1], response, rate, subtype="FLOAT")
    return paths


def test_lhotse_reverberates_as_before(hc, tmp_path, calls):
    lhotse = pytest.importorskip("lhotse")
    seen = calls("lhotse")
    noise = np.random.default_rng(2).standard_normal(16000) * 0.1
    soundfile.write(tmp_path / "speech.wav", noise, 16000, subtype="FLOAT")
    speech = lhotse.Recording.from_file(tmp_path / "speech.wav")
    for channels in (1, 2):
        for path in rooms(tmp_path, channels=channels):
            room = lhotse.Recording.from_file(path)
            cut = speech.to_cut().reverb_rir(room, rir_channels=list(range(channels)), affix_id=False)
            theirs = cut.load_audio()
            with hc.patch("lhotse") as names:
                assert "lhotse.augmentation.rir.convolve1d" in names
                close(cut.load_audio(), theirs)
    assert len(seen) == 3 * (1 + 2)  # each channel of each response
    again = cut.load_audio()
    assert (again == theirs).all()
    other = lhotse.augmentation.ReverbWithImpulseResponse(lhotse.Recording.from_file(rooms(tmp_path, 8000)[0]))
    with hc.patch("lhotse"), pytest.warns(UserWarning, match="8000 Hz and the sound 16000 Hz"):
        other(speech.load_audio(), 16000)
    torch = pytest.importorskip("torch")
    with hc.patch("lhotse"):
        ours = lhotse.augmentation.utils.convolve1d
        with pytest.raises(AssertionError, match="1-dimensional"):
            ours(torch.ones(1, 2), torch.ones(2))
        assert ours(torch.ones(3), torch.ones(7).double()).dtype == torch.float64  # by lhotse


def test_speechbrain_reverberates_as_before(hc, calls):
    torch, processing = pytest.importorskip("torch"), pytest.importorskip("speechbrain.processing.signal_processing")
    from speechbrain.augment import time_domain
    torch.manual_seed(3)
    theirs, seen = processing.convolve1d, calls("speechbrain")
    x = torch.randn(4, 8001, 2)
    cases = [(x, torch.randn(1, 500, 1), 7), (x, torch.randn(4, 501, 2), 0), (x, torch.randn(1, 9000, 1), 20),
             (x[:, :1], torch.randn(1, 3, 1), 0), (x.double(), torch.randn(1, 50, 1), 3)]
    cases += [(x, torch.randn(1, 500, 1), index) for index in (500, 600, -3)]
    cases += [(x, torch.randn(1, 9000, 1), 8500)]  # the direct sound lies behind the sound's end
    with hc.patch("speechbrain"):
        assert time_domain.convolve1d is processing.convolve1d is not theirs
        for waveform, kernel, index in cases:
            for padding in (0, (30, 5)):
                options = {"use_fft": True, "rotation_index": index, "padding": padding}
                close(processing.convolve1d(waveform, kernel, **options), theirs(waveform, kernel, **options))
        assert len(seen) == 2 * (len(cases) - 1)  # all but float64
        for a, b in ((torch.bfloat16, torch.bfloat16), (torch.float16, torch.float32), (torch.float32, torch.float16)):
            waveform, kernel = x.to(a), cases[0][1].to(b)
            ours, original = (function(waveform, kernel, use_fft=True) for function in (processing.convolve1d, theirs))
            assert ours.dtype == original.dtype
            assert (ours - original).abs().max() <= (1e-5 if a == torch.float32 else 8e-3) * original.abs().max()
        for kernel in (torch.randn(3, 50, 2), torch.randn(4, 50, 3)):  # does not broadcast
            errors = []
            for function in (processing.convolve1d, theirs):
                with pytest.raises(RuntimeError) as error:
                    function(x, kernel, use_fft=True)
                errors.append(str(error.value))
            assert errors[0] == errors[1]
        n_seen, short = len(seen), torch.randn(1, 9, 1)
        close(processing.convolve1d(x[..., :1], short, padding=(4, 4)), theirs(x[..., :1], short, padding=(4, 4)))
        assert len(seen) == n_seen  # in the time domain: theirs
        with pytest.raises(ValueError, match="3-dimensional"):
            processing.convolve1d(x[0], short, use_fft=True)
        wet = [processing.reverberate(x, cases[0][1], level) for level in (None, "avg", "peak")]
    for level, ours in zip((None, "avg", "peak"), wet):
        close(ours, processing.reverberate(x, cases[0][1], level))
    assert processing.convolve1d is theirs


def test_audiomentations_applies_as_before(hc, tmp_path, calls):
    project = pytest.importorskip("audiomentations")
    seen = calls("_scipy", "convolve_tensors")
    folder = rooms(tmp_path, channels=2)[0].parent
    for shape, kept, dtype in (((8000,), True, "f4"), ((2, 1000), False, "f4"), ((8000,), True, "f8")):
        x = np.random.default_rng(4).standard_normal(shape).astype(dtype)
        transform = project.ApplyImpulseResponse(folder, p=1.0, leave_length_unchanged=kept)
        results = []
        for patched in (False, True):
            random.seed(5)
            if patched:
                with hc.patch("audiomentations"):
                    results.append([transform(x, 16000) for _ in range(4)])
            else:
                results.append([transform(x, 16000) for _ in range(4)])
        for theirs, ours in zip(*results):
            close(ours, theirs)
    assert len(seen) == 4 * (1 + 2 + 1)  # each channel of each sound, which audiomentations makes float32


def test_espnet_reverberates_as_before(hc, tmp_path, calls):
    preprocessor = pytest.importorskip("espnet2.train.preprocessor")
    collate_fn = importlib.import_module("espnet2.train.collate_fn")
    generator, seen = np.random.default_rng(6), calls("_scipy", "convolve_tensors")

    def reverberate():
        np.random.seed(7)
        results = []
        for channels in (1, 2):
            scp = tmp_path / f"rirs{channels}.scp"
            scp.write_text("".join(f"r{i} {path}\n" for i, path in enumerate(rooms(tmp_path, channels=channels))))
            common = preprocessor.CommonPreprocessor(train=True, rir_scp=str(scp), rir_apply_prob=1.0)
            results += [common("u", {"speech": x.copy()})["speech"] for x in speech for _ in range(3)]
            speaker = object.__new__(preprocessor.SpkPreprocessor)  # needs lists of speakers and noises
            results += [speaker._convolve_rir(x[None], [str(tmp_path / "room0.wav")])[0] for x in speech]
            results += [speaker._convolve_rir(np.stack([x, x]), [str(tmp_path / "room1.wav")])[0] for x in speech]
            enhancement = object.__new__(preprocessor.EnhPreprocessor)
            results.append(enhancement._get_early_signal(speech[0][None], responses[:channels], 0.01, 16000))
        collate = object.__new__(collate_fn.HuBERTCollateFn)
        collate._read_rir_audio_ = lambda: responses[0]
        return results + [collate._get_aligned_reverb_signal(speech[0])]

    speech = [generator.standard_normal(16000).astype(dtype) * np.float32(0.1) for dtype in ("f4", "f8")]
    responses = generator.standard_normal((2, 2000)) * 0.1
    theirs = reverberate()
    with hc.patch("espnet") as names:
        assert names == ["espnet2.train.preprocessor.scipy", "espnet2.train.collate_fn.scipy"]
        ours = reverberate()
    for one, other in zip(ours, theirs):
        close(one, other)
    assert len(seen) == 2 * (6 + 2 + 1) + 2 + 1  # of two channels and two responses: scipy
    assert preprocessor.scipy is collate_fn.scipy is scipy


def test_nemo_reverberates_as_before(hc, tmp_path, calls):
    perturb = pytest.importorskip("nemo.collections.asr.parts.preprocessing.perturb")
    seen, manifest = calls("_scipy", "convolve_tensors"), tmp_path / "rooms.json"
    manifest.write_text("".join(json.dumps({"audio_filepath": str(path), "duration": soundfile.info(path).duration,
                                            "offset": 0, "text": "-"}) + "\n" for path in rooms(tmp_path)))
    speech = np.random.default_rng(8).standard_normal(16000).astype(np.float32) * 0.1

    def reverberate(kind, **options):
        transform, results = kind(**options), []
        random.seed(9)
        for n in (16000, 200):
            sound = perturb.AudioSegment(speech[:n].copy(), 16000)
            transform.perturb(sound)
            results.append(sound.samples)
        return results

    cases = [(perturb.ImpulsePerturbation, {"manifest_path": str(manifest), "shift_impulse": shift,
                                            "normalize_impulse": normalise})
             for shift in (False, True) for normalise in (False, True)]
    cases.append((perturb.RirAndNoisePerturbation, {"rir_manifest_path": str(manifest), "rir_prob": 1.0}))
    for kind, options in cases:
        theirs = reverberate(kind, **options)
        with hc.patch("nemo"):
            for ours, original in zip(reverberate(kind, **options), theirs):
                close(ours, original)
    assert len(seen) == 2 * len(cases) and perturb.signal is scipy.signal
