"""The style sheet of icons: its fonts, and what stays of the theme's own."""

import io
import re
from base64 import b64decode

import pytest

pytest.importorskip("pydata_sphinx_theme")
pytest.importorskip("fontTools")
icons = pytest.importorskip("icons")


def test_the_rules_of_icons_that_no_page_shows_are_left_out():
    style = (icons.theme() / "styles/pydata-sphinx-theme.css").read_text()
    lighter = icons.without_unused(style)
    assert len(lighter) < len(style) - 80_000
    used = (*icons.SOLID, *icons.BRANDS)
    assert icons.codepoints(used, lighter) == icons.codepoints(used, style)
    assert ".fa-korvue:" in style and ".fa-korvue:" not in lighter


def test_the_fonts_hold_the_icons_and_nothing_else():
    from fontTools.ttLib import TTFont

    solid, brands = re.findall(r"base64,([^)]*)", icons.style_sheet())
    names = {
        data: set(TTFont(io.BytesIO(b64decode(data))).getBestCmap())
        for data in (solid, brands)
    }
    style = (icons.theme() / "styles/pydata-sphinx-theme.css").read_text()
    assert names[brands] == set(icons.codepoints(icons.BRANDS, style))
    assert names[solid] >= set(icons.codepoints(icons.SOLID, style))
    assert len(names[solid]) < 40
