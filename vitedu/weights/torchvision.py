"""torchvision's dialect: the state_dict of its VisionTransformer.

It has arrays only: GELU is exact, epsilon 1e-6, and heads and preprocessing
follow from the file's name.

`load("vit_b_16-c867db91.pth")`
"""

import re
from collections.abc import Iterator

from torch import Tensor

from vitedu.model import Learned1D, ViTConfig
from vitedu.pictures import IMAGENET, PreprocessSpec
from vitedu.weights import mapping
from vitedu.weights.checkpoint import Checkpoint, Metadata
from vitedu.weights.mapping import Row, layer

LAYER = "encoder.layers.encoder_layer_"
# torchvision up to 0.12, and with it the files that it fetches, had the first
MLPS = (("linear_1", "linear_2"), ("0", "3"))
# Short side after resizing, and interpolation, of the weights that it fetches.
# Where the name says nothing, the first of the same size of image and patch is
# taken.
PREPROCESS = {
    "vit_b_16-c867db91": (224, 256, "bilinear"),
    "vit_b_16_swag-9ac1b537": (384, 384, "bicubic"),
    "vit_b_16_lc_swag-4e70ced5": (224, 224, "bicubic"),
    "vit_b_32-d86f8d99": (224, 256, "bilinear"),
    "vit_l_16-852ce7e3": (224, 242, "bilinear"),
    "vit_l_16_swag-4f3808c9": (512, 512, "bicubic"),
    "vit_l_16_lc_swag-4d563306": (224, 224, "bicubic"),
    "vit_l_32-c7638314": (224, 256, "bilinear"),
    "vit_h_14_swag-80465313": (518, 518, "bicubic"),
    "vit_h_14_lc_swag-c1eb923e": (224, 224, "bicubic"),
}
NAMES = re.compile(r"vit_(b|l|h)_\d\d(?![a-z0-9])")  # all have Table 1's heads
MARKS = ({"conv_proj.weight", f"{LAYER}0.self_attention.in_proj_weight"},)
SUFFIXES = (".pth", ".safetensors")
POSITIONS = (Learned1D(),)


def to_vitedu(arrays: dict[str, Tensor], metadata: Metadata) -> Checkpoint:
    is_old = f"{LAYER}0.mlp.linear_1.weight" in arrays
    depth = mapping.depth_in(arrays, re.escape(LAYER))
    mapped = mapping.to_ours(rows_in(depth, MLPS[0 if is_old else 1]), arrays)
    config = ViTConfig(**mapping.sizes_in(mapped, metadata, {}))
    mapping.check_complete(mapped, config)
    doubts = mapping.doubt_on_heads(config, {}, metadata)
    return Checkpoint(
        config,
        mapped.state,
        preprocess(config, metadata.name),
        resize_mode="torchvision",
        doubts=() if NAMES.match(metadata.name) else doubts,
    )


def rows_in(depth: int, mlp: tuple[str, str]) -> Iterator[Row]:
    yield Row("cls_token", ("class_token",), "same")
    yield Row("pos_embed", ("encoder.pos_embedding",), "same")
    yield from layer("patch_embed.proj", "conv_proj")
    for i in range(depth):
        ours, theirs = f"blocks.{i}", f"{LAYER}{i}"
        yield from layer(f"{ours}.norm1", f"{theirs}.ln_1")
        attention = f"{theirs}.self_attention"
        yield from layer(f"{ours}.attn.qkv", f"{attention}.in_proj", joint="_")
        yield from layer(f"{ours}.attn.proj", f"{attention}.out_proj")
        yield from layer(f"{ours}.norm2", f"{theirs}.ln_2")
        yield from layer(f"{ours}.mlp.fc1", f"{theirs}.mlp.{mlp[0]}")
        yield from layer(f"{ours}.mlp.fc2", f"{theirs}.mlp.{mlp[1]}")
    yield from layer("norm", "encoder.ln")
    yield from layer("pre_logits.fc", "heads.pre_logits")
    yield from layer("head", "heads.head")


def from_vitedu(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The arrays under torchvision's current names."""
    owner = "torchvision's ViT"
    config = mapping.check_vit(owner, checkpoint.config)
    (height, width), (p, q) = config.image_size, config.patch_size
    mapping.check_holds(
        owner,
        {
            f"images of {height}x{width} in patches of {p}x{q}, only for "
            "squares": (height != width or p != q),
            f"in_channels={config.in_channels}, only for 3": (
                config.in_channels != 3
            ),
            "a network without a head": not config.num_classes,
        },
    )
    return mapping.to_theirs(
        rows_in(config.depth, MLPS[1]), checkpoint.state_dict
    )


def preprocess(config: ViTConfig, name: str) -> PreprocessSpec:
    """torchvision's evaluation of these weights, by the name of their file.

    For other names, the first in `PREPROCESS` with the same image and patch
    size and depth; without any, the short side is 8/7 of the crop.
    """
    size = config.image_size[0]
    kind = {24: "l", 32: "h"}.get(config.depth, "b")
    start = f"vit_{kind}_{config.patch_size[0]}"
    likely = (size, size * 8 // 7, "bilinear")
    for known, entry in reversed(PREPROCESS.items()):
        if entry[0] == size and re.match(rf"{start}[_-]", known):
            likely = entry
    size, resized, interpolation = PREPROCESS.get(name, likely)
    mean, std = IMAGENET if config.in_channels == 3 else (0.5, 0.5)
    crop = mapping.crop_share(size, resized)
    return PreprocessSpec(
        size, config.in_channels, mean, std, interpolation, crop
    )
