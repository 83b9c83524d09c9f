"""The network, and every variant of its parts."""

from vitedu.model.attention import (
    MultiHeadAttention,
    attention,
    record_attention,
)
from vitedu.model.axial import Axial, AxialBlock, AxisAttention
from vitedu.model.bottleneck import Bottleneck, PreActBottleneck
from vitedu.model.classifier import Classifier, LoadReport
from vitedu.model.config import HYBRIDS, NAMES, ViTConfig, vit_config
from vitedu.model.convolution import (
    BiTConv2d,
    SamePool,
    StdConv2d,
    pad_same,
    same_padding,
    standardise,
    standardise_bit,
)
from vitedu.model.encoder import MLP, DropPath, Encoder, EncoderBlock, Standard
from vitedu.model.hybrid import Hybrid, HybridEmbedding
from vitedu.model.initialise import initialise, lecun_normal
from vitedu.model.network import network_config, new_network
from vitedu.model.patches import PatchEmbedding, Patches, patchify, unpatchify
from vitedu.model.pool import AttentionPool, KeyValue, Pool, build_pool
from vitedu.model.position import (
    Learned1D,
    Learned2D,
    NoPosition,
    SinCos2D,
    sincos_table,
)
from vitedu.model.relative import Relative, RoPE
from vitedu.model.resize import resize_pos_embed, resize_positions
from vitedu.model.resnet import (
    RESNETS,
    ResNet,
    ResNetConfig,
    resnet,
    resnet_config,
)
from vitedu.model.vit import ViT

__all__ = [
    "HYBRIDS",
    "MLP",
    "NAMES",
    "RESNETS",
    "AttentionPool",
    "Axial",
    "AxialBlock",
    "AxisAttention",
    "BiTConv2d",
    "Bottleneck",
    "Classifier",
    "DropPath",
    "Encoder",
    "EncoderBlock",
    "Hybrid",
    "HybridEmbedding",
    "KeyValue",
    "Learned1D",
    "Learned2D",
    "LoadReport",
    "MultiHeadAttention",
    "NoPosition",
    "PatchEmbedding",
    "Patches",
    "Pool",
    "PreActBottleneck",
    "Relative",
    "ResNet",
    "ResNetConfig",
    "RoPE",
    "SamePool",
    "SinCos2D",
    "Standard",
    "StdConv2d",
    "ViT",
    "ViTConfig",
    "attention",
    "build_pool",
    "initialise",
    "lecun_normal",
    "network_config",
    "new_network",
    "pad_same",
    "patchify",
    "record_attention",
    "resize_pos_embed",
    "resize_positions",
    "resnet",
    "resnet_config",
    "same_padding",
    "sincos_table",
    "standardise",
    "standardise_bit",
    "unpatchify",
    "vit_config",
]
