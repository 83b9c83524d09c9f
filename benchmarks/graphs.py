"""A training step as one CUDA graph: of small networks, launches cost most."""

import sys
from collections.abc import Callable

import torch


def captured(
    step: Callable[[], None], before: Callable[[], object] = lambda: None
) -> Callable[[], None] | None:
    """What replays `step`, after three of them; None: it can't be captured.

    `before` is called before each of the three and before the capture, and
    isn't part of the graph. What the three changed is the caller's to undo.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            before()
            step()
    torch.cuda.current_stream().wait_stream(side)
    before()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            step()
    except RuntimeError as error:
        print(f"steps aren't replayed: {error}", file=sys.stderr, flush=True)
        torch.cuda.synchronize()
        return None
    return graph.replay
