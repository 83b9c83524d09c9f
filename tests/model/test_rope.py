"""Rotary positions: equal to timm's, and what rotating q and k is for."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitedu.compat import import_timm
from vitedu.errors import UserError
from vitedu.model import (
    Axial,
    RoPE,
    ViT,
    ViTConfig,
    attention,
    patchify,
    unpatchify,
)
from vitedu.model.position import rotation_table
from vitedu.model.relative import rotated

TINY = {
    "image_size": (8, 12),
    "patch_size": 4,
    "num_classes": 5,
    "embed_dim": 32,
    "depth": 2,
    "num_heads": 2,
    "mlp_dim": 48,
    "position": RoPE(),
}
# float64, sums over the same numbers in another order: measured below 1e-14
EXACT = {"rtol": 0, "atol": 1e-11}


def random_model(**fields):
    torch.manual_seed(0)
    model = ViT(ViTConfig(**TINY | fields)).double().eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model


def random_images(size=(8, 12)):
    torch.manual_seed(1)
    return torch.randn(2, 3, *size, dtype=torch.float64)


@pytest.mark.parametrize("registers", [0, 3])
@pytest.mark.parametrize("grid", [(2, 3), (3, 2), (1, 4)])
def test_equals_timm(grid, registers):
    import_timm()
    from timm.models import create_model

    model = random_model(
        image_size=(4 * grid[0], 4 * grid[1]), registers=registers
    )
    theirs = create_model(
        "vit_small_patch16_rope_224",
        img_size=model.config.image_size,
        patch_size=4,
        embed_dim=32,
        depth=2,
        num_heads=2,
        mlp_ratio=1.5,
        num_classes=5,
        # a scale behind each branch, which is 1 here
        init_values=1.0,
        num_reg_tokens=registers,
    )
    # timm rounds its frequencies to float32; here they are its formula in
    # float64
    bands = theirs.rope.bands.numel()
    theirs.double().eval()
    theirs.rope.bands = 100.0 ** -(torch.arange(bands).double() / bands)
    theirs.rope._update_cached_embed(list(grid), theirs.rope.bands)
    scales = {n: w for n, w in theirs.state_dict().items() if "gamma" in n}
    theirs.load_state_dict(model.state_dict() | scales)
    images = random_images(model.config.image_size)
    assert_close(model(images), theirs(images), **EXACT)


def test_the_table_is_the_formula():
    cosines, sines = rotation_table((2, 3), 8, 100.0, num_prefix_tokens=1)
    assert cosines.shape == sines.shape == (7, 4)
    for row, column in itertools.product(range(2), range(3)):
        angles = [column, column / 10, row, row / 10]
        place = 1 + 3 * row + column
        cosine, sine = map(math.cos, angles), map(math.sin, angles)
        want = torch.tensor([[*cosine], [*sine]], dtype=torch.float64)
        found = torch.stack([cosines[place], sines[place]])
        assert_close(found, want, rtol=0, atol=1e-15)


def test_a_rotation_turns_neighbouring_numbers_and_keeps_their_length():
    quarter = torch.tensor(math.pi / 2, dtype=torch.float64)
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    turned = rotated(x, quarter.cos()[None], quarter.sin()[None])
    assert_close(turned, torch.tensor([-2.0, 1.0]).double(), **EXACT)


def test_tokens_before_the_patches_are_not_rotated():
    model = random_model(registers=2)
    q = torch.randn(1, 2, 9, 16, dtype=torch.float64)
    turned, _ = model.blocks[0].attn.rotate(q, q)
    assert torch.equal(turned[:, :, :3], q[:, :, :3])
    assert not torch.equal(turned[:, :, 4:], q[:, :, 4:])


def test_products_of_q_and_k_depend_on_the_offset_alone():
    model = random_model(image_size=(16, 16))
    q = torch.randn(1, 2, 1, 16).double().expand(-1, -1, 17, -1)
    k = torch.randn(1, 2, 1, 16).double().expand(-1, -1, 17, -1)
    q, k = model.blocks[0].attn.rotate(q, k)
    products = (
        (q @ k.mT)[:, :, 1:, 1:].unflatten(2, (4, 4)).unflatten(4, (4, 4))
    )
    for rows, columns in itertools.product(range(3), range(3)):
        one = products[:, :, 0, 0, rows, columns]
        other = products[:, :, 1, 1, rows + 1, columns + 1]
        assert_close(one, other, **EXACT)


def test_the_order_of_the_patches_matters():
    model = random_model(pool="mean")
    images = random_images()
    shuffled = patchify(images, 4)[:, [4, 2, 0, 5, 3, 1]]
    shuffled = unpatchify(shuffled, 4, (2, 3))
    assert (model(images) - model(shuffled)).abs().max() > 1e-3


def test_recorded_weights_are_those_of_the_rotated_q_and_k():
    model, images = random_model(depth=1), random_images()
    layer = model.blocks[0].attn
    layer.maps = maps = []
    model(images)
    x = model.blocks[0].norm1(model.embed(images))
    q, k, v = layer.qkv(x).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
    want = attention(*layer.rotate(q, k), v)[1]
    assert_close(maps[0], want, **EXACT)


def test_a_model_of_another_size_has_the_rotations_of_its_grid():
    model = random_model()
    model.set_input_size((16, 8))
    other = random_model(image_size=(16, 8))
    images = random_images((16, 8))
    assert torch.equal(model(images), other(images))


def test_gradients_with_recomputed_blocks_are_the_same():
    model, images = random_model(), random_images()
    weight = model.blocks[0].attn.qkv.weight
    (want,) = torch.autograd.grad(model(images).sum(), weight)
    model.train().set_grad_checkpointing()
    (found,) = torch.autograd.grad(model(images).sum(), weight)
    assert_close(found, want, **EXACT)


def test_in_half_precision_q_and_k_keep_their_dtype():
    model = random_model().bfloat16()
    assert model(random_images().bfloat16()).dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert random_model().float()(random_images().float()).isfinite().all()


def test_a_head_that_is_no_multiple_of_four_is_an_error():
    with pytest.raises(UserError, match="multiple of 4; embed_dim=30 and 5"):
        random_model(embed_dim=30, num_heads=5)


def test_axial_blocks_cannot_rotate():
    with pytest.raises(UserError, match=r"RoPE\(\) needs .* not AxialBlock"):
        random_model(block=Axial())
