"""Google's dialect: what vit_jax, big_vision and BiT keep in .npz files.

The arrays alone say the architecture: ViTs with and without pre-logits,
hybrids, BiT and big_vision's ViTs, under the released names and today's,
scanned blocks too. What they cannot say is asked for: `load("FILE.npz",
image_size=(224, 320))`.

Sources: vit_jax's models_vit.py and checkpoint.py, big_vision's vit.py, bit.py
and bit_paper.py; paper, section 3.1.
"""

import re

from torch import Tensor

from vitedu.errors import UserError
from vitedu.model import (
    Hybrid,
    Learned1D,
    Patches,
    ResNetConfig,
    SinCos2D,
    ViTConfig,
)
from vitedu.pictures import PreprocessSpec
from vitedu.weights.checkpoint import About, Checkpoint, NetworkConfig
from vitedu.weights.leftovers import refusal
from vitedu.weights.npz_names import (
    LINEN,
    POSITIONS,
    RELEASED,
    PartNames,
    legacy_names,
    resnet_names,
    vit_names,
)
from vitedu.weights.renaming import (
    check_holds,
    check_vit,
    note_on_dropped,
    shape_of,
    to_ours,
    to_theirs,
)
from vitedu.weights.vit_sizes import image_size_of, with_prefix_rows

# of all files, and nowhere in them
FIXED = {"gelu": "tanh", "norm_eps": 1e-6}

PREFIXES = ("opt/target/", "params/img/", "params/", "")
LEGACY_ROOT = "resnet/root_block/standardized_conv2d/kernel"
BIT_ROOT = "root_block/conv_root/kernel"
# the first layers of a ViT, of a ResNet, and of BiT under two names
FIRST = ("embedding/kernel", "conv_root/kernel", BIT_ROOT, LEGACY_ROOT)
# what vit_jax and big_vision keep beside the weights while they train
TRAINING = re.compile(r"(opt|opt_state|chrono)/|(step|epoch)$")
MARKS = tuple({prefix + name} for prefix in PREFIXES for name in FIRST)


def preprocess(config: NetworkConfig) -> PreprocessSpec:
    """The authors' evaluation: resized straight to size, bilinear, range -1..1.

    That is vit_jax's and BiT's. Files that only big_vision writes, with
    attention pooling or fixed positions, get its own: short side to 8/7 of the
    size (256 for 224), then the centre.
    """
    is_big_vision = isinstance(config, ViTConfig) and (
        config.pool == "map" or isinstance(config.position, SinCos2D)
    )
    crop = 0.875 if is_big_vision else None
    return PreprocessSpec(config.image_size, config.in_channels, crop=crop)


def to_vitedu(arrays: dict[str, Tensor], about: About) -> Checkpoint:
    """The checkpoint in a file; its arrays say nearly all.

    The caller's answers in `about` count where they say nothing: `image_size`,
    where the patches form no square or there is no table of positions;
    `position`, where there is none (else SinCos2D); `pool` "none";
    `pool_padding` of BiT, by default -inf under the flat names, as in
    big_vision, and zeros under the legacy ones, as in the release.

    UserError: something must be asked for, is missing, or is left over.
    """
    prefix, stack = prefix_of(arrays), "Transformer/encoderblock/"
    is_stacked = any(name.startswith(prefix + stack) for name in arrays)

    def in_file(name: str) -> str:
        if is_stacked:
            name = re.sub(r"^Transformer/encoderblock_\d+/", stack, name)
        return prefix + name

    dropped = training_state(arrays)
    arrays = unstacked(bare(arrays))
    if "embedding/kernel" not in arrays:
        config = resnet_config_in(arrays, about)
        names = legacy_names if LEGACY_ROOT in arrays else resnet_names
        state = to_ours(names(config), arrays, 0, in_file)
    else:
        config, table = vit_config_in(arrays, about), table_in(arrays)
        parts = parts_in(arrays)._replace(positions=table)
        rows = vit_names(config, parts, has_positions=table is not None)
        state = to_ours(rows, arrays, config.num_heads, in_file)
        state = with_prefix_rows(state, config)
    return Checkpoint(
        config,
        state,
        preprocess(config),
        dropped=dropped,
        notes=note_on_dropped(dropped, "the state of a training"),
    )


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The arrays under released names, big_vision's where only that has such.

    The format has no place for the GELU and the norms' epsilon; `FIXED` holds
    what every reader takes. BiT gets the names that stand for its padding.

    UserError: the format cannot hold the model.
    """
    config, state_dict = checkpoint.config, checkpoint.state_dict
    if isinstance(config, ResNetConfig):
        is_legacy = (config.family, config.pool_padding) == ("bit-v2", "zeros")
        names = legacy_names if is_legacy else resnet_names
        return flat_norms(to_theirs(names(config), state_dict, 0), is_legacy)
    owner = "Google's npz format"
    held = (Learned1D(), SinCos2D())
    check_vit(owner, config, stem=(), pool=(), position=held)
    is_mean = config.pool == "mean" and config.class_token
    check_holds(owner, {"pool='mean' beside a class token": is_mean})
    is_fixed = isinstance(config.position, SinCos2D)
    parts = LINEN if is_fixed or config.pool == "map" else RELEASED
    if config.class_token:
        parts = parts._replace(positions=POSITIONS[0])
    rows = vit_names(config, parts, has_positions=not is_fixed)
    return to_theirs(rows, state_dict, config.num_heads)


def flat_norms(arrays: dict[str, Tensor], is_legacy: bool) -> dict[str, Tensor]:
    """The legacy files have the vectors of their GroupNorms flat."""
    if not is_legacy:
        return arrays
    return {
        name: array.flatten() if "group_norm/" in name else array
        for name, array in arrays.items()
    }


def prefix_of(arrays: dict[str, Tensor]) -> str:
    """The prefix of all names of a network."""
    for prefix in PREFIXES:
        if any(prefix + name in arrays for name in FIRST):
            return prefix
    return ""


def training_state(arrays: dict[str, Tensor]) -> tuple[str, ...]:
    """The names of what a training program kept beside the weights."""
    prefix = prefix_of(arrays)
    return tuple(
        name
        for name in arrays
        if TRAINING.match(name) and not (prefix and name.startswith(prefix))
    )


def bare(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arrays without their prefix and without a training's state.

    UserError: an array is neither below the prefix nor a training's.
    """
    prefix, left_out = prefix_of(arrays), {*training_state(arrays)}
    kept = {name: arrays[name] for name in arrays if name not in left_out}
    outside = [name for name in kept if not name.startswith(prefix)]
    if outside:
        raise refusal(outside, arrays)
    return {name.removeprefix(prefix): kept[name] for name in kept}


def unstacked(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """Scanned blocks, all depths in one array, split into one block each."""
    stack, blocks = "Transformer/encoderblock/", {}
    shapes = [arrays[x].shape for x in arrays if x.startswith(stack)]
    depths = {tuple(shape[:1]) for shape in shapes}
    if len(depths) > 1 or () in depths or any(0 in x for x in shapes):
        raise UserError(
            "its scanned blocks are not all of one depth; it is damaged"
        )
    for name, array in arrays.items():
        if not name.startswith(stack):
            blocks[name] = array
            continue
        for i, one in enumerate(array):
            place = f"{stack[:-1]}_{i}/{name.removeprefix(stack)}"
            if place in arrays:
                raise UserError(f"it holds {place} twice, alone and scanned")
            blocks[place] = one
    return blocks


def parts_in(arrays: dict[str, Tensor]) -> PartNames:
    """What the parts of the blocks are called in these arrays."""
    is_released = any(f"/{RELEASED.attention}/" in name for name in arrays)
    return RELEASED if is_released else LINEN


def table_in(arrays: dict[str, Tensor]) -> str | None:
    """The name of the table of positions; None: there is none."""
    return next((name for name in POSITIONS if name in arrays), None)


def width_of(arrays: dict[str, Tensor], name: str, ndim: int = 2) -> int | None:
    """The width of what a layer gives; None where there is no such layer."""
    return shape_of(arrays, name, ndim)[-1] if name in arrays else None


def resnet_config_in(arrays: dict[str, Tensor], about: About) -> ResNetConfig:
    """The configuration of a ResNet's arrays."""
    is_legacy = LEGACY_ROOT in arrays
    is_v2 = is_legacy or BIT_ROOT in arrays
    first = LEGACY_ROOT if is_legacy else BIT_ROOT if is_v2 else FIRST[1]
    *_, in_channels, channels = shape_of(arrays, first, 4)
    head = "resnet/head/conv2d/kernel" if is_legacy else "head/kernel"
    padding = about.pool_padding
    if is_v2 and padding is None:
        padding = "zeros" if is_legacy else "-inf"
    return ResNetConfig(
        family="bit-v2" if is_v2 else "bit-v1",
        layers=layers_in(arrays),
        width=channels / 64,
        num_classes=width_of(arrays, head, 4 if is_legacy else 2) or 0,
        in_channels=in_channels,
        pool_padding=padding,
        **({"image_size": about.image_size} if about.image_size else {}),
    )


def layers_in(arrays: dict[str, Tensor]) -> tuple[int, ...]:
    """Units of each stage, by the names of arrays."""
    found = re.findall(r"block(\d{1,3})/unit(\d{1,3})/", "\n".join(arrays))
    units: dict[int, int] = {}
    for stage, unit in found:
        units[int(stage)] = max(units.get(int(stage), 0), int(unit))
    if sorted(units) != [*range(1, len(units) + 1)]:
        raise UserError(
            f"it holds the stages {sorted(units)}, so it is not complete"
        )
    return tuple(units[stage] for stage in sorted(units))


def vit_config_in(arrays: dict[str, Tensor], about: About) -> ViTConfig:
    """The configuration of a ViT's or a hybrid's arrays."""
    p, q, in_channels, embed_dim = shape_of(arrays, "embedding/kernel", 4)
    stem = Patches()
    if "conv_root/kernel" in arrays:
        *_, in_channels, channels = shape_of(arrays, "conv_root/kernel", 4)
        stem = Hybrid(layers_in(arrays), width=channels / 64)
    found = re.findall(
        r"Transformer/encoderblock_(\d{1,4})/", "\n".join(arrays)
    )
    first, parts = "Transformer/encoderblock_0", parts_in(arrays)
    query = f"{first}/{parts.attention}/query/kernel"
    _, num_heads, _ = shape_of(arrays, query, 3)
    if about.num_heads not in (None, num_heads):
        raise UserError(
            f"its attention has {num_heads} heads, not {about.num_heads}; "
            "leave num_heads out"
        )
    mlp = f"{first}/{parts.mlp}/Dense_0/kernel"
    pool = "map" if "MAPHead_0/probe" in arrays else "mean"
    if pool == "mean" and "cls" in arrays:
        pool = "token"
    position, table = Learned1D(), table_in(arrays)
    counts = []
    if table is None:
        position = about.position or SinCos2D()
    else:
        # vit_jax's table begins with the class token's row, big_vision's
        # doesn't
        has_class_row = "cls" in arrays and table == POSITIONS[0]
        counts = [shape_of(arrays, table, 3)[1] - has_class_row]
    return ViTConfig(
        image_size=image_size_of(counts, (p, q), stem, {}, about),
        patch_size=(p, q),
        in_channels=in_channels,
        num_classes=width_of(arrays, "head/kernel") or 0,
        embed_dim=embed_dim,
        depth=1 + max(map(int, found)),
        num_heads=num_heads,
        mlp_dim=shape_of(arrays, mlp, 2)[1],
        stem=stem,
        position=position,
        pool=about.pool or pool,
        class_token="cls" in arrays,
        pre_logits=width_of(arrays, "pre_logits/kernel"),
        **FIXED,
    )
