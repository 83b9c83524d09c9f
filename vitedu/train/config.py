"""Everything that decides a run: TrainConfig."""

import hashlib
import json
import math
import shlex
import types
import typing
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

from vitedu.data.augment import Augment
from vitedu.errors import UserError, did_you_mean
from vitedu.model import ResNetConfig, ViTConfig
from vitedu.model.about import LossName
from vitedu.model.checks import check_fields
from vitedu.pictures import PreprocessSpec

Tier = Literal["smoke", "cpu", "gpu"]
Optimizer = Literal["adamw", "adam", "sgd"]
Schedule = Literal["cosine", "linear", "constant"]
Keep = Literal["last", "best"]
Precision = Literal["auto", "fp32", "tf32", "bf16", "fp16"]
Attention = Literal["auto", "flash", "efficient", "cudnn", "math"]

TIERS: tuple[str, ...] = typing.get_args(Tier)
CHOICES: dict[str, tuple[str, ...]] = {
    "tier": TIERS,
    "optimizer": typing.get_args(Optimizer),
    "schedule": typing.get_args(Schedule),
    "loss": typing.get_args(LossName),
    "keep": typing.get_args(Keep),
    "precision": typing.get_args(Precision),
    "attention": typing.get_args(Attention),
}
# What may differ when a run goes on; everything else would make it another run.
MAY_DIFFER = (
    "device",
    "num_workers",
    "micro_batch_size",
    "compile",
    "shard",
    "threads",
)
COUNTS = (
    *("epochs", "steps", "batch_size", "micro_batch_size", "max_images"),
    *("threads", "log_every", "save_every"),
)
# Fields that came after runs had been named by their digest: left out of it where
# they are at their defaults, so that the folders of those runs are still found.
LATER = ("weights", "keep", "given")


@dataclass(frozen=True)
class TrainConfig:
    """A run from its first step to its last; recipes return one.

    A step is one update of the weights, an epoch one pass over the training images.

    Attributes:
        recipe: name of the recipe; the result is called by it
        tier: size of the run: "smoke" (seconds), "cpu" (minutes) or "gpu" (all of it)
        model: the network; set its fields by name, as in model.depth=4
        dataset: a named set, a FILE.npz, or a FOLDER of pictures in class folders
        data: where the data set is, if not in one of the usual places
        weights: trained weights to start from: a file, a run folder or a name. The
            head starts from zeros if its classes are not the data's
        preprocess: how a picture becomes an input; size and channels are the model's
        augment: random changes to the training images, set as in augment.flip=true
        epochs: length of the run; give either epochs or steps
        steps: length of the run in updates of the weights
        batch_size: images per update
        micro_batch_size: images in memory at a time; none means the whole batch
        optimizer: "adamw", "adam" or "sgd"
        lr: learning rate, the highest of the schedule
        betas: AdamW's and Adam's two; the first is the momentum of SGD
        weight_decay: decay of kernels; biases, norms and positions do not decay
        schedule: "cosine", "linear" or "constant", after the warm-up
        warmup: share of the steps in which the learning rate rises from 0
        layer_decay: learning rate of a layer as a share of the next one's; 1 means
            that all learn at the same rate
        max_grad_norm: global norm that gradients are clipped to; none means no
            clipping
        loss: "softmax" (cross-entropy) or "sigmoid" (a yes or no for each class)
        head_bias: initial value of the head's bias
        label_smoothing: share of the target that is spread over all classes
        mixup: alpha of Beta(alpha, alpha) for mixing two images; 0 is off
        cutmix: the same for pasting a box of one image into another; with both on,
            each batch takes one of them
        ema: decay of the averaged weights, which are then the result; none is off
        keep: which weights are the result: "last", or "best" on the validation part
        precision: "fp32", "tf32", "bf16", "fp16", or "auto": the fastest that the
            device computes well
        attention: kernel of the attention; "auto" leaves the choice to PyTorch
        compile: whether to compile the network with torch.compile
        activation_checkpointing: less memory for a third more work
        shard: spread the weights over the processes (FSDP2) instead of copying them
        seed: of the initial weights and of everything that is drawn
        validation: share of the training images held out to choose by
        max_images: use no more images than this of the training and of the test part
        fallback: "digits" uses the embedded digits if the data set is missing
        given: what was passed to `fit` as a Python object, by name; `fit` writes it
        device: "auto", "cuda", "cuda:1", "mps" or "cpu"
        threads: CPU threads; none lets the work of a step decide, 1 for small models
        num_workers: processes that read pictures
        log_every: steps between two lines of the log
        save_every: steps between two checkpoints; none means once an epoch

    UserError: a value is out of range, or two values contradict each other.
    """

    recipe: str
    tier: Tier
    model: ViTConfig | ResNetConfig
    dataset: str
    data: str | None = None
    weights: str | None = None
    preprocess: PreprocessSpec = field(default_factory=PreprocessSpec)
    augment: Augment = field(default_factory=Augment)
    epochs: int | None = None
    steps: int | None = None
    batch_size: int = 64
    micro_batch_size: int | None = None
    optimizer: Optimizer = "adamw"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    schedule: Schedule = "cosine"
    warmup: float = 0.0
    layer_decay: float = 1.0
    max_grad_norm: float | None = None
    loss: LossName = "softmax"
    head_bias: float = 0.0
    label_smoothing: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    ema: float | None = None
    keep: Keep = "last"
    precision: Precision = "fp32"
    attention: Attention = "auto"
    compile: bool = False
    activation_checkpointing: bool = False
    shard: bool = False
    seed: int = 0
    validation: float = 0.0
    max_images: int | None = None
    fallback: str | None = None
    given: str | None = None
    device: str = "auto"
    threads: int | None = None
    num_workers: int = 0
    log_every: int = 50
    save_every: int | None = None

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
        for name in COUNTS:
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
        try:
            shlex.split(self.given or "")
        except ValueError:
            raise UserError(
                f"given={self.given} has a quotation mark without its other half"
            ) from None
        if self.fallback not in (None, "digits"):
            raise UserError(
                f"fallback={self.fallback!r} is not known; known: 'digits'"
            )

    def _check(self, name: str, holds: Any, wanted: str) -> None:
        value = getattr(self, name)
        if value is not None and not holds(value):
            raise UserError(f"{name} is {value}, it must be {wanted}")

    @property
    def starts_trained(self) -> bool:
        """Whether the run begins with a model that may have learned something."""
        return "model" in self.given_names or self.weights is not None

    @property
    def given_names(self) -> dict[str, str]:
        """What `given` names, by argument of `fit`: {"loss": "focal_loss"}."""
        words = shlex.split(self.given or "")
        return {
            argument: name
            for argument, _, name in (word.partition("=") for word in words)
        }

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
        is_resnet = "family" in values["model"]
        network = ResNetConfig if is_resnet else ViTConfig
        values["model"] = network.from_json(values["model"])
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
        values = self.identity()
        for each in fields(self):
            if each.name in LATER and values[each.name] == each.default:
                del values[each.name]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def of_type(name: str, value: Any, kind: Any) -> Any:
    """`value`, if it is of the type of its field; an int may stand for a float.

    UserError: it is of another type.
    """
    if typing.get_origin(kind) is Literal:
        return value  # `CHOICES` are checked with a sentence of their own
    if isinstance(kind, types.UnionType):
        kinds = typing.get_args(kind)
        if value is None and type(None) in kinds:
            return None
        if type(value) in kinds:
            return value
        kind = next(k for k in kinds if k is not type(None))
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


def fitted(
    preprocess: PreprocessSpec, model: ViTConfig | ResNetConfig
) -> PreprocessSpec:
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
