"""The style sheet of icons: its fonts, and what stays of the theme's own."""

import io
import re
from base64 import b64decode

import pytest

pytest.importorskip("pydata_sphinx_theme")
pytest.importorskip("fontTools")
icons = pytest.importorskip("icons")
styles = pytest.importorskip("styles")


def test_rules_of_classes_that_no_page_names_are_left_out():
    style = (icons.theme() / "styles/pydata-sphinx-theme.css").read_text()
    used = (*icons.SOLID, *icons.BRANDS)
    words = {f"fa-{name}" for name in used}
    lighter = styles.without_unused(style, words)
    assert len(lighter) < len(style) / 3
    assert icons.codepoints(used, lighter) == icons.codepoints(used, style)
    assert ".fa-korvue:" in style and ".fa-korvue:" not in lighter
    assert lighter.count("{") == lighter.count("}")
    assert re.findall(r"/\*!.*?\*/", lighter) == re.findall(
        r"/\*!.*?\*/", style
    )
    rules = "/* b */ a,.no.b:is(.x, y){} .b:not(.no, c):hover{} @media p{.no{}}"
    found = styles.without_unused(rules, {"b"})
    assert "".join(found.split()) == "a{}.b:not(.no,c):hover{}"


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
