"""What a ResNet is before it has weights, and the names of its sizes.

`resnet_config("BiT-R50x1", image_size=480)` is the BiT release's ResNet-50.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

from vitedu.errors import UserError, did_you_mean
from vitedu.fields import (
    Count,
    Positive,
    Range,
    Size,
    check_fields,
    check_names,
    from_json,
    to_json,
)
from vitedu.model.bottleneck import (
    Bottleneck,
    PreActBottleneck,
    check_stages,
    footprint_of_root,
    footprint_of_stages,
    out_channels,
)
from vitedu.model.footprint import MODULE, Depth, Footprint, dense, norm

# He et al. 2016; 26 and the widths: BiT and vit_jax. Units of each of the four
# stages.
LAYERS = {
    26: (2, 2, 2, 2),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}
WIDTHS = (1, 2, 3, 4)
# name: family, layers, width
RESNETS = {
    f"{prefix}R{depth}x{width}": (family, layers, width)
    for prefix, family in (("BiT-", "bit-v2"), ("", "bit-v1"))
    for depth, layers in LAYERS.items()
    for width in WIDTHS
}
# what the pool finds beyond the image; the first is the family's own
POOL_PADDING = {"bit-v2": ("zeros", "-inf"), "bit-v1": ("-inf",)}


Family = Literal["bit-v2", "bit-v1"]
PoolPadding = Literal["zeros", "-inf"]


class ResNetFields(TypedDict, total=False):
    """The fields of a ResNetConfig as arguments, for type checkers."""

    family: Family
    layers: tuple[int, ...]
    width: float
    num_classes: int
    in_channels: int
    image_size: int | tuple[int, int]
    pool_padding: PoolPadding | None


@dataclass(frozen=True)
class ResNetConfig:
    """Everything needed to build a ResNet before its weights are loaded.

    The defaults are BiT's R50x1. The names set family, layers and width.

    Attributes:
        family: "bit-v2", the BiT release's, or "bit-v1", the ViT authors' own
        layers: number of units in each stage
        width: factor on all channels; 64 * width leave the root
        num_classes: outputs of the head; 0 means no head, and the model returns
            features
        in_channels: 3 for RGB, 1 for grey
        image_size: height and width in pixels that the weights were trained on;
            one number means a square. The network takes any size
        pool_padding: what the root's pool finds beyond the image: "zeros" or
            "-inf"; None means the family's own

    UserError: a field is unknown or not possible.
    """

    family: Family = "bit-v2"
    layers: tuple[Depth, ...] = (3, 4, 6, 3)
    width: Positive = 1.0
    num_classes: Annotated[int, Range(0)] = 1000
    in_channels: Count = 3
    image_size: Size = (224, 224)
    pool_padding: PoolPadding | None = None

    if TYPE_CHECKING:  # a call may give one number for a pair

        def __init__(self, **fields: Unpack[ResNetFields]) -> None: ...

    def __post_init__(self) -> None:
        check_fields(self)
        check_stages(self.layers, self.width)
        if not self.layers:
            raise UserError("layers is empty: a ResNet has at least one stage")
        known = POOL_PADDING[self.family]
        padding = self.pool_padding or known[0]
        if padding not in known:
            raise UserError(
                f"pool_padding={padding!r} is not known for {self.family}; "
                f"known: {', '.join(known)}"
            )
        # the way past `frozen`
        object.__setattr__(self, "pool_padding", padding)

    @property
    def num_features(self) -> int:
        """Channels of the feature map that the head reads."""
        return out_channels(self.layers, self.width)

    @property
    def pool(self) -> str:
        """How all places become one row, in the words of ViTConfig's `pool`."""
        return "mean"

    @property
    def num_layers(self) -> int:
        """How many units there are in all stages."""
        return sum(self.layers)

    @property
    def has_resnet(self) -> bool:
        """Whether it is a ResNet, or a ViT with one in front."""
        return True

    def footprints(self) -> dict[str, Footprint]:
        """What each attribute of the network takes up."""
        is_bit = self.family == "bit-v2"
        unit = PreActBottleneck if is_bit else Bottleneck
        root = footprint_of_root(self.in_channels, self.width)
        head = MODULE
        if self.num_classes:
            head = dense(self.num_features, self.num_classes)
        return {
            "stem": root if is_bit else root + norm(int(64 * self.width)),
            "stages": footprint_of_stages(unit, self.layers, self.width),
            "norm": norm(self.num_features) if is_bit else MODULE,
            "head": head + MODULE,
        }

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; the inverse of `from_json`."""
        return to_json(self)

    @classmethod
    def from_json(cls, values: Any) -> "ResNetConfig":
        """What `to_json` wrote. UserError: a field is unknown or wrong."""
        return from_json(cls, values)


def resnet_config(name: str, **overrides: Unpack[ResNetFields]) -> ResNetConfig:
    """The configuration of a name, such as "R50x1", with other fields.

    With "BiT-" it is the BiT release's (bit-v2), without the ViT authors'
    (bit-v1).
    UserError: the name or a field is unknown.
    """
    if name not in RESNETS:
        raise UserError(
            f"there is no model {name!r}; " + did_you_mean(name, RESNETS)
        )
    known = (each.name for each in fields(ResNetConfig))
    check_names("ResNetConfig", overrides, known)
    family, layers, width = RESNETS[name]
    table = {"family": family, "layers": layers, "width": width}
    return ResNetConfig(**(table | overrides))
