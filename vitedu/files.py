"""Writing a file whole or not at all."""

import os
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
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(
                    content.encode() if isinstance(content, str) else content
                )
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except (
        OSError,
        RuntimeError,
    ) as error:  # torch.save: RuntimeError on a full disk
        with suppress(
            OSError
        ):  # where no file can be made, none can be removed
            temporary.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {reason(error)}") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Bring the new name of a file to the disk, so that it outlives a power cut."""
    with suppress(
        OSError
    ):  # not every system lets a folder be opened or synced
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def reason(error: Exception) -> str:
    """What went wrong, without the path that the sentence around it names."""
    said = (
        getattr(error, "strerror", None) or str(error) or type(error).__name__
    )
    return said.splitlines()[0]
