"""Make the file of the real model that the package carries, and compare it.

    python tools/embed_model.py make SOURCE [TARGET]
    python tools/embed_model.py compare [SOURCE]

`make` writes a ViT-Ti/16 in any dialect that `vitedu.load` reads as vitedu's
own file of 16-bit floats, with ImageNet's class names:
vitedu/weights/vit-ti-16.safetensors. Equal input gives equal bytes.

`compare` compares that file with SOURCE, a file or a name; without one, with
the published weights that it most likely is, which are fetched from the hub.
That these are the right ones is inferred (see NOTICE), and with a network
anyone can settle it: the published numbers, rounded to 16 bits, are ours or
they aren't.
"""

import hashlib
import sys
from pathlib import Path
from typing import NamedTuple

import torch

from vitedu.data.imagenet import imagenet_classes
from vitedu.errors import UserError
from vitedu.model import vit_config
from vitedu.weights import Checkpoint, read_weights, write_weights
from vitedu.weights.hub import EMBEDDED
from vitedu.weights.load import read_checkpoint

NAME = "ViT-Ti/16"
PUBLISHED = "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"


class Comparison(NamedTuple):
    """Our tensors beside those of another file, both as 16-bit floats."""

    num_tensors: int
    num_equal: int  # bit for bit
    num_missing: int  # in one of the two alone, or of another shape
    most: float  # the largest difference of two numbers


def embedded_form(source: str | Path) -> Checkpoint:
    """`source` as the package carries it. UserError: it is another network."""
    checkpoint = read_checkpoint(source).checkpoint
    if checkpoint.config != vit_config(NAME):
        raise UserError(f"{source} is another network than {NAME}")
    state = {name: x.half() for name, x in checkpoint.state_dict.items()}
    if not all(torch.isfinite(x).all() for x in state.values()):
        raise UserError(f"{source} has numbers that 16 bits can't represent")
    names = imagenet_classes().names
    # the weights are the authors', whatever the file's names: resized as the
    # paper's
    return checkpoint._replace(
        state_dict=state, class_names=names, resize_mode="paper"
    )


def compared(ours: Checkpoint, theirs: Checkpoint) -> Comparison:
    """Tensor by tensor."""
    here, there = ours.state_dict, theirs.state_dict
    shared = [
        name
        for name in here.keys() & there.keys()
        if here[name].shape == there[name].shape
    ]
    differences = [
        (here[name].float() - there[name].float()).abs().max().item()
        for name in shared
    ]
    num_names = len(here.keys() | there.keys())
    return Comparison(
        num_names,
        sum(torch.equal(here[name], there[name]) for name in shared),
        num_names - len(shared),
        max(differences, default=float("nan")),
    )


def make(source: str, target: str | Path = EMBEDDED[NAME]) -> str:
    """Write the file; what was done in a line."""
    checkpoint = embedded_form(source)
    write_weights(target, checkpoint)
    state = checkpoint.state_dict.values()
    digest = hashlib.sha256(Path(target).read_bytes()).hexdigest()
    return (
        f"wrote {target}: {len(state)} tensors, "
        f"{sum(x.numel() for x in state):,} numbers, "
        f"{Path(target).stat().st_size:,} bytes, sha256 {digest}"
    )


def compare(source: str = PUBLISHED) -> str:
    """What the comparison says, in two lines."""
    ours = read_weights(EMBEDDED[NAME])
    theirs = embedded_form(source)
    found = compared(ours, theirs)
    lines = [
        f"{found.num_equal} of {found.num_tensors} tensors of {source} are "
        f"equal to ours bit for bit, {found.num_missing} are in one file "
        f"alone, the largest difference is {found.most:.3g}"
    ]
    is_same = found.num_equal == found.num_tensors
    if ours.preprocess != theirs.preprocess:
        lines.append(f"it prepares pictures otherwise: {theirs.preprocess}")
    if source != PUBLISHED:
        lines.append(
            f"that our file is {PUBLISHED} stays inferred: this was another one"
        )
    elif is_same:
        lines.append(f"our file is {PUBLISHED}: compared, not just inferred")
    else:
        lines.append(f"our file is not {PUBLISHED}: mend NOTICE")
    return "\n".join(lines)


def main(words: list[str]) -> int:
    """Run one of the two; the exit code is 2 for what the user can mend."""
    actions = {"make": (make, (1, 2)), "compare": (compare, (0, 1))}
    action, counts = actions.get(words[0] if words else "", (None, ()))
    if action is None or len(words) - 1 not in counts:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(action(*words[1:]))
    except UserError as error:
        print(f"embed_model: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
