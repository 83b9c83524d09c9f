"""What a command answers, and how values are shown."""

from typing import Any, NamedTuple

from vitedu.errors import escaped


class Answer(NamedTuple):
    """What a command found: for `--json`, and for a person."""

    values: dict[str, Any]
    text: str
    code: int = 0  # the command's exit code


def table(rows: list[tuple[str, Any]]) -> str:
    """Names and values in two columns."""
    rows = [(escaped(name), escaped(as_typed(value))) for name, value in rows]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def as_typed(value: Any) -> str:
    """A value as the command line takes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(as_typed(item) for item in value)
    return str(value)
