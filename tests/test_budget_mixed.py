"""Memory of mixed precision and of activation checkpointing; utilisation."""

import pytest
import torch
import torch.nn.functional as F

from vitedu import budget
from vitedu.budget.meta import Alive
from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig, resnet_config, vit_config

SMALL = ViTConfig(
    image_size=48,
    patch_size=8,
    num_classes=5,
    embed_dim=48,
    depth=4,
    num_heads=2,
    mlp_dim=192,
)
SHAPES = {
    "plain": {},
    "narrow-mlp": {"mlp_dim": 48},
    "mean": {"pool": "mean"},
    "pre-logits": {"pre_logits": 24},
    "no-head": {"num_classes": 0},
}
BATCH = 16
# Of it half is needed: biases are cast too, and the gradient of a kernel lives
# while it is added to those of the steps before. The bar on a GPU is 15%.
CLOSE = 0.1


def built(config):
    torch.manual_seed(0)
    model = ViT(config)
    images = torch.randn(BATCH, config.in_channels, *config.image_size)
    return model, images


def bfloat16(forward):
    """`forward` under autocast, as it is in a step."""

    def inside(images):
        with torch.autocast("cpu", torch.bfloat16):
            return forward(images)

    return inside


@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_of_mixed_precision_are_what_autograd_saves(
    shape, bytes_saved_for_backward
):
    config = ViTConfig(**vars(SMALL) | SHAPES[shape])
    model, images = built(config)
    model.forward = bfloat16(model.forward)
    held = budget.memory(config, batch_size=BATCH, autocast=torch.bfloat16)
    assert held.casts + held.activations == pytest.approx(
        bytes_saved_for_backward(model, images), rel=0.02
    )
    whole = budget.memory(config, batch_size=BATCH)
    assert held[:3] == whole[:3] and whole.casts == 0
    assert held.activations < whole.activations


@pytest.mark.slow
@pytest.mark.parametrize("half", [None, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("shape", ["plain", "narrow-mlp", "mean"])
def test_the_widest_moment_of_a_step_is_predicted(shape, half, checkpointing):
    config = ViTConfig(**vars(SMALL) | SHAPES[shape])
    model, images = built(config)
    torch.nn.init.normal_(model.head.weight)
    if checkpointing:
        model.set_grad_checkpointing()
    forward = model if half is None else bfloat16(model)
    for weight in model.parameters():  # gradients are counted apart
        weight.grad = torch.zeros_like(weight)
    labels = torch.zeros(BATCH, dtype=torch.int64)
    with Alive() as alive:
        F.cross_entropy(forward(images).float(), labels).backward()
    held = budget.memory(
        config, batch_size=BATCH, autocast=half, checkpointing=checkpointing
    )
    predicted = held.casts + held.activations
    assert predicted == pytest.approx(images.nbytes + alive.peak, rel=CLOSE)


@pytest.mark.parametrize("shape", ["plain", "narrow-mlp"])
def test_the_widest_moment_of_mixed_inference_is_predicted(shape):
    config = ViTConfig(**vars(SMALL) | SHAPES[shape])
    model, images = built(config)
    with torch.inference_mode(), Alive() as alive:
        bfloat16(model.eval())(images)
    held = budget.memory(
        config, batch_size=BATCH, training=False, autocast=torch.bfloat16
    )
    assert held.activations == pytest.approx(
        images.nbytes + alive.peak, rel=CLOSE
    )


def test_checkpointing_makes_memory_grow_by_a_blocks_input_alone():
    def activations(depth):
        config = vit_config("ViT-B/16", depth=depth)
        held = budget.memory(config, batch_size=2, checkpointing=True)
        return held.activations

    assert activations(13) - activations(12) == 2 * 197 * 768 * 4


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [
        (
            resnet_config("BiT-R50x1"),
            {"checkpointing": True},
            "blocks of a ViT",
        ),
        (
            resnet_config("BiT-R50x1"),
            {"autocast": torch.float16},
            "stem Patches",
        ),
        (
            vit_config("R26+ViT-S/32"),
            {"autocast": torch.float16},
            "stem Patches",
        ),
        (vit_config("ViT-B/16", pool="map"), {"checkpointing": True}, "pools"),
    ],
    ids=["resnet-checkpointed", "resnet-half", "hybrid-half", "map-pool"],
)
def test_what_no_formula_describes_is_refused(config, options, said):
    with pytest.raises(UserError, match=f"{said}.*; measure this model"):
        budget.memory(config, batch_size=1, **options)


def test_utilisation_is_the_share_of_a_ceiling():
    config = vit_config("ViT-B/16")
    # by hand: 17.56 GMAC forward, three times that in training, two operations
    # each
    assert budget.mfu(config, 1000, 6 * 17.5637e12 * 4) == pytest.approx(
        0.25, rel=1e-4
    )
    trained = budget.mfu(config, 1000, 1e15)
    seen = budget.mfu(config, 1000, 1e15, training=False)
    assert trained == pytest.approx(3 * seen)


@pytest.mark.parametrize(
    ("name", "precision", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5),
        ("NVIDIA H100 PCIe", "bf16", 756),
        ("NVIDIA H200", "tf32", 494.7),
        ("NVIDIA A100-SXM4-40GB", "bf16", 312),
        ("Tesla T4", "fp16", 65),
        ("Tesla T4", "bf16", None),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla V100-PCIE-16GB", "fp16", None),
        ("NVIDIA L4", "bf16", 121),
        ("NVIDIA L40S", "bf16", None),
        ("NVIDIA H100 NVL", "bf16", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bf16", None),
    ],
)
def test_the_data_sheet_is_found_by_the_devices_name(name, precision, tera):
    expected = None if tera is None else tera * 1e12
    assert budget.datasheet(name, precision) == expected


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
    held = budget.memory(
        config,
        batch_size=batch_size,
        autocast=half,
        checkpointing=checkpointing,
    )
    assert held.casts + held.activations == pytest.approx(peak, rel=0.15)
