"""Google's dialect: the .npz files of vit_jax, big_vision and BiT.

Sources: vit_jax's models_vit.py and checkpoint.py, big_vision's vit.py, bit.py
and bit_paper.py; paper, section 3.1.

`load("FILE.npz", image_size=(224, 320))`
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from vitedu.model import (
    Learned1D,
    Patches,
    ResNetConfig,
    SinCos2D,
    ViTConfig,
)
from vitedu.pictures import PreprocessSpec
from vitedu.weights import mapping
from vitedu.weights.checkpoint import Checkpoint, Metadata, NetworkConfig
from vitedu.weights.mapping import Mapped, Row, layer


class BlockNames(NamedTuple):
    norm1: str
    attention: str
    norm2: str
    mlp: str
    positions: str | None


class ResNetNames(NamedTuple):
    root: str = "conv_root/kernel"
    unit: str = "block{}/unit{}"
    convolutions: tuple[str, ...] = tuple(f"conv{k}/kernel" for k in (1, 2, 3))
    norms: tuple[str, ...] = ("gn1", "gn2", "gn3")
    shortcut: str = "conv_proj/kernel"
    words: tuple[str, str] = ("scale", "bias")
    last_norm: str = "norm-pre-head"
    head: str = "head"


# The released files of vit_jax number the parts of a block through, today's
# flax each class by itself. big_vision's table of positions has no row for a
# class token.
TABLES = ("Transformer/posembed_input/pos_embedding", "pos_embedding")
ATTENTION = "MultiHeadDotProductAttention"
RELEASED = BlockNames(
    "LayerNorm_0", f"{ATTENTION}_1", "LayerNorm_2", "MlpBlock_3", TABLES[0]
)
LINEN = BlockNames(
    "LayerNorm_0", f"{ATTENTION}_0", "LayerNorm_1", "MlpBlock_0", TABLES[1]
)
# BiT in big_vision, and its release
STANDARDISED = "standardized_conv2d/kernel"
BIT_V1 = ResNetNames()
BIT = ResNetNames("root_block/conv_root/kernel", "block{}/unit{:02}")
LEGACY = ResNetNames(
    f"resnet/root_block/{STANDARDISED}",
    "resnet/block{}/unit{:02}",
    tuple(f"{letter}/{STANDARDISED}" for letter in "abc"),
    tuple(f"{letter}/group_norm" for letter in "abc"),
    f"a/proj/{STANDARDISED}",
    ("gamma", "beta"),
    "resnet/group_norm",
    "resnet/head/conv2d",
)
UNIT = r"block(\d+)/unit(\d+)/"
BLOCK, STACK = "Transformer/encoderblock_", "Transformer/encoderblock/"
PREFIXES = ("opt/target/", "params/img/", "params/", "")
# the first layers of a ViT, and of a ResNet under three names
FIRST = ("embedding/kernel", BIT_V1.root, BIT.root, LEGACY.root)
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
    prefix = next(
        x for x in PREFIXES if any(x + name in arrays for name in FIRST)
    )
    dropped = tuple(
        name
        for name in arrays
        if TRAINING.match(name) and not (prefix and name.startswith(prefix))
    )
    kept = {k: v for k, v in arrays.items() if k not in dropped}
    kept = unstacked(kept, prefix)
    is_vit = f"{prefix}embedding/kernel" in kept
    mapped, config = (vit_in if is_vit else resnet_in)(kept, prefix, metadata)
    mapping.check_complete(mapped, config)
    state = mapped.state
    return Checkpoint(
        config,
        mapping.with_prefix_rows(state, config) if is_vit else state,
        preprocess(config),
        dropped=dropped,
        notes=mapping.note_on_dropped(dropped, "the state of a training"),
    )


def unstacked(arrays: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Scanned blocks (all depths in one array), split into one each."""
    blocks = {}
    for name, array in arrays.items():
        if name.startswith(prefix + STACK):
            rest = name.removeprefix(prefix + STACK)
            parts = {
                f"{prefix}{BLOCK}{i}/{rest}": x for i, x in enumerate(array)
            }
            blocks |= parts
        else:
            blocks[name] = array
    return blocks


def vit_in(
    arrays: dict[str, Tensor], prefix: str, metadata: Metadata
) -> tuple[Mapped, ViTConfig]:
    is_released = any(f"/{RELEASED.attention}/" in name for name in arrays)
    table = next((name for name in TABLES if prefix + name in arrays), None)
    names = (RELEASED if is_released else LINEN)._replace(positions=table)
    query = f"{prefix}{BLOCK}0/{names.attention}/query/kernel"
    if query not in arrays:
        raise mapping.lacking(query)
    num_heads = metadata.num_heads or arrays[query].shape[1]
    depth = mapping.depth_in(arrays, re.escape(prefix + BLOCK))
    rows = vit_rows(depth, mapping.layers_in(arrays, UNIT), names)
    mapped = mapping.to_ours(rows, arrays, num_heads, prefix)
    sizes = mapping.sizes_in(
        mapped,
        metadata,
        {"num_heads": num_heads},
        has_prefix_rows=table == TABLES[0],
    )
    position = Learned1D() if table else metadata.position or SinCos2D()
    return mapped, ViTConfig(**sizes, position=position, **FIXED)


def resnet_in(
    arrays: dict[str, Tensor], prefix: str, metadata: Metadata
) -> tuple[Mapped, ResNetConfig]:
    names = next(x for x in (LEGACY, BIT, BIT_V1) if prefix + x.root in arrays)
    rows = resnet_rows(mapping.layers_in(arrays, UNIT), names)
    padding = metadata.pool_padding
    if names is not BIT_V1 and padding is None:
        padding = "zeros" if names is LEGACY else "-inf"
    family = "bit-v1" if names is BIT_V1 else "bit-v2"
    mapped = mapping.to_ours(rows, arrays, prefix=prefix)
    size = metadata.image_size
    return mapped, mapping.resnet_config_in(mapped, family, padding, size)


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
    """The arrays under released names, big_vision's if only that has them."""
    config, state_dict = checkpoint.config, checkpoint.state_dict
    if isinstance(config, ResNetConfig):
        names = LEGACY if config.pool_padding == "zeros" else BIT
        names = BIT_V1 if config.family == "bit-v1" else names
        return mapping.to_theirs(resnet_rows(config.layers, names), state_dict)
    owner = "Google's npz format"
    mapping.check_vit(owner, config, stem=(), pool=(), position=POSITIONS)
    is_mean = config.pool == "mean" and config.class_token
    excess = {
        "pool='mean' beside a class token": is_mean,
        "pool='mean_norm'": config.pool == "mean_norm",
        f"stem={config.stem}": config.stem != Patches()
        and not config.has_resnet,
    }
    mapping.check_holds(owner, excess)
    is_fixed = isinstance(config.position, SinCos2D)
    parts = LINEN if is_fixed or config.pool == "map" else RELEASED
    if config.class_token:
        parts = parts._replace(positions=TABLES[0])
    layers = getattr(config.stem, "layers", ())
    rows = vit_rows(config.depth, layers, parts)
    return mapping.to_theirs(rows, state_dict, config.num_heads)


# --- our names beside Google's, of all that a network may have


def vit_rows(
    depth: int, layers: tuple[int, ...], names: BlockNames
) -> Iterator[Row]:
    inner = "patch_embed.backbone"
    yield from root_rows(f"{inner}.stem" if layers else inner)
    yield from unit_rows(f"{inner}.stages", layers, BIT_V1)
    yield from dense("patch_embed.proj", "embedding", kind="convolution")
    yield Row("cls_token", ("cls",), "same")
    if names.positions:
        yield Row("pos_embed", (names.positions,), "same")
    for i in range(depth):
        ours, theirs = f"blocks.{i}", f"{BLOCK}{i}"
        yield from norm(f"{ours}.norm1", f"{theirs}/{names.norm1}")
        attention = f"{theirs}/{names.attention}"
        yield from attention_rows(f"{ours}.attn", attention, ("qkv",))
        yield from norm(f"{ours}.norm2", f"{theirs}/{names.norm2}")
        yield from mlp_rows(f"{ours}.mlp", f"{theirs}/{names.mlp}")
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
    # the release has its vectors flat
    kind = "channels" if words[0] == "scale" else "same"
    return layer(ours, theirs, joint="/", words=words, kinds=(kind, kind))


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


def unit_rows(
    ours: str, layers: tuple[int, ...], names: ResNetNames
) -> Iterator[Row]:
    for i, j in [(i, j) for i, n in enumerate(layers) for j in range(n)]:
        mine, theirs = f"{ours}.{i}.blocks.{j}", names.unit.format(i + 1, j + 1)
        parts = zip(names.convolutions, names.norms, strict=True)
        for k, (kernel, group) in enumerate(parts, start=1):
            kernels = (f"{theirs}/{kernel}",)
            yield Row(f"{mine}.conv{k}.weight", kernels, "convolution")
            group = f"{theirs}/{group}"
            yield from group_norm(f"{mine}.norm{k}", group, names.words)
        shortcut, kernel = f"{mine}.downsample", f"{theirs}/{names.shortcut}"
        yield Row(f"{shortcut}.conv.weight", (kernel,), "convolution")
        yield from group_norm(f"{shortcut}.norm", f"{theirs}/gn_proj")


def resnet_rows(layers: tuple[int, ...], names: ResNetNames) -> Iterator[Row]:
    if names is BIT_V1:
        yield from root_rows("stem")
    else:
        yield Row("stem.conv.weight", (names.root,), "convolution")
    yield from unit_rows("stages", layers, names)
    yield from group_norm("norm", names.last_norm, names.words)
    kind = "convolution" if names is LEGACY else "dense as convolution"
    yield from dense("head.fc", names.head, kind=kind)
