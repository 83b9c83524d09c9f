"""Fine-tuning as MAE does it: AdamW, layer decay, strong augmentation."""

from vitedu.data.augment import Augment
from vitedu.model import vit_config
from vitedu.pictures import PreprocessSpec
from vitedu.train.config import TrainConfig


def mae_finetune_b16(tier: str) -> TrainConfig:
    """ImageNet from MAE's ViT-B/16, AdamW: 83.7 %.

    From weights that learned without labels. He et al. 2021 and their code. 100
    epochs at batch 1,024: AdamW at 2e-3 (5e-4 for each 256 images) with decay
    0.05 and layer decay 0.65, warm-up of 5 epochs, cosine; stochastic depth
    0.1, RandAugment (2, 9), label smoothing 0.1, mixup 0.8 or cutmix 1.0,
    random erasing 0.25; the mean of the patches in place of the class token,
    224 pixels. Command: vitedu train mae-finetune-b16 data=FOLDER. Expected:
    83.66 %. Differs from its authors': the norm comes before the mean,
    RandAugment's magnitude has no noise, and the cosine ends at 0, not at 1e-6.
    """
    return TrainConfig(
        recipe="mae-finetune-b16",
        tier=tier,
        model=vit_config("ViT-B/16", pool="mean", drop_path=0.1),
        dataset="imagenet",
        weights="timm/vit_base_patch16_224.mae",
        preprocess=PreprocessSpec(
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
            interpolation="bicubic",
            crop=0.875,
        ),
        augment=Augment(
            crop=0.08, flip=True, rand_layers=2, rand_magnitude=9.0, erase=0.25
        ),
        epochs=100,
        batch_size=1_024,
        optimizer="adamw",
        lr=5e-4 * 1_024 / 256,
        betas=(0.9, 0.999),
        weight_decay=0.05,
        layer_decay=0.65,
        schedule="cosine",
        warmup=5 / 100,
        label_smoothing=0.1,
        mixup=0.8,
        cutmix=1.0,
        precision="auto",
        num_workers=8 if tier == "gpu" else 0,
        save_every=500,
    )
