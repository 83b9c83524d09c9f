"""Our own checkpoint: one safetensors file that says everything about its model.

The tensors carry timm's names; one metadata key, `vitedu`, holds sorted JSON with the
configuration, the preprocessing and the class names; ImageNet-1k's, which the package
holds anyway, as one word. `loss` is there where it is "sigmoid", `resize` where it is
not "paper". There is no date and no commit in it, so equal runs give equal bytes.
"""

import json
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from vitedu.data.imagenet import IMAGENET_1K, imagenet_classes
from vitedu.errors import UserError
from vitedu.files import replace_file
from vitedu.model import ViTConfig
from vitedu.model.about import About, LossName
from vitedu.model.resize import ResizeMode
from vitedu.model.resnet import ResNetConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights.files import read_safetensors

RESIZE = "paper"  # where a file says no other


class Checkpoint(NamedTuple):
    """What a file of weights holds."""

    config: ViTConfig | ResNetConfig
    state_dict: dict[str, Tensor]
    preprocess: PreprocessSpec
    class_names: tuple[str, ...]
    loss_name: LossName | None = None  # trained by it; None: unknown
    resize_mode: ResizeMode = "paper"  # for its positions


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
    return described(hints)[1].preprocess


def class_names(
    config: ViTConfig | ResNetConfig, hints: dict[str, Any]
) -> tuple[str, ...]:
    """What the metadata say."""
    return described(hints)[1].class_names


def described(hints: dict[str, Any]) -> tuple[ViTConfig | ResNetConfig, About]:
    """Configuration, preprocessing, class names and more, from a file's metadata.

    A `config` among the hints is a JSON file beside the weights, which in a run folder
    says how they were trained; it counts where there are no metadata. That of Hugging
    Face's mixin says the rest under the key "vitedu".
    UserError: they cannot be understood, or contradict each other.
    """
    text = hints.get("metadata", {}).get("vitedu")
    try:
        values = hints if text is None else json.loads(text)
        fields = dict(values["config"])
        more = fields.pop("vitedu", None) if text is None else None
        family = ResNetConfig if "family" in fields else ViTConfig
        config = family.from_json(fields)
        if text is None and more is None:
            size, channels = config.image_size, config.in_channels
            return config, About(PreprocessSpec(size, channels))
        content = more if text is None else values
        if content["class_names"] == IMAGENET_1K:
            names = list(imagenet_classes().names)
            content = content | {"class_names": names}
        about = About.from_json(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"it holds unreadable metadata: {error}") from None
    spec, names = about.preprocess, about.class_names
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
    return config, about


def metadata_of(checkpoint: Checkpoint) -> dict[str, str]:
    """The metadata of its file; `described` is the inverse."""
    config, _, *about = checkpoint
    content = {"config": config.to_json()} | About(*about).to_json()
    if checkpoint.class_names == imagenet_classes().names:
        content["class_names"] = IMAGENET_1K
    return {"vitedu": json.dumps(content, sort_keys=True)}


def write_weights(path: str | PathLike[str], checkpoint: Checkpoint) -> None:
    """Write `checkpoint` to `path`, whole or not at all, without asking if it fits.

    `vitedu.save` is for models, and asks.
    """
    from safetensors.torch import save

    arrays = from_vitedu(checkpoint.config, checkpoint.state_dict)
    replace_file(Path(path), save(arrays, metadata_of(checkpoint)))


def read_weights(path: str | PathLike[str]) -> Checkpoint:
    """Read what `write_weights` wrote. UserError: the file is not such a file."""
    arrays, metadata = read_safetensors(Path(path))
    if "vitedu" not in metadata:
        raise UserError(
            f"{path} was not written by vitedu: its metadata has no key 'vitedu'"
        )
    try:
        config, about = described({"metadata": metadata})
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return Checkpoint(config, arrays, *about)
