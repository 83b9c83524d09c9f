"""Writing a file whole or not at all."""

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from vitedu.errors import UserError


def replace_file(
    path: str | Path, content: bytes | str | Callable[[BinaryIO], object]
) -> None:
    """Put `content` at `path`; a reader sees the old file or the new one, never a part.

    `content` is what to write, or a function that writes it into an open file.
    UserError: the folder cannot be written, or the disk is full; the old file stays.
    """
    path = Path(path)
    # Nobody can guess the name, and "x" follows no link that was put there.
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
        sync_folder(path.parent)
    # torch.save raises RuntimeError on a full disk
    except (OSError, RuntimeError) as error:
        with suppress(OSError):  # where none could be made, none can be removed
            part.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {reason(error)}") from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Bring the new name of a file to the disk, so that it outlives a power cut."""
    # not every system lets a folder be opened or synced
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def reason(error: Exception) -> str:
    """What went wrong, without the path that the sentence around it names."""
    said = getattr(error, "strerror", None) or str(error)
    return (said or type(error).__name__).splitlines()[0]
