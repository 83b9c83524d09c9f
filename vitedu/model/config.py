"""What a network is before it has weights: ViTConfig, and the sizes of Table 1.

`vit_config("ViT-B/16", image_size=384)` is Table 1 with an override.
"""

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from vitedu.errors import UserError, did_you_mean
from vitedu.model.checks import (
    Gelu,
    Pooling,
    check_config,
    check_fields,
    pair,
)
from vitedu.model.encoder import Standard
from vitedu.model.hybrid import Hybrid
from vitedu.model.patches import Patches
from vitedu.model.position import Learned1D
from vitedu.model.seams import (
    SEAMS,
    Block,
    Position,
    Stem,
    seam_from_json,
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


class ViTFields(TypedDict, total=False):
    """The fields of a ViTConfig as the arguments of a call, for type checkers."""

    image_size: int | tuple[int, int]
    patch_size: int | tuple[int, int]
    in_channels: int
    num_classes: int
    embed_dim: int
    depth: int
    num_heads: int
    mlp_dim: int
    stem: Stem
    position: Position
    block: Block
    pool: Pooling
    class_token: bool
    pre_logits: int | None
    gelu: Gelu
    norm_eps: float
    dropout: float
    drop_path: float


@dataclass(frozen=True)
class ViTConfig:
    """Everything needed to build the network before its weights are loaded.

    The defaults are ViT-B/16 at 224 pixels with 1,000 classes. The names of Table 1
    set patch_size, embed_dim, depth, num_heads and mlp_dim.

    Attributes:
        image_size: height and width in pixels (H, W); one number means a square
        patch_size: height and width of a patch in pixels (P); one number means a
            square. For a hybrid, pixels of the ResNet's feature map
        in_channels: 3 for RGB, 1 for grey (C)
        num_classes: outputs of the head; 0 means no head, and the model returns
            features
        embed_dim: width of every token (D)
        depth: number of encoder blocks (L)
        num_heads: attention heads in a block (k); embed_dim is a multiple of it
        mlp_dim: width of the hidden layer in a block's MLP
        stem: how an image becomes tokens: Patches() or Hybrid(), a ResNet
        position: how tokens know their place: Learned1D(), Learned2D(), Relative(),
            SinCos2D() or NoPosition()
        block: what a layer of the encoder is: Standard() or Axial()
        pool: how all tokens become one row: "token" takes the class token, "mean" the
            mean of the patches, "map" attention pooling, "none" keeps every token
        class_token: whether a learned class token stands before the patches
        pre_logits: width of a tanh layer before the head; None means no such layer
        gelu: "exact" (PyTorch's and timm's) or "tanh" (the authors' approximation)
        norm_eps: epsilon of the LayerNorms; 1e-6 is the authors', PyTorch's is 1e-5
        dropout: probability of dropout after the positions and each dense layer
        drop_path: stochastic depth: probability of leaving out a branch of the last
            block; rises linearly from 0 at the first

    UserError: sizes that do not fit each other, or are not positive.
    """

    image_size: tuple[int, int] = (224, 224)
    patch_size: tuple[int, int] = (16, 16)
    in_channels: int = 3
    num_classes: int = 1000
    embed_dim: int = 768
    depth: int = 12
    num_heads: int = 12
    mlp_dim: int = 3072
    stem: Stem = field(default_factory=Patches)
    position: Position = field(default_factory=Learned1D)
    block: Block = field(default_factory=Standard)
    pool: Pooling = "token"
    class_token: bool = True
    pre_logits: int | None = None
    gelu: Gelu = "exact"
    norm_eps: float = 1e-6
    dropout: float = 0.0
    drop_path: float = 0.0

    if TYPE_CHECKING:  # a call may give one number for a pair

        def __init__(self, **fields: Unpack[ViTFields]) -> None: ...

    def __post_init__(self) -> None:
        for name in ("image_size", "patch_size"):
            size = pair(name, getattr(self, name))
            object.__setattr__(self, name, size)  # the way past `frozen`
        for name in SEAMS:  # as a dict where the configuration was JSON
            value = seam_from_json(name, getattr(self, name))
            object.__setattr__(self, name, value)
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
    def num_prefix_tokens(self) -> int:
        """How many tokens stand before the patches, 1 with a class token, else 0."""
        return int(self.class_token)

    @property
    def num_tokens(self) -> int:
        """N + 1 with a class token, else N."""
        return self.num_patches + self.num_prefix_tokens

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; the inverse of `from_json`."""
        return seams_to_json(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "ViTConfig":
        """What `to_json` wrote. UserError: a field is unknown."""
        check_fields("ViTConfig", values, (each.name for each in fields(cls)))
        return cls(**values)


def vit_config(name: str, **overrides: Unpack[ViTFields]) -> ViTConfig:
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
