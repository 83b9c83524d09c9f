"""The network. Imports torch and einops, and nothing of vitedu but `errors`."""

from vitedu.model.attention import (
    MultiHeadAttention,
    attention,
    record_attention,
)
from vitedu.model.axial import Axial, AxialBlock, AxisAttention
from vitedu.model.config import NAMES, ViTConfig, vit_config
from vitedu.model.encoder import MLP, DropPath, Encoder, EncoderBlock, Standard
from vitedu.model.initialise import initialise, lecun_normal
from vitedu.model.patches import PatchEmbedding, Patches, patchify, unpatchify
from vitedu.model.pool import AttentionPool, KeyValue, Pool, build_pool
from vitedu.model.position import (
    Learned1D,
    Learned2D,
    NoPosition,
    Relative,
    SinCos2D,
    sincos_table,
)
from vitedu.model.resize import resize_pos_embed, resize_positions
from vitedu.model.vit import ViT, vit

__all__ = [
    "MLP",
    "NAMES",
    "AttentionPool",
    "Axial",
    "AxialBlock",
    "AxisAttention",
    "DropPath",
    "Encoder",
    "EncoderBlock",
    "KeyValue",
    "Learned1D",
    "Learned2D",
    "MultiHeadAttention",
    "NoPosition",
    "PatchEmbedding",
    "Patches",
    "Pool",
    "Relative",
    "SinCos2D",
    "Standard",
    "ViT",
    "ViTConfig",
    "attention",
    "build_pool",
    "initialise",
    "lecun_normal",
    "patchify",
    "record_attention",
    "resize_pos_embed",
    "resize_positions",
    "sincos_table",
    "unpatchify",
    "vit",
    "vit_config",
]
