"""Everything at once: what a ViT sees in one picture, and how.

`vitedu.explain(model, "photo.jpg").rollout` is (gh, gw).
"""

from os import PathLike
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.evaluate.batches import evaluating, loaded
from vitedu.evaluate.classify import Guess, classify
from vitedu.interpret.distance import attention_distance
from vitedu.interpret.removal import SHARES, deletion_curve
from vitedu.interpret.rollout import (
    as_vit,
    attention_rollout,
    class_token_maps,
    share_in_answer,
)
from vitedu.interpret.tokens import components, outlier_tokens
from vitedu.model import ViT, record_attention
from vitedu.pictures import Picture, preprocess

RANDOM_ORDERS = 3


class Explanation(NamedTuple):
    """What `explain` finds; None where a model doesn't have it.

    Attributes:
        image: (c, h, w), prepared for the model
        answers: the likeliest classes; () for a model without a head
        rollout: (gh, gw), the share of each patch in the answer
        class_maps: (layers, gh, gw), what the class token looks at, as a mean
            over heads
        distance: (layers, heads), how far each head looks, in pixels
        components: (gh, gw, 3), tokens after the last block as colours
        outliers: (gh, gw) of bool, tokens that are giants there
        curves: the probability of the first answer after each share of SHARES
            is removed, by what is removed first: "rollout", "random"
        missing: why parts are None or empty, in sentences
    """

    image: Tensor
    answers: tuple[Guess, ...]
    rollout: Tensor | None
    class_maps: Tensor | None
    distance: Tensor
    components: Tensor
    outliers: Tensor
    curves: dict[str, Tensor]
    missing: tuple[str, ...]


@torch.no_grad()
def explain(
    model: nn.Module | str | PathLike[str],
    image: Picture,
    *,
    curve: bool = True,
) -> Explanation:
    """What a ViT sees in one picture: answers, maps, distances, colours.

    `model` and `image` are as in `vitedu.classify`. `curve` also removes
    patches, which takes about five times as long as the rest.

    UserError: the model is no ViT, its blocks don't attend over all patches,
    or the picture cannot be read.
    """
    model = as_vit(loaded(model))
    images = preprocess(model, image)
    if len(images) > 1:
        raise UserError(f"explain takes one picture, got {len(images)}")
    config, missing = model.config, []
    with evaluating(model):
        with record_attention(model) as maps:
            model.forward_features(images)
        pixels = zip(config.image_size, config.grid, strict=True)
        patch_size = tuple(side // count for side, count in pixels)
        distance = attention_distance(maps, config.grid, patch_size)
        answers: tuple[Guess, ...] = ()
        try:
            answers = tuple(classify(model, image))
        except UserError as error:  # no classes, or NaN
            missing.append(str(error))
        rollout = class_maps = None
        if config.class_token:
            class_maps = class_token_maps(maps, config.grid)[:, 0].mean(1)
        else:
            missing.append("the model has no class token to look with")
        try:
            rollout = share_in_answer(model, attention_rollout(maps))[0]
        except UserError as error:
            missing.append(str(error))
        curves = {}
        if curve and rollout is not None and answers:
            order = rollout.flatten().argsort(descending=True)[None]
            curves["rollout"] = deletion_curve(model, images, order)[:, 0]
            curves["random"] = _at_random(model, images)
        return Explanation(
            images[0],
            answers,
            rollout,
            class_maps,
            distance,
            components(model, images)[0],
            outlier_tokens(model, images)[0].view(config.grid),
            curves,
            tuple(missing),
        )


def _at_random(model: ViT, images: Tensor) -> Tensor:
    """The mean curve of RANDOM_ORDERS orders, the same for every picture."""
    generator = torch.Generator().manual_seed(0)
    num_patches = model.config.num_patches
    orders = torch.rand(RANDOM_ORDERS, num_patches, generator=generator)
    many = images.expand(RANDOM_ORDERS, -1, -1, -1)
    order = orders.argsort(dim=1).to(images.device)
    return deletion_curve(model, many, order, shares=SHARES).mean(dim=1)
