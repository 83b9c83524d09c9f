"""The embedded digits: a first success in seconds, with nothing to download."""

from vitedu.data.augment import Augment
from vitedu.model import ViTConfig
from vitedu.train.config import TrainConfig
from vitedu.train.recipes.mnist import UNIT_RANGE


def digits(tier: str) -> TrainConfig:
    """2,500 embedded digits: seconds, nothing to download."""
    return TrainConfig(
        recipe="digits",
        tier=tier,
        model=ViTConfig(
            image_size=(28, 28),
            patch_size=(7, 7),
            in_channels=1,
            num_classes=10,
            embed_dim=64,
            depth=3,
            num_heads=4,
            mlp_dim=128,
        ),
        dataset="digits",
        preprocess=UNIT_RANGE,
        augment=Augment(rotate=10.0, scale=0.1, shift=2),
        epochs=30,
        batch_size=64,
        optimizer="adamw",
        lr=3e-3,
        weight_decay=0.05,
        schedule="cosine",
        warmup=0.1,
        log_every=20,
    )
