"""Our own checkpoint: one safetensors file that says everything about its model.

The tensors carry timm's names; one metadata key, `vitedu`, holds sorted JSON with the
configuration, the preprocessing and the class names; ImageNet-1k's, which the package
holds anyway, as one word. There is no date and no commit in it, so equal runs give
equal bytes.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from vitedu.data.imagenet import IMAGENET_1K, imagenet_classes
from vitedu.errors import UserError
from vitedu.files import replace_file
from vitedu.model import ViTConfig
from vitedu.model.resnet import ResNetConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights.files import read_safetensors

RESIZE = "paper"


class Checkpoint(NamedTuple):
    """What a file of weights holds."""

    config: ViTConfig | ResNetConfig
    state_dict: dict[str, Tensor]
    preprocess: PreprocessSpec
    class_names: tuple[str, ...]


def recognises(arrays: dict[str, Tensor]) -> bool:
    """Never: the names are timm's, and only the metadata say that a file is ours."""
    return False


def to_vitedu(
    arrays: dict[str, Tensor], hints: dict[str, Any]
) -> tuple[ViTConfig | ResNetConfig, dict[str, Tensor]]:
    """The arrays as they are, and the configuration in the metadata."""
    return described(hints)[0], dict(arrays)


def from_vitedu(
    config: ViTConfig | ResNetConfig, state_dict: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The arrays of the file: on the CPU, contiguous, names unchanged."""
    return {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in state_dict.items()
    }


def preprocess(
    config: ViTConfig | ResNetConfig, hints: dict[str, Any]
) -> PreprocessSpec:
    """What the metadata say."""
    return described(hints)[1]


def class_names(
    config: ViTConfig | ResNetConfig, hints: dict[str, Any]
) -> tuple[str, ...]:
    """What the metadata say."""
    return described(hints)[2]


def described(
    hints: dict[str, Any],
) -> tuple[ViTConfig | ResNetConfig, PreprocessSpec, tuple[str, ...]]:
    """Configuration, preprocessing and class names, from the metadata of a file.

    A `config` among the hints is a JSON file beside the weights, which in a run folder
    says how they were trained; it counts where there are no metadata.
    UserError: they cannot be understood, or contradict each other.
    """
    text = hints.get("metadata", {}).get("vitedu")
    try:
        values = hints if text is None else json.loads(text)
        fields = values["config"]
        family = ResNetConfig if "family" in fields else ViTConfig
        config = family.from_json(fields)
        if text is None:
            size, channels = config.image_size, config.in_channels
            return config, PreprocessSpec(size, channels), ()
        spec = PreprocessSpec.from_json(values["preprocess"])
        names = values["class_names"]
        if names == IMAGENET_1K:
            names = list(imagenet_classes().names)
        if not isinstance(names, list):
            raise TypeError("class_names is not a list")
        names = tuple(names)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"it holds unreadable metadata: {error}") from None
    pictures = (spec.in_channels, spec.image_size)
    if pictures != (config.in_channels, config.image_size):
        raise UserError(
            f"it contradicts itself: its pictures are {spec.in_channels} x "
            f"{spec.image_size}, its model wants {config.in_channels} x "
            f"{config.image_size}"
        )
    if names and len(names) != config.num_classes:
        raise UserError(
            f"it contradicts itself: {len(names)} class names for "
            f"{config.num_classes} classes"
        )
    return config, spec, names


def metadata_of(checkpoint: Checkpoint) -> dict[str, str]:
    """The metadata of its file; `described` is the inverse."""
    names = checkpoint.class_names
    is_imagenet = names == imagenet_classes().names
    content = {
        "config": checkpoint.config.to_json(),
        "preprocess": checkpoint.preprocess.to_json(),
        "class_names": IMAGENET_1K if is_imagenet else list(names),
    }
    return {"vitedu": json.dumps(content, sort_keys=True)}


def write_weights(path: str | Path, checkpoint: Checkpoint) -> None:
    """Write `checkpoint` to `path`, whole or not at all, without asking if it fits.

    `vitedu.save` is for models, and asks.
    """
    from safetensors.torch import save

    arrays = from_vitedu(checkpoint.config, checkpoint.state_dict)
    replace_file(path, save(arrays, metadata_of(checkpoint)))


def read_weights(path: str | Path) -> Checkpoint:
    """Read what `write_weights` wrote. UserError: the file is not such a file."""
    arrays, metadata = read_safetensors(Path(path))
    if "vitedu" not in metadata:
        raise UserError(
            f"{path} was not written by vitedu: its metadata has no key 'vitedu'"
        )
    try:
        config, spec, names = described({"metadata": metadata})
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return Checkpoint(config, arrays, spec, names)
