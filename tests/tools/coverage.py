"""What `make coverage` prints: the share of lines and branches that the tests ran, by folder and by file below the aim.

Lines without counters are those that the compiler found no code for. The data of a process that was killed are lost.
"""

import collections
import json
import subprocess
import sys

AIM = 90  # percent of the lines of a folder

build = sys.argv[1]
command = ["gcovr", "--root", ".", "--object-directory", build, build, "--filter", "dsp/", "--filter", "host/",
           "--gcov-ignore-parse-errors", "--exclude-throw-branches", "--json-summary"]
files = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["files"]
folders = collections.defaultdict(lambda: [0, 0, 0, 0])
for file in files:
    parts = file["filename"].split("/")
    counts = [file[f"{what}_{kind}"] for what in ("line", "branch") for kind in ("covered", "total")]
    for name in {parts[0], "/".join(parts[:2]) if len(parts) > 2 else parts[0]}:
        folders[name] = [a + b for a, b in zip(folders[name], counts)]


def row(name, lines, n_lines, branches, n_branches):
    print(f"{name:34s} {lines:6d} of {n_lines:6d} lines {100 * lines / max(1, n_lines):5.1f} %   "
          f"branches {100 * branches / max(1, n_branches):5.1f} %")


for name in sorted(folders):
    row(name, *folders[name])
print(f"files below {AIM} % of their lines:")
for file in sorted(files, key=lambda file: file["line_covered"] - file["line_total"]):
    if file["line_covered"] < AIM / 100 * file["line_total"]:
        row(file["filename"], *(file[f"{what}_{kind}"] for what in ("line", "branch") for kind in ("covered", "total")))
sys.exit(any(folders[name][0] < AIM / 100 * folders[name][1] for name in ("dsp", "host")))
