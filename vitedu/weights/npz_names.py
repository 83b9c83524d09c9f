"""Google's names for weights beside ours, as rows of `vitedu.weights.renaming`.

`vit_names(config, RELEASED)` yields those of a ViT in a released file.
"""

from collections.abc import Iterator
from typing import NamedTuple

from vitedu.model import ResNetConfig, ViTConfig
from vitedu.weights.renaming import Row


class PartNames(NamedTuple):
    """What parts of an encoder block are called, and the position table."""

    norm1: str
    attention: str
    norm2: str
    mlp: str
    positions: str | None


# The released files of vit_jax number the parts of a block through, today's
# flax each class by itself. big_vision's table of positions has no row for a
# class token.
POSITIONS = ("Transformer/posembed_input/pos_embedding", "pos_embedding")
ATTENTION = "MultiHeadDotProductAttention"
RELEASED = PartNames(
    "LayerNorm_0", f"{ATTENTION}_1", "LayerNorm_2", "MlpBlock_3", POSITIONS[0]
)
LINEN = PartNames(
    "LayerNorm_0", f"{ATTENTION}_0", "LayerNorm_1", "MlpBlock_0", POSITIONS[1]
)


def vit_names(
    config: ViTConfig, parts: PartNames, *, has_positions: bool
) -> Iterator[Row]:
    """The rows of a ViT, with big_vision's attention pooling and hybrids."""
    if hasattr(config.stem, "layers"):
        inner = "patch_embed.backbone"
        root = f"{inner}.stem" if config.stem.layers else inner
        yield from root_names(root)
        yield from unit_names(f"{inner}.stages", config.stem.layers, "unit{}")
    yield Row("patch_embed.proj.weight", ("embedding/kernel",), "convolution")
    yield Row("patch_embed.proj.bias", ("embedding/bias",), "same")
    if config.class_token:
        yield Row("cls_token", ("cls",), "same")
    if has_positions:
        yield Row("pos_embed", (parts.positions,), "same")
    for i in range(config.depth):
        ours, theirs = f"blocks.{i}", f"Transformer/encoderblock_{i}"
        yield from norm_names(f"{ours}.norm1", f"{theirs}/{parts.norm1}")
        attention = f"{theirs}/{parts.attention}"
        yield from attention_names(f"{ours}.attn", attention, ("qkv",))
        yield from norm_names(f"{ours}.norm2", f"{theirs}/{parts.norm2}")
        yield from mlp_names(f"{ours}.mlp", f"{theirs}/{parts.mlp}")
    yield from norm_names("norm", "Transformer/encoder_norm")
    if config.pool == "map":
        theirs = "MAPHead_0"
        yield Row("pool.latent", (f"{theirs}/probe",), "same")
        attention = f"{theirs}/{LINEN.attention}"
        yield from attention_names("pool", attention, ("q", "kv"))
        yield from norm_names("pool.norm", f"{theirs}/LayerNorm_0")
        yield from mlp_names("pool.mlp", f"{theirs}/MlpBlock_0")
    if config.pre_logits:
        yield from dense_names("pre_logits.fc", "pre_logits")
    if config.num_classes:
        yield from dense_names("head", "head")


def norm_names(ours: str, theirs: str) -> Iterator[Row]:
    """Scale and bias of a LayerNorm."""
    yield Row(f"{ours}.weight", (f"{theirs}/scale",), "same")
    yield Row(f"{ours}.bias", (f"{theirs}/bias",), "same")


def dense_names(ours: str, theirs: str) -> Iterator[Row]:
    """Kernel and bias of a dense layer."""
    yield Row(f"{ours}.weight", (f"{theirs}/kernel",), "dense")
    yield Row(f"{ours}.bias", (f"{theirs}/bias",), "same")


def mlp_names(ours: str, theirs: str) -> Iterator[Row]:
    """The two layers of an MLP."""
    yield from dense_names(f"{ours}.fc1", f"{theirs}/Dense_0")
    yield from dense_names(f"{ours}.fc2", f"{theirs}/Dense_1")


def attention_names(
    ours: str, theirs: str, joined: tuple[str, ...]
) -> Iterator[Row]:
    """An attention layer; `joined`: which of q, k, v are one matrix in ours."""
    words = {"q": "query", "k": "key", "v": "value"}
    for part in joined:
        for ending, word, kind in (
            ("weight", "kernel", "to heads"),
            ("bias", "bias", "to heads, bias"),
        ):
            names = tuple(f"{theirs}/{words[x]}/{word}" for x in part)
            yield Row(f"{ours}.{part}.{ending}", names, kind)
    yield Row(f"{ours}.proj.weight", (f"{theirs}/out/kernel",), "of heads")
    yield Row(f"{ours}.proj.bias", (f"{theirs}/out/bias",), "same")


def group_norm_names(
    ours: str, theirs: str, words: tuple[str, str] = ("scale", "bias")
) -> Iterator[Row]:
    """Scale and bias of a GroupNorm."""
    for ending, word in zip(("weight", "bias"), words, strict=True):
        yield Row(f"{ours}.{ending}", (f"{theirs}/{word}",), "channels")


def root_names(ours: str) -> Iterator[Row]:
    """The root of a post-activation ResNet."""
    yield Row(f"{ours}.conv.weight", ("conv_root/kernel",), "convolution")
    yield from group_norm_names(f"{ours}.norm", "gn_root")


def unit_names(
    ours: str, layers: tuple[int, ...], unit: str, has_norm: bool = True
) -> Iterator[Row]:
    """The units of all stages; `unit` formats their number.

    Where a unit begins a stage, its shortcut has a convolution and, if
    `has_norm`, a norm.
    """
    for i, depth in enumerate(layers):
        for j in range(depth):
            mine = f"{ours}.{i}.blocks.{j}"
            theirs = f"block{i + 1}/{unit.format(j + 1)}"
            for k in (1, 2, 3):
                kernel = (f"{theirs}/conv{k}/kernel",)
                yield Row(f"{mine}.conv{k}.weight", kernel, "convolution")
                yield from group_norm_names(
                    f"{mine}.norm{k}", f"{theirs}/gn{k}"
                )
            if j == 0:
                kernel, name = (f"{theirs}/conv_proj/kernel",), "downsample"
                yield Row(f"{mine}.{name}.conv.weight", kernel, "convolution")
            if j == 0 and has_norm:
                norm = f"{mine}.downsample.norm"
                yield from group_norm_names(norm, f"{theirs}/gn_proj")


def resnet_names(config: ResNetConfig) -> Iterator[Row]:
    """The rows of a ResNet under big_vision's flat names."""
    if config.family == "bit-v1":
        yield from root_names("stem")
        yield from unit_names("stages", config.layers, "unit{}")
    else:
        kernel = ("root_block/conv_root/kernel",)
        yield Row("stem.conv.weight", kernel, "convolution")
        layers, unit = config.layers, "unit{:02}"
        yield from unit_names("stages", layers, unit, has_norm=False)
        yield from group_norm_names("norm", "norm-pre-head")
    if config.num_classes:
        yield Row("head.fc.weight", ("head/kernel",), "dense as convolution")
        yield Row("head.fc.bias", ("head/bias",), "same")


def legacy_names(config: ResNetConfig) -> Iterator[Row]:
    """The rows of a BiT under the names of its release, by TensorFlow."""
    conv, norm = "standardized_conv2d/kernel", ("gamma", "beta")
    kernel = (f"resnet/root_block/{conv}",)
    yield Row("stem.conv.weight", kernel, "convolution")
    for i, depth in enumerate(config.layers):
        for j in range(depth):
            ours = f"stages.{i}.blocks.{j}"
            theirs = f"resnet/block{i + 1}/unit{j + 1:02}"
            for k, letter in enumerate("abc", start=1):
                kernel, name = (f"{theirs}/{letter}/{conv}",), f"conv{k}"
                yield Row(f"{ours}.{name}.weight", kernel, "convolution")
                group_norm = f"{theirs}/{letter}/group_norm"
                yield from group_norm_names(f"{ours}.norm{k}", group_norm, norm)
            if j == 0:
                kernel, name = (f"{theirs}/a/proj/{conv}",), "downsample"
                yield Row(f"{ours}.{name}.conv.weight", kernel, "convolution")
    yield from group_norm_names("norm", "resnet/group_norm", norm)
    if config.num_classes:
        head = "resnet/head/conv2d"
        yield Row("head.fc.weight", (f"{head}/kernel",), "convolution")
        yield Row("head.fc.bias", (f"{head}/bias",), "same")
