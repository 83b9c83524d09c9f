"""Showing a figure in a notebook, with the words for who cannot see it."""

from base64 import b64encode
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 120
COLORS = 256  # of a picture: half the bytes of full colour, and no eye sees it
BACKGROUND = "white"  # opaque: a page may be dark


def show(figure: "Figure", alt: str) -> None:
    """Display a figure as PNG; `alt` says what is seen and the number that matters.

    The alt text stands in the output's metadata, from where the book takes it, and is
    what a notebook without pictures shows.
    ValueError: the alt text is empty, or the name of a file.
    """
    from IPython.display import display

    alt = " ".join(alt.split())
    if not alt or alt.lower().endswith((".png", ".jpg", ".jpeg", ".svg")):
        raise ValueError(
            f"a figure needs words that say what is seen, got {alt!r}"
        )
    picture = b64encode(_png(figure)).decode()
    display(
        {"image/png": picture, "text/plain": alt},
        raw=True,
        metadata={"image/png": {"alt": alt}},
    )


def _png(figure: "Figure") -> bytes:
    """The figure's file; equal figures are equal bytes."""
    from PIL import Image

    drawn, file = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, facecolor=BACKGROUND)
    picture = Image.open(drawn).convert("RGB")
    picture.quantize(
        COLORS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
    ).save(file, "PNG", optimize=True)
    return file.getvalue()
