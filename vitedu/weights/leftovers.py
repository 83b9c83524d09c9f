"""Arrays that no network part takes: refused, unless the caller lets them go.

`load("w.npz", ignore="extra/*")`. A file may hold more than its network: the
state of an optimizer, a decoder. What a dialect knows it leaves out and
reports; all else could be weights that the network would then lack.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from vitedu.errors import UserError
from vitedu.fields import shown

# what the names of arrays are made of, in the dialects
SEPARATORS = "/."
MOST_LETTERS = 500  # of a name that is shown
Value = TypeVar("Value")


def as_patterns(ignore: str | Sequence[str]) -> tuple[str, ...]:
    """One or several patterns as a tuple. TypeError: one isn't a string."""
    patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(
                "ignore takes patterns of names such as 'extra/*', got "
                f"{pattern!r}"
            )
    return patterns


def matching(patterns: Iterable[str], name: str) -> set[str]:
    """The patterns that `name` fits; a name fits itself, whatever it holds."""
    return {x for x in patterns if x == name or fnmatchcase(name, x)}


def without(
    arrays: Mapping[str, Value], patterns: Sequence[str]
) -> tuple[dict[str, Value], dict[str, set[str]]]:
    """The arrays that fit no pattern; and of those that do, which they fit."""
    fits = {name: matching(patterns, name) for name in arrays}
    kept = {name: arrays[name] for name in arrays if not fits[name]}
    return kept, {name: found for name, found in fits.items() if found}


def check_all_used(
    path: Path, patterns: Sequence[str], used: set[str], names: Iterable[str]
) -> None:
    """UserError naming the first pattern without arrays: it may be a slip."""
    for pattern in patterns:
        if pattern not in used:
            raise UserError(
                f"ignore={pattern!r} matches no array of {path}; it has "
                f"{listed(sorted(names), most=3)}"
            )


def refusal(unknown: Collection[str], all_names: Iterable[str]) -> UserError:
    """The sentence about arrays that the network has no place for."""
    names = sorted(unknown)
    count, them = "an array", "it"
    if len(names) > 1:
        count, them = f"{len(names)} arrays", "them"
    pattern = pattern_for(names, {*all_names} - {*names})
    return UserError(
        f"it holds {count} that this network has no place for: "
        f"{listed(names, most=4)}; if the model does not need {them}, leave "
        f"{them} "
        f'out with ignore="{pattern}"'
    )


def pattern_for(names: Sequence[str], needed: set[str]) -> str:
    """A pattern that the first of `names` fits, with all that begin as it does.

    The shortest beginning that nothing `needed` has: "extra/*", else the name
    itself.
    """
    first = names[0]
    for end, letter in enumerate(first[:-1], start=1):
        start = first[:end]
        if letter in SEPARATORS and not any(
            name.startswith(start) for name in needed
        ):
            return f"{start}*"
    return first


def arrays_in(name: str, value: Any) -> list[str]:
    """Names of the arrays in what torch loaded, however deep: "extra/0/weight".

    A tensor of one number is a count or a measure, and no array.
    """
    found, seen, todo = [], set(), [(name, value)]
    while todo:
        name, value = todo.pop()
        if isinstance(value, Tensor):
            found += [name] if value.numel() != 1 else []
        elif isinstance(value, dict | list | tuple) and id(value) not in seen:
            seen.add(id(value))  # a pickle may hold itself
            is_dict = isinstance(value, dict)
            inner = value.items() if is_dict else enumerate(value)
            start = name[:MOST_LETTERS]
            todo += [(f"{start}/{in_words(key)}", each) for key, each in inner]
    return found


def listed(names: Iterable[Any], most: int = 8) -> str:
    """Names out of a file, in a sentence; they may be anything."""
    words = [in_words(name) for name in names]
    shown = [x if x.isprintable() else repr(x) for x in words[:most]]
    if len(words) > most:
        shown.append(f"and {len(words) - most} more")
    return ", ".join(shown)


def in_words(key: Any) -> str:
    """A key of a dictionary in a file, in a sentence; it may be anything."""
    text = key if isinstance(key, str) else shown(key)
    return text[:MOST_LETTERS]
