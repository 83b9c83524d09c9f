"""Predicted memory against what autograd keeps and what is alive in a step."""

import weakref
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.tiny import tiny
from vitedu import errors
from vitedu.budget import OPTIMIZER_STATE, check_memory, memory, parameters
from vitedu.errors import UserError
from vitedu.model import (
    Hybrid,
    Learned1D,
    Patches,
    Relative,
    ResNetConfig,
    RoPE,
    SinCos2D,
    Standard,
    ViT,
    ViTConfig,
    new_network,
    resnet_config,
    vit_config,
)

SIZE = (37, 48)
RESNET = ResNetConfig(layers=(2, 1), width=0.5, num_classes=5, image_size=SIZE)
HYBRID = tiny(image_size=SIZE, patch_size=1, stem=Hybrid((2, 1), width=0.5))
# Each of the first changes one term of the formulas.
SHAPES = {
    "plain": tiny(),
    "three-blocks": tiny(depth=3),
    "one-head": tiny(num_heads=1),
    "narrow-mlp": tiny(mlp_dim=16),
    "grey": tiny(in_channels=1),
    "pre-logits": tiny(pre_logits=24),
    "no-head": tiny(num_classes=0),
    "pre-logits-no-head": tiny(num_classes=0, pre_logits=24),
    "mean": tiny(pool="mean"),
    "mean-no-class-token": tiny(pool="mean", class_token=False, pre_logits=24),
    "mean-norm": tiny(pool="mean_norm"),
    "clip": tiny(stem=Patches(bias=False, norm=True)),
    "quick": tiny(gelu="quick"),
    "layer-scale": tiny(block=Standard(layer_scale=1e-5)),
    "no-prefix-rows": tiny(position=Learned1D(prefix=False)),
    "no-q-k-v-bias": tiny(block=Standard(qkv_bias=False)),
    "swiglu": tiny(block=Standard(swiglu=True)),
    "dropout": tiny(dropout=0.1),
    "drop-path": tiny(drop_path=0.5),  # its masks are too small to count
    "hybrid": HYBRID,
    "hybrid-root": replace(HYBRID, stem=Hybrid((), 0.5), patch_size=(5, 2)),
    "hybrid-wide-encoder": replace(HYBRID, embed_dim=256, mlp_dim=1024),
    "bit-v2": RESNET,
    "bit-v1": replace(RESNET, family="bit-v1", pool_padding=None),
    "resnet-grey": replace(RESNET, in_channels=1),
    "resnet-no-head": replace(RESNET, num_classes=0),
}
small_configs = pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)

# larger, so that little things weigh little
SMALL = tiny(
    image_size=48, patch_size=8, embed_dim=48, depth=4, num_heads=2, mlp_dim=192
)
LARGER = {
    "plain": SMALL,
    "narrow-mlp": replace(SMALL, mlp_dim=48),
    "mean": replace(SMALL, pool="mean"),
    "mean-norm": replace(SMALL, pool="mean_norm"),
    "clip": replace(SMALL, stem=Patches(bias=False, norm=True), gelu="quick"),
    "layer-scale": replace(SMALL, block=Standard(layer_scale=1e-5)),
    "swiglu": replace(SMALL, block=Standard(swiglu=True)),
    "pre-logits": replace(SMALL, pre_logits=24),
    "no-head": replace(SMALL, num_classes=0),
}
BATCH = 16
# Of it half is needed: biases are cast too, and the gradient of a kernel lives
# while it is added to those of the steps before. The bar on a GPU is 15%.
CLOSE = 0.1


def built(config, batch_size=BATCH):
    torch.manual_seed(0)
    images = torch.randn(batch_size, config.in_channels, *config.image_size)
    return new_network(config), images


def bfloat16(forward):
    """`forward` under autocast, as it is in a step."""

    def inside(images):
        with torch.autocast("cpu", torch.bfloat16):
            return forward(images)

    return inside


class LiveBytes(TorchDispatchMode):
    """The most bytes alive at once in tensors that are made under this mode."""

    def __init__(self):
        super().__init__()
        self.alive, self.peak = {}, 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        known = {each._cdata for each in storages((args, kwargs))}
        out = operator(*args, **(kwargs or {}))
        for storage in storages(out):
            key = storage._cdata
            if key not in known and key not in self.alive:
                self.alive[key] = storage.nbytes()
                weakref.finalize(storage, self.alive.pop, key)
        self.peak = max(self.peak, sum(self.alive.values()))
        return out


def storages(values):
    tensors = [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]
    return [tensor.untyped_storage() for tensor in tensors]


@pytest.mark.slow
@small_configs
@pytest.mark.parametrize("batch_size", [1, 3])
def test_activations_are_what_autograd_saves(
    config, batch_size, bytes_saved_for_backward
):
    # Exact on the CPU. 1% for the few bytes another version of a kernel may
    # keep.
    model, images = built(config, batch_size)
    if isinstance(config, ResNetConfig) or config.stem != tiny().stem:
        model.eval()
    counted = memory(config, batch_size=batch_size).activations
    saved = bytes_saved_for_backward(model, images)
    assert counted == pytest.approx(saved, rel=0.01)


@pytest.mark.slow
@small_configs
def test_activations_without_training_are_the_widest_moment(config):
    model, images = built(config, 3)
    with torch.inference_mode(), LiveBytes() as live:
        model.eval()(images)
    counted = memory(config, batch_size=3, training=False).activations
    # Measured equal, but for attention's row sums: one number a head and token.
    assert counted == pytest.approx(images.nbytes + live.peak, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("config", LARGER.values(), ids=LARGER)
def test_bytes_of_mixed_precision_are_what_autograd_saves(
    config, bytes_saved_for_backward
):
    model, images = built(config)
    model.forward = bfloat16(model.forward)
    held = memory(config, batch_size=BATCH, autocast=torch.bfloat16)
    assert held.casts + held.activations == pytest.approx(
        bytes_saved_for_backward(model, images), rel=0.02
    )
    whole = memory(config, batch_size=BATCH)
    assert held[:3] == whole[:3] and whole.casts == 0
    assert held.activations < whole.activations


@pytest.mark.slow
@pytest.mark.parametrize("half", [None, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(
    "shape", ["plain", "narrow-mlp", "mean", "layer-scale", "swiglu"]
)
def test_the_widest_moment_of_a_step_is_predicted(shape, half, checkpointing):
    config = LARGER[shape]
    model, images = built(config)
    torch.nn.init.normal_(model.head.weight)
    if checkpointing:
        model.set_grad_checkpointing()
    forward = model if half is None else bfloat16(model)
    for weight in model.parameters():  # gradients are counted apart
        weight.grad = torch.zeros_like(weight)
    labels = torch.zeros(BATCH, dtype=torch.int64)
    with LiveBytes() as live:
        F.cross_entropy(forward(images).float(), labels).backward()
    held = memory(
        config, batch_size=BATCH, autocast=half, checkpointing=checkpointing
    )
    predicted = held.casts + held.activations
    assert predicted == pytest.approx(images.nbytes + live.peak, rel=CLOSE)


@pytest.mark.parametrize("shape", ["plain", "narrow-mlp"])
def test_the_widest_moment_of_mixed_inference_is_predicted(shape):
    config = LARGER[shape]
    model, images = built(config)
    with torch.inference_mode(), LiveBytes() as live:
        bfloat16(model.eval())(images)
    held = memory(
        config, batch_size=BATCH, training=False, autocast=torch.bfloat16
    )
    peak = images.nbytes + live.peak
    assert held.activations == pytest.approx(peak, rel=CLOSE)


def test_checkpointing_makes_memory_grow_by_a_blocks_input_alone():
    twelve, thirteen = (
        memory(
            vit_config("ViT-B/16", depth=depth),
            batch_size=2,
            checkpointing=True,
        ).activations
        for depth in (12, 13)
    )
    assert thirteen - twelve == 2 * 197 * 768 * 4


def test_memory_without_training_holds_no_gradients_and_no_optimizer():
    held = memory(tiny(), batch_size=1, training=False)
    assert held.gradients == held.optimizer == 0
    assert held.total == held.weights + held.activations


@pytest.mark.parametrize("optimizer", OPTIMIZER_STATE)
def test_weights_gradients_and_optimizer_are_those_of_one_step(optimizer):
    model, images = built(tiny(), 2)
    made = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "sgd": lambda weights: torch.optim.SGD(weights, momentum=0.9),
    }[optimizer](model.parameters())
    model(images).sum().backward()
    made.step()
    state = [
        value.nbytes
        for values in made.state.values()
        for value in values.values()
        if value.ndim  # a step count is no number per weight
    ]
    held = memory(tiny(), batch_size=2, optimizer=optimizer)
    weights = list(model.parameters())
    assert held.weights == sum(each.nbytes for each in weights)
    assert held.gradients == sum(each.grad.nbytes for each in weights)
    assert held.optimizer == sum(state)
    assert held.total == sum(held[:-1])


def test_memory_of_half_as_wide_numbers_is_half():
    whole, half = (
        memory(tiny(), batch_size=2, dtype=d)
        for d in (torch.float32, torch.half)
    )
    # but for the statistics of norms, which stay float32
    expected = tuple(held // 2 for held in whole)
    assert half == pytest.approx(expected, rel=0.01)


def test_activations_grow_with_the_batch_and_weights_do_not():
    one, ten = memory(tiny(), batch_size=1), memory(tiny(), batch_size=10)
    assert ten.activations == 10 * one.activations
    assert ten.weights == one.weights


@pytest.mark.gpu
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("half", [None, torch.float16], ids=["fp32", "fp16"])
def test_the_peak_of_a_gpu_is_predicted_within_15_percent(half, checkpointing):
    device, batch_size = torch.device("cuda"), 64
    config = vit_config("ViT-S/16")
    model = ViT(config).to(device)
    if checkpointing:
        model.set_grad_checkpointing()
    images = torch.randn(batch_size, 3, 224, 224, device=device)
    labels = torch.zeros(batch_size, dtype=torch.int64, device=device)

    def step():
        with torch.autocast("cuda", half, enabled=half is not None):
            logits = model(images)
        F.cross_entropy(logits.float(), labels).backward()

    step()  # gradients and work spaces are there from now on
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() - images.nbytes
    step()
    peak = torch.cuda.max_memory_allocated() - before
    held = memory(
        config,
        batch_size=batch_size,
        autocast=half,
        checkpointing=checkpointing,
    )
    assert held.casts + held.activations == pytest.approx(peak, rel=0.15)


# --- whether a network can be built


TOO_LARGE = {
    "width": ViTConfig(embed_dim=4_000_000, num_heads=1),
    "classes": resnet_config("R50x1", num_classes=10**12),
    "positions": ViTConfig(image_size=160_000, position=SinCos2D()),
    "rotations": ViTConfig(image_size=16_000_000, position=RoPE()),
}


@pytest.mark.parametrize("config", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_size_that_no_machine_holds_is_refused(config):
    with pytest.raises(UserError, match=r"needs .* are free") as error:
        check_memory(config)
    assert str(error.value).endswith("; make the model smaller")


def test_a_model_that_fits_passes_without_a_random_number():
    before = torch.get_rng_state()
    for config in (ViTConfig(), RESNET, tiny(position=Relative())):
        check_memory(config)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_copy_of_the_weights_counts(monkeypatch):
    config = ViTConfig()
    weights = 4 * parameters(config).total
    monkeypatch.setattr(errors, "available_memory", lambda: 3 * weights)
    check_memory(config, copies=2)
    with pytest.raises(UserError, match=r"x: its network needs 1\.4 GB"):
        check_memory(config, "x: its network", copies=4)
