"""Chapter 7: a loss scaler."""

from typing import Any

import torch
from torch import Tensor, nn

from vitedu.check.verdict import Wrong, call, judged, named


@judged
def loss_scaler(theirs: Any) -> str:
    """Check `LossScaler(scale, patience)` with `backward` and `step`."""
    if not isinstance(theirs, type):
        raise Wrong(
            "this checks a class; give its name without brackets, not "
            f"{named(theirs)}"
        )
    scaler = call(theirs, 8.0, 3)
    weight = nn.Parameter(torch.tensor([1.0]))
    optimizer = torch.optim.SGD([weight], lr=0.25)

    def step(factor: float) -> Tensor:
        """One step down the line factor * w; the gradient while it ran."""
        optimizer.zero_grad()
        call(scaler.backward, (factor * weight).sum())
        gradient = weight.grad
        if gradient is None:
            raise Wrong("backward leaves no gradient; call loss.backward()")
        call(scaler.step, optimizer)
        return weight.detach().clone()

    optimizer.zero_grad()
    call(scaler.backward, (2 * weight).sum())
    if weight.grad is None or weight.grad.item() != 16:
        got = "none" if weight.grad is None else f"{weight.grad.item():g}"
        raise Wrong(
            "after backward, a gradient of 2 should be 16 with a scale of 8, "
            f"and it is {got}; multiply the loss by the scale"
        )
    call(scaler.step, optimizer)
    moved = 1 - weight.item()
    if moved == 4:
        raise Wrong(
            "the step is eight times too long: divide the gradients by the "
            "scale before optimizer.step()"
        )
    if moved == 0:
        raise Wrong("the weights don't move; call optimizer.step()")
    if moved != 0.5:
        raise Wrong(f"the weight should move by 0.5, and it moves by {moved:g}")
    before = weight.item()
    after = step(float("inf")).item()
    if after != before:
        raise Wrong(
            f"an infinite gradient has turned a weight into {after:g}; leave "
            "out the step if a gradient isn't finite"
        )
    if scaler.scale == 8:
        raise Wrong("after an overflow, the scale should be halved")
    if scaler.scale != 4:
        raise Wrong(
            "after an overflow, a scale of 8 should become 4, and it is "
            f"{scaler.scale:g}"
        )
    scales = []
    for _ in range(4):
        step(1.0)
        scales.append(scaler.scale)
    if scales == [4, 4, 8, 8]:
        return "scales, unscales, skips, halves and doubles as it should"
    if scales == [4, 8, 8, 8]:
        raise Wrong(
            "the good steps from before the overflow are still counted; start "
            "again at 0 when the scale is halved"
        )
    if scales == [4, 4, 8, 16]:
        raise Wrong(
            "after doubling, it doubles again at once; start counting at 0"
        )
    if scales == [4, 4, 4, 4]:
        raise Wrong(
            "the scale never grows; double it after `patience` good steps in "
            "a row"
        )
    raise Wrong(
        "with a patience of 3, the scale after four good steps should have "
        f"been 4, 4, 8, 8, and it was {', '.join(f'{x:g}' for x in scales)}"
    )
