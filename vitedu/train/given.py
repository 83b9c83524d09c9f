"""What a caller gave to `fit` in Python: named in the configuration, and checked.

A file of settings cannot hold a function, a model or data in memory. It holds their
names, so that a run which goes on without them says what it lacks.
"""

from os import PathLike, fspath
from typing import Any

import torch

from vitedu.errors import UserError
from vitedu.model import ResNet, ViT
from vitedu.weights.save import expected_shapes


def names_given(**given: Any) -> str | None:
    """ "loss=focal_loss train=ImageFolder", of what is not None; None: nothing."""
    words = [
        f"{name}={name_of(value)}"
        for name, value in given.items()
        if value is not None
    ]
    return " ".join(words) or None


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
    words = recorded.split(" ")
    lacking = [word for word in words if word not in (given or "").split(" ")]
    arguments = [
        "{0}={0}".format(word.partition("=")[0]) for word in lacking or words
    ]
    raise UserError(
        f"this run was given {' and '.join(lacking or words)} in Python, which no file "
        "can hold; go on with it from Python: vitedu.train.fit(config, out, "
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
