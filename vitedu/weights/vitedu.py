"""Our own checkpoint: one safetensors file that says everything about its model.

The tensors carry timm's names; one metadata key, `vitedu`, holds sorted JSON with the
configuration, the preprocessing and the class names. No date and no commit stand in
it, so equal runs give equal bytes.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from vitedu.data.preprocess import PreprocessSpec
from vitedu.errors import UserError
from vitedu.files import replace_file
from vitedu.model import ViTConfig


class Checkpoint(NamedTuple):
    """What a file of weights holds."""

    config: ViTConfig
    state_dict: dict[str, Tensor]
    preprocess: PreprocessSpec
    class_names: tuple[str, ...]


def to_vitedu(
    arrays: dict[str, Tensor], hints: dict[str, Any]
) -> tuple[ViTConfig, dict[str, Tensor]]:
    """The arrays as they are, and the configuration that stands in `hints`."""
    return ViTConfig.from_json(hints["config"]), dict(arrays)


def from_vitedu(
    config: ViTConfig, state_dict: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The arrays of the file: on the CPU, contiguous, names unchanged."""
    return {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in state_dict.items()
    }


def write_weights(path: str | Path, checkpoint: Checkpoint) -> None:
    """Write `checkpoint` to `path`, whole or not at all."""
    from safetensors.torch import save

    described = {
        "config": checkpoint.config.to_json(),
        "preprocess": checkpoint.preprocess.to_json(),
        "class_names": list(checkpoint.class_names),
    }
    arrays = from_vitedu(checkpoint.config, checkpoint.state_dict)
    metadata = {"vitedu": json.dumps(described, sort_keys=True)}
    replace_file(path, save(arrays, metadata))


def read_weights(path: str | Path) -> Checkpoint:
    """Read what `write_weights` wrote. UserError: the file is not such a file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read as safetensors: {error}"
        ) from None
    if "vitedu" not in metadata:
        raise UserError(
            f"{path} was not written by vitedu: its metadata has no key 'vitedu'"
        )
    try:
        hints = json.loads(metadata["vitedu"])
        preprocess = PreprocessSpec.from_json(hints["preprocess"])
        class_names = tuple(hints["class_names"])
        if not isinstance(hints["class_names"], list):
            raise TypeError("class_names is no list")
        config, state_dict = to_vitedu(arrays, hints)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} holds unreadable metadata: {error}") from None
    if (preprocess.in_channels, preprocess.image_size) != (
        config.in_channels,
        config.image_size,
    ):
        raise UserError(
            f"{path} contradicts itself: its pictures are {preprocess.in_channels} x "
            f"{preprocess.image_size}, its model wants {config.in_channels} x "
            f"{config.image_size}"
        )
    if class_names and len(class_names) != config.num_classes:
        raise UserError(
            f"{path} contradicts itself: {len(class_names)} class names for "
            f"{config.num_classes} classes"
        )
    return Checkpoint(config, state_dict, preprocess, class_names)
