"""What every drawing of the book keeps, asked of each that a test makes."""

import functools
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

from vitedu.figures import chapters, photos

PHONE = 5  # inches: wider, and its words are too small there
MODULES = [photos] + [
    importlib.import_module(f"{chapters.__name__}.{each.name}")
    for each in pkgutil.iter_modules(chapters.__path__)
]


def pytest_collection_modifyitems(items):
    """Mark the tests of this folder: they draw, which is slow."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.slow)


def asked(draw):
    """`draw`, and then whether its figure and its words can be shown."""

    @functools.wraps(draw)
    def drawn(*args, **options):
        figure, alt = draw(*args, **options)
        assert alt.endswith(".") and "\n" not in alt
        assert figure.get_figwidth() <= PHONE
        bare = not any(axes.axison for axes in figure.axes)
        # numbers at axes are dark, and illegible on a dark page
        assert figure.get_facecolor()[3] in ((0, 1) if bare else (1,))
        figure.draw_without_rendering()
        for text in [text for axes in figure.axes for text in axes.texts]:
            place, page = text.get_window_extent(), figure.bbox
            assert place.x0 >= page.x0 and place.x1 <= page.x1, text
            assert place.y0 >= page.y0 and place.y1 <= page.y1, text
        return figure, alt

    return drawn


@pytest.fixture(autouse=True)
def every_drawing_is_asked(monkeypatch):
    for module in MODULES:
        for name, draw in inspect.getmembers(module, inspect.isfunction):
            hints = inspect.get_annotations(draw)
            if hints.get("return") == "tuple[Figure, str]":
                monkeypatch.setattr(module, name, asked(draw))
