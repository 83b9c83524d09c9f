"""Ctrl-C and SIGTERM, which end a run between two steps."""

import os
import signal
import threading
import time
from contextlib import suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """A signal asks the run to stop; a second one stops it at once.

    Signals within one second count once: torchrun passes Ctrl-C on to processes
    that already got it from the terminal.
    """

    received: float | None = None  # when, in seconds
    number: int | None = None  # of the signal

    def __init__(self, signals: tuple[int, ...] = SIGNALS) -> None:
        self.signals = signals

    def __enter__(self) -> "Interrupt":
        self.before = {x: signal.signal(x, self.receive) for x in self.signals}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received, self.number = time.monotonic(), number
            line = "\nstopping after this step and saving; repeat to quit "
            # print isn't reentrant, and the signal may come during one; stderr
            # may be closed
            with suppress(OSError):
                os.write(2, f"{line}immediately\n".encode())
        elif time.monotonic() > self.received + 1:
            self.__exit__()
            signal.raise_signal(number)

    def is_requested(self) -> bool:
        return self.received is not None


def ctrl_c() -> Interrupt:
    """An Interrupt for Ctrl-C, if Python's own handler would get it here.

    In other threads, and where a program handles it, it does nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    is_here = threading.current_thread() is threading.main_thread()
    is_free = is_here and handler is signal.default_int_handler
    return Interrupt((signal.SIGINT,) if is_free else ())
