"""What a network carries besides its weights.

`model.preprocess` says how a picture becomes its input, `class_names` what its
outputs are called, `loss_name` how it was trained, `load_report` what became of
the file it came from.
"""

import json
from collections.abc import Iterable
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vitedu.errors import UserError, explained
from vitedu.files import read_header, write_header
from vitedu.model.resize import ResizeMode
from vitedu.pictures import PreprocessSpec

if TYPE_CHECKING:
    from vitedu.model.config import ViTConfig
    from vitedu.model.resnet import ResNetConfig

LossName = Literal["softmax", "sigmoid"]


class Usage(NamedTuple):
    """What travels with a network besides its configuration and weights."""

    preprocess: PreprocessSpec
    class_names: tuple[str, ...] = ()  # by index; empty: unknown
    loss_name: LossName | None = None
    # whose resampling fits the positions to another grid
    resize_mode: ResizeMode = "paper"

    def to_json(self) -> dict[str, Any]:
        """Plain values; loss and resizing only if they aren't the usual.

        So any loss but "sigmoid" reads back as None.
        """
        content: dict[str, Any] = {
            "preprocess": self.preprocess.to_json(),
            "class_names": list(self.class_names),
        }
        if self.loss_name not in (None, "softmax"):
            content["loss"] = self.loss_name
        if self.resize_mode != "paper":
            content["resize"] = self.resize_mode
        return content

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Usage":
        """What `to_json` wrote, among other keys. UserError: a bad value."""
        for name in ("preprocess", "class_names"):
            if name not in values:
                raise UserError(f"{name} is missing")
        spec = PreprocessSpec.from_json(values["preprocess"])
        names = checked_names(values["class_names"])
        loss, resize = values.get("loss"), values.get("resize", "paper")
        for key, value, known in (
            ("loss", loss, (None, *get_args(LossName))),
            ("resize", resize, get_args(ResizeMode)),
        ):
            if value not in known:
                words = ", ".join(filter(None, known))
                raise UserError(f"{key} is {value!r}, not one of {words}")
        return cls(spec, names, loss, resize)


def checked_names(
    names: Any, num_classes: int | None = None
) -> tuple[str, ...]:
    """Class names as a tuple. UserError: no list of strings, one per class."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UserError(f"class_names must be a list of names, got {names!r}")
    names = tuple(names)
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise UserError(
                f"class_names must be strings, got {name!r} for class {index}"
            )
    if names and num_classes not in (None, len(names)):
        raise UserError(
            f"{len(names)} class names do not fit {num_classes} classes; give "
            "one for each class, or none"
        )
    return names


class LoadReport(NamedTuple):
    """What became of a file's tensors."""

    source: str
    dialect: str
    loaded: tuple[str, ...]  # taken over unchanged
    dropped: tuple[str, ...]  # in the file, not in the model
    new: tuple[str, ...]  # in the model, not in the file
    # positions, resized to another grid
    resized: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what else is to be known, a sentence each


class Classifier(nn.Module):
    """A network from images to logits, and what is known about it.

    A new one has the authors' preprocessing for its size and channels, no class
    names, no loss and no report; `vitedu.load` sets them from the file.

    With Hugging Face's mixin, `class HubViT(ViT, PyTorchModelHubMixin)`, all
    that is kept in model.safetensors, which `from_pretrained` and `vitedu.load`
    read; config.json has what the class is built from.
    """

    head_name: ClassVar[str]  # of the layer that gives the logits
    takes_any_size: bool

    def __init__(self, config: "ViTConfig | ResNetConfig") -> None:
        super().__init__()
        self.config: Any = config
        self.num_classes = config.num_classes
        self.load_report: LoadReport | None = None
        # what they mean is said in Usage
        self.preprocess = PreprocessSpec(config.image_size, config.in_channels)
        self.class_names: tuple[str, ...] = ()
        self.loss_name: LossName | None = None
        self.resize_mode: ResizeMode = "paper"

    @property
    def usage(self) -> Usage:
        """What travels with it besides its configuration and weights."""
        return Usage(
            self.preprocess,
            tuple(self.class_names),
            self.loss_name,
            self.resize_mode,
        )

    @usage.setter
    def usage(self, usage: Usage) -> None:
        self.preprocess, self.class_names = usage[:2]
        self.loss_name, self.resize_mode = usage[2:]

    if TYPE_CHECKING:  # nn.Module says that a call returns Any

        def __call__(self, images: Tensor) -> Tensor:
            """(b, c, h, w) -> (b, classes)."""
            raise NotImplementedError

    def blocks_in_order(self) -> Iterable[nn.Module]:
        """The blocks between stem and final norm, first to last."""
        raise NotImplementedError

    def get_classifier(self) -> nn.Module:
        """The layer that gives the logits; without classes an nn.Identity."""
        return self.get_submodule(self.head_name)

    @property
    def pretrained_cfg(self) -> dict[str, Any]:
        """The input in timm's terms, for `timm.data.resolve_model_data_config`.

        A new dict each time; change `model.preprocess` to change it.
        """
        spec = self.preprocess
        modules = self.named_modules()
        convolutions = (x for x, each in modules if isinstance(each, nn.Conv2d))
        return {
            "num_classes": self.num_classes,
            "input_size": (spec.in_channels, *spec.image_size),
            "fixed_input_size": not self.takes_any_size,
            "pool_size": None,
            "interpolation": spec.interpolation,
            "crop_pct": 1.0 if spec.crop is None else spec.crop,
            "crop_mode": "squash" if spec.crop is None else "center",
            "mean": spec.mean,
            "std": spec.std,
            "first_conv": next(convolutions),
            "classifier": self.head_name,
        }

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Keep only each block's input; recompute the rest going backward.

        Less memory, a third more time. Settings that choose the kernels of the
        forward pass must still hold in the backward pass.
        """
        for block in self.blocks_in_order():
            vars(block).pop("forward", None)  # the class's own is left
            if enable:
                block.forward = partial(
                    checkpoint, block.forward, use_reentrant=False
                )

    def activation_checkpointing_enable(
        self,
        activation_checkpointing_kwargs: dict[str, Any] | None = None,
        every_n_layers: int = 1,
        offload: bool = False,
    ) -> None:
        """`set_grad_checkpointing` as transformers' Trainer calls it.

        UserError: settings other than `use_reentrant=False`.
        """
        settings = activation_checkpointing_kwargs or {"use_reentrant": False}
        usual = {"use_reentrant": False}, 1, False
        if (settings, every_n_layers, offload) != usual:
            raise UserError(
                "every block is recomputed, with use_reentrant=False and "
                "without offloading; leave out the other settings of "
                "activation checkpointing"
            )
        self.set_grad_checkpointing()

    def gradient_checkpointing_enable(
        self, gradient_checkpointing_kwargs: dict[str, Any] | None = None
    ) -> None:
        """`activation_checkpointing_enable` by its name before 2026."""
        self.activation_checkpointing_enable(gradient_checkpointing_kwargs)

    def gradient_checkpointing_disable(self) -> None:
        """`set_grad_checkpointing(False)`."""
        self.set_grad_checkpointing(False)

    # What Hugging Face's mixin calls, which comes after this class in the order
    # of bases: `super` is it; Any, since a network without it lacks the methods

    def _save_pretrained(self, save_directory: Path) -> None:
        mixin: Any = super()
        mixin._save_pretrained(save_directory)
        fields, usage = self.config.to_json(), self.usage.to_json()
        text = json.dumps({"config": fields} | usage, sort_keys=True)
        write_header(save_directory / "model.safetensors", {"vitedu": text})
        # else a subclass has arguments of its own, which the mixin writes
        if is_dataclass(vars(self).get("_hub_mixin_config")):
            text = json.dumps(fields, sort_keys=True, indent=2)
            (save_directory / "config.json").write_text(text, encoding="utf-8")

    @classmethod
    def _load_as_safetensor(
        cls, model: Any, model_file: str, map_location: str, strict: bool
    ) -> Any:
        """The weights, and what else the file says."""
        mixin: Any = super()
        model = mixin._load_as_safetensor(
            model, model_file, map_location, strict
        )
        kinds = ValueError, KeyError, TypeError, AttributeError
        with explained(f"{model_file} holds unreadable metadata", *kinds):
            content = json.loads(read_header(model_file).get("vitedu", "null"))
            if content is None:
                return model
            usage = Usage.from_json(content)
            names = checked_names(usage.class_names, model.num_classes)
        model.usage = usage._replace(class_names=names)
        return model
