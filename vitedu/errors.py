"""Errors that a user can fix, each said in one sentence.

`raise UserError(f"{path} is not a run folder: config.json is missing")`
"""

import math
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MOST_NAMES = 24  # in one sentence
MOST_LETTERS = 2000  # of one sentence
# printed though Python calls them unprintable: two spaces, the joint of emoji
PRINTED = "\u00a0\u3000\u200d"
# modules that no warning points at
INSIDE = ("vitedu.", "torch.", "contextlib")
# Ours, and others' names that no spelling leads from, as `bare` writes them.
SYNONYMS = {
    "batch_size": "batch bs trainbatchsize perdevicetrainbatchsize",
    "drop_path": "droppathrate stochasticdepth",
    "dropout": "droprate dropoutrate",
    "image_size": "imgsize imgsz inputsize resolution",
    "lr": "learningrate baselr lr0",
    "max_grad_norm": "clip clipgrad gradclip gradientclipval",
    "micro_batch_size": "accumulate accumsteps gradientaccumulationsteps",
    "num_classes": "nc classes nclasses numlabels",
    "num_heads": "heads nhead",
    "precision": "amp dtype mixedprecision",
    "warmup": "warmupsteps warmupepochs warmupratio",
    "weight_decay": "wd decay",
}


class UserError(ValueError):
    """A mistake outside the code; the command prints the message, exits 2.

    The message is made `printable`: names and metadata from files can't change
    the terminal or fill the screen.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))


def printable(text: str) -> str:
    """`text` as `escaped` shows it; beyond MOST_LETTERS only both ends."""
    text = escaped(text)
    if len(text) <= MOST_LETTERS:
        return text
    # shorter than MOST_LETTERS, so that a sentence around it isn't cut again
    return f"{text[:1000]} [{len(text) - 1500} letters] {text[-500:]}"


def escaped(text: str) -> str:
    r"""`text` on one line, with its control characters as `\x1b`."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(letter: str) -> str:
    if letter.isprintable() or letter in PRINTED:
        return letter
    if 0xDC80 <= ord(letter) <= 0xDCFF:  # a byte of a name that is not UTF-8
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()


def reason(error: BaseException) -> str:
    """What went wrong, without the path, which the caller names."""
    text = getattr(error, "strerror", None) or str(error)
    return (text or type(error).__name__).splitlines()[0]


@contextmanager
def explained(
    what: str, *kinds: type[Exception], end: str = ""
) -> Iterator[None]:
    """An OSError inside, or one of `kinds`, becomes "what: why" and `end`."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, kinds or OSError):
            raise
        raise UserError(f"{what}: {reason(error)}{end}") from None


def warn(message: str) -> None:
    """Warn, and name the line of the user's program that called vitedu."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals["__name__"].startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def unknown(what: str, name: object, known: Iterable[str]) -> UserError:
    """ "there is no model 'ViT-X'; did you mean ..." """
    end = did_you_mean(str(name), known)
    return UserError(f"there is no {what} {name!r}; {end}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest, or all known."""
    known = sorted(known)
    folded = {other.casefold(): other for other in known}
    close = get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    if near := same_as(name, known) or [folded[other] for other in close]:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if len(known) > MOST_NAMES:
        more = len(known) - MOST_NAMES // 2
        known = [*known[: MOST_NAMES // 2], f"and {more} more"]
    return f"known: {', '.join(known)}"


def same_as(name: str, known: Iterable[str]) -> list[str]:
    """Those of `known` that `name` spells in another way, or in other words.

    Of dotted names the last part counts: "mixup" is "augment.mixup".
    """
    asked = bare(name)
    return [
        other
        for other in known
        if asked == bare(other)
        or asked in SYNONYMS.get(other.rpartition(".")[2], "").split()
    ]


def bare(name: str) -> str:
    """Letters and digits of a dotted name's last part: "ViT-B/16" is vitb16."""
    return re.sub(r"[\W_]", "", name.rpartition(".")[2]).casefold()


def check_free(num_bytes: int, what: str, remedy: str = "") -> None:
    """UserError with both numbers, unless `num_bytes` of memory are free.

    `what` begins the sentence ("photo.png, 50000 by 50000 pixels,"), `remedy`
    ends it.
    """
    free = available_memory()
    if num_bytes > free:
        end = f"; {remedy}" if remedy else ""
        raise UserError(
            f"{what} needs {readable_bytes(num_bytes)} of memory, and "
            f"{readable_bytes(free)} are free{end}"
        )


def available_memory() -> int:
    """Bytes this process can still allocate; file caches count as free."""
    import psutil

    return min([psutil.virtual_memory().available, *container_memory()])


def container_memory(root: Path = CGROUPS) -> list[int]:
    """Bytes left in each control group around this process (Linux)."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []  # another system, or one that hides it
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # of version 2
            inner = root / path.lstrip("/")
            left += map(_left_in_group, (inner, *inner.parents))
    return [each for each in left if each is not None]


def _left_in_group(group: Path) -> int | None:
    try:
        most = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
        lines = (group / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):
        return None  # no such group, or "max": no limit
    sizes = dict(line.split(" ", 1) for line in lines)
    # what only caches files is given up when it's needed
    cached = int(sizes["active_file"]) + int(sizes["inactive_file"])
    return max(most - used + cached, 0)


def counted(number: int, thing: str) -> str:
    """A number of things in a sentence: "1 class", "2,000 classes"."""
    end = "es" if thing.endswith("s") else "s"
    return f"{number:,} {thing}{'' if number == 1 else end}"


def readable_bytes(num_bytes: int) -> str:
    """A size in a sentence: "16.0 GB"."""
    if num_bytes < 1000:
        return f"{num_bytes} bytes"
    units = ("kB", "MB", "GB", "TB", "PB")
    power = min(int(math.log10(num_bytes)) // 3, len(units))
    return f"{num_bytes / 1000**power:.1f} {units[power - 1]}"
