"""The one-file ViT: equal to the package and its training, and to timm."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import vitedu
from vitedu import plain
from vitedu.compat import import_timm
from vitedu.train import TrainConfig, find_device
from vitedu.train.optimizer import optimizer_of
from vitedu.train.precision import build_precision
from vitedu.train.schedule import build_schedule
from vitedu.train.step import TrainState, train_step

SOURCE = Path(plain.__file__)
# Table 1; L and H with two of their blocks, all of which are alike
TABLE_1 = {
    "ViT-Ti/16": {},
    "ViT-S/16": {},
    "ViT-B/16": {},
    "ViT-L/16": {"depth": 2},
    "ViT-H/14": {"depth": 2},
}
SIZES = [
    pytest.param(x, marks=pytest.mark.slow if x[4] in "SBLH" else ())
    for x in TABLE_1
]
# relative to the largest logit, in float64: only the order of sums differs
EQUAL = 1e-10


def plain_of(config):
    """A plain ViT of the sizes that `config` names."""
    return plain.ViT(
        image_size=config.image_size[0],
        patch_size=config.patch_size[0],
        in_channels=config.in_channels,
        num_classes=config.num_classes,
        embed_dim=config.embed_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_dim=config.mlp_dim,
    )


def perturbed(model):
    """`model` in float64, no weight left at zero or one."""
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.02 * torch.randn_like(weight)
    return model.double().eval()


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_equals_the_package_and_timm(name):
    torch.manual_seed(0)
    config = vitedu.vit_config(name, **TABLE_1[name])
    ours = perturbed(plain_of(config))
    images = torch.randn(1, 3, 224, 224).double()
    with torch.device("meta"):  # ours gives them their weights
        package = vitedu.ViT(config)
        timm_s = import_timm().models.VisionTransformer(
            patch_size=config.patch_size[0],
            embed_dim=config.embed_dim,
            depth=config.depth,
            num_heads=config.num_heads,
        )
    with torch.no_grad():
        want = ours(images)
        assert want.abs().max() > 0.1
        for theirs in (package.eval(), timm_s.eval()):
            theirs.load_state_dict(ours.state_dict(), strict=True, assign=True)
            assert (theirs(images) - want).abs().max() <= (
                EQUAL * want.abs().max()
            )


def test_default_sizes_are_those_of_the_real_model():
    real = vitedu.load("ViT-Ti/16")
    model = plain.ViT()
    model.load_state_dict(real.state_dict(), strict=True)
    # float32: 12 blocks, another attention kernel
    image = vitedu.preprocess(real, vitedu.data.photo("cat"))
    with torch.no_grad():
        assert_close(model(image), real(image), rtol=0, atol=1e-3)


def test_the_same_seed_gives_the_same_first_values_as_the_package():
    config = vitedu.vit_config("ViT-Ti/16", depth=2)
    torch.manual_seed(3)
    ours = plain_of(config).state_dict()
    torch.manual_seed(3)
    for name, theirs in vitedu.ViT(config).state_dict().items():
        assert torch.equal(ours[name], theirs), name


def test_patchify_equals_the_package_s():
    images = torch.arange(2 * 3 * 6 * 9.0).reshape(2, 3, 6, 9)
    want = vitedu.model.patchify(images, 3)
    assert torch.equal(plain.patchify(images, 3), want)


def test_attention_equals_torch_s():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 7, 8, dtype=torch.float64)
    values, weights = plain.attention(q, k, v)
    want = F.scaled_dot_product_attention(q, k, v)
    assert_close(values, want, rtol=0, atol=1e-12)
    assert_close(weights.sum(-1), torch.ones(2, 4, 7).double())


@pytest.mark.slow
def test_trains_step_for_step_like_the_package():
    """20 steps on the same batches, float64, no decay, no clipping."""
    config = TrainConfig(
        recipe="digits",
        tier="cpu",
        model=vitedu.ViTConfig(
            **{"image_size": 28, "patch_size": 7, "in_channels": 1},
            **{"num_classes": 10, "embed_dim": 16, "depth": 2},
            **{"num_heads": 2, "mlp_dim": 64},
        ),
        dataset="digits",
        steps=20,
        batch_size=32,
        optimizer="adamw",
        lr=0.01,
        weight_decay=0.0,
        schedule="cosine",
        warmup=0.25,
    )
    torch.manual_seed(0)
    ours = plain_of(config.model).double()
    theirs = vitedu.ViT(config.model).double()
    theirs.load_state_dict(ours.state_dict())
    state = TrainState(
        config=config,
        model=theirs.train(),
        optimizer=optimizer_of(theirs, config),
        schedule=build_schedule("cosine", 0.01, 20, 0.25),
        precision=build_precision("fp32", find_device("cpu")),
    )
    optimizer = torch.optim.AdamW(ours.parameters(), weight_decay=0.0)
    for step in range(20):
        images = torch.randn(32, 1, 28, 28).double()
        labels = torch.randint(10, (32,))
        for group in optimizer.param_groups:
            group["lr"] = plain.warmup_cosine(step, 0.01, 20, 5)
        loss = plain.train_step(ours, optimizer, images, labels)
        want = train_step(state, (images, labels)).loss_sum / 32
        assert_close(loss, want.to(loss), rtol=1e-10, atol=0)


@pytest.mark.parametrize("warmup", [0, 1, 7])
def test_the_learning_rate_is_the_package_s(warmup):
    for step in range(41):
        ours = plain.warmup_cosine(step, 0.3, 40, warmup)
        theirs = vitedu.train.warmup_cosine(step, 0.3, 40, warmup)
        assert abs(ours - theirs) < 1e-15


def test_accuracy_counts_every_image_once():
    """75 images in batches of 32, 32 and 11: a mean of means would be off."""
    labels = torch.tensor([0] * 25 + [1] * 19 + [2] * 31)
    always_two = torch.nn.Linear(4, 3)
    torch.nn.init.zeros_(always_two.weight)
    always_two.bias.data = torch.tensor([0.0, 0.0, 1.0])
    images = torch.zeros(75, 4)
    got = plain.accuracy(always_two, images, labels, batch_size=32)
    assert got == 31 / 75


@pytest.mark.slow
def test_the_file_trains_itself_past_ninety_percent():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "vitedu.plain"],
        capture_output=True,
        text=True,
        check=True,
    )
    percent = float(done.stdout.splitlines()[-1].split("%")[0])
    assert 90 < percent <= 100


@pytest.mark.slow
def test_a_copy_of_its_definitions_needs_torch_and_einops_alone(tmp_path):
    """What a reader keeps: everything above `if __name__`."""
    program = (
        "import sys, plain; images = plain.torch.zeros(1, 3, 224, 224);"
        "assert plain.ViT()(images).shape == (1, 1000);"
        "assert 'vitedu' not in sys.modules"
    )
    (tmp_path / "plain.py").write_text(SOURCE.read_text())
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_it_is_under_200_lines():
    assert len(SOURCE.read_text().splitlines()) < 200


def test_it_has_no_option_that_a_chapter_does_not_write():
    """Top level: imports, definitions, and the training at the end."""
    *body, last = ast.parse(SOURCE.read_text()).body
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    assert all(isinstance(node, kinds) for node in body[1:])
    assert isinstance(last, ast.If)
