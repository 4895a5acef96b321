#!/usr/bin/env python3
"""Draws the signal flow of a live convolver: signal_flow.py OUT.svg. README.md shows dsp/pictures/signal_flow.svg."""

import sys

WIDTH, HEIGHT = 900, 350
AUDIO, WORKER, DEVICE = "#e8f1fa", "#f4efe3", "#e9f5e6"


def box(x, y, width, height, lines, fill):
    """A box with its lines of text, the first one bold."""
    out = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="#555"/>']
    first = y + height / 2 - 7.5 * (len(lines) - 1) + 4
    for i, line in enumerate(lines):
        weight = ' font-weight="bold"' if i == 0 else ""
        out.append(f'<text x="{x + width / 2}" y="{first + 15 * i:.1f}" text-anchor="middle"{weight}>{line}</text>')
    return out


def arrow(points, dashed=False, label=None, at=None):
    path = " ".join(f"{x},{y}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    out = [f'<polyline points="{path}" fill="none" stroke="#333" stroke-width="1.3"{dash} marker-end="url(#head)"/>']
    if label:
        out.append(f'<text x="{at[0]}" y="{at[1]}" fill="#444">{label}</text>')
    return out


def draw():
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           'font-size="12">',
           '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
           '<path d="M0,0 L7,3 L0,6 z" fill="#333"/></marker></defs>',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           '<rect x="150" y="14" width="736" height="214" rx="8" fill="none" stroke="#999" stroke-dasharray="3 3"/>',
           '<text x="160" y="32" fill="#666">audio thread: hc_live_process, no added latency</text>',
           '<text x="160" y="250" fill="#666">other threads</text>']
    out += box(12, 66, 112, 66, ["JACK", "PortAudio, LV2", "your program"], AUDIO)
    out += box(170, 66, 112, 66, ["input history", "NaN removed", "copied once"], AUDIO)
    out += box(322, 50, 178, 98, ["engine", "head: first taps, at once", "tail levels: longer", "partitions, an FDL each",
                                  "crossfade of two masks"], AUDIO)
    out += box(540, 66, 120, 66, ["crossfade", "between engines", "when one is rebuilt"], AUDIO)
    out += box(700, 66, 90, 66, ["mixer", "predelay, wet", "dry, gain"], AUDIO)
    out += box(820, 78, 56, 42, ["output"], AUDIO)
    out += box(322, 172, 178, 42, ["GPU", "device queue, bounded wait"], DEVICE)
    out += box(12, 276, 150, 58, ["mask", "sound file, text or", "configuration"], WORKER)
    out += box(200, 276, 150, 58, ["loader: hc_live_work", "reads, resamples,", "builds an engine"], WORKER)
    out += box(388, 276, 150, 58, ["worker threads", "tail levels of the CPU,", "spread over hops"], WORKER)
    out += box(576, 276, 206, 58, ["standby engine on the CPU", "plays on in the same block", "when a GPU is lost or late"], WORKER)
    out += arrow([(124, 99), (170, 99)])
    out += arrow([(282, 99), (322, 99)])
    out += arrow([(500, 99), (540, 99)])
    out += arrow([(660, 99), (700, 99)])
    out += arrow([(790, 99), (820, 99)])
    out += arrow([(226, 66), (226, 42), (745, 42), (745, 66)], label="dry signal", at=(560, 38))
    out += arrow([(380, 148), (380, 172)])
    out += arrow([(442, 172), (442, 148)])
    out += arrow([(162, 305), (200, 305)])
    out += arrow([(300, 276), (300, 140), (322, 140)], dashed=True, label="next engine or mask", at=(170, 196))
    out += arrow([(520, 276), (520, 130), (500, 130)], dashed=True)
    out += arrow([(620, 276), (620, 132)], dashed=True)
    return "\n".join([*out, "</svg>"]) + "\n"


with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write(draw())
