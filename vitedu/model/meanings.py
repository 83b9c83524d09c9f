"""What the fields of a configuration mean, taken from its docstring.

`meanings(ViTConfig)["depth"]` is "number of encoder blocks (L)".
"""

import inspect
import textwrap


def meanings(owner: type) -> dict[str, str]:
    """What each field means: the `Attributes:` of a class's docstring.

    An entry is "name: what it means", indented below the heading; its further
    lines are indented once more. Line breaks become spaces. The order is the
    docstring's. Without docstrings (python -OO) nothing is found.
    """
    _, _, section = (inspect.getdoc(owner) or "").partition("Attributes:\n")
    entries: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if line.strip() and not line.startswith("    "):
            # the section ends where the indentation does
            break
        if line.startswith("     "):
            entries[name] += f" {line.strip()}"
        elif line.strip():
            name, _, meaning = line.strip().partition(": ")
            entries[name] = meaning
    return entries


def with_meanings(doc: str | None, owner: type) -> str | None:
    """A function's docstring, and after it what each field of `owner` means.

    For a function that takes the fields as keywords: `help` then shows them
    all. None, where docstrings are left out, stays None.
    """
    if doc is None:
        return None
    entries = [
        textwrap.fill(
            f"{name}: {meaning}",
            width=80,
            initial_indent=4 * " ",
            subsequent_indent=8 * " ",
        )
        for name, meaning in meanings(owner).items()
    ]
    return "\n".join([inspect.cleandoc(doc), "", "Keyword Args:", *entries])
