"""haloconv.ray - Ray: impulse responses for Ray Data, and `haloconv batch` on a cluster.

    from haloconv.ray import Reverb
    sounds = ray.data.read_audio("speech/", include_paths=True)
    wet = sounds.map_batches(Reverb, fn_constructor_args=["rooms/"], fn_constructor_kwargs={"p": 0.5, "seed": 7},
                             compute=ray.data.ActorPoolStrategy(size=2), batch_size=64)
                             # with num_gpus=1 each actor convolves on a GPU

    python -m haloconv.ray list.csv --output wet --level rms    # haloconv batch, shared out over a cluster
"""

import hashlib
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from haloconv import Bank, convolve_tensors, devices
from haloconv._banks import PATH_TYPES, Path, check_draws

_Response = Tuple[npt.NDArray[np.float32], int]  # [channels, taps] and the tap of the direct sound


def _has_gpu() -> bool:
    """Has this process a GPU that haloconv and torch can use? Ray hides the GPUs that are not the actor's."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available() and any(name.startswith("cuda") for name, _ in devices())


class Reverb:
    """Convolve the sounds of a Ray dataset with random impulse responses: a class for `Dataset.map_batches`.

    responses   a path, or a list of paths, of sound files, folders or SOFA files, resampled once to each rate that rows
                have; or a haloconv.Bank, for rows of its rate; or an array [n, taps] or [n, channels, taps], for rows
                of any rate. One channel fits every sound; else responses need the channels of the sound
    p           probability that a row is convolved; the others stay as they are, bit for bit
    seed, key   a row's draw depends on the seed and on its value in the column `key` alone. It is the same for any
                number of actors, order, retry or node. read_audio(..., include_paths=True) makes the column "path";
                an id of your own works, too. Rows with the same value draw the same
    align       True: the direct sound (the largest tap) arrives when the sound was there. False: after the response's
                own delay
    normalise   "peak": largest tap 1; "energy": sum of squares 1 for each channel on average; None: as they are
    keep_level  True: every row leaves with the RMS that it came with, over all its channels and frames
    tail        "same": the length stays; "full": the sound ends with its response
    device      "cpu", "cuda" (needs torch), or None: the actor's GPU if it has one and torch is there, else its CPUs

    A call reads the columns of ray.data.read_audio: "amplitude" ([channels, frames] or [frames] a row) and
    "sample_rate". It returns the batch with the new "amplitude", float32, and the column "response": the number of the
    response drawn (in the order of the paths and their files), -1 where the row stayed as it was. The other columns
    pass through. Needs batch_format="numpy", Ray's default.

    On the CPU a response is read in place, and the result does not depend on how rows are put into batches, bit for
    bit. On a GPU the rows of a batch are convolved in one call, and their sums may be rounded otherwise in another
    batch (1e-6). The amplitudes of the result lie one after the other, so that Arrow takes them without a copy.

    Raises ValueError if a column is missing or a shape or rate does not fit, haloconv.Error if a file cannot be read.
    """

    def __init__(self, responses: Union[Bank, npt.ArrayLike, Path, Sequence[Path]], p: float = 0.5, seed: int = 0,
                 key: str = "path", align: bool = True, normalise: Optional[str] = None, keep_level: bool = False,
                 tail: str = "same", device: Optional[str] = None) -> None:
        check_draws(p, normalise)
        if tail not in ("same", "full"):
            raise ValueError(f"tail {tail!r} is unknown; give same or full")
        if device not in (None, "cpu", "cuda"):
            raise ValueError(f"device {device!r} is unknown; give cpu, cuda or None")
        if device == "cuda" and not _has_gpu():
            raise ValueError('device "cuda" needs torch, and a GPU that torch and haloconv can use; give num_gpus=1 to '
                             "map_batches, or device=None")
        if isinstance(responses, PATH_TYPES):
            responses = [responses]
        self._paths: Optional[List[Path]] = None
        if not isinstance(responses, (Bank, np.ndarray)) and all(isinstance(one, PATH_TYPES) for one in responses):
            if not responses:
                raise ValueError("there are no responses; give at least one path")
            self._paths = list(responses)
        else:
            self._bank = responses if isinstance(responses, Bank) else Bank(responses)
        self.p, self.seed, self.key, self.align, self.normalise = p, seed, key, align, normalise
        self.keep_level, self.tail = keep_level, tail
        self.device = device or ("cuda" if _has_gpu() else "cpu")
        self._sets: Dict[int, List[_Response]] = {}  # by rate; 0: any rate
        self._on_device: Dict[int, Any] = {}  # the same as tensors
        self._by_torch = self.device == "cuda"

    def _responses(self, rate: int) -> Tuple[int, List[_Response]]:
        """The responses for sounds of a rate, and the key of their set."""
        if self._paths is None:
            if self._bank.rate not in (None, rate):
                raise ValueError(f"the bank is for {self._bank.rate} Hz, and a row has {rate} Hz; give the paths of "
                                 "the responses, which are resampled, or resample the row")
            rate = 0
        if rate not in self._sets:
            banks = [self._bank] if self._paths is None else [Bank(path, rate=rate, grid=0) for path in self._paths]
            self._sets[rate] = [self._prepared(one) for bank in banks for one in bank.responses]
        return rate, self._sets[rate]

    def _prepared(self, response: npt.NDArray[np.float32]) -> _Response:
        sizes = np.abs(response).max(0)
        if self.normalise:
            level = sizes.max() if self.normalise == "peak" else np.sqrt(np.square(response).sum(1).mean())
            response = response / (level or 1)
        end = int(np.flatnonzero(sizes)[-1]) + 1 if sizes.any() else 1
        return np.ascontiguousarray(response[:, :end]), int(sizes.argmax()) if self.align else 0

    def _draw(self, value: Any, n: int) -> int:
        """The number of the response of a row, or -1; from a hash, so that no draw depends on those before it."""
        value = value.item() if isinstance(value, np.generic) else value
        digest = hashlib.blake2b(f"{self.seed}\0{value!r}".encode(), digest_size=16).digest()
        if int.from_bytes(digest[:8], "little") >= self.p * 2 ** 64:
            return -1
        return int.from_bytes(digest[8:], "little") * n >> 64

    def _convolve_together(self, rate, responses, sounds, numbers):
        """Convolve sounds [channels, frames] of one rate and channel count in one call: a list of results."""
        import torch

        from haloconv.torch import convolve_packed
        counts = np.array([h.shape[0] for h, _ in responses])
        if rate not in self._on_device:
            longest = max(h.shape[1] for h, _ in responses)
            rows = [np.pad(h, [(0, 0), (0, longest - h.shape[1])]) for h, _ in responses]
            taps = np.repeat([h.shape[1] for h, _ in responses], counts)
            self._on_device[rate] = [torch.from_numpy(a).to(self.device) for a in (np.concatenate(rows), taps)]
        bank, taps = self._on_device[rate]  # all channels of the first response, all of the second, ...
        offsets = np.cumsum([0] + [x.shape[1] for x in sounds])
        packed = torch.empty(sounds[0].shape[0], int(offsets[-1]), pin_memory=self.device == "cuda")
        np.concatenate(sounds, 1, out=packed.numpy())
        channels = np.arange(packed.shape[0]) * (counts[numbers, None] > 1)  # one channel fits every sound
        index = torch.from_numpy((np.cumsum(counts) - counts)[numbers, None] + channels).to(self.device)
        y = convolve_packed(packed.to(self.device, non_blocking=True), bank, torch.from_numpy(offsets).to(self.device),
                            "causal", lengths=taps, index=index).cpu().numpy()
        return [y[:, a:b] for a, b in zip(offsets, offsets[1:])]

    def _wet(self, rate, responses, sounds, numbers):
        """Convolve sounds with the responses of these numbers: a list of [channels, frames]."""
        padded, ends = [], []
        for x, number in zip(sounds, numbers):
            h, direct = responses[number]
            if h.shape[0] not in (1, x.shape[0]):
                raise ValueError(f"response {number} has {h.shape[0]} channels and a row has {x.shape[0]}; give "
                                 f"responses of 1 or {x.shape[0]}")
            more = h.shape[1] - 1 if self.tail == "full" else direct
            padded.append(np.pad(x, [(0, 0), (0, more)]) if more else x)
            ends.append(padded[-1].shape[1] if self.tail == "full" else x.shape[1] + direct)
        if not self._by_torch:
            wet = [convolve_tensors(x, responses[number][0], "causal") for x, number in zip(padded, numbers)]
        else:
            wet = self._convolve_together(rate, responses, padded, numbers)
        return [y[:, responses[number][1]:end] for y, number, end in zip(wet, numbers, ends)]

    def __call__(self, batch: Dict[str, Any]) -> Dict[str, Any]:
        if not isinstance(batch, Mapping):
            raise ValueError(f'the batch is a {type(batch).__name__}; call map_batches with batch_format="numpy"')
        for column in ("amplitude", "sample_rate"):
            if column not in batch:
                raise ValueError(f"the batch has no column {column!r}; read the sounds with ray.data.read_audio")
        if self.key not in batch:
            raise ValueError(f"the batch has no column {self.key!r}, which a row's draw needs; call "
                             "read_audio(..., include_paths=True), or name a column of ids with key=")
        sounds = [np.asarray(x, np.float32) for x in batch["amplitude"]]
        numbers, groups = np.full(len(sounds), -1, np.int64), {}
        for i, (x, rate) in enumerate(zip(sounds, map(int, batch["sample_rate"]))):
            if x.ndim not in (1, 2):
                raise ValueError(f"row {batch[self.key][i]} has shape {x.shape}; give [channels, frames] or [frames]")
            rate, responses = self._responses(rate)
            numbers[i] = self._draw(batch[self.key][i], len(responses)) if x.size else -1
            if numbers[i] >= 0:
                groups.setdefault((rate, len(np.atleast_2d(x))), []).append(i)
        wet = dict(enumerate(sounds))
        for (rate, _), rows in groups.items():
            wet.update(zip(rows, self._wet(rate, self._sets[rate], [np.atleast_2d(sounds[i]) for i in rows],
                                           numbers[rows])))
        # One buffer for all rows: Ray makes an Arrow array of adjacent rows without a copy.
        flat, at = np.empty(sum(x.size for x in wet.values()), np.float32), 0
        amplitudes = np.empty(len(sounds), object)
        for i, x in enumerate(sounds):
            y = wet[i]
            row = flat[at:at + y.size].reshape(x.shape[:-1] + y.shape[-1:])
            gain = 1.0
            if self.keep_level and numbers[i] >= 0:
                before, after = np.square(x, dtype=np.float64).mean(), np.square(y, dtype=np.float64).mean()
                gain = np.sqrt(before / after) if before > 0 and after > 0 else 1.0
            np.multiply(y.reshape(row.shape), np.float32(gain), out=row)
            amplitudes[i], at = row, at + y.size
        return {**batch, "amplitude": amplitudes, "response": numbers}
