"""Without labels: pictures completed, and colours of spoilt patches named.

What comes out is a start for the recipe finetune: `weights=RUN`.
"""

from dataclasses import fields, replace

from vitedu.data.augment import Augment
from vitedu.model import SinCos2D, ViTConfig
from vitedu.model.mae import MAEConfig
from vitedu.model.mpp import MPPConfig
from vitedu.pictures import PreprocessSpec
from vitedu.train.config import TrainConfig
from vitedu.train.recipes.small import CENTRED, TINY, cifar10_scratch

# 134,592 weights that are kept; a decoder of 29,968 that are not
MNIST = replace(
    TINY,
    patch_size=(4, 4),
    embed_dim=64,
    depth=4,
    num_heads=4,
    mlp_dim=128,
    position=SinCos2D(),
    pool="mean",
    class_token=False,
)


def completing(model: ViTConfig, width: int, depth: int) -> MAEConfig:
    """A masked autoencoder around `model`; it learns pixels as they are."""
    return MAEConfig(
        **without_head(model),
        decoder_dim=width,
        decoder_depth=depth,
        decoder_heads=4,
        normalised=False,
    )


def without_head(model: ViTConfig) -> dict[str, object]:
    """The fields of a ViT, for a network that learns without labels."""
    kept = {x.name: getattr(model, x.name) for x in fields(ViTConfig)}
    return kept | {"num_classes": 0}


def mae_mnist(tier: str) -> TrainConfig:
    """Digits without labels, completed from a quarter: minutes.

    All 60,000 of MNIST, 1,500 steps: about twelve minutes of a busy core.

    The checkpoint in the package, `vitedu.load("mae-mnist")`, is this run's.
    """
    return TrainConfig(
        model=completing(MNIST, 48, 1),
        dataset="mnist",
        preprocess=CENTRED,
        steps=1_500,
        batch_size=128,
        lr=2e-3,
        betas=(0.9, 0.95),
        weight_decay=0.05,
        warmup=0.05,
        max_grad_norm=1.0,
        precision="fp32",
        fallback="digits",
        threads=1,
        log_every=50,
        save_every=100,
    )


def mpp_mnist(tier: str) -> TrainConfig:
    """Digits by masked patch prediction, for equal compute."""
    return replace(
        mae_mnist(tier),
        model=MPPConfig(**without_head(MNIST)),
        steps=652,
    )


def mae_shapes(tier: str) -> TrainConfig:
    """100,000 drawn shapes completed from a quarter."""
    model = replace(MNIST, image_size=(32, 32), in_channels=3, embed_dim=96)
    return replace(
        mae_mnist(tier),
        model=completing(replace(model, mlp_dim=192), 64, 1),
        dataset="shapes-100k",
        preprocess=PreprocessSpec(image_size=(32, 32), crop=1.0),
        steps=20_000,
        fallback=None,
    )


def mae_cifar10(tier: str) -> TrainConfig:
    """CIFAR-10 without labels, completed from a quarter.

    The network of cifar10-scratch and a decoder, normalised pixels. Plain flips
    and shifts, since hiding three quarters is change enough. Nobody has run
    tier gpu, 800 epochs, yet.
    """
    config = cifar10_scratch(tier)
    return replace(
        config,
        model=replace(
            completing(replace(config.model, drop_path=0.0), 128, 2),
            normalised=True,
        ),
        augment=Augment(shift=4, flip=True),
        epochs=800 if tier == "gpu" else 20,
        betas=(0.9, 0.95),
        weight_decay=0.05,
        label_smoothing=0.0,
        mixup=0.0,
        cutmix=0.0,
        ema=None,
        compile=False,
        max_images=None,
    )


def mpp_cifar10(tier: str) -> TrainConfig:
    """CIFAR-10 by masked patch prediction, for equal compute."""
    config = mae_cifar10(tier)
    return replace(
        config,
        model=MPPConfig(**without_head(config.model)),
        epochs=227 if tier == "gpu" else 13,
    )
