"""Batches that fit a model, and eval mode while it is measured."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from vitedu.data.dataset import Split, match_classes
from vitedu.data.feed.floats import RangeCheck
from vitedu.data.feed.loader import read_batch, yields_batches
from vitedu.data.feed.source import Batches, explain_killed_workers
from vitedu.data.imagenet import NUM_1K, classes_of, imagenet_classes
from vitedu.data.labels import check_labels
from vitedu.data.open import (
    as_source,
    evaluation_part,
    open_split,
    warn_of_skipped,
)
from vitedu.errors import UserError, counted
from vitedu.pictures import PreprocessSpec
from vitedu.weights.load import load

# a model, or what `vitedu.load` takes
Model: TypeAlias = nn.Module | str | PathLike[str]
# (images, labels) batches, or whatever else `vitedu.data.as_source` takes
Data: TypeAlias = Any
# of ImageNet's 1,000 names: libraries spell them differently
FEWEST_ALIKE = 500


def loaded(model: Model) -> nn.Module:
    return load(model) if isinstance(model, str | PathLike) else model


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch to eval mode, then restore each module's own mode."""
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in in_training:
            module.training = True


def num_classes_of(model: nn.Module) -> int:
    """Number of classes of the model; 0 if unknown."""
    own = getattr(model, "num_classes", None)
    return own if isinstance(own, int) and own else len(class_names_of(model))


def class_names_of(model: nn.Module) -> tuple[str, ...]:
    return tuple(getattr(model, "class_names", ()))


def batches_of(
    model: nn.Module,
    data: Data,
    batch_size: int,
    num_workers: int,
    *,
    by_class_of_model: bool = True,
) -> Batches:
    """(images (b, c, h, w), labels (b,)) on the model's device, in its dtype.

    A DataLoader's batches keep their size. With `by_class_of_model` labels are
    the model's classes, otherwise the data's own.
    """
    spec = getattr(model, "preprocess", None)
    spec = spec if isinstance(spec, PreprocessSpec) else None
    like = next(model.parameters(), None)
    if yields_batches(data):
        num_classes = num_classes_of(model) if by_class_of_model else None
        found = _given(data, spec, num_classes, needs_floats=like is not None)
    elif spec is None or like is None:
        raise ValueError(
            "the model has no preprocess, so it only takes prepared batches; "
            "load it with vitedu.load, or set model.preprocess = "
            "PreprocessSpec(...)"
        )
    else:
        if by_class_of_model and isinstance(data, str | PathLike):
            data = evaluation_part(data)
        split = open_split(data)
        warn_of_skipped(data, split)
        if by_class_of_model:
            split = _by_class_of_model(split, model)
        source = as_source(
            split, preprocess=spec, num_workers=num_workers, device=like.device
        )
        found = source.batches(epoch=0, seed=0, batch_size=batch_size)
    for images, labels in found:
        if like is None:  # a function of its input alone
            yield images, labels
        else:
            yield images.to(like.device, like.dtype), labels.to(like.device)


def _given(
    data: Data,
    spec: PreprocessSpec | None,
    num_classes: int | None,
    needs_floats: bool,
) -> Batches:
    check = None
    # an iterator's may be all bright: a source's own, or the rest of a loader's
    if spec is not None and not hasattr(data, "__next__"):
        check = RangeCheck(spec)
    for number, batch in enumerate(data):
        where = f"batch {number}"
        images, labels = read_batch(batch, spec, where, check)
        if num_classes is not None:
            check_labels(where, labels, num_classes)
        if needs_floats and not images.is_floating_point():
            raise UserError(
                f"{where} has images of {images.dtype}, and the model has "
                "no preprocess for them; give floats, or set "
                "model.preprocess = PreprocessSpec(...)"
            )
        yield images, labels


def _by_class_of_model(split: Split, model: nn.Module) -> Split:
    names, num_classes = class_names_of(model), num_classes_of(model)
    if not names and not hasattr(model, "num_classes"):
        return split  # the logits will tell
    if split.is_named:
        split = match_folders(split, names, num_classes)
    elif names:
        split = split.with_classes(names)
    if split.num_classes > num_classes:
        raise UserError(
            f"{split.name} has {counted(split.num_classes, 'class')}, but the "
            f"model has {num_classes}"
        )
    return split


def all_rows(
    compute: Callable[[Tensor], Tensor],
    batches: Iterable[tuple[Tensor, Tensor]],
    what: str,
) -> tuple[Tensor, Tensor]:
    rows, all_labels = [], []
    with torch.no_grad(), explain_killed_workers():
        for images, labels in batches:
            rows.append(compute(images).cpu())
            all_labels.append(labels.cpu())
    if not sum(map(len, rows)):
        raise ValueError(f"{what} needs at least one image, got none")
    return torch.cat(rows), torch.cat(all_labels)


def match_folders(
    pictures: Split, names: Sequence[str], num_classes: int
) -> Split:
    """`match_classes`, plus ImageNet's classes under other spellings.

    ImageNet-V2's folders are numbers, 0 to 999, which sort wrongly as text. If
    all 1,000 classes have names of several words, their order is enough.
    """
    ours, labels = pictures.class_names, pictures.labels
    if num_classes != NUM_1K or (names and not are_imagenet(names)):
        return match_classes(pictures, names, num_classes)
    if ours and {str(number) for number in range(NUM_1K)}.issuperset(ours):
        labels = torch.tensor([int(name) for name in ours])[labels]
    elif not are_imagenet(ours):
        return match_classes(pictures, names, num_classes)
    names = tuple(names) or imagenet_classes().names
    return replace(pictures, labels=labels, class_names=names)


def are_imagenet(names: Sequence[str]) -> bool:
    if len(names) != NUM_1K:
        return False
    num_alike = sum(
        name.partition(",")[0].casefold() in (ours.casefold(), code)
        for name, ours, code in zip(names, *imagenet_classes(), strict=True)
    )
    return num_alike >= FEWEST_ALIKE


def rows_of_classes(
    known: Sequence[str], names: Sequence[str]
) -> list[int | None] | None:
    """Which of the `known` classes each of `names` is, or WordNet's code.

    Folders may write _ for a space. A name that both have twice, as ImageNet's
    two cranes, is taken in its order; one that only `known` has twice is None.
    All are None if one isn't known.
    """
    known, spellings = tuple(known), [tuple(known)]
    classes = classes_of(len(known))
    if classes and (known == classes.names or are_imagenet(known)):
        spellings += [*classes, (*classes.names, *classes.codes)]
    wanted = [name.replace("_", " ") for name in names]
    for spelling in spellings:
        places: dict[str, list[int]] = {}
        for place, name in enumerate(spelling):
            index = place % len(known)
            places.setdefault(name.replace("_", " "), []).append(index)
        if not wanted or not all(name in places for name in wanted):
            continue
        certain = {places[x][0] for x in wanted if len(places[x]) == 1}
        rows = {}
        for name, times in Counter(wanted).items():
            found = places[name]
            if len(found) > 1:
                found = [x for x in found if x not in certain]
            rows[name] = iter(found if len(found) == times else [None] * times)
        found = [next(rows[name]) for name in wanted]
        return found if any(x is not None for x in found) else None
    return None


def check_imagenet_classes(model: nn.Module, what: str) -> None:
    names = class_names_of(model)
    if num_classes_of(model) != NUM_1K or (names and not are_imagenet(names)):
        raise UserError(
            f"{what} needs a model with ImageNet's 1,000 classes; give one "
            "that was trained on ImageNet"
        )
