#!/usr/bin/env python3
"""Draws block times from a trace of bench_zita as SVG: plot_block_times.py TRACE.csv OUT.svg [FRAMES [TITLE]]

The minute is cut into 240 intervals. For each interval and each program there is a dot at its longest block and a line
through the medians. The time axis counts audio, the vertical axis is logarithmic, and the dashed line is the period.
"""

import csv
import math
import statistics
import sys

WIDTH, HEIGHT = 860, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 34, 44
INTERVALS = 240
RATE = 48000
COLOURS = {"haloconv": "#1a6fb0", "zita": "#d1661f"}


def read(path):
    """{name: [us of each block]}, in the order of the file."""
    times = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            times.setdefault(row["name"], []).append(float(row["us"]))
    return times


def intervals(us):
    """(longest, median) of each interval."""
    step = len(us) / INTERVALS
    cuts = [us[int(i * step):max(int(i * step) + 1, int((i + 1) * step))] for i in range(INTERVALS)]
    return [(max(cut), statistics.median(cut)) for cut in cuts]


def draw(times, frames, title):
    period = frames / RATE * 1e6
    most = max(period, *(max(us) for us in times.values())) * 1.3
    least = min(min(us) for us in times.values()) / 1.3
    seconds = max(len(us) for us in times.values()) * frames / RATE
    def x(share):
        return LEFT + share * (WIDTH - LEFT - RIGHT)
    def y(us):
        return TOP + (math.log(most / us) / math.log(most / least)) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="18" font-size="13">{title}</text>']
    for decade in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1):
        at = y(10 ** decade)
        out.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10 ** decade:g} us</text>')
    for second in range(0, math.ceil(seconds) + 1, 10):
        if second <= seconds + 0.5:
            at = x(min(1, second / seconds))
            out.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{second} s</text>')
    for i, (name, us) in enumerate(times.items()):
        colour = COLOURS.get(name, "#555")
        points = intervals(us)
        line = " ".join(f"{x((k + 0.5) / INTERVALS):.1f},{y(median):.1f}" for k, (_, median) in enumerate(points))
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        out += [f'<circle cx="{x((k + 0.5) / INTERVALS):.1f}" cy="{y(longest):.1f}" r="1.7" fill="{colour}"/>'
                for k, (longest, _) in enumerate(points)]
        out.append(f'<text x="{LEFT + i * 330}" y="{HEIGHT - 8}" fill="{colour}">{name}: median '
                   f'{statistics.median(us):.0f} us, longest {max(us):.0f} us</text>')
    out.append(f'<line x1="{LEFT}" y1="{y(period):.1f}" x2="{WIDTH - RIGHT}" y2="{y(period):.1f}" stroke="#333" '
               'stroke-dasharray="6 4"/>')
    out.append(f'<text x="{WIDTH - RIGHT}" y="{y(period) - 4:.1f}" text-anchor="end">period: {period:.0f} us</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    trace, target, *more = sys.argv[1:]
    frames = int(more[0]) if more else 64
    title = more[1] if len(more) > 1 else "Time of each block (dot: longest of a quarter second, line: median)"
    svg = draw(read(trace), frames, title)
    with open(target, "w", encoding="utf-8") as file:
        file.write(svg)


main()
