"""haloconv.curator - NeMo Curator: a stage that convolves the waveforms of audio tasks with random impulse responses.

    from haloconv.curator import ReverbStage
    pipeline.add_stage(MonoConversionStage(output_sample_rate=16000))
    pipeline.add_stage(ReverbStage("rooms/", p=0.5, seed=7).with_(resources=Resources(gpus=1)))  # on the CPU: cpus=2
"""

from typing import Any, List, Sequence, Union

import torch
from nemo_curator.stages.base import ProcessingStage
from nemo_curator.stages.resources import Resources
from nemo_curator.tasks import AudioTask

from .ray import Reverb, _Path


class ReverbStage(ProcessingStage[AudioTask, AudioTask]):
    """Convolve the waveform of each task with a random impulse response.

    responses   paths of sound files, folders or SOFA files, as for haloconv.ray.Reverb, which every worker makes once
    options     those of Reverb: p, seed, align, normalise, keep_level, tail, device; key is by default "audio_filepath"

    Reads data["waveform"], a tensor [channels, frames], data["sample_rate"] in Hz and data[key]; writes
    data["waveform"], float32 on the CPU, data["num_samples"], and data["response"], the number of the response drawn or
    -1. Raises as Reverb does.
    """

    name = "haloconv.ReverbStage"
    resources = Resources(cpus=1.0)
    batch_size = 64

    def __init__(self, responses: Union[_Path, Sequence[_Path]], key: str = "audio_filepath", **options: Any) -> None:
        self.responses, self.key, self.options = responses, key, options

    def inputs(self):
        return [], ["waveform", "sample_rate", self.key]

    def outputs(self):
        return [], ["waveform", "num_samples", "response"]

    def setup(self, worker_metadata=None) -> None:
        self._reverb = Reverb(self.responses, key=self.key, **self.options)

    def process(self, task: AudioTask) -> AudioTask:
        return self.process_batch([task])[0]

    def process_batch(self, tasks: List[AudioTask]) -> List[AudioTask]:
        wet = self._reverb({"amplitude": [task.data["waveform"].numpy(force=True) for task in tasks],
                            "sample_rate": [task.data["sample_rate"] for task in tasks],
                            self.key: [task.data[self.key] for task in tasks]})
        for task, sound, number in zip(tasks, wet["amplitude"], wet["response"]):
            task.data["waveform"] = torch.from_numpy(sound.copy())  # not a view of the whole batch
            task.data["num_samples"], task.data["response"] = sound.shape[-1], int(number)
        return tasks
