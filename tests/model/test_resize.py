"""Resized positions against the authors' arrays, timm, torchvision, a formula.

The authors' arrays are read where VITEDU_GOLDEN is set.
"""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.tiny import tiny
from vitedu.compat import import_timm, import_torchvision
from vitedu.errors import UserError
from vitedu.model import Learned1D, ViT
from vitedu.model.position import Learned2D
from vitedu.model.relative import Relative
from vitedu.model.resize import resize_pos_embed, resize_positions

MODES = ("paper", "timm", "torchvision", "hf")
every_mode = pytest.mark.parametrize("mode", MODES)

# old grid, new grid: larger, smaller, one side of each, a line, a single patch
SIZES = [
    ((3, 5), (4, 9)),
    ((7, 4), (4, 3)),
    ((6, 4), (4, 6)),
    ((2, 8), (2, 5)),
    ((1, 4), (3, 7)),
    ((4, 1), (7, 1)),
    ((4, 4), (1, 1)),
    ((1, 1), (3, 2)),
]
every_size = pytest.mark.parametrize(("old", "new"), SIZES)


def random_table(grid, prefix=1, d=6, dtype=torch.float64):
    torch.manual_seed(0)
    return torch.randn(1, prefix + math.prod(grid), d, dtype=dtype)


def resized(table, old, new, prefix=1, mode="paper"):
    return resize_pos_embed(
        table, new, old_grid=old, num_prefix_tokens=prefix, mode=mode
    )


# -- the authors'

golden = Path(os.environ.get("VITEDU_GOLDEN", "golden is not set"))
needs_golden = pytest.mark.skipif(
    not golden.is_dir(), reason="VITEDU_GOLDEN names no folder"
)
PAIRS = [
    *("3to5", "4to7", "7to4", "14to24", "2to3"),
    *("5to5", "6to12", "1to3", "4to1", "8to26"),
]


@needs_golden
def test_every_golden_pair_is_tried():
    described = json.loads((golden / "posemb_resize.json").read_text())
    assert [pair["name"] for pair in described["pairs"]] == PAIRS


@needs_golden
@pytest.mark.parametrize("ending", ["", "_notoken"])
@pytest.mark.parametrize("pair", PAIRS)
def test_the_paper_s_mode_is_the_authors(pair, ending):
    numpy = pytest.importorskip("numpy")
    described = json.loads((golden / "posemb_resize.json").read_text())
    old, new = map(int, pair.split("to"))
    prefix = 0 if ending else 1
    with numpy.load(golden / "posemb_resize.npz") as arrays:
        given = torch.from_numpy(arrays[f"{pair}_in{ending}"])
        want = torch.from_numpy(arrays[f"{pair}_out{ending}"])
    ours = resize_pos_embed(given, (new, new), num_prefix_tokens=prefix)
    assert torch.equal(ours[:, :prefix], want[:, :prefix])
    ours, want = (
        table[0, prefix:].unflatten(0, (new, new)) for table in (ours, want)
    )
    if [old, new] in described["last_row_and_column_zero_pairs_up_to_48"]:
        assert not want[-1].any() and not want[:, -1].any()
        assert ours[-1].abs().min() > 0 and ours[:, -1].abs().min() > 0
        ours, want = ours[:-1, :-1], want[:-1, :-1]
    # both compute in float64 and round to float32: measured 1.2e-7
    assert_close(ours, want, rtol=0, atol=1e-6)


@every_size
def test_the_paper_s_mode_is_linear_between_corners_that_stay(old, new):
    table = random_table(old, prefix=0)
    image = table[0].unflatten(0, old)
    ours = resized(table, old, new, prefix=0)[0].unflatten(0, new)
    for row in range(new[0]):
        for column in range(new[1]):
            # a single row of the new grid is the first of the old one
            y = row * (old[0] - 1) / max(new[0] - 1, 1)
            x = column * (old[1] - 1) / max(new[1] - 1, 1)
            top, left = math.floor(y), math.floor(x)
            bottom, right = math.ceil(y), math.ceil(x)
            y, x = y - top, x - left
            want = (1 - y) * (1 - x) * image[top, left]
            want = want + (1 - y) * x * image[top, right]
            want = want + y * (1 - x) * image[bottom, left]
            want = want + y * x * image[bottom, right]
            # four products in float64; an index off by 1e-15 moves a floor
            assert_close(ours[row, column], want, rtol=0, atol=1e-13)


# -- the libraries'


@every_size
def test_timm_s_mode_is_timm_s(old, new):
    import_timm()
    from timm.layers import resample_abs_pos_embed

    table = random_table(old, prefix=2)
    want = resample_abs_pos_embed(
        table, list(new), list(old), num_prefix_tokens=2
    )
    # timm computes in float32: 16 to 100 terms, measured 5e-7
    assert_close(resized(table, old, new, 2, "timm"), want, rtol=0, atol=3e-6)


@pytest.mark.parametrize(("old", "new"), [(7, 12), (8, 3), (2, 5), (3, 1)])
def test_torchvision_s_mode_is_torchvision_s(old, new):
    import_torchvision()
    from torchvision.models.vision_transformer import interpolate_embeddings

    table = random_table((old, old))  # in float64 theirs is in float64 too
    state = {"encoder.pos_embedding": table}
    want = interpolate_embeddings(new * 4, 4, state)["encoder.pos_embedding"]
    ours = resized(table, None, (new, new), mode="torchvision")
    assert_close(ours, want, rtol=0, atol=1e-12)


@every_size
def test_hugging_face_s_mode_is_cubic_between_pixel_centres(old, new):
    """Their interpolation is Keys' cubic with a = -0.75, edges repeated."""

    def weights(n_old, n_new):
        matrix = torch.zeros(n_new, n_old, dtype=torch.float64)
        for i in range(n_new):
            place = (i + 0.5) * n_old / n_new - 0.5
            for tap in range(math.floor(place) - 1, math.floor(place) + 3):
                x, a = abs(place - tap), -0.75
                weight = a * (x**3 - 5 * x**2 + 8 * x - 4)
                if x <= 1:
                    weight = (a + 2) * x**3 - (a + 3) * x**2 + 1
                matrix[i, min(max(tap, 0), n_old - 1)] += weight
        return matrix

    table = random_table(old, prefix=0)
    image = table[0].unflatten(0, old)
    rows, columns = (weights(*pair) for pair in zip(old, new, strict=True))
    want = torch.einsum("ai,bj,ijd->abd", rows, columns, image).flatten(0, 1)
    ours = resized(table, old, new, prefix=0, mode="hf")[0]
    assert_close(ours, want, rtol=0, atol=1e-12)  # 16 terms in float64


@pytest.mark.parametrize(("old", "new"), SIZES[:3])
def test_every_mode_is_another_function(old, new):
    table = random_table(old)
    results = [resized(table, old, new, mode=mode) for mode in MODES]
    for i, one in enumerate(results):
        for other in results[:i]:
            assert (one - other).abs().max() > 1e-3


# -- what holds for all


@every_mode
@every_size
def test_the_class_token_is_not_resized(old, new, mode):
    table = random_table(old, prefix=2)
    ours = resized(table, old, new, 2, mode)
    assert ours.shape == (1, 2 + math.prod(new), 6)
    assert torch.equal(ours[:, :2], table[:, :2])


@every_mode
def test_an_equal_grid_returns_the_table_itself(mode):
    table = random_table((3, 4))
    assert resized(table, (3, 4), (3, 4), mode=mode) is table


@every_mode
def test_without_an_old_grid_the_table_is_a_square(mode):
    table = random_table((3, 3))
    with_grid = resized(table, (3, 3), (4, 5), mode=mode)
    assert torch.equal(resized(table, None, (4, 5), mode=mode), with_grid)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once_at_the_end(dtype):
    table = random_table((3, 5), dtype=dtype)
    exact = resized(table.double(), (3, 5), (4, 9))
    assert torch.equal(resized(table, (3, 5), (4, 9)), exact.to(dtype))


def test_gradients_reach_the_old_table():
    table = random_table((3, 5)).requires_grad_()
    resized(table, (3, 5), (6, 10)).sum().backward()
    assert table.grad.abs().min() > 0


# -- the tables of a model

LEARNED = [
    kind(at=at)
    for kind in (Learned1D, Learned2D)
    for at in ("stem", "layers", "shared")
]


def enlarged(position, mode="paper"):
    """A model, and one for (20, 16) pixels with its weights."""
    torch.manual_seed(0)
    old = tiny(position=position)
    new = replace(old, image_size=(20, 16))
    small = ViT(old).double()
    for weight in small.parameters():
        nn.init.normal_(weight)
    large = ViT(new).double()
    large.load_state_dict(
        resize_positions(small.state_dict(), old, new, mode=mode)
    )
    return small, large


@every_mode
@pytest.mark.parametrize("position", LEARNED, ids=str)
def test_every_table_of_a_model_is_resized_as_the_grid_it_spans(position, mode):
    small, large = enlarged(position, mode)
    owners = [(small, large)]
    if position.at == "layers":
        owners = zip(small.blocks, large.blocks, strict=True)
    for owner, larger in owners:
        before, after = owner.pos_embed, larger.pos_embed
        if isinstance(before, nn.Module):
            before, after = before(), after()
        want = resized(before, (2, 3), (5, 4), mode=mode)
        assert_close(after, want, rtol=0, atol=1e-12)


def test_relative_positions_do_not_fit_another_grid():
    old = tiny(position=Relative())
    new = replace(old, image_size=(20, 16))
    state = ViT(old).state_dict()
    with pytest.raises(UserError, match=r"2x3 grid .* keep image_size=\(8, 12"):
        resize_positions(state, old, new)
    same = resize_positions(state, old, old)
    assert all(same[name] is state[name] for name in state)
