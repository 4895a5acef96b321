"""haloconv.curator - NeMo Curator: a stage that puts the sounds of audio tasks into random rooms.

    from haloconv.curator import ReverbStage
    pipeline.add_stage(MonoConversionStage(output_sample_rate=16000))
    pipeline.add_stage(ReverbStage(["rooms/"], p=0.5, seed=7))

Needs nemo-curator 1.4 or newer, with Python 3.11.
"""

from typing import Any, List, Optional, Tuple

import torch
from nemo_curator.stages.base import ProcessingStage
from nemo_curator.stages.resources import Resources
from nemo_curator.tasks import AudioTask

from .ray import Reverb


class ReverbStage(ProcessingStage[AudioTask, AudioTask]):
    """haloconv.ray.Reverb for a pipeline; all arguments are Reverb's, and `key` is a key of the tasks' data.

    Each task needs "waveform" (tensor [channels, frames]) and "sample_rate", which MonoConversionStage puts there. It
    leaves with the new "waveform" on the CPU, its "num_samples" and "duration", and "response": the number of the
    response drawn, or -1. Tasks with the same value draw the same response: after a stage that cuts files into
    segments give key= an id of the segment. A stage on a GPU:
    ReverbStage(...).with_(resources=Resources(cpus=1, gpus=1)).
    """

    name, batch_size, resources = "haloconv_reverb", 16, Resources(cpus=1.0)

    def __init__(self, responses: Any, key: str = "audio_filepath", **options: Any) -> None:
        self._arguments, self._key, self._options = responses, key, options
        self._reverb: Optional[Reverb] = None

    def inputs(self) -> Tuple[List[str], List[str]]:
        return [], ["waveform", "sample_rate", self._key]

    def outputs(self) -> Tuple[List[str], List[str]]:
        return [], ["waveform", "num_samples", "duration", "response"]

    def setup(self, worker_metadata: Any = None) -> None:
        self._reverb = Reverb(self._arguments, key=self._key, **self._options)

    def process(self, task: AudioTask) -> AudioTask:
        return self.process_batch([task])[0]

    def process_batch(self, tasks: List[AudioTask]) -> List[AudioTask]:
        for task in tasks:
            if not self.validate_input(task):
                raise ValueError(f"task {task.task_id!r} lacks one of {', '.join(self.inputs()[1])}; add a stage that "
                                 "reads the sound, such as MonoConversionStage")
        if self._reverb is None:
            self.setup()
        out = self._reverb({"amplitude": [task.data["waveform"].numpy(force=True) for task in tasks],
                            "sample_rate": [task.data["sample_rate"] for task in tasks],
                            self._key: [task.data[self._key] for task in tasks]})
        for task, amplitude, response in zip(tasks, out["amplitude"], out["response"]):
            # A copy: the rows share one buffer, which would be serialised with each task.
            task.data.update(waveform=torch.from_numpy(amplitude.copy()), response=int(response),
                             num_samples=amplitude.shape[-1], duration=amplitude.shape[-1] / task.data["sample_rate"])
        return tasks
