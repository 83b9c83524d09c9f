"""Chapter 8: a batch in slices, and a sum over processes."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitedu import plain
from vitedu.check.mnist import small_run
from vitedu.check.verdict import (
    Mistake,
    Wrong,
    agreement,
    call,
    check_function,
    judged,
    numbers,
)

Run = Callable[[Any, Any, Tensor, Tensor, int], Any]


def three_updates(step: Run) -> Tensor:
    """The weights after each of three batches of five, in slices of two."""
    model, optimizer, batches, labels = small_run()
    weights = []
    for images, truth in zip(batches, labels, strict=True):
        step(model, optimizer, images, truth, 2)
        flat = nn.utils.parameters_to_vector(model.parameters())
        weights.append(flat.detach().clone())
    return torch.stack(weights)


def sliced(
    share: Callable[[Tensor, int, int], Tensor],
    zero: bool = True,
    every: bool = False,
    slices: Callable[[Tensor], Any] = lambda x: x.split(2),
) -> Callable[[], Tensor]:
    """Updates whose slices count by `share(losses, images, slices)`."""

    def step(model: Any, optimizer: Any, images: Any, labels: Any, _: int):
        if zero:
            optimizer.zero_grad()
        parts = list(zip(slices(images), slices(labels), strict=True))
        for x, y in parts:
            losses = F.cross_entropy(model(x), y, reduction="none")
            share(losses, len(images), len(parts)).backward()
            if every:
                optimizer.step()
                optimizer.zero_grad()
        if not every:
            optimizer.step()

    return lambda: three_updates(step)


def wholly(losses: Tensor, images: int, slices: int) -> Tensor:
    return losses.sum() / images


SLICES = [
    Mistake(
        "you take the mean of each slice and divide by the number of slices, "
        "so the images of a short last slice count more; divide each slice's "
        "sum by the size of the whole batch",
        sliced(lambda losses, images, slices: losses.mean() / slices),
    ),
    Mistake(
        "the mean losses of the slices add up, so the gradient is too long by "
        "the number of slices; divide each slice's sum by the whole batch",
        sliced(lambda losses, images, slices: losses.mean()),
    ),
    Mistake(
        "you add up sums: the gradient grows with the batch; divide by the "
        "number of images",
        sliced(lambda losses, images, slices: losses.sum()),
    ),
    Mistake(
        "the gradients of the last batch are still there: zero_grad() is "
        "missing at the start",
        sliced(wholly, zero=False),
    ),
    Mistake(
        "there is an update after every slice, so later slices see other "
        "weights; one optimizer.step() at the end",
        sliced(wholly, every=True),
    ),
    Mistake(
        "there is an update after every slice, each with its own mean, so it's "
        "just training with smaller batches; one optimizer.step() at the end",
        sliced(lambda losses, images, slices: losses.mean(), every=True),
    ),
    Mistake(
        "only the last slice counts: zero_grad() belongs before the loop",
        sliced(wholly, slices=lambda x: [x[4:]]),
    ),
    Mistake(
        "the last, shorter slice is left out",
        sliced(wholly, slices=lambda x: x[:4].split(2)),
    ),
    Mistake(
        "the last, shorter slice is filled up with images from the start, "
        "which then count twice",
        sliced(wholly, slices=lambda x: torch.cat([x, x[:1]]).split(2)),
    ),
]


@judged
def accumulated_step(theirs: Any) -> str:
    """Check `accumulated_step(model, optimizer, images, labels, size)`."""
    check_function(theirs)
    return agreement(
        lambda: three_updates(theirs),
        lambda: three_updates(
            lambda model, optimizer, x, y, _: plain.train_step(
                model, optimizer, x, y
            )
        ),
        [()],
        SLICES,
    )


@judged
def all_reduce(theirs: Any) -> str:
    """Check `all_reduce(vectors)`: each becomes the sum of all."""
    check_function(theirs)
    for count in (2, 3, 4):
        vectors = list(numbers(count, 2 * count))
        found = call(theirs, [vector.clone() for vector in vectors])
        if not isinstance(found, list | tuple) or len(found) != count:
            raise Wrong(f"return {count} vectors for {count} processes")
        check_sums(list(found), vectors)
    return "with 2, 3 and 4 processes, everyone has the sum"


def check_sums(found: list[Any], vectors: list[Tensor]) -> None:
    total = torch.stack(vectors).sum(dim=0)

    def close(x: Any, y: Tensor) -> bool:
        is_like = isinstance(x, Tensor) and x.shape == y.shape
        return is_like and torch.allclose(x, y, rtol=0, atol=1e-9)

    right = [close(each, total) for each in found]
    if all(right):
        return
    if all(close(each, total / len(vectors)) for each in found):
        raise Wrong("that's the mean of the vectors; everyone gets the sum")
    if all(map(close, found, vectors)):
        raise Wrong("the vectors come back as they were")
    if any(right):
        raise Wrong(
            f"with {len(vectors)} processes, only {sum(right)} of them have "
            "the sum; the finished chunks still have to go round"
        )
    if all(torch.isclose(each, total).any() for each in found):
        raise Wrong(
            f"with {len(vectors)} processes, everyone has a finished chunk, "
            "but not all of them; the sums still have to go round: "
            "2 * (count - 1) turns"
        )
    raise Wrong(f"with {len(vectors)} processes, nobody has the sum")
