"""What a caller gave to `fit` in Python: named in the configuration, and checked.

A file of settings cannot hold a function, a model or data in memory. It holds their
names, so that a run which goes on without them says what it lacks.
"""

import re
import shlex
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from vitedu.data.augment import Augment
from vitedu.errors import UserError
from vitedu.model import ResNet, ViT
from vitedu.model.about import LossName
from vitedu.train.config import TrainConfig
from vitedu.train.losses import Loss
from vitedu.weights.save import expected_shapes

if TYPE_CHECKING:
    from vitedu.data.image_source import PictureChange


class Objects(NamedTuple):
    """What `fit` was given besides a configuration; None: nothing."""

    model: ViT | ResNet | None = None
    train: Any = None
    validation: Any = None
    test: Any = None
    loss: LossName | Loss | None = None
    augment: "Augment | PictureChange | None" = None

    @property
    def names(self) -> str | None:
        """ "train=ImageFolder loss=focal_loss", of what is given; None: nothing."""
        return names_given(**self._asdict())

    @property
    def has_data(self) -> bool:
        """Whether data are among them that no path names."""
        parts = (self.train, self.validation, self.test)
        return any(
            part is not None and not isinstance(part, str | PathLike)
            for part in parts
        )


def settled(
    config: TrainConfig, objects: Objects
) -> tuple[TrainConfig, Objects]:
    """`config` with what settings can say, and the objects that are left over.

    A path to train on, a share to validate on, a loss by its name and an `Augment`
    are settings. What an object takes the place of goes to its default. UserError:
    label smoothing, which a loss of the caller's would not know of.
    """
    changes: dict[str, Any] = {}
    train, validation = objects.train, objects.validation
    loss, augment = objects.loss, objects.augment
    if isinstance(train, str | PathLike):
        changes |= {"dataset": fspath(train), "data": None}
        train = None
    if isinstance(validation, int | float):
        changes["validation"] = validation
        validation = None
    if isinstance(loss, str):
        changes["loss"] = loss
        loss = None
    elif loss is not None:
        if not callable(loss):
            raise TypeError(
                f"loss must be a name or a function, got {type(loss).__name__}"
            )
        if config.label_smoothing:
            raise UserError(
                f"label_smoothing={config.label_smoothing} belongs to the losses that "
                f"have a name, and loss={name_of(loss)} would not know of it; set "
                "label_smoothing=0, and smooth in your loss"
            )
        changes["loss"] = "softmax"
    if isinstance(augment, Augment):
        changes["augment"] = augment
        augment = None
    elif augment is not None:
        if not callable(augment):
            raise TypeError(
                "augment must be an Augment or a function, got "
                f"{type(augment).__name__}"
            )
        changes["augment"] = Augment()
    left = Objects(
        objects.model, train, validation, objects.test, loss, augment
    )
    return replace(config, **changes), left


def names_given(**given: Any) -> str | None:
    """ "loss=focal_loss train=ImageFolder", of what is not None; None: nothing.

    As in a shell, a word with a blank in it is quoted: `'test=my photos'`.
    """
    words = [
        f"{name}={name_of(value)}"
        for name, value in given.items()
        if value is not None
    ]
    return joined(words) or None


def joined(words: list[str]) -> str:
    """Words with blanks between them, from which `shlex.split` makes the words."""
    return " ".join(
        shlex.quote(word) if re.search(r"""[\s"'\\]""", word) else word
        for word in words
    )


def name_of(value: Any) -> str:
    """What to call an object: a path, a function's name, or that of its type."""
    if isinstance(value, str | PathLike):
        return fspath(value)
    if hasattr(value, "func"):  # functools.partial
        return name_of(value.func)
    name = getattr(value, "__name__", type(value).__name__)
    return str(name).strip("<>")  # <lambda>


def check_given(recorded: str | None, given: str | None) -> None:
    """UserError if a configuration names objects that are not given now."""
    if recorded is None or recorded == given:
        return
    words, now = shlex.split(recorded), shlex.split(given or "")
    lacking = [word for word in words if word not in now]
    arguments = [
        "{0}={0}".format(word.partition("=")[0]) for word in lacking or words
    ]
    raise UserError(
        f"this run was given {' and '.join(lacking or words)} in Python, which can't "
        "be stored; resume from Python: vitedu.train.fit(config, out, "
        f"{', '.join(arguments)})"
    )


def check_model(model: ViT | ResNet) -> None:
    """Whether a model that was given can be trained, and written.

    TypeError: it is none of vitedu's. UserError: it is not in float32, or it holds
    other weights than its configuration describes.
    """
    if not isinstance(model, ViT | ResNet):
        raise TypeError(
            f"model must be a ViT or a ResNet of vitedu, got {type(model).__name__}; "
            "of a wrapper (DDP, torch.compile) give the model inside"
        )
    for name, weight in model.named_parameters():
        if weight.dtype != torch.float32:
            raise UserError(
                f"{name} is {weight.dtype}, and training wants weights in float32; "
                "call model.float(), and set precision= for the arithmetic"
            )
    described = expected_shapes(model.config)
    shapes = {name: each.shape for name, each in model.state_dict().items()}
    for name in sorted(described.keys() | shapes.keys()):
        here, there = (
            tuple(each[name]) if name in each else "none"
            for each in (shapes, described)
        )
        if here != there:
            raise UserError(
                f"{name} has the shape {here} in the model, {there} by its "
                "configuration, so its weights could not be loaded again; change the "
                "head with model.reset_classifier, and train anything else in a loop "
                "of your own"
            )
