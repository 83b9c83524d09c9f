"""The style sheet of icons: what stays of the theme's own."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("pydata_sphinx_theme")
pytest.importorskip("fontTools")

PATH = Path(__file__).parents[2] / "tools/icons.py"
SPEC = importlib.util.spec_from_file_location("icons_tool", PATH)
icons = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(icons)


def test_the_rules_of_icons_that_no_page_shows_are_left_out():
    style = (icons.theme() / "styles/pydata-sphinx-theme.css").read_text()
    lighter = icons.without_unused(style)
    assert len(lighter) < len(style) - 80_000
    used = (*icons.SOLID, *icons.BRANDS)
    assert icons.codepoints(used, lighter) == icons.codepoints(used, style)
    assert ".fa-korvue:" in style and ".fa-korvue:" not in lighter


def test_other_rules_stay_as_they_are():
    style = '.a{color:red}.fa-sun:before{content:"\\f185"}.fa-lg{font-size:2em}'
    assert icons.without_unused(style) == style
    unused = (
        '.fa-x:before,.fa-y:before{content:"\\f001"}.fa-1:before{content:"1"}'
    )
    assert icons.without_unused(unused + style) == style
