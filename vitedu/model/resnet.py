"""ResNets with GroupNorm and standardised convolutions, in two families.

"bit-v2" is the ResNet of the BiT paper and its release, "R50x1" (family
"bit-v1") the ViT authors' own, which is also the backbone of their hybrids.
Weights of one give nonsense in the other:

====================  ==============================  ==========================
what                  bit-v2                          bit-v1
====================  ==============================  ==========================
whose code            big_vision's bit_paper.py       vit_jax's models_resnet.py
                                                      and big_vision's bit.py
norm and ReLU         before each convolution,        after each convolution;
                      and once before the head        ReLU after the sum
shortcut convolution  of the normed input, no norm    of the input, then a norm
root                  convolution, pool               convolution, norm, ReLU,
                                                      pool
convolution padding   (kernel - 1) / 2 on all sides   SAME: depends on the size
pool padding          1 on all sides, 0 or -inf       SAME, -inf
standardised filter   (w - mean) / sqrt(var + 1e-10)  (w - mean) / (std + 1e-5)
GroupNorm's epsilon   1e-5                            1e-6
last norm of a unit   its scale starts at 1           its scale starts at 0
====================  ==============================  ==========================

The pool of bit-v2 is padded with zeros in the BiT release and in timm, with
-inf in big_vision. timm has both families and divides by sqrt(var + 1e-8); its
bit-v1, in its hybrids, has a GroupNorm epsilon of 1e-5. With random weights
that moves BiT-R50x1 by 1e-5 of its largest logit, R50+ViT-B/16 by 5e-4.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import torch.nn.functional as F
from torch import Tensor, fx, nn

from vitedu.errors import UserError, unknown
from vitedu.fields import (
    Checked,
    Count,
    Depth,
    Positive,
    Range,
    Size,
    check_names,
    with_meanings,
)
from vitedu.model import bottleneck
from vitedu.model.classifier import Classifier, checked_names
from vitedu.model.initialise import lecun_normal
from vitedu.model.resize import ResizeMode

# a call that torch.fx keeps
fx.wrap("check_channels")

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
class ResNetConfig(Checked):
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
        super().__post_init__()
        bottleneck.check_width(self.width)
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
        return bottleneck.out_channels(self.layers, self.width)

    @property
    def pool(self) -> str:
        """How the feature map becomes one row, in ViTConfig's terms."""
        return "mean"

    @property
    def has_resnet(self) -> bool:
        """Whether it is a ResNet, or a ViT with one in front."""
        return True


def resnet_config(name: str, **overrides: Unpack[ResNetFields]) -> ResNetConfig:
    """The configuration of a name, "BiT-R50x1" or "R50x1", with other fields.

    UserError: the name or a field is unknown.
    """
    if name not in RESNETS:
        raise unknown("model", name, RESNETS)
    known = (each.name for each in fields(ResNetConfig))
    check_names("ResNetConfig", overrides, known)
    family, layers, width = RESNETS[name]
    table = {"family": family, "layers": layers, "width": width}
    return ResNetConfig(**(table | overrides))


class ResNet(Classifier):
    """A ResNet of either family: images (b, c, h, w) -> logits (b, classes).

    state_dict keys are timm's (ResNetV2). Any image size will do. With
    `num_classes=0` it returns features.
    ValueError: the images have another number of axes or channels.
    Source: Kolesnikov et al. 2020, "Big Transfer"; paper, section 4.1.
    """

    head_name = "head.fc"
    takes_any_size = True

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__(config)
        if config.family == "bit-v2":
            border = 0.0 if config.pool_padding == "zeros" else -math.inf
            self.stem = bottleneck.build_bit_root(
                config.in_channels, config.width, border
            )
            unit = bottleneck.PreActBottleneck
            self.norm = nn.GroupNorm(32, config.num_features, eps=1e-5)
        else:
            self.stem = bottleneck.build_root(config.in_channels, config.width)
            unit = bottleneck.Bottleneck
            self.norm = nn.Identity()
        self.stages = bottleneck.build_stages(unit, config.layers, config.width)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                lecun_normal(module.weight)
        self.reset_classifier(config.num_classes)

    def forward_features(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, features, h / 32, w / 32), rounded up."""
        check_channels(images, self.config.in_channels)
        x = self.norm(self.stages(self.stem(images)))
        # bit-v1 ends in a ReLU already, which a second one leaves alone
        return F.relu(x)

    def forward_head(
        self, features: Tensor, pre_logits: bool = False
    ) -> Tensor:
        """(b, features, h, w) -> (b, classes): mean over places, then the head.

        With `pre_logits` what the head gets, (b, features).
        """
        y = features.mean(dim=(2, 3), keepdim=True)  # (b, features, 1, 1)
        return (y if pre_logits else self.head(y)).flatten(1)

    def forward(self, images: Tensor) -> Tensor:
        """(b, c, h, w) -> (b, classes), the logits."""
        return self.forward_head(self.forward_features(images))

    def reset_classifier(
        self, num_classes: int, class_names: Sequence[str] = ()
    ) -> None:
        """Replace the head by a head of zeros; 0 classes: none.

        Replaces the class names too, and forgets the loss.
        UserError: there are names, but not one for each class.
        """
        names = checked_names(class_names, num_classes)
        self.config = replace(self.config, num_classes=num_classes)
        self.num_classes, self.class_names = num_classes, names
        self.loss_name = None
        head: nn.Module = nn.Identity()
        if num_classes:
            head = nn.Conv2d(self.config.num_features, num_classes, 1)
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
            head = head.to(self.stem.conv.weight)  # its device and dtype
        self.head = nn.Sequential(OrderedDict(fc=head))

    def set_input_size(
        self,
        image_size: int | tuple[int, int],
        *,
        mode: ResizeMode | None = None,
    ) -> None:
        """Expect images of another size, in place; there are no positions."""
        self.config = replace(self.config, image_size=image_size)
        self.preprocess = replace(
            self.preprocess, image_size=self.config.image_size
        )

    def blocks_in_order(self) -> Iterable[nn.Module]:
        """The units of all stages."""
        return (unit for stage in self.stages for unit in stage.blocks)

    def no_weight_decay(self) -> set[str]:
        """Empty: timm already leaves out biases and norms."""
        return set()

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Which parameters form a layer, for timm's layer decay.

        Each unit is one (`coarse`: each stage), the last with the final norm.
        """
        unit = [(r"^stages\.(\d+)\.blocks\.(\d+)", None), (r"^norm", (99999,))]
        return {
            "stem": r"^stem",
            "blocks": r"^stages\.(\d+)" if coarse else unit,
        }


def check_channels(images: Tensor, in_channels: int) -> None:
    """ValueError unless `images` are (b, in_channels, h, w)."""
    if images.ndim != 4 or images.shape[1] != in_channels:
        raise ValueError(
            f"the model needs images (b, {in_channels}, h, w), got "
            f"{tuple(images.shape)}; one image is images[None]"
        )


def resnet(name: str, **fields: Unpack[ResNetFields]) -> ResNet:
    """A new ResNet by its name, "BiT-R50x1" or "R50x1", with fields overridden.

    The fields are ResNetConfig's. UserError: the name or a field is unknown, or
    the fields do not fit each other.
    """
    return ResNet(resnet_config(name, **fields))


resnet.__doc__ = with_meanings(resnet.__doc__, ResNetConfig)
