"""What a file of weights in another format does not tell its readers.

`losses("torchvision", checkpoint, arrays, {}, Path("b16.pth"))` are sentences. The file
is read again, as `load` would, and what comes out is compared with what went in.
"""

import math
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vitedu.compat import import_timm
from vitedu.errors import UserError
from vitedu.model import Hybrid, ResNetConfig, ViTConfig, new_network
from vitedu.pictures import PreprocessSpec
from vitedu.weights.dialects import DIALECTS
from vitedu.weights.vitedu import Checkpoint


def losses(
    to: str,
    checkpoint: Checkpoint,
    arrays: dict[str, Tensor],
    beside: dict[str, dict[str, Any]],
    target: Path,
) -> tuple[str, ...]:
    """What a reader of the target will not learn from it, a sentence each.

    It is read again as `load` would, and compared.
    UserError: a reader would take the positions for another grid's.
    """
    config, state, spec, names, loss_name, _ = checkpoint
    dialect, hints = DIALECTS[to], {"name": target.stem}
    for file, hint in (
        ("config.json", "config"),
        ("preprocessor_config.json", "preprocessor"),
    ):
        hints |= {hint: beside[file]} if file in beside else {}
    again, lost = read_again(to, checkpoint, arrays, hints)
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
        lost.append(f"{to} has no place for {said(config, changed & unused)}")
    if changed - unused:
        by = moved(of(config, state), of(again, state), config)
        lost.append(
            f"{to} has no place for {said(config, changed - unused)}; a reader "
            f"takes {said(again, changed - unused)}, which {by}"
        )
    if to == "timm" and has_resnet(config):
        theirs = timm_model(beside["config.json"], arrays)
        lost.append(
            "timm has other small numbers in the norms of its ResNets, which "
            + moved(of(config, state), theirs, config)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken = dialect.preprocess(again, hints)
    if geometry(taken) != geometry(spec):
        differ = {"mean", "std", "interpolation", "crop"}
        differ = {x for x in differ if getattr(spec, x) != getattr(taken, x)}
        lost.append(
            f"{to} has no place for the preprocessing {said(spec, differ)}; a "
            f"reader takes {said(taken, differ)}"
        )
    if names and not beside:
        lost.append(f"{to} has no place for the names of the classes")
    if loss_name == "sigmoid":
        lost.append(
            f"{to} has no place for the loss, the sigmoid's; a reader may take the "
            "softmax of the logits, which gives other probabilities"
        )
    return tuple(lost)


def read_again(
    to: str,
    checkpoint: Checkpoint,
    arrays: dict[str, Tensor],
    hints: dict[str, Any],
) -> tuple[ViTConfig | ResNetConfig, list[str]]:
    """The configuration that a reader finds, and what else it must be told."""
    config, state, *_ = checkpoint
    asks = []
    try:
        again, found = DIALECTS[to].to_vitedu(arrays, hints)
    except UserError as error:
        asks.append(f"a reader has to be told more: {error}")
        for name in ("image_size", "num_heads", "pool", "position"):
            hints = hints | {name: getattr(config, name, None)}
        again, found = DIALECTS[to].to_vitedu(arrays, hints)
    if state.keys() != found.keys() or not all(
        torch.equal(state[name].cpu(), found[name]) for name in state
    ):
        raise ValueError(f"{to} gives back other arrays than it was given")
    return again, asks


def said(owner: Any, names: set[str]) -> str:
    """Fields of a configuration or a spec, for a sentence."""
    return ", ".join(f"{x}={getattr(owner, x)!r}" for x in sorted(names))


def geometry(spec: PreprocessSpec) -> tuple[Any, ...]:
    """All that a spec does, apart from the size, which the model has."""
    resized = spec.crop and [math.floor(x / spec.crop) for x in spec.image_size]
    return spec.mean, spec.std, spec.interpolation, resized


def has_resnet(config: ViTConfig | ResNetConfig) -> bool:
    """Whether it is a ResNet or has one in front."""
    return isinstance(config, ResNetConfig) or isinstance(config.stem, Hybrid)


def of(config: ViTConfig | ResNetConfig, state: dict[str, Tensor]) -> nn.Module:
    """The model of these weights, in float32 or better."""
    with torch.device("meta"):
        model = new_network(config)
    model.load_state_dict(widened(state), assign=True)
    return model.eval()


def timm_model(written: dict[str, Any], arrays: dict[str, Tensor]) -> nn.Module:
    """timm's own model of a config.json and its arrays, in float32 or better."""
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
def moved(
    ours: nn.Module, theirs: nn.Module, config: ViTConfig | ResNetConfig
) -> str:
    """How far the answers of two models are apart, on two images of noise."""
    generator = torch.Generator().manual_seed(0)
    shape = (2, config.in_channels, *config.image_size)
    images = torch.randn(shape, generator=generator)
    images = images.to(next(ours.parameters()))
    one, other = ours(images), theirs(images)
    what = "logits" if config.num_classes else "features"
    if one.shape != other.shape:
        return f"gives {what} {tuple(other.shape)}, not {tuple(one.shape)}"
    return (
        f"moves the {what} of two images of noise by up to "
        f"{(one - other).abs().max():.1e} (the largest is {one.abs().max():.1e})"
    )
