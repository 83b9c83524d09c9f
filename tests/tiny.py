"""The small network that tests build, and its variants.

`vit(tiny(depth=4, position=RoPE()))`: odd token counts, a grid that is no
square, and every layer kind once.
"""

from dataclasses import replace

from vitedu.model import ViTConfig

TINY = ViTConfig(
    image_size=(8, 12),
    patch_size=4,
    num_classes=5,
    embed_dim=32,
    depth=2,
    num_heads=4,
    mlp_dim=48,
)


def tiny(**fields):
    """`TINY` with other values for these fields."""
    return replace(TINY, **fields)
