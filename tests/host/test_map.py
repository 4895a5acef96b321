"""MAP.md, tables `| question | file: function |`: every function named there is defined there.
The same holds for the functions and atomic variables that the head of a model (tests/models) names.

A cell may name several, `file: function, function; file: function`. A definition begins its line: a function's head, a
struct, an enum, a macro, a table, a Python function, a goal of the Makefile.
"""

import functools
import pathlib
import re

import pytest
from conftest import ROOT

HEAD = "| question | file: function |\n|---|---|\n"


def answers_of(cell, line):
    """[(file, name)] of a cell `file: function, function; file: function`."""
    answers = []
    for answer in cell.replace("`", "").split(";"):
        file, colon, names = (part.strip() for part in answer.partition(":"))
        assert colon and file and names, f"want `file: function`: {line}"
        answers += [(file, name.strip().removesuffix("()")) for name in names.split(",")]
    return answers


def rows_of(page):
    """[(question, [(file, name)])] of the tables headed `| question | file: function |`; malformed rows fail.

    The first file of a row is in the folder that the heading above its table names.
    """
    rows, folder, is_ours = [], None, False
    for line in page.splitlines():
        if line.startswith("## "):
            folder = line[3:].strip()
        if not line.startswith("|"):
            is_ours = False
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        is_head = len(cells) == 2 and cells[1].lower() == "file: function"
        if is_ours and not re.fullmatch(r"[|\s:-]+", line):
            assert len(cells) == 2 and all(cells), f"not a question and its answer: {line}"
            answers = answers_of(cells[1], line)
            assert answers[0][0].startswith(folder), f"not in {folder}: {line}"
            rows.append((cells[0], answers))
        is_ours = is_ours or is_head
    return rows


def closing(text, at):
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


@functools.lru_cache(maxsize=None)
def without_comments(path):
    """The text of a file; that of a file of C with its comments replaced by their line ends."""
    text = path.read_text()
    if path.suffix in (".c", ".h", ".cu", ".cuh", ".cpp"):
        text = re.sub(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/',
                      lambda found: found[0] if found[0][0] == '"' else "\n" * found[0].count("\n"), text, flags=re.S)
    return text


def defines(path, name):
    """Does a line of this file begin a definition of the name? A call, a declaration or a comment is none."""
    text = without_comments(path)
    n = re.escape(re.sub(r"^(struct|enum|union|class) ", "", name))
    functions = re.finditer(rf"^[A-Za-z_][^;={{}}\n]*[ *]{n}\(", text, re.M)  # of C, at the beginning of a line
    if any(re.match(r"\s*(const\s*)?(__attribute__\(\(.*?\)\)\s*)?{", text[closing(text, f.end() - 1):])
           for f in functions):
        return True
    kinds = [
        rf"^(?:typedef )?(?:static |extern )?(?:const )?(?:struct|enum|union|class) {n}\b[^;(=]*{{",
        rf"^}} {n};",  # the name of a typedef
        rf"^\s*#\s*define {n}\b",
        rf"^    (?:_Alignas\(\w+\) )?(?:atomic_|_Atomic|sem_t)[^;]*[ )]{n}(?:\[[^\]]*\])?(?:,[^;]*)?;",  # a field that threads share
        rf"^(?!extern|typedef)[A-Za-z_][\w *]*[ *]{n}(?:\[[^\]]*\])* *[=;]",  # a table or a variable of the file
        rf"^\s*(?:def|class) {n}\b",  # Python
        rf"^{n} *[:?]?=|^{n}(?: [\w-]+)* ?:(?!=)",  # the Makefile: a variable, a goal
        rf"^{n}\(\) ?{{",  # a shell function
    ]
    return any(re.search(kind, text, re.M) for kind in kinds)


def faults_of(rows, root):
    """The faults of a map, a line each."""
    faults = []
    for question, answers in rows:
        for file, name in answers:
            if not (root / file).is_file():
                faults.append(f"{question}: there is no {file}")
            elif not defines(root / file, name):
                faults.append(f"{question}: {file} does not define {name}")
    return faults


def test_the_map_names_what_is_there():
    page = (ROOT / "MAP.md").read_text()
    faults = faults_of(rows_of(page), ROOT)
    assert not faults, "\n" + "\n".join(faults)
    assert len(rows_of(page)) >= 30


def crowded(page):
    """The rows of a map that ask for two things, and those whose only answer is the file of that name."""
    wrong = []
    for question, answers in rows_of(page):
        words = set(re.findall(r"\w+", question.lower()))
        parts = set(pathlib.PurePath(answers[0][0]).stem.split("_"))
        if question.count("?") != 1 or len({file for file, _ in answers}) == 1 and parts <= words:
            wrong.append(question)
    return wrong


def test_the_map_has_only_what_file_names_do_not_say():
    page = (ROOT / "MAP.md").read_text()
    assert len(page.encode()) <= 12288
    assert not crowded(page)


def test_a_row_that_repeats_a_file_name_is_found():
    rows = {"where is the K weighting?": "a/k_weighting.c: one", "where is one? and two?": "a/b.c: one; a/c.c: two",
            "where is the plan of a file?": "a/plan.c: one", "where are partitions chosen?": "a/plan.c: one",
            "where is a plan made?": "a/plan.c: one; a/b.c: two"}
    page = f"## a/\n{HEAD}" + "".join(f"| {question} | {answer} |\n" for question, answer in rows.items())
    assert crowded(page) == list(rows)[:3]


@pytest.mark.parametrize("model", sorted((ROOT / "tests/models").glob("*.pml")), ids=lambda model: model.stem)
def test_a_model_names_what_is_there(model):
    """Its head has two lists, `models` and `atomics`, of `file: name, name; file: name`, up to an empty line."""
    head = model.read_text().split("*/", 1)[0]
    lists = re.findall(r"^ \* (models|atomics) +((?:\S.*\n)(?: \* {4,}\S.*\n)*)", head, re.M)
    assert [kind for kind, _ in lists] == ["models", "atomics"]
    rows = [(kind, answers_of(re.sub(r"\n \* +|\n", " ", names), kind)) for kind, names in lists]
    faults = faults_of(rows, ROOT)
    assert not faults, "\n" + "\n".join(faults)


def test_a_wrong_map_is_found(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.c").write_text("""/* planted - calls and defines.
int in_a_comment(void) {
*/
#define A_MACRO(x) (x)
enum { LIMIT = 3 };
enum state { READY };
static const struct rung *const rungs[] = {0};
struct thing {
    int size;
    _Atomic(struct rung *) mailbox; /* of threads */
    atomic_int one, two;
};
typedef struct hc_thing {
    int size;
} hc_thing;
int declared(int x);
int defined(int x)
{
    return declared(x) + other(x);
}
static const struct backend *of_two_lines(const char *name, int a,
                                          int b)
{
    struct used here = {0};
    if (called(a)) {
        b = 1;
    }
    return 0;
}
template <int N> __global__ void __launch_bounds__(256) kernel_like(const float *x, int n)
{
}
""")
    (tmp_path / "Makefile").write_text("ALL := $(wildcard a/*/*.c b/*)\nA_GOAL = $(wildcard */b)\nrun-it: $(ALL)\n")
    (tmp_path / "a/two.py").write_text("def measured():\n    return measured_not()\n")
    good = ["A_MACRO", "state", "enum state", "rungs", "thing", "struct thing", "hc_thing", "defined", "of_two_lines",
            "defined()", "kernel_like", "mailbox", "one", "two"]
    bad = ["in_a_comment", "declared", "other", "used", "struct used", "called", "here", "size", "planted", "kernel"]
    lines = [f"| where is {name}? | `a/one.c: {name}` |" for name in good + bad]
    page = f"# x\n\n## a/\n{HEAD}" + "\n".join(lines) + """
| two? | a/one.c: defined, A_MACRO; a/two.py: measured |
| the Makefile's? | a/one.c: defined; Makefile: ALL, A_GOAL, run-it |
| called? | a/two.py: measured_not |
| gone? | a/three.c: defined |

## Another heading
| another | table |
|---|---|
| not | a/row |
"""
    assert len(rows_of(page)) == len(good) + len(bad) + 4
    wrong = [f"where is {name}?: a/one.c does not define {name}" for name in bad]
    assert faults_of(rows_of(page), tmp_path) == [*wrong, "called?: a/two.py does not define measured_not",
                                         "gone?: there is no a/three.c"]
    with pytest.raises(AssertionError, match="file: function"):
        rows_of(f"## a/\n{HEAD}| a? | just words |\n")
    with pytest.raises(AssertionError, match="not in b/"):
        rows_of(f"## b/\n{HEAD}| a? | a/one.c: defined |\n")


def test_every_function_of_the_engine_is_found():
    """The check knows what a definition looks like here: no false alarm for a function that the compiler has seen."""
    for path in [*(ROOT / "dsp").rglob("*.c"), *(ROOT / "host").rglob("*.c")]:
        heads = re.findall(r"^(?:static )?(?:inline )?[a-z_][\w ]*[ *]+(?!__|FOR_ISA)(\w+)\([^;{}]*\)\n{", path.read_text(),
                           re.M)
        missing = [name for name in heads if not defines(path, name)]
        assert not missing, f"{path}: {missing}"
