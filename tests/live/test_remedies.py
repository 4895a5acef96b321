"""What a live session says about the system around it: refused priorities, ambiguous names of devices."""

import os
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD, HALOCONV, SAN, noise, refused, write
from test_live import alone, devices, needs_jack, needs_portaudio, response, run

assert alone and run  # fixtures

LINES = ["@audio - rtprio 95", "@audio - memlock unlimited", "usermod -aG audio", "rtkit"]
UNPRIVILEGED = ["setpriv", "--bounding-set=-sys_nice,-ipc_lock", "prlimit", "--rtprio=0", "--memlock=65536"]


def is_granted(*wrapper):
    return subprocess.run([*wrapper, "chrt", "-f", "10", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


@needs_jack
@pytest.mark.parametrize("is_realtime", [False, True], ids=["of_the_server", "of_the_user"])
def test_a_lack_of_real_time_priority_names_the_lines_that_grant_it(run, is_realtime):
    """The server runs without it; or the server has it, and the system refuses it to the client."""
    if is_realtime and (not is_granted() or is_granted(*UNPRIVILEGED)):
        pytest.skip("the system grants real-time priority to all, or to nobody")
    server = run.server(256, synchronous=False)
    if is_realtime:
        server.process.terminate(), server.process.wait()
        server.command[1] = "-R"
        server.start()
    words = [*(UNPRIVILEGED if is_realtime else []), HALOCONV, "jack", write("h.wav", response(100))]
    client = run.client(*words[1:], "--server", server.name, program=words[0], ready=None)
    client.says(f"the {'system refuses' if is_realtime else 'server runs without'} real-time priority")
    if is_realtime and not SAN:  # a sanitizer locks no memory, and says that it did
        client.says("memory is not locked")
    said = [line for line in client.said().splitlines() if "priority" in line or "not locked" in line]
    assert said and all("see REAL-TIME PRIORITY in haloconv-run(1)" in line for line in said), client.said()
    assert all(len(line) < 200 for line in said), said
    page = (BUILD / "haloconv-run.1").read_text().replace("\\-", "-")
    section = page[page.index(".SH REAL-TIME PRIORITY"):]
    assert all(word in section[:section.index(".SH MIDI")] for word in LINES)
    client.end()


TWO_OF_A_KIND = """</usr/share/alsa/alsa.conf>
pcm.stagebox1 { type file slave.pcm "null" file "/dev/null" infile "/dev/zero" hint { show on description "one" } }
pcm.stagebox2 { type file slave.pcm "null" file "/dev/null" infile "/dev/zero" hint { show on description "two" } }
"""


@needs_portaudio
def test_a_name_that_several_devices_have_lists_them(folder):
    """With their numbers; a whole name is that of one device, and is taken."""
    pathlib.Path("asound.conf").write_text(TWO_OF_A_KIND)
    env = {**os.environ, "ALSA_CONFIG_PATH": str(pathlib.Path("asound.conf").resolve()), "JACK_NO_START_SERVER": "1"}
    numbers = dict(re.findall(r"^audio (\d+) +ALSA: (stagebox\d),", devices(env), re.M))
    if len(numbers) != 2:
        pytest.skip("ALSA shows no file plugin")
    wants = ", ".join(f"{number} ALSA: {name}" for number, name in numbers.items())
    write("h.wav", noise(100, 2))
    for side in ["input", "output"]:
        options = {"input": "stagebox1", "output": "stagebox1", side: "Stagebox"}
        refused("live", "h.wav", "--input", options["input"], "--output", options["output"], env=env,
                says=f"--{side} Stagebox: 2 devices have this name: {wants}; give the number or the whole name of one")
    refused("live", "h.wav", "--input", "stagebox", "--output", "nobody", env=env, says="--input stagebox: 2 devices")
    refused("live", "h.wav", "--input", "ALSA: stagebox1", "--output", "nobody", env=env,
            says=["--output nobody: no such device", "fuser -v /dev/snd/*"])
