"""Fine-tuning: trained weights, and pictures of your own."""

from dataclasses import replace

from vitedu.data.augment import Augment
from vitedu.model import vit_config
from vitedu.model.network import NetworkConfig
from vitedu.pictures import PreprocessSpec
from vitedu.train.config import TrainConfig

SMOKE_SIDE = 64  # pixels, about


def finetune(tier: str) -> TrainConfig:
    """Trained weights on your own pictures: minutes on a CPU.

    The folder contains one folder of pictures for each class, or train/ and
    val/ with such folders. The classes are counted, the head starts from zeros,
    and size, preprocessing and everything else of the model come with the
    weights. Command: vitedu train finetune weights=ViT-Ti/16 data=FOLDER, and
    as you like epochs=10, layer_decay=0.75, model.image_size=384. SGD with
    momentum at a small rate, as the paper fine-tunes (section 4.1, appendix
    B.1.1); random crops and flips. Expected: 97.2 % on ants-bees (244
    photographs). Tier smoke makes the images small.
    """
    return TrainConfig(
        recipe="finetune",
        tier=tier,
        # `finetune_config` replaces both: by the model of the weights, with as
        # many classes as the data have, and by the data
        model=vit_config("ViT-Ti/16", num_classes=10),
        dataset="FOLDER",
        weights="ViT-Ti/16",
        augment=Augment(crop=0.3, flip=True),
        epochs=5,
        batch_size=32,
        optimizer="sgd",
        lr=0.01,
        warmup=0.1,
        max_grad_norm=1.0,
        precision="auto" if tier == "gpu" else "fp32",
        log_every=10,
    )


def ants_bees(tier: str) -> TrainConfig:
    """Ants or bees, 244 photographs: 97.2 %, minutes on a CPU.

    The data of PyTorch's tutorial on transfer, by the recipe `finetune`: every
    weight of ViT-Ti/16 learns for 5 epochs, and 153 photographs are there to
    test on. Command: vitedu train ants-bees (data=FOLDER, if the photographs
    aren't found and can't be downloaded). Expected: 97.2 %, the mean of seeds 0
    to 2 (96.1 to 98.0), in one to two minutes of two cores. The set is a small
    part of ImageNet, so the weights may have seen it.
    """
    return replace(
        finetune(tier),
        recipe="ants-bees",
        model=vit_config("ViT-Ti/16", num_classes=2),
        dataset="ants-bees",
        # as the weights come with
        preprocess=PreprocessSpec(interpolation="bicubic", crop=0.9),
    )


def tried(config: TrainConfig) -> TrainConfig:
    """A recipe that begins with trained weights, for tier smoke.

    The embedded ViT-Ti/16 and drawn shapes, of which a few small ones are seen.
    Whatever the recipe switches on stays on.
    """
    kept = {x: getattr(config.model, x) for x in ("pool", "drop_path")}
    return replace(
        config,
        model=vit_config(
            "ViT-Ti/16", image_size=SMOKE_SIDE, num_classes=10, **kept
        ),
        dataset="shapes-1k",
        weights="ViT-Ti/16",
        epochs=None,
        steps=10,
        batch_size=8,
        max_images=64,
        log_every=5,
        save_every=5,
    )


def smoke_size(model: NetworkConfig) -> tuple[int, int]:
    """Height and width for tier smoke: a small image of whole patches."""
    sides = getattr(model, "patch_size", (1, 1))
    height, width = (
        min(whole, side * max(1, SMOKE_SIDE // side))
        for whole, side in zip(model.image_size, sides, strict=True)
    )
    return height, width
