"""Chapter 18: a power law, and what draws of its models say about it."""

from typing import Any

import torch
from torch import Tensor

from vitedu.check.verdict import (
    Mistake,
    Wrong,
    agreement,
    call,
    check_function,
    judged,
    kind,
)
from vitedu.evaluate import scaling
from vitedu.evaluate.scaling import fitted

COST = torch.tensor([50, 96, 141, 199, 563, 1126, 3306]).double()
ERROR = torch.tensor([22, 19, 18.5, 17.6, 15.3, 14.2, 12.9]).double()
DRAWS = 1000


def straight(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Level and slope of the line of least squares."""
    dx = x - x.mean()
    slope = (dx * y).sum() / dx.square().sum()
    return y.mean() - slope * x.mean(), slope


def other_way(cost: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    level, slope = straight(error.log(), cost.log())
    return (-level / slope).exp(), 1 / slope


def base_ten(cost: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    level, slope = straight(cost.log10(), error.log10())
    return level.exp(), slope


def with_level(cost: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    return straight(cost.log(), error.log())


def through_zero(cost: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    x, y = cost.log(), error.log()
    slope = (x * y).sum() / x.square().sum()
    return (y.mean() - slope * x.mean()).exp(), slope


LAW = [
    Mistake(
        "that's the logarithm of a; the line's level still needs .exp()",
        with_level,
    ),
    Mistake(
        "you return the exponent first; a comes first, then b",
        lambda cost, error: tuple(fitted(cost, error))[::-1],
    ),
    Mistake(
        "that's a line through costs and errors themselves; take the "
        "logarithm of both",
        straight,
    ),
    Mistake(
        "only the costs have a logarithm; the errors need one as well",
        lambda cost, error: straight(cost.log(), error),
    ),
    Mistake(
        "you fit the cost by the error; the error is what scatters, so divide "
        "by the squares of the log costs",
        other_way,
    ),
    Mistake(
        "logarithms of base ten need 10 ** level; .exp() goes with .log()",
        base_ten,
    ),
    Mistake(
        "the slope is that of a line through zero: take the mean off the log "
        "costs first",
        through_zero,
    ),
]


@judged
def power_law(theirs: Any) -> str:
    """Check `power_law(compute, errors)`, which returns (a, b)."""
    check_function(theirs)
    cases = [(COST, ERROR), (COST[:4], ERROR[:4])]
    one = agreement(theirs, lambda *case: tuple(fitted(*case)), cases, LAW)
    rows = torch.stack([COST, COST.flip(0)]), torch.stack([ERROR, ERROR])
    many = call(theirs, *rows)
    want = fitted(*rows)
    if many[1].shape != want[1].shape or not torch.allclose(many[1], want[1]):
        raise Wrong(
            "right for one row of models, but not for several at once: sums "
            "and means run over the last axis, with dim=-1"
        )
    return one


@judged
def bootstrap(theirs: Any) -> str:
    """Check `bootstrap(compute, errors, samples, seed)`: a and b of each."""
    check_function(theirs)
    found = call(theirs, COST, ERROR, DRAWS, 0)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise Wrong(f"it should return a and b, got {kind(found)}")
    b = torch.as_tensor(found[1]).detach().double()
    if b.ndim != 1 or len(b) < 0.9 * DRAWS:
        raise Wrong(
            f"asked for {DRAWS} draws, b has the shape {tuple(b.shape)}; each "
            "draw gives one b"
        )
    few = call(theirs, COST[:4], ERROR[:4], DRAWS, 0)[1]
    if not torch.as_tensor(few).isfinite().all():
        raise Wrong(
            "there is NaN in it: some draws have one model only, and no line "
            "goes through one point; keep draws of three or more"
        )
    whole = fitted(COST, ERROR).exponent
    if b.std() < 1e-9:
        raise Wrong(
            "every draw gives the same line; draw with repeats, as randint "
            "does, and not a new order"
        )
    if b.mean() > whole / 2:
        raise Wrong(
            "most draws have hardly a slope: cost and error of a model have "
            "to stay together, so use the same rows for both"
        )
    # 1,000 draws: their deviation is known to about 3%
    want = scaling.bootstrap(COST, ERROR).exponent.std()
    if not 0.8 < b.std() / want < 1.25:
        raise Wrong(
            f"the b of the draws have a deviation of {b.std():.4f}, and it "
            f"should be near {want:.4f}; does each draw have as many models as "
            "the family?"
        )
    again = call(theirs, COST, ERROR, DRAWS, 0)[1]
    if not torch.equal(torch.as_tensor(again).double(), b):
        raise Wrong("the same seed gives other draws; use a generator")
    return f"{len(b)} draws, and b varies as it should"
