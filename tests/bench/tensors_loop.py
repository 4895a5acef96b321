"""The training loop of bench_tensors.py: a separation network, and reverberation on the fly.

Two speakers (noise with the envelope of syllables; the time of a step does not depend on the sound) of 4 s at 16 kHz,
each through a room response of its own of 0.5 to 1 s, are convolved on the device in each step. Their sum is the input
of the network, the two reverberant signals are its targets: convolutional encoder and decoder, masks by dilated
convolutions, the scale-invariant ratio of signal and distortion in the better order of the two, Adam.
"""

import statistics
import time

import torch
from torch import nn

import tensors_ways

RATE, SECONDS, BATCH, SPEAKERS, RESPONSES = 16000, 4, 32, 2, 512


class Block(nn.Module):
    def __init__(self, width, hidden, dilation):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(width, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden), nn.PReLU(),
            nn.GroupNorm(1, hidden), nn.Conv1d(hidden, width, 1))

    def forward(self, x):
        return x + self.layers(x)


class Separator(nn.Module):
    """[batch, frames] to [batch, SPEAKERS, frames]; frames in multiples of 16."""

    def __init__(self, filters=256, width=128, hidden=256, repeats=2, blocks=7):
        super().__init__()
        self.encoder = nn.Conv1d(1, filters, 32, stride=16, padding=8, bias=False)
        self.masks = nn.Sequential(
            nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1),
            *(Block(width, hidden, 1 << b) for _ in range(repeats) for b in range(blocks)),
            nn.PReLU(), nn.Conv1d(width, SPEAKERS * filters, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(filters, 1, 32, stride=16, padding=8, bias=False)

    def forward(self, x):
        code = torch.relu(self.encoder(x[:, None]))
        masked = self.masks(code).unflatten(1, (SPEAKERS, -1)) * code[:, None]
        return self.decoder(masked.flatten(0, 1)).view(len(x), SPEAKERS, -1)


def distortion(got, want):
    """Minus the scale-invariant ratio in dB."""
    want = want - want.mean(-1, keepdim=True)
    got = got - got.mean(-1, keepdim=True)
    target = (got * want).sum(-1, keepdim=True) / (want.square().sum(-1, keepdim=True) + 1e-8) * want
    rest = (got - target).square().sum(-1)
    return 10 * torch.log10((rest + 1e-8) / (target.square().sum(-1) + 1e-8))


def loss_of(got, want):
    straight, crossed = distortion(got, want).mean(1), distortion(got, want.flip(1)).mean(1)
    return torch.minimum(straight, crossed).mean()


def responses(device, taps):
    """[RESPONSES, taps]: a direct sound, then noise that falls by 60 dB in 0.5 to 1 s; 0 from there on."""
    at = torch.arange(taps, device=device)
    length = torch.randint(taps // 2, taps + 1, (RESPONSES, 1), device=device)
    h = torch.randn(RESPONSES, taps, device=device) * torch.exp(-6.9 * at / length) * (at < length) * 0.05
    h[:, 0] = 1
    return h


def measure(bench, way, with_autocast, small):
    """{"step", "convolution": ms, median of the steps; "parameters", "share", "loss"}"""
    device = bench.device
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(bench.seed)
    batch, frames, taps = (2, RATE // 4, RATE // 8) if small else (BATCH, RATE * SECONDS, RATE)
    model = Separator().to(device)
    adam = torch.optim.Adam(model.parameters(), 1e-3)
    shape = tensors_ways.Shape(batch, SPEAKERS, frames, taps, batch, SPEAKERS, "causal")
    convolve = tensors_ways.WAYS[way](shape, device)
    rooms = responses(device, taps)
    envelope = torch.rand(4 * batch, SPEAKERS, frames // 800 + 1, device=device).repeat_interleave(800, -1)
    dry = torch.randn(4 * batch, SPEAKERS, frames, device=device) * envelope[..., :frames]
    warm, steps = (1, 2) if small else (8, 40)
    marks = []

    def mark():
        if not bench.on_gpu:
            return time.perf_counter() * 1e3
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    loss = None
    for step in range(warm + steps):
        begin = mark()
        item = torch.randint(len(dry), (batch,), device=device)
        room = torch.randint(len(rooms), (batch, SPEAKERS), device=device)
        x, h = dry[item], rooms[room]
        before = mark()
        wet = convolve(x, h)
        after = mark()
        with torch.autocast(device.type, torch.bfloat16, enabled=with_autocast):
            got = model(wet.sum(1))
        loss = loss_of(got.float(), wet)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5)
        adam.step()
        end = mark()
        if step >= warm:
            marks.append((begin, before, after, end))
    bench.wait()
    span = (lambda a, b: a.elapsed_time(b)) if bench.on_gpu else (lambda a, b: b - a)
    whole = statistics.median(span(begin, end) for begin, _, _, end in marks)
    part = statistics.median(span(before, after) for _, before, after, _ in marks)
    if not torch.isfinite(loss):
        raise RuntimeError("the loss is not finite")
    return {"step": whole, "convolution": part, "share": part / whole, "loss": float(loss.detach()), "batch": batch,
            "frames": frames, "taps": taps, "parameters": sum(p.numel() for p in model.parameters())}
