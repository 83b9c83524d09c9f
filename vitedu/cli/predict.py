"""`vitedu predict`: what a trained model sees in pictures."""

import argparse
from typing import Any

import torch
from torch import Tensor

from vitedu.cli.answer import Answer, table
from vitedu.cli.command import Command
from vitedu.cli.words import (
    FIELDS_HELP,
    OF_WEIGHTS,
    WEIGHTS,
    load_model,
    split_words,
)
from vitedu.decode import open_image
from vitedu.errors import UserError
from vitedu.evaluate.classify import (
    check_has_classes,
    class_names,
    probabilities,
)
from vitedu.model.network import Network
from vitedu.pictures import preprocess
from vitedu.train import find_device


def predict(options: argparse.Namespace) -> Answer:
    """The likeliest classes of each picture, with their probabilities."""
    words, fields = split_words(options.words, OF_WEIGHTS)
    if len(words) < 2:
        raise UserError("predict needs WEIGHTS and at least one IMAGE")
    if options.top < 1:
        raise UserError(f"--top is {options.top}, it must be at least 1")
    weights, *images = words
    device = find_device(options.device)
    model = load_model(weights, fields, device)
    check_has_classes(model, weights)
    names = class_names(model, model.config.num_classes)
    predictions: list[dict[str, Any]] = []
    rows = []
    for image in images:
        shares = probabilities(model, picture_for(model, image, options.invert))
        best = shares[0].topk(min(options.top, len(names)))
        classes = [
            {"class": names[index], "index": index, "probability": share}
            for share, index in zip(*map(Tensor.tolist, best), strict=True)
        ]
        predictions.append({"image": image, "top": classes})
        texts = (
            f"{x['class']} {100 * x['probability']:.1f} %" for x in classes
        )
        rows.append((image, ", ".join(texts)))
    values = {"weights": weights, "predictions": predictions}
    return Answer(values, table(rows))


def picture_for(model: Network, path: str, invert: bool) -> torch.Tensor:
    """A picture as the model takes it, (1, c, h, w); inverted, dark and light swapped.

    A digit in ink on paper is dark on light, those of MNIST are light on dark.
    """
    if not invert:
        return preprocess(model, path)
    from PIL import ImageOps

    picture = open_image(path, model.preprocess.in_channels)
    return preprocess(model, ImageOps.invert(picture))


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `vitedu predict` takes."""
    parser.add_argument(
        "--top",
        type=int,
        default=5,
        metavar="N",
        help="how many classes of each picture are shown; 5 by default",
    )
    parser.add_argument(
        "--invert",
        action="store_true",
        help="swap dark and light, since MNIST's digits are light on black: for a "
        "dark digit that fills the middle of a clean white picture",
    )


PREDICT = Command(
    predict,
    usage="WEIGHTS IMAGE... [name=value ...]",
    summary="the likeliest classes of pictures",
    about="Say what pictures show: the likeliest classes of each, with their "
    "probabilities.",
    words=[
        *WEIGHTS,
        ("IMAGE", "a picture that pillow can read; any number of them"),
        *FIELDS_HELP,
    ],
    examples=[
        ("vitedu predict ViT-Ti/16 cat.jpg dog.jpg", "two photographs"),
        (
            "vitedu predict runs/mnist-tiny-1a2b3c4d five.png --invert --top 3",
            "a digit written in ink",
        ),
    ],
    add_options=add_options,
    fields=lambda: OF_WEIGHTS,
)
