"""The procedural shapes: colour images without a download."""

from vitedu.data.augment import Augment
from vitedu.model import ViTConfig
from vitedu.pictures import PreprocessSpec
from vitedu.train.config import TrainConfig


def shapes_small(tier: str) -> TrainConfig:
    """100,000 drawn shapes: an hour, nothing to download.

    829,578 weights, in bfloat16 where the processor has it. The checkpoint in
    the package is this run's. The tiers cpu and gpu are the same.
    """
    return TrainConfig(
        recipe="shapes-small",
        tier=tier,
        model=ViTConfig(
            image_size=(64, 64),
            patch_size=(8, 8),
            in_channels=3,
            num_classes=10,
            embed_dim=128,
            depth=6,
            num_heads=4,
            mlp_dim=256,
        ),
        dataset="shapes-100k",
        preprocess=PreprocessSpec(image_size=(64, 64), crop=1.0),
        augment=Augment(shift=4, flip=True),
        steps=10_000,
        batch_size=64,
        optimizer="adamw",
        lr=1e-3,
        betas=(0.9, 0.99),
        weight_decay=0.05,
        schedule="cosine",
        warmup=0.05,
        max_grad_norm=1.0,
        ema=0.9995,
        precision="bf16",
        log_every=100,
        save_every=500,
    )
