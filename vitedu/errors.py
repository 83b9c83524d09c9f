"""What a user can mend, said in one sentence.

`raise UserError(f"{path} is no run folder: it holds no config.json")`
"""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_NAMES = 24  # in one sentence


class UserError(ValueError):
    """A mistake outside the code; the command says it in one sentence, exit code 2."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest of `known`, else all.

    Of very many the first few.
    """
    known = sorted(known)
    folded = {other.casefold(): other for other in known}
    near = get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    if near:
        names = " or ".join(repr(folded[other]) for other in near)
        return f"did you mean {names}?"
    if len(known) > MOST_NAMES:
        more = len(known) - MOST_NAMES // 2
        known = [*known[: MOST_NAMES // 2], f"and {more} more"]
    return f"known: {', '.join(known)}"
