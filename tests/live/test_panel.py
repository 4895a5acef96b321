"""`--panel`: the messages of OSC over a WebSocket, what a panel shows, and what it refuses, on a JACK server."""

import contextlib
import http.client
import json
import math
import os
import pathlib
import re
import socket
import struct
import time

import numpy as np
import pytest
from conftest import BUILD, SAN, noise, write
from test_live import FEATURES, PATIENCE, alone, needs_jack, run, wait_for
from test_osc import (test_a_mask_is_answered_when_it_is_loaded_or_refused,  # with the controls of this file
                      test_every_message_is_answered_or_silent)
from websocket_client import PanelControl, WebSocket, port_of

assert alone and run  # fixtures
assert test_a_mask_is_answered_when_it_is_loaded_or_refused and test_every_message_is_answered_or_silent
pytestmark = [needs_jack, pytest.mark.skipif("websockets" not in FEATURES, reason="no libwebsockets in the build")]
READY = r"panel: http://\S+"


@pytest.fixture
def server(run):
    return run.server(128)


@pytest.fixture
def client(run, server):
    for name in ["one", "two", "other"]:
        pathlib.Path(f"{name}.txt").write_text("1\n")
    return run.jack(server, "one.txt", "two.txt", "--panel", 0, ready=READY)


@pytest.fixture
def controls(client):
    with PanelControl(client) as one, PanelControl(client) as other:
        yield one, other


def request(client, method, path, body=None, **headers):
    """(status, body, headers)"""
    connection = http.client.HTTPConnection("127.0.0.1", port_of(client), timeout=PATIENCE)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def processor_s(client):
    """Of the control thread and those of the panel."""
    tasks, ticks = pathlib.Path(f"/proc/{client.process.pid}/task").iterdir(), os.sysconf("SC_CLK_TCK")
    return sum(sum(map(int, (task / "stat").read_text().rsplit(")", 1)[1].split()[11:13])) / ticks
               for task in tasks if task.name == str(client.process.pid) or "panel" in (task / "comm").read_text())


def test_a_panel_is_greeted_and_sees_every_change(client):
    with WebSocket(port_of(client)) as one, PanelControl(client) as other:
        hello = one.answer("/hello")[1]
        assert (hello["rate"], hello["block"], hello["n_in"], hello["n_out"]) == (48000, 128, 2, 2)
        assert hello["masks"] == ["one.txt", "two.txt"] and hello["can_upload"] and len(hello["bands"]) == 61
        assert one.answer("/log")[1] == "note"
        assert one.answer("/mask") == ["/mask", "one.txt", 1] and one.answer("/dry") == ["/dry", "off"]
        other.send("/gain", -6), other.send("/mask/add", "other.txt")
        seen = [one.answer("/gain", "/hello") for _ in range(2)]
        assert ["/gain", -6] in seen and max(seen)[1]["masks"] == ["one.txt", "two.txt", "other.txt"], seen
        assert other.ask("/mask", 3) == ["/mask", "other.txt", 3] == one.answer("/mask")
        other.send("/no")
        while "/no: " not in one.answer("/log")[2]:
            pass
        assert one.answer("/error")[1] == "/no"
        one.send("/ping", "x")
        assert one.answer("/pong") == ["/pong", "x"]
        client.end()
        one.answer("/unsubscribe")


def test_keys_are_those_of_the_terminal(controls):
    one, _ = controls
    for key, gain in [("+", 1), ("=", 2), ("-", 1)]:
        one.send("/key", key)
        assert one.ask("/gain")[1] == pytest.approx(gain, abs=1e-4)
    one.send("/gain", 49), one.send("/key", "+")  # steps end at 40
    assert one.ask("/gain")[1] == pytest.approx(49, abs=1e-4)
    one.send("/key", "-")
    assert one.ask("/gain")[1] == pytest.approx(48, abs=1e-4)
    one.send("/key", "b")
    assert one.ask("/bypass") == ["/bypass", 1]
    assert one.ask("/key", "n") == ["/mask", "two.txt", 2]
    for wrong in [["q"], ["x"], ["bb"], [""], [98], []]:
        assert one.ask("/key", *wrong) == ["/error", "/key", "key needs a key of the terminal, but not q"]


def test_any_two_masks_of_a_list_are_compared(run, server):
    """Two besides those that fit, and far apart; the panel says which."""
    masks = [f"{i}.txt" for i in range(40)]
    for mask in masks:
        pathlib.Path(mask).write_text("1\n")
    client = run.jack(server, *masks, "--preload", 2, "--panel", 0, ready=READY)
    with WebSocket(port_of(client)) as panel, PanelControl(client) as control:
        assert panel.answer("/hello")[1]["ready"] == list(range(1, 41))
        assert panel.answer("/ab/masks") == ["/ab/masks", 0, 0]
        for pair in [["20.txt", "5.txt"], ["39.txt", "12.txt"]]:
            assert control.ask("/ab", *pair) == ["/mask", pair[0], masks.index(pair[0]) + 1]
            assert panel.answer("/ab/masks")[1:] == [masks.index(mask) + 1 for mask in pair]
            assert control.ask("/ab") == ["/mask", pair[1], masks.index(pair[1]) + 1]
            control.send("/mask/add", "no.txt")  # the pair is kept ready
            wait_for("both masks", lambda: server.play_silence(2400) is None and control.ask("/ab/state")[1] == 2)
        with WebSocket(port_of(client)) as late:
            assert late.answer("/ab/masks") == ["/ab/masks", 40, 13]
        control.send("/ab", "off")
        assert panel.answer("/ab/masks") == ["/ab/masks", 0, 0]
    client.end()


def test_a_long_list_costs_no_time(client):
    """A panel may add 256 KiB of paths; the list is described only when it changes."""
    with PanelControl(client) as panel:
        for i in range(70):
            panel.send("/mask/add", f"/{i:03900}.wav")
        assert panel.answer()[:2] == ["/error", "/mask/add"]
        before = processor_s(client)
        time.sleep(1)
        assert processor_s(client) - before < (0.1 if SAN else 0.03)


def test_masks_that_are_not_kept_ready_are_not_compared(run, server):
    for name in ["one", "two"]:
        pathlib.Path(f"{name}.txt").write_text("1\n")
    client = run.jack(server, "one.txt", "two.txt", "--preload", 0, "--panel", 0, ready=READY)
    with WebSocket(port_of(client)) as panel, PanelControl(client) as control:
        assert panel.answer("/hello")[1]["ready"] == []
        assert control.ask("/ab") == ["/error", "/ab",
                                      "no two masks are kept ready; give --preload 1 or more (banks are never compared)"]


def test_a_list_of_masks_may_be_longer_than_a_clients_queue(run, server):
    pathlib.Path("one.txt").write_text("1\n")
    masks = ["one.txt", *(f"{i:0300}.txt" for i in range(1000))]
    client = run.jack(server, *masks, "--preload", 0, "--panel", 0, ready=READY)
    with WebSocket(port_of(client)) as panel:
        assert panel.answer("/hello")[1]["masks"] == masks
        panel.send("/ping"), panel.answer("/pong")


def test_a_panel_is_told_of_half_a_mebibyte_of_masks_and_plays_them_all(run, server):
    for name in ["one", "last"]:
        pathlib.Path(f"{name}.txt").write_text("1\n")
    masks = ["one.txt", *(f"{i:0200}.txt" for i in range(4000)), "last.txt"]
    client = run.jack(server, *masks, "--preload", 0, "--panel", 0, ready=READY)
    with WebSocket(port_of(client)) as panel, PanelControl(client) as control:
        hello = panel.answer("/hello")[1]
        assert hello["masks"] == masks[:len(hello["masks"])] and 490000 < len(json.dumps(hello)) < 540000
        assert panel.answer("/mask") == ["/mask", "one.txt", 1]
        assert control.ask("/mask", len(masks)) == ["/mask", "last.txt", len(masks)] == panel.answer("/mask")


def test_meters_and_spectra_show_the_signals(run, server):
    """A sine of 1 kHz at -6 dB on input 1 alone; the mask halves it."""
    pathlib.Path("half.txt").write_text("0.5\n")
    client = run.jack(server, "half.txt", "--panel", 0, ready=READY)
    sine = np.zeros((24000, 2), np.float32)
    sine[:, 0] = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(len(sine)) / 48000)
    with WebSocket(port_of(client)) as panel:
        bands = np.array(panel.answer("/hello")[1]["bands"])
        panel.answer("/spectrum")
        result = server.stage(sine, 2, len(sine))
        meters, spectra = [], []
        while not spectra or max(spectra[-1][1]) > -100 or max(max(s[1]) for s in spectra) < -50:
            (meters if (message := panel.answer("/meters", "/spectrum"))[0] == "/meters" else spectra).append(message)
        result()
    inputs, outputs = (np.max([m[side] for m in meters], axis=0) for side in (1, 2))
    assert inputs == pytest.approx([-6, -150], abs=0.2) and outputs == pytest.approx([-12, -150], abs=0.2)
    loudest = max(spectra, key=lambda s: max(s[1]))
    for side, level in [(1, -9), (2, -15)]:  # the mean power of two channels
        band = int(np.argmax(loudest[side]))
        assert bands[band] == pytest.approx(1000, rel=0.06), bands[band]
        # the Hann window spreads the sine over the neighbours
        power = np.sum(10 ** (np.array(loudest[side][band - 1:band + 2]) / 10))
        assert 10 * np.log10(power) == pytest.approx(level, abs=0.5), loudest
        assert max(loudest[side][:band - 6]) < level - 40


def test_spectra_fall_when_the_graph_rests(run, server):
    pathlib.Path("half.txt").write_text("0.5\n")
    client = run.jack(server, "half.txt", "--panel", 0, "--reconnect", ready=READY)
    with WebSocket(port_of(client)) as panel:
        result = server.stage(noise(480000, 2), 2, 480000)
        wait_for("a spectrum", lambda: max(panel.answer("/spectrum")[2]) > -60)
        server.kill()
        server.finish.kill(), server.finish.wait()
        wait_for("silence", lambda: panel.answer("/spectrum")[1:] == [[-150] * 61] * 2)
        assert result
    client.end()


def test_texts_of_numbers_and_filters_may_be_uploaded(client, server):
    texts = {"taps.txt": b"0.5\n", "eq.txt": b"\xef\xbb\xbf# AutoEq\r\nPreamp: -6.02 dB\r\n"
             b"Filter 1: ON PK Fc 105 Hz Gain -0.1 dB Q 0.70\r\n", "graph.TXT": b"GraphicEQ: 20 -6.02; 20000 -6.02"}
    with PanelControl(client) as panel:
        for i, (name, text) in enumerate(texts.items()):
            status, answer, _ = request(client, "POST", "/upload?name=" + name, text)
            assert status == 200, answer
            assert panel.ask("/mask", 3 + i)[1] == json.loads(answer)["mask"]
            y = server.play(np.ones((4800, 2), np.float32), 2, 4800, silence=4800)
            assert y[-1] == pytest.approx([0.5, 0.5], rel=0.02), name


def test_a_preset_is_played_by_one_press(run, server):
    for name, gain in [("one", 1), ("two", 0.5), ("three", 0.25)]:
        pathlib.Path(f"{name}.txt").write_text(f"{gain}\n")
    folder = pathlib.Path("config/haloconv").resolve()
    folder.mkdir(parents=True)
    for name, lines in [("night", "gain = -20\nmask = ../../two.txt\nmask = ../../three.txt\n"),
                        ("other", "backend = cpu\nmask = ../../one.txt\n"), ("wrong", "gain = loud\n"),
                        ("live", "command = live\nmask = ../../one.txt\n")]:
        (folder / f"{name}.conf").write_text(lines)
    client = run.jack(server, "one.txt", "--gain", -1, "--panel", 0, ready=READY,
                      env={"XDG_CONFIG_HOME": str(folder.parent)})
    with WebSocket(port_of(client)) as panel, PanelControl(client) as control:
        hello = panel.answer("/hello")[1]
        assert hello["presets"] == ["night", "other", "wrong"], hello
        mask = [f"{folder}/../../{name}.txt" for name in ["two", "three", "one"]]
        assert control.ask("/preset", "night") == ["/mask", mask[0], 1]
        assert panel.answer("/hello")[1]["masks"] == mask[:2] and control.ask("/gain")[1] == pytest.approx(-20)
        assert control.ask("/next") == ["/mask", mask[1], 2]
        y = server.play(np.ones((2400, 2), np.float32), 2, 2400, silence=4800)
        assert y[-1] == pytest.approx([0.025, 0.025], rel=1e-3)
        assert control.ask("/preset", "other") == [
            "/error", "/preset", "masks and gains are those of the preset; for backend start haloconv run other"]
        assert control.answer() == ["/mask", mask[2], 1]
        assert control.ask("/gain") == ["/gain", 0.0]
        for wrong in ["wrong", "none", "live"]:
            assert control.ask("/preset", wrong)[:2] == ["/error", "/preset"]
        assert control.ask("/mask") == ["/mask", mask[2], 1] and control.ask("/gain") == ["/gain", 0.0]


def saving(tmp):
    """The folder of presets, and the environment for it."""
    folder = pathlib.Path(tmp).resolve() / "haloconv"
    return folder, {"XDG_CONFIG_HOME": str(folder.parent)}


def test_the_present_state_is_saved_and_played_again(run, server):
    """By /preset in the session, and by `haloconv run`: every knob, the list, the mask that plays, A/B, options."""
    names = ["one.txt", "two.txt", "a b.txt"]
    for name in names:
        pathlib.Path(name).write_text("1\n")
    folder, env = saving("config/of mine")
    client = run.jack(server, *names, "--panel", 0, "--fade", 0, "--late", "dry", "--reconnect", "--midi-channel", 3,
                      "--standby", 50, "--gain", 3, ready=READY, env=env)

    def ask(path):
        control.send(path)
        return control.answer(path)

    def state():
        server.play_silence(2400)
        answers = [ask(path) for path in ["/gain", "/wet", "/dry", "/bypass", "/mask"]]
        return [["off" if v == -math.inf else round(v, 4) if isinstance(v, float) else v for v in a]
                for a in answers], ask("/ab/state")[1]

    def other_state():
        for message in [["/gain", 1], ["/wet", 0], ["/dry", 0], ["/ab", "off"], ["/bypass", 0], ["/mask/add", "new.txt"]]:
            control.send(*message)
        control.send("/mask", 1)
        wait_for("the first mask", lambda: ask("/mask")[2] == 1)

    here = os.getcwd()
    for messages, wants in [
            ([], [["/gain", 3], ["/wet", 0], ["/dry", "off"], ["/bypass", 0], ["/mask", f"{here}/one.txt", 1], 0]),
            ([["/gain", -6], ["/wet", "off"], ["/dry", -20.5], ["/bypass", 1], ["/mask", 3]],
             [["/gain", -6], ["/wet", "off"], ["/dry", -20.5], ["/bypass", 1], ["/mask", f"{here}/a b.txt", 3], 0]),
            ([["/ab", 3, 2]], [["/gain", 3], ["/wet", 0], ["/dry", "off"], ["/bypass", 0], ["/mask", f"{here}/a b.txt", 3], 1]),
            ([["/ab", 3, 2], ["/ab"]],
             [["/gain", 3], ["/wet", 0], ["/dry", "off"], ["/bypass", 0], ["/mask", f"{here}/two.txt", 2], 2])]:
        with PanelControl(client) as control:
            for message in messages:
                control.send(*message)
            wait_for("the state", lambda: state()[0][4][2] == wants[4][2] and state()[1] == wants[5])
            control.send("/preset/save", "stage")
            assert control.answer("/preset/saved", "/error") == ["/preset/saved", "stage", "saved: haloconv run stage"]
            lines = (folder / "stage.conf").read_text().splitlines()
            other_state()
            control.send("/preset", "stage")
            wait_for("the preset", lambda: state() == (wants[:5], wants[5]))
        client.end()
        assert f'mask = "{here}/a b.txt"' in lines and not any("new.txt" in line for line in lines), lines
        for line in ["command = jack", "fade = 0", "late = dry", "reconnect = yes", "midi-channel = 3", "standby = 50"]:
            assert line in lines, lines
        client = run.client("run", "stage", ready=READY, env=env)
        with PanelControl(client) as control:
            wait_for("the preset", lambda: state() == (wants[:5], wants[5]))
        client.end()
        client = run.jack(server, "one.txt", "--preset", "stage", ready=READY, env=env)  # the numbers are of another list
        assert client.end()["mask"] == "one.txt"
        (folder / "stage.conf").unlink()
        client = run.jack(server, *names, "--panel", 0, "--fade", 0, "--late", "dry", "--reconnect", "--midi-channel", 3,
                          "--standby", 50, "--gain", 3, ready=READY, env=env)
    client.end()


def test_a_saved_preset_replaces_no_other(run, server):
    """Only what the session saved itself and nobody has edited, or what it is told to; each refusal is one line."""
    for name in ["one", "two"]:
        pathlib.Path(f"{name}.txt").write_text("1\n")
    folder, env = saving("config")
    folder.mkdir(parents=True)
    (folder / "mine.conf").write_text("mask = /a.wav\n"), (folder / "linked.conf").symlink_to("nowhere")
    client = run.jack(server, "one.txt", "two.txt", "--panel", 0, ready=READY, env=env)
    with WebSocket(port_of(client)) as panel, PanelControl(client) as control:
        assert control.ask("/preset/save", "stage")[:2] == ["/preset/saved", "stage"]
        wait_for("the list", lambda: panel.answer("/hello")[1]["presets"] == ["mine", "stage"])
        control.send("/gain", -7)
        assert control.ask("/preset/save", "stage")[:2] == ["/preset/saved", "stage"]
        edited = (folder / "stage.conf").read_text().replace("gain = -7", "gain = -8")
        (folder / "stage.conf").write_text(edited)
        for words in [["stage"], ["mine"], ["../up"], [".up"], ["-q"], ["x" * 101], ["a\nb"], [1], ["x", "y"], ["x", 1],
                      ["linked"]]:
            assert control.ask("/preset/save", *words)[:2] == ["/error", "/preset/save"], words
        assert (folder / "stage.conf").read_text() == edited and "gain = -8" in edited
        assert control.ask("/preset/save", "stage", "replace")[:2] == ["/preset/saved", "stage"]
        assert control.ask("/key", "S")[:2] == ["/preset/saved", "session"]
        assert control.ask("/preset/save")[:2] == ["/preset/saved", "session-2"]
        names = ["linked.conf", "mine.conf", "session-2.conf", "session.conf", "stage.conf"]
        assert sorted(os.listdir(folder)) == names and (folder / "mine.conf").read_text() == "mask = /a.wav\n"
        folder.rename("elsewhere"), folder.write_text("no folder")
        path, about, why = control.ask("/preset/save", "late")
        assert why.startswith(f"{folder}: ") and why.endswith("; give a folder that can be made"), why
    client.end()


def test_a_panel_sees_sources_move(run, server):
    write("head.wav", np.full((8, 2), 0.25, np.float32))
    client = run.jack(server, "head.wav", "--sources", 2, "--panel", 0, ready=READY)
    with WebSocket(port_of(client)) as panel, PanelControl(client) as control:
        assert panel.answer("/hello")[1]["sources"] == 2
        for message in [["/source/2/aed", 30, 10, 2], ["/source/1/gain", "off"], ["/source/2/mute", 1],
                        ["/listener/xyz", 1, 2, 3]]:
            control.send(*message)
        assert control.ask("/source/2/aed") == ["/source/2/aed", pytest.approx(30), pytest.approx(10), pytest.approx(2)]
        wait_for("the scene", lambda: (scene := panel.answer("/scene"))[1][1][:3] == pytest.approx([30, 10, 2])
                 and scene[1][0][3] == "off" and scene[1][1][4] == 1 and scene[2:] == [[0, 0, 0], [1, 2, 3]])


# ---- strangers -------------------------------------------------------------------------------------------------------
def test_pages_of_other_servers_are_refused(client):
    """Origin names another server; or Host does, whose name leads here (DNS rebinding)."""
    port = port_of(client)
    for host, origin, status in [(None, None, 101), (f"localhost:{port}", f"http://localhost:{port}", 101),
                                 (None, "http://evil.example", 403), (None, "null", 403),
                                 (None, f"http://127.0.0.1:{port + 1}", 403), (None, f"https://127.0.0.1:{port}", 403),
                                 (f"evil.example:{port}", f"http://evil.example:{port}", 403),
                                 (f"evil.example:{port}", None, 403), ("127.0.0.1", None, 403),
                                 (f"127.0.0.1.evil.example:{port}", None, 403), (f"localhost:{port}x", None, 403)]:
        with WebSocket(port, host=host, origin=origin) as panel:
            assert panel.status == status, (host, origin)
        if status == 403:
            headers = {"Host": host or f"127.0.0.1:{port}", **({"Origin": origin} if origin else {})}
            for method, path, body in [("GET", "/", None), ("GET", "/plot?mask=1", None),
                                       ("POST", "/upload?name=a.wav", b"x")]:
                assert request(client, method, path, body, **headers)[0] == 403, (method, path, headers)
    for path, protocol, status in [("/", "haloconv", 404), ("/ws", "chat", None), ("/ws", None, 400)]:
        with WebSocket(port, path=path, protocol=protocol) as panel:
            assert panel.status == status, (path, protocol)


def test_the_page_runs_no_foreign_script(client):
    status, _, headers = request(client, "GET", "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    for path in ["/../panel.c", "/%2e%2e/panel.c", "/etc/passwd", "/index.html/", "/ws"]:
        assert request(client, "GET", path)[0] == 404, path
    assert request(client, "POST", "/", b"x")[0] == 405
    for method in ["PUT", "DELETE", "HEAD", "OPTIONS"]:
        for path in ["/", "/plot?mask=1", "/upload?name=a.wav"]:
            assert request(client, method, path)[0] == 405, (method, path)


def test_an_image_of_a_foreign_page_draws_no_plot(client):
    """It has our Host and no Origin; a link leads to the page."""
    for site, status in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]:
        assert request(client, "GET", "/plot?mask=1&kind=step", Sec_Fetch_Site=site)[0] == status, site
        assert request(client, "GET", "/", Sec_Fetch_Site=site)[0] == 200
    assert request(client, "POST", "/upload?name=a.wav", b"x", Sec_Fetch_Site="cross-site")[0] == 403


def test_a_quiet_session_prints_its_address(run, server):
    pathlib.Path("one.txt").write_text("1\n")
    client = run.jack(server, "one.txt", "-q", "--panel", 0, ready=READY)
    assert re.fullmatch(r"(haloconv: )?panel: http://127.0.0.1:\d+/\n?", client.said()), client.said()
    with WebSocket(port_of(client)) as panel:
        assert panel.answer("/log")[1:] == ["note", client.said().strip()]  # no error


def test_a_taken_port_is_found_before_the_audio_starts(run, server):
    pathlib.Path("one.txt").write_text("1\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0)), taken.listen()
        client = run.jack(server, "one.txt", "--panel", taken.getsockname()[1], ready=None)
        client.end(how=None, status=1)
    assert re.search(r"^haloconv: --panel: cannot listen on 127.0.0.1, port \d+; choose another", client.said(), re.M)


def test_other_machines_need_the_token(run, server):
    pathlib.Path("one.txt").write_text("1\n")
    client = run.jack(server, "one.txt", "--panel", "0.0.0.0:0", ready=READY)
    port, token = port_of(client), re.search(r"panel: http://\S+/#([0-9a-f]{32})$", client.said(), re.M)[1]
    for first in [["/gain", -60], ["/preset/save", "stranger"], ["/token", token[:-1]], ["/token", "0" * 32], ["/token"],
                  ["/token", 1]]:
        with WebSocket(port) as panel:
            panel.send(*first)
            assert panel.answer()[:2] == ["/error", "/token"], first
            with pytest.raises(EOFError) as end:
                panel.answer()
            assert end.value.args == (1008,)
    with WebSocket(port) as panel:
        panel.send_text("nonsense")
        assert panel.answer()[:2] == ["/error", "/token"]
        with pytest.raises(EOFError):
            panel.answer()
    with contextlib.ExitStack() as stack:  # strangers leave room
        for _ in range(60):
            stack.enter_context(WebSocket(port))
        panel = stack.enter_context(WebSocket(port))
        panel.send("/token", token)
        assert panel.answer()[0] == "/hello"
    # Any number is ours, no name is. One client sends no token for 5 s, one takes nothing for so long.
    with WebSocket(port, address="127.0.0.2") as panel, WebSocket(port) as silent, WebSocket(port, takes=4096) as slow:
        slow.send("/token", token)
        for _ in range(99):
            slow.send("/stats")
        panel.send("/token", token)
        assert panel.answer()[0] == "/hello" and panel.answer("/gain") == ["/gain", 0.0]
        with pytest.raises((EOFError, ConnectionError)):
            silent.answer()

        def is_dropped():
            try:
                slow.send("/ping", 1)
            except ConnectionError:
                return True
        wait_for("the end of a slow client", is_dropped)
        panel.send("/ping", 1), panel.answer("/pong")
    with WebSocket(port, takes=4096) as slow:  # reads all the time, but not all that it must have
        slow.send("/token", token)
        for _ in range(99):
            slow.send("/ping", "x" * 4000)
        n = 0
        with contextlib.suppress(ConnectionError):
            while got := len(slow.socket.recv(4096)):
                n += got
                time.sleep(0.05)
        assert n < 350000, "the client got everything, so it did not miss a message"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)  # a stranger's body is not awaited
    connection.putrequest("POST", "/upload?name=a.wav")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders()
    assert connection.getresponse().status == 401
    with WebSocket(port, host=f"evil.example:{port}") as panel:
        assert panel.status == 403
    for headers, status in [({}, 401), ({"Authorization": f"Bearer {token[:-1]}"}, 401),
                            ({"Authorization": f"Bearer {token}"}, 200)]:
        assert request(client, "GET", "/plot?mask=1", **headers)[0] == status, headers
        if status == 401:
            assert request(client, "POST", "/upload?name=a.wav", b"x", **headers)[0] == status
    assert request(client, "GET", "/")[0] == 200
    client.end()


def test_strangers_do_not_use_up_the_masks_that_may_be_loaded(run, server):
    for name in ["one", "two"]:
        pathlib.Path(f"{name}.txt").write_text("1\n")
    client = run.jack(server, "one.txt", "two.txt", "--panel", "0.0.0.0:0", ready=READY)
    port, token = port_of(client), re.search(r"/#([0-9a-f]{32})$", client.said(), re.M)[1]
    for _ in range(60):
        with WebSocket(port) as stranger:
            stranger.send("/next"), stranger.answer("/error")
    with WebSocket(port) as panel:
        panel.send("/token", token), panel.answer("/mask")
        began = time.monotonic()
        for _ in range(2):
            panel.send("/next")
        panel.send("/ping"), panel.answer("/pong")
    assert time.monotonic() - began < 1


def test_an_upload_becomes_a_mask(client, server):
    write("hall.wav", np.full((100, 1), 0.25, np.float32))
    sound = pathlib.Path("hall.wav").read_bytes()
    os.remove("hall.wav")

    def upload(name, body=sound, **headers):
        status, answer, _ = request(client, "POST", "/upload?name=" + name, body, **headers)
        return status, json.loads(answer)

    with PanelControl(client) as panel:
        status, answer = upload("hall.wav")
        assert status == 200, answer
        path = pathlib.Path(answer["mask"])
        folder = path.parent
        assert path.name == "hall.wav" and path.read_bytes() == sound and folder.stat().st_mode & 0o777 == 0o700
        assert panel.answer("/hello")[1]["masks"] == ["one.txt", "two.txt", str(path)]
        assert panel.ask("/mask", 3) == ["/mask", str(path), 3]
        before = {p for p in pathlib.Path().resolve().rglob("*")}
        for name, body, status in [("../up.wav", sound, 400), ("%2e%2e%2fup.wav", sound, 400),
                                   ("/etc/up.wav", sound, 400), (".up.wav", sound, 400), ("a%7fb.wav", sound, 400),
                                   ("a%25r.wav", sound, 400), ("", sound, 400), ("x" * 201 + ".wav", sound, 400),
                                   ("up.conf", b"/convolver/new 1 1 64 64\n", 415), ("up.sofa", sound, 415),
                                   ("up.txt", b"Include: /etc/passwd\n", 422), ("up.txt", b"1\n/etc/passwd\n", 422),
                                   ("up.txt", b"/impulse/read 1 1 1 0 0 0 1 a.wav\n", 422), ("up.txt", b"1\0x\n", 422),
                                   ("up.txt", b"Filter: {a: /etc/passwd}\n", 422), ("up.txt", b"1\n" * 600000, 413),
                                   ("hall.wav", sound, 409), ("none.wav", b"", 411),
                                   ("noise.wav", os.urandom(1000), 422), ("cut.wav", sound[:30], 422)]:
            assert upload(name, body)[0] == status, name
        connection = http.client.HTTPConnection("127.0.0.1", port_of(client), timeout=PATIENCE)
        connection.putrequest("POST", "/upload?name=big.wav")
        connection.putheader("Content-Length", str((1 << 26) + 1))
        connection.endheaders()
        assert connection.getresponse().status == 413
        with socket.create_connection(("127.0.0.1", port_of(client))) as cut:
            cut.sendall(b"POST /upload?name=gone.wav HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 9999\r\n\r\nRIFF"
                        % port_of(client))
        assert {p for p in pathlib.Path().resolve().rglob("*")} == before
        wait_for("the parts of uploads", lambda: [p.name for p in folder.iterdir()] == ["hall.wav"])
        statuses = [upload(f"n{i}.wav")[0] for i in range(12)]
        assert 429 in statuses and 200 in statuses and set(statuses) == {200, 429}, statuses
    client.end()
    assert not folder.exists()


def test_uploads_that_lie_are_refused(run, server):
    """More bytes than were said; samples that fill the memory; a part that a killed session has left."""
    pathlib.Path("one.txt").write_text("1\n")
    folder = pathlib.Path("folder")
    folder.mkdir(), (folder / ".1.wav").touch(), (folder / ".plot.svg").mkdir()
    client = run.jack(server, "one.txt", "--panel", 0, "--panel-folder", "folder", ready=READY)
    write("hall.wav", np.full((100, 1), 0.25, np.float32))
    sound = pathlib.Path("hall.wav").read_bytes()
    for i in range(3):
        with socket.create_connection(("127.0.0.1", port_of(client)), PATIENCE) as more:
            more.sendall(b"POST /upload?name=more.wav HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %d\r\n\r\n"
                         % (port_of(client), len(sound)) + sound + b"x" * i * 500)
            with contextlib.suppress(ConnectionError):
                while more.recv(1000):
                    pass
    # 8 bits: half of the bytes that may come, and twice the samples that a mask may have
    n = (1 << 24) + 2
    header = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + n, b"WAVEfmt ", 16, 1, 1, 48000, 48000, 1, 8, b"data", n)
    status, answer, _ = request(client, "POST", "/upload?name=long.wav", header + bytes(n))
    assert status == 422 and b"2^24" in answer, answer
    assert request(client, "POST", "/upload?name=up.exe", bytes(1 << 23))[0] == 415  # read to its end
    assert request(client, "GET", "/plot?mask=1&kind=step")[0] == 200
    client.end()
    assert sorted(p.name for p in folder.iterdir()) == [".1.wav", ".plot.svg", "more.wav"]


def test_a_plot_makes_no_file_and_follows_no_link(run, server):
    """Others may make names in the folder: a link to a file of the user, or a FIFO that nobody reads."""
    write("one.wav", np.full((64, 2), 0.25, np.float32))
    pathlib.Path("precious").write_text("precious")
    folder = pathlib.Path("folder")
    folder.mkdir()
    client = run.jack(server, "one.wav", "--panel", 0, "--panel-folder", "folder", ready=READY)
    names = [f".plot{client.process.pid}.svg", ".plot.svg"]
    for name in names:
        (folder / name).symlink_to("../precious")
    status, body, _ = request(client, "GET", "/plot?mask=1&kind=step")
    assert status == 200 and b"<svg" in body and b"one.wav" in body
    assert pathlib.Path("precious").read_text() == "precious" and sorted(os.listdir(folder)) == sorted(names)
    for name in names:
        (folder / name).unlink(), os.mkfifo(folder / name)
    assert request(client, "GET", "/plot?mask=1&kind=phase")[0] == 200
    client.end()


def test_slow_bodies_of_strangers_keep_nobody_out(run, server):
    """A byte of a body each second, of 100 requests that are refused, from one address, and silent connections."""
    pathlib.Path("one.txt").write_text("1\n")
    client = run.jack(server, "one.txt", "--panel", "0.0.0.0:0", ready=READY)
    port, token = port_of(client), re.search(r"/#([0-9a-f]{32})$", client.said(), re.M)[1]
    head = b"POST %s HTTP/1.1\r\nHost: %s:%d\r\nContent-Length: 60000000\r\n\r\n"
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE)) for _ in range(100)]
        for i, each in enumerate(slow):
            with contextlib.suppress(ConnectionError):
                each.sendall([b"", head % (b"/upload?name=a.wav", b"127.0.0.1", port),
                              head % (b"/", b"127.0.0.1", port), head % (b"/", b"evil.example", port)][i % 4])
        def comes(address):
            with contextlib.suppress(ConnectionError), WebSocket(port, address=address) as panel:
                panel.send("/token", token)
                return panel.answer()[0] == "/hello"
        for address in ["127.0.0.2", "127.0.0.1"]:
            wait_for("a place", lambda: comes(address), 2)
        began = time.monotonic()
        for each in slow:
            while True:
                with contextlib.suppress(ConnectionError):
                    each.sendall(b"x")
                each.settimeout(0.05)
                try:
                    if not each.recv(4096):
                        break
                except TimeoutError:
                    assert time.monotonic() - began < 8, "a slow body is read for ever"
                except ConnectionError:
                    break
    client.end()


def test_an_upload_that_is_too_large_gets_its_answer(client):
    """The client sends all that it has before it reads."""
    for size in [(1 << 26) + 1, 1 << 21]:
        name = "big.wav" if size > 1 << 26 else "big.exe"
        connection = http.client.HTTPConnection("127.0.0.1", port_of(client), timeout=PATIENCE)
        connection.putrequest("POST", f"/upload?name={name}")
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        connection.send(bytes(1 << 21))
        assert connection.getresponse().status == (413 if size > 1 << 26 else 415)


def test_a_plot_is_drawn_once(client):
    for path, status in [("/plot?mask=1&kind=magnitude", 200), ("/plot?mask=0&kind=step", 200), ("/plot?mask=3", 404),
                         ("/plot?mask=-1", 404), ("/plot?mask=x", 404), ("/plot?kind=usual", 200),
                         ("/plot?mask=1&kind=pie", 400)]:
        got, body, headers = request(client, "GET", path)
        assert got == status and (b"<svg" in body) == (status == 200), (path, got, body[:100])
        assert status != 200 or headers["Content-Type"] == "image/svg+xml" and "default-src 'none'" in headers[
            "Content-Security-Policy"]


def test_the_end_does_not_wait_for_a_plot(client):
    write("long.wav", noise(1 << 22, 2))
    with PanelControl(client) as panel, socket.create_connection(("127.0.0.1", port_of(client)), PATIENCE) as plot:
        panel.send("/mask/add", "long.wav")
        panel.answer("/hello")
        plot.sendall(b"GET /plot?mask=3 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port_of(client))
        time.sleep(0.3)
        began = time.monotonic()
        client.end()
    assert time.monotonic() - began < (5 if SAN else 1.2)


# ---- limits ----------------------------------------------------------------------------------------------------------
def test_a_51st_client_is_told_so_and_a_message_has_4_kib(client):
    port = port_of(client)
    with contextlib.ExitStack() as stack:
        panels = [stack.enter_context(WebSocket(port)) for _ in range(50)]
        assert [panel.status for panel in panels] == [101] * 50
        with WebSocket(port) as more:
            assert more.answer() == ["/error", "/subscribe", "there are 50 clients already; close one"]
            with pytest.raises(EOFError) as end:
                more.answer()
            assert end.value.args == (1008,)
        panels[0].close()

        def comes():
            with WebSocket(port) as panel:
                return panel.answer()[0] == "/hello"
        wait_for("a free place", comes)
    with WebSocket(port) as panel:
        panel.send_text('["' + "x" * 5000 + '"]')
        with pytest.raises(EOFError) as end:
            panel.answer("/none")
        assert end.value.args == (1009,)
    with PanelControl(client) as panel:
        for text in ["{}", "[]", "[1]", '["/gain",[1]]', '["/gain",{}]', '{"/gain":1}', "nonsense", '["/a\\u0000b"]',
                     "[" * 2000, '["/gain",1e999]']:
            panel.send_text(text)
            assert panel.answer()[:2] == ["/error", ""], text


def test_a_flood_takes_a_tenth_of_a_core_and_no_message_is_lost(run, server):
    """Five floods of 20,000 messages, and connections, for a minute with HC_TEST_LONG=1. The trap watches the callback,
    and another client is answered."""
    pathlib.Path("one.txt").write_text("1\n")
    client = run.jack(server, "one.txt", "--panel", 0, ready=READY,
                      env={"LD_PRELOAD": str(BUILD / "tests/callback_trap.so")} if not SAN else {})
    port = port_of(client)
    with contextlib.ExitStack() as stack:
        panels = [stack.enter_context(WebSocket(port)) for _ in range(6)]
        for panel, message in zip(panels, [["/gain", -1], ["/no"], ["/reload"], ["/ping", 1], ["/stats"]]):
            panel.socket.setblocking(False)
            frame = WebSocket.frame(json.dumps(message).encode())
            with contextlib.suppress(BlockingIOError):
                for _ in range(1000):
                    panel.socket.send(frame * 20)
        before, start, delays = processor_s(client), time.monotonic(), []
        while time.monotonic() < start + (60 if os.environ.get("HC_TEST_LONG") else 1):
            began = time.monotonic()
            panels[5].send("/ping", 1), panels[5].answer("/pong")
            delays.append(time.monotonic() - began)
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
        share = (processor_s(client) - before) / (time.monotonic() - start)
        for i in range(120):  # more than may come in a second
            panels[5].send("/ping", i)
        assert [panels[5].answer("/pong")[1] for _ in range(120)] == list(range(120))
    assert share < 0.1 and max(delays) < (2 if SAN else 0.5), (share, max(delays))
    stats = client.end()
    assert stats["late"] == 0 and "trap: the callback reached" not in client.said()
