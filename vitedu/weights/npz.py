"""Google's dialect: the .npz files of vit_jax, big_vision and BiT.

Sources: vit_jax's models_vit.py and checkpoint.py, big_vision's vit.py, bit.py
and bit_paper.py; paper, section 3.1.

`load("FILE.npz", image_size=(224, 320))`
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from vitedu.errors import UserError
from vitedu.model import Learned1D, ResNetConfig, SinCos2D, ViTConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights import mapping
from vitedu.weights.checkpoint import Checkpoint, Metadata, NetworkConfig
from vitedu.weights.mapping import Mapped, Row, layer


class PartNames(NamedTuple):
    norm1: str
    attention: str
    norm2: str
    mlp: str
    positions: str | None


# The released files of vit_jax number the parts of a block through, today's
# flax each class by itself. big_vision's table of positions has no row for a
# class token.
TABLES = ("Transformer/posembed_input/pos_embedding", "pos_embedding")
ATTENTION = "MultiHeadDotProductAttention"
RELEASED = PartNames(
    "LayerNorm_0", f"{ATTENTION}_1", "LayerNorm_2", "MlpBlock_3", TABLES[0]
)
LINEN = PartNames(
    "LayerNorm_0", f"{ATTENTION}_0", "LayerNorm_1", "MlpBlock_0", TABLES[1]
)
UNIT = r"block(\d{1,3})/unit(\d{1,3})/"
BLOCK, STACK = "Transformer/encoderblock_", "Transformer/encoderblock/"
PREFIXES = ("opt/target/", "params/img/", "params/", "")
LEGACY_ROOT = "resnet/root_block/standardized_conv2d/kernel"
BIT_ROOT = "root_block/conv_root/kernel"
# the first layers of a ViT, of a ResNet, and of BiT under two names
FIRST = ("embedding/kernel", "conv_root/kernel", BIT_ROOT, LEGACY_ROOT)
# what vit_jax and big_vision keep beside the weights while they train
TRAINING = re.compile(r"(opt|opt_state|chrono)/|(step|epoch)$")

MARKS = tuple({prefix + name} for prefix in PREFIXES for name in FIRST)
SUFFIXES = (".npz",)
POSITIONS = (Learned1D(), SinCos2D())
# what every reader assumes, since the format cannot say it
FIXED = {"gelu": "tanh", "norm_eps": 1e-6}


def to_vitedu(arrays: dict[str, Tensor], metadata: Metadata) -> Checkpoint:
    """The checkpoint in a file; its arrays say nearly all.

    The caller may have to give `image_size`, `position` if there is no table
    (default SinCos2D), `pool` "none", and BiT's `pool_padding` (default: -inf
    under the flat names, as in big_vision, and zeros under the release's).
    """
    bare, prefix, dropped = without_prefix(arrays)
    is_stacked = any(name.startswith(STACK) for name in bare)
    bare = unstacked(bare)

    def in_file(name: str) -> str:
        if is_stacked:
            name = re.sub(rf"^{BLOCK}\d+/", STACK, name)
        return prefix + name

    is_vit = "embedding/kernel" in bare
    mapped, config = (vit_in if is_vit else resnet_config_in)(bare, metadata)
    mapping.check_complete(mapped, config, in_file)
    state = mapped.state
    return Checkpoint(
        config,
        mapping.with_prefix_rows(state, config) if is_vit else state,
        preprocess(config),
        dropped=dropped,
        notes=mapping.note_on_dropped(dropped, "the state of a training"),
    )


def without_prefix(
    arrays: dict[str, Tensor],
) -> tuple[dict[str, Tensor], str, tuple[str, ...]]:
    """The network's arrays, their prefix, and the names left out."""
    prefix = next(
        x for x in PREFIXES if any(x + name in arrays for name in FIRST)
    )
    kept = {k: v for k, v in arrays.items() if prefix and k.startswith(prefix)}
    for name in arrays.keys() - kept.keys():
        if not TRAINING.match(name):
            kept[name] = arrays[name]
    outside = [name for name in kept if not name.startswith(prefix)]
    if outside:
        raise mapping.refusal(outside, arrays)
    dropped = tuple(name for name in arrays if name not in kept)
    bare = {name.removeprefix(prefix): kept[name] for name in kept}
    return bare, prefix, dropped


def unstacked(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """Scanned blocks (all depths in one array), split into one each."""
    blocks = {k: v for k, v in arrays.items() if not k.startswith(STACK)}
    stacked = {k: v for k, v in arrays.items() if k.startswith(STACK)}
    if len({tuple(x.shape[:1]) for x in stacked.values()}) > 1:
        raise UserError(
            "its scanned blocks are not all of one depth; it is damaged"
        )
    for name, array in stacked.items():
        for i, one in enumerate(array):
            blocks[f"{BLOCK}{i}/{name.removeprefix(STACK)}"] = one
    return blocks


def vit_in(
    arrays: dict[str, Tensor], metadata: Metadata
) -> tuple[Mapped, ViTConfig]:
    is_released = any(f"/{RELEASED.attention}/" in name for name in arrays)
    parts = RELEASED if is_released else LINEN
    table = next((name for name in TABLES if name in arrays), None)
    query = f"{BLOCK}0/{parts.attention}/query/kernel"
    if query not in arrays:
        raise mapping.lacking(query)
    num_heads = arrays[query].shape[1]
    if metadata.num_heads not in (None, num_heads):
        raise UserError(
            f"its attention has {num_heads} heads, not {metadata.num_heads}; "
            "leave num_heads out"
        )
    rows = vit_rows(
        mapping.depth_in(arrays, BLOCK),
        mapping.layers_in(arrays, UNIT),
        parts._replace(positions=table),
    )
    mapped = mapping.to_ours(rows, arrays, num_heads)
    sizes = mapping.sizes_in(
        mapped,
        metadata,
        {"num_heads": num_heads},
        has_prefix_rows=table == TABLES[0],
    )
    pool = "token" if sizes["class_token"] else "mean"
    pool = "map" if "pool.latent" in mapped.state else pool
    position = Learned1D() if table else metadata.position or SinCos2D()
    return mapped, ViTConfig(
        **sizes, position=position, pool=metadata.pool or pool, **FIXED
    )


def resnet_config_in(
    arrays: dict[str, Tensor], metadata: Metadata
) -> tuple[Mapped, ResNetConfig]:
    is_legacy = LEGACY_ROOT in arrays
    is_v2 = is_legacy or BIT_ROOT in arrays
    rows = resnet_rows(
        mapping.layers_in(arrays, UNIT), is_v2=is_v2, is_legacy=is_legacy
    )
    mapped = mapping.to_ours(rows, arrays)
    layers, width, in_channels = mapping.resnet_in(mapped)
    padding = metadata.pool_padding
    if is_v2 and padding is None:
        padding = "zeros" if is_legacy else "-inf"
    size = metadata.image_size
    return mapped, ResNetConfig(
        family="bit-v2" if is_v2 else "bit-v1",
        layers=layers,
        width=width,
        num_classes=mapping.width_of(mapped, "head.fc.weight", 4) or 0,
        in_channels=in_channels,
        pool_padding=padding,
        **({"image_size": size} if size else {}),
    )


def preprocess(config: NetworkConfig) -> PreprocessSpec:
    """The authors' evaluation: resized straight to size, bilinear, range -1..1.

    Files that only big_vision writes (attention pooling or fixed positions) get
    its own: short side to 8/7 of the size (256 for 224), then the centre.
    """
    is_big_vision = isinstance(config, ViTConfig) and (
        config.pool == "map" or isinstance(config.position, SinCos2D)
    )
    crop = 0.875 if is_big_vision else None
    return PreprocessSpec(config.image_size, config.in_channels, crop=crop)


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The arrays under released names, big_vision's if only that has them.

    UserError: the format cannot store the model.
    """
    config, state_dict = checkpoint.config, checkpoint.state_dict
    if isinstance(config, ResNetConfig):
        is_v2 = config.family == "bit-v2"
        is_legacy = is_v2 and config.pool_padding == "zeros"
        rows = resnet_rows(config.layers, is_v2=is_v2, is_legacy=is_legacy)
        arrays = mapping.to_theirs(rows, state_dict)
        # the legacy files have the vectors of their GroupNorms flat
        return {
            name: array.flatten() if "group_norm/" in name else array
            for name, array in arrays.items()
        }
    owner = "Google's npz format"
    mapping.check_vit(owner, config, stem=(), pool=(), position=POSITIONS)
    is_mean = config.pool == "mean" and config.class_token
    mapping.check_holds(owner, {"pool='mean' beside a class token": is_mean})
    is_fixed = isinstance(config.position, SinCos2D)
    parts = LINEN if is_fixed or config.pool == "map" else RELEASED
    if config.class_token:
        parts = parts._replace(positions=TABLES[0])
    layers = getattr(config.stem, "layers", ())
    rows = vit_rows(config.depth, layers, parts)
    return mapping.to_theirs(rows, state_dict, config.num_heads)


# --- our names beside Google's, of all that a network may have


def vit_rows(
    depth: int, layers: tuple[int, ...], parts: PartNames
) -> Iterator[Row]:
    inner = "patch_embed.backbone"
    yield from root_rows(f"{inner}.stem" if layers else inner)
    yield from unit_rows(f"{inner}.stages", layers, "block{}/unit{}")
    yield from dense("patch_embed.proj", "embedding", kind="convolution")
    yield Row("cls_token", ("cls",), "same")
    if parts.positions:
        yield Row("pos_embed", (parts.positions,), "same")
    for i in range(depth):
        ours, theirs = f"blocks.{i}", f"{BLOCK}{i}"
        yield from norm(f"{ours}.norm1", f"{theirs}/{parts.norm1}")
        attention = f"{theirs}/{parts.attention}"
        yield from attention_rows(f"{ours}.attn", attention, ("qkv",))
        yield from norm(f"{ours}.norm2", f"{theirs}/{parts.norm2}")
        yield from mlp_rows(f"{ours}.mlp", f"{theirs}/{parts.mlp}")
    yield from norm("norm", "Transformer/encoder_norm")
    yield Row("pool.latent", ("MAPHead_0/probe",), "same")
    yield from attention_rows("pool", f"MAPHead_0/{ATTENTION}_0", ("q", "kv"))
    yield from norm("pool.norm", "MAPHead_0/LayerNorm_0")
    yield from mlp_rows("pool.mlp", "MAPHead_0/MlpBlock_0")
    yield from dense("pre_logits.fc", "pre_logits")
    yield from dense("head", "head")


def dense(
    ours: str, *theirs: str, kind: str = "dense", bias: str = "same"
) -> Iterator[Row]:
    words = ("kernel", "bias")
    return layer(ours, *theirs, joint="/", words=words, kinds=(kind, bias))


def norm(ours: str, theirs: str) -> Iterator[Row]:
    return layer(ours, theirs, joint="/", words=("scale", "bias"))


def group_norm(
    ours: str, theirs: str, words: tuple[str, str] = ("scale", "bias")
) -> Iterator[Row]:
    kinds = ("channels", "channels")
    return layer(ours, theirs, joint="/", words=words, kinds=kinds)


def mlp_rows(ours: str, theirs: str) -> Iterator[Row]:
    yield from dense(f"{ours}.fc1", f"{theirs}/Dense_0")
    yield from dense(f"{ours}.fc2", f"{theirs}/Dense_1")


def attention_rows(
    ours: str, theirs: str, joined: tuple[str, ...]
) -> Iterator[Row]:
    """An attention layer; `joined`: which of q, k, v are one matrix in ours."""
    words = {"q": "query", "k": "key", "v": "value"}
    for part in joined:
        names = (f"{theirs}/{words[x]}" for x in part)
        kinds = {"kind": "to heads", "bias": "to heads, bias"}
        yield from dense(f"{ours}.{part}", *names, **kinds)
    yield from dense(f"{ours}.proj", f"{theirs}/out", kind="of heads")


def root_rows(ours: str) -> Iterator[Row]:
    yield Row(f"{ours}.conv.weight", ("conv_root/kernel",), "convolution")
    yield from group_norm(f"{ours}.norm", "gn_root")


def unit_rows(ours: str, layers: tuple[int, ...], unit: str) -> Iterator[Row]:
    """`unit` formats the numbers of stage and unit."""
    for i, j in units_of(layers):
        mine, theirs = f"{ours}.{i}.blocks.{j}", unit.format(i + 1, j + 1)
        for k in (1, 2, 3):
            kernel = (f"{theirs}/conv{k}/kernel",)
            yield Row(f"{mine}.conv{k}.weight", kernel, "convolution")
            yield from group_norm(f"{mine}.norm{k}", f"{theirs}/gn{k}")
        shortcut, kernel = f"{mine}.downsample", (f"{theirs}/conv_proj/kernel",)
        yield Row(f"{shortcut}.conv.weight", kernel, "convolution")
        yield from group_norm(f"{shortcut}.norm", f"{theirs}/gn_proj")


def units_of(layers: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(i, j) for i, depth in enumerate(layers) for j in range(depth)]


def resnet_rows(
    layers: tuple[int, ...], *, is_v2: bool, is_legacy: bool
) -> Iterator[Row]:
    if is_legacy:
        yield from legacy_rows(layers)
        return
    if is_v2:
        yield Row("stem.conv.weight", (BIT_ROOT,), "convolution")
    else:
        yield from root_rows("stem")
    unit = "block{}/unit{:02}" if is_v2 else "block{}/unit{}"
    yield from unit_rows("stages", layers, unit)
    yield from group_norm("norm", "norm-pre-head")
    yield from dense("head.fc", "head", kind="dense as convolution")


def legacy_rows(layers: tuple[int, ...]) -> Iterator[Row]:
    conv, words = "standardized_conv2d/kernel", ("gamma", "beta")
    yield Row("stem.conv.weight", (LEGACY_ROOT,), "convolution")
    for i, j in units_of(layers):
        ours = f"stages.{i}.blocks.{j}"
        theirs = f"resnet/block{i + 1}/unit{j + 1:02}"
        for k, letter in enumerate("abc", start=1):
            kernel = (f"{theirs}/{letter}/{conv}",)
            yield Row(f"{ours}.conv{k}.weight", kernel, "convolution")
            group = f"{theirs}/{letter}/group_norm"
            yield from group_norm(f"{ours}.norm{k}", group, words)
        kernel = (f"{theirs}/a/proj/{conv}",)
        yield Row(f"{ours}.downsample.conv.weight", kernel, "convolution")
    yield from group_norm("norm", "resnet/group_norm", words)
    yield from dense("head.fc", "resnet/head/conv2d", kind="convolution")
