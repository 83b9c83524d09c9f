"""Everything that decides a run: TrainConfig, and its values from `field=value`."""

import hashlib
import json
import math
import types
import typing
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

from vitedu.data.augment import Augment
from vitedu.errors import UserError, did_you_mean
from vitedu.model import ViTConfig
from vitedu.model.checks import check_fields
from vitedu.pictures import PreprocessSpec

TIERS = ("smoke", "cpu", "gpu")
CHOICES = {
    "tier": TIERS,
    "optimizer": ("adamw", "adam", "sgd"),
    "schedule": ("cosine", "linear", "constant"),
    "loss": ("softmax", "sigmoid"),
    "precision": ("auto", "fp32", "tf32", "bf16", "fp16"),
    "attention": ("auto", "flash", "efficient", "cudnn", "math"),
}
# What may differ when a run goes on; everything else would make it another run.
MAY_DIFFER = ("device", "num_workers", "micro_batch_size", "compile", "shard")


@dataclass(frozen=True)
class TrainConfig:
    """A run from its first step to its last; recipes return one.

    A step is one update of the weights, an epoch one pass over the training images.
    `preprocess` takes its image size and channels from `model`.
    UserError: a value is out of range, or two values contradict each other.
    """

    recipe: str
    tier: str
    model: ViTConfig
    dataset: str  # a named set, FILE.npz or FOLDER with train/ and val/
    data: str | None = None  # where it lies, if not in one of the usual places
    preprocess: PreprocessSpec = field(default_factory=PreprocessSpec)
    augment: Augment = field(default_factory=Augment)
    epochs: int | None = None  # either epochs or steps
    steps: int | None = None
    batch_size: int = 64  # images of one update
    micro_batch_size: int | None = None  # images in memory at a time; None: all
    optimizer: str = "adamw"
    lr: float = 1e-3  # the highest of the schedule
    betas: tuple[float, float] = (0.9, 0.999)  # sgd: the first is its momentum
    weight_decay: float = 0.0  # of kernels alone
    schedule: str = "cosine"
    warmup: float = 0.0  # share of the steps
    layer_decay: float = 1.0  # rate of a layer as a share of the next one's
    max_grad_norm: float | None = None  # global norm to clip at
    loss: str = "softmax"  # cross-entropy; "sigmoid": one yes or no a class
    head_bias: float = 0.0  # what the head's bias begins with
    label_smoothing: float = 0.0
    mixup: float = 0.0  # alpha of Beta(alpha, alpha); 0 is off
    cutmix: float = 0.0  # likewise; with both on, each batch takes one of them
    ema: float | None = (
        None  # decay of the averaged weights, which are then the result
    )
    precision: str = "fp32"  # auto: the fastest that the device computes well
    attention: str = "auto"  # kernel of scaled_dot_product_attention
    compile: bool = False
    activation_checkpointing: bool = False  # less memory, a third more work
    shard: bool = False  # weights spread over the processes (FSDP2), not copied
    seed: int = 0
    validation: float = (
        0.0  # share of the training images held out for choosing
    )
    max_images: int | None = (
        None  # use no more of the training and of the test part
    )
    fallback: str | None = None  # "digits": use them if the data set is missing
    device: str = "auto"  # or cuda, cuda:1, mps, cpu
    num_workers: int = 0
    log_every: int = 50  # steps
    save_every: int | None = None  # steps; None: once an epoch

    def __post_init__(self) -> None:
        for name, kind in typing.get_type_hints(type(self)).items():
            value = of_type(name, getattr(self, name), kind)
            object.__setattr__(self, name, value)
        preprocess = fitted(self.preprocess, self.model)
        object.__setattr__(self, "preprocess", preprocess)
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                end = did_you_mean(str(value), known)
                raise UserError(f"{name}={value!r} is not known; {end}")
        if (self.epochs is None) == (self.steps is None):
            raise UserError(
                f"either epochs or steps must be given, got epochs={self.epochs} and "
                f"steps={self.steps}; set the other to none"
            )
        for name in (
            "epochs",
            "steps",
            "batch_size",
            "micro_batch_size",
            "log_every",
        ):
            self._check(name, lambda value: value >= 1, "at least 1")
        for name in ("max_images", "save_every"):
            self._check(name, lambda value: value >= 1, "at least 1")
        self._check("num_workers", lambda value: value >= 0, "at least 0")
        self._check(
            "seed", lambda value: 0 <= value < 2**64, "from 0 to 2^64 - 1"
        )
        self._check(
            "weight_decay", lambda value: 0 <= value < math.inf, "at least 0"
        )
        for name in ("lr", "max_grad_norm"):
            self._check(
                name, lambda value: 0 < value < math.inf, "above 0 and finite"
            )
        for name in ("mixup", "cutmix"):
            self._check(name, lambda value: 0 <= value < math.inf, "at least 0")
        self._check("layer_decay", lambda value: 0 < value <= 1, "in (0, 1]")
        self._check("head_bias", math.isfinite, "finite")
        for name in ("label_smoothing", "validation", "ema"):
            self._check(name, lambda value: 0 <= value < 1, "in [0, 1)")
        self._check("warmup", lambda value: 0 <= value <= 1, "in [0, 1]")
        if len(self.betas) != 2 or not all(
            0 <= beta < 1 for beta in self.betas
        ):
            raise UserError(
                f"betas are {self.betas}, they must be two in [0, 1)"
            )
        if self.optimizer == "adam" and self.weight_decay:
            raise UserError(
                f"optimizer=adam with weight_decay={self.weight_decay} would add the "
                "decay to the gradient, which Adam then rescales; use optimizer=adamw"
            )
        if self.fallback not in (None, "digits"):
            raise UserError(
                f"fallback={self.fallback!r} is not known; known: 'digits'"
            )

    def _check(self, name: str, holds: Any, wanted: str) -> None:
        value = getattr(self, name)
        if value is not None and not holds(value):
            raise UserError(f"{name} is {value}, it must be {wanted}")

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, strings and lists; the inverse of `from_json`."""
        out = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if is_dataclass(value):
                value = (
                    asdict(value) if each.name == "augment" else value.to_json()
                )
            out[each.name] = list(value) if isinstance(value, tuple) else value
        return out

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TrainConfig":
        """The configuration that `to_json` wrote. UserError: a field is unknown."""
        check_fields("TrainConfig", values, (each.name for each in fields(cls)))
        values = dict(values)
        values["model"] = ViTConfig.from_json(values["model"])
        values["preprocess"] = PreprocessSpec.from_json(values["preprocess"])
        check_fields(
            "Augment",
            values["augment"],
            (each.name for each in fields(Augment)),
        )
        values["augment"] = Augment(**values["augment"])
        values["betas"] = tuple(values["betas"])
        return cls(**values)

    def identity(self) -> dict[str, Any]:
        """`to_json` without what may differ when the run goes on."""
        values = self.to_json()
        return {name: values[name] for name in values if name not in MAY_DIFFER}

    def digest(self) -> str:
        """8 hex digits of `identity`; the default run folder is named by it."""
        text = json.dumps(self.identity(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def of_type(name: str, value: Any, kind: Any) -> Any:
    """`value`, if it is of the type of its field; an int may stand for a float.

    UserError: it is of another type.
    """
    if isinstance(kind, types.UnionType):
        if value is None:
            return None
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if typing.get_origin(kind) is tuple:
        if isinstance(value, list | tuple) and len(value) == 2:
            return tuple(of_type(name, each, float) for each in value)
        raise UserError(f"{name} must be two numbers, got {value!r}")
    is_bool = isinstance(value, bool)
    if kind is float and isinstance(value, int) and not is_bool:
        return float(value)
    if not isinstance(value, kind) or (kind is int and is_bool):
        wanted = {int: "a whole number", float: "a number", str: "text"}
        wanted = wanted.get(kind, f"a {kind.__name__}")
        raise UserError(f"{name} must be {wanted}, got {value!r}")
    return value


def fitted(preprocess: PreprocessSpec, model: ViTConfig) -> PreprocessSpec:
    """`preprocess` with the image size and the channels of `model`.

    A mean and std that are the same in every channel are so in the new ones too.
    """
    changes: dict[str, Any] = {"image_size": model.image_size}
    if preprocess.in_channels != model.in_channels:
        changes["in_channels"] = model.in_channels
        for name in ("mean", "std"):
            numbers = getattr(preprocess, name)
            changes[name] = numbers[:1] if len(set(numbers)) == 1 else numbers
    return replace(preprocess, **changes)


def override(config: Any, assignments: dict[str, str]) -> Any:
    """`config` with fields set from text: {"lr": "3e-4", "model.depth": "4"}.

    A value is read by the field's type; "none" clears an optional field. All of them
    are set at once, so that the new values need to fit each other only in the end.
    UserError: a field is unknown, or a value is of another type.
    """
    changes: dict[str, Any] = {}
    nested: dict[str, dict[str, str]] = {}
    hints = typing.get_type_hints(type(config))
    for name, text in assignments.items():
        head, _, rest = name.partition(".")
        check_fields(type(config).__name__, [head], hints)
        if rest and is_dataclass(getattr(config, head)):
            nested.setdefault(head, {})[rest] = text
        elif rest:
            raise UserError(f"{head} has no fields, so {name!r} means nothing")
        else:
            changes[head] = parse(head, text, hints[head])
    for head in sorted(nested):  # the model before its preprocessing
        part = getattr(config, head)
        if head == "preprocess":
            for name in ("image_size", "in_channels"):
                if name in nested[head]:
                    raise UserError(
                        f"preprocess.{name} follows the model; set model.{name}"
                    )
            part = fitted(part, changes.get("model", config.model))
        changes[head] = override(part, nested[head])
    if (
        "steps" in changes
        and "epochs" not in changes
        and changes["steps"] is not None
    ):
        changes["epochs"] = None
    if (
        "epochs" in changes
        and "steps" not in changes
        and changes["epochs"] is not None
    ):
        changes["steps"] = None
    return replace(config, **changes)


def parse(name: str, text: str, kind: Any) -> Any:
    """The value that `text` stands for in a field of type `kind`."""
    if isinstance(kind, types.UnionType):
        if text.lower() == "none":
            return None
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        values = tuple(parse(name, part, inner) for part in text.split(","))
        # one number is taken for both sides of a pair of sizes
        return values[0] if len(values) == 1 and inner is int else values
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise UserError(f"{name} must be true or false, got {text!r}")
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise UserError(f"{name} must be {wanted}, got {text!r}") from None
    if kind is str:
        return text
    raise UserError(f"{name} cannot be set from the command line")
