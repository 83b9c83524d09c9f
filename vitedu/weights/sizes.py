"""The sizes of a ViT out of its arrays, for the dialects of PyTorch.

Arrays say all but the number of heads and, where the patches form no square, the size
of the images. What was said of them elsewhere comes as `said`, a dict in our terms: a
config.json, a table of names.
"""

import math
import re
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from vitedu.errors import UserError
from vitedu.model import Patches, ViTConfig
from vitedu.model.checks import pair
from vitedu.model.config import SIZES
from vitedu.model.hybrid import Hybrid
from vitedu.weights.rows import shape_of


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
    said: dict[str, Any],
    hints: dict[str, Any],
    stem: Patches | Hybrid | None = None,
    class_token: bool | None = None,
) -> dict[str, Any]:
    """The fields of a ViTConfig that are sizes.

    `class_token` is whether the dialect has one; None: where its array is there.
    UserError: an array is missing, `said` is of another network, or the number of heads
    or the size of the images must be asked for.
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
        "pre_logits": rows_of(arrays, names.pre_logits),
    }
    for name in ("embed_dim", "depth", "mlp_dim"):
        if said.get(name, sizes[name]) != sizes[name]:
            raise UserError(
                f"the config.json beside it says {name}={said[name]}, its arrays "
                f"{sizes[name]}; put the config.json of these weights there, or none"
            )
    sizes["num_heads"] = num_heads_of(embed_dim, depth, said, hints)
    shape = (p, q), stem, class_token
    rows = None
    if names.positions in arrays:
        rows = shape_of(arrays, names.positions, 3)[1]
    sizes["image_size"] = image_size_of(rows, *shape, said, hints)
    return sizes


def depth_in(arrays: dict[str, Tensor], block: str) -> int:
    """The number of blocks, whose names begin as the pattern `block` says."""
    pattern = re.compile(block)
    numbers = {
        int(match[1]) for name in arrays if (match := pattern.match(name))
    }
    if numbers != {*range(len(numbers))} or not numbers:
        raise UserError(
            f"it holds the blocks {', '.join(map(str, sorted(numbers)[:8]))}, so it "
            "is not complete"
        )
    return len(numbers)


def rows_of(arrays: dict[str, Tensor], name: str) -> int | None:
    """The width of what a dense layer gives; None where there is no such layer."""
    return shape_of(arrays, name, 2)[0] if name in arrays else None


def num_heads_of(
    embed_dim: int, depth: int, said: dict[str, Any], hints: dict[str, Any]
) -> int:
    """The number of heads, which no array shows: 3 and 12 have the same shapes.

    The first that knows it: the caller, the file's metadata, the config.json beside it
    or the table of its name (`said`), Table 1 by width and depth. UserError: none does.
    """
    stored = hints.get("metadata", {}).get("num_heads", "")
    if "num_heads" in hints:
        return hints["num_heads"]
    if stored.isdecimal():
        return int(stored)
    if "num_heads" in said:
        return said["num_heads"]
    for of_table in SIZES.values():
        if of_table[:2] == (embed_dim, depth):
            return of_table[2]
    raise UserError(
        f"its arrays do not say the number of heads, and no model of Table 1 has width "
        f"{embed_dim} and {depth} blocks; give num_heads="
    )


def image_size_of(
    rows: int | None,
    patch_size: tuple[int, int],
    stem: Patches | Hybrid,
    class_token: bool,
    said: dict[str, Any],
    hints: dict[str, Any],
) -> tuple[int, int]:
    """The size of the images that `rows` positions were learned on; None: no positions.

    What `said` says counts if it fits the rows, then a square, then the caller's. So an
    image_size to resize to, which may have as many patches, is not taken for the old.
    """
    ask = "give image_size=(height, width) of the images that it was trained on"
    stated, given = (
        pair("image_size", each["image_size"]) if "image_size" in each else None
        for each in (said, hints)
    )
    if rows is None:
        if not (stated or given):
            raise UserError(f"it has no positions, which fit any size; {ask}")
        return stated or given
    # with or without one for the class token
    counts = [n for n in (rows - class_token, rows) if n > 0]
    if stated and num_patches(stated, patch_size, stem) in counts:
        return stated
    for n in counts:
        side = math.isqrt(n)
        if side * side == n:
            pixels = getattr(stem, "stride", 1) * side
            return pixels * patch_size[0], pixels * patch_size[1]
    if given and num_patches(given, patch_size, stem) in counts:
        return given
    raise UserError(f"its {counts[0]} positions form no square; {ask}")


def num_patches(
    image_size: tuple[int, int],
    patch_size: tuple[int, int],
    stem: Patches | Hybrid,
) -> int | None:
    """How many patches an image has; None where it does not divide into them."""
    try:
        return ViTConfig(
            image_size=image_size, patch_size=patch_size, stem=stem
        ).num_patches
    except UserError:
        return None


def with_class_row(
    state: dict[str, Tensor], config: ViTConfig
) -> dict[str, Tensor]:
    """The state_dict, with a row of zeros first in a table that has none for the class.

    Whoever adds positions before the class token comes has none.
    """
    table = state.get("pos_embed")
    if table is None or table.shape[1] != config.num_tokens - 1:
        return state
    return state | {"pos_embed": F.pad(table, (0, 0, 1, 0))}


def check_holds(owner: str, reasons: dict[str, bool]) -> None:
    """UserError naming the first of the reasons that is true."""
    for what, is_so in reasons.items():
        if is_so:
            raise UserError(f"{owner} has no place for {what}")


def crop_share(size: int, resized: int) -> float:
    """The share that a crop of `size` keeps of a short side of `resized` pixels.

    The shortest decimal from which PreprocessSpec finds `resized` again: 0.875 for 224
    of 256, 0.9256 for 224 of 242.
    """
    for digits in range(1, 17):
        share = round(size / resized, digits)
        if 0 < share <= 1 and math.floor(size / share) == resized:
            return share
    return size / resized
