"""Who may import whom, and what may be where: read from the source."""

import ast
import os
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import vitedu

PACKAGE = Path(vitedu.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each part of the package may import of the others (design: arrows to the
# right, cli -> train -> evaluate, interpret -> weights -> data -> model ->
# errors). Every part may import itself. `vitedu` is the package itself,
# `vitedu/__init__.py`.
FOUNDATION = {"errors", "fields", "files", "pictures", "compat"}
DATA = FOUNDATION | {"model"}
WEIGHTS = DATA | {"data", "budget", "results"}
MEASURES = WEIGHTS | {"weights"}
TRAIN = MEASURES | {"evaluate", "interpret"}
ALLOWED = {
    "errors": set(),
    "compat": {"errors"},
    "fields": {"errors"},
    "files": {"errors"},
    "pictures": {"errors", "fields", "files"},
    "model": {"errors", "fields", "files", "pictures"},
    "plain": set(),  # its `__main__` block apart: see below
    "check": {"plain", "evaluate", "interpret", "model"},
    "budget": FOUNDATION | {"model"},
    "results": FOUNDATION,
    "data": DATA,
    "weights": WEIGHTS,
    "evaluate": MEASURES,
    "interpret": MEASURES | {"evaluate"},
    "train": TRAIN,
    "bench": TRAIN | {"train"},
    "figures": TRAIN | {"train"},
    "vitedu": TRAIN | {"train"},
    "cli": TRAIN | {"train", "bench", "figures", "vitedu"},
    "__main__": {"cli"},
}
# a run draws its page when it is over
INSIDE_FUNCTIONS = {("vitedu.train.fit", "figures")}
# what stands for itself: the network, and the file that readers copy
MAY_IMPORT = {"model": {"torch", "einops"}, "plain": {"torch", "einops"}}

NOT_LOADED = set(
    "psutil torchvision timm matplotlib jinja2 webdataset datasets "
    "torch._dynamo torch.distributed.fsdp torch.distributed.checkpoint".split()
)


def part_of(parts):
    """The part that a dotted name below vitedu belongs to."""
    return parts[1] if len(parts) > 1 else "vitedu"


def imported_names(nodes, package):
    """Every dotted name that a module imports, at the top or inside a function.

    `package` is the dotted name of the folder that the module is in.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            above = above[: len(above) - node.level + 1] if node.level else []
            start = ".".join(above + ([node.module] if node.module else []))
            yield from (f"{start}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and called(node).endswith(
            "import_module"
        ):
            yield from (
                arg.value for arg in node.args if isinstance(arg, ast.Constant)
            )


def called(node):
    """The dotted name of what is called: "sys.exit"; "" where it has none."""
    function, names = node.func, []
    while isinstance(function, ast.Attribute):
        names.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        names.append(function.id)
    return ".".join(reversed(names))


@cache
def parsed(text):
    """The tree of a module; four tests walk all of them."""
    return ast.parse(text)


def without_main(tree):
    """`tree` without its `if __name__ == "__main__":` blocks."""
    kept = [
        node
        for node in tree.body
        if not (
            isinstance(node, ast.If)
            and ast.unparse(node.test) == "__name__ == '__main__'"
        )
    ]
    return ast.Module(kept, tree.type_ignores)


def wrong_imports(root):
    """Sentences on stray imports below the folder `root` (.../vitedu)."""
    parts = {path.stem for path in root.iterdir()} - {"__init__"}
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root.parent).with_suffix("").parts
        package = ".".join(place[:-1])
        if place[-1] == "__init__":
            place = place[:-1]
        reader = part_of(place)
        if reader not in ALLOWED:
            yield f"{reader} has no place among the arrows"
            continue
        tree = parsed(path.read_text())
        if reader == "plain":
            tree = without_main(tree)
        for name in imported_names(ast.walk(tree), package):
            top, *below = name.split(".")
            if top == root.name:
                read = below[0] if below and below[0] in parts else "vitedu"
                is_late = (".".join(place), read) in INSIDE_FUNCTIONS
                if not is_late and read not in ALLOWED[reader] | {reader}:
                    yield f"{'.'.join(place)} imports {name}"
            elif top not in MAY_IMPORT.get(reader, {top}):
                if top not in sys.stdlib_module_names:
                    yield f"{'.'.join(place)} imports {name}"


def test_imports_follow_the_arrows():
    assert list(wrong_imports(PACKAGE)) == []


WRONG = {
    "upwards": ("data/catalogue.py", "from vitedu.train import fit"),
    "sideways": ("evaluate/accuracy.py", "import vitedu.interpret"),
    "in-a-function": ("model/vit.py", "def f():\n    import vitedu.weights"),
    "relative": ("weights/load.py", "from ..train.loop import fit"),
    "from-the-package": ("data/open.py", "from vitedu import train"),
    "by-name": ("data/open.py", "import_module('vitedu.train')"),
    "figures": ("train/loop.py", "from vitedu.figures import curves"),
    "compat": ("model/vit.py", "from vitedu.compat import import_timm"),
    "third-party-in-model": ("model/vit.py", "import numpy as np"),
    "the-command": ("__init__.py", "from vitedu.cli import main"),
    "plain-reads-nothing": ("plain.py", "from vitedu.model import vit"),
    "plain-is-read-by-nobody": ("model/vit.py", "from vitedu import plain"),
    "third-party-in-plain": ("plain.py", "import numpy as np"),
    "a-part-nobody-knows": ("utils.py", "import os"),
}


@pytest.fixture
def small_package(tmp_path):
    """A package in which every import is right."""
    root = tmp_path / "vitedu"
    for part in ("model", "data", "weights", "evaluate", "interpret", "train"):
        (root / part).mkdir(parents=True)
        (root / part / "__init__.py").write_text("import os\n")
    for name in ("errors", "compat", "budget", "figures", "bench", "plain"):
        (root / f"{name}.py").write_text("import os\n")
    (root / "__init__.py").write_text("from vitedu.model import vit\n")
    (root / "__main__.py").write_text("from vitedu.cli import main\n")
    (root / "cli.py").write_text(
        "from vitedu import train, bench, figures, vit\n"
    )
    (root / "train" / "loop.py").write_text("from ..weights import load\n")
    (root / "model" / "vit.py").write_text(
        "import torch\nfrom . import patches\n"
    )
    return root


def test_right_imports_pass_the_check(small_package):
    assert list(wrong_imports(small_package)) == []
    assert circle(small_package) == []


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_import_is_caught(small_package, case):
    path, line = WRONG[case]
    with (small_package / path).open("a") as file:
        file.write(f"{line}\n")
    assert len(list(wrong_imports(small_package))) == 1


def without_types(tree):
    """Its nodes, but for what only type checkers read."""
    nodes = [tree]
    for node in nodes:
        is_if = isinstance(node, ast.If)
        if is_if and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            nodes += node.orelse
        else:
            nodes += ast.iter_child_nodes(node)
            yield node


def circle(root):
    """Modules below `root`, each importing the one before; [] is right."""
    modules = {}
    for path in root.rglob("*.py"):
        name = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    imports = {}
    for name, path in modules.items():
        nodes = without_types(parsed(path.read_text()))
        is_folder = path.stem == "__init__"
        folder = name if is_folder else name.rpartition(".")[0]
        found = set(imported_names(nodes, folder))
        # a name that isn't a module is in the module above it
        found = {
            each if each in modules else each.rpartition(".")[0]
            for each in found
        }
        imports[name] = (found & modules.keys()) - {name}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_module_imports_itself_by_way_of_others():
    assert circle(PACKAGE) == []


@pytest.mark.parametrize(
    ("line", "is_circle"),
    [
        ("from vitedu.data import arrays", True),
        ("from vitedu.data.arrays import Arrays", True),
        ("def f():\n    from . import arrays", True),
        ("from vitedu import data", True),  # its __init__ reads arrays
        ("if TYPE_CHECKING:\n    from vitedu.data import arrays", False),
        ("import os", False),
    ],
)
def test_a_circle_is_caught(small_package, line, is_circle):
    data = small_package / "data"
    (data / "__init__.py").write_text("from vitedu.data import arrays\n")
    (data / "arrays.py").write_text("from vitedu.data.folders import read\n")
    (data / "folders.py").write_text(f"{line}\n")
    assert bool(circle(small_package)) is is_circle


def test_importing_vitedu_loads_nothing_heavy():
    program = "import sys, vitedu; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "vitedu.model.vit" in loaded
    assert loaded & NOT_LOADED == set()


@pytest.mark.slow
def test_a_clone_in_the_working_folder_does_not_hide_the_package(tmp_path):
    (tmp_path / "vitedu" / "book").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", "import vitedu; print(vitedu.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).parent == PACKAGE


@cache
def uses(tree):
    """What a module does that few may do: "environment", "print", "exit"."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in (
            "environ",
            "getenv",
        ):
            found.append(("environment", node.lineno))
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            if {alias.name for alias in node.names} & {"environ", "getenv"}:
                found.append(("environment", node.lineno))
        elif isinstance(node, ast.Call):
            if called(node) in (
                "print",
                "sys.stdout.write",
                "sys.stderr.write",
            ):
                found.append(("print", node.lineno))
            elif called(node) in (
                "sys.exit",
                "exit",
                "quit",
                "os._exit",
                "SystemExit",
            ):
                found.append(("exit", node.lineno))
    return found


# Parts below vitedu/ that may; a folder means all of it.
MAY = {
    "environment": ("cli", "train/processes", "data/catalogue"),
    "print": ("cli",),
    "exit": ("cli", "__main__"),
}


def misplaced(use, root):
    """The places below `root` with a use that belongs elsewhere."""
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).with_suffix("").as_posix()
        if any(
            place == home or place.startswith(f"{home}/") for home in MAY[use]
        ):
            continue
        tree = parsed(path.read_text())
        if place == "plain":
            tree = without_main(tree)
        for found, line in uses(tree):
            if found == use:
                yield f"{place}.py:{line}"


@pytest.mark.parametrize("use", MAY)
def test_environment_print_and_exit_stay_in_their_places(use):
    assert list(misplaced(use, PACKAGE)) == []


@pytest.mark.parametrize(
    ("use", "line"),
    [
        ("environment", "import os; os.environ['HOME']"),
        ("environment", "import os; os.getenv('HOME')"),
        ("environment", "from os import environ"),
        ("print", "print('loaded')"),
        ("print", "import sys; sys.stdout.write('loaded')"),
        ("exit", "import sys; sys.exit(1)"),
        ("exit", "raise SystemExit(1)"),
    ],
)
def test_a_misplaced_use_is_caught(small_package, use, line):
    (small_package / "cli.py").write_text(line)
    assert list(misplaced(use, small_package)) == []
    (small_package / "data" / "arrays.py").write_text(line)
    assert list(misplaced(use, small_package)) == ["data/arrays.py:1"]


def test_a_module_is_at_most_500_lines():
    lines = {path: path.read_text().count("\n") for path in MODULES}
    assert [path for path, count in lines.items() if count > 500] == []
