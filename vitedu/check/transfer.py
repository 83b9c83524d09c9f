"""Chapter 11: the fine-tuning step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vitedu.check.verdict import (
    CLOSE,
    Mistake,
    Wrong,
    agreement,
    call,
    check_function,
    distance,
    judged,
    numbers,
)

RATES = (0.5, 0.25, 0.25)
Update = Callable[[list[Tensor], list[Tensor], list[Tensor], float], None]


def book(
    weights: list[Tensor], v: list[Tensor], g: list[Tensor], rate: float
) -> None:
    shrink = min(1.0, 1.0 / length(g))
    for w, each, gradient in zip(weights, v, g, strict=True):
        each.mul_(0.9).add_(gradient * shrink)
        w.sub_(rate * each)


def unclipped(
    weights: list[Tensor], v: list[Tensor], g: list[Tensor], rate: float
) -> None:
    for w, each, gradient in zip(weights, v, g, strict=True):
        each.mul_(0.9).add_(gradient)
        w.sub_(rate * each)


def one_by_one(
    weights: list[Tensor], v: list[Tensor], g: list[Tensor], rate: float
) -> None:
    for w, each, gradient in zip(weights, v, g, strict=True):
        each.mul_(0.9).add_(gradient * min(1.0, 1.0 / length([gradient])))
        w.sub_(rate * each)


def always(
    weights: list[Tensor], v: list[Tensor], g: list[Tensor], rate: float
) -> None:
    for w, each, gradient in zip(weights, v, g, strict=True):
        each.mul_(0.9).add_(gradient / length(g))
        w.sub_(rate * each)


def rate_inside(
    weights: list[Tensor], v: list[Tensor], g: list[Tensor], rate: float
) -> None:
    shrink = min(1.0, 1.0 / length(g))
    for w, each, gradient in zip(weights, v, g, strict=True):
        each.mul_(0.9).add_(rate * gradient * shrink)
        w.sub_(each)


def forgetful(
    weights: list[Tensor], v: list[Tensor], g: list[Tensor], rate: float
) -> None:
    shrink = min(1.0, 1.0 / length(g))
    for w, gradient in zip(weights, g, strict=True):
        w.sub_(rate * gradient * shrink)


def uphill(
    weights: list[Tensor], v: list[Tensor], g: list[Tensor], rate: float
) -> None:
    book(weights, v, g, -rate)


MISTAKES = {
    unclipped: "the gradient isn't clipped: multiply it by shrink",
    one_by_one: (
        "each tensor is clipped by its own length; take the gradients of all "
        "tensors as one long vector, so that its direction stays"
    ),
    always: (
        "short gradients are made longer: shrink at most by min(1, 1 / norm)"
    ),
    rate_inside: (
        "the rate is in the velocity, so a change of rate is felt only ten "
        "steps later; multiply it where the weight moves"
    ),
    forgetful: (
        "the velocities aren't used: v becomes 0.9 v + g, and the weight moves "
        "by the rate times v"
    ),
    uphill: "the weights go uphill: subtract the step",
}


def length(gradients: list[Tensor]) -> float:
    return torch.stack([g.norm() for g in gradients]).norm().item()


def losses(weights: list[Tensor]) -> list[Callable[[], Tensor]]:
    """Two that have long gradients, and one with a short one."""
    a, b = (numbers(*w.shape, seed=5 + i) for i, w in enumerate(weights))
    return [
        lambda: (3 * a * weights[0]).sum() + (b * weights[1]).sum(),
        lambda: (weights[0] ** 2).sum() + (4 * b * weights[1]).sum(),
        lambda: 0.01 * ((a * weights[0]).sum() + (b * weights[1]).sum()),
    ]


def walked(update: Update) -> tuple[Tensor, ...]:
    """Where three steps of the book's, or of a mistake, lead."""
    weights = [numbers(3, 2, seed=1), numbers(4, seed=2)]
    weights = [w.requires_grad_() for w in weights]
    v = [torch.zeros_like(w) for w in weights]
    for loss, rate in zip(losses(weights), RATES, strict=True):
        gradients = list(torch.autograd.grad(loss(), weights))
        with torch.no_grad():
            update(weights, v, gradients, rate)
    return tuple(w.detach() for w in weights)


@judged
def finetune_step(theirs: Any) -> str:
    """Check `finetune_step(weights, velocities, loss, rate)`: three steps."""
    check_function(theirs)
    weights = [numbers(3, 2, seed=1), numbers(4, seed=2)]
    weights = [w.requires_grad_() for w in weights]
    v = [torch.zeros_like(w) for w in weights]
    norms, wanted = [], []
    for loss, rate in zip(losses(weights), RATES, strict=True):
        value = loss()
        g = torch.autograd.grad(value, weights, retain_graph=True)
        wanted.append(length(list(g)))
        norms.append(call(theirs, weights, v, value, rate))
        if any(w.grad is not None and w.grad.any() for w in weights):
            raise Wrong(
                "the gradients are still there, and the next step would add "
                "its own to them; end with w.grad = None"
            )
    told = agreement(
        lambda: tuple(w.detach() for w in weights),
        lambda: walked(book),
        [()],
        [
            Mistake(hint, lambda update=update: walked(update))
            for update, hint in MISTAKES.items()
        ],
    )
    if (
        None in norms
        or distance(torch.tensor(norms), torch.tensor(wanted)) > CLOSE
    ):
        raise Wrong(
            "the weights are right, but it should return the gradient's "
            "length before clipping"
        )
    return told
