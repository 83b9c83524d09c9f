"""Read files that may be anything; write a file whole or not at all."""

import json
import os
import re
import stat
import uuid
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from vitedu.errors import UserError, explained, reason

# what `replace_file` leaves if it is killed
LEFT_OVER = re.compile(r".*\.[0-9a-f]{16}\.part")


def user_path(value: str | PathLike[str]) -> Path:
    """A path as typed; in a str, `~` is home. UserError: it can't be a path."""
    if not (text := os.fsdecode(value)):
        raise UserError("the path is empty; name a file or a folder")
    if isinstance(value, str):
        text = os.path.expanduser(text)
    path = Path(text)
    # a Path drops the "./" of "./~a", which would be a user's home next time
    return path.absolute() if str(path).startswith("~") else path


def check_regular(path: str | Path) -> os.stat_result:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from None
    if stat.S_ISDIR(status.st_mode):
        raise UserError(f"{path} is a folder; a file is needed")
    if not stat.S_ISREG(status.st_mode):
        raise UserError(
            f"{path} is a pipe, a socket or a device; copy it into a file first"
        )
    if not os.access(path, os.R_OK):
        raise UserError(f"cannot read {path}: Permission denied")
    return status


def make_folder(path: Path) -> None:
    with explained(f"cannot make {path}"):
        path.mkdir(parents=True, exist_ok=True)


def list_folder(path: str | Path) -> list[str]:
    with explained(f"cannot list {path}", OSError, ValueError):
        return sorted(os.listdir(path))


def read_json(path: str | Path) -> dict[str, Any]:
    check_regular(path)
    return parse_json(Path(path).read_bytes(), str(path))


def parse_json(text: str | bytes, where: str) -> dict[str, Any]:
    # also of bytes that are no text
    with explained(f"{where} is not valid JSON", ValueError):
        values = json.loads(text)
    if not isinstance(values, dict):
        raise UserError(
            f"{where} must be a JSON object, got a {type(values).__name__}"
        )
    return values


def replace_file(
    path: str | Path, content: bytes | str | Callable[[BinaryIO], object]
) -> None:
    """Put `content` at `path`: readers see the old file or all of the new one.

    `content` may be a function that writes into an open file. UserError: no
    permission or a full disk; the old file stays.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.part")
    try:
        with open(part, "xb") as file:
            if callable(content):
                content(file)
            elif isinstance(content, str):
                file.write(content.encode())
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):  # where none could be made, none can be removed
            part.unlink(missing_ok=True)
        # torch.save raises RuntimeError on a full disk
        if isinstance(error, OSError | RuntimeError):
            raise UserError(f"cannot write {path}: {reason(error)}") from None
        raise


def read_header(path: str | Path) -> dict[str, str]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}


def write_header(path: str | Path, header: dict[str, str]) -> None:
    """Put `header` in place of a safetensors file's; its tensors stay."""
    from safetensors.torch import load_file, save

    replace_file(path, save(load_file(path), header))


def _sync_folder(folder: Path) -> None:
    """Bring a file's new name to the disk, so that it outlives a power cut."""
    # not every system lets a folder be opened or synced
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
