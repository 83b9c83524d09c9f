"""The procedural shapes: colour images without a download."""

from vitedu.data.augment import Augment
from vitedu.data.preprocess import PreprocessSpec
from vitedu.model import ViTConfig
from vitedu.train.config import TrainConfig


def shapes_small(tier: str) -> TrainConfig:
    """A ViT of 1.2 M weights at most; minutes on two cores, longer on a GPU."""
    long = tier == "gpu"
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
        dataset="shapes-100k" if long else "shapes-10k",
        preprocess=PreprocessSpec(image_size=(64, 64), crop=1.0),
        augment=Augment(rotate=10.0, scale=0.1, shift=4, flip=True),
        epochs=60 if long else 20,
        batch_size=256 if long else 128,
        optimizer="adamw",
        lr=1e-3,
        weight_decay=0.05,
        schedule="cosine",
        warmup=0.1,
        max_grad_norm=1.0,
        ema=0.999,
        precision="bf16" if long else "fp32",
    )
