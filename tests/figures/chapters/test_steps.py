"""Drawings of boxes from top to bottom, each with its line of code."""

import importlib
import inspect
import re

import pytest

from tests.figures.drawn import fill, words
from vitedu import plain
from vitedu.figures.chapters import attention, encoder, resnets, transfer, vit
from vitedu.figures.palette import ATTENTION, PALE, PATCHES, STREAM, TINTS

# boxes and colours of each, a line of its code, words of its alt text
DRAWINGS = {
    "attention.layer": ((4, 4), "weights @ v", "U_msa"),
    "mnist.training_loop": ((4, 4), "loss.backward()", "four boxes"),
    "recipe.step": ((6, 4), "x, y = mixup(x, y, draw(alpha))", "six boxes"),
    "speed.mixed_step": ((5, 2), "(loss * scale).backward()", "five boxes"),
    "scale.slices": (
        (4, 4),
        'F.cross_entropy(…, reduction="sum")',
        "four boxes",
    ),
    "transfer.step": ((4, 4), "v.mul_(0.9).add_(g)", "than 1 to length 1"),
    "few_shot.recipe": (
        (4, 4),
        "weights = solve(square, x.mT @ targets)",
        "of 100",
    ),
    "resnets.stem": ((4, 2), "maps = self.backbone(images)", "196 patches"),
    "resolution.stages": ((0, 0), "larger = W_h @ P @ W_w.mT", "3 by 3 and 5"),
    "resolution.ways": ((0, 0), "timm, Hugging Face, PyTorch", "Cell by cell"),
}


def boxes(axes):
    return [p for p in axes.patches if type(p).__name__ == "FancyBboxPatch"]


@pytest.mark.parametrize("drawing", DRAWINGS)
def test_each_step_has_its_box_and_its_code(drawing):
    counts, line, phrase = DRAWINGS[drawing]
    chapter, name = drawing.split(".")
    module = importlib.import_module(f"vitedu.figures.chapters.{chapter}")
    figure, alt = getattr(module, name)()
    (axes,) = figure.axes
    written, found = words(axes), boxes(axes)
    assert (len(found), len(set(map(fill, found)))) == counts
    assert line in written and phrase in alt
    assert "hat" not in "".join(written)  # not explained yet


def test_code_and_box_have_one_colour():
    for draw, steps in (
        (transfer.step, [(code, color) for _, color, code in transfer.STEP]),
        (resnets.stem, [("self.proj(...)", PATCHES)]),
    ):
        texts = draw()[0].axes[0].texts
        assert set(steps) <= {(t.get_text(), t.get_color()) for t in texts}


def test_each_step_of_the_layer_has_its_green_and_its_equation():
    written = words(attention.layer()[0].axes[0])
    assert ATTENTION in attention.GREENS and len(set(attention.GREENS)) == 4
    for number in (5, 6, 7, 8):
        assert any(text.endswith(f"({number})") for text in written)
    assert [written.count(head) for head in "12"] == [3, 3]  # q, k, v


def test_the_block_has_both_equations_and_the_lines_of_its_code():
    from matplotlib.offsetbox import AnnotationBbox

    figure, alt = encoder.block()
    (axes,) = figure.axes
    lines = [x.offsetbox for x in axes.artists if isinstance(x, AnnotationBbox)]
    rows = ["".join(x.get_text() for x in it.get_children()) for it in lines]
    for name in ("norm", "+", "reads", "adds"):
        assert words(axes).count(name) == 2
    assert sum("LN" in row for row in rows) == 2
    source = inspect.getsource(plain.EncoderBlock.forward)
    code = [row for row in rows if "self." in row]
    assert len(code) == 2 and all(line in source for line in code)
    assert "equation (2)" in alt and "equation (3)" in alt
    assert figure.get_facecolor()[3] == 1  # legible on a dark page too


def test_the_equations_have_the_lines_of_the_network_in_its_colours():
    figure, alt = vit.equations()
    (axes,) = figure.axes
    source = inspect.getsource(plain.ViT)
    source += inspect.getsource(plain.EncoderBlock)
    for box, (_, color, _, code) in zip(boxes(axes), vit.STATIONS, strict=True):
        does = re.sub(r"^(x = x |x = |y = |return )", "", code)
        assert does in source and code in alt, code
        assert fill(box) == TINTS[color]
    assert figure.get_facecolor()[3] == 1


def test_nothing_of_the_equations_leaves_its_box():
    (axes,) = vit.equations()[0].axes
    texts = [text for text in axes.texts if text.get_zorder() == 4]
    threes = zip(*[iter(texts)] * 3, strict=True)
    for box, three in zip(boxes(axes), threes, strict=True):
        ground = box.get_window_extent()
        title, symbols, code = (text.get_window_extent() for text in three)
        for place in (title, symbols, code):
            assert ground.x0 < place.x0 and place.x1 < ground.x1
        assert title.x1 < symbols.x0


def test_both_units_have_three_convolutions_and_three_norms():
    figure, alt = resnets.units("v1", "v2")
    (axes,) = figure.axes
    written = words(axes)
    for name in (resnets.NARROW, resnets.LOOK, resnets.WIDEN, "+"):
        assert written.count(name) == 2
    assert sum("norm" in each for each in written) == 6
    assert written.count("ReLU") == 1
    # a convolution is filled, a norm is an outline
    filled = [fill(box) for box in boxes(axes) if box.get_facecolor()[3]]
    assert filled.count(PATCHES) == 6 and filled.count(STREAM) == 1
    assert len(boxes(axes)) == 7 + 6
    assert "then ReLU on the stream; BiT's" in alt


def test_windows_are_centred_as_the_padding_says():
    figure, alt = resnets.windows()
    texts = figure.axes[0].texts
    written = words(figure.axes[0])
    assert written.count("0") == 3  # SAME has one of the two borders
    unused = [t.get_text() for t in texts if t.get_color() == PALE]
    assert unused == ["0"] and "unused" in written
    centres = [t.get_text() for t in texts if t.get_color() == PATCHES]
    assert centres == list("acegbdfh")
    assert "a, c, e and g" in alt
