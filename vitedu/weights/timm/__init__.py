"""timm's dialect: its plain ViT and BiT, and Eva, which has RoPE."""

from vitedu.weights.timm.plain import (
    MARKS,
    POSITIONS,
    SUFFIXES,
    beside,
    from_vitedu,
    to_vitedu,
)

__all__ = [
    "MARKS",
    "POSITIONS",
    "SUFFIXES",
    "beside",
    "from_vitedu",
    "to_vitedu",
]
