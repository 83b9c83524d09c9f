"""Chapter 12: accuracy where several answers are right."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from vitedu.check.verdict import (
    Mistake,
    agreement,
    check_function,
    judged,
    numbers,
)

Sets = Sequence[Sequence[int]]


def share(logits: Tensor, right: Sets) -> Tensor:
    """The book's: right among those that have an answer at all."""
    return right_of(logits, right) / sum(map(bool, right))


def right_of(logits: Tensor, right: Sets, k: int = 1) -> Tensor:
    answers = logits.topk(k, dim=1).indices.tolist()
    found = [bool({*a} & {*r}) for a, r in zip(answers, right, strict=True)]
    return torch.tensor(found).double().sum()


def by(change: Callable[[Sets], Sets]) -> Callable[[Tensor, Sets], Tensor]:
    """The book's share after the sets of right classes were changed."""
    return lambda logits, right: share(logits, change(right))


REAL = [
    Mistake(
        "you divide by all photographs; one without a right class doesn't "
        "count, so leave it out of both numbers",
        lambda logits, right: right_of(logits, right) / len(right),
    ),
    Mistake(
        "a photograph without a right class counts as right here; it "
        "shouldn't count at all",
        lambda logits, right: (
            (right_of(logits, right) + sum(not x for x in right)) / len(right)
        ),
    ),
    Mistake(
        "that's in percent; the book's small functions give a share in 0..1",
        lambda logits, right: 100 * share(logits, right),
    ),
    Mistake(
        "that's how many are right; divide by how many have a right class",
        right_of,
    ),
    Mistake(
        "only the first of the right classes counts for you; ask whether the "
        "answer is among them: answer in right",
        by(lambda right: [x[:1] for x in right]),
    ),
    Mistake(
        "only the last of the right classes counts for you; ask whether the "
        "answer is among them: answer in right",
        by(lambda right: [x[-1:] for x in right]),
    ),
    Mistake(
        "photographs with several right classes are left out; they count as "
        "soon as they have one",
        lambda logits, right: share(
            logits[[len(x) == 1 for x in right]],
            [x for x in right if len(x) == 1],
        ),
    ),
    Mistake(
        "that's the share of right classes that were found; a photograph "
        "counts once, however many classes are right",
        lambda logits, right: (
            right_of(logits, right) / sum(len(x) for x in right)
        ),
    ),
    Mistake(
        "one of the five best is right, and only the best answer counts: "
        "argmax",
        lambda logits, right: (
            right_of(logits, right, 5) / sum(map(bool, right))
        ),
    ),
    Mistake(
        "that's the least likely class; take argmax",
        lambda logits, right: share(-logits, right),
    ),
]


@judged
def real_accuracy(theirs: Any) -> str:
    """Check `real_accuracy(logits, right_classes)`: a share.

    Logits are (n, classes), right_classes is a list of n lists, some empty.
    """
    check_function(theirs)
    cases = []
    for seed in range(2):
        logits = numbers(40, 12, seed=seed)
        best = logits.topk(12, dim=1).indices.tolist()
        # by rank, in turn: the first and the last of a set differ in how often
        # they're the answer
        picked = ([], [0], [4, 0], [0, 3], [5, 0], [2], [9, 7, 11])
        right = [
            [row[place] for place in picked[(i + seed) % 7]]
            for i, row in enumerate(best)
        ]
        cases.append((logits, right))
    return agreement(theirs, share, cases, REAL)
