"""What a network is before it has weights: ViTConfig, and the sizes of Table 1.

`vit_config("ViT-B/16", image_size=384)` is Table 1 with an override.
"""

from dataclasses import dataclass, field, fields
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypedDict,
    Unpack,
    get_args,
)

from vitedu.errors import UserError, unknown
from vitedu.fields import (
    LATER,
    Checked,
    Count,
    Depth,
    Positive,
    Range,
    Rate,
    Size,
    check_names,
    from_json,
)
from vitedu.model.axial import Axial
from vitedu.model.encoder import Standard
from vitedu.model.hybrid import Hybrid
from vitedu.model.patches import Patches
from vitedu.model.position import Learned1D, Learned2D, NoPosition, SinCos2D
from vitedu.model.relative import Relative, RoPE

# where a variant is another small object, with its class's name as a field
Stem: TypeAlias = Patches | Hybrid
Positions: TypeAlias = (
    Learned1D | Learned2D | Relative | SinCos2D | RoPE | NoPosition
)
Block: TypeAlias = Standard | Axial

SEAMS = {
    "stem": get_args(Stem),
    "position": get_args(Positions),
    "block": get_args(Block),
}

Pooling = Literal["token", "mean", "mean_norm", "map", "none"]
Gelu = Literal["exact", "tanh", "quick"]
# what others call ours; the nearest spelling of "gap" would be "map"
POOLING_ELSEWHERE = {"gap": "mean", "avg": "mean", "tok": "token"}

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

# Paper, Tables 3 and 6; R26 and R+Ti from "How to train your ViT?". The number
# behind the slash is the stride in pixels, but for R+ViT-Ti/16, where it is 32.
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
    """The fields of a ViTConfig as arguments, for type checkers."""

    image_size: int | tuple[int, int]
    patch_size: int | tuple[int, int]
    in_channels: int
    num_classes: int
    embed_dim: int
    depth: int
    num_heads: int
    mlp_dim: int
    stem: Stem
    position: Positions
    block: Block
    pool: Pooling
    class_token: bool
    registers: int
    pre_logits: int | None
    gelu: Gelu
    norm_eps: float
    dropout: float
    drop_path: float


@dataclass(frozen=True)
class ViTConfig(Checked):
    """Everything needed to build the network before its weights are loaded.

    The defaults are ViT-B/16 at 224 pixels with 1,000 classes. The names of
    Table 1 set patch_size, embed_dim, depth, num_heads and mlp_dim.

    Attributes:
        image_size: height and width in pixels (H, W); one number means a square
        patch_size: height and width of a patch in pixels (P); one number means
            a square. For a hybrid, pixels of the ResNet's feature map
        in_channels: 3 for RGB, 1 for grey (C)
        num_classes: outputs of the head; 0 means no head, and the model returns
            features
        embed_dim: width of every token (D)
        depth: number of encoder blocks (L)
        num_heads: attention heads in a block (k); embed_dim is a multiple of it
        mlp_dim: width of the hidden layer in a block's MLP
        stem: how an image becomes tokens: Patches() or Hybrid(), a ResNet
        position: how tokens know their place: Learned1D(), Learned2D(),
            Relative(), SinCos2D(), RoPE() or NoPosition()
        block: what a layer of the encoder is: Standard() or Axial()
        pool: how all tokens become one row: "token" takes the class token,
            "mean" the mean of the patches, "mean_norm" the mean without the
            final norm, then a norm of it (timm's fc_norm), "map" attention
            pooling, "none" keeps every token
        class_token: whether a learned class token comes before the patches
        registers: how many learned tokens that no pool reads come between them
        pre_logits: width of a tanh layer before the head; None leaves it out
        gelu: "exact" (PyTorch's and timm's), "tanh" (the authors'
            approximation) or "quick" (CLIP's)
        norm_eps: epsilon of the LayerNorms; 1e-6 is the authors', PyTorch's is
            1e-5
        dropout: probability of dropout after the positions and each dense layer
        drop_path: stochastic depth: probability of leaving out a branch of the
            last block; rises linearly from 0 at the first

    UserError: sizes that do not fit each other, or are not positive.
    """

    image_size: Size = (224, 224)
    patch_size: Size = (16, 16)
    in_channels: Count = 3
    num_classes: Annotated[int, Range(0)] = 1000
    embed_dim: Count = 768
    depth: Depth = 12
    num_heads: Count = 12
    mlp_dim: Count = 3072
    stem: Stem = field(default_factory=Patches)
    position: Positions = field(default_factory=Learned1D)
    block: Block = field(default_factory=Standard)
    pool: Pooling = "token"
    class_token: bool = True
    registers: Annotated[int, Range(0)] = field(default=0, metadata=LATER)
    pre_logits: Count | None = None
    gelu: Gelu = "exact"
    norm_eps: Positive = 1e-6
    dropout: Rate = 0.0
    drop_path: Rate = 0.0

    if TYPE_CHECKING:  # a call may give one number for a pair

        def __init__(self, **fields: Unpack[ViTFields]) -> None: ...

    def __post_init__(self) -> None:
        # as a dict where the configuration was JSON
        for seam in SEAMS:
            value = seam_from_json(seam, getattr(self, seam))
            # the way past `frozen`
            object.__setattr__(self, seam, value)
        if ours := POOLING_ELSEWHERE.get(str(self.pool)):
            raise UserError(
                f"pool={self.pool!r} is not known; did you mean {ours!r}?"
            )
        super().__post_init__()
        if self.embed_dim % self.num_heads:
            raise UserError(
                f"embed_dim={self.embed_dim} does not divide into "
                f"{self.num_heads} heads"
            )
        if self.pool == "token" and not self.class_token:
            raise UserError(
                "pool='token' needs class_token=True; or set pool='mean'"
            )
        self.stem.grid(self)  # says itself what does not fit

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
        """How many tokens (class token, registers) precede the patches."""
        return self.class_token + self.registers

    @property
    def num_tokens(self) -> int:
        """N + 1 with a class token and no registers."""
        return self.num_patches + self.num_prefix_tokens

    @property
    def has_resnet(self) -> bool:
        """Whether it is a ResNet, or a ViT with one in front."""
        return isinstance(self.stem, Hybrid)


def seam_from_json(seam: str, value: Any) -> Any:
    """A seam's object from the dict of `to_json`; anything else stays."""
    if not isinstance(value, dict):
        return value
    fields = dict(value)
    name = str(fields.pop("name", None))
    by_name = {kind.__name__: kind for kind in SEAMS[seam]}
    if name not in by_name:
        raise unknown(seam, name, by_name)
    return from_json(by_name[name], fields)


def vit_config(name: str, **overrides: Unpack[ViTFields]) -> ViTConfig:
    """The configuration of a name, such as "ViT-B/16", with other fields.

    Names of Table 1, and hybrids such as "R50+ViT-B/16", whose patch size
    counts pixels of the ResNet's feature map.
    UserError: the name or a field is unknown.
    """
    table: dict[str, Any] = {}
    if name in HYBRIDS:
        size, layers, patch = HYBRIDS[name]
        table["stem"] = Hybrid(layers)
    elif name in NAMES:
        size, end = name.removeprefix("ViT-").split("/")
        patch = int(end)
    else:
        raise unknown("model", name, (*NAMES, *HYBRIDS))
    check_names("ViTConfig", overrides, [x.name for x in fields(ViTConfig)])
    names = ("embed_dim", "depth", "num_heads", "mlp_dim")
    table |= dict(zip(names, SIZES[size], strict=True))
    return ViTConfig(**(table | {"patch_size": (patch, patch)} | overrides))
