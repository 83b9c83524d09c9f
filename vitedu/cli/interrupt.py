"""Ctrl-C and SIGTERM while a run is at work."""

import os
import signal
import time
from contextlib import suppress
from types import FrameType

CTRL_C = 130  # the exit code of what Ctrl-C ended, as shells have it


class Interrupt:
    """Ctrl-C or SIGTERM as a question; a second one stops at once.

    The second counts from a second after the first: torchrun passes Ctrl-C on
    to processes that the terminal has sent it to already.
    """

    def __init__(self) -> None:
        self.signals = (signal.SIGINT, signal.SIGTERM)
        self.received: float | None = None  # when, in seconds
        self.number: int | None = None  # which signal

    def __enter__(self) -> "Interrupt":
        self.before = [
            signal.signal(number, self.receive) for number in self.signals
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in zip(self.signals, self.before, strict=True):
            # None: it isn't Python's, and cannot be put back
            signal.signal(number, handler or signal.SIG_DFL)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal; a later one does what it does elsewhere."""
        if self.received is None:
            self.received, self.number = time.monotonic(), number
            line = (
                b"stopping after this step and saving; "
                b"repeat to quit immediately\n"
            )
            # print cannot be entered again if the signal came in the middle of
            # it; and nobody may be reading
            with suppress(OSError):
                # on a terminal, the line begins with a bar and "^C"
                os.write(2, b"\n" + line if os.isatty(2) else line)
        elif time.monotonic() > self.received + 1:
            self.__exit__()
            signal.raise_signal(number)

    def is_requested(self) -> bool:
        """Whether a signal came."""
        return self.received is not None

    @property
    def code(self) -> int:
        """The exit code of a run that was stopped and saved.

        0 after SIGTERM, which a scheduler sends: it would take anything else
        for a failure.
        """
        return CTRL_C if self.number == signal.SIGINT else 0
