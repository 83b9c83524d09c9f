"""Budgets against the paper's counts, PyTorch's counter, what a step holds."""

import weakref
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from vitedu.budget import (
    OPTIMIZER_STATE,
    flops,
    macs,
    memory,
    parameters,
    training_flops,
)
from vitedu.budget.memory import saved_activations
from vitedu.errors import UserError
from vitedu.model import NAMES, ViT, ViTConfig, vit_config

TINY = ViTConfig(
    image_size=(16, 24),
    patch_size=(4, 8),
    num_classes=5,
    embed_dim=32,
    depth=2,
    num_heads=4,
    mlp_dim=80,
)
# Other shapes of the same small network: each changes one term of the formulas.
SHAPES = {
    "plain": {},
    "three-blocks": {"depth": 3},
    "one-head": {"num_heads": 1},
    "narrow-mlp": {"mlp_dim": 16},
    "grey": {"in_channels": 1},
    "square": {"image_size": 24, "patch_size": 4},
    "pre-logits": {"pre_logits": 24},
    "no-head": {"num_classes": 0},
    "pre-logits-no-head": {"num_classes": 0, "pre_logits": 24},
    "mean": {"pool": "mean"},
    "mean-no-class-token": {
        "pool": "mean",
        "class_token": False,
        "pre_logits": 24,
    },
    "dropout": {"dropout": 0.1},
}
small_configs = pytest.mark.parametrize("shape", SHAPES)

SEED_MNIST = ViTConfig(
    image_size=28,
    patch_size=7,
    in_channels=1,
    num_classes=10,
    embed_dim=16,
    depth=2,
    num_heads=2,
    mlp_dim=64,
)

# 224 px, 1,000 classes, one linear head: weights and tokens.
TABLE = {
    "ViT-Ti/8": 5_719_720,
    "ViT-Ti/14": 5_694_376,
    "ViT-Ti/16": 5_717_416,
    "ViT-Ti/32": 6_131_560,
    "ViT-S/8": 22_055_272,
    "ViT-S/14": 22_004_584,
    "ViT-S/16": 22_050_664,
    "ViT-S/32": 22_878_952,
    "ViT-B/8": 86_576_872,
    "ViT-B/14": 86_475_496,
    "ViT-B/16": 86_567_656,
    "ViT-B/32": 88_224_232,
    "ViT-L/8": 304_338_920,
    "ViT-L/14": 304_203_752,
    "ViT-L/16": 304_326_632,
    "ViT-L/32": 306_535_400,
    "ViT-H/8": 632_214_760,
    "ViT-H/14": 632_045_800,
    "ViT-H/16": 632_199_400,
    "ViT-H/32": 634_960_360,
}

I21K = 21_843
OTHER_COUNTS = [
    ("ViT-B/16", {"image_size": 384}, 86_859_496),
    ("ViT-S/16", {"image_size": 384}, 22_196_584),
    ("ViT-L/16", {"image_size": 384}, 304_715_752),
    ("ViT-B/32", {"image_size": 384}, 88_297_192),
    ("ViT-L/32", {"image_size": 384}, 306_632_680),
    ("ViT-L/16", {"image_size": 512}, 305_174_504),
    ("ViT-H/14", {"image_size": 518}, 633_470_440),
    ("ViT-B/16", {"num_classes": 0}, 85_798_656),
    ("ViT-B/16", {"pool": "mean", "class_token": False}, 86_566_120),
    ("ViT-B/16", {"num_classes": I21K}, 102_595_923),
    ("ViT-B/16", {"num_classes": I21K, "pre_logits": 768}, 103_186_515),
    ("ViT-B/32", {"num_classes": I21K, "pre_logits": 768}, 104_843_091),
    ("ViT-L/16", {"num_classes": I21K, "pre_logits": 1024}, 326_740_307),
    ("ViT-L/32", {"num_classes": I21K, "pre_logits": 1024}, 328_949_075),
    ("ViT-H/14", {"num_classes": I21K, "pre_logits": 1280}, 660_385_363),
    ("ViT-Ti/16", {"num_classes": I21K}, 9_740_115),
    ("ViT-S/16", {"num_classes": I21K}, 30_075_219),
    ("ViT-B/16", {"pre_logits": 768}, 87_158_248),
    (
        "ViT-Ti/16",
        {"patch_size": 4, "image_size": 32, "num_classes": 10},
        5_362_762,
    ),
    (
        "ViT-S/16",
        {"patch_size": 4, "image_size": 32, "num_classes": 10},
        21_342_346,
    ),
]
SMALL_RGB = {"image_size": 32, "patch_size": 4, "num_classes": 10, "depth": 6}

# Multiply-adds in billions, to the digits that are printed in tables. (L/16 at
# 224 is 61.5547; tables that count the class token as a patch print 61.56.)
GMACS = [
    ("ViT-Ti/16", 224, "1.25"),
    ("ViT-S/16", 224, "4.60"),
    ("ViT-S/32", 224, "1.14"),
    ("ViT-B/8", 224, "78.15"),
    ("ViT-B/16", 224, "17.56"),
    ("ViT-B/32", 224, "4.41"),
    ("ViT-L/16", 224, "61.55"),
    ("ViT-L/32", 224, "15.38"),
    ("ViT-H/14", 224, "167.3"),
    ("ViT-Ti/16", 384, "4.68"),
    ("ViT-S/16", 384, "15.49"),
    ("ViT-S/32", 384, "3.44"),
    ("ViT-B/16", 384, "55.48"),
    ("ViT-B/32", 384, "13.04"),
    ("ViT-L/16", 384, "191.1"),
    ("ViT-L/32", 384, "45.28"),
    ("ViT-L/16", 512, "361.99"),
    ("ViT-H/14", 518, "1016.7"),
]


def test_every_name_has_an_expected_count():
    assert set(TABLE) == set(NAMES)


@pytest.mark.parametrize("name", TABLE)
def test_parameters_of_the_named_models(name):
    assert parameters(vit_config(name)).total == TABLE[name]


@pytest.mark.parametrize(("name", "fields", "count"), OTHER_COUNTS)
def test_parameters_of_other_sizes_and_heads(name, fields, count):
    assert parameters(vit_config(name, **fields)).total == count


def test_parameters_of_the_seed_mnist_model():
    counted = parameters(SEED_MNIST)
    assert counted.total == 7_850
    # a printed summary leaves out the parameters that are no layer's
    without_bare = counted.total - counted.by_part["cls_token"]
    assert without_bare - counted.by_part["pos_embed"] == 7_562


@pytest.mark.parametrize(
    ("embed_dim", "num_heads", "mlp_dim", "count"),
    [(192, 3, 768, 2_693_578), (256, 4, 1024, 4_771_082)],
)
def test_parameters_of_six_block_models(embed_dim, num_heads, mlp_dim, count):
    sizes = {"embed_dim": embed_dim, "num_heads": num_heads, "mlp_dim": mlp_dim}
    assert parameters(ViTConfig(**SMALL_RGB, **sizes)).total == count


@pytest.mark.parametrize(
    ("size", "block"),
    [
        ("Ti", 444_864),
        ("S", 1_774_464),
        ("B", 7_087_872),
        ("L", 12_596_224),
        ("H", 19_677_440),
    ],
)
def test_parameters_of_one_block(size, block):
    config = vit_config(f"ViT-{size}/16", depth=1)
    assert parameters(config).by_part["blocks"] == block


@pytest.mark.parametrize(
    ("patch", "tokens"), [(8, 785), (14, 257), (16, 197), (32, 50)]
)
def test_tokens_of_the_patch_sizes(patch, tokens):
    assert vit_config(f"ViT-B/{patch}").num_tokens == tokens


@pytest.mark.parametrize(
    ("patch", "image", "tokens"),
    [(16, 384, 577), (16, 512, 1025), (14, 518, 1370), (4, 32, 65)],
)
def test_tokens_of_other_image_sizes(patch, image, tokens):
    assert ViTConfig(patch_size=patch, image_size=image).num_tokens == tokens


@small_configs
def test_parameters_are_those_of_the_built_model(shape):
    config = replace(TINY, **SHAPES[shape])
    built = sum(weight.numel() for weight in ViT(config).parameters())
    assert parameters(config).total == built


def test_parts_sum_to_the_total_and_absent_parts_are_zero():
    total, by_part = parameters(replace(TINY, num_classes=0))
    assert sum(by_part.values()) == total
    assert by_part["head"] == by_part["pre_logits"] == 0
    assert by_part["patch_embed"] == 3 * 4 * 8 * 32 + 32
    assert by_part["cls_token"] == 32
    assert by_part["pos_embed"] == (12 + 1) * 32
    assert by_part["norm"] == 2 * 32


@pytest.mark.parametrize(("name", "image_size", "printed"), GMACS)
def test_macs_of_the_named_models_as_printed(name, image_size, printed):
    decimals = len(printed.split(".")[1])
    counted = macs(vit_config(name, image_size=image_size))
    assert f"{counted / 1e9:.{decimals}f}" == printed


@pytest.mark.parametrize(
    ("name", "image_size", "percent"),
    [
        ("ViT-B/16", 224, "4.1"),
        ("ViT-B/16", 384, "11.1"),
        ("ViT-L/16", 512, "14.3"),
        ("ViT-H/14", 518, "15.1"),
    ],
)
def test_quadratic_share_of_the_cost(name, image_size, percent):
    config = vit_config(name, image_size=image_size)
    quadratic = config.depth * 2 * config.num_tokens**2 * config.embed_dim
    assert f"{100 * quadratic / macs(config):.1f}" == percent


@pytest.mark.parametrize(
    ("name", "epochs", "exaflops"),
    [
        ("ViT-B/32", 7, "56.1"),
        ("ViT-B/16", 7, "223.5"),
        ("ViT-L/32", 7, "195.7"),
        ("ViT-L/16", 7, "783.3"),
        ("ViT-L/16", 14, "1566.7"),
        ("ViT-H/14", 14, "4258"),
    ],
)
def test_training_flops_refit_table_6(name, epochs, exaflops):
    decimals = len(exaflops.partition(".")[2])
    images = 303e6 * epochs  # JFT-300M
    counted = training_flops(vit_config(name)) * images / 1e18
    assert f"{counted:.{decimals}f}" == exaflops


def counted_by_torch(config, device="meta", backward=False):
    with torch.device(device):
        model = ViT(config)
        images = torch.empty(1, config.in_channels, *config.image_size)
    with FlopCounterMode(display=False) as counter:
        logits = model(images)
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


@small_configs
def test_flops_equal_torchs_counter_on_the_meta_device(shape):
    config = replace(TINY, **SHAPES[shape])
    assert flops(config) == counted_by_torch(config)


@pytest.mark.parametrize(
    "name",
    ["ViT-Ti/16", "ViT-B/32", pytest.param("ViT-H/14", marks=pytest.mark.slow)],
)
def test_flops_of_named_models_equal_torchs_counter(name):
    assert flops(vit_config(name)) == counted_by_torch(vit_config(name))


def test_torchs_counter_sees_attention_on_the_meta_device_alone():
    # On meta scaled_dot_product_attention is two batched products, which are
    # counted; the CPU's fused kernel has no entry in the counter, so qk^T and
    # Av are lost there.
    quadratic = 2 * TINY.depth * 2 * TINY.num_tokens**2 * TINY.embed_dim
    assert counted_by_torch(TINY, device="cpu") == flops(TINY) - quadratic


def test_training_flops_are_torchs_count_plus_the_gradient_of_the_pixels():
    # three times forward includes a gradient of the images, which nobody asks
    # for
    stem = 2 * TINY.num_patches * (4 * 8 * 3) * TINY.embed_dim
    assert training_flops(TINY) == counted_by_torch(TINY, backward=True) + stem


@small_configs
@pytest.mark.parametrize("batch_size", [1, 3])
def test_activations_are_what_autograd_saves(
    shape, batch_size, bytes_saved_for_backward
):
    # Exact on the CPU. 1% for the few bytes another version of a kernel may
    # keep.
    config = replace(TINY, **SHAPES[shape])
    torch.manual_seed(0)
    images = torch.randn(batch_size, config.in_channels, *config.image_size)
    counted = memory(config, batch_size=batch_size).activations
    saved = bytes_saved_for_backward(ViT(config), images)
    assert counted == pytest.approx(saved, rel=0.01)


def test_masks_of_drop_path_are_too_small_to_count(bytes_saved_for_backward):
    config = replace(TINY, drop_path=0.5)
    counted = memory(config, batch_size=4).activations
    torch.manual_seed(0)
    images = torch.randn(4, config.in_channels, *config.image_size)
    assert counted == pytest.approx(
        bytes_saved_for_backward(ViT(config), images), rel=0.01
    )


class LiveBytes(TorchDispatchMode):
    """The most bytes alive at once in tensors that are made under this mode."""

    def __init__(self):
        super().__init__()
        self.alive, self.peak = {}, 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        known = {
            tensor.untyped_storage()._cdata
            for tensor in tree_leaves((args, kwargs))
            if isinstance(tensor, torch.Tensor)
        }
        out = operator(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in known and key not in self.alive:
                self.alive[key] = storage.nbytes()
                weakref.finalize(storage, self.alive.pop, key)
        self.peak = max(self.peak, sum(self.alive.values()))
        return out


@small_configs
def test_activations_without_training_are_the_widest_moment(shape):
    config = replace(TINY, **SHAPES[shape])
    model = ViT(config).eval()
    images = torch.randn(3, config.in_channels, *config.image_size)
    with torch.inference_mode(), LiveBytes() as live:
        model(images)
    counted = memory(config, batch_size=3, training=False).activations
    # Measured equal, but for attention's row sums: one number a head and token.
    assert counted == pytest.approx(images.nbytes + live.peak, rel=0.02)


def test_memory_without_training_holds_no_gradients_and_no_optimizer():
    held = memory(TINY, batch_size=1, training=False)
    assert held.gradients == held.optimizer == 0
    assert held.total == held.weights + held.activations


@pytest.mark.parametrize("optimizer", OPTIMIZER_STATE)
def test_weights_gradients_and_optimizer_are_those_of_one_step(optimizer):
    model = ViT(TINY)
    made = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "sgd": lambda weights: torch.optim.SGD(weights, momentum=0.9),
    }[optimizer](model.parameters())
    model(torch.randn(2, 3, 16, 24)).sum().backward()
    made.step()
    state = [
        value.nbytes
        for values in made.state.values()
        for value in values.values()
        if value.ndim  # a step count is no number per weight
    ]
    held = memory(TINY, batch_size=2, optimizer=optimizer)
    assert held.weights == sum(weight.nbytes for weight in model.parameters())
    assert held.gradients == sum(
        weight.grad.nbytes for weight in model.parameters()
    )
    assert held.optimizer == sum(state)
    assert held.total == sum(held[:-1])


def test_memory_of_half_as_wide_numbers_is_half():
    whole, half = (
        memory(TINY, batch_size=2, dtype=d) for d in (torch.float32, torch.half)
    )
    assert half == tuple(held // 2 for held in whole)


def test_activations_grow_with_the_batch_and_weights_do_not():
    one, ten = memory(TINY, batch_size=1), memory(TINY, batch_size=10)
    assert ten.activations == 10 * one.activations
    assert ten.weights == one.weights


def test_heads_cost_one_number_per_head_and_token():
    one, four = (
        saved_activations(replace(TINY, num_heads=heads)) for heads in (1, 4)
    )
    assert four - one == TINY.depth * TINY.num_tokens * 3


def test_unknown_optimizer_names_the_nearest():
    with pytest.raises(
        UserError, match="no optimizer 'adamW'; did you mean 'adamw'"
    ):
        memory(TINY, batch_size=1, optimizer="adamW")


def test_memory_of_no_image_is_an_error():
    with pytest.raises(
        ValueError, match="batch_size is 0, it must be at least 1"
    ):
        memory(TINY, batch_size=0)
