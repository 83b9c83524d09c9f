"""TrainConfig, everything that decides a run, and `field=value` to set it."""

import hashlib
import json
import shlex
import types
import typing
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

from vitedu.data.augment import Augment
from vitedu.errors import UserError
from vitedu.fields import (
    Checked,
    Count,
    Positive,
    Range,
    Rate,
    Seed,
    Share,
    check_names,
)
from vitedu.model import ViTConfig, network_config
from vitedu.model.classifier import LossName
from vitedu.model.config import SEAMS, seam_from_json
from vitedu.model.mae import UnlabelledConfig
from vitedu.model.network import NetworkConfig
from vitedu.pictures import PreprocessSpec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Tier = Literal["smoke", "cpu", "gpu"]
Optimizer = Literal["adamw", "adam", "sgd"]
Schedule = Literal["cosine", "linear", "constant"]
Keep = Literal["last", "best"]
Freeze = Annotated[int, Range(0)] | Literal["backbone"]
ClassWeights = Literal["balanced"]
Precision = Literal["auto", "fp32", "tf32", "bf16", "fp16"]
Attention = Literal["auto", "flash", "efficient", "cudnn", "math"]

Config = TypeVar("Config", bound="DataclassInstance")

# Larger values would run for years, or exceed what the system has.
Length = Annotated[int, Range(1, 10**9)]
Workers = Annotated[int, Range(0, 1024)]
Threads = Annotated[int, Range(1, 1024)]
NotNegative = Annotated[float, Range(0)]

TIERS: tuple[str, ...] = get_args(Tier)
# What may differ when a run goes on; everything else would make it another run.
MAY_DIFFER = (
    "device",
    "num_workers",
    "micro_batch_size",
    "compile",
    "shard",
    "threads",
)
# Fields newer than the naming of runs by digest: left out of it at their
# defaults, so that the folders of older runs are still found.
LATER = ("weights", "keep", "given", "freeze", "class_weights", "patience")
# what a run without labels can't do
OF_LABELS = ("validation", "mixup", "cutmix", "label_smoothing")
OF_LABELS += ("class_weights", "keep", "patience", "head_bias")


@dataclass(frozen=True)
class TrainConfig(Checked):
    """A run from its first step to its last; recipes return one.

    A step is one update of the weights, an epoch one pass over the training
    images.

    Attributes:
        recipe: name of the recipe, and of the result; "own" if there is none
        tier: size of the run: "smoke" (seconds), "cpu" (minutes) or "gpu" (all)
        model: the network; set its fields by name, as in model.depth=4. One
            that is given to `fit` replaces it
        dataset: a named set, a FILE.npz, or a FOLDER with one for each class;
            data given to `fit` replace it
        data: where the data set is, if not in one of the usual places
        weights: trained weights to start from: a file, a run folder or a name.
            Its head is taken over for classes that it knows, by name or by
            ImageNet's code; else it starts from zeros
        preprocess: how a picture becomes an input of the model's size
        augment: random changes to the training images, as in augment.flip=true
        epochs: length of the run; give either epochs or steps
        steps: length of the run in updates of the weights
        batch_size: images per update
        micro_batch_size: images in memory at a time; none means the whole batch
        optimizer: "adamw", "adam" or "sgd"
        lr: learning rate, the highest of the schedule
        betas: the two of AdamW and Adam; the first is the momentum of SGD
        weight_decay: decay of kernels; biases, norms and positions do not decay
        schedule: "cosine", "linear" or "constant", after the warm-up
        warmup: share of the steps in which the learning rate rises from 0
        layer_decay: learning rate of a layer as a share of the next one's; 1
            means that all learn at the same rate
        freeze: what doesn't learn: 3 for the stem, the positions and the first
            3 blocks, or "backbone" for all but the head
        max_grad_norm: global norm that gradients are clipped to; none is off
        loss: "softmax" (cross-entropy) or "sigmoid" (yes or no for each class)
        head_bias: initial value of the head's bias
        label_smoothing: share of the target that is spread over all classes
        class_weights: "balanced" lets every class count the same in the loss,
            however many images it has to train on
        mixup: alpha of Beta(alpha, alpha) for mixing two images; 0 is off
        cutmix: the same for pasting a box of one image into another; with both
            on, each batch takes one of them
        ema: decay of the averaged weights, then the result; none is off
        keep: weights of the result: "last", or "best" on the validation part;
            of equally good ones the last
        patience: epochs without a better validation accuracy after which the
            run ends; its schedule stays that of the whole length
        precision: "fp32", "tf32", "bf16", "fp16", or "auto": the fastest that
            the device computes well
        attention: kernel of the attention; "auto" leaves the choice to PyTorch,
            among those whose gradients can be trusted: not cuDNN's
        compile: whether to compile the network with torch.compile
        activation_checkpointing: less memory for a third more work
        shard: spread the weights over the processes (FSDP2), not copies
        seed: seed of the initial weights and of all random numbers
        validation: share of the training images held out to choose by
        max_images: use at most so many images to train on, and to test on: the
            first ones of named sets of arrays, else evenly spread ones
        fallback: "digits" uses the embedded digits if the data set is missing
        given: Python objects passed to `fit`, by name; `fit` writes it
        device: "auto", "cuda", "cuda:1", "mps" or "cpu"
        threads: CPU threads; none lets the work of a step decide, 1 for small
            models
        num_workers: processes that read pictures; "auto" is up to 8 for
            pictures in files on a GPU, else none
        log_every: steps between two lines of the log
        save_every: steps between two checkpoints; none means once an epoch

    UserError: a value is out of range, or two values contradict each other.
    """

    recipe: str = "own"
    tier: Tier = "gpu"
    model: NetworkConfig = field(default_factory=ViTConfig)
    dataset: str = ""
    data: str | None = None
    weights: str | None = None
    preprocess: PreprocessSpec = field(default_factory=PreprocessSpec)
    augment: Augment = field(default_factory=Augment)
    epochs: Length | None = None
    steps: Length | None = None
    batch_size: Length = 64
    micro_batch_size: Length | None = None
    optimizer: Optimizer = "adamw"
    lr: Positive = 1e-3
    betas: tuple[Rate, Rate] = (0.9, 0.999)
    weight_decay: NotNegative = 0.0
    schedule: Schedule = "cosine"
    warmup: Share = 0.0
    layer_decay: Annotated[float, Range(above=0, at_most=1)] = 1.0
    freeze: Freeze | None = None
    max_grad_norm: Positive | None = None
    loss: LossName = "softmax"
    head_bias: Annotated[float, Range(-1e6, 1e6)] = 0.0
    label_smoothing: Rate = 0.0
    class_weights: ClassWeights | None = None
    mixup: NotNegative = 0.0
    cutmix: NotNegative = 0.0
    ema: Rate | None = None
    keep: Keep = "last"
    patience: Count | None = None
    precision: Precision = "auto"
    attention: Attention = "auto"
    compile: bool = False
    activation_checkpointing: bool = False
    shard: bool = False
    seed: Seed = 0
    validation: Rate = 0.0
    max_images: Count | None = None
    fallback: Literal["digits"] | None = None
    given: str | None = None
    device: str = "auto"
    threads: Threads | None = None
    num_workers: Workers | Literal["auto"] = "auto"
    log_every: Count = 50
    save_every: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        size, channels = self.model.image_size, self.model.in_channels
        preprocess = self.preprocess.sized(size, channels)
        object.__setattr__(self, "preprocess", preprocess)
        if (self.epochs is None) == (self.steps is None):
            raise UserError(
                "either epochs or steps must be given, got "
                f"epochs={self.epochs} and steps={self.steps}; set the other "
                "to none"
            )
        if self.optimizer == "adam" and self.weight_decay:
            raise UserError(
                f"optimizer=adam with weight_decay={self.weight_decay} would "
                "add the decay to the gradient, which Adam then rescales; use "
                "optimizer=adamw"
            )

        for name in () if self.needs_labels else OF_LABELS:
            if (value := getattr(self, name)) != getattr(TrainConfig, name):
                raise UserError(
                    f"{name}={value} needs labels, and this network learns "
                    "without; leave it out"
                )

    @property
    def needs_labels(self) -> bool:
        """Whether the network learns from labels, or from pictures alone."""
        return not isinstance(self.model, UnlabelledConfig)

    @property
    def starts_trained(self) -> bool:
        """Whether the run starts from a model that may have been trained."""
        return "model" in self.given_names or self.weights is not None

    @property
    def given_names(self) -> dict[str, str]:
        """What `given` names, by argument of `fit`: {"loss": "focal_loss"}."""
        words = shlex.split(self.given or "")
        return dict(word.partition("=")[::2] for word in words)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TrainConfig":
        """The inverse of `to_json`.

        UserError: a field is unknown, missing or wrong.
        """
        model = values.get("model") if isinstance(values, dict) else None
        if isinstance(model, dict):
            values = values | {"model": network_config(model)}
        return super().from_json(values)

    def identity(self) -> dict[str, Any]:
        """`to_json` without what may differ when a run is resumed."""
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


def differences(
    before: TrainConfig, now: TrainConfig
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that make them two runs: values before, and now."""
    both = [dict(dotted(each.identity())) for each in (before, now)]
    names = [x for x in both[0] | both[1] if both[0].get(x) != both[1].get(x)]
    old, new = ({name: each.get(name) for name in names} for each in both)
    return old, new


def as_settings(fields: dict[str, Any]) -> str:
    """Fields as you would type them: "lr=0.1 and seed=0"."""
    return " and ".join(f"{name}={value}" for name, value in fields.items())


def as_typed(value: Any) -> str:
    """A value as you would type it: none, true, "1,2"."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(as_typed(item) for item in value)
    return str(value)


def dotted(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """{"a": {"b": 1}} as [("a.b", 1)]."""
    pairs = []
    for name, value in values.items():
        if isinstance(value, dict):
            pairs += dotted(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, value))
    return pairs


def override(config: Config, assignments: dict[str, str]) -> Config:
    """`config` with fields set from text: {"lr": "3e-4", "model.depth": "4"}.

    "none" clears an optional field; {"model.position": "RoPE"} chooses a
    variant, whose fields start from their defaults. All are set at once, so
    only the final values need to fit each other.
    UserError: a field is unknown, or a value is of another type.
    """
    changes: dict[str, Any] = {}
    variants: dict[str, Any] = {}
    nested: dict[str, dict[str, str]] = {}
    hints = typing.get_type_hints(type(config))
    for name, text in assignments.items():
        head, _, rest = name.partition(".")
        check_names(type(config).__name__, [head], hints)
        if head in SEAMS and rest in ("", "name"):
            variants[head] = seam_from_json(head, {"name": text})
            nested.setdefault(head, {})
        elif name in ("preprocess.image_size", "preprocess.in_channels"):
            raise UserError(f"{name} follows the model; set model.{rest}")
        elif not is_dataclass(getattr(config, head)):
            if rest:
                raise UserError(
                    f"{head} has no fields, so {name!r} means nothing"
                )
            changes[head] = parsed(text, hints[head])
        elif rest:
            nested.setdefault(head, {})[rest] = text
        else:
            raise UserError(
                f"{head} cannot be set as a whole; set its fields, as in "
                f"{head}.NAME=VALUE"
            )
    for head in sorted(nested):  # the model before its preprocessing
        part: Any = variants.get(head) or getattr(config, head)
        if head == "preprocess":
            model = changes.get("model", config.model)
            part = part.sized(model.image_size, model.in_channels)
        changes[head] = override(part, nested[head])
    return changed(config, changes)


def changed(config: Config, changes: dict[str, Any]) -> Config:
    """`config` with `changes`; setting steps clears epochs, and vice versa."""
    for one, other in (("steps", "epochs"), ("epochs", "steps")):
        if changes.get(one) is not None and other not in changes:
            changes = changes | {other: None}
    return replace(config, **changes)


def parsed(text: str, kind: Any) -> Any:
    """`text` as a field of type `kind`; itself, to be refused, if it isn't."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        kinds = typing.get_args(kind)
        if text.lower() == "none" and type(None) in kinds:
            return None
        kind = next(each for each in kinds if each is not type(None))
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        values = tuple(parsed(part, inner) for part in text.split(","))
        # one number is taken for both sides of a pair of sizes
        return values[0] if len(values) == 1 and inner is int else values
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text) if kind in (int, float) else text
    except ValueError:
        return text
