"""How a reader's definition is judged: same inputs, and the usual mistakes.

A `Mistake` computes what that mistake would give. If the reader's answer is
that, the hint names it.
"""

import functools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

SECONDS = 20  # that a definition may take
# float32 inside is fine; every mistake that is known gives more
CLOSE = 1e-5


class Verdict(NamedTuple):
    """What a check answers; a notebook shows it as one line."""

    is_right: bool
    sentence: str

    def __repr__(self) -> str:
        return f"{'✓' if self.is_right else '✗'} {self.sentence}"


class Wrong(Exception):
    """What is wrong with a definition, in one sentence."""


class Mistake(NamedTuple):
    """What to tell the reader, and what they have computed then."""

    hint: str
    outcome: Callable[..., Any]


def judged(check: Callable[[Any], str]) -> Callable[[Any], Verdict]:
    """A check that returns praise or raises `Wrong`, as one with a Verdict."""

    @functools.wraps(check)
    def judge(theirs: Any) -> Verdict:
        with torch.random.fork_rng([]):
            try:
                return Verdict(True, check(theirs))
            except Wrong as wrong:
                return Verdict(False, str(wrong))

    return judge


def call(function: Callable[..., Any], *args: Any) -> Any:
    """What the reader's code returns. Wrong: it raises, or doesn't end."""
    try:
        with limited(SECONDS):
            return function(*args)
    except TimeoutError:
        raise Wrong(
            f"it was still running after {SECONDS} seconds, with inputs this "
            "small; is there a loop that never ends?"
        ) from None
    except Exception as error:
        raise Wrong(
            f"called with {described(args)}, it raises "
            f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        ) from error


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """TimeoutError after so long, where Python can interrupt itself."""
    can = hasattr(signal, "SIGALRM")
    if not can or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def described(args: Sequence[Any]) -> str:
    """ "shape (2, 3, 8, 8) and 4"; what can't be said shortly is left out."""
    words = [
        f"a tensor of shape {tuple(x.shape)}" if isinstance(x, Tensor) else x
        for x in args
        if isinstance(x, Tensor | int | float)
    ]
    return " and ".join(map(str, words)) or "the check's input"


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Random inputs in float64, the same every time."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def check_function(theirs: Any) -> None:
    if isinstance(theirs, type) or not callable(theirs):
        raise Wrong(
            "this checks a function; give its name without brackets, not "
            f"{named(theirs)}"
        )


def named(thing: Any) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    name = getattr(thing, "__name__", None)
    if name:
        return f"the function {name}"
    return f"an object of type {type(thing).__name__}"


def built(theirs: Any, ours: nn.Module, *sizes: int) -> nn.Module:
    """The reader's class in float64, with the weights of `ours`."""
    if not isinstance(theirs, type):
        raise Wrong(
            "this checks a class; give its name without brackets, not "
            f"{named(theirs)}"
        )
    if not issubclass(theirs, nn.Module):
        raise Wrong(
            f"{theirs.__name__} isn't an nn.Module, so PyTorch doesn't find "
            f"its weights; begin with class {theirs.__name__}(nn.Module)"
        )
    module = call(theirs, *sizes)
    check_names(module, ours)
    module.double().load_state_dict(ours.state_dict())
    return module


def check_names(module: nn.Module, ours: nn.Module) -> None:
    """Weights have to be called, and shaped, as the book's."""
    found, wanted = module.state_dict(), ours.state_dict()
    for part in module.modules():
        for name, value in vars(part).items():
            if is_list_of_modules(value):
                raise Wrong(
                    f"{name} is a plain list, where PyTorch doesn't look for "
                    "weights, so they'd never be trained; use nn.Sequential"
                )
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    if missing and extra:
        raise Wrong(
            f"there is no {missing[0]}, but a {extra[0]}; call the parts as "
            "the chapter does, so that real weights find their places"
        )
    if missing:
        raise Wrong(f"there is no {missing[0]}; which layer has it?")
    if extra:
        raise Wrong(f"{extra[0]} is one too many: the book's has no such part")
    for name, tensor in wanted.items():
        if found[name].shape != tensor.shape:
            raise Wrong(
                f"{name} has the shape {tuple(found[name].shape)}, and it "
                f"should have {tuple(tensor.shape)}"
            )


def is_list_of_modules(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and len(value) > 0
    return is_list and all(isinstance(each, nn.Module) for each in value)


def shaken(module: nn.Module) -> nn.Module:
    """In float64, and no weight is a 0 or a 1 that hides a mistake."""
    for seed, weight in enumerate(module.double().parameters()):
        weight.data = 0.5 * numbers(*weight.shape, seed=seed)
    return module.eval()


def agreement(
    theirs: Callable[..., Any],
    ours: Callable[..., Any],
    cases: Sequence[tuple[Any, ...]],
    mistakes: Sequence[Mistake],
) -> str:
    """The precision to which both agree. Wrong: they don't; why, if known."""
    found = [answer(theirs, case) for case in cases]
    wanted = [ours(*case) for case in cases]
    largest = max(map(distance, found, wanted))
    if largest < CLOSE:
        digits = f"to {largest:.0e}" if largest else "to the last bit"
        return f"agrees with the book's {digits}"
    for mistake in mistakes:
        outcomes = [mistake.outcome(*case) for case in cases]
        if max(map(distance, found, outcomes)) < CLOSE:
            raise Wrong(mistake.hint)
    raise Wrong(difference(theirs, cases[0], found[0], wanted[0]))


def answer(function: Callable[..., Any], case: tuple[Any, ...]) -> Any:
    """What it returns for copies of its inputs, which it has to leave alone."""
    copies = [x.clone() if isinstance(x, Tensor) else x for x in case]
    found = call(function, *copies)
    for before, after in zip(case, copies, strict=True):
        if isinstance(before, Tensor) and not torch.equal(before, after):
            raise Wrong(
                "it changes its input in place, and the caller may still need "
                "it; write x = x + y, not x += y"
            )
    return found


def distance(found: Any, wanted: Any) -> float:
    """The largest difference as a share of the largest value; or infinity."""
    if isinstance(wanted, tuple):
        if not isinstance(found, tuple | list) or len(found) != len(wanted):
            return torch.inf
        return max(map(distance, found, wanted))
    if isinstance(found, tuple | list | str) or found is None:
        return torch.inf
    found = torch.as_tensor(found).detach().double()
    wanted = torch.as_tensor(wanted).detach().double()
    if found.shape != wanted.shape or not found.isfinite().all():
        return torch.inf
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def difference(
    theirs: Callable[..., Any], case: tuple[Any, ...], found: Any, wanted: Any
) -> str:
    """What can be said about a wrong answer that nobody has seen before."""
    if isinstance(wanted, tuple):
        if not isinstance(found, tuple | list) or len(found) != len(wanted):
            return f"it should return {len(wanted)} things, got {kind(found)}"
        pairs = zip(found, wanted, strict=True)
        found, wanted = next(x for x in pairs if not distance(*x) < CLOSE)
    if found is None:
        return "it returns nothing; is the return missing?"
    if isinstance(found, tuple | list | str):
        return f"it should return a tensor, got {kind(found)}"
    found, wanted = torch.as_tensor(found), torch.as_tensor(wanted)
    if found.shape != wanted.shape:
        return (
            f"for {described(case)}, the result has the shape "
            f"{tuple(found.shape)}, and it should have {tuple(wanted.shape)}"
        )
    if not found.isfinite().all():
        return "there is NaN or infinity in the result; do you divide by 0?"
    first = case[0]
    if isinstance(first, Tensor) and len(first) > 1 and found.numel() > 1:
        alone = call(theirs, first[:1].clone(), *case[1:])
        if distance(alone, found[:1]) > CLOSE:
            return (
                "the answer for one image depends on the others in the batch; "
                "does something run over the first axis?"
            )
    return (
        "the shape is right, but the values differ by up to "
        f"{distance(found, wanted):.0%} of the largest, and it's no mistake "
        "that we know; take two tokens of two numbers, and go through it by "
        "hand"
    )


def kind(thing: Any) -> str:
    return "nothing" if thing is None else f"a {type(thing).__name__}"
