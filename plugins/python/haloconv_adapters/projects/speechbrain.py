"""SpeechBrain: `convolve1d` with use_fft=True, which `reverberate` and AddReverb call.

It is a circular convolution over the length of the sound. haloconv computes what it can compute (torch._can_convolve);
SpeechBrain's own function computes all else, also short filters in the time domain (DropFreq), and raises its errors.
Levels and random responses stay SpeechBrain's. Neither function knows rates.
"""

import torch
from haloconv.torch import _can_convolve, convolve as ours

from . import noise


def _convolve1d(theirs):
    def convolve1d(waveform: torch.Tensor, kernel: torch.Tensor, padding=0, pad_type="constant", stride=1, groups=1,
                   use_fft=False, rotation_index=0) -> torch.Tensor:
        """speechbrain.processing.signal_processing.convolve1d by haloconv: [batch, N, channels]. Any thread."""
        if not (use_fft and isinstance(waveform, torch.Tensor) and isinstance(kernel, torch.Tensor)
                and waveform.dim() == kernel.dim() == 3
                and _can_convolve(waveform.transpose(1, 2), kernel.transpose(1, 2))):
            return theirs(waveform, kernel, padding, pad_type, stride, groups, use_fft, rotation_index)
        x, h = waveform.transpose(1, 2).float(), kernel.transpose(1, 2).float()
        if isinstance(padding, tuple):
            x = torch.nn.functional.pad(x, padding, pad_type)
        n = x.shape[-1]
        whole = ours(x, h[..., :n])
        y, tail = whole[..., :n], whole[..., n:]
        y = torch.cat((y[..., :tail.shape[-1]] + tail, y[..., tail.shape[-1]:]), -1)  # the end wraps round
        shift = len(range(min(kernel.shape[1], n))[:rotation_index])  # as a slice does: negative, too large
        return y.roll(-shift, -1).to(waveform.dtype).transpose(1, 2)
    return convolve1d


def _trial(convolve1d):
    x, h = (torch.from_numpy(noise(1, n, 1)) for n in (60, 9))
    return convolve1d(x, h, use_fft=True, rotation_index=2)


def replacements():
    return {f"speechbrain.{module}:convolve1d": (_convolve1d, _trial)
            for module in ("processing.signal_processing", "augment.time_domain")}
