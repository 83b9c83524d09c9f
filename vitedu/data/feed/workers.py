"""Data workers that end with their parent, and errors that explain their death.

`DataLoader(..., worker_init_fn=follow_the_parent)`
"""

import multiprocessing
import os
import re
import signal
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vitedu.errors import UserError


def follow_the_parent(worker: int) -> None:
    """Ignore Ctrl-C, which the parent handles, and end with the parent.

    A killed parent can't stop its workers, which would keep memory and files
    that the next run needs.
    """
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    # pillow warns about files that it can read
    warnings.filterwarnings("ignore", module="PIL")


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # Windows has no SIGKILL, and there SIGTERM ends a process at once too
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


@contextmanager
def explain_killed_workers() -> Iterator[None]:
    """Turn torch's error about a killed worker into one sentence.

    torch raises it wherever the program is, even in a training step, so wrap
    everything that is done with the batches.
    """
    try:
        yield
    except RuntimeError as error:
        found = re.match(r"DataLoader worker \(pid.*?(\d+)", str(error))
        if found is None:
            raise
        is_shared = "Bus error" in str(error)
        memory = "shared memory (/dev/shm)" if is_shared else "memory"
        raise _killed(
            f"the data worker with process number {found[1]}", memory
        ) from error
    except (ConnectionError, EOFError) as error:
        # killed while it handed a batch over: this end of the pipe notices
        # before torch does
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if Path(frame.f_code.co_filename).parent.name != "multiprocessing":
            raise
        raise _killed("a data worker", "memory") from error


def _killed(worker: str, memory: str) -> UserError:
    return UserError(
        f"{worker} was killed, most likely because {memory} ran out; set "
        "num_workers to a smaller number (0: no workers), or give the machine "
        "more"
    )
