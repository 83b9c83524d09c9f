"""Chapter 5: a training step, its rate, and how often it is right."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitedu import plain
from vitedu.check.verdict import (
    Mistake,
    Wrong,
    agreement,
    call,
    check_function,
    judged,
    numbers,
    shaken,
)

Step = Callable[[nn.Module, Any, Tensor, Tensor], Any]


def small_run() -> tuple[nn.Module, Any, Tensor, Tensor]:
    """A linear model in float64, its optimizer, three batches, their labels."""
    model = shaken(nn.Linear(4, 3)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    labels = torch.tensor([[0, 2, 1, 1, 0], [1, 0, 2, 0, 2], [2, 2, 0, 1, 1]])
    return model, optimizer, numbers(3, 5, 4), labels


def three_steps(step: Step) -> tuple[Tensor, Tensor]:
    """The losses of three steps, and the weights after each."""
    model, optimizer, batches, labels = small_run()
    losses, weights = [], []
    for images, truth in zip(batches, labels, strict=True):
        loss = step(model, optimizer, images, truth)
        losses.append(torch.as_tensor(torch.nan if loss is None else loss))
        flat = nn.utils.parameters_to_vector(model.parameters())
        weights.append(flat.detach().clone())
    return torch.stack(losses).double(), torch.stack(weights)


def wrong_step(
    order: str,
    loss_of: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    says: Callable[[Tensor], Tensor] = lambda loss: loss,
) -> Callable[[], tuple[Tensor, Tensor]]:
    """Three steps whose parts come in this `order`."""

    def step(model: Any, optimizer: Any, images: Any, labels: Any) -> Tensor:
        loss = loss_of(model(images), labels)
        for part in order.split():
            {
                "zero": optimizer.zero_grad,
                "backward": loss.backward,
                "step": optimizer.step,
            }[part]()
        return says(loss.detach())

    return lambda: three_steps(step)


STEPS = [
    Mistake(
        "the gradients of all batches add up: optimizer.zero_grad() is missing",
        wrong_step("backward step"),
    ),
    Mistake(
        "the weights never move: either optimizer.step() is missing, or "
        "zero_grad() wipes the gradients out before it",
        wrong_step("zero backward"),
    ),
    Mistake(
        "each update uses the gradients of the batch before: step() comes "
        "before backward()",
        wrong_step("step zero backward"),
    ),
    Mistake(
        "F.cross_entropy takes a softmax itself; give it the logits, not "
        "probabilities",
        wrong_step(
            "zero backward step",
            lambda x, y: F.cross_entropy(x.softmax(dim=-1), y),
        ),
    ),
    Mistake(
        "the loss is a sum over the batch, so the step grows with the batch; "
        "take the mean, which is F.cross_entropy's default",
        wrong_step(
            "zero backward step",
            lambda x, y: F.cross_entropy(x, y, reduction="sum"),
        ),
    ),
    Mistake(
        "the weights are right, but you return the sum of the losses; return "
        "their mean",
        wrong_step("zero backward step", says=lambda loss: 5 * loss),
    ),
    Mistake(
        "the weights move uphill: check the sign of the loss",
        wrong_step("zero backward step", lambda x, y: -F.cross_entropy(x, y)),
    ),
]


@judged
def train_step(theirs: Any) -> str:
    """Check `train_step(model, optimizer, images, labels)`: the mean loss."""
    check_function(theirs)
    loss = call(
        theirs, *(x[0] if isinstance(x, Tensor) else x for x in small_run())
    )
    if loss is None:
        raise Wrong("it returns nothing; return the loss, detached")
    if isinstance(loss, Tensor) and loss.requires_grad:
        raise Wrong(
            "the loss still has its graph, so a list of losses would keep "
            "every batch in memory; return loss.detach()"
        )
    return agreement(
        lambda: three_steps(theirs),
        lambda: three_steps(plain.train_step),
        [()],
        STEPS,
    )


def every_rate(rate: Callable[..., float], *plan: float) -> Tensor:
    return torch.tensor([rate(step, *plan) for step in range(int(plan[1]) + 1)])


def cosine(progress: float) -> float:
    return (1 + math.cos(math.pi * progress)) / 2


def rising(
    after: Callable[[float], float],
    early: int = 0,
    progress: Callable[[int, float, float], float] = lambda step, all_, warm: (
        (step - warm) / (all_ - warm)
    ),
) -> Callable[..., Tensor]:
    """All rates where another rule than the book's holds after the warm-up."""

    def rate(step: int, lr: float, steps: float, warmup: float) -> float:
        if step < warmup:
            return lr * (step + early) / warmup
        return lr * after(progress(step, steps, warmup))

    return lambda *plan: every_rate(rate, *plan)


def without_warmup(*plan: float) -> Tensor:
    def rate(step: int, lr: float, steps: float, warmup: float) -> float:
        return plain.warmup_cosine(max(step, warmup), lr, steps, warmup)

    return every_rate(rate, *plan)


RATES = [
    Mistake(
        "the cosine starts at step 0, not after the warm-up, so the rate "
        "jumps there",
        rising(cosine, progress=lambda step, steps, warmup: step / steps),
    ),
    Mistake(
        "the cosine counts from the warm-up's end, but it divides by all "
        "steps, so it never comes down to 0",
        rising(
            cosine, progress=lambda step, steps, warmup: (step - warmup) / steps
        ),
    ),
    Mistake(
        "that's a quarter of a cosine's wave, which falls fastest at the end; "
        "the schedule is half a wave: (1 + cos(pi * progress)) / 2",
        rising(lambda progress: math.cos(math.pi / 2 * progress)),
    ),
    Mistake(
        "your cosine goes from 1 to -1, and so does the rate; add 1 and halve",
        rising(lambda progress: math.cos(math.pi * progress)),
    ),
    Mistake(
        "the half is missing: at the end of the warm-up the rate jumps to 2 lr",
        rising(lambda progress: 2 * cosine(progress)),
    ),
    Mistake(
        "after the warm-up it falls on a straight line; a cosine falls slowly "
        "at both ends",
        rising(lambda progress: 1 - progress),
    ),
    Mistake(
        "after the warm-up the rate stays; then it should fall to 0",
        rising(lambda progress: 1.0),
    ),
    Mistake(
        "the warm-up counts from 1, but steps from 0: the first rate is 0",
        rising(cosine, early=1),
    ),
    Mistake(
        "the warm-up is missing: it starts at the highest rate",
        without_warmup,
    ),
    Mistake(
        "math.cos wants radians: half a turn is math.pi, not 180",
        rising(lambda progress: (1 + math.cos(180 * progress)) / 2),
    ),
]


@judged
def warmup_cosine(theirs: Any) -> str:
    """Check `warmup_cosine(step, lr, num_steps, warmup_steps)`: a rate."""
    check_function(theirs)
    return agreement(
        lambda *plan: every_rate(theirs, *plan),
        lambda *plan: every_rate(plain.warmup_cosine, *plan),
        [(0.3, 50, 10), (0.1, 40, 5)],
        RATES,
    )


class Answers(nn.Module):
    """A model whose images are its logits already."""

    def forward(self, images: Tensor) -> Tensor:
        return images


def shares(images: Tensor, labels: Tensor, size: int) -> list[float]:
    """The share that is right in each batch."""
    right = (images.argmax(dim=-1) == labels).double()
    return [part.mean().item() for part in right.split(size)]


def right(images: Tensor, labels: Tensor) -> Tensor:
    return (images.argmax(dim=-1) == labels).sum()


ACCURACY = [
    Mistake(
        "you take the mean of the batches' accuracies, so each image of a "
        "short last batch counts more; add up, and divide once",
        lambda x, y, size: sum(parts := shares(x, y, size)) / len(parts),
    ),
    Mistake(
        "the last, shorter batch is left out",
        lambda x, y, size: (
            right(x[: len(x) // size * size], y[: len(x) // size * size])
            / (len(x) // size * size)
        ),
    ),
    Mistake(
        "the last, shorter batch isn't counted, but you divide by all images",
        lambda x, y, size: (
            right(x[: len(x) // size * size], y[: len(x) // size * size])
            / len(x)
        ),
    ),
    Mistake(
        "that's a percentage; return a share, from 0 to 1",
        lambda x, y, size: 100 * right(x, y) / len(x),
    ),
    Mistake(
        "that's how many are right; divide by the number of images",
        lambda x, y, size: right(x, y),
    ),
    Mistake(
        "that's the share of wrong answers",
        lambda x, y, size: 1 - right(x, y) / len(x),
    ),
    Mistake(
        "only the last batch is counted: add to the count, don't replace it",
        lambda x, y, size: shares(x, y, size)[-1],
    ),
    Mistake(
        "it divides the number of right answers by the number of batches",
        lambda x, y, size: right(x, y) / len(x.split(size)),
    ),
]


@judged
def accuracy(theirs: Any) -> str:
    """Check `accuracy(model, images, labels, batch_size)`: a share."""
    check_function(theirs)
    images, labels = numbers(11, 4), torch.arange(11) % 4
    # all of the short last batch are right, and of the others three in eight
    images[torch.arange(11)[[0, 3, 5]], labels[[0, 3, 5]]] = 9
    images[torch.arange(8, 11), labels[8:]] = 9
    for place in (1, 2, 4, 6, 7):
        images[place, labels[place]] = -9
    model = Answers()
    return agreement(
        lambda *case: theirs(model, *case),
        lambda *case: plain.accuracy(model, *case),
        [(images, labels, 4), (images, labels, 3)],
        ACCURACY,
    )
