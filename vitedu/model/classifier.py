"""What a network of ours carries besides its weights.

`model.preprocess` says how a picture becomes its input, `model.class_names` what its
outputs are called, `model.load_report` what became of the file that it came from.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vitedu.errors import UserError
from vitedu.pictures import PreprocessSpec


class LoadReport(NamedTuple):
    """What became of the tensors of a file."""

    source: str
    dialect: str
    loaded: tuple[str, ...]  # taken over unchanged
    dropped: tuple[str, ...]  # in the file, not in the model
    new: tuple[str, ...]  # in the model, not in the file
    resized: tuple[str, ...] = ()  # positions, fitted to another grid
    notes: tuple[str, ...] = ()  # what else is to be known, a sentence each


class Classifier(nn.Module):
    """A network from images to logits, and what is known about it.

    A new one has the authors' preprocessing for its size and channels, no class names
    and no report; `vitedu.load` puts what the file says in their place.
    """

    head_name: ClassVar[str]  # of the layer that gives the logits
    takes_any_size: ClassVar[bool]

    def __init__(
        self, image_size: tuple[int, int], in_channels: int, num_classes: int
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.preprocess = PreprocessSpec(image_size, in_channels)
        self.class_names: tuple[str, ...] = ()  # by index; empty: unknown
        self.load_report: LoadReport | None = None

    if TYPE_CHECKING:  # nn.Module says that a call returns Any

        def __call__(self, images: Tensor) -> Tensor:
            """(b, c, h, w) -> (b, classes)."""
            raise NotImplementedError

    def blocks_in_order(self) -> Iterable[nn.Module]:
        """The blocks between stem and final norm, the first first."""
        raise NotImplementedError

    @property
    def pretrained_cfg(self) -> dict[str, Any]:
        """What timm's functions ask a model about its input, under timm's names.

        With it `timm.data.resolve_model_data_config(model)` finds `model.preprocess`.
        A new dict each time; change `model.preprocess` to change it.
        """
        spec = self.preprocess
        convolutions = (
            name
            for name, module in self.named_modules()
            if isinstance(module, nn.Conv2d)
        )
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
        """Have each block keep its input alone, in place: memory for time.

        The backward pass computes the rest again, with the dropout of the first time: a
        forward pass more, a third of a step. Names of parameters stay. Whatever chose
        the kernels of the forward pass has to be in force in the backward pass as well.
        """
        for block in self.blocks_in_order():
            vars(block).pop("forward", None)  # the class's own is left
            if enable:
                block.forward = partial(
                    checkpoint, block.forward, use_reentrant=False
                )


def names_for(num_classes: int, class_names: Sequence[str]) -> tuple[str, ...]:
    """The names as a tuple. UserError: there are some, but not one for each class."""
    if class_names and len(class_names) != num_classes:
        raise UserError(
            f"{len(class_names)} class names do not fit {num_classes} classes; give "
            "one for each class, or none"
        )
    return tuple(class_names)
