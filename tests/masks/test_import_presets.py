"""Presets of EasyEffects and JamesDSP as masks.

The oracle is computed here in float64: the prototypes in s of LSP's equalizer (lsp-dsp-units, Filter.cpp), by the bilinear
transform of scipy, and the autogain and width of EasyEffects' convolver (convolver_zita.cpp).
"""

import json

import numpy as np
import pytest
import scipy.signal
from conftest import assert_close, convolve, good, noise, read, refused, write

RATE = 48000
NULL = 10 ** (-110 / 20)  # of the peak


def prototype(kind, mode, gain, q, slope=1):
    """Numerator and denominator in s of each section, from the highest power, at an angular frequency of 1."""
    g = 10 ** (gain / 20)
    c = 2 / (1 + q)
    if mode == "APO (DR)":
        A = np.sqrt(g)
        return [{"Bell": ([1, A / q, 1], [1, 1 / (A * q), 1]), "Resonance": ([1, A / q, 1], [1, 1 / (A * q), 1]),
                 "Lo-shelf": (A * np.array([1, np.sqrt(A) / q, A]), [A, np.sqrt(A) / q, 1]),
                 "Hi-shelf": (A * np.array([A, np.sqrt(A) / q, 1]), [1, np.sqrt(A) / q, A]),
                 "Lo-pass": ([1], [1, 1 / q, 1]), "Hi-pass": ([1, 0, 0], [1, 1 / q, 1]),
                 "Notch": ([1, 0, 1], [1, 1 / q, 1]), "Allpass": ([1, -1 / q, 1], [1, 1 / q, 1])}[kind]]
    if kind in ("Lo-pass", "Hi-pass"):
        return [([1] if kind == "Lo-pass" else [1, 0, 0], [1, c, 1])] * slope
    if kind == "Notch":
        return [([1, 0, 1], [1, c, 1])]
    if kind in ("Lo-shelf", "Hi-shelf"):
        f = g ** (1 / (4 * slope))
        low, high = [1 / f, c, f], [f, c, 1 / f]
        t, b = (low, high) if kind == "Lo-shelf" else (high, low)
        return [(np.array(t) * (np.sqrt(g) if i == 0 else 1), b) for i in range(slope)]
    f = g ** (1 / slope)
    k = 2 * (1 / f + f) / (1 + 2 * q / slope) if kind == "Bell" else c
    return [([1, k * np.sin(np.arctan(f)), 1], [1, k * np.cos(np.arctan(f)), 1])] * slope


def band_sections(kind, mode, hz, gain, q, slope=1):
    warp = 1 / np.tan(np.pi * hz / RATE)  # s of the prototype = warp (1 - z^-1) / (1 + z^-1)
    out = []
    for b, a in prototype(kind, mode, gain, q, slope):
        out.append(scipy.signal.bilinear(b, a, fs=warp / 2))
    return out


def played(x, sections):
    for b, a in sections:
        x = scipy.signal.lfilter(b, a, x)
    return x


def band(kind="Bell", mode="RLC (BT)", hz=1000, gain=6, q=2.0, slope="x1", **more):
    return {"type": kind, "mode": mode, "frequency": hz, "gain": gain, "q": q, "slope": slope, "solo": False, "mute": False,
            "width": 4.0, **more}


def equalizer(left, right=None, **more):
    right = left if right is None else right
    channel = lambda bands: {f"band{i}": b for i, b in enumerate(bands)}  # noqa: E731
    return {"bypass": False, "input-gain": 0.0, "output-gain": 0.0, "mode": "IIR", "num-bands": len(left),
            "split-channels": left != right, "left": channel(left), "right": channel(right), **more}


def convolver(name, **more):
    return {"bypass": False, "input-gain": 0.0, "output-gain": 0.0, "kernel-name": name, "ir-width": 100,
            "autogain": False, **more}


def preset(*order, pipeline="output", **effects):
    names = {name[:-2] + "#" + name[-1]: effect for name, effect in effects.items()}
    text = {pipeline: {"blocklist": [], **names, "plugins_order": list(order)}}
    with open("p.json", "w") as f:
        json.dump(text, f, indent=4)


@pytest.fixture(autouse=True)
def files(folder):
    global X
    X = noise(3000, 2, seed=5).astype(np.float64)
    write("x.wav", X, RATE)


def played_by_us(name="p.json"):
    convolve("x.wav", name, "y.wav", "--format", "float")
    return read("y.wav")


def check(want):
    got = played_by_us()
    assert_close(got[:len(X)], want[:len(X)], NULL)


KINDS = [(kind, "RLC (BT)", slope) for kind in ("Bell", "Hi-pass", "Lo-pass", "Hi-shelf", "Lo-shelf", "Resonance") for slope in (1, 3)]
KINDS += [("Notch", "RLC (BT)", 1)]
KINDS += [(kind, "APO (DR)", 1) for kind in ("Bell", "Hi-pass", "Lo-pass", "Hi-shelf", "Lo-shelf", "Notch", "Resonance", "Allpass")]


@pytest.mark.parametrize("kind,mode,slope", KINDS)
@pytest.mark.parametrize("gain", [7.5, -9])
def test_a_band_has_the_response_of_lsps_filter(kind, mode, slope, gain):
    preset("equalizer#0", equalizer_0=equalizer([band(kind, mode, 1700, gain, 1.3, f"x{slope}")]))
    sections = band_sections(kind, mode, 1700, gain, 1.3, slope)
    check(np.stack([played(x, sections) for x in X.T], 1))


def test_channels_bands_and_gains_are_in_series():
    left, right = [band(hz=200, gain=-4), band("Hi-shelf", hz=6000, gain=3)], [band(hz=300), band("Off")]
    preset("equalizer#0", "equalizer#1", equalizer_0=equalizer(left, right, **{"input-gain": -3.0, "output-gain": 1.0}),
           equalizer_1=equalizer([band(hz=50)], bypass=True))
    make = lambda bands: sum((band_sections(b["type"], b["mode"], b["frequency"], b["gain"], b["q"]) for b in bands), [])  # noqa: E731
    check(10 ** (-2 / 20) * np.stack([played(X[:, 0], make(left)), played(X[:, 1], make(right[:1]))], 1))


def test_muted_bands_are_silent_and_solo_bands_play_alone():
    bands = [band(hz=100), band(hz=400, gain=-5), band(hz=900, mute=True)]
    preset("equalizer#0", equalizer_0=equalizer(bands))
    sections = band_sections("Bell", "RLC (BT)", 100, 6, 2) + band_sections("Bell", "RLC (BT)", 400, -5, 2)
    check(np.stack([played(x, sections) for x in X.T], 1))
    bands[1]["solo"] = True
    preset("equalizer#0", equalizer_0=equalizer(bands))
    check(np.stack([played(x, sections[1:]) for x in X.T], 1))


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("width,autogain", [(100, False), (100, True), (40, False), (160, True)])
def test_a_convolver_plays_its_response_with_width_and_autogain(folder, channels, width, autogain):
    h = noise(50, channels, seed=7).astype(np.float32).astype(np.float64)
    write("hall.irs", h, RATE, format="WAV")
    preset("convolver#0", convolver_0=convolver("hall", **{"ir-width": width, "autogain": autogain, "dry": -6.0, "wet": 2.0}))
    w = width / 100
    x = (1 - w) / (1 + w)
    LL, RR = h[:, 0], h[:, -1]
    LL, RR = LL + x * RR, RR + x * LL
    LR = RL = np.zeros(50)
    if channels == 4:
        LR, RL = h[:, 1] - x * h[:, 2], h[:, 2] - x * h[:, 1]
    if autogain:
        peak = max(np.abs(k).max() for k in (LL, RR, LR, RL))
        power = max(np.sum((k / peak) ** 2) for k in (LL, RR, LR, RL))
        LL, RR, LR, RL = (k / peak * min(1, 1 / np.sqrt(power)) for k in (LL, RR, LR, RL))
    wet, dry = 10 ** (2 / 20), 10 ** (-6 / 20)
    c = lambda a, k: np.convolve(a, k)[:len(X)]  # noqa: E731
    check(dry * X + wet * np.stack([c(X[:, 0], LL) + c(X[:, 1], RL), c(X[:, 1], RR) + c(X[:, 0], LR)], 1))


@pytest.mark.parametrize("where", [".", "irs", "home/.local/share/easyeffects/irs", "home/.config/easyeffects/irs",
                                   "home/.var/app/com.github.wwmm.easyeffects/data/easyeffects/irs",
                                   "home/.var/app/com.github.wwmm.easyeffects/config/easyeffects/irs"])
@pytest.mark.parametrize("key", ["kernel-name", "kernel-path"])
def test_a_response_is_found_beside_the_preset_and_in_easyeffects_folders(folder, monkeypatch, where, key):
    monkeypatch.setenv("HOME", str(folder / "home"))
    (folder / where).mkdir(parents=True, exist_ok=True)
    write("h.wav", np.array([[0.5], [0.25]]), RATE)
    (folder / "h.wav").rename(folder / where / "hall v2.irs")
    effect = convolver("")
    effect[key] = "hall v2" if key == "kernel-name" else "/elsewhere/irs/hall v2.irs"
    preset("convolver#0", convolver_0=effect)
    check(np.stack([np.convolve(x, [0.5, 0.25]) for x in X.T], 1))


def test_a_missing_response_is_named_with_the_folders():
    preset("convolver#0", convolver_0=convolver("hall"))
    refused("info", "p.json", says=["convolver#0", "hall.irs", "~/.local/share/easyeffects/irs/", "copy it"])


@pytest.mark.parametrize("pipeline", ["output", "input"])
def test_each_effect_that_is_not_taken_over_is_named(pipeline):
    preset("equalizer#0", "limiter#0", "bass_enhancer#0", "exciter#0", pipeline=pipeline, equalizer_0=equalizer([band()]),
           limiter_0={"bypass": False}, bass_enhancer_0={"bypass": False}, exciter_0={"bypass": True})
    said = good("check", "p.json").stderr
    assert "limiter#0" in said and "bass_enhancer#0" in said and "exciter#0" not in said, said


@pytest.mark.parametrize("change,says", [({"mode": "BWC (BT)"}, "BWC (BT)"), ({"type": "Ladder-pass"}, "Ladder-pass"),
                                         ({"slope": "x5"}, "x5"), ({"frequency": -3}, "frequency")])
def test_a_band_that_would_sound_different_is_refused(change, says):
    preset("equalizer#0", equalizer_0=equalizer([band() | change]))
    refused("info", "p.json", says=["equalizer#0", says])


def test_an_approximated_band_is_named():
    preset("equalizer#0", equalizer_0=equalizer([band(mode="RLC (MT)")]))
    assert "RLC (MT) are approximated by RLC (BT)" in good("check", "p.json").stderr


# ---- JamesDSP ---------------------------------------------------------------------------------------------------------
def james(**keys):
    with open("p.conf", "w") as f:
        f.write("".join(f"{key}={value}\n" for key, value in {"master_enable": "true", **keys}.items()))


def test_jamesdsps_convolver_and_gain_play(folder):
    h = noise(40, 4, seed=3).astype(np.float32).astype(np.float64)
    write("h.wav", h, RATE)
    (folder / "h.wav").rename(folder / "hall.irs")
    james(convolver_enable="true", convolver_file='"/gone/hall.irs"', master_postgain="-3")
    c = lambda a, k: np.convolve(a, k)[:len(X)]  # noqa: E731
    want = np.stack([c(X[:, 0], h[:, 0]) + c(X[:, 1], h[:, 2]), c(X[:, 1], h[:, 3]) + c(X[:, 0], h[:, 1])], 1)
    assert_close(played_by_us("p.conf")[:len(X)], 10 ** (-3 / 20) * want, NULL)


@pytest.mark.parametrize("key", ["graphiceq", "tone"])
def test_jamesdsps_equalizers_play_as_graphiceq(folder, key):
    hz = [25, 40, 63, 100, 160, 250, 400, 630, 1000, 1600, 2500, 4000, 6300, 10000, 16000]
    db = [3, 2, 1, 0, -1, -2, -3, -2, 0, 1, 2, 3, 4, 0, -6]
    text = "GraphicEQ: " + "; ".join(f"{f} {g}" for f, g in zip(hz, db))
    (folder / "g.txt").write_text(text + "\n")
    if key == "tone":
        james(tone_enable="true", tone_eq='"' + ";".join(map(str, [*hz, *db])) + '"')
        assert "tone_eq: is approximated" in good("check", "p.conf").stderr
    else:
        james(graphiceq_enable="true", graphiceq_param=f'"{text}"')
    assert_close(played_by_us("p.conf")[:len(X)], played_by_us("g.txt")[:len(X)], NULL)


def test_jamesdsps_other_effects_are_named():
    james(bass_enable="true", reverb_enable="false", tube_enable="true", master_postgain="0")
    said = good("check", "p.conf").stderr
    assert "bass_enable" in said and "tube_enable" in said and "reverb" not in said, said


def test_jamesdsp_that_is_off_plays_its_input():
    james(master_enable="false", master_postgain="6")
    assert "unchanged" in good("check", "p.conf").stderr
    assert_close(played_by_us("p.conf")[:len(X)], X, NULL)


@pytest.mark.parametrize("rate,loudest,width", [(24000, 0, 100), (96000, 0, 100), (48000, 1, 40), (48000, 2, 160)])
def test_the_autogain_counts_at_the_sessions_rate_and_behind_the_width(rate, loudest, width):
    """The loudest channel of the response that plays has an energy of 1; in a true stereo file it may be a crossed one."""
    n = 4000 * rate // RATE
    h = np.zeros((n, 4))
    low = scipy.signal.firwin(n // 4 | 1, 6000, fs=rate)  # a response that every rate here holds
    h[:len(low), 0], h[:len(low), loudest] = low / 8, low
    h[:len(low), 3 - loudest] += low / 4 if loudest in (1, 2) else 0
    write("hall.irs", h, rate, format="WAV")
    energy = []
    for ch in range(2):
        write("x.wav", np.eye(2)[[ch]], RATE)
        preset("convolver#0", convolver_0=convolver("hall", **{"ir-width": width, "autogain": True}))
        energy += list(np.sum(played_by_us() ** 2, 0))
    assert abs(10 * np.log10(max(energy))) < 0.01, energy
