"""The sizes of a ViT out of its arrays, for the dialects of PyTorch.

Arrays say all but the number of heads and, where the patches form no square,
the size of the images. What a config.json or a table of names states comes as
`stated`, fields of a ViTConfig; what the caller of `load` says is in `about`.
"""

import math
import re
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from vitedu.errors import UserError
from vitedu.fields import Size, converted
from vitedu.model import Patches, ViTConfig
from vitedu.model.config import SIZES
from vitedu.model.hybrid import Hybrid
from vitedu.weights.checkpoint import About
from vitedu.weights.renaming import shape_of


class Names(NamedTuple):
    """What a dialect calls the arrays that say sizes."""

    patches: str  # kernel of the patch embedding
    class_token: str
    positions: str
    block: str  # beginning of a block's names, a pattern with its number
    mlp: str  # kernel of the first layer of block 0's MLP
    head: str
    pre_logits: str


def sizes_in(
    arrays: dict[str, Tensor],
    names: Names,
    *,
    stated: dict[str, Any],
    about: About,
    stem: Patches | Hybrid | None = None,
    class_token: bool | None = None,
    registers: int = 0,
) -> dict[str, Any]:
    """The fields of a ViTConfig that are sizes.

    `class_token` is whether the dialect has one; None: where its array is
    there.
    UserError: an array is missing, `stated` is another network's, or the number
    of heads or the size of the images must be asked for.
    """
    embed_dim, in_channels, p, q = shape_of(arrays, names.patches, 4)
    stem = stem or Patches()
    depth = depth_in(arrays, names.block)
    if class_token is None:
        class_token = names.class_token in arrays
    sizes = {
        "patch_size": (p, q),
        "in_channels": in_channels,
        "num_classes": rows_of(arrays, names.head) or 0,
        "embed_dim": embed_dim,
        "depth": depth,
        "mlp_dim": shape_of(arrays, names.mlp, 2)[0],
        "stem": stem,
        "class_token": class_token,
        "registers": registers,
        "pre_logits": rows_of(arrays, names.pre_logits),
    }
    for name in ("embed_dim", "depth", "mlp_dim"):
        if stated.get(name, sizes[name]) != sizes[name]:
            raise UserError(
                f"the config.json beside it says {name}={stated[name]}, its "
                f"arrays {sizes[name]}; put the config.json of these weights "
                "there, or none"
            )
    sizes["num_heads"] = num_heads_of(embed_dim, depth, stated, about)
    counts = []
    if names.positions in arrays:
        rows = shape_of(arrays, names.positions, 3)[1]
        # with or without those of class token and registers
        counts = [n for n in (rows - class_token - registers, rows) if n > 0]
    sizes["image_size"] = image_size_of(counts, (p, q), stem, stated, about)
    return sizes


def depth_in(arrays: dict[str, Tensor], block: str) -> int:
    """The number of blocks, whose names begin as the pattern `block` says."""
    pattern = re.compile(block)
    numbers = {
        int(match[1]) for name in arrays if (match := pattern.match(name))
    }
    if numbers != {*range(len(numbers))} or not numbers:
        raise UserError(
            f"it holds the blocks {', '.join(map(str, sorted(numbers)[:8]))}, "
            "so it is not complete"
        )
    return len(numbers)


def rows_of(arrays: dict[str, Tensor], name: str) -> int | None:
    """The width that a dense layer outputs; None if there is no such layer."""
    return shape_of(arrays, name, 2)[0] if name in arrays else None


def num_heads_of(
    embed_dim: int, depth: int, stated: dict[str, Any], about: About
) -> int:
    """The number of heads, which no array shows: 3 and 12 have the same shapes.

    The first that knows it: the caller, the file's metadata, the config.json
    beside it or the table of its name (`stated`), Table 1 by width and depth.
    UserError: none does.
    """
    if about.num_heads is not None:
        return about.num_heads
    in_metadata = about.metadata.get("num_heads", "")
    if re.fullmatch(r"[0-9]{1,18}", in_metadata):
        return int(in_metadata)
    if "num_heads" in stated:
        return stated["num_heads"]
    for width, of_depth, num_heads, _ in SIZES.values():
        if (width, of_depth) == (embed_dim, depth):
            return num_heads
    raise UserError(
        "its arrays do not say the number of heads, and no model of Table 1 "
        f"has width {embed_dim} and {depth} blocks; give num_heads="
    )


def image_size_of(
    counts: list[int],
    patch_size: tuple[int, int],
    stem: Patches | Hybrid,
    stated: dict[str, Any],
    about: About,
) -> tuple[int, int]:
    """The size of the images that a file was trained on.

    `counts` are how many patches its positions may be for; none: it has no
    positions. What is stated counts if it fits one of them, then a square, then
    the caller's. So an image_size to resize to, which may have as many patches,
    isn't taken for the old.
    """
    ask = "give image_size=(height, width) of the images that it was trained on"
    given, size = about.image_size, None
    if "image_size" in stated:
        size = converted("image_size", stated["image_size"], Size)
    if not counts:
        if not (size or given):
            raise UserError(
                f"it has no table of positions, so any size fits; {ask}"
            )
        return size or given
    if size and num_patches(size, patch_size, stem) in counts:
        return size
    for n in counts:
        side = math.isqrt(n)
        if side * side == n:
            pixels = getattr(stem, "stride", 1) * side
            return pixels * patch_size[0], pixels * patch_size[1]
    if given and num_patches(given, patch_size, stem) in counts:
        return given
    fault = f", and image_size={given} has another number" if given else ""
    raise UserError(f"its {counts[0]} positions form no square{fault}; {ask}")


def num_patches(
    image_size: tuple[int, int],
    patch_size: tuple[int, int],
    stem: Patches | Hybrid,
) -> int | None:
    """How many patches an image has; None if it doesn't divide into them."""
    try:
        return ViTConfig(
            image_size=image_size, patch_size=patch_size, stem=stem
        ).num_patches
    except UserError:
        return None


def check_no_distillation(has_token: bool) -> None:
    """UserError for a DeiT that was trained with a teacher."""
    if has_token:
        raise UserError(
            "it has a distillation token and a head for it; take the DeiT that "
            "was trained without, vitedu's network has no place for them"
        )


def with_prefix_rows(
    state: dict[str, Tensor], config: ViTConfig
) -> dict[str, Tensor]:
    """The state_dict, with a position for each token before the patches.

    A library that adds positions before those tokens has none for them: zeros.
    """
    table = state.get("pos_embed")
    if table is None or table.shape[1] != config.num_patches:
        return state
    padding = (0, 0, config.num_prefix_tokens, 0)
    return state | {"pos_embed": F.pad(table, padding)}


def crop_share(size: int, resized: int) -> float:
    """The share of a short side of `resized` pixels that a `size` crop keeps.

    The shortest decimal from which PreprocessSpec finds `resized` again: 0.875
    for 224 of 256, 0.9256 for 224 of 242.
    """
    for digits in range(1, 17):
        share = round(size / resized, digits)
        if 0 < share <= 1 and math.floor(size / share) == resized:
            return share
    return size / resized
