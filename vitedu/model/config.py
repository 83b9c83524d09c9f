"""What a network is before it has weights: ViTConfig, and the sizes of Table 1.

`vit_config("ViT-B/16", image_size=384)` is Table 1 with an override.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from vitedu.errors import UserError, did_you_mean
from vitedu.model.checks import check_config, check_fields, pair
from vitedu.model.encoder import Standard
from vitedu.model.hybrid import Hybrid
from vitedu.model.patches import Patches
from vitedu.model.position import Learned1D
from vitedu.model.seams import (
    Block,
    Position,
    Stem,
    seams_from_json,
    seams_to_json,
)

# Paper, Table 1; Ti and S from "How to train your ViT?" (Steiner et al. 2022).
# name: embed_dim D, depth L, num_heads k, mlp_dim
SIZES = {
    "Ti": (192, 12, 3, 768),
    "S": (384, 12, 6, 1536),
    "B": (768, 12, 12, 3072),
    "L": (1024, 24, 16, 4096),
    "H": (1280, 32, 16, 5120),
}
PATCH_SIZES = (8, 14, 16, 32)
NAMES = tuple(f"ViT-{size}/{patch}" for size in SIZES for patch in PATCH_SIZES)

# Paper, Tables 3 and 6; R26 and R+Ti from "How to train your ViT?". The number behind
# the slash is the stride in pixels of the image, but for R+ViT-Ti/16: its root divides
# by 4 where the name counts 2, so its true stride is 32.
# name: size, units of the ResNet's stages, patch size on its feature map
HYBRIDS = {
    "R50+ViT-B/16": ("B", (3, 4, 9), 1),
    "R50+ViT-B/32": ("B", (3, 4, 6, 3), 1),
    "R50+ViT-L/16": ("L", (3, 4, 9), 1),
    "R50+ViT-L/32": ("L", (3, 4, 6, 3), 1),
    "R26+ViT-S/32": ("S", (2, 2, 2, 2), 1),
    "R26+ViT-B/32": ("B", (2, 2, 2, 2), 1),
    "R+ViT-Ti/16": ("Ti", (), 8),
}


@dataclass(frozen=True)
class ViTConfig:
    """Everything needed to build the network before its weights are loaded.

    Sizes are (height, width) in pixels; one int is taken for both. The defaults are
    ViT-B/16 at 224 pixels with 1,000 classes.
    UserError: sizes that do not fit each other, or are not positive.
    """

    image_size: tuple[int, int] = (224, 224)  # H, W
    patch_size: tuple[int, int] = (16, 16)  # P
    in_channels: int = 3  # C
    num_classes: int = 1000  # 0: no head, the model returns features
    embed_dim: int = 768  # D
    depth: int = 12  # L
    num_heads: int = 12  # k
    mlp_dim: int = 3072
    stem: Stem = field(default_factory=Patches)
    position: Position = field(default_factory=Learned1D)
    block: Block = field(default_factory=Standard)
    pool: str = "token"  # or "mean" of the patches, "map", "none"
    class_token: bool = True
    pre_logits: int | None = None  # width of the tanh layer before the head
    gelu: str = "exact"  # the authors' code: "tanh"
    norm_eps: float = 1e-6  # the authors' code; PyTorch's default is 1e-5
    dropout: float = 0.0
    drop_path: float = 0.0  # of the last block; rises linearly from 0

    def __post_init__(self) -> None:
        for name in ("image_size", "patch_size"):
            size = pair(name, getattr(self, name))
            object.__setattr__(self, name, size)  # the way past `frozen`
        check_config(self)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.stem.grid(self)

    @property
    def num_patches(self) -> int:
        """N of the paper."""
        return self.grid[0] * self.grid[1]

    @property
    def num_tokens(self) -> int:
        """N + 1 with a class token, else N."""
        return self.num_patches + self.class_token

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; the inverse of `from_json`."""
        return seams_to_json(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "ViTConfig":
        """What `to_json` wrote. UserError: a field is unknown."""
        check_fields("ViTConfig", values, (each.name for each in fields(cls)))
        return cls(**seams_from_json(values))


def vit_config(name: str, **overrides: Any) -> ViTConfig:
    """The configuration of a name, "ViT-B/16" or a hybrid's, with fields overridden.

    Names of Table 1, and "R50+ViT-B/16" and the like, whose patch size counts pixels of
    the ResNet's feature map. The true stride of "R+ViT-Ti/16" is 32 pixels.
    UserError: the name or a field is unknown.
    """
    if name not in NAMES and name not in HYBRIDS:
        known = (*NAMES, *HYBRIDS)
        raise UserError(
            f"there is no model {name!r}; " + did_you_mean(name, known)
        )
    check_fields(
        "ViTConfig", overrides, (each.name for each in fields(ViTConfig))
    )
    if name in HYBRIDS:
        size, layers, patch = HYBRIDS[name]
        stem = Hybrid(layers)
    else:
        size, patch = name.removeprefix("ViT-").split("/")
        stem = Patches()
    embed_dim, depth, num_heads, mlp_dim = SIZES[size]
    table = {
        "patch_size": (int(patch), int(patch)),
        "embed_dim": embed_dim,
        "depth": depth,
        "num_heads": num_heads,
        "mlp_dim": mlp_dim,
        "stem": stem,
    }
    return ViTConfig(**(table | overrides))
