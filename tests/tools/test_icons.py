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


def test_other_rules_stay_as_they_are():
    style = '.a{color:red}.fa-sun:before{content:"\\f185"}.fa-lg{font-size:2em}'
    assert icons.without_unused(style) == style
    unused = (
        '.fa-x:before,.fa-y:before{content:"\\f001"}.fa-1:before{content:"1"}'
    )
    assert icons.without_unused(unused + style) == style


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


def test_an_icon_that_the_theme_does_not_have_is_refused():
    with pytest.raises(
        ValueError, match="doesn't have the icon 'no-such-icon'"
    ):
        icons.codepoints(("no-such-icon",), ".fa-sun:before{content:'x'}")
