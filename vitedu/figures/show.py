"""Showing a figure in a notebook, with alt text."""

from base64 import b64encode
from io import BytesIO

from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from PIL import Image

DPI = 120
COLORS = 256  # of a picture: half the bytes of full colour, and no eye sees it
BACKGROUND = "white"  # opaque: a page may be dark


def show(figure: Figure, alt: str) -> None:
    """Display a figure as PNG; `alt` says what is seen, and the main number.

    The alt text goes into the output's metadata, where the book finds it, and
    is what a notebook without pictures shows. The background is white unless
    the figure's own is transparent (`figure.patch.set_alpha(0)`). A figure
    without pictures is marked as a chart, whose colours may change in the dark.
    ValueError: the alt text is empty, or the name of a file.
    """
    from IPython.display import display

    alt = " ".join(alt.split())
    if not alt or alt.lower().endswith((".png", ".jpg", ".jpeg", ".svg")):
        raise ValueError(
            f"a figure needs words that say what is seen, got {alt!r}"
        )
    picture = b64encode(_png(figure)).decode()
    shown = [part for axes in figure.axes for part in axes.get_children()]
    is_chart = not any(isinstance(x, AxesImage | QuadMesh) for x in shown)
    display(
        {"image/png": picture, "text/plain": alt},
        raw=True,
        metadata={"image/png": {"alt": alt, "chart": is_chart}},
    )


def _png(figure: Figure) -> bytes:
    """PNG bytes; equal figures give equal bytes."""
    transparent = figure.get_facecolor()[3] == 0
    ground = "none" if transparent else BACKGROUND
    drawn, file = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, facecolor=ground)
    picture = Image.open(drawn)
    if not transparent:
        picture = picture.convert("RGB").quantize(
            COLORS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
        )
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()
