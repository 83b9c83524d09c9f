"""Notes on a run: what it decided for you, in the logger "vitedu".

`logging.getLogger("vitedu").setLevel("WARNING")` silences them.
"""

import builtins
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from vitedu.errors import printable

log = logging.getLogger("vitedu")  # notes have the level INFO


def is_watched() -> bool:
    return hasattr(builtins, "get_ipython") or sys.stderr.isatty()


class Aloud(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(printable(f"note: {record.getMessage()}"), file=sys.stderr)


@contextmanager
def notes_aloud(is_wanted: bool) -> Iterator[None]:
    """Notes are heard if somebody watches; set logging up, and it decides."""
    is_set_up = log.level != logging.NOTSET or log.isEnabledFor(logging.INFO)
    if not is_wanted or is_set_up or not is_watched():
        yield
        return
    handler = Aloud()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(handler)
