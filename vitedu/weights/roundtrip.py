"""What a file of weights in another format does not tell its readers.

`not_told("torchvision", checkpoint, arrays, {}, Path("b16.pth"))` are
sentences. The arrays are read again, as `load` would, and what comes out is
compared with what went in.
"""

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vitedu.compat import import_timm
from vitedu.errors import UserError
from vitedu.model import ResNetConfig, new_network
from vitedu.pictures import PreprocessSpec
from vitedu.weights.checkpoint import (
    ANSWERS,
    About,
    Checkpoint,
    NetworkConfig,
)
from vitedu.weights.dialects import DIALECTS


def not_told(
    to: str,
    before: Checkpoint,
    arrays: dict[str, Tensor],
    beside: dict[str, dict[str, Any]],
    target: Path,
) -> tuple[str, ...]:
    """What a reader of the target will not learn from it, a sentence each.

    UserError: a reader would take the positions for another grid's.
    """
    about = About(
        name=target.stem,
        config=beside.get("config.json", {}),
        preprocessor=beside.get("preprocessor_config.json", {}),
    )
    after, sentences = read_again(to, before, arrays, about)
    config, again = before.config, after.config
    changed = {
        each.name
        for each in fields(config)
        if getattr(config, each.name) != getattr(again, each.name)
    }
    unused = {"dropout", "drop_path"}  # they matter in training alone
    if isinstance(config, ResNetConfig):
        unused.add("image_size")
    elif "image_size" in changed:
        raise UserError(
            f"{to} cannot say that the positions are those of images of "
            f"{config.image_size}; a reader takes {again.image_size}"
        )
    if changed & unused:
        values = listed_fields(config, changed & unused)
        sentences.append(f"{to} has no place for {values}")
    if changed - unused:
        difference = measured(model_of(before), model_of(before, again), config)
        sentences.append(
            f"{to} has no place for {listed_fields(config, changed - unused)}; "
            f"a reader takes {listed_fields(again, changed - unused)}, which "
            f"{difference}"
        )
    if to == "timm" and config.has_resnet:
        theirs = timm_model(about.config, arrays)
        sentences.append(
            "timm has other small numbers in the norms of its ResNets, which "
            + measured(model_of(before), theirs, config)
        )
    spec, taken = before.preprocess, after.preprocess
    if geometry(taken) != geometry(spec):
        names = ("mean", "std", "interpolation", "crop")
        differ = {x for x in names if getattr(spec, x) != getattr(taken, x)}
        sentences.append(
            f"{to} has no place for the preprocessing "
            f"{listed_fields(spec, differ)}; a reader takes "
            f"{listed_fields(taken, differ)}"
        )
    if before.class_names and not beside:
        sentences.append(f"{to} has no place for the names of the classes")
    if before.loss_name == "sigmoid":
        sentences.append(
            f"{to} has no place for the loss, the sigmoid's; a reader may take "
            "the softmax of the logits, which gives other probabilities"
        )
    return tuple(sentences)


def read_again(
    to: str, before: Checkpoint, arrays: dict[str, Tensor], about: About
) -> tuple[Checkpoint, list[str]]:
    """What a reader finds, and what else it must be told to find it."""
    asks = []
    try:
        after = DIALECTS[to].to_vitedu(arrays, about)
    except UserError as error:
        asks.append(f"a reader has to be told more: {error}")
        answers = {x: getattr(before.config, x, None) for x in ANSWERS}
        after = DIALECTS[to].to_vitedu(arrays, replace(about, **answers))
    stored, found = before.state_dict, after.state_dict
    if stored.keys() != found.keys() or not all(
        torch.equal(stored[name].cpu(), found[name]) for name in stored
    ):
        raise ValueError(f"{to} gives back other arrays than it was given")
    return after, asks


def listed_fields(owner: Any, names: set[str]) -> str:
    """Fields of a configuration or a spec, for a sentence."""
    return ", ".join(f"{x}={getattr(owner, x)!r}" for x in sorted(names))


def geometry(spec: PreprocessSpec) -> tuple[Any, ...]:
    """All that a spec does, apart from the size, which the model has."""
    resized = spec.crop and [math.floor(x / spec.crop) for x in spec.image_size]
    return spec.mean, spec.std, spec.interpolation, resized


def model_of(
    checkpoint: Checkpoint, config: NetworkConfig | None = None
) -> nn.Module:
    """The model of these weights, in float32 or better; `config` another's."""
    with torch.device("meta"):
        model = new_network(config or checkpoint.config)
    model.load_state_dict(widened(checkpoint.state_dict), assign=True)
    return model.eval()


def timm_model(written: dict[str, Any], arrays: dict[str, Tensor]) -> nn.Module:
    """timm's model of a config.json and its arrays, in float32 or better."""
    model = import_timm().create_model(
        written["architecture"],
        num_classes=written["num_classes"],
        **written["model_args"],
    )
    model.load_state_dict(widened(arrays), assign=True)
    return model.eval()


def widened(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """All in float32, or in float64 if one of them is."""
    is_double = any(x.dtype == torch.float64 for x in state.values())
    dtype = torch.float64 if is_double else torch.float32
    return {name: tensor.to(dtype) for name, tensor in state.items()}


@torch.no_grad()
def measured(ours: nn.Module, theirs: nn.Module, config: NetworkConfig) -> str:
    """How far the answers of two models are apart, on two images of noise."""
    generator = torch.Generator().manual_seed(0)
    shape = (2, config.in_channels, *config.image_size)
    images = torch.randn(shape, generator=generator)
    images = images.to(next(ours.parameters()))
    first, second = ours(images), theirs(images)
    what = "logits" if config.num_classes else "features"
    if first.shape != second.shape:
        return f"gives {what} {tuple(second.shape)}, not {tuple(first.shape)}"
    return (
        f"moves the {what} of two images of noise by up to "
        f"{(first - second).abs().max():.1e} (the largest is "
        f"{first.abs().max():.1e})"
    )
