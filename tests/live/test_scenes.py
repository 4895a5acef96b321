"""`haloconv jack BANK`: sources and a listener that OSC moves, on JACK servers."""

import fcntl
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import termios
import time

import numpy as np
import pytest
from conftest import BUILD, HALOCONV, generator, haloconv, write
from scipy.spatial.transform import Rotation
from test_live import (PATIENCE, STAGE, alone, control_of, live_on_jack, needs_jack, needs_osc, needs_portaudio, offered,
                       osc, ports_of, read_osc, run, shows)
from test_nsm import Manager
from test_nsm import control_of as manager_control
from test_osc import examples

assert alone and run  # fixtures
pytestmark = [needs_jack, needs_osc]
DIRECTIONS = {"ahead": (0, 0), "left": (90, 0), "behind": (180, 0), "right": (-90, 0), "up": (0, 90), "down": (0, -90)}
ENTRY = {name: i for i, name in enumerate(DIRECTIONS)}


def make_bank(name="bank.csv", scale=1 / 8):
    """An entry for each direction. The level of the first output tells which one is heard."""
    lines = ["azimuth,elevation,distance,file"]
    for i, (what, (azimuth, elevation)) in enumerate(DIRECTIONS.items()):
        write(f"{what}-{name}.wav", np.array([[(i + 1) * scale, 0.01]], np.float32))
        lines.append(f"{azimuth},{elevation},1,{what}-{name}.wav")
    pathlib.Path(name).write_text("\n".join(lines) + "\n")
    return name


def start(run, *options, n=1, period=128, bank="bank.csv", by=("--nearest",)):
    make_bank()
    server = run.server(period)
    client = run.jack(server, bank, "--sources", n, "--osc", 0, *by, *options, ready=r"OSC on port \d+")
    return server, client


def level(server, n=1, control=None, **kwargs):
    """The output's level for an input of 1 into the last of n sources, after the messages of a control."""
    if control:
        control.settle()
    x = np.zeros((2400, n))
    x[:, -1] = 1
    return server.play(x, 2, 2400, **kwargs)[-100:, 0].mean()


def heard(server, n=1, control=None, **kwargs):
    """The direction in which the last of n sources is heard."""
    return list(DIRECTIONS)[round(level(server, n, control, **kwargs) * 8) - 1]


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_the_bank_is_told_at_the_start(run):
    server, client = start(run, n=2)
    assert "bank: 6 entries, 2 outputs, " in client.said() and "largest gain -2.5 dB" in client.said()
    assert "--normalise" not in client.said()
    ports = server.ports()
    assert [f"hc:in-{i + 1}" in ports for i in range(3)] == [True, True, False] and "hc:out-2" in ports
    stats = client.end()["scene"]
    assert [source["aed"] for source in stats["sources"]] == [[30, 0, 1], [-30, 0, 1]], stats
    assert stats["listener"] == {"xyz": [0, 0, 0], "ypr": [0, 0, 0]}, stats


def test_a_loud_bank_is_warned_about_or_normalised(run):
    make_bank("loud.csv", 1)
    for options, seen in [([], True), (["--normalise"], False)]:
        client = run.jack(run.server(128), "loud.csv", *options)
        assert ("give --normalise" in client.said()) == seen, client.said()
        client.end()


# Messages that turn the head by 90 degrees to the left; a source ahead is then at the right.
TO_THE_LEFT = [("/listener/ypr", 90.0, 0.0, 0.0), ("/listener/quaternion", 1.0, 0.0, 0.0, 1.0), ("/ypr", 90.0, 0.0, 0.0),
               ("/yaw", 90.0), ("/SceneRotator/ypr", -90.0, 0.0, 0.0), ("/SceneRotator/yaw", -90.0),
               ("/SceneRotator/quaternions", 1.0, 0.0, 0.0, -1.0), ("/quaternion", 1.0, 0.0, 0.0, -1.0),
               ("/rotation", 0.0, 90.0, 0.0), ("/head_pose", 0, 0.0, 0.0, 0.0, 0.0, 90.0, 0.0)]
UP = [("/listener/ypr", 0.0, 90.0, 0.0), ("/ypr", 0.0, -90.0, 0.0), ("/SceneRotator/ypr", 0.0, 90.0, 0.0),
      ("/SceneRotator/quaternions", 1.0, 0.0, 1.0, 0.0), ("/rotation", -90.0, 0.0, 0.0)]
# The head leans to the right shoulder: a source at the left is then above.
TO_THE_RIGHT_SHOULDER = [("/listener/ypr", 0.0, 0.0, 90.0), ("/ypr", 0.0, 0.0, 90.0),
                         ("/SceneRotator/ypr", 0.0, 0.0, -90.0), ("/SceneRotator/quaternions", 1.0, -1.0, 0.0, 0.0),
                         ("/rotation", 0.0, 0.0, -90.0), ("/quaternion", 1.0, -1.0, 0.0, 0.0)]


def test_every_dialect_turns_the_head_its_way(run):
    server, client = start(run)
    with control_of(client) as control:
        for messages, place, after in [(TO_THE_LEFT, (0.0, 0.0, 1.0), "right"), (UP, (0.0, 0.0, 1.0), "down"),
                                       (TO_THE_RIGHT_SHOULDER, (90.0, 0.0, 1.0), "down")]:
            control.send("/source/1/aed", *place)
            for message in messages:
                control.send("/listener/ypr", 0.0, 0.0, 0.0)
                control.send(*message)
                azimuth, elevation, _ = control.ask("/source/1/relative")[1:]
                want = DIRECTIONS[after]
                assert abs(elevation - want[1]) < 0.01, (message, azimuth, elevation)
                assert want[1] or abs(azimuth - want[0]) < 0.01, (message, azimuth, elevation)
            assert heard(server) == after, messages[-1]
    client.end()


def head_of(path, v):
    """The head's rotation by SciPy, in capitals about the turned axes, else about the world's; from the sources of the
    programs that the messages are made for."""
    rotation = Rotation.from_euler
    return {"/listener/ypr": lambda: rotation("ZYX", [v[0], -v[1], v[2]], degrees=True),
            "/ypr": lambda: rotation("ZYX", v, degrees=True),
            "/SceneRotator/ypr": lambda: rotation("xyz", v[::-1], degrees=True).inv(),
            "/rotation": lambda: rotation("xyz", [v[2], -v[0], -v[1]], degrees=True).inv(),
            "/head_pose": lambda: rotation("xyz", [v[6], -v[4], -v[5]], degrees=True).inv(),
            "/listener/quaternion": lambda: Rotation.from_quat([*v[1:], v[0]]),
            "/SceneRotator/quaternions": lambda: Rotation.from_quat([*v[1:], v[0]]).inv(),
            "/quaternion": lambda: Rotation.from_quat([*v[1:], v[0]]).inv()}[path]()


def test_sources_are_where_scipy_has_them(run):
    """Random places, heads and fronts; the answer is in single precision."""
    random = generator(5)
    _, client = start(run, n=3)
    counts = {"/listener/quaternion": 4, "/SceneRotator/quaternions": 4, "/quaternion": 4, "/head_pose": 7}
    with control_of(client) as control:
        front = Rotation.identity()
        for i in range(200):
            path = random.choice(["/listener/ypr", "/ypr", "/SceneRotator/ypr", "/rotation", *counts])
            values = random.uniform(-1, 1, counts.get(path, 3)) * (1 if counts.get(path) == 4 else 180)
            values = values.astype(np.float32).astype(float)
            at, place = random.uniform(-5, 5, (2, 3)).astype(np.float32).astype(float)
            control.send(path, *map(float, values))
            control.send("/listener/xyz", *map(float, at))
            control.send("/source/2/xyz", *map(float, place))
            head = head_of(path, values)
            if i % 7 == 0:
                control.send("/recentre")
                front = head
            got = control.ask("/source/2/relative")[1:]
            want = (front.inv() * head).inv().apply(place - at)
            azimuth, elevation = np.radians(got[:2])
            seen = got[2] * np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth),
                                      np.sin(elevation)])
            assert np.abs(seen - want).max() < 2e-5, (i, path, seen, want)
            ypr = control.ask("/listener/ypr")[1:]
            error = (front.inv() * head).inv() * head_of("/listener/ypr", ypr)
            assert error.magnitude() < 1e-4, (i, path, ypr)
    client.end()


def test_sources_move_and_answer(run):
    server, client = start(run, "--place", "2:90,0", "--place", "1:0,45,2", n=2)
    with control_of(client) as control:
        assert control.ask("/source/1/aed") == ["/source/1/aed", 0, 45, 2]
        assert heard(server, 2) == "left"
        for message, after in [(("/source/2/azimuth", 180), "behind"), (("/source/2/elevation", 90.0), "up"),
                               (("/source/2/xyz", 0.0, -3.0, 0.0), "right"), (("/source/2/entry", 1), "left"),
                               (("/source/2/aed", 0.0, -80.0, 2.0), "down")]:
            control.send(*message)
            assert heard(server, 2, control) == after, message
        assert control.ask("/source/2/distance") == ["/source/2/distance", 2]
        assert control.ask("/source/2/entry") == ["/source/2/entry", -1]
        control.send("/source/2/gain", -20.0)
        assert level(server, 2, control) == pytest.approx((ENTRY["down"] + 1) / 80, rel=1e-4)
        control.send("/source/2/gain", "off")
        assert level(server, 2, control) == 0
        scene = control.stats()["scene"]
        assert scene["sources"][1]["gain_db"] is None and scene["sources"][0]["gain_db"] == 0, scene
    client.end()


def test_a_source_between_two_entries_plays_both_unless_it_plays_the_nearest(run):
    """Halfway between ahead and left, which begin together."""
    for options, want in [((), 1.5 / 8), (("--mix",), 1.5 / 8), (("--nearest", "--place", "1:46,0"), 2 / 8)]:
        server, client = start(run, "--place", "1:45,0", *options, by=())
        assert level(server) == pytest.approx(want, rel=1e-3), options
        client.end()


def test_recentring_makes_the_present_orientation_the_front(run):
    server, client = start(run)
    with control_of(client) as control:
        control.send("/ypr", 90.0, 0.0, 0.0)
        assert heard(server, 1, control) == "right"
        control.send("/recentre")
        assert heard(server, 1, control) == "ahead"
        control.send("/ypr", 180.0, 0.0, 0.0)
        assert heard(server, 1, control) == "right"
        assert control.ask("/listener/ypr")[1] == pytest.approx(90, abs=1e-3)
    client.end()


def test_distance_is_a_gain(run):
    server, client = start(run, "--distance-gain", "2,0.5")
    ahead = 1 / 8
    with control_of(client) as control:
        for distance, gain in [(2.0, 1), (4.0, 0.5), (1.0, 2), (0.25, 4)]:
            control.send("/source/1/distance", distance)
            assert level(server, 1, control) == pytest.approx(ahead * gain, rel=1e-5)
        control.send("/listener/xyz", -3.75, 0.0, 0.0)
        assert level(server, 1, control) == pytest.approx(ahead / 2, rel=1e-5)
        control.send("/distance-gain", 1.0)
        assert level(server, 1, control) == pytest.approx(ahead / 4, rel=1e-5)
        control.send("/distance-gain", "off")
        assert level(server, 1, control) == pytest.approx(ahead, rel=1e-5)
    client.end()


# For each address of another renderer: its arguments, and where source 2, or source 1 of a plug-in with one, then is as the
# listener hears it. It was at the right, 1 m away.
FAR = 2 ** 0.5
MOVES = {"/adm/obj/N/azim": ([90.0], (90, 0, 1)), "/adm/obj/N/elev": ([30.0], (-90, 30, 1)),
         "/adm/obj/N/dist": ([0.5], (-90, 0, 0.5)), "/adm/obj/N/aed": ([30.0, 40.0, 0.5], (30, 40, 0.5)),
         "/adm/obj/N/x": ([-2.0], (90, 0, 2)), "/adm/obj/N/y": ([1.0], (-45, 0, FAR)), "/adm/obj/N/z": ([1.0], (-90, 45, FAR)),
         "/adm/obj/N/xy": ([-1.0, -1.0], (135, 0, FAR)), "/adm/obj/N/xyz": ([-1.0, 0.0, 1.0], (90, 45, FAR)),
         "/MultiEncoder/azimuthI": ([90.0], (90, 0, 1)), "/MultiEncoder/elevationI": ([30.0], (-90, 30, 1)),
         "/StereoEncoder/azimuth": ([90.0], (90, 0, 1)), "/StereoEncoder/elevation": ([30.0], (-90, 30, 1)),
         "/StereoEncoder/quaternions": ([1.0, 0.0, 0.0, 1.0], (90, 0, 1)), "/RoomEncoder/sourceX": ([1.0], (-45, 0, FAR)),
         "/RoomEncoder/sourceY": ([2.0], (90, 0, 2)), "/RoomEncoder/sourceZ": ([1.0], (-90, 45, FAR)),
         "/adm/lis/xyz": ([0.0, 1.0, 0.0], (-135, 0, FAR)), "/xyz": ([1.0, 0.0, 0.0], (-135, 0, FAR)),
         "/RoomEncoder/listenerX": ([1.0], (-135, 0, FAR)), "/RoomEncoder/listenerY": ([1.0], (-90, 0, 2)),
         "/RoomEncoder/listenerZ": ([1.0], (-90, -45, FAR))}
# Its argument, and the answer to this question.
GAINS = {"/adm/obj/N/gain": (0.5, "gain", -6.0206), "/MultiEncoder/gainI": (-6.0, "gain", -6),
         "/adm/obj/N/mute": (1, "mute", 1), "/MultiEncoder/muteI": (1.0, "mute", 1)}
# Its arguments, and those of a message that head_of knows; of one number: the index of it.
TURNS = {"/adm/lis/ypr": ([30.0, 20.0, 10.0], "/listener/ypr", None), "/SceneRotator/ypr": ([30.0, 20.0, 10.0], "/SceneRotator/ypr", None),
         "/SceneRotator/yaw": ([30.0], "/SceneRotator/ypr", 0), "/SceneRotator/pitch": ([30.0], "/SceneRotator/ypr", 1),
         "/SceneRotator/roll": ([30.0], "/SceneRotator/ypr", 2), "/ypr": ([30.0, 20.0, 10.0], "/ypr", None),
         "/yaw": ([30.0], "/ypr", 0), "/pitch": ([30.0], "/ypr", 1), "/roll": ([30.0], "/ypr", 2),
         "/SceneRotator/quaternions": ([0.5, 0.1, 0.2, 0.3], "/SceneRotator/quaternions", None),
         "/SceneRotator/qw": ([0.5], "/SceneRotator/quaternions", 0), "/SceneRotator/qx": ([0.5], "/SceneRotator/quaternions", 1),
         "/SceneRotator/qy": ([0.5], "/SceneRotator/quaternions", 2), "/SceneRotator/qz": ([0.5], "/SceneRotator/quaternions", 3),
         "/quaternion": ([0.5, 0.1, 0.2, 0.3], "/quaternion", None), "/rotation": ([30.0, 20.0, 10.0], "/rotation", None),
         "/head_pose": ([0, 9.0, 9.0, 9.0, 30.0, 20.0, 10.0], "/head_pose", None)}
STILL = {"/SceneRotator/ypr": [0.0, 0.0, 0.0], "/ypr": [0.0, 0.0, 0.0], "/SceneRotator/quaternions": [1.0, 0.1, 0.2, 0.3]}


def dialects():
    """The addresses in the page's table, and those of them that have no effect."""
    page = (BUILD / "haloconv-scenes.7").read_text().replace("\\-", "-")
    table = page[page.index("of those renderers:"):]
    rows = re.findall(r"^  (/\S+) *(.*)$", table[:table.index(".EE")], re.M)
    return [path for path, _ in rows], [path for path, means in rows if means == "no effect"]


def test_the_table_of_dialects_has_every_address_of_the_code():
    paths, silent = dialects()
    code = (pathlib.Path(__file__).parents[2] / "host/live/remotes/scene_messages.c").read_text()
    known = re.findall(r'^    \{"(/[^"]+)", ', code, re.M)
    ours = ("/source/", "/listener/", "/recent", "/distance-gain")
    assert sorted(paths) == sorted(p.replace("#", "N").replace("~", "I") for p in known if not p.startswith(ours))
    assert sorted(paths) == sorted([*MOVES, *GAINS, *TURNS, *silent])


def test_every_address_of_the_table_does_what_it_says(run):
    place = np.array([1.0, -1.0, 0.5])
    _, client = start(run, n=2)
    with control_of(client) as control:
        def begin(*places):
            for message in [*places, ("/source/*/gain", 0.0), ("/source/*/mute", 0), ("/listener/xyz", 0.0, 0.0, 0.0),
                            *((path, *values) for path, values in STILL.items()), ("/listener/ypr", 0.0, 0.0, 0.0)]:
                control.send(*message)

        def send(path, *values):
            control.send(re.sub("I$", "1", path.replace("/N/", "/2/")), *values)

        for path, (values, where) in MOVES.items():
            n = 1 if path.startswith(("/StereoEncoder", "/RoomEncoder/source")) else 2
            begin(("/source/*/aed", -90.0, 0.0, 1.0))
            send(path, *values)
            assert control.ask(f"/source/{n}/relative")[1:] == pytest.approx(where, abs=1e-4), path
        for path, (value, question, answer) in GAINS.items():
            begin()
            send(path, value)
            assert control.ask(f"/source/2/{question}")[1:] == pytest.approx([answer], abs=1e-4), path
        for path, (values, whole, index) in TURNS.items():
            begin(("/source/2/xyz", *map(float, place)))
            send(path, *values)
            if index is not None:
                values = [*STILL[whole][:index], *values, *STILL[whole][index + 1:]]
            azimuth, elevation, distance = control.ask("/source/2/relative")[1:]
            want = head_of(whole, values).inv().apply(place)
            assert azimuth == pytest.approx(np.degrees(np.arctan2(want[1], want[0])), abs=1e-3), path
            assert np.sin(np.radians(elevation)) * distance == pytest.approx(want[2], abs=1e-4), path
        begin(("/source/*/aed", -90.0, 0.0, 1.0))
        for path in dialects()[1]:
            send(path, 0.5), send(path, "text")
        assert control.ask("/source/2/relative")[1:] == pytest.approx([-90, 0, 1], abs=1e-4)  # and no error before
        for message in [("/adm/obj/2/xyz", 0.25, 0.5, 0.0), ("/adm/obj/1/gain", 0.25), ("/adm/obj/1/mute", 1)]:
            control.send(*message)
            assert control.ask(message[0]) == [message[0], *(pytest.approx(v, abs=1e-6) for v in message[1:])]
        for message, why in [(("/adm/obj/1/gain", -0.1), "a linear gain needs 0 or more"),
                             (("/adm/obj/3/azim", 0.0), "this source does not exist; the session's 2 sources count from 1"),
                             (("/MultiEncoder/azimuth1", "left"), "MultiEncoder/azimuth needs degrees"),
                             (("/StereoEncoder/quaternions", 0.0, 0.0, 0.0, 0.0),
                              "a quaternion needs w, x, y and z, not all of them 0")]:
            assert control.ask(*message) == ["/error", message[0], why]
    client.end()


def test_a_muted_source_is_silent_and_keeps_its_gain(run):
    server, client = start(run)
    with control_of(client) as control:
        control.send("/source/1/gain", -20.0), control.send("/source/1/mute", 1)
        assert level(server) == 0
        control.send("/source/1/mute", 0)
        assert level(server) == pytest.approx(1 / 80, rel=1e-4)
    client.end()


def test_wrong_messages_change_nothing(run):
    server, client = start(run, n=2)
    none = "this source does not exist; the session's 2 sources count from 1"
    with control_of(client) as control:
        for message, why in [(("/source/3/azimuth", 0.0), none), (("/source/0/azimuth", 0.0), none),
                             (("/source/1/azimuth", "left"), "azimuth needs degrees"),
                             (("/source/1/azimuth", float("nan")), "azimuth needs degrees"),
                             (("/source/1/elevation", 91.0), "an elevation needs degrees from -90 to 90"),
                             (("/source/1/distance", -1.0), "a distance needs metres from 0 to 10000"),
                             (("/source/1/aed", 0.0, 0.0),
                              "aed needs azimuth and elevation in degrees and the distance in metres"),
                             (("/source/1/xyz", 0.0, 0.0, float("inf")), "xyz needs x, y and z in metres"),
                             (("/source/1/xyz", 0.0, 0.0, 1e5), "a position needs metres from -10000 to 10000"),
                             (("/source/1/gain", 61), "a source's gain needs at most 60 dB, or off"),
                             (("/source/1/entry", -1), "an entry needs a whole number from 0"),
                             (("/source/1/entry", 0.5), "an entry needs a whole number from 0"),
                             (("/source/1/entry", 6), "the bank has no entry 6; its 6 entries count from 0"),
                             (("/ypr", 1.0, 2.0), "ypr needs yaw, pitch and roll in degrees"),
                             (("/quaternion", 0.0, 0.0, 0.0, 0.0),
                              "a quaternion needs w, x, y and z, not all of them 0"),
                             (("/distance-gain", -1.0),
                              "the gain by distance needs metres from 0.001 to 10000, or off"),
                             (("/distance-gain", 1.0, 1e-40),
                              "the gain by distance needs metres from 0.001 to 10000, or off"),
                             (("/source/3/aed",), "the session has no source 3"),
                             (("/source/0/aed",), "the session has no source 0"),
                             (("/source/1/relative", 1.0),
                              "relative needs no argument: its answer is the position that the listener hears")]:
            assert control.ask(*message) == ["/error", message[0], why]
        for path in ["/source/1/no", "/source/x/aed", "/source/1", "/SceneRotator/no"]:
            assert control.ask(path, 1.0)[:2] == ["/error", path]
        assert control.ask("/source/1/aed") == ["/source/1/aed", 30, 0, 1]
        assert control.ask("/wet") == ["/wet", 0]
    client.end()


def test_wrong_options_are_refused(folder):
    make_bank()
    for options, why in [(["--place", "0:1,2"], "needs N:AZIMUTH,ELEVATION"), (["--place", "1:1,91"], "elevation"),
                         (["--place", "1:1,2,3,4"], "needs N:AZIMUTH"), (["--place", "1:"], "needs N:AZIMUTH"),
                         (["--distance-gain", "0"], "needs one or two distances"), (["--sources", 0], "from 1 to 1024"),
                         (["--distance-gain", "1,x"], "needs one or two distances"), (["--grid", 50], "from 0.5 to 45"),
                         (["--glide", 1001], "from 0 to 1000")]:
        done = haloconv("jack", "bank.csv", *options)
        assert done.returncode == 2 and why in done.stderr, (options, done.stderr)


def test_a_preset_has_sources(run):
    make_bank()
    server = run.server(128)
    pathlib.Path("scene.conf").write_text(f"mask = bank.csv\nsources = 2\nplace = 2:-90,0\nplace = 1:0,90\nmix = yes\n"
                                          f"server = {server.name}\nname = hc\nosc = 0\n")
    client = run.client("jack", "--preset", "./scene.conf", ready=r"OSC on port \d+")
    assert heard(server, 2) == "right"
    client.end()


def test_positions_and_distances_are_saved_as_a_preset(run):
    """In the session, and by `haloconv run`. What no preset holds is named."""
    env = {"XDG_CONFIG_HOME": os.path.abspath("config")}
    make_bank()
    client = run.jack(run.server(128), "bank.csv", "--sources", 2, "--osc", 0, "--mix", env=env, ready=r"OSC on port \d+")

    def state():
        assert control.ask("/preset/save", "check", "replace")[0] == "/preset/saved"
        lines = pathlib.Path("config/haloconv/check.conf").read_text().splitlines()
        return ([round(v, 3) for n in (1, 2) for v in control.ask(f"/source/{n}/aed")[1:]],
                [line for line in lines if "distance-gain" in line])

    with control_of(client) as control:
        for message in [["/source/1/aed", 30.5, -10, 2.25], ["/source/2/aed", -170, 80, 0.5], ["/distance-gain", 2, 0.25]]:
            control.send(*message)
        want = state()
        assert want == ([30.5, -10, 2.25, -170, 80, 0.5], ["distance-gain = 2,0.25"])
        assert control.ask("/preset/save", "stage") == ["/preset/saved", "stage", "saved: haloconv run stage"]
        lines = pathlib.Path("config/haloconv/stage.conf").read_text().splitlines()
        assert "sources = 2" in lines and "mix = yes" in lines and lines.count("place = 1:30.5,-10,2.25") == 1, lines
        for message in [["/source/1/aed", 0, 0, 1], ["/source/2/aed", 0, 0, 1], ["/distance-gain", "off"]]:
            control.send(*message)
        assert state() != want
        assert control.ask("/preset", "stage")[0] == "/mask"
        assert state() == want
        for i, message in enumerate([["/source/1/gain", -3], ["/source/1/mute", 1], ["/source/2/entry", 1],
                                     ["/listener/xyz", 1, 0, 0]]):
            control.send(*message)
            assert control.ask("/preset/save", f"more{i}")[2].endswith(
                "; without gains, mutes and entries of sources, and the listener"), message
            for undo in [["/source/1/gain", 0], ["/source/1/mute", 0], ["/source/2/aed", 0, 0, 1], ["/listener/xyz", 0, 0, 0]]:
                control.send(*undo)
            assert control.ask("/preset/save", "check", "replace")[2] == "saved: haloconv run check"
    client.end()
    client = run.client("run", "stage", env=env, ready=r"OSC on port \d+")
    with control_of(client) as control:
        assert state() == want
    client.end()


def test_a_configuration_has_sources_beside_other_lines(run):
    """Two sources, and an input that a line of jconvolver's connects; the command line has the last word on places."""
    make_bank()
    pathlib.Path("scene.conf").write_text("/convolver/new 3 2 64 4096\n/bank/read bank.csv\n/source/new 1 1 180 0\n"
                                          "/source/new 2 1 90 0 2\n/impulse/dirac 3 1 1 0\n")
    server = run.server(128)
    client = run.jack(server, "scene.conf", "--osc", 0, "--place", "1:-90,0", ready=r"OSC on port \d+")
    with control_of(client) as control:
        assert control.ask("/source/1/aed") == ["/source/1/aed", -90, 0, 1]
        assert control.ask("/source/2/aed") == ["/source/2/aed", 90, 0, 2]
        assert heard(server, 2) == "left"
        control.send("/listener/ypr", 180.0, 0.0, 0.0)
        assert heard(server, 2, control) == "right"
        assert level(server, 3) == 1
    client.end()
    done = server.haloconv("jack", "scene.conf", "--sources", 3, "--server", server.name)
    assert done.returncode == 1 and "has 2 sources, and --sources asks for 3" in done.stderr, done.stderr


def test_a_sound_file_is_a_bank_of_one_entry(run):
    write("one.wav", np.array([[0.25, 0.5]], np.float32))
    server = run.server(128)
    client = run.jack(server, "one.wav", "--sources", 2, "--osc", 0, ready=r"OSC on port \d+")
    assert "bank: 1 entry, 2 outputs" in client.said()
    with control_of(client) as control:
        control.send("/source/2/gain", -20.0)
        assert level(server, 2, control) == pytest.approx(0.025, rel=1e-5)
        why = "the bank has no entry 1; its 1 entries count from 0"
        assert control.ask("/source/2/entry", 1) == ["/error", "/source/2/entry", why]
        assert level(server, 2, control) == pytest.approx(0.025, rel=1e-5)
    client.end()


@pytest.mark.skipif(not shutil.which("oscsend"), reason="no liblo-tools; make setup-test installs them")
def test_the_examples_of_the_page_work(run):
    make_bank()
    [[start, *lines]] = examples("haloconv-scenes.7")
    words = start.split()
    assert words[:3] == ["haloconv", "jack", "kemar.sofa"] and words[-3:] == ["--osc", "9000", "&"], words
    client = run.jack(run.server(128), "bank.csv", *words[3:-2], 0, ready=r"OSC on port \d+")
    assert "interpolated" in client.said() and "largest gain +0.0 dB" in client.said(), client.said()
    with control_of(client) as control:
        for line in lines:
            subprocess.run(line.replace("9000", str(control.port)).split(), check=True)
        assert control.ask("/source/1/relative")[1:] == pytest.approx([15, 0, 1], abs=1e-4)
        assert control.ask("/source/2/relative")[1] == pytest.approx(np.degrees(np.arctan2(-1, 2)) - 30, abs=1e-4)
    client.end()


def test_without_sources_there_are_no_scenes(run):
    write("one.wav", np.array([[0.25, 0.5]], np.float32))
    client = run.jack(run.server(128), "one.wav", "--osc", 0, ready=r"OSC on port \d+")
    with control_of(client) as control:
        why = "the session has no sources; start it with a bank and --sources"
        assert control.ask("/ypr", 0.0, 0.0, 0.0) == ["/error", "/ypr", why]
        assert "scene" not in control.stats()
    client.end()


def test_other_messages_arrive_beside_a_stream_of_a_head_tracker(run):
    """The thread that takes the head's messages passes the others on, also those inside a bundle."""
    server, client = start(run)
    with control_of(client) as control:
        for i in range(200):
            parts = [osc("/ypr", float(i % 90), 0.0, 0.0), osc("/gain", -float(i % 20)), osc("/source/1/gain", -1.0)]
            control.raw(b"#bundle\0" + bytes(7) + b"\1" + b"".join(len(p).to_bytes(4, "big") + p for p in parts))
            if i % 10 == 9:
                assert control.ask("/gain")[1] == pytest.approx(-(i % 20), abs=1e-4)
                assert control.ask("/listener/ypr")[1] == pytest.approx(i % 90, abs=1e-3)
    client.end()


def test_a_flood_of_messages_gets_a_share_of_a_processor(run):
    """A head turn of 32 sources costs more than its message, one packet has thousands of them, and some have none."""
    _, client = start(run, n=32)

    def busiest():
        """Seconds of processor time of each thread."""
        tasks = pathlib.Path(f"/proc/{client.process.pid}/task").iterdir()
        stats = {task.name: (task / "stat").read_text().rsplit(") ", 1)[1].split() for task in tasks}
        return {name: (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK") for name, words in stats.items()}

    head = osc("/ypr", 1.0, 2.0, 3.0)
    with control_of(client) as control:
        for packet in [b"#bundle\0" + bytes(7) + b"\1" + 1800 * (len(head).to_bytes(4, "big") + head), b""]:
            before, begin = busiest(), time.monotonic()
            while (seconds := time.monotonic() - begin) < 1:
                for _ in range(10):
                    control.raw(packet)
            share = max(used - before.get(name, 0) for name, used in busiest().items()) / seconds
            assert share < 0.6, (len(packet), share)
    client.end()


@needs_portaudio
def test_live_plays_sources_too(run):
    make_bank()
    server = run.server(128)
    if not offered(server):
        pytest.skip("this PortAudio has no JACK host API")
    client = live_on_jack(run, server, "bank.csv", "--sources", 2, "--osc", 0, "--place", "2:180,0")
    client.says("OSC on port")
    assert "bank: 6 entries, 2 outputs, " in client.said()
    ports = ports_of(server)
    with control_of(client) as control:
        assert heard(server, 2, **ports) == "behind"
        control.send("/yaw", 90.0)
        assert heard(server, 2, control, **ports) == "left"
    client.end()


@needs_portaudio
def test_sources_stay_where_they_are_when_the_device_comes_back(run):
    """The program starts again with another device of PortAudio, and its OSC port, front and sources are those before."""
    make_bank()
    server = run.server(128)
    if not offered(server):
        pytest.skip("this PortAudio has no JACK host API")
    client = live_on_jack(run, server, "bank.csv", "--sources", 2, "--osc", 0, "--reconnect")
    client.says("OSC on port")
    with control_of(client) as control:
        for message in [("/source/1/aed", 20.0, -30.0, 3.0), ("/source/1/gain", "off"), ("/source/2/entry", 4),
                        ("/source/2/gain", -6.0), ("/source/2/mute", 1), ("/distance-gain", 2.0), ("/listener/xyz", 1.0, 2.0, 3.0),
                        ("/ypr", 90.0, 0.0, 0.0), ("/recentre",)]:
            control.send(*message)
        before = control.stats()["scene"]
        server.kill()
        client.says("went away; waiting for its return")
        server.start()
        client.says(r"is back[^$]*OSC on port \d+")
        assert control.stats()["scene"] == before
        control.send("/ypr", 100.0, 0.0, 0.0)
        assert control.ask("/listener/ypr")[1] == pytest.approx(10, abs=1e-3)
        assert control.ask("/source/2/entry") == ["/source/2/entry", 4]
    client.end()


def received(manager):
    packet, manager.client = manager.socket.recvfrom(65536)
    return read_osc(packet)[0]


def test_a_session_manager_restores_sources(run):
    """A manager starts clients without options: the number of sources is in its session, too."""
    make_bank()
    manager = Manager(run.server(128))
    folder = pathlib.Path("haloconv.nXYZ").resolve()

    def opened(*options):
        client = run.client("jack", *options, env=manager.env, ready=None)
        manager.welcome()
        manager.opens(folder, "haloconv.nXYZ")
        assert manager.receives("/reply") == ["/nsm/client/open", "plays"]
        return client, manager_control(manager)

    client, control = opened("bank.csv", "--sources", 3)
    control.send("/source/3/aed", 90.0, 0.0, 2.0)
    control.ask("/wet")
    while received(manager) != "/nsm/client/is_dirty":
        pass
    manager.says("/nsm/client/save")
    while received(manager) != "/nsm/client/is_clean":
        pass
    client.end()
    client, control = opened()
    assert control.ask("/source/3/aed") == ["/source/3/aed", 90, 0, 2]
    assert "haloconv.nXYZ:in-3" in manager.server.ports()
    client.end()
    manager.socket.close()


def test_a_session_manager_restores_far_sources_and_fewer_ones(run):
    """The scene of the session has a source of each input, and the configuration has fewer."""
    make_bank()
    pathlib.Path("two.conf").write_text("/convolver/new 2 2 64 4096\n/bank/read bank.csv\n/source/new 1 1 180 0\n"
                                        "/source/new 2 1 90 0 20000\n")
    manager = Manager(run.server(128))
    folder = pathlib.Path("haloconv.nXYZ").resolve()
    for options in [("bank.csv", "--sources", 3, "--place", "3:540,0"), ()]:
        client = run.client("jack", *options, env=manager.env, ready=None)
        manager.welcome()
        manager.opens(folder, "haloconv.nXYZ")
        assert manager.receives("/reply") == ["/nsm/client/open", "plays"]
        control = manager_control(manager)
        if options:
            assert control.ask("/source/3/aed")[2:] == [0, 1] and abs(control.ask("/source/3/aed")[1]) == 180
            control.send("/source/1/xyz", 10000.0, 10000.0, 0.0)
            control.send("/source/1/azimuth", 90.0)
            assert control.ask("/mask", "two.conf") == ["/mask", "two.conf", 0]
            while received(manager) != "/nsm/client/is_dirty":
                pass
            manager.says("/nsm/client/save")
            while received(manager) != "/nsm/client/is_clean":
                pass
        assert control.ask("/source/1/aed") == ["/source/1/aed", 90, 0, pytest.approx(20000 / 2 ** 0.5)]
        client.end()
    assert "haloconv.nXYZ:in-3" not in client.said()
    manager.socket.close()


def test_a_key_recentres_and_the_status_line_shows_the_head(run):
    make_bank()
    main, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 200, 0, 0))
    server = run.server(256)
    port = free_port()
    shown = run.process([str(HALOCONV), "jack", "bank.csv", "--sources", "3", "--osc", str(port), "--server", server.name],
                        stdin=terminal, stderr=terminal, start_new_session=True,
                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    shows(main, rb"^bank\.csv \| 3 sources, head 0 0 0 \| xruns ")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(osc("/ypr", -40.0, 20.0, 0.0), ("127.0.0.1", port))
    shows(main, rb"^bank\.csv \| 3 sources, head -40 -20 0 \| xruns ")
    os.write(main, b"c")
    shows(main, rb"^bank\.csv \| 3 sources, head 0 0 0 \| xruns ")
    os.write(main, b"q")
    assert shown.wait(60) == 0
    os.close(main), os.close(terminal)


def test_a_broken_bank_ends_with_one_error(run):
    server = run.server(128)
    pathlib.Path("broken.csv").write_text("azimuth,elevation,file\n0,0,no.wav\n")
    pathlib.Path("broken.sofa").write_bytes(b"no")
    for name, what in [("broken.csv", "no.wav"), ("broken.sofa", "broken.sofa")]:
        done = server.haloconv("jack", name, "--server", server.name)
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and what in done.stderr, done.stderr


def test_another_bank_takes_over_where_the_sources_are(run):
    server, client = start(run)
    make_bank("other.csv", 1 / 16)
    with control_of(client) as control:
        control.send("/source/1/azimuth", 90.0)
        assert level(server, 1, control) == pytest.approx(2 / 8, rel=1e-5)
        assert control.ask("/mask", "other.csv") == ["/mask", "other.csv", 0]
        assert level(server, silence=10000) == pytest.approx(2 / 16, rel=1e-5)
    client.end()


def moves(server, client, n):
    """[n][3]: cycles from that of the packet to that of the change, first sample, frames up to the next cycle."""
    port = re.search(r"OSC on port (\d+)", client.said()).group(1)
    packets = [osc("/source/1/azimuth", azimuth).hex() for azimuth in (90.0, -90.0)]
    done = server.tool(STAGE, "moves", server.name, "hc", "hc", port, n, *packets)
    assert done.returncode == 0, done.stderr
    return np.array([line.split() for line in done.stdout.splitlines()], np.int64)


def test_a_packet_is_heard_with_the_next_block(run):
    """From its first sample on. A packet that comes just before a cycle, or on a busy machine, may be later."""
    server, client = start(run, "--glide", 0, period=256)
    cycles, sample, ahead = moves(server, client, 60).T
    print(f"    cycles to the change: {np.bincount(cycles)}; frames: median {np.median((cycles - 1) * 256 + ahead):.0f}")
    assert (sample == 0).all(), sample
    assert np.mean(cycles <= 1) >= 0.8, (cycles, ahead)
    client.end()


def test_a_control_thread_that_hangs_delays_no_source(run):
    """It waits for a terminal here, a pipe that nobody reads."""
    make_bank()
    server, port = run.server(128), free_port()
    get, put = os.pipe()
    client = run.process([str(HALOCONV), "jack", "bank.csv", "--osc", str(port), "--server", server.name, "--name", "hc"],
                         stdin=subprocess.DEVNULL, stderr=put)
    said = b""
    while b"OSC on port" not in said:
        said += os.read(get, 65536)
    os.set_blocking(put, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(put, b"x" * 4096)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(put, b"x")
    os.set_blocking(put, True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        def send(*message):
            sock.sendto(osc(*message), ("127.0.0.1", port))
        send("/no"), send("/bypass")
        sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            sock.recv(65536)  # the refusal cannot be printed
        send("/source/1/azimuth", 90.0)
        assert heard(server, silence=10000) == "left"  # nothing answers that the message was obeyed
        send("/ypr", 180.0, 0.0, 0.0)
        assert heard(server, silence=10000) == "right"
        sock.settimeout(PATIENCE)
        os.close(put)
        os.read(get, 65536)  # all that the pipe holds
        assert read_osc(sock.recv(65536))[0] == "/error" and read_osc(sock.recv(65536)) == ["/bypass", 0]
    client.terminate()
    while os.read(get, 65536):
        pass
    assert client.wait(60) == 0
    os.close(get)
