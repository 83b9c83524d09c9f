"""The network. Imports torch and einops, and nothing of vitedu but `errors`."""

from vitedu.model.attention import (
    MultiHeadAttention,
    attention,
    record_attention,
)
from vitedu.model.config import NAMES, ViTConfig, vit_config
from vitedu.model.encoder import MLP, DropPath, Encoder, EncoderBlock, Standard
from vitedu.model.initialise import initialise, lecun_normal
from vitedu.model.patches import PatchEmbedding, Patches, patchify, unpatchify
from vitedu.model.position import Learned1D
from vitedu.model.vit import ViT, vit

__all__ = [
    "MLP",
    "NAMES",
    "DropPath",
    "Encoder",
    "EncoderBlock",
    "Learned1D",
    "MultiHeadAttention",
    "PatchEmbedding",
    "Patches",
    "Standard",
    "ViT",
    "ViTConfig",
    "attention",
    "initialise",
    "lecun_normal",
    "patchify",
    "record_attention",
    "unpatchify",
    "vit",
    "vit_config",
]
