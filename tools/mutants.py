"""How many small mistakes in the package the tests notice.

    python tools/mutants.py [--sample 100] [--seed 0] [--out FILE] [--root CLONE]

changes the package of a clone in one place at a time: a comparison flipped, a term
dropped, an axis swapped, `and` for `or`. After each change the tests that mirror the
module are run, and then the fast ones, until the first failure. One line per change
is printed; FILE keeps the answers, and a run that was stopped goes on from it.

The clone is written to: make one for this alone (`git clone . CLONE`).
"""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
# long enough for every mirrored test on a slow machine; an endless loop is noticed
SECONDS = 3600
FAST = "not slow and not browser"


class Mutant(NamedTuple):
    """One place of one module, and what stands there instead."""

    module: str  # vitedu/model/vit.py
    line: int
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
    for node in ast.walk(ast.parse(source)):
        for part, new in changes(node):
            start = starts[part.lineno - 1] + part.col_offset
            end = starts[part.end_lineno - 1] + part.end_col_offset
            was = ast.unparse(part)
            yield Mutant(
                module.relative_to(root).as_posix(),
                part.lineno,
                start,
                end,
                f"({new})",
                f"{was} -> {new}",
            )


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
    if (
        not found and path.parent.name
    ):  # vitedu/cli/train.py: tests/test_cli*.py
        found = sorted((root / "tests").glob(f"test_{path.parts[0]}*.py"))
        found = found or sorted(folder.glob("test_*.py"))
    return [str(test.relative_to(root)) for test in found]


def fails(root: Path, tests: list[str]) -> bool:
    """Whether a test fails (or never ends) in the clone as it is now."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", FAST]
    command += ["-n", "2"] if not tests else []
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", *tests],
            cwd=root,
            capture_output=True,
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode not in (0, 5)  # 5: no test was chosen


def verdict(root: Path, mutant: Mutant) -> str:
    """Who notices: the "mirrored" tests, the "fast" ones, or "nobody"."""
    path = root / mutant.module
    source = path.read_bytes()
    text = mutant.text.encode()
    path.write_bytes(source[: mutant.start] + text + source[mutant.end :])
    try:
        tests = mirrored(root, mutant.module)
        if tests and fails(root, tests):
            return "mirrored"
        return "fast" if fails(root, []) else "nobody"
    finally:
        path.write_bytes(source)


def main() -> None:
    """Sample, try each, and say how many were noticed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--root", type=Path, default=Path.cwd())
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    options = parser.parse_args()
    root = options.root.resolve()
    every = [
        mutant
        for module in sorted((root / "vitedu").rglob("*.py"))
        for mutant in mutants_of(root, module)
    ]
    chosen = random.Random(options.seed).sample(every, options.sample)
    known = {}
    if options.out.exists():
        known = json.loads(options.out.read_text())["mutants"]
    for mutant in chosen:
        name = f"{mutant.module}:{mutant.line}: {mutant.change}"
        if name not in known:
            known[name] = verdict(root, mutant)
            print(known[name], name, flush=True)
        counts = dict(Counter(known.values()))
        content = {"places": len(every), "noticed": counts, "mutants": known}
        options.out.write_text(json.dumps(content, indent=1) + "\n")
    print(counts)


if __name__ == "__main__":
    main()
