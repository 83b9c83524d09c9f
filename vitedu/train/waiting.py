"""How long a run waits for its data.

`for batch in wait.watched(batches): ...`, and later `wait.take()`, in seconds.
"""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch

Batch = TypeVar("Batch")


class DataWait:
    """Seconds in which there was nothing to do until the next batch came.

    A CUDA GPU works behind this process, so what this process waits may cost
    nothing. There the time is the device's own, between two events around each
    batch: from the end of all earlier work to the moment the batch is on the
    device. They are read by `take` alone, so no step waits for them. On other
    devices it is this process's time.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self.seconds = 0.0

    def watched(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches; how long each is waited for is noted."""
        is_gpu = self.device.type == "cuda"
        iterator = iter(batches)
        while True:
            began = time.perf_counter()
            idle = event_on(self.device) if is_gpu else None
            try:
                batch = next(iterator)
            except StopIteration:
                return
            if idle is None:
                self.seconds += time.perf_counter() - began
            else:
                self.events.append((idle, event_on(self.device)))
            yield batch

    def take(self) -> float:
        """Seconds since the last call; waits for a GPU."""
        for idle, came in self.events:
            came.synchronize()
            self.seconds += idle.elapsed_time(came) / 1000
        seconds, self.seconds, self.events = self.seconds, 0.0, []
        return seconds


def event_on(device: torch.device) -> torch.cuda.Event:
    """A mark behind all the work that a GPU has been given so far."""
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event
