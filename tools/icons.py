"""Put the book's icons into one small style sheet, in place of all others.

The theme loads 1.5 MB of script, or 270 kB of fonts, on every page, for twenty
icons of the 2,000 in Font Awesome. Fonts in files are also refused by some
browsers to a page that is read from disk; a font inside a style sheet is not.
"""

import re
import shutil
from base64 import b64encode
from io import BytesIO
from pathlib import Path

import pydata_sphinx_theme
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

# what pages and the theme's scripts name; what its style sheet shows is read
# from there
SOLID = (
    "angle-down",
    "angle-left",
    "angle-right",
    "arrow-up",
    "bars",
    "circle-half-stroke",
    "download",
    "expand",
    "file",
    "file-pdf",
    "lightbulb",
    "list",
    "magnifying-glass",
    "moon",
    "rocket",
    "sun",
    "xmark",
)
BRANDS = ("github",)
SHOWN = re.compile(r'--pst-icon-[\w-]+: *"(.)"')  # admonitions, links, ...
UNUSED = (
    "scripts/fontawesome.js*",
    "scripts/*.map",
    "styles/*.map",
    "vendor/fontawesome",
    "sphinx-thebe.*",
    "locales",
)
# The licence keeps the font's name for the whole font.
STYLE = """\
/* A part of {credit}
   Icons: CC BY 4.0, font: SIL OFL 1.1, https://fontawesome.com/license/free */
@font-face {{
  font-family: "book icons";
  font-weight: 900;
  src: url(data:font/woff;base64,{solid}) format("woff");
}}
@font-face {{
  font-family: "book icons";
  font-weight: 400;
  src: url(data:font/woff;base64,{brands}) format("woff");
}}
:root {{
  --fa-font-solid: normal 900 1em/1 "book icons";
}}
.fa-solid,
.fas,
.fa-brands,
.fab,
.bd-sidebar-secondary .onthispage::after {{
  font-family: "book icons" !important;
}}
"""
SCRIPT = re.compile(
    r'<script[^>]* src="([^"]*)_static/scripts/fontawesome\.js[^"]*"></script>'
)


def theme() -> Path:
    """The folder of the theme's style sheets, scripts and fonts."""
    package = Path(pydata_sphinx_theme.__file__).parent
    return package / "theme/pydata_sphinx_theme/static"


def codepoints(names: tuple[str, ...], style: str) -> list[int]:
    """The code points of icons in their font, from the theme's `style` sheet.

    ValueError: an icon is missing there.
    """
    points = []
    for name in names:
        rule = re.escape(f".fa-{name}:before")
        found = re.search(rf'{rule}[^{{]*{{content:"\\([0-9a-f]+)"}}', style)
        if found is None:
            raise ValueError(f"the theme doesn't have the icon {name!r}")
        points.append(int(found[1], 16))
    return points


def subset(font: Path, points: list[int]) -> str:
    """A font of these characters alone, as base64 of its WOFF."""
    options = Options(flavor="woff", name_IDs=[], notdef_outline=False)
    characters = Subsetter(options)
    characters.populate(unicodes=points)
    with TTFont(font) as glyphs:
        characters.subset(glyphs)
        glyphs.flavor = "woff"
        file = BytesIO()
        glyphs.save(file)
    return b64encode(file.getvalue()).decode()


def style_sheet() -> str:
    """The style sheet that shows the icons without the theme's script."""
    style = (theme() / "styles/pydata-sphinx-theme.css").read_text()
    fonts = theme() / "vendor/fontawesome/webfonts"
    solid = [*codepoints(SOLID, style), *map(ord, SHOWN.findall(style))]
    credit = re.search(r"Font Awesome Free [\d.]+ by \S+", style)
    return STYLE.format(
        credit=credit[0] if credit else "Font Awesome Free",
        solid=subset(fonts / "fa-solid-900.ttf", solid),
        brands=subset(fonts / "fa-brands-400.ttf", codepoints(BRANDS, style)),
    )


def lighten(site: Path) -> None:
    """Let every page of a built site load the style sheet, not the script."""
    static = site / "_static"
    (static / "icons.css").write_text(style_sheet())
    link = r'<link rel="stylesheet" href="\1_static/icons.css">'
    for path in site.rglob("*.html"):
        page = path.read_text()
        path.write_text(SCRIPT.sub(link, page))
    for pattern in UNUSED:
        for path in static.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
