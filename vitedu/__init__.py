"""vitedu: the Vision Transformer paper, re-created step by step.

>>> model = vitedu.load("ViT-Ti/16")
>>> vitedu.classify(model, "photo.jpg")
>>> vitedu.predict(model, "album")
>>> vitedu.explain(model, "photo.jpg").rollout
>>> model = vitedu.vit("ViT-Ti/16", num_classes=10)
"""

from vitedu import (
    budget,
    data,
    evaluate,
    interpret,
    model,
    results,
    train,
    weights,
)
from vitedu.errors import UserError
from vitedu.evaluate import classify, predict
from vitedu.interpret import explain
from vitedu.model import (
    ResNet,
    ResNetConfig,
    ViT,
    ViTConfig,
    record_attention,
    resize_pos_embed,
    resnet,
    resnet_config,
)
from vitedu.pictures import PreprocessSpec, preprocess
from vitedu.train.finetune import finetune
from vitedu.weights import load, save, vit, vit_config

__version__ = "0.1.0"

__all__ = [
    "PreprocessSpec",
    "ResNet",
    "ResNetConfig",
    "UserError",
    "ViT",
    "ViTConfig",
    "budget",
    "classify",
    "data",
    "evaluate",
    "explain",
    "finetune",
    "interpret",
    "load",
    "model",
    "predict",
    "preprocess",
    "record_attention",
    "resize_pos_embed",
    "resnet",
    "resnet_config",
    "results",
    "save",
    "train",
    "vit",
    "vit_config",
    "weights",
]
