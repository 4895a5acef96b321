"""Prints, for `make coverage`, the share of lines and branches that the tests ran: by folder, then by file below AIM.
Fails if dsp/ or host/ is below AIM.

Only lines with machine code count. A process that was killed leaves no data.
"""

import collections
import json
import shutil
import subprocess
import sys

AIM = 90  # percent of the lines

build = sys.argv[1]
if not shutil.which("gcovr"):
    sys.exit("coverage: gcovr is missing; apt-get install gcovr")
command = ["gcovr", "--root", ".", "--object-directory", build, build, "--filter", "dsp/", "--filter", "host/",
           "--gcov-ignore-parse-errors", "--exclude-throw-branches", "--json-summary"]
files = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["files"]
counts = {file["filename"]: [file[f"{what}_{kind}"] for what in ("line", "branch") for kind in ("covered", "total")]
          for file in files}
folders = collections.defaultdict(lambda: [0, 0, 0, 0])
for name, numbers in counts.items():
    top, *rest = name.split("/")
    for folder in {top, f"{top}/{rest[0]}" if len(rest) > 1 else top}:
        folders[folder] = [a + b for a, b in zip(folders[folder], numbers)]


def is_low(lines, n_lines, *_):
    return lines < AIM / 100 * n_lines


def row(name, lines, n_lines, branches, n_branches):
    print(f"{name:34s} {lines:6d} of {n_lines:6d} lines {100 * lines / max(1, n_lines):5.1f} %   "
          f"branches {100 * branches / max(1, n_branches):5.1f} %")


for name in sorted(folders):
    row(name, *folders[name])
print(f"files below {AIM} % of their lines:")
for name, numbers in sorted(counts.items(), key=lambda item: item[1][0] - item[1][1]):
    if is_low(*numbers):
        row(name, *numbers)
sys.exit(is_low(*folders["dsp"]) or is_low(*folders["host"]))
