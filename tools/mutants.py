"""How many small mistakes in the package the tests notice.

    python tools/mutants.py CLONE [--sample 100] [--seed 0] [--out FILE]

changes the package of a clone in one place at a time: a comparison flipped, a
term dropped, an axis swapped, `and` for `or`. After each change the tests that
mirror the module are run until the first failure, slow ones last. What they
don't notice is shown to the fast ones afterwards, but only to the files that
execute the statement: the others can't notice, and coverage.py finds out which
they are, in subprocesses too (FILE.reach.json). `--mirrored` leaves this out.

Each time pytest starts anew. What failed is run again without the change: only
what passes then has noticed it. A test that fails then too is left out from
there on, and named in FILE. One line per change is printed. FILE keeps the
answers, and a run that was stopped goes on from it. Two runs with a clone each
may share the work: `--half 0`, `--half 1`.

The clone is written to: make one for this alone (`git clone . CLONE`).
"""

import argparse
import ast
import contextlib
import json
import os
import random
import signal
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
SECONDS = 1200
SENTENCES = "tests/test_sentences.py"
FAST = "not slow and not browser"
SLOW = "slow and not browser"
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

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line}: {self.change}"


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
    """The tests of a module's name, and the table of what mistakes are told."""
    path = Path(module).relative_to("vitedu")
    path = path.parent if path.stem == "__init__" else path
    tests, found = root / "tests", []
    every = sorted((tests / path.parent).glob("test_*.py"))
    # vitedu/weights/timm/plain.py: tests/weights/test_timm*.py
    while path.name and not found:
        found = sorted((tests / path.parent).glob(f"test_{path.stem}*.py"))
        path = path.parent
    names = [str(test.relative_to(root)) for test in found or every]
    return [*names, SENTENCES]


def noticed(
    root: Path, mutant: Mutant, tests: list[str], marked: str, out: list[str]
) -> bool:
    """Whether a test fails with this change and passes without.

    `out`: tests to leave out, which grows by those that fail without, too.
    """
    if not tests:
        return False
    with tempfile.TemporaryDirectory() as cache:
        words = ["-m", marked, "-o", f"cache_dir={cache}", *tests]
        while True:
            leave = [f"--deselect={test}" for test in out]
            with made(root, mutant):
                if passes(root, ["-x", *words, *leave]):
                    return False
            # all of them where none is known to have failed
            if passes(root, [*words, "--last-failed", *leave]):
                return True
            failed = json.loads(Path(cache, "v/cache/lastfailed").read_text())
            print("fails unchanged:", *failed, flush=True)
            out += failed


def passes(root: Path, words: list[str]) -> bool:
    """Whether pytest, started anew, ends in time and without a failure."""
    command = [sys.executable, "-m", "pytest", "-q", *words]
    process = subprocess.Popen(
        command,
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        # 5: none of them was chosen
        return process.wait(SECONDS) in (0, 5)
    except subprocess.TimeoutExpired:
        return False
    finally:
        # it, where it never ends, and what it has started
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def reach(root: Path, test: str) -> dict[str, list[int]]:
    """The lines of each module that the fast tests of one file execute."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "coverage.ini")
        config.write_text(f"{COVERAGE}data_file = {folder}/data\n")
        run = ["-m", "coverage", "run", f"--rcfile={config}", "-m", "pytest"]
        words = ["-q", "-p", "no:cacheprovider", "-m", FAST, test]
        command = [sys.executable, *run, *words]
        done = subprocess.run(command, cwd=root, capture_output=True)
        if done.returncode not in (0, 5):
            print(f"{test} fails while its lines are counted", flush=True)
        measured = coverage.Coverage(config_file=str(config))
        measured.combine()
        data = measured.get_data()
        return {
            Path(file).relative_to(root).as_posix(): sorted(lines)
            for file in data.measured_files()
            if (lines := data.lines(file))
        }


def reached(root: Path, file: Path) -> dict[str, dict[str, list[int]]]:
    """`reach` of every file of tests; what is found is kept in a file."""
    lines = json.loads(file.read_text()) if file.exists() else {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        test = path.relative_to(root).as_posix()
        if test not in lines:
            lines[test] = reach(root, test)
            file.write_text(json.dumps(lines))
    return lines


@contextlib.contextmanager
def made(root: Path, mutant: Mutant) -> Iterator[None]:
    """The clone with this change, as long as the block lasts."""
    path = root / mutant.module
    source, text = path.read_bytes(), mutant.text.encode()
    path.write_bytes(source[: mutant.start] + text + source[mutant.end :])
    try:
        yield
    finally:
        path.write_bytes(source)


def main() -> None:
    """Sample, try each, and say how many were noticed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("root", type=Path, metavar="CLONE")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--half", type=int, choices=(0, 1))
    parser.add_argument("--mirrored", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    options = parser.parse_args()
    root, out = options.root.resolve(), options.out.resolve()
    # what a run that was killed had just changed
    subprocess.run(["git", "-C", root, "checkout", "-q", "vitedu"], check=True)
    every = [
        mutant
        for module in sorted((root / "vitedu").rglob("*.py"))
        for mutant in mutants_of(root, module)
    ]
    chosen = random.Random(options.seed).sample(every, options.sample)
    if options.half is not None:
        chosen = chosen[options.half :: 2]
    # what is compiled holds for the source that it was compiled from alone
    mode = "--invalidation-mode=checked-hash"
    compiled = [sys.executable, "-m", "compileall", "-qf", mode, "vitedu"]
    subprocess.run(compiled, cwd=root, check=True)
    os.environ |= {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    os.environ |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    kept = json.loads(out.read_text()) if out.exists() else {}
    known, broken = kept.get("mutants", {}), kept.get("fail unchanged", [])

    def note(mutant: Mutant, verdict: str) -> None:
        known[mutant.name] = verdict
        print(verdict, mutant.name, flush=True)
        counts = dict(Counter(known.values()))
        content = {"places": len(every), "noticed": counts, "mutants": known}
        content |= {"fail unchanged": broken}
        out.write_text(json.dumps(content, indent=1) + "\n")

    def left(verdict: str | None) -> list[Mutant]:
        return [each for each in chosen if known.get(each.name) == verdict]

    for mutant in left(None):
        tests = mirrored(root, mutant.module)
        seen = noticed(root, mutant, tests, FAST, broken)
        seen = seen or noticed(root, mutant, tests, SLOW, broken)
        note(mutant, "mirrored" if seen else "not mirrored")
    unseen = [] if options.mirrored else left("not mirrored")
    lines = reached(root, out.with_suffix(".reach.json")) if unseen else {}
    for mutant in unseen:
        others = [
            test
            for test, modules in lines.items()
            if mutant.statement in modules.get(mutant.module, ())
            and test not in mirrored(root, mutant.module)
        ]
        seen = noticed(root, mutant, others, FAST, broken)
        note(mutant, "fast" if seen else "nobody")
    print(dict(Counter(known.values())))


if __name__ == "__main__":
    main()
