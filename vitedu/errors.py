"""What a user can mend, said in one sentence.

`raise UserError(f"{path} is not a run folder: config.json is missing")`
"""

import math
import sys
import unicodedata
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MOST_NAMES = 24  # in one sentence
MOST_LETTERS = 2000  # of one sentence
# What is left of a longer one goes into another sentence without being cut
# again.
FIRST_LETTERS, LAST_LETTERS = 1000, 500
# Controls, half characters and line breaks; and what turns the direction of
# writing.
UNPRINTABLE = {"Cc", "Cs", "Zl", "Zp"}
TURNING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e") | frozenset(
    "\u2066\u2067\u2068\u2069"
)

# modules that no warning points at
INSIDE = ("vitedu.", "torch.", "contextlib")


class UserError(ValueError):
    """A mistake outside the code; the command prints one sentence, exits 2.

    What comes from outside (file names, class names, metadata) cannot change
    the terminal or fill the screen: the message is `printable`.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(printable(str(message)))


def printable(text: str) -> str:
    """`text` as `escaped` shows it; beyond MOST_LETTERS only both ends."""
    # what is cut out in any case, of hundreds of megabytes too
    num_cut = max(len(text) - 2 * MOST_LETTERS, 0)
    if num_cut:
        text = text[:MOST_LETTERS] + text[-MOST_LETTERS:]
    text = escaped(text)
    if len(text) <= MOST_LETTERS:
        return text
    num_cut += len(text) - FIRST_LETTERS - LAST_LETTERS
    return f"{text[:FIRST_LETTERS]} [{num_cut} letters] {text[-LAST_LETTERS:]}"


def escaped(text: str) -> str:
    r"""`text` on one line, with its control characters as `\x1b`."""
    if text.isprintable():
        return text
    return "".join(map(_escaped_letter, text))


def _escaped_letter(letter: str) -> str:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if letter in TURNING or unicodedata.category(letter) in UNPRINTABLE:
        return letter.encode("unicode_escape").decode()
    return letter


def reason(error: BaseException) -> str:
    """What went wrong, without the path that the sentence around it names."""
    text = getattr(error, "strerror", None) or str(error)
    return (text or type(error).__name__).splitlines()[0]


def warn(message: str) -> None:
    """Warn, and name the line of the user's program that called vitedu."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals["__name__"].startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the nearest `known`, or all.

    Of very many the first few.
    """
    known = sorted(known)
    folded = {other.casefold(): other for other in known}
    # a name of thousands of letters is near nothing, and would be compared for
    # minutes
    near = get_close_matches(name[:100].casefold(), folded, n=3, cutoff=0.5)
    if near:
        names = " or ".join(repr(folded[other]) for other in near)
        return f"did you mean {names}?"
    if len(known) > MOST_NAMES:
        more = len(known) - MOST_NAMES // 2
        known = [*known[: MOST_NAMES // 2], f"and {more} more"]
    return f"known: {', '.join(known)}"


def check_memory(num_bytes: int, what: str, remedy: str = "") -> None:
    """UserError with both numbers, unless `num_bytes` of memory are free.

    `what` begins the sentence ("photo.png, 50000 by 50000 pixels,"); `remedy`
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
    """Bytes this process can still use: what system and containers leave.

    What only caches files counts as free.
    """
    import psutil

    return min([psutil.virtual_memory().available, *container_memory()])


def container_memory(root: Path = CGROUPS) -> list[int]:
    """Bytes left in each of the control groups around this process (Linux)."""
    groups = [(root, "memory.max", "memory.current")]
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # version 2: every group up to the root
                for end in range(len(Path(path).parts), 1, -1):
                    inner = Path(*Path(path).parts[:end]).relative_to("/")
                    group = root / inner
                    groups.append((group, "memory.max", "memory.current"))
            elif "memory" in controllers.split(","):
                group = root / "memory" / path.lstrip("/")
                names = "memory.limit_in_bytes", "memory.usage_in_bytes"
                groups += [(group, *names), (root / "memory", *names)]
    except (OSError, ValueError):
        pass  # another system, or one that hides it
    left = []
    for group, limit, usage in groups:
        try:
            most = int((group / limit).read_text())
            used = int((group / usage).read_text()) - cached(group)
        except (OSError, ValueError):
            continue  # no such group, or "max": no limit
        left.append(max(most - used, 0))
    return left


def cached(group: Path) -> int:
    """Bytes of a control group that only cache files, given up when needed."""
    lines = (group / "memory.stat").read_text().splitlines()
    sizes = dict(line.split(" ", 1) for line in lines)
    # version 1 counts the groups inside apart
    prefix = "total_" if "total_active_file" in sizes else ""
    names = f"{prefix}active_file", f"{prefix}inactive_file"
    return sum(int(sizes.get(name, 0)) for name in names)


def readable_bytes(num_bytes: int) -> str:
    """A size in a sentence: "16.0 GB"; beyond all measure a power of ten."""
    if num_bytes < 1000:
        return f"{num_bytes} bytes"
    if num_bytes >= 10**18:
        return f"10^{int(math.log10(num_bytes))} bytes"
    units = ("kB", "MB", "GB", "TB", "PB")
    power = min(int(math.log10(num_bytes)) // 3, len(units))
    return f"{num_bytes / 1000**power:.1f} {units[power - 1]}"
