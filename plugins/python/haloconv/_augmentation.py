"""haloconv.torch.ApplyImpulseResponse: random impulse responses for the examples of a batch."""

from typing import Optional, Sequence, Union

import numpy as np
import torch

from ._banks import PATH_TYPES, Bank, Path, check_draws
from .torch import convolve

_CPU = torch.device("cpu")  # not the device of torch.set_default_device


def _files(paths, rate):
    """The responses in files: a list of [channels, taps]."""
    if not rate:
        raise ValueError("impulse responses in files need a rate; give rate=, the Hz of the sound that they are for")
    paths = [paths] if isinstance(paths, PATH_TYPES) else paths
    return [torch.from_numpy(entry) for path in paths for entry in Bank(path, rate=rate, grid=0).responses]


def _padded(responses, lengths, rate):
    """The set of ApplyImpulseResponse: float32 [n, channels, taps], zeros after the end of each response."""
    if isinstance(responses, Bank):
        if rate and responses.rate and rate != responses.rate:
            raise ValueError(f"the bank is for {responses.rate} Hz, but rate is {rate}; make a Bank with rate={rate}")
        responses = torch.from_numpy(responses.responses)
    elif isinstance(responses, PATH_TYPES) or (not isinstance(responses, torch.Tensor) and len(responses)
                                            and all(isinstance(r, PATH_TYPES) for r in responses)):
        responses = _files(responses, rate)
    if not isinstance(responses, torch.Tensor):
        if lengths is not None:
            raise ValueError("lengths are for a tensor; omit them, since each response of a list has its own length")
        responses = [torch.as_tensor(r) for r in responses]
        if not responses or any(r.dim() not in (1, 2) or r.numel() == 0 for r in responses):
            raise ValueError(f"responses have shapes {[tuple(r.shape) for r in responses][:8]}; give at least one, "
                             "each [taps] or [channels, taps]")
        responses = [r if r.dim() == 2 else r.unsqueeze(0) for r in responses]
        channels = {r.shape[0] for r in responses}
        if len(channels) > 1:
            raise ValueError(f"responses have {sorted(channels)} channels; give all the same number")
        longest = max(r.shape[-1] for r in responses)
        responses = torch.stack([torch.nn.functional.pad(r, (0, longest - r.shape[-1])) for r in responses])
    if responses.dim() == 2:
        responses = responses.unsqueeze(1)
    if responses.dim() != 3 or responses.numel() == 0:
        raise ValueError(f"responses have shape {tuple(responses.shape)}; give [n, taps] or [n, channels, taps]")
    if responses.is_complex():
        raise TypeError("responses are complex; give real numbers")
    responses = responses.detach().float()
    if lengths is not None:
        lengths = torch.as_tensor(lengths, device=responses.device)
        if lengths.shape != responses.shape[:1]:
            raise ValueError(f"lengths have shape {tuple(lengths.shape)}; give one for each of "
                             f"{len(responses)} responses")
        taps = torch.arange(responses.shape[-1], device=responses.device)
        responses = responses.masked_fill(taps >= lengths[:, None, None], 0)
    if not torch.isfinite(responses).all():
        raise ValueError("responses have NaN or infinite taps; give numbers")
    return responses


def _aligned(responses):
    """Shift the direct sound (the largest tap) of all responses to one tap; ([n, channels, taps], that tap)."""
    direct = responses.abs().amax(1).argmax(-1).tolist()
    last, pad = max(direct), torch.nn.functional.pad
    rows = [pad(r, (last - at, 0)) for r, at in zip(responses, direct)]
    ends = [int(row.abs().amax(0).nonzero().max()) + 1 if row.any() else 1 for row in rows]
    taps = max(ends)
    return torch.stack([pad(row[:, :taps], (0, max(0, taps - row.shape[-1]))) for row in rows]), last


def _energy(x, applied):
    """Mean squares of x: float32 [batch, 1, 1]. Examples or channels that are not applied count as 0; None: all are."""
    x = x.float() if applied is None else x.float().masked_fill(~applied, 0)
    return x.square().mean((1, 2), keepdim=True)


class ApplyImpulseResponse(torch.nn.Module):
    """Convolve the examples of a batch with random impulse responses: rooms and microphones for training.

        augment = ApplyImpulseResponse("rooms/", rate=16000, p=0.5)
        x = augment(x)                        # [batch, channels, frames] or [batch, frames]; the length stays

    responses     the set: a tensor [n, taps] or [n, channels, taps]; a list of tensors [taps] or [channels, taps] of
                  any lengths; a haloconv.Bank; a path, or a list of paths, of sound files, folders or SOFA files. One
                  channel fits every x; else responses need the channels of x
    p             probability that an example is convolved; the others stay as they are, bit for bit
    per           each has its own draw: "example", "channel" (responses of one channel), or "batch"
    align         True: the direct sound (the largest tap) arrives when the sound was there, so that a dry target needs
                  no shift. False: after the response's own delay
    normalise     responses, when they are loaded: "peak": largest tap 1; "energy": sum of squares 1 for each channel on
                  average, which keeps the level of noise; None: as they are
    keep_level    True: every example leaves with the RMS that it came with, over all its channels (per="channel": over
                  the drawn ones)
    rate          Hz of x; files are resampled to it (they need it). Tensors must have that rate already
    lengths       of a tensor: the taps of each response; later ones count as 0
    seed          None: draws on the device of x from torch's generator there, which torch.manual_seed sets; nothing
                  waits, and a CUDA graph may capture it. A number: draws on the CPU from a separate generator, the
                  same on every device; the module's copies and pickles continue from its state. Each worker of a
                  DataLoader has its own draws, new ones in each epoch, from this seed and torch's seed of the
                  worker: they repeat if torch.manual_seed, or the DataLoader's generator, repeats, too

    In eval mode (module.eval()) x is returned as it is. `chosen` holds the last draw: the number of the response for
    each example (per="channel": for each channel), -1 where x stayed as it is.

    The result has the dtype of x; gradients flow to x. The responses are a buffer, which .to(device) moves and
    state_dict leaves out; none of them is copied. Raises ValueError if a shape does not fit, haloconv.Error if a file
    cannot be read.

    Cost: with p < 1 the drawn examples (per="channel": channels) alone are convolved, and nothing waits for their
    number.
    """

    def __init__(self, responses: Union[torch.Tensor, Sequence[torch.Tensor], Bank, Path, Sequence[Path]],
                 p: float = 0.5, per: str = "example", align: bool = True, normalise: Optional[str] = None,
                 keep_level: bool = False, rate: Optional[int] = None,
                 lengths: Optional[Union[torch.Tensor, Sequence[int]]] = None, seed: Optional[int] = None) -> None:
        super().__init__()
        check_draws(p, normalise)
        if per not in ("example", "channel", "batch"):
            raise ValueError(f"per {per!r} is unknown; give example, channel or batch")
        responses = _padded(responses, lengths, rate)
        if per == "channel" and responses.shape[1] != 1:
            raise ValueError(f'per "channel" needs responses of one channel; these have {responses.shape[1]}')
        if normalise:
            level = responses.abs().amax((1, 2)) if normalise == "peak" else responses.square().sum(2).mean(1).sqrt()
            responses = responses / torch.where(level > 0, level, torch.ones_like(level))[:, None, None]
        self.delay = 0  # frames by which all responses of the set are late
        if align:
            responses, self.delay = _aligned(responses)
        # A copy: the tensor that the caller gave may change later.
        self.register_buffer("responses", responses.clone(memory_format=torch.contiguous_format), persistent=False)
        self.p, self.per, self.keep_level, self.rate, self.chosen = p, per, keep_level, rate, None
        self._generator = None if seed is None else torch.Generator(_CPU).manual_seed(seed)
        self._worker_seed = None  # torch's seed of the DataLoader's worker that the generator draws for

    def __getstate__(self):
        generator = self._generator
        return {**self.__dict__, "_generator": None if generator is None else generator.get_state()}

    def __setstate__(self, state):
        super().__setstate__(state)
        if self._generator is not None:
            generator = torch.Generator(_CPU)
            generator.set_state(self._generator)
            self._generator = generator

    def extra_repr(self) -> str:
        n, channels, taps = self.responses.shape
        return f"{n} responses, {channels} channels, {taps} taps, p={self.p}, per={self.per!r}"

    def _draw(self, size, device):
        """Draw `chosen` on the CPU or on the device. Returns which of them are applied; None: all."""
        at = device if self._generator is None else _CPU
        worker = None if self._generator is None else torch.utils.data.get_worker_info()
        if worker is not None and worker.seed != self._worker_seed:
            seeds = [seed % 2**64 for seed in (self._generator.initial_seed(), worker.seed)]
            self._generator.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0]) >> 1)
            self._worker_seed = worker.seed
        index = torch.randint(len(self.responses), size, generator=self._generator, device=at)
        applied = None
        if self.p < 1:
            applied = torch.rand(size, generator=self._generator, device=at) < self.p
        self.chosen = index if applied is None else torch.where(applied, index, torch.full_like(index, -1))
        return applied

    def _convolve(self, x, numbers):
        """Convolve x [n, channels, frames] with responses of these numbers, [n] or [1]; -1: zeros. Returns float32."""
        wet = x if self.delay == 0 else torch.nn.functional.pad(x, (0, self.delay))
        n = self.responses.shape[1]
        index = numbers.unsqueeze(1)
        if n > 1:
            channels = torch.arange(n, device=index.device)
            index = torch.where(index < 0, index, index * n + channels)
        return convolve(wet, self.responses.flatten(0, 1), mode="causal", index=index)[..., self.delay:].float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0:
            return x
        if x.dim() not in (1, 2, 3):
            raise ValueError(f"x has shape {tuple(x.shape)}; give [batch, channels, frames], [batch, frames] or "
                             "[frames]")
        if x.device != self.responses.device:
            raise ValueError(f"x is on {x.device} and the responses on {self.responses.device}; call .to(x.device)")
        shape = x.shape
        if x.dim() < 3:
            x = x.reshape(-1, 1, shape[-1])
        n_batch, n_channels, n_frames = x.shape
        if self.responses.shape[1] not in (1, n_channels):
            raise ValueError(f"responses have {self.responses.shape[1]} channels and x has {n_channels}; give "
                             f"responses of 1 or {n_channels}")
        size = {"example": (n_batch, 1), "channel": (n_batch, n_channels), "batch": (1, 1)}[self.per]
        applied = self._draw(size, x.device)
        rows = x.reshape(-1, 1, n_frames) if self.per == "channel" else x  # each has its own draw, but per="batch"
        y = self._convolve(rows, self.chosen.reshape(-1).to(x.device, non_blocking=True)).reshape(x.shape)
        if applied is not None:
            applied = applied.to(x.device, non_blocking=True).unsqueeze(-1)
        if self.keep_level:
            before, after = _energy(x, applied), _energy(y, applied)
            one = torch.ones_like(after)
            sounds = (before > 0) & (after > 0)  # silence stays silent, with a finite gradient
            y = y * torch.where(sounds, before / torch.where(sounds, after, one), one).sqrt()
        y = y.to(x.dtype)
        if applied is not None:
            y = torch.where(applied, y, x)
        if self.per != "channel":
            self.chosen = self.chosen.expand(n_batch, 1).squeeze(1)
        return y.reshape(shape)
