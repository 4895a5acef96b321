"""The panel's page: its text, and, in a headless Chromium, its controls, whose sound JACK's dummy driver records.

Without a browser only the text is tested. `make panel-test` installs a browser and runs all tests; HC_PANEL_SECONDS is
how long ten pages are open. HC_TEST_PICTURES=new (make pictures) stores the picture of docs/ and the colours that the
pictures are compared with.
"""

import base64
import contextlib
import html.parser
import json
import math
import os
import pathlib
import re
import subprocess
import time

import numpy as np
import pytest
from browser import MISSING, browser
from conftest import BUILD, ROOT, SAN, noise, write
from test_live import FEATURES, alone, needs_jack, run
from test_scenes import heard, level, make_bank
from websocket_client import WebSocket, port_of

assert alone and run  # fixtures
PAGE = ROOT / "host/panel/page"
STORED = pathlib.Path(__file__).with_name("panel_page.txt")
SECONDS = float(os.environ.get("HC_PANEL_SECONDS") or 0)
needs_page = pytest.mark.skipif(bool(MISSING) or "websockets" not in FEATURES,
                                reason=MISSING or "no libwebsockets in the build")
is_long = pytest.mark.skipif(not SECONDS, reason="make panel-test runs it")
TOGETHER = 'document.readyState === "complete" && !document.getElementById("panel").disabled'


# ---- the text of the page --------------------------------------------------------------------------------------------
def source(name):
    return (PAGE / name).read_text(encoding="utf-8")


def test_the_page_is_small_and_names_no_other_address():
    files = sorted(PAGE.iterdir())
    assert [file.name for file in files] == ["index.html", "panel.css", "panel.js"]
    assert sum(file.stat().st_size for file in files) < 150_000
    for file in files:
        found = [url for url in re.findall(r"\b\w+://[^\s'\"`<>]+", file.read_text(encoding="utf-8"))
                 if url not in ("http://www.w3.org/2000/svg", "ws://${location.host}/ws")]
        assert not found, (file.name, found)
    markup = source("index.html") + source("panel.css")
    assert not re.search(r"\s(on\w+|style)=|<style|javascript:|url\(|@import", markup)
    assert not re.search(r"innerHTML|eval\(|Function\(|document\.write", source("panel.js"))


def test_every_path_of_the_page_is_in_the_man_page():
    """Every message that it sends or receives; N is the number of a source."""
    man = re.sub(r"\\f[RBI]|\\|\"", "", "".join(
        page.read_text(encoding="utf-8") for page in (ROOT / "host/man").glob("*.7.in")))
    man = re.sub(r"/source/ N\s*/", "/source/N/", man)
    text = re.sub(r"\$\{.*?\}", "N", source("panel.js"))
    paths = {path.split("?")[0] for path in re.findall(r"[\"`](/[a-z][^\"`\s]*)[\"`]", text)}
    assert {"/hello", "/mask", "/source/N/aed", "/plot", "/upload"} <= paths, paths
    missing = [path for path in sorted(paths) if not re.search(re.escape(path) + r"(?![\w/-])", man)]
    assert not missing, missing


def test_typed_values_have_the_limits_of_the_messages_and_accepted_files_those_of_uploads():
    def found(pattern, name, folder="host/live/session"):
        return re.search(pattern, (ROOT / folder / name).read_text(encoding="utf-8")).groups()

    page, gains = source("panel.js"), re.search(r"GAIN = .*typed: \[(\S+), (\S+)\]", source("panel.js")).groups()
    assert gains == (*found(r"INAUDIBLE_DB = (-\d+)", "live_command.c"), *found(r" MAX_DB = (\d+)", "live_command.c"))
    assert gains[1:] == found(r"LIVE_SCENE_MAX_DB = (\d+)", "live_scene.h")
    assert re.search(r"MAX_DISTANCE = (\d+)", page).groups() == found(r"LIVE_SCENE_MAX_METRES = (\d+)", "live_scene.h")
    assert found(r"known\[\] = {(.*?)}", "panel_upload.c", "host/panel")[0].replace('"', "").replace(" ", "") \
        == re.search(r'accept="(.*?)"', source("index.html"))[1]


def test_every_element_that_the_script_names_exists_once():
    class Ids(html.parser.HTMLParser):
        ids, labelled = [], []

        def handle_starttag(self, tag, attributes):
            given = dict(attributes)
            self.ids += [given["id"]] if "id" in given else []
            for name in ("for", "aria-labelledby", "aria-describedby"):
                self.labelled += given.get(name, "").split()

    parser = Ids()
    parser.feed(source("index.html"))
    assert len(parser.ids) == len(set(parser.ids))
    used = set(re.findall(r"\$\(\"([\w-]+)\"\)", source("panel.js")))
    assert len(used) > 40 and not (used | set(parser.labelled)) - set(parser.ids)


# ---- sessions with a page --------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("chromium")) as page:
        page.size(1280, 800)
        yield page


@pytest.fixture
def chromium(window):
    yield window
    window.open("about:blank")  # a page whose server has gone reports that to the next test
    window.errors()


def address(client):
    client.says(r"http://\S+")
    return re.search(r"http://[^\s,;]+", client.said()).group()


def start(run, *options, masks=("one.txt", "half.txt", "quarter.txt"), env=None, panel=0):
    for name, gain in [("one.txt", 1), ("half.txt", 0.5), ("quarter.txt", 0.25)]:
        pathlib.Path(name).write_text(f"{gain}\n")
    server = run.server(128)
    return server, run.jack(server, *masks, "--panel", panel, *options, env=env)


def open_panel(page, client):
    """The page of a session, once it shows what the session has."""
    page.open(address(client))
    page.wait(TOGETHER)
    return page


def ratio(server, silence=0, n_frames=2400):
    """The output's level relative to the input's."""
    x = noise(n_frames, 2)
    y = server.play(x, 2, n_frames, silence=silence)[n_frames // 2:]
    return math.sqrt(np.mean(y ** 2) / np.mean(x[n_frames // 2:].astype(np.float64) ** 2))


def gain(db):
    return 10 ** (db / 20)


def shown_mask(page, name):
    page.wait(f"document.getElementById('mask').textContent === '{name}'")


@needs_jack
@needs_page
def test_controls_of_masks_and_gains_change_the_sound(run, chromium):
    presets = pathlib.Path("config/haloconv").resolve()
    presets.mkdir(parents=True)
    (presets / "night.conf").write_text("mask = ../../quarter.txt\ngain = -3\n")
    server, client = start(run, env={"XDG_CONFIG_HOME": str(presets.parent)})
    page = open_panel(chromium, client)
    shown_mask(page, "one.txt")
    client.says("3 masks ready")

    def is_heard(want, **kwargs):
        got = ratio(server, **kwargs)
        assert got == pytest.approx(want, rel=2e-3, abs=1e-5), (got, want)

    page.click("#mask-list li:nth-child(2) button")
    shown_mask(page, "half.txt")
    is_heard(0.5)
    page.click("#next")
    shown_mask(page, "quarter.txt")
    is_heard(0.25)
    page.click("#prev")
    shown_mask(page, "half.txt")
    is_heard(0.5)
    pathlib.Path("half.txt").write_text("0.6\n")
    page.click("#reload")
    page.wait("document.getElementById('log').textContent.split('half.txt: loaded').length > 2")
    is_heard(0.6, silence=2400)
    page.type("#gain", "-6")
    is_heard(0.6 * gain(-6))
    page.run("document.getElementById('gain-range').focus()")
    page.press("ArrowLeft", "ArrowLeft")  # half a decibel each
    is_heard(0.6 * gain(-7))
    page.click("#gain-off")
    is_heard(0)
    page.click("#gain-off")
    page.wait("document.getElementById('gain').value === '-7'")
    page.type("#gain", "0")
    page.type("#wet", "-3")
    is_heard(0.6 * gain(-3))
    page.type("#dry", "-12")
    is_heard(0.6 * gain(-3) + gain(-12))
    page.click("#dry-off")
    page.type("#wet", "0")
    page.click("#bypass")
    page.wait("!document.getElementById('badge').hidden")
    is_heard(1)
    page.click("#bypass")
    is_heard(0.6)

    page.choose("#a", "1")
    page.choose("#b", "3")
    page.click("#ab-start")
    page.wait("/^A plays/.test(document.getElementById('ab-text').textContent)")
    ratio(server, n_frames=24000)  # the loudness of 400 ms is needed
    is_heard(0.25, n_frames=24000)  # A, turned down to the level of B
    page.click("#ab")
    page.wait("/^B plays/.test(document.getElementById('ab-text').textContent)")
    is_heard(0.25)
    page.click("#ab-end")
    page.wait("document.getElementById('ab-text').textContent === 'No comparison'")
    page.press("n")
    shown_mask(page, "one.txt")
    is_heard(1)

    write("third.wav", np.array([[0.3]]))
    page.files("#file", pathlib.Path("third.wav").resolve())
    page.wait("document.querySelectorAll('#mask-list button').length === 4")
    page.click("#mask-list li:nth-child(4) button")
    shown_mask(page, "third.wav")
    is_heard(0.3, silence=2400)
    page.run("""const data = new DataTransfer();
                data.items.add(new File([arguments[0]], "wrong.wav"));
                document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));""", "no sound")
    page.wait("/wrong.wav/.test(document.getElementById('alerts').textContent)")
    assert page.run("return document.querySelectorAll('#mask-list button').length") == 4

    for keys, want in [("b", 1), ("b-", 0.3 * gain(-1)), ("=ww", 0.3 * gain(-2)), ("WW", 0.3), ("D", 0.3 + gain(-20))]:
        page.press(*keys)
        is_heard(want)
    page.click("#preset-list button")
    shown_mask(page, "quarter.txt")
    is_heard(0.25 * gain(-3), silence=2400)
    page.type("#gain", "-9")
    is_heard(0.25 * gain(-9))
    page.run("window.prompt = () => 'evening'")
    page.click("#preset-save")
    page.wait("/evening/.test(document.getElementById('preset-list').textContent)")
    page.run("document.getElementById('gain-range').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))")
    is_heard(0.25)
    page.run("[...document.querySelectorAll('#preset-list button')].find(b => b.textContent === 'evening').click()")
    is_heard(0.25 * gain(-9), silence=2400)
    assert not [e for e in page.errors() if "/upload" not in e]  # the refused file is one


@needs_jack
@needs_page
def test_a_comparison_and_keys_use_what_the_page_shows(run, chromium):
    server, client = start(run)
    page, url = chromium, address(client)

    def choice():
        return page.run("return [$('a').value, $('b').value, $('ab').textContent]")

    page.open(url)
    page.wait(TOGETHER)
    page.wait("$('a').options.length === 3")
    page.choose("#a", "3")
    page.choose("#b", "2")
    page.click("#ab")
    shown_mask(page, "quarter.txt")
    page.wait("$('ab-text').textContent.startsWith('A plays')")
    assert choice() == ["3", "2", "Play B"]
    page.choose("#b", "1")
    page.wait("comparison.masks[1] === 1")
    page.press("a")
    shown_mask(page, "one.txt")
    page.choose("#a", "1")
    page.wait("$('alerts').textContent.includes('the same mask')")
    page.wait("comparison.plays === 2")
    assert choice() == ["3", "1", "Play A"]
    page.open("about:blank")
    page.open(url)  # another page
    page.wait(TOGETHER)
    page.wait("$('ab-text').textContent.startsWith('B plays')")
    assert choice() == ["3", "1", "Play A"]
    page.press("A")
    page.wait("$('ab-text').textContent === 'No comparison'")
    page.choose("#b", "2")
    page.press("a")
    page.wait("comparison.masks.join() === '3,2'")
    page.press("A", "p")
    shown_mask(page, "half.txt")
    page.press("r")
    page.wait("$('log').textContent.split('half.txt: loaded').length > 2")
    for typed, shown in [("99", "60"), ("99", "60"), ("-99", "-80"), ("-3", "-3")]:
        page.type("#gain", typed)
        page.wait(f"$('gain').value === '{shown}' && gains['/gain'].value === {shown}")
    page.run("$('gain').select()")
    page.press("5", "Enter")
    page.wait("$('gain').value === '5'")
    page.run("$('gain').select()")
    page.press(*"99", "Enter", *["ArrowLeft"] * 2, *"99", "Enter")
    assert page.run("return $('gain').value") == "60", "a number above the limit is shown"
    page.type("#gain", "-3")
    page.press("+")
    page.wait("$('gain').value === '-2'")
    page.run("$('gain').focus()")
    page.press("5")
    page.run("gains['/gain'].changes.forget(); handlers['/gain'](-9); $('gain').value = -2;")
    page.press("Tab")
    assert page.run("return $('gain').value") == "-9", "a field that is left shows an old value"
    page.run("handlers['/gain'](-2)")
    page.run("""const key = {key: "b", bubbles: true, repeat: true};
                document.body.dispatchEvent(new KeyboardEvent("keydown", key));
                document.body.dispatchEvent(new KeyboardEvent("keydown", {...key, key: "+"}));""")
    page.wait("$('gain').value === '-1'")
    assert page.run("return state.bypass") == 0
    assert page.errors() == []


@needs_jack
@needs_page
def test_controls_of_a_source_change_the_sound(run, chromium):
    make_bank()
    server, client = start(run, "--sources", 2, "--nearest", "--glide", 0, "--distance-gain", 1, "--place", "2:0,0",
                           masks=["bank.csv"])
    page = open_panel(chromium, client)
    page.wait("document.querySelectorAll('#source option').length === 2")
    page.run("document.getElementById('circle').focus()")
    page.press("PageDown")
    assert page.run("return document.getElementById('source').value") == "2"
    page.run("document.getElementById('circle').scrollIntoView({block: 'center'})")

    def at(azimuth, metres=1):
        return page.run("""const box = $("circle").getBoundingClientRect();
                           const {pixel} = circleScale(box.width, box.height);
                           const [x, y] = pixel(...topView([arguments[0], 0, arguments[1]]));
                           return [box.left + x, box.top + y];""", azimuth, metres)

    def is_heard(want, **kwargs):
        assert heard(server, 2, **kwargs) == want

    is_heard("ahead")
    assert page.run("return $('plot').hidden")
    x, y = at(0)
    page.drag((x + 8, y), (x + 11, y))
    assert page.run("return scene.sources[1][0]") == 0, "a press of 3 pixels moves it"
    page.drag((x + 8, y), (x - 8, y))
    moved = math.degrees(math.atan2(16, at(0, 0)[1] - y))
    assert page.run("return scene.sources[1][0]") == pytest.approx(moved, abs=1)
    page.type("#source-azimuth", "0")
    page.drag(at(0), at(85))
    is_heard("left")
    page.drag(at(85), at(-95), "touch")
    is_heard("right")
    page.press(*["ArrowRight"] * 17)
    is_heard("behind")
    page.type("#source-azimuth", "90")
    is_heard("left")
    page.type("#source-elevation", "90")
    is_heard("up")
    page.type("#source-elevation", "0")
    page.type("#source-distance", "2")
    assert level(server, 2) == pytest.approx(0.125, rel=1e-3)
    page.type("#source-distance", "1")
    page.type("#source-gain", "-6")
    assert level(server, 2) == pytest.approx(0.25 * gain(-6), rel=1e-3)
    page.click("#source-gain-off")
    assert abs(level(server, 2)) < 1e-5
    page.type("#source-gain", "0")
    page.click("#mute")
    assert abs(level(server, 2)) < 1e-5
    page.click("#mute")
    page.type("#head-yaw", "90")
    is_heard("ahead")
    page.type("#head-pitch", "90")
    is_heard("down")
    page.type("#head-pitch", "0")
    page.press("c")
    is_heard("left")
    page.type("#head-roll", "90")
    is_heard("down")
    page.click("#recentre")
    is_heard("left")

    page.run("$('circle').scrollIntoView({block: 'center'})")
    page.drag(at(90), at(45), button=2)
    assert page.run("return scene.sources[1][0]") == 90, "another button moves it"
    page.touch((at(90), at(90)), (at(30), at(-45)))  # source 1 is under the second finger
    assert page.run("return scene.sources.map(source => source[0])") == [30, 90]
    page.touch((at(90), at(45)), (at(-135, 0.7), at(-135, 0.7)))
    assert page.run("return scene.sources[1][0]") == pytest.approx(45, abs=1), "a second finger ends the drag"
    page.type("#source-distance", "0.05")
    for key, metres in [("Shift+ArrowUp", 0.051), ("Shift+ArrowUp", 0.052), ("ArrowDown", 0.05), ("ArrowDown", 0.05)]:
        page.run("$('circle').focus()")
        page.press(key)
        assert page.run("return scene.sources[1][2]") == pytest.approx(metres, abs=1e-4)
    page.type("#source-distance", "1")
    page.type("#source-azimuth", "90")
    page.run("$('circle').scrollIntoView({block: 'center'})")

    def swipe(point):
        before = page.run("return scrollY")
        page.drag(point, (point[0], point[1] - 60), "touch")
        return page.run("return new Promise(done => requestAnimationFrame(() => done(scrollY)))") - before

    assert swipe(at(90)) == 0, "a finger on a source scrolls the page"
    assert page.run("return scene.sources[1][0]") != 90
    assert swipe(at(-135, 0.7)) > 30
    assert page.errors() == []


@needs_jack
@needs_page
def test_a_page_survives_a_reload_and_the_end_of_the_server(run, chromium):
    server, client = start(run)
    page, url = chromium, address(client)
    page.open(url)
    page.wait(TOGETHER)
    page.type("#wet", "-6")
    page.click("#bypass")
    page.wait("!document.getElementById('badge').hidden")
    page.call("POST", "/refresh")
    page.wait(TOGETHER)
    page.wait("!document.getElementById('badge').hidden")
    page.wait("document.getElementById('wet').value === '-6'")
    page.run("document.getElementById('next').focus()")
    page.run("window.said = []; new MutationObserver(changes => changes.forEach(change =>"
             "change.addedNodes.forEach(node => said.push(node.textContent)))).observe($('status'), {childList: true})")
    client.end()
    page.wait("$('panel').disabled && tries > 2 && $('gone').textContent")
    assert page.text("#gone").startswith("The session has ended.")
    assert page.run("""return meters.every(meter => !meter.levels.length && meter.text.textContent === "–")
        && $("load-text").textContent === "–" && $("mask").textContent === "–"
        && meters[0].box.getAttribute("aria-valuenow") === "-150" && document.title""") == "haloconv"
    server, client = start(run, panel=url.split(":")[2].split("/")[0])
    address(client)
    page.wait(TOGETHER)
    assert page.run("return !$('gone').textContent && document.activeElement.id") == "next"
    page.press("Enter")
    shown_mask(page, "half.txt")
    assert ratio(server) == pytest.approx(0.5, rel=2e-3)
    page.run("socket.close(); closed()")
    page.wait(TOGETHER)
    page.wait("said.length === 3")
    assert page.run("return said") == ["Connected again", "half.txt plays", "Connected again"]
    page.run("window.isOld = true; handlers['/hello']({...state.hello, version: '0'})")
    page.wait(f"!window.isOld && {TOGETHER}")  # the page of another version
    shown_mask(page, "half.txt")


@needs_jack
@needs_page
@pytest.mark.parametrize("where", [0, "0.0.0.0:0"])
def test_a_page_waits_for_a_place_and_keeps_its_token(run, chromium, where):
    server, client = start(run, panel=where)
    page, url = chromium, address(client).replace("0.0.0.0", "127.0.0.1")
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            panel = stack.enter_context(WebSocket(port_of(client)))
            panel.send("/token", url.split("#")[-1])
            assert panel.answer()[0] == "/hello"
        page.open(url)
        page.wait("$('gone').textContent.includes('50 clients')")
        assert page.run("return $('ask').hidden && !errors.size")
        panel.close()
        page.wait(TOGETHER)
    client.end()


@needs_jack
@needs_page
def test_names_and_messages_of_any_text_do_no_harm(run, chromium):
    name = "$& \"x\" '<b>` \\.txt"
    pathlib.Path("deep").mkdir()
    pathlib.Path("deep", name).write_text("0.5\n")
    server, client = start(run, masks=["one.txt", f"deep/{name}"])
    page = open_panel(chromium, client)
    page.click("#mask-list li:nth-child(2) button")
    page.wait("state.mask === state.hello.masks[1]")
    assert page.text("#mask") == page.text("#mask-list li:nth-child(2)") == name
    assert ratio(server) == pytest.approx(0.5, rel=2e-3)
    page.click("#plot-draw")
    page.wait("!$('plot-image').hidden")
    assert page.text("#plot-text") == f"{name}: Overview" and page.run("return !document.querySelector('b:not([id])')")
    for times in ["", " (2 times)"]:
        page.run("showError(`${state.hello.masks[1]}: wrong`)")
        assert page.text("#alerts span") == f"{name}: wrong{times}"

    for data in ["nonsense", "[]", "1", *map(json.dumps, [
            ["/hello"], ["/mask"], ["/meters"], ["/meters", 1, 2], ["/spectrum"], ["/scene"], ["/scene", [[1]], 1],
            ["/log"], ["/stats", "x"], ["/gain", {}], ["/ab/masks"], ["/ab/state"], ["/error"], ["/constructor"]])]:
        page.run("socket.dispatchEvent(new MessageEvent('message', {data: arguments[0]}))", data)
    page.run("spectrum.paint = () => { throw new Error('no picture'); }; load.paint = () => { window.isDrawn = true; };"
             "redraw(spectrum, load)")
    page.wait("window.isDrawn")
    page.click("#prev")
    shown_mask(page, "one.txt")
    page.errors()


@needs_jack
@needs_page
def test_uploads_are_sent_one_after_the_other(run, chromium):
    server, client = start(run)
    page = open_panel(chromium, client)
    assert page.run("""
        window.posts = {sent: 0, active: 0, max: 0};
        const before = XMLHttpRequest.prototype.send;
        XMLHttpRequest.prototype.send = function (...args) {
          posts.max = Math.max(posts.max, ++posts.active);
          this.addEventListener("readystatechange", () => {
            if (this.readyState === XMLHttpRequest.DONE) posts.active--, posts.sent++;
          });
          before.apply(this, args);
        };
        const drag = (type, data) => {
          const event = new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true});
          document.body.dispatchEvent(event);
          return event.defaultPrevented;
        };
        const text = new DataTransfer(), files = new DataTransfer();
        text.setData("text/plain", "x");
        for (const name of ["1.wav", "2.wav"]) files.items.add(new File(["no sound"], name));
        return [drag("dragover", text), drag("drop", text), drag("dragover", files), drag("drop", files),
                drag("drop", files), $("upload-text").textContent];""") == [
                    False, False, True, True, True, "Sending 1.wav, then 1 more"]
    page.wait("posts.sent === 4")
    assert page.run("return posts.max") == 1
    assert page.text("#alerts span").startswith("1.wav: is not a sound file")
    page.errors()


@needs_jack
@needs_page
def test_a_page_keeps_the_token_and_asks_for_it(run, chromium):
    server, client = start(run, panel="0.0.0.0:0")
    page, (url, token) = chromium, address(client).replace("0.0.0.0", "127.0.0.1").split("#")
    page.open(f"{url}#{token}")
    page.wait(TOGETHER)
    assert page.run("return location.href") == url, "the address shows the token"
    page.call("POST", "/refresh")
    page.wait(TOGETHER)
    plot = "document.getElementById('plot-image')"
    page.click("#plot-draw")
    page.wait(f"!{plot}.hidden && {plot}.naturalWidth")
    page.click("#stats summary")
    page.wait("document.querySelectorAll('#stats-list dd').length > 10")
    page.run("sessionStorage.clear()")
    page.call("POST", "/refresh")
    page.wait("!document.getElementById('ask').hidden")
    page.type("#token", "0" * len(token))
    page.click("#ask button")
    page.wait("/refused/.test(document.getElementById('alerts').textContent)")
    page.type("#token", f"{url}#{token}")
    page.click("#ask button")
    page.wait(TOGETHER)
    page.click("#next")
    shown_mask(page, "half.txt")
    assert page.errors() == []


@needs_jack
@needs_page
def test_tab_reaches_every_control_and_controls_have_names_and_texts_contrast(run, chromium):
    make_bank()
    server, client = start(run, "--sources", 3, masks=["bank.csv"])
    page = open_panel(chromium, client)
    page.wait("document.querySelectorAll('#source option').length === 3")

    seen = []
    for _ in range(100):
        page.press("Tab")
        at = page.run("""const e = document.activeElement, s = getComputedStyle(e);
                         const r = e.getBoundingClientRect();
                         return e === document.body ? null : [e.id || e.textContent.trim(), s.outlineStyle,
                                                              r.bottom > 0 && r.top < innerHeight];""")
        if at is None or (seen and at[0] == seen[0]):
            break
        seen.append(at[0])
        assert at[1] != "none" and at[2], at
    controls = page.run("""return [...document.querySelectorAll("button, input, select, summary, [tabindex='0']")]
        .filter(e => e.checkVisibility() && !e.disabled && (e.tabIndex >= 0 || e.getAttribute("role") !== "option"))
        .map(e => e.id || e.textContent.trim())""")
    assert len(seen) < 100 and set(controls) <= set(seen), set(controls) - set(seen)

    roles = {"button", "textbox", "searchbox", "spinbutton", "slider", "combobox", "listbox", "option", "checkbox",
             "meter", "image"}
    nodes = [node for node in page.devtools("Accessibility.getFullAXTree")["nodes"]
             if not node["ignored"] and node["role"]["value"] in roles]
    assert len(nodes) > 30
    unnamed = [node["role"]["value"] for node in nodes if not node["name"]["value"].strip()]
    assert not unnamed, unnamed

    page.run("showError('an error')")
    for light in (False, True):
        page.scheme(light)
        pale = page.run("""
            const numbers = c => c.match(/[\\d.]+/g).map(Number);
            const light = c => c.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
              .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
            const ground = e => {
              for (; e; e = e.parentElement) {
                const c = numbers(getComputedStyle(e).backgroundColor);
                if (c.length < 4 || c[3] === 1) return c;
              }
              throw new Error("no ground");
            };
            const faint = [];
            for (const e of document.querySelectorAll("body *")) {
              const own = e.matches("input, select") || [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
              if (!own || !e.checkVisibility() || e.disabled || e.tagName === "OPTION") continue;
              const [a, b] = [light(numbers(getComputedStyle(e).color)), light(ground(e))].sort((a, b) => b - a);
              const contrast = (a + 0.05) / (b + 0.05);
              if (!(contrast >= 4.5)) faint.push([e.id || e.textContent.slice(0, 30), contrast]);
            }
            return faint;""")
        assert not pale, (light, pale)
    page.devtools("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
    page.wait("colours.text === 'CanvasText'")
    assert page.run("""const colour = element => getComputedStyle(element).backgroundColor;
        return colour(maskList.buttons[0]) !== colour($("mask-list"))"""), "the selected mask is not seen"
    page.scheme(False)
    assert page.errors() == []


@needs_jack
@needs_page
@is_long
def test_ten_pages_leave_the_callback_alone(run, chromium):
    """Pages that look on and change gains, masks and bypass, while the trap watches the callback."""
    if SAN:
        pytest.skip("a sanitizer brings its own malloc and its own system calls")
    # Masks that are kept ready have a thread that the callback wakes, which is a system call.
    server, client = start(run, "--preload", 0, env={"LD_PRELOAD": str(BUILD / "tests/callback_trap.so")})
    client.says("trap: ")
    page, url = chromium, address(client)
    first, windows = page.call("GET", "/window"), []
    for _ in range(10):
        windows.append(page.call("POST", "/window/new", {"type": "window"})["handle"])
        page.call("POST", "/window", {"handle": windows[-1]})
        page.open(url)
        page.wait(TOGETHER)
        page.run("window.seen = 0; const before = handlers['/meters'];"
                 "handlers['/meters'] = (...values) => { window.seen++; before(...values); };")
    end, i = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        page.call("POST", "/window", {"handle": windows[i % 10]})
        page.run("const i = arguments[0]; gains['/gain'].change(-(i % 7));"
                 "if (i % 3 === 0) document.getElementById('next').click();"
                 "if (i % 4 === 0) document.getElementById('bypass').click();", i)
        ratio(server)
        i += 1
    for window in windows:
        page.call("POST", "/window", {"handle": window})
        assert page.run("return document.getElementById('panel').disabled") is False
        assert page.run("return window.seen") > 4 * SECONDS, "less than 4 messages a second"
        assert page.errors() == []
        page.call("DELETE", "/window")
    page.call("POST", "/window", {"handle": first})
    stats = client.end()
    assert "the callback reached" not in client.said() and stats["late"] == stats["lost"] == 0, stats


@needs_jack
@needs_page
def test_many_masks_and_channels_can_be_read(run, chromium):
    server, client = start(run)
    page = open_panel(chromium, client)
    page.run("""socket.onclose = socket.onmessage = null;
        hello({n_in: 64, n_out: 64, masks: Array.from({length: 40}, (_, i) => `row ${i}.wav`)});
        mask("row 39.wav");""")
    page.run("maskList.focus(7)")
    for masks, at in [("['new.wav', ...state.hello.masks]", 7),
                      ("state.hello.masks.filter(name => name !== 'row 7.wav')", 8)]:
        page.run(f"hello({{...state.hello, masks: {masks}}})")
        assert page.run("return document.activeElement.textContent") == f"row {at}.wav"
    shown = """return [...document.querySelectorAll("#mask-list button")]
        .filter(b => b.checkVisibility()).map(b => [b.textContent, b.tabIndex])"""
    page.type("#find", "ROW 1.")
    assert page.run(shown) == [["row 1.wav", 0]]
    page.run("mask('row 20.wav')")
    assert page.run(shown) == [["row 1.wav", 0]]
    page.type("#find", "none")
    assert page.run(shown) == [] and page.run("return $('no-mask').checkVisibility()")
    assert page.text("#no-mask") == "No mask matches."

    page.run("""window.texts = [];
        const before = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
          if (this.canvas === $("out").firstElementChild && this.textAlign === "center")
            texts.push([text, x - this.measureText(text).width / 2, x + this.measureText(text).width / 2]);
          before.call(this, text, x, y);
        };""")
    for n, width, numbers in [(2, 1280, [1, 2]), (12, 1280, list(range(1, 13))), (16, 1280, [8, 16]),
                              (64, 1280, list(range(8, 65, 8)))]:
        page.size(width, 800)
        page.run("texts.length = 0; const [n] = arguments, levels = Array.from({length: n}, (_, i) => i % 3 - 1);"
                 "$('meters').classList.remove('many'); $('clear').click();"
                 "handlers['/meters'](levels, levels, 1, 0, 0); meters[1].picture.draw();", n)
        texts = page.run("return texts")[:len(numbers)]
        assert [text for text, _, _ in texts] == numbers
        assert all(a[2] + 3 < b[1] for a, b in zip(texts, texts[1:])), texts
        assert page.run("return $('out').firstElementChild.clientWidth >= $('out').clientWidth")
        clipped = ", ".join(str(i + 1) for i in range(n) if i % 3 == 2)
        assert page.text("#clip") == (f"Over 0 dBFS: in {clipped}; out {clipped}" if clipped else "Nothing over 0 dBFS")
    assert page.errors() == []


# ---- pictures --------------------------------------------------------------------------------------------------------
COLUMNS, ROWS, TOLERANCE, OTHER_FONT = 16, 12, 6, 24
STATE = """
    socket.onclose = socket.onmessage = null;
    document.getElementById("log").replaceChildren();
    document.getElementById("clear").click();
    past.length = 0;
    hello({version: "1.0", name: "haloconv", rate: 48000, block: 128, n_in: 2, n_out: 2, device: "a processor",
      sources: 3, masks: ["hall.wav", "plate.wav", "spring.wav"], ready: [1, 2, 3], plots: ["step"],
      presets: ["church", "night"], can_upload: true,
      bands: Array.from({length: 60}, (_, i) => 20 * 2 ** (i / 6))});
    mask("plate.wav");
    for (const path of ["/gain", "/wet", "/dry"]) gains[path].changes.forget();
    handlers["/gain"](-3);
    handlers["/wet"](0);
    handlers["/dry"]("off");
    handlers["/bypass"](0);
    showScene([[30, 0, 1, 0, 0], [-60, 10, 1.5, 0, 0], [150, 0, 2, 0, 1]], [20, 0, 0]);
    handlers["/meters"]([-12, -20], [-4, 1.5], 0, 0, 0);
    handlers["/spectrum"](hello.bands, []);
    const levels = f => Array.from({length: 60}, (_, i) => f(i));
    handlers["/spectrum"](levels(i => -30 - i / 2), levels(i => -40 + 12 * Math.sin(i / 8)));
    log("note", "plate.wav: loaded");
    return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))));
"""
GRID = """
    const [data, columns, rows] = arguments, image = new Image();
    return new Promise((done, failed) => {
      image.onerror = failed;
      image.onload = () => {
        const w = image.width, h = image.height, canvas = document.createElement("canvas"), sums = [], counts = [];
        canvas.width = w, canvas.height = h;
        const g = canvas.getContext("2d");
        g.drawImage(image, 0, 0);
        const pixels = g.getImageData(0, 0, w, h).data;
        for (let y = 0; y < h; y++)
          for (let x = 0; x < w; x++) {
            const cell = Math.floor(y * rows / h) * columns + Math.floor(x * columns / w);
            counts[cell] = (counts[cell] || 0) + 1;
            for (let c = 0; c < 3; c++) sums[3 * cell + c] = (sums[3 * cell + c] || 0) + pixels[4 * (y * w + x) + c];
          }
        done(sums.map((sum, i) => sum / counts[Math.floor(i / 3)]));
      };
      image.src = "data:image/png;base64," + data;
    });
"""


def mean_colours(page, pictures):
    """Of a grid of cells, for each PNG of a dictionary (base64)."""
    page.scheme(False)
    page.size(1280, 800)
    page.open("about:blank")
    return {name: np.reshape(page.run(GRID, data, COLUMNS, ROWS), (ROWS, COLUMNS, 3)) for name, data in pictures.items()}


def tolerance():
    """Of a mean colour; fonts differ from one machine to another."""
    font = subprocess.run(["fc-match", "-f", "%{file}", "system-ui"], stdout=subprocess.PIPE, text=True, check=True).stdout
    name, then = pathlib.Path(font).name, STORED.read_text().splitlines()[0]
    return name, TOLERANCE if name == then else OTHER_FONT


@needs_jack
@needs_page
def test_the_picture_of_the_page_in_docs_is_what_the_page_draws(run, chromium):
    page, shown = chromium, ROOT / "docs/pictures/panel.png"
    server, client = start(run)
    version = re.search(r'#define HC_VERSION "(.*)"', (ROOT / "dsp/haloconv.h").read_text())[1]
    page.size(1280, 825)  # as high as the picture of the window
    page.scheme(False)
    open_panel(page, client)
    assert page.run(STATE.replace('"1.0"', f'"{version}"').replace("a processor", "cpu avx512"))
    page.run("""past.length = 0;
        for (let s = 120; s >= 0; s--) addLoad(3 + Math.sin(s / 5) ** 2, 0, 0, performance.now() - 1000 * s)""")
    page.run("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
    if os.environ.get("HC_TEST_PICTURES"):
        page.picture(shown)
    drawn = page.call("GET", "/screenshot")
    grids = mean_colours(page, {"drawn": drawn, "shown": base64.b64encode(shown.read_bytes()).decode()})
    worst = np.abs(grids["drawn"] - grids["shown"]).max()
    assert worst <= tolerance()[1], f"{shown.name}: a mean colour is off by {worst:.1f}; make pictures, and look at it"


@needs_jack
@needs_page
def test_mean_colours_of_pictures_are_those_that_are_stored(run, chromium):
    """Mean colours of a grid of cells, in a window and on a phone, dark and light. Pictures: $BUILD/screenshots."""
    page, grids = chromium, {}
    server, client = start(run)
    url = address(client)
    folder = BUILD / "screenshots"
    folder.mkdir(exist_ok=True)
    for size in [(1280, 800), (360, 640)]:
        for light in (False, True):
            page.size(*size)
            page.scheme(light)
            page.open(url)
            page.wait(TOGETHER)
            assert page.run(STATE)
            assert page.run("return document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
            assert size[0] > 400 or page.run("""return [...document.querySelectorAll("input, select")]
                .every(e => parseFloat(getComputedStyle(e).fontSize) >= 16)"""), "a phone zooms into a small font"
            name = f"panel-{size[0]}-{'light' if light else 'dark'}"
            page.picture(folder / f"{name}.png")
            grids[name] = page.call("GET", "/screenshot")
    grids = mean_colours(page, grids)
    font, allowed = tolerance()
    if os.environ.get("HC_TEST_PICTURES"):
        lines = [font]
        for name, grid in grids.items():
            lines += [name, *(" ".join("".join(f"{round(c):02x}" for c in cell) for cell in row) for row in grid)]
        STORED.write_text("\n".join(lines) + "\n")
        allowed = TOLERANCE
    lines = STORED.read_text().splitlines()
    for name, grid in grids.items():
        rows = lines[lines.index(name) + 1:][:ROWS]
        want = np.array([[[int(cell[2 * c:2 * c + 2], 16) for c in range(3)] for cell in row.split()] for row in rows])
        worst = np.abs(grid - want).max()
        assert worst <= allowed, f"{name}: a mean colour is off by {worst:.1f}, allowed are {allowed}"
