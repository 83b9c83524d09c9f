"""What a trained model says of one picture.

`vitedu.classify(vitedu.load("ViT-Ti/16"), "cat.jpg")[0].name`
"""

from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec, preprocess

if TYPE_CHECKING:
    from PIL.Image import Image

# Mean of the head's biases below which its classes are taken as independent.
LOW_BIAS = -1.0


class Guess(NamedTuple):
    """A class, and how probable the model finds it."""

    name: str
    probability: float

    def __repr__(self) -> str:
        """With three digits, which are the same on nearly every machine."""
        return f"Guess({self.name!r}, {self.probability:.3f})"


def classify(
    model: nn.Module,
    image: "str | PathLike[str] | Image | Tensor",
    top: int = 5,
) -> list[Guess]:
    """The `top` likeliest classes of one picture, the likeliest first.

    `image` is the path of a picture, a pillow image or a tensor (c, h, w) of any size,
    uint8 or floats in 0..1 (a numpy array too: uint8, (h, w, c)); `model.preprocess`
    says how it becomes what the model wants. A class without a name is called
    "class 7". The probabilities are a softmax's and add up to 1 over all classes, or a
    sigmoid's where the model was trained so; see `probabilities`. The model computes on
    its device and in its dtype, without dropout, and is left as it was.

    UserError: the picture cannot be read or its pixels are out of range, the model has
    no classes or gives more than one row of logits, or `top` is not a positive number.
    """
    if not isinstance(top, int) or top < 1:
        raise UserError(f"top={top!r} must be a whole number from 1 up")
    check_has_classes(model)
    if isinstance(image, Tensor):
        image = picture_of(model, image)
    elif not isinstance(image, str | PathLike | np.ndarray):
        if not hasattr(image, "convert"):  # pillow is not loaded for asking
            raise UserError(
                "an image is the path of a picture, a pillow image or a tensor "
                f"(3, h, w), got {type(image).__name__}"
            )
    shares = probabilities(model, preprocess(model, image))[0]  # (classes,)
    best = shares.topk(min(top, len(shares)))
    names = class_names(model, len(shares))
    return [
        Guess(names[index], share)
        for share, index in zip(*map(Tensor.tolist, best), strict=True)
    ]


@torch.no_grad()
def probabilities(model: nn.Module, images: Tensor) -> Tensor:
    """Prepared images (b, c, h, w) to (b, classes) float32 on the CPU.

    The softmax of the logits; or the sigmoid of each, where the model was trained to
    say yes or no to every class by itself, as the authors' models of ImageNet-21k. The
    head's biases tell: a softmax pushes them up as much as down, so their mean stays at
    0; under a sigmoid, where nearly every answer is no, all of them sink. The model's
    mode is put back as it was.
    """
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        logits = model(images).float()
    finally:
        for module in in_training:
            module.training = True
    is_sigmoid = is_trained_by_sigmoid(model)
    return (logits.sigmoid() if is_sigmoid else logits.softmax(dim=1)).cpu()


def is_trained_by_sigmoid(model: nn.Module) -> bool:
    """Whether the biases of the head lie far below 0 together."""
    head = getattr(model, "head", None)
    bias = getattr(getattr(head, "fc", head), "bias", None)
    return bias is not None and bias.detach().float().mean().item() < LOW_BIAS


def check_has_classes(model: nn.Module, name: str = "the model") -> None:
    """UserError unless the model gives a picture one row of logits."""
    config = getattr(model, "config", None)
    if not getattr(config, "num_classes", 1):
        raise UserError(f"{name} has no head, so it names no class")
    if getattr(config, "pool", None) == "none":
        raise UserError(
            f"{name} has logits for every token (pool=none) and none for the "
            "picture as a whole"
        )


def class_names(model: nn.Module, num_classes: int) -> tuple[str, ...]:
    """The names that the model carries, else "class 0", "class 1", ..."""
    names = getattr(model, "class_names", ())
    if len(names) == num_classes:
        return tuple(names)
    return tuple(f"class {index}" for index in range(num_classes))


def picture_of(model: nn.Module, image: Tensor):
    """A pillow image of a tensor (c, h, w), uint8 or floats in 0..1, c as the model's.

    UserError: another shape, dtype or range.
    """
    from PIL import Image

    spec = getattr(model, "preprocess", None)
    channels = spec.in_channels if isinstance(spec, PreprocessSpec) else 3
    if image.ndim != 3 or image.shape[0] != channels or not image.numel():
        raise UserError(
            f"an image as a tensor is ({channels}, h, w), got {tuple(image.shape)}"
        )
    pixels = image.detach().cpu()
    if pixels.is_floating_point():
        low, high = pixels.min().item(), pixels.max().item()
        if not 0 <= low <= high <= 1:
            raise UserError(
                "an image as a tensor of floats holds 0..1, got "
                f"{low:.3g}..{high:.3g}; give it as it is before it is normalised, "
                "and pixels of 0..255 as uint8"
            )
        pixels = (pixels.float() * 255).round().byte()
    if pixels.dtype != torch.uint8:
        raise UserError(
            f"an image as a tensor is uint8 or floats in 0..1, got {image.dtype}"
        )
    rows = pixels.permute(1, 2, 0).numpy()  # (h, w, c)
    return Image.fromarray(rows[..., 0] if channels == 1 else rows)
