"""What is exported says what it is; a private name may speak for itself."""

import importlib
import inspect
from pathlib import Path

import pytest

import vitedu

PACKAGE = Path(vitedu.__file__).parent
EXPORTING = [
    ".".join(path.parent.relative_to(PACKAGE.parent).parts)
    for path in sorted(PACKAGE.rglob("__init__.py"))
    if "__all__" in path.read_text()
]


def undocumented(name, thing):
    """`thing` and its public methods, as far as they lack a docstring."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return
    if not thing.__doc__:
        yield name
    if not inspect.isclass(thing):
        return
    for method, value in vars(thing).items():
        function = getattr(value, "fget", None) or getattr(
            value, "__func__", value
        )
        if not method.startswith("_") and inspect.isfunction(function):
            if not inspect.getdoc(getattr(thing, method)):
                yield f"{name}.{method}"


@pytest.mark.parametrize("package", EXPORTING)
def test_every_exported_name_has_a_docstring(package):
    module = importlib.import_module(package)
    missing = [
        each
        for name in module.__all__
        for each in undocumented(name, getattr(module, name))
    ]
    assert module.__doc__
    assert missing == []


def test_a_missing_docstring_is_noticed():
    class Silent:
        """Says what it is."""

        def answer(self):
            return 42

    assert list(undocumented("Silent", Silent)) == ["Silent.answer"]
