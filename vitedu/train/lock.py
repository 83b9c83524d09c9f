"""A folder for one process at a time, as long as it is the same folder."""

import os
from multiprocessing.util import register_after_fork
from pathlib import Path
from types import TracebackType

from vitedu.errors import UserError, reason


class FolderTaken(UserError):
    """The folder belongs to another run, another process or another person."""


class FolderLock:
    """`with FolderLock(path):` makes the folder if needed and keeps others out.

    The lock ends with the block or with this process, whichever is first. Where
    the system or the disk doesn't know locks, nobody is kept out.

    FolderTaken: another process has the lock. UserError: the folder can't be
    made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor: int | None = None
        # A forked data worker would keep the lock of a run that was killed.
        register_after_fork(self, FolderLock.release)

    def __enter__(self) -> "FolderLock":
        try:
            import fcntl
        except ImportError:  # Windows
            return self
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise UserError(
                f"cannot make {self.path}: {reason(error)}"
            ) from None
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise FolderTaken(
                f"another process is training in {self.path}; wait for it, "
                "stop it, or train in another folder"
            ) from None
        except OSError:  # a disk that doesn't know locks
            pass
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let others in."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def check(self) -> None:
        """FolderTaken unless the folder at this path is still the locked one.

        The lock belongs to a folder and not to its name: after `rm -rf` another
        process can make a new one there, and lock that.
        """
        if self.descriptor is None:
            return
        try:
            there = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            there = None
        except OSError:
            return  # the write that comes next says what is wrong
        locked = os.fstat(self.descriptor)
        if there is None or not os.path.samestat(locked, there):
            raise FolderTaken(
                f"{self.path} was deleted or replaced while this run was "
                "training in it; the run stops here, and nothing of it is "
                "written to that path"
            )
