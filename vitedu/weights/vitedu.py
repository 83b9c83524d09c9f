"""Our own file: safetensors that say everything about their model.

The tensors have timm's names; one metadata key, `vitedu`, holds sorted JSON:
configuration, preprocessing, class names (ImageNet-1k's as one word), `loss` if
it is "sigmoid", `resize` if it is not "paper". There is no date and no commit
in it, so equal runs give equal bytes.

`write_weights("mine.safetensors", checkpoint)`
"""

import json
from os import PathLike

from torch import Tensor

from vitedu.data.imagenet import IMAGENET_1K, imagenet_classes
from vitedu.errors import UserError, counted, explained
from vitedu.files import parse_json, replace_file, user_path
from vitedu.model.classifier import Usage
from vitedu.model.network import network_config
from vitedu.weights import mapping
from vitedu.weights.checkpoint import Checkpoint, Metadata
from vitedu.weights.files import read_safetensors
from vitedu.weights.mapping import Row

# The names are timm's, and only the header says that a file is ours.
MARKS = ()
SUFFIXES = (".safetensors",)


def to_vitedu(arrays: dict[str, Tensor], metadata: Metadata) -> Checkpoint:
    with explained("it holds unreadable metadata", UserError):
        content = parse_json(metadata.header["vitedu"], "the key 'vitedu'")
        fields = content.get("config")
        if not isinstance(fields, dict):
            raise UserError("config must be a JSON object")
        config = network_config(fields)
        if content.get("class_names") == IMAGENET_1K:
            names = list(imagenet_classes().names)
            content = content | {"class_names": names}
        usage = Usage.from_json(content)
    spec, names = usage.preprocess, usage.class_names
    made = spec.in_channels, *spec.image_size
    wanted = config.in_channels, *config.image_size
    if made != wanted:
        raise UserError(
            f"it contradicts itself: its preprocess makes images of {made}, "
            f"but its network takes {wanted} (channels, height, width)"
        )
    if names and len(names) != config.num_classes:
        raise UserError(
            "it contradicts itself: "
            f"{counted(config.num_classes, 'class')} and "
            f"{counted(len(names), 'class name')}"
        )
    rows = [Row(name, (name,), "same") for name in arrays]
    mapping.check_complete(mapping.to_ours(rows, arrays), config)
    return Checkpoint(config, dict(arrays), *usage)


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    return {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in checkpoint.state_dict.items()
    }


def header_of(checkpoint: Checkpoint) -> dict[str, str]:
    usage = checkpoint.usage.to_json()
    content = {"config": checkpoint.config.to_json()} | usage
    if checkpoint.class_names == imagenet_classes().names:
        content["class_names"] = IMAGENET_1K
    return {"vitedu": json.dumps(content, sort_keys=True)}


def write_weights(path: str | PathLike[str], checkpoint: Checkpoint) -> None:
    """Write `checkpoint` to `path` whole or not at all, without checking it."""
    from safetensors.torch import save

    content = save(from_vitedu(checkpoint), header_of(checkpoint))
    replace_file(user_path(path), content)


def read_weights(path: str | PathLike[str]) -> Checkpoint:
    """Read what `write_weights` wrote. UserError: `path` is no such file."""
    path = user_path(path)
    arrays, header = read_safetensors(path)
    if "vitedu" not in header:
        raise UserError(
            f"{path} was not written by vitedu: its metadata have no key "
            "'vitedu'"
        )
    with explained(str(path), UserError):
        return to_vitedu(arrays, Metadata(header=header))
