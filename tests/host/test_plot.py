"""`haloconv info --plot`: the pictures are read back as a reader does, by the labels of their axes.

A vertex of a curve lies within the rounding of the SVG (1/100 unit, PIXEL here) of the value that scipy or numpy give.
"""

import itertools
import os
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest
import scipy.signal
from conftest import BUILD, HALOCONV, SAN, copy_program, generator, good, peak_mb, read, refused, write

RATE = 48000
PIXEL = 0.012  # units: the rounding of a point and of the mark that it is measured by
SVG = "{http://www.w3.org/2000/svg}"
FILTER_PANELS = ["impulse", "step", "magnitude", "phase", "group-delay"]


# ---- reading a picture ----------------------------------------------------------------------------------------------
def number(text):
    text = text.replace("\N{MINUS SIGN}", "-")
    return float(text[:-1]) * 1000 if text.endswith("k") else float(text)


def points_of(path):
    """The strokes of a path: a list of [n][2]."""
    strokes = []
    for command, text in re.findall(r"([MLHV])([^MLHV]*)", path.get("d")):
        if command == "M":
            strokes.append([])
        numbers = [float(word) for word in text.split()]
        before = strokes[-1][-1] if strokes[-1] else None
        strokes[-1].append({"H": lambda: (*numbers, before[1]), "V": lambda: (before[0], *numbers)}.get(
            command, lambda: numbers)())
    return [np.array(stroke) for stroke in strokes]


class Panel:
    """curves: {name: strokes, in values}; the places of the labels give the scales."""

    def __init__(self, group):
        lines = [points_of(path)[0] for path in group.findall(f"{SVG}path") if not path.get("fill").startswith("#")]
        labels = [t for t in group.findall(f"{SVG}text") if t.get("text-anchor") == "middle"]
        row = min(float(t.get("y")) for t in labels)
        marks = [(float(t.get("x")), number(t.text)) for t in labels if float(t.get("y")) == row]
        self.x_label = labels[-1].text
        self.log = "Hz" in self.x_label
        self.x = self.scale([x for x, _ in marks], [np.log(v) if self.log else v for _, v in marks])
        edges = [line[0, 1] for line in lines if len(line) == 2 and line[0, 1] == line[1, 1]]
        labels = [t for t in group.findall(f"{SVG}text") if t.get("text-anchor") == "end" and t.get("x") == "92"]
        places = [min(edges, key=lambda edge: abs(edge - float(t.get("y")) + 7)) for t in labels] if edges else []
        self.y = self.scale(places, [number(t.text) for t in labels]) if places else None
        self.frame = next(line for line in lines if len(line) == 5)
        self.inks = {}
        self.curves = {}
        for path in group.iter(f"{SVG}path"):
            title = path.find(f"{SVG}title")
            if title is not None:
                self.inks[title.text] = (path.get("stroke"), path.get("stroke-dasharray"))
                self.curves[title.text] = [self.values(stroke) for stroke in points_of(path)] if path.get("d") else []

    @staticmethod
    def scale(places, values):
        """(value at place 0, value of a unit), from the marks farthest apart; all marks agree."""
        unit = (values[-1] - values[0]) / (places[-1] - places[0])
        at_zero = values[0] - unit * places[0]
        assert np.allclose(at_zero + unit * np.array(places), values, atol=abs(unit) * 2 * PIXEL)
        return at_zero, unit

    def values(self, stroke):
        x = self.x[0] + self.x[1] * stroke[:, 0]
        return np.stack([np.exp(x) if self.log else x, self.y[0] + self.y[1] * stroke[:, 1]], axis=1)

    def check(self, name, reference, least=-np.inf):
        """Each vertex is reference(x), and reference(x) lies within a unit of the line, where it is above `least`."""
        tolerance = abs(self.y[1]) * PIXEL

        def slack(x, want):
            return tolerance + np.max([np.abs(reference(self.moved(x, units)) - want) for units in (-PIXEL, PIXEL)], 0)
        for stroke in self.curves[name]:
            x, y = stroke.T
            want = reference(x)
            over = (np.abs(y - want) - slack(x, want))[want > least]
            assert (over <= 0).all(), (name, x[want > least][over.argmax()], over.max() / tolerance)
            places = (np.log(x) if self.log else x) / self.x[1] - self.x[0] / self.x[1]
            fine = np.arange(places[0], places[-1], 1 / 8)
            line = np.interp(fine, places, y)
            lowest, highest = np.full(802, np.inf), np.full(802, -np.inf)  # of the line, in each unit of the page
            for at, value in ((fine, line), (places, y)):
                np.minimum.at(lowest, at.astype(int) + 1, value)
                np.maximum.at(highest, at.astype(int) + 1, value)
            at = self.moved(np.exp(self.x[0]) if self.log else self.x[0], fine)
            want = reference(at)
            unit = fine.astype(int)
            lost = np.maximum(want - np.max([highest[unit + i] for i in range(3)], 0),
                              np.min([lowest[unit + i] for i in range(3)], 0) - want) - slack(at, want)
            shown = want > least
            assert shown.sum() > 20 and (lost[shown] <= 0).all(), (name, at[shown][lost[shown].argmax()])

    def moved(self, x, units):
        return x * np.exp(self.x[1] * units) if self.log else x + self.x[1] * units


def picture(path):
    root = ElementTree.parse(path).getroot()
    assert root.get("width") == "800"
    groups = {group.find(f"{SVG}title").text: group for group in root.findall(f"{SVG}g")}
    return groups.pop("legend"), {name: Panel(group) for name, group in groups.items()}


def plot(*masks, options=()):
    good("info", *masks, "--plot", "p.svg", *options)
    texts_are_readable("p.svg")
    return picture("p.svg")


def texts_are_readable(path):
    """No two texts overlap, and none leaves the page, in a font whose mean letter is 0.6 of its height wide."""
    root = ElementTree.parse(path).getroot()
    boxes = []
    for text in root.iter(f"{SVG}text"):
        x, y, size = (float(text.get(key)) for key in ("x", "y", "font-size"))
        width = 0.6 * size * len(text.text)
        x -= width * {None: 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
        assert size >= 20 and x >= 0 and x + width <= 800 and size <= y <= float(root.get("height")), text.text
        boxes.append((x, y - 0.75 * size, x + width, y, text.text))  # capitals and digits
    boxes.sort(key=lambda box: box[1])
    for i, one in enumerate(boxes):
        for other in itertools.takewhile(lambda box: box[1] < one[3], boxes[i + 1:]):
            assert other[0] >= one[2] or other[2] <= one[0], (one, other)


def response(h):
    return lambda hz: scipy.signal.freqz(h, worN=hz, fs=RATE)[1]


def db(values):
    return 20 * np.log10(np.maximum(np.abs(values), 1e-30))


def minimum_phase():
    h = scipy.signal.sosfilt([[1, 0.4, 0.2, 1, -1.2, 0.6]], np.eye(1, 400)[0])
    return np.concatenate([np.zeros(7), h]).astype(np.float32)


FILTERS = {
    "lowpass": scipy.signal.firwin(255, 4000, fs=RATE).astype(np.float32),
    "minimum": minimum_phase(),
    "prime": scipy.signal.firwin2(997, [0, 300, 1000, 8000, 24000], [1, 2, 0.3, 1, 0.1], fs=RATE).astype(np.float32),
    "tap": np.array([0.5], np.float32),
}


@pytest.fixture(scope="module")
def filters(tmp_path_factory):
    """All filters in one plot of the panels for filters, not smoothed."""
    folder = tmp_path_factory.mktemp("plot")
    for name, h in FILTERS.items():
        write(folder / f"{name}.wav", h)
    good("info", *(f"{name}.wav" for name in FILTERS), "--plot", "p.svg", "--smooth", "off", cwd=folder)
    texts_are_readable(folder / "p.svg")
    return picture(folder / "p.svg")


# ---- the curves -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FILTERS)
def test_magnitude_is_that_of_freqz(filters, name):
    reference = response(FILTERS[name])
    panel = filters[1]["magnitude"]
    panel.check(f"{name}.wav", lambda hz: db(reference(hz)), least=-90)
    ends = np.concatenate(panel.curves[f"{name}.wav"])[[0, -1], 0]
    assert ends[0] <= 20 * 1.001 and ends[1] >= RATE / 2 * 0.999  # the whole axis


@pytest.mark.parametrize("name", FILTERS)
def test_phase_is_that_of_freqz_without_delay(filters, name):
    h = FILTERS[name]

    def phase(hz):
        return np.degrees(np.angle(response(h)(hz) * np.exp(2j * np.pi * hz / RATE * np.abs(h).argmax())))
    strokes = filters[1]["phase"].curves[f"{name}.wav"]
    assert sum(map(len, strokes)) > 100
    for stroke in strokes:
        off, slack = ((value - phase(stroke[:, 0]) + 180) % 360 - 180
                      for value in (stroke[:, 1], phase(stroke[:, 0] * 1.0002)))
        assert (np.abs(off) <= abs(filters[1]["phase"].y[1]) * PIXEL + np.abs(slack)).all(), (name, np.abs(off).max())


def test_group_delay_is_that_of_the_filter(filters):
    panel = filters[1]["group-delay"]
    for name in ("lowpass", "prime", "tap"):  # linear phase
        delay = (len(FILTERS[name]) - 1) / 2 / RATE * 1000
        values = np.concatenate(panel.curves[f"{name}.wav"])[:, 1]
        assert np.abs(values - delay).max() <= abs(panel.y[1]) * PIXEL, name
    panel.check("minimum.wav", lambda hz: scipy.signal.group_delay((FILTERS["minimum"], 1), w=hz, fs=RATE)[1] / 48)


def test_impulse_and_step_are_the_samples_and_their_sums(filters):
    for name, h in FILTERS.items():
        for panel, want in (("impulse", h), ("step", np.cumsum(h, dtype=float))):
            panel = filters[1][panel]
            values = np.concatenate(panel.curves[f"{name}.wav"])
            frames = values[:, 0] * RATE / 1000
            assert np.abs(frames - np.round(frames)).max() <= abs(panel.x[1]) * 48 * PIXEL
            at = np.round(frames).astype(int)
            last = want[-1] if panel is filters[1]["step"] else 0
            value = np.where(at < 0, 0, np.where(at < len(want), want[np.clip(at, 0, len(want) - 1)], last))
            assert np.abs(values[:, 1] - value).max() <= abs(panel.y[1]) * PIXEL, name
            assert values[:, 1].max() >= want.max() - abs(panel.y[1]) * PIXEL  # no peak is lost


def test_decay_has_the_slope_of_the_exponential_and_its_lines(folder):
    """White noise that falls by 60 dB in 0.8 s; the energy left follows the curve 60 t / 0.8 until the noise."""
    t = np.arange(RATE) / RATE
    rooms = {}
    for name, fall in (("a", 0.8), ("b", 0.5)):
        rooms[name] = (generator(7).choice([-0.5, 0.5], RATE) * 10 ** (-3 * t / fall)).astype(np.float32)
        write(f"{name}.wav", rooms[name])
    panel = plot("a.wav", options=("--panels", "decay"))[1]["decay"]
    curve, = panel.curves.pop("a.wav")
    assert panel.x_label == "Time (ms)"
    assert np.abs(curve[:, 1] + 60 * curve[:, 0] / 800)[curve[:, 1] > -50].max() <= 0.05
    assert list(panel.curves) == ["EDT 0.80 s", "T20 0.80 s", "T30 0.80 s"]
    for (line,) in panel.curves.values():
        assert (line[1, 1] - line[0, 1]) / (line[1, 0] - line[0, 0]) == pytest.approx(-60 / 800, rel=0.01)
    drawn = (folder / "p.svg").read_text()
    assert drawn.rindex("<title>T30") < drawn.index(">EDT 0.80 s</text>")  # no line crosses a label
    both = plot("a.wav", "b.wav", options=("--panels", "decay"))[1]["decay"]
    assert list(both.curves) == ["a.wav", "b.wav", "T30 0.80 s", "T30 0.50 s"]
    assert both.inks["T30 0.50 s"] == both.inks["b.wav"] != both.inks["a.wav"]


def test_smoothing_is_the_mean_power_of_the_band(folder):
    """The mean is over bins of 1/2^17 of the rate; between two of them the power is taken as even."""
    h = generator(5).standard_normal(4000).astype(np.float32) * np.exp(-np.arange(4000) / 600)
    write("h.wav", h.astype(np.float32))
    power = np.abs(np.fft.rfft(h.astype(np.float32).astype(float), 1 << 17)) ** 2
    below = np.concatenate([[0], np.cumsum(power)])
    for width in ("1/1", "1/3", "1/48"):
        octaves = eval(width)  # noqa: S307: one of the three above
        panel = plot("h.wav", options=("--smooth", width, "--panels", "magnitude"))[1]["magnitude"]

        def mean(hz):
            bins = np.round(hz / RATE * (1 << 17))
            low, high = (np.minimum(bins * 2 ** (sign * octaves / 2) + 0.5, len(power)) for sign in (-1, 1))
            edge = np.arange(len(below))
            return 10 * np.log10((np.interp(high, edge, below) - np.interp(low, edge, below)) / (high - low))
        for stroke in panel.curves["h.wav"]:
            off = np.abs(stroke[:, 1] - mean(stroke[:, 0]))
            slack = np.abs(mean(stroke[:, 0] * 1.0003) - mean(stroke[:, 0] / 1.0003))
            assert (off <= slack + abs(panel.y[1]) * PIXEL).all(), (width, off.max())


def spectrograms(path):
    """For each spectrogram: does a frequency sound at a time (ms)? Their time axes have the mark 200 ms."""
    root = ElementTree.parse(path).getroot()
    for group in [g for g in root.findall(f"{SVG}g") if g.find(f"{SVG}title").text == "spectrogram"]:
        labels = {t.text: float(t.get("y")) - 7 for t in group.findall(f"{SVG}text") if t.get("x") == "92"}
        times = {t.text: float(t.get("x")) for t in group.findall(f"{SVG}text") if t.get("text-anchor") == "middle"}
        boxes = np.array([[*box.min(0), *box.max(0)] for path in group.find(f"{SVG}g").findall(f"{SVG}path")
                          for box in points_of(path)])

        def sounds(hz, ms, labels=labels, times=times, boxes=boxes):
            x = times["0"] + (times["200"] - times["0"]) * ms / 200 + 0.5
            y = labels["200"] + (labels["5k"] - labels["200"]) * np.log(hz / 200) / np.log(25)
            return ((boxes[:, :2] < (x, y)).all(1) & (boxes[:, 2:] > (x, y)).all(1)).any()
        yield sounds


def test_a_spectrogram_shows_what_sounds_when(folder):
    """200 Hz that falls by 60 dB in 0.8 s and 5 kHz in 0.1 s: after 0.3 s only the lower one is there. A click beside
    them sounds once, although its transform is shorter than the panel and repeats in it."""
    t = np.arange(RATE) / RATE
    h = sum(np.sin(2 * np.pi * hz * t) * 10 ** (-3 * t / fall) for hz, fall in ((200, 0.8), (5000, 0.1)))
    write("h.wav", (h / 4).astype(np.float32))
    write("click.wav", FILTERS["tap"])
    good("info", "h.wav", "click.wav", "--plot", "p.svg", "--panels", "spectrogram")
    sounds, clicks = spectrograms("p.svg")
    assert [sounds(200, ms) for ms in (20, 300, 600)] == [True, True, True]
    assert [sounds(5000, ms) for ms in (20, 60, 300)] == [True, True, False]
    assert not any(sounds(hz, ms) for hz in (1000, 16000) for ms in (100, 300))
    assert clicks(30, 10) and clicks(1000, 0.5)
    assert not any(clicks(hz, ms) for hz in (30, 100, 1000) for ms in range(500, 900))


def test_a_waterfall_shows_how_long_each_frequency_sounds(folder):
    """200 Hz that falls by 60 dB in 0.8 s and 5 kHz in 0.1 s: slices of 140 units for 50 dB, with their bases on the
    axis of the time. A slice is named by its time."""
    t = np.arange(RATE) / RATE
    h = sum(np.sin(2 * np.pi * hz * t) * 10 ** (-3 * t / fall) for hz, fall in ((200, 0.8), (5000, 0.1)))
    write("h.wav", (h / 4).astype(np.float32))
    good("info", "h.wav", "--plot", "p.svg", "--panels", "waterfall", "--smooth", "off")
    texts_are_readable("p.svg")
    group = ElementTree.parse("p.svg").getroot().findall(f"{SVG}g")[1]
    texts = group.findall(f"{SVG}text")
    places = {t.text: float(t.get("x")) for t in texts if t.get("text-anchor") == "middle"}
    bases = {t.text: float(t.get("y")) - 7 for t in texts if t.get("x") == "92"}
    slices = {}
    for path in group.iter(f"{SVG}path"):
        title = path.find(f"{SVG}title")
        if title is not None:
            points = np.concatenate(points_of(path))
            slices[float(title.text[:-3])] = points[:, 1].max() - np.interp((places["200"], places["5k"]), *points.T)
            at = bases["0"] + (bases["400"] - bases["0"]) * float(title.text[:-3]) / 400
            assert points[:, 1].max() == pytest.approx(at, abs=0.3)
    times = np.array(list(slices))
    low, high = np.array(list(slices.values())).T / 140 * 50
    assert len(times) == 31 and times[0] == 0 and times[-1] == pytest.approx(5 / 6 * 800, rel=0.05)
    assert low[0] == pytest.approx(50, abs=0.2) and high[0] > 25
    inside = (times > 80) & (low > 3)
    assert np.polyfit(times[inside], low[inside], 1)[0] == pytest.approx(-60 / 800, rel=0.01)
    assert inside.sum() > 15 and (high[times > 120] < 0.1).all()


def ranges(panel):
    """((lowest, highest x), (lowest, highest y)) of a panel's frame."""
    return [tuple(sorted((ends[0], ends[-1]))) for ends in np.sort(panel.values(panel.frame), 0).T]


def test_a_magnitude_is_50_db_around_its_mean(folder):
    """From 20 Hz to 20 kHz, in whole tens of dB. Nothing above 20 kHz counts; the peak of a narrow band is shown."""
    def band(h, *edges):
        return scipy.signal.sosfilt(scipy.signal.butter(4, edges, "band", fs=RATE, output="sos"), h)
    h = generator(9).standard_normal(6000) * 10 ** (-3 * np.arange(6000) / RATE / 0.2)
    for name, response_of in (("wide", band(h, 50, 15000) + 300 * band(np.eye(1, 6000)[0], 22000, 23000)),
                              ("narrow", band(h, 900, 1100))):
        write(f"{name}.wav", response_of.astype(np.float32))
        panel = plot(f"{name}.wav", options=("--panels", "magnitude"))[1]["magnitude"]
        x, (low, high) = ranges(panel)
        levels = db(response(response_of)(np.geomspace(20, 20000, 9999)))
        assert x == pytest.approx((20, 20000), rel=1e-3)
        assert high - low == pytest.approx(50, abs=0.1) and high == pytest.approx(round(high, -1), abs=0.1)
        mean = np.maximum(levels, levels.max() - 50).mean()
        assert abs(low + 25 - mean) < 6 if name == "wide" else high - 11 < levels.max() < high


def test_ranges_can_be_chosen(folder):
    write("h.wav", FILTERS["prime"])
    x, y = ranges(plot("h.wav", options=("--panels", "magnitude", "--range", "-33,12.5", "--frequencies", "30,220"))[1]
                  ["magnitude"])
    assert x == pytest.approx((30, 220), rel=1e-3) and y == pytest.approx((-33, 12.5), abs=0.02)
    for option, value in (("--range", "5,1"), ("--range", "1"), ("--range", "0,nan"), ("--frequencies", "100,150"),
                          ("--frequencies", "0,99"), ("--frequencies", "20,2e7")):
        refused("info", "h.wav", "--plot", "no.svg", option, value, exit=2, says=[option, "a comma between"])


# ---- the page -------------------------------------------------------------------------------------------------------
def test_legend_and_panels_have_every_curve_in_the_same_ink(filters):
    legend, panels = filters
    names = [f"{name}.wav" for name in FILTERS]
    assert [text.text for text in legend.findall(f"{SVG}text")] == names
    inks = [(line.get("stroke"), line.get("stroke-dasharray")) for line in legend.findall(f"{SVG}path")]
    assert len(set(inks)) == len({colour for colour, _ in inks}) == len({dash for _, dash in inks}) == len(names)
    assert list(panels) == FILTER_PANELS
    for panel in panels.values():
        assert panel.inks == dict(zip(names, inks))


def test_sixteen_curves_differ_and_the_rest_is_counted(folder):
    write("many.wav", generator(1).standard_normal((64, 19)).astype(np.float32))
    done = good("info", "many.wav", "--plot", "p.svg", "--panels", "magnitude")
    legend, panels = picture("p.svg")
    assert len(panels["magnitude"].curves) == len(set(panels["magnitude"].inks.values())) == 16
    assert [text.text for text in legend.findall(f"{SVG}text")] == [f"many.wav, channel {ch}" for ch in range(1, 17)]
    assert "first 16 responses; 3 are left out" in done.stderr


def test_rooms_and_filters_get_their_panels(folder):
    t = np.arange(RATE // 2) / RATE
    write("room.wav", (generator(3).standard_normal(len(t)) * 10 ** (-3 * t / 0.6) / 8).astype(np.float32))
    assert list(plot("room.wav")[1]) == ["impulse-db", "magnitude", "decay", "spectrogram"]
    write("late.wav", np.concatenate([np.zeros(RATE), FILTERS["lowpass"]]).astype(np.float32))
    legend, panels = plot("late.wav", options=("--panels", "group-delay,impulse"))
    assert list(panels) == ["impulse", "group-delay"]
    assert list(plot("late.wav")[1]) == FILTER_PANELS  # a delayed filter is no room


def test_channels_can_have_panels_of_their_own(folder):
    """With the curves of all masks, in the ink of the mask and at one scale; a mask may have fewer channels."""
    before, after = (generator(seed).standard_normal((300, n)).astype(np.float32) for seed, n in ((1, 3), (2, 2)))
    write("before.wav", before)
    write("after.wav", after * np.float32(0.01))
    legend, panels = plot("before.wav", "after.wav", options=("--by-channel", "--panels", "step,magnitude"))
    assert [text.text for text in legend.findall(f"{SVG}text")] == ["before.wav", "after.wav"]
    assert list(panels) == [f"{kind}, channel {ch}" for kind in ("step", "magnitude") for ch in (1, 2, 3)]
    for name, panel in panels.items():
        ch = int(name[-1]) - 1
        assert list(panel.curves) == ["before.wav", "after.wav"][:2 - ch // 2]
        assert panel.inks["before.wav"] == list(panels.values())[0].inks["before.wav"]
        assert ranges(panel)[1] == pytest.approx(ranges(panels[name[:-1] + "1"])[1], rel=1e-6)
        if name.startswith("step"):
            assert panel.curves["before.wav"][0][-1, 1] == pytest.approx(before[:, ch].sum(), abs=abs(panel.y[1]))


def recording():
    good("measure", "--write-sweep", "sweep.wav", "--rate", 8000, "--to", 3000, "--length", 0.5, "--silence", 0.3)
    write("rec.wav", read("sweep.wav"), 8000)


@pytest.mark.parametrize("command", ["design lowpass --cutoff 4000 --taps 255", "design target c.txt --taps 512",
                                     "design invert h.wav", "design minphase h.wav",
                                     "design crossover --cutoff 2000 --rate 16000",
                                     "measure --from-recording rec.wav --sweep sweep.wav"])
def test_what_makes_a_mask_draws_it(folder, command):
    """As `info` draws the file."""
    write("h.wav", FILTERS["minimum"])
    (folder / "c.txt").write_text("100 0\n1000 -6\n")
    if "measure" in command:
        recording()
    options = ["--panels", "impulse,magnitude", "--smooth", "1/3", "--range", "-40,10"]
    good(*command.split(), "-o", "m.wav", "--plot", "made.svg", *options)
    good("info", "m.wav", "--plot", "read.svg", *options)
    assert (folder / "made.svg").read_bytes() == (folder / "read.svg").read_bytes()
    for file in [word for word in command.split() if (folder / word).is_file()]:
        shutil.copy(file, "same.svg")
        refused(*command.replace(file, "same.svg").split(), "-o", "m.wav", "--plot", "same.svg", says="would be overwr")
    refused(*command.split(), "-o", "y.svg", "--format", "wav", "--plot", "y.svg", says="is also the output")
    if "crossover" not in command:
        refused(*command.split(), "-o", "-", "--plot", "y.svg", exit=2, says="for -o, too")
    assert not (folder / "y.svg").exists()


def test_names_of_any_bytes_are_safe(folder):
    """Markup, control characters, broken UTF-8, marks that turn the text, and a name that is too long."""
    names = {b"a<b>&\"c.wav": "a<b>&\"c.wav", "h\u00e4ll\u20ac \u97f3.wav".encode(): "h\u00e4ll\u20ac \u97f3.wav",
             b"esc\x1b[31m\x01\xff.wav": "esc\ufffd[31m\ufffd\ufffd.wav", "\u202etxt.wav".encode(): "\ufffdtxt.wav",
             b"x" * 100 + b"end.wav": None}
    write("h.wav", FILTERS["lowpass"])
    for name in names:
        shutil.copy(b"h.wav", name)
    options = ["--plot", "p.svg", "--panels", "step"]
    subprocess.run([HALOCONV, "info", *names, *options], check=True, stdout=subprocess.DEVNULL, timeout=60)
    texts = [text.text for text in picture("p.svg")[0].findall(f"{SVG}text")]
    long = texts.pop()
    assert texts == [name for name in names.values() if name]
    assert long.startswith("xxx") and long.endswith("end.wav") and "\u2026" in long and len(long) * 0.63 * 20 < 620


def test_a_configuration_shows_its_pairs(folder):
    write("h.wav", np.stack([FILTERS["minimum"], np.roll(FILTERS["minimum"], 3)], axis=1))
    (folder / "x.conf").write_text("/convolver/new 2 2 64 1000\n/input/name 1 left\n"
                                   "/impulse/read 1 1 0.5 10 0 0 1 h.wav\n/impulse/read 2 1 1 0 0 0 2 h.wav\n"
                                   "/impulse/dirac 2 2 0.25 4\n")
    texts = [text.text for text in plot("x.conf", options=("--rate", RATE))[0].findall(f"{SVG}text")]
    assert texts == ["x.conf, left to out-1", "x.conf, in-2 to out-1", "x.conf, in-2 to out-2"]
    legend, panels = plot("x.conf", options=("--pair", "1:1,2:2", "--panels", "impulse,magnitude"))
    assert [text.text for text in legend.findall(f"{SVG}text")] == [texts[0], texts[2]]
    impulse = np.concatenate(panels["impulse"].curves[texts[0]])
    top = impulse[impulse[:, 1].argmax()]
    assert abs(top[1] - 0.5 * FILTERS["minimum"].max()) < 0.01
    assert round(top[0] * RATE / 1000) == 10 + FILTERS["minimum"].argmax()
    assert refused("info", "x.conf", "--plot", "p.svg", "--pair", "1:2", says=["input 1 to output 2", "--pair"])


# ---- inputs that are odd --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("h", [np.zeros(100), np.ones(1), np.array([0, 0, -1e-30]), np.full(3, 1e30),
                               np.tile([1, -1], 50)], ids=["silence", "tap", "tiny", "huge", "alternating"])
def test_odd_responses_are_drawn(folder, h):
    """Every panel has its frame, marks and numbers that are finite. A short response needs no long transform."""
    write("h.wav", h.astype(np.float32))
    options = ("info", "h.wav", "--plot", "p.svg", "--panels", "all")
    good(*options)
    if not SAN and (BUILD / "tests/measure").exists():
        assert peak_mb(*options, stdout=subprocess.DEVNULL) < 50
    good("info", "h.wav", "--plot", "waterfall.svg", "--panels", "waterfall")
    for name in ("p.svg", "waterfall.svg"):
        text = (folder / name).read_text()
        assert "nan" not in text.lower().replace("font", "") and "inf" not in text.lower()
    assert len(picture("p.svg")[1]) == 8


def test_four_million_taps_are_a_small_picture_that_keeps_its_peaks(folder):
    n = 1 << (20 if SAN else 22)
    first, second = n // 3, n // 5 * 4
    h = (generator(2).standard_normal(n) * 0.01).astype(np.float32)
    h[[first, second]] = 0.9, -0.7
    write("h.wav", h)
    legend, panels = plot("h.wav", options=("--panels", "impulse,impulse-db,magnitude,phase", "--smooth", "off"))
    for name, panel in panels.items():
        assert sum(map(len, panel.curves["h.wav"])) <= 676 * 8, name
    assert (folder / "p.svg").stat().st_size < 500_000
    impulse = np.concatenate(panels["impulse"].curves["h.wav"])
    for peak, frame in ((impulse[:, 1].argmax(), first), (impulse[:, 1].argmin(), second)):
        assert abs(impulse[peak, 0] * RATE - frame) <= panels["impulse"].x[1] * PIXEL * RATE + 1
        assert abs(impulse[peak, 1] - h[frame]) <= abs(panels["impulse"].y[1]) * PIXEL


@pytest.mark.parametrize("args,exit,says", [
    (["h.wav", "--plot", "-"], 2, ".svg"), (["h.wav", "--plot", "p.pdf"], 2, ".svg"),
    (["h.wav", "--plot", "svg"], 2, ".svg"),
    (["h.wav", "--plot", "p.svg", "--panels", "step,loudness"], 2, "spectrogram"),
    (["h.wav", "--plot", "p.svg", "--panels", ""], 2, "spectrogram"),
    (["h.wav", "--plot", "p.svg", "--smooth", "1/49"], 2, "48"),
    (["h.wav", "--plot", "p.svg", "--smooth", "0.5"], 2, "1/N"),
    (["h.wav", "--plot", "p.svg", "--pair", "1:"], 2, "IN:OUT"), (["h.wav", "h.wav"], 2, "--plot"),
    (["h.wav", "h.wav", "--plot", "p.svg", "--json"], 2, "--json"),
    (["h.wav", "--plot", "p.svg", "--pair", "1:1"], 1, "--pair"), (["h.txt", "--plot", "p.svg"], 1, "--rate"),
    (["mask.svg", "--plot", "mask.svg"], 1, "mask.svg"), (["h.wav", "--plot", "no/p.svg"], 1, "no/p.svg"),
])
def test_what_cannot_be_drawn_is_refused(folder, args, exit, says):
    write("h.wav", FILTERS["lowpass"])
    write("mask.svg", FILTERS["lowpass"], format="WAV")
    (folder / "h.txt").write_text("1\n0.5\n")
    before = sorted(folder.iterdir())
    refused("info", *args, exit=exit, says=says)
    assert sorted(folder.iterdir()) == before


def test_the_same_mask_gives_the_same_bytes(folder):
    write("h.wav", FILTERS["prime"])
    for path in ("a.svg", "b.svg"):
        good("info", "h.wav", "--plot", path, "--panels", "all")
    assert (folder / "a.svg").read_bytes() == (folder / "b.svg").read_bytes()


def test_a_png_is_refused_with_the_way_to_one(folder):
    write("h.wav", FILTERS["tap"])
    assert "rsvg-convert" in refused("info", "h.wav", "--plot", "p.PNG", exit=2)
