"""The likeliest classes of one picture.

`vitedu.classify("ViT-Ti/16", "cat.jpg")[0].name`
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.evaluate.batches import Model, class_names_of, evaluating, loaded
from vitedu.pictures import Picture, preprocess

# Mean of the head's biases below which classes count as independent.
LOW_BIAS = -1.0


class Guess(NamedTuple):
    """A class and its probability."""

    name: str
    probability: float

    def __repr__(self) -> str:
        """Three digits, the same on nearly every machine."""
        return f"Guess({self.name!r}, {self.probability:.3f})"


def classify(model: Model, image: Picture, top: int = 5) -> list[Guess]:
    """The `top` likeliest classes of one picture, the likeliest first.

    `model` is a model, or what `vitedu.load` takes, which is then loaded at
    every call. `image` is what `vitedu.preprocess` takes: a path, bytes, an
    open file, a pillow image, an array or a tensor. A class without a name is
    called "class 7". Probabilities are a softmax over all classes, or a sigmoid
    per class if `is_trained_by_sigmoid`.

    UserError: the picture cannot be read or its pixels are out of range, the
    model has no classes or a row of logits per token.
    """
    if isinstance(image, list | tuple):
        raise UserError(
            f"classify takes one picture, got a {type(image).__name__} of "
            f"{len(image)}; call it for each"
        )
    model = loaded(model)
    check_has_classes(model)
    shares = probabilities(model, preprocess(model, image))[0]  # (classes,)
    values, indices = shares.topk(min(top, len(shares)))
    names = class_names(model, len(shares))
    return [
        Guess(names[index], share)
        for share, index in zip(values.tolist(), indices.tolist(), strict=True)
    ]


@torch.no_grad()
def probabilities(model: nn.Module, images: Tensor) -> Tensor:
    """Prepared images (b, c, h, w) to (b, classes) float32 on the CPU."""
    with evaluating(model):
        logits = model(images).float()
    check_finite(logits)
    is_sigmoid = is_trained_by_sigmoid(model)
    return (logits.sigmoid() if is_sigmoid else logits.softmax(dim=1)).cpu()


def check_finite(logits: Tensor) -> None:
    if not logits.amax(dim=-1).isfinite().all():
        raise UserError(
            "the model answers NaN or infinity (its arithmetic overflows, or "
            "its weights are damaged); compute in float32, or load other "
            "weights"
        )


def is_trained_by_sigmoid(model: nn.Module) -> bool:
    """Whether the model answers yes or no for each class independently.

    The authors' ImageNet-21k models do. A model that vitedu trained says so in
    `model.loss_name`. For others the mean of the head's biases decides: under
    softmax it stays at 0; under sigmoid, where nearly every answer is no, it
    sinks below -1.
    """
    known = getattr(model, "loss_name", None)
    if known in ("softmax", "sigmoid"):
        return known == "sigmoid"
    head = getattr(model, "head", None)
    bias = getattr(getattr(head, "fc", head), "bias", None)
    return bias is not None and bias.detach().float().mean().item() < LOW_BIAS


def check_has_classes(model: nn.Module, name: str = "the model") -> None:
    config = getattr(model, "config", None)
    if getattr(config, "num_classes", None) == 0:
        raise UserError(f"{name} has no head, so it cannot name a class")
    if getattr(config, "pool", None) == "none":
        raise UserError(
            f"{name} has logits for every token (pool=none) and none for the "
            "picture as a whole"
        )


def class_names(model: nn.Module, num_classes: int) -> tuple[str, ...]:
    names = class_names_of(model)
    if len(names) == num_classes:
        return names
    return tuple(f"class {index}" for index in range(num_classes))
