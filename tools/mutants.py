"""How many small mistakes in the package the tests notice.

    python tools/mutants.py CLONE [--sample 100] [--seed 0] [--out FILE]

changes the package of a clone in one place at a time: a comparison flipped, a
term dropped, an axis swapped, `and` for `or`. After each change the tests that
mirror the module are run, slow ones too, and then the fast ones, until the
first failure. Of the fast ones only the files that execute the statement: the
others can't notice, and coverage.py has found out which they are, in
subprocesses too (FILE.reach.json).

One line per change is printed. FILE keeps the answers, and a run that was
stopped goes on from it. Two runs with a clone each may share the work: `--half
0`, `--half 1`.

The clone is written to: make one for this alone (`git clone . CLONE`).
"""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import coverage

FLIPPED = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
DROPPED = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv)
AXES = {"dim", "axis"}
# long enough for every mirrored test on a slow machine; an endless loop is
# noticed
SECONDS = 3600
FAST = "not slow and not browser"
ALL = "not browser"
COVERAGE = """
[run]
parallel = true
patch = subprocess, fork, _exit
source = vitedu
disable_warnings = no-data-collected, module-not-imported, couldnt-parse
"""


class Mutant(NamedTuple):
    """One place of one module, and what stands there instead."""

    module: str  # vitedu/model/vit.py
    line: int
    statement: int  # the first line of the statement that it is in
    start: int  # offsets in the source, in bytes
    end: int
    text: str  # what is put there
    change: str  # "a < b -> a >= b"


def mutants_of(root: Path, module: Path) -> Iterator[Mutant]:
    """Every change of one module, in the order of its text."""
    source = module.read_bytes()
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for node, statement in statements(ast.parse(source)):
        for part, new in changes(node):
            start = starts[part.lineno - 1] + part.col_offset
            end = starts[part.end_lineno - 1] + part.end_col_offset
            was = ast.unparse(part)
            yield Mutant(
                module.relative_to(root).as_posix(),
                part.lineno,
                statement,
                start,
                end,
                f"({new})",
                f"{was} -> {new}",
            )


def statements(tree: ast.AST, line: int = 1) -> Iterator[tuple[ast.AST, int]]:
    """Every node, and the first line of the innermost statement around it."""
    for node in ast.iter_child_nodes(tree):
        at = node.lineno if isinstance(node, ast.stmt) else line
        yield node, at
        yield from statements(node, at)


def changes(node: ast.AST) -> Iterator[tuple[Any, str]]:
    """The parts of a node that can be changed, and what they become."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        flipped = FLIPPED[type(node.ops[0])]()
        yield (
            node,
            ast.unparse(ast.Compare(node.left, [flipped], node.comparators)),
        )
    elif isinstance(node, ast.BoolOp):
        other = FLIPPED[type(node.op)]()
        yield node, ast.unparse(ast.BoolOp(other, node.values))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, DROPPED):
        is_text = isinstance(node.left, ast.Constant | ast.JoinedStr)
        if not (is_text and isinstance(node.op, ast.Add)):
            yield node, ast.unparse(node.left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, ast.unparse(node.operand)
    elif isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg in AXES and (axis := number(keyword.value)):
                yield keyword.value, str(-2 if axis == -1 else axis - 1)
    elif isinstance(node, ast.Attribute) and node.attr == "mT":
        yield node, ast.unparse(node.value)


def number(node: ast.AST) -> int | None:
    """The whole number that a node stands for, if it is one."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def mirrored(root: Path, module: str) -> list[str]:
    """The tests that mirror a module, as far as there are any of its name."""
    path = Path(module).relative_to("vitedu")
    folder = root / "tests" / path.parent
    stem = path.parent.name if path.stem == "__init__" else path.stem
    found = sorted(folder.glob(f"test_{stem}*.py"))
    if not found and path.parent.name:
        # vitedu/cli/train.py: tests/test_cli*.py
        found = sorted((root / "tests").glob(f"test_{path.parts[0]}*.py"))
        found = found or sorted(folder.glob("test_*.py"))
    return [str(test.relative_to(root)) for test in found]


def run_tests(root: Path, tests: list[str], marked: str, *start: str) -> int:
    """The exit code of pytest in the clone as it is now; 1 if it never ends.

    `start` are the words for Python before pytest's own.
    """
    command = [sys.executable, *start, "-q", "-p", "no:cacheprovider"]
    try:
        return subprocess.run(
            [*command, "-m", marked, *tests],
            cwd=root,
            capture_output=True,
            timeout=SECONDS,
            env={
                **os.environ,
                "PYTHONPATH": str(root),
                "OMP_NUM_THREADS": "1",
            },
        ).returncode
    except subprocess.TimeoutExpired:
        return 1


def fails(root: Path, tests: list[str], marked: str) -> bool:
    """Whether one of these tests fails; 5: none of them was chosen."""
    if not tests:
        return False
    return run_tests(root, tests, marked, "-m", "pytest", "-x") not in (0, 5)


def reach(root: Path, test: str) -> dict[str, list[int]]:
    """The lines of each module that the fast tests of one file execute."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "coverage.ini")
        config.write_text(f"{COVERAGE}data_file = {folder}/data\n")
        start = ("-m", "coverage", "run", f"--rcfile={config}", "-m", "pytest")
        if run_tests(root, [test], FAST, *start) not in (0, 5):
            print(f"{test} fails while its lines are counted", flush=True)
        measured = coverage.Coverage(config_file=str(config))
        measured.combine()
        data = measured.get_data()
        return {
            Path(file).relative_to(root).as_posix(): sorted(lines)
            for file in data.measured_files()
            if (lines := data.lines(file))
        }


def verdict(root: Path, mutant: Mutant, fast: list[str]) -> str:
    """Who notices: the "mirrored" tests, the "fast" ones, or "nobody"."""
    path = root / mutant.module
    source = path.read_bytes()
    text = mutant.text.encode()
    path.write_bytes(source[: mutant.start] + text + source[mutant.end :])
    try:
        tests = mirrored(root, mutant.module)
        if fails(root, tests, ALL):
            return "mirrored"
        others = [test for test in fast if test not in tests]
        return "fast" if fails(root, others, FAST) else "nobody"
    finally:
        path.write_bytes(source)


def main() -> None:
    """Sample, try each, and say how many were noticed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("root", type=Path, metavar="CLONE")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--half", type=int, choices=(0, 1))
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    options = parser.parse_args()
    root = options.root.resolve()
    reached = options.out.with_suffix(".reach.json")
    lines = json.loads(reached.read_text()) if reached.exists() else {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        test = path.relative_to(root).as_posix()
        if test not in lines:
            lines[test] = reach(root, test)
            reached.write_text(json.dumps(lines))
    every = [
        mutant
        for module in sorted((root / "vitedu").rglob("*.py"))
        for mutant in mutants_of(root, module)
    ]
    chosen = random.Random(options.seed).sample(every, options.sample)
    if options.half is not None:
        chosen = chosen[options.half :: 2]
    known = {}
    if options.out.exists():
        known = json.loads(options.out.read_text())["mutants"]
    for mutant in chosen:
        name = f"{mutant.module}:{mutant.line}: {mutant.change}"
        if name not in known:
            fast = [
                test
                for test, modules in lines.items()
                if mutant.statement in modules.get(mutant.module, ())
            ]
            known[name] = verdict(root, mutant, fast)
            print(known[name], name, flush=True)
        counts = dict(Counter(known.values()))
        content = {"places": len(every), "noticed": counts, "mutants": known}
        options.out.write_text(json.dumps(content, indent=1) + "\n")
    print(counts)


if __name__ == "__main__":
    main()
