"""haloconv.curator: a pipeline of NeMo Curator makes the rows that haloconv.ray.Reverb makes."""

import os
import sys

import numpy as np
import pytest
from conftest import BUILD, ROOT, SAN, noise, write

pytest.importorskip("nemo_curator", reason="no nemo-curator; pip install nemo-curator")
if SAN:
    pytest.skip("a sanitized library needs a sanitized Python", allow_module_level=True)
sys.path.insert(0, str(ROOT / "plugins/python"))
os.environ["HALOCONV_LIBRARY"] = str(BUILD / "libhaloconv.so")
os.environ.update(PYTHONPATH=str(ROOT / "plugins/python"), RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
import torch  # noqa: E402
from haloconv.curator import ReverbStage  # noqa: E402
from haloconv.ray import Reverb  # noqa: E402
from nemo_curator.tasks import AudioTask  # noqa: E402

RATE = 16000


@pytest.fixture
def tasks(folder):
    (folder / "rooms").mkdir()
    for i, n in enumerate([900, 901, 17]):
        write(folder / f"rooms/r{i}.wav", noise(n, 1, seed=100 + i, scale=0.1), RATE, "FLOAT")
    return [AudioTask(data={"audio_filepath": f"u{i}", "waveform": torch.from_numpy(noise(2000 + i, 1, seed=i).T.astype(
        np.float32)), "sample_rate": RATE, "text": "kept"}) for i in range(12)]


def check(tasks, got, **options):
    batch = {"amplitude": [task.data["waveform"].numpy() for task in tasks], "sample_rate": [RATE] * len(tasks),
             "path": [task.data["audio_filepath"] for task in tasks]}
    want = Reverb("rooms", **options)(batch)
    assert {-1} < set(want["response"])
    got = {task.data["audio_filepath"]: task.data for task in got}
    for name, amplitude, response in zip(batch["path"], want["amplitude"], want["response"]):
        assert got[name]["response"] == response and got[name]["text"] == "kept"
        assert got[name]["waveform"].numpy().tobytes() == amplitude.tobytes()
        assert (got[name]["num_samples"], got[name]["duration"]) == (amplitude.shape[-1], amplitude.shape[-1] / RATE)


def test_a_stage_makes_what_reverb_makes(tasks):
    stage = ReverbStage("rooms", p=0.5, seed=7).with_(batch_size=4)
    copies = [AudioTask(data=dict(task.data)) for task in tasks]
    check(tasks, stage.process_batch(copies[:5]) + [stage.process(task) for task in copies[5:]], p=0.5, seed=7)
    with pytest.raises(ValueError, match="waveform, sample_rate, audio_filepath; add a stage"):
        stage.process(AudioTask(data={"audio_filepath": "u"}))


def test_a_pipeline_on_ray_makes_the_same(tasks, folder):
    import ray
    from nemo_curator.backends.ray_data import RayDataExecutor
    from nemo_curator.pipeline import Pipeline
    address = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20,
                       logging_level="ERROR").address_info["gcs_address"]
    os.environ["RAY_ADDRESS"] = address
    try:
        stage = ReverbStage(str(folder / "rooms"), p=0.5, seed=7)
        got = Pipeline("rooms", stages=[stage]).run(RayDataExecutor(), initial_tasks=tasks)
    finally:
        os.environ.pop("RAY_ADDRESS")
        ray.shutdown()
    check(tasks, got, p=0.5, seed=7)
