"""What a measure needs of model and data: batches that fit, and the eval mode.

`for images, labels in batches_of(model, "photos/val"): ...`
"""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, TypeAlias

from torch import Tensor, nn

from vitedu.data.folders import evaluation_part
from vitedu.data.images import Pictures
from vitedu.data.kinds import open_data, warn_of_skipped
from vitedu.data.labels import check_labels
from vitedu.data.loader_source import read_batch, yields_batches
from vitedu.data.prepared import RangeCheck
from vitedu.errors import UserError
from vitedu.evaluate.match import match_folders
from vitedu.pictures import PreprocessSpec

# (images, labels) batches, or whatever else `vitedu.data.as_source` takes
Data: TypeAlias = Any
# How many functions, decorators among them, are between a warning of `prepared`
# and the line that calls a measure.
TO_THE_CALLER = 7


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode, and afterwards for each module the mode that it had."""
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in in_training:
            module.training = True


def batches_of(
    model: nn.Module,
    data: Data,
    *,
    batch_size: int,
    num_workers: int,
    by_class_of_model: bool,
) -> Iterator[tuple[Tensor, Tensor]]:
    """(images (b, c, h, w), labels (b,)) on the model's device, in its dtype.

    Batches of the caller come as they are cut: floats as they are, uint8
    prepared as `model.preprocess` says. Of all else `batch_size` images are
    prepared at a time; pictures of a folder that cannot be read are left out,
    and a warning names them. `by_class_of_model`: labels mean the model's
    classes; otherwise the data's own, of a folder in alphabetical order. A
    model without weights gets its batches unmoved.

    UserError: the data have another form, or classes that the model does not
    have.
    """
    if not yields_batches(data):
        yield from prepared(
            model, data, batch_size, num_workers, by_class_of_model
        )
        return
    spec = preprocess_of(model)
    check = None
    # an iterator's may be all bright: a source's own, or the rest of a loader's
    if spec is not None and not hasattr(data, "__next__"):
        check = RangeCheck(spec, "the images")
    like = next(model.parameters(), None)
    for number, batch in enumerate(data):
        where = f"batch {number}"
        images, labels = read_batch(batch, spec, where, check)
        if by_class_of_model:
            check_labels(where, labels, num_classes_of(model))
        if like is None:  # a function of its input alone
            yield images, labels
            continue
        if not images.is_floating_point():
            raise UserError(
                f"{where} has images of {images.dtype}, and the model has "
                "no preprocess for them; give floats, or set "
                "model.preprocess = PreprocessSpec(...)"
            )
        yield images.to(like.device, like.dtype), labels.to(like.device)


def prepared(
    model: nn.Module,
    data: Data,
    batch_size: int,
    num_workers: int,
    by_class_of_model: bool,
) -> Iterator[tuple[Tensor, Tensor]]:
    """The same for data that `model.preprocess` prepares."""
    spec = needed_spec(model)
    if by_class_of_model and isinstance(data, str | PathLike):
        data = evaluation_part(data)
    known = open_data(data)
    warn_of_skipped(data, known, TO_THE_CALLER)
    names = tuple(getattr(model, "class_names", ()))
    num_classes = num_classes_of(model)
    if by_class_of_model and isinstance(known.content, Pictures):
        known = open_data(match_folders(known.content, names, num_classes))
    elif by_class_of_model and names:
        known = known.called(names)
    like = next(model.parameters())
    source = known.source(
        preprocess=spec, num_workers=num_workers, device=like.device
    )
    if by_class_of_model and source.num_classes > num_classes:
        raise UserError(
            f"{known.name} has {source.num_classes} classes, but the model has "
            f"{num_classes}"
        )
    for images, labels in source.batches(
        epoch=0, seed=0, batch_size=batch_size
    ):
        yield images.to(like.device, like.dtype), labels.to(like.device)


def preprocess_of(model: nn.Module) -> PreprocessSpec | None:
    """How the model expects its pictures; None: unknown."""
    spec = getattr(model, "preprocess", None)
    return spec if isinstance(spec, PreprocessSpec) else None


def needed_spec(model: nn.Module) -> PreprocessSpec:
    """The same. ValueError: it is unknown."""
    spec = preprocess_of(model)
    if spec is None:
        raise ValueError(
            "the model has no preprocess, so it only takes prepared batches; "
            "load it with vitedu.load, or set model.preprocess = "
            "PreprocessSpec(...)"
        )
    return spec


def num_classes_of(model: nn.Module) -> int:
    """How many classes the model has; 0: unknown."""
    own = getattr(model, "num_classes", None)
    names: tuple[str, ...] = getattr(model, "class_names", ())
    return own if isinstance(own, int) and own else len(names)
