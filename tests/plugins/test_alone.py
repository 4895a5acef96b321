"""A CLAP or a VST3 plugin that is copied alone into a user's folder plays the masks that ship, as the test programs of the
plugins compute them in float64."""

import os
import shutil
import subprocess

import pytest
from conftest import BUILD


@pytest.fixture
def alone(folder):
    """Starts a test of a test program with a copy of the plugin and an empty home."""
    def start(standard, test="every_plugin_plays_its_mask"):
        plugin, program = BUILD / f"haloconv.{standard}", BUILD / "tests/plugin_promises_test"
        if not plugin.exists() or not program.exists() or not (BUILD / "masks.tar").exists():
            pytest.skip(f"no plugin of {standard} in the build, or PLUGIN_MASKS=0")
        copy = folder / "plugins" / plugin.name
        if not copy.exists():
            (folder / "home").mkdir()
            copy.parent.mkdir()
            (shutil.copytree if plugin.is_dir() else shutil.copy)(plugin, copy)
        env = {**os.environ, "HOME": str(folder / "home"), "HC_TEST_NAME": f"{standard}_{test}", "BUILD": str(BUILD),
               f"{standard.upper()}_PLUGIN": str(copy)}
        return subprocess.Popen([program], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.STDOUT)
    yield start


def passes(process):
    said = process.communicate(timeout=600)[0]
    assert process.returncode == 0 and "ok " in said, said


@pytest.mark.parametrize("standard", ["clap", "vst3"])
def test_a_plugin_that_is_copied_alone_plays_the_masks_that_ship(alone, standard):
    passes(alone(standard))


def test_a_vst3_bundle_writes_nothing_into_the_home(alone, folder):
    passes(alone("vst3"))
    assert not list((folder / "home").iterdir())


def test_two_hosts_unpack_the_masks_of_a_clap_file_at_once(alone, folder):
    for host in [alone("clap"), alone("clap")]:
        passes(host)
    unpacked, = (folder / "home/.cache/haloconv").glob("masks-*")
    names = {path.relative_to(unpacked) for path in unpacked.rglob("*")}
    assert names == {path.relative_to(BUILD / "haloconv.lv2") for path in (BUILD / "haloconv.lv2").rglob("*")
                     if path.suffix in (".wav", ".txt") or path.is_dir()}
    for name in names:
        if (unpacked / name).is_file():
            assert (unpacked / name).read_bytes() == (BUILD / "haloconv.lv2" / name).read_bytes(), name


def test_a_clap_file_unpacks_what_is_missing_or_cut_and_nothing_else(alone, folder):
    passes(alone("clap"))
    hall, room, plate = ((folder / "home/.cache/haloconv").glob(f"masks-*/{name}.wav") for name in ("hall", "room", "plate"))
    hall, room, plate = next(hall), next(room), next(plate)
    whole, old = hall.read_bytes(), plate.stat().st_mtime_ns
    hall.write_bytes(whole[:1000])
    room.unlink()
    passes(alone("clap"))
    assert hall.read_bytes() == whole and room.exists() and plate.stat().st_mtime_ns == old
