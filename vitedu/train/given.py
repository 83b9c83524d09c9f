"""What a caller passes to `fit` in Python: recorded by its name, and checked.

The settings of a run are text. They cannot contain a function, a model or data
in memory, so they record its name: a run that goes on without it can then say
so.
"""

import re
import shlex
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from vitedu.data.augment import Augment
from vitedu.errors import UserError
from vitedu.model import Classifier
from vitedu.model.classifier import LossName
from vitedu.model.network import Network
from vitedu.train.config import TrainConfig
from vitedu.train.losses import Loss
from vitedu.train.parts import path_as_dataset
from vitedu.weights.save import expected_shapes

if TYPE_CHECKING:
    from vitedu.data.image_source import PictureChange


class Passed(NamedTuple):
    """The arguments of `fit` besides the configuration; None: not passed."""

    model: Network | None = None
    train: Any = None
    validation: Any = None
    test: Any = None
    loss: LossName | Loss | None = None
    augment: "Augment | PictureChange | None" = None

    @property
    def names(self) -> str | None:
        """What `TrainConfig.given` has: "train=ImageFolder loss=focal_loss".

        As in a shell, a word with a blank in it is quoted: `'test=my photos'`.
        """
        words = [
            f"{argument}={name_of(value)}"
            for argument, value in self._asdict().items()
            if value is not None
        ]
        return " ".join(map(quoted, words)) or None

    @property
    def has_data(self) -> bool:
        """Whether there are data among them that no path names."""
        parts = (self.train, self.validation, self.test)
        return any(
            part is not None and not isinstance(part, str | PathLike)
            for part in parts
        )


def into_settings(
    config: TrainConfig, passed: Passed
) -> tuple[TrainConfig, Passed]:
    """Move into `config` what settings can say; the objects that are left over.

    A path to train on, a share to validate on, a loss by its name and an
    `Augment` are settings. A setting that an object replaces goes to its
    default.
    UserError: there is label smoothing, which a loss function wouldn't know of.
    """
    config, train = path_as_dataset(config, passed.train)
    left = passed._replace(train=train)
    changes: dict[str, Any] = {}
    if isinstance(passed.validation, int | float):
        changes["validation"] = passed.validation
        left = left._replace(validation=None)
    if isinstance(passed.loss, str):
        changes["loss"] = passed.loss
        left = left._replace(loss=None)
    elif passed.loss is not None:
        check_callable("loss", passed.loss, "a name")
        if config.label_smoothing:
            raise UserError(
                f"label_smoothing={config.label_smoothing} works with the "
                "losses that have a name, and not with "
                f"loss={name_of(passed.loss)}; set label_smoothing=0, and "
                "smooth in your loss"
            )
        changes["loss"] = "softmax"
    if isinstance(passed.augment, Augment):
        changes["augment"] = passed.augment
        left = left._replace(augment=None)
    elif passed.augment is not None:
        check_callable("augment", passed.augment, "an Augment")
        changes["augment"] = Augment()
    return replace(config, **changes), left


def check_callable(name: str, value: Any, other: str) -> None:
    """TypeError unless `value` is a function; it might also be `other`."""
    if not callable(value):
        raise TypeError(
            f"{name} must be {other} or a function, got {type(value).__name__}"
        )


def quoted(word: str) -> str:
    """A word that `shlex.split` gives back; plain ones are left as they are."""
    return shlex.quote(word) if re.search(r"""[\s"'\\]""", word) else word


def name_of(value: Any) -> str:
    """What to call an object: its path, the function's name or its type's."""
    if isinstance(value, str | PathLike):
        return fspath(value)
    if hasattr(value, "func"):  # functools.partial
        return name_of(value.func)
    name = getattr(value, "__name__", type(value).__name__)
    return str(name).strip("<>")  # <lambda>


def check_passed_again(recorded: str | None, now: str | None) -> None:
    """UserError if a configuration names objects that aren't passed now."""
    if recorded is None or recorded == now:
        return
    words, present = shlex.split(recorded), shlex.split(now or "")
    missing = [word for word in words if word not in present] or words
    arguments = ["{0}={0}".format(word.partition("=")[0]) for word in missing]
    raise UserError(
        f"this run was given {' and '.join(missing)} in Python, which can't be "
        "stored; resume from Python: vitedu.train.fit(config, out, "
        f"{', '.join(arguments)})"
    )


def check_model(model: Network) -> None:
    """Refuse a model that can't be trained or written.

    TypeError: it isn't one of vitedu's. UserError: it is not in float32, or has
    other weights than its configuration describes.
    """
    if not isinstance(model, Classifier):
        raise TypeError(
            "model must be a ViT or a ResNet of vitedu, got "
            f"{type(model).__name__}; if it is a wrapper (DDP, torch.compile), "
            "pass the model inside"
        )
    for name, weight in model.named_parameters():
        if weight.dtype != torch.float32:
            raise UserError(
                f"{name} is {weight.dtype}, and training needs weights in "
                "float32; call model.float(), and set precision= for the "
                "arithmetic"
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
                f"{name} has the shape {here} in the model and {there} in its "
                "configuration, so its weights could not be loaded again; "
                "change the head with model.reset_classifier, and train "
                "anything else in a loop of your own"
            )
