"""Speeds and ratios from the seconds of turns."""

import statistics
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """The median of several measurements, and the quartiles around it."""

    low: float
    median: float
    high: float


def spread(values: list[float]) -> Spread:
    """Median and quartiles of at least two numbers."""
    return Spread(*statistics.quantiles(values, n=4, method="inclusive"))


def compare(
    seconds: dict[str, list[float]], num_images: int, same: set[str]
) -> dict[str, Any]:
    """Speeds and ratios from the seconds of turns of `num_images` each.

    A ratio is ours to theirs within a round, above 1 where ours is faster. Only
    the peers in `same`, which compute the same function, can be the fastest
    peer.
    """
    speeds = {
        name: [num_images / each for each in turns]
        for name, turns in seconds.items()
    }
    rows: dict[str, Any] = {}
    for name, speed in speeds.items():
        rows[name] = {"images_per_second": spread(speed)._asdict()}
        if name != "vitedu":
            pairs = zip(speeds["vitedu"], speed, strict=True)
            rows[name]["ratio"] = spread([a / b for a, b in pairs])._asdict()
    rivals = [name for name in rows if name in same - {"vitedu"}]
    fastest = max(
        rivals,
        key=lambda name: rows[name]["images_per_second"]["median"],
        default=None,
    )
    return {
        "contestants": rows,
        "fastest_peer": fastest,
        "ratio": rows[fastest]["ratio"] if fastest else None,
        "seconds": seconds,
    }
