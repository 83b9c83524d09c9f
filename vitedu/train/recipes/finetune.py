"""Fine-tuning: trained weights, and pictures of your own."""

from vitedu.data.augment import Augment
from vitedu.model import vit_config
from vitedu.train.config import TrainConfig


def finetune(tier: str) -> TrainConfig:
    """Trained weights on your own pictures: minutes on a CPU.

    The folder contains one folder of pictures for each class, or train/ and
    val/ with such folders. The classes are counted, the head starts from zeros,
    and size, preprocessing and everything else of the model come with the
    weights. Command: vitedu train finetune weights=ViT-Ti/16 data=FOLDER, and
    as you like epochs=10, layer_decay=0.75, model.image_size=384. SGD with
    momentum at a small rate, as the paper fine-tunes (section 4.1, appendix
    B.1.1); random crops and flips. Expected: 96.7 % on ants-bees (244
    photographs).
    """
    return TrainConfig(
        recipe="finetune",
        tier=tier,
        # `finetune_config` replaces both: by the model of the weights, with as
        # many classes as the data have, and by the data
        model=vit_config("ViT-Ti/16", num_classes=10),
        dataset="shapes-1k" if tier == "smoke" else "FOLDER",
        weights="ViT-Ti/16",
        augment=Augment(crop=0.3, flip=True),
        epochs=5,
        batch_size=32,
        optimizer="sgd",
        betas=(0.9, 0.999),
        lr=0.01,
        schedule="cosine",
        warmup=0.1,
        max_grad_norm=1.0,
        precision="auto" if tier == "gpu" else "fp32",
        log_every=10,
    )
