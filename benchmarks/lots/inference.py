"""Lot 3: inference with ViT-B/16 at 224 pixels, beside timm and torchvision.

One image at a time, where what counts is how long it takes, and 64.
"""

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import torch

from lots import RANDOM, Options, Outcome, in_pieces, tell
from lots.timing import (
    Setup,
    ceilings,
    chosen,
    contestant,
    forget_compiled,
    half,
    metric,
    time_turns,
)
from vitedu import budget
from vitedu.bench import contestants
from vitedu.bench.peers import Contestant as Peer
from vitedu.model import ViTConfig
from vitedu.train.precision import DTYPES

PEERS = ("timm", "torchvision")
BATCHES = (1, 64)
# name: changes of the setup, and the peers beside us
ROWS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "autocast": ({}, PEERS),
    "weights-too": ({"weights": "half"}, PEERS),
    "compiled": ({"weights": "half", "compile": "default"}, ("timm",)),
    "fp32": ({"precision": "fp32"}, PEERS),
    "cuda-graphs": ({"weights": "half", "compile": "reduce-overhead"}, ()),
}


def run(options: Options) -> Iterator[Outcome]:
    """Yield what is measured so far after every row."""
    config = chosen("ViT-B/16", options)
    best = half(options.device)

    @cache
    def peers() -> dict[str, Peer]:
        entered, away = contestants(config, PEERS)
        for why in away.values():
            tell(f"inference: {why}")
        return {each.name: each for each in entered}

    def row(name: str, batch_size: int) -> dict[str, Any]:
        changes, against = ROWS[name]
        setup = Setup(best, batch_size)._replace(**changes)
        if setup.weights == "half":  # all numbers in 16 bits, no autocast
            setup = setup._replace(precision="fp32", weights=DTYPES[best])
        there = [peers()[x] for x in ("vitedu", *against) if x in peers()]
        return beside(name, there, config, setup, options)

    pieces = {
        f"{name}-{batch_size}": partial(row, name, batch_size)
        for name in ROWS
        for batch_size in BATCHES
        # graphs spare launches, which many images hide
        if (name, batch_size) != ("cuda-graphs", 64)
    }
    if options.smoke:  # each row once
        pieces = {x: pieces[x] for x in pieces if not x.endswith("-64")}
    yield from in_pieces(options, pieces, partial(outcome, config))


def beside(
    name: str,
    entered: list[Peer],
    config: ViTConfig,
    setup: Setup,
    options: Options,
) -> dict[str, Any]:
    """A forward pass of ours and of the peers, all set up alike."""
    forget_compiled()
    there = {
        each.name: contestant(each.model, config, setup, options)
        for each in entered
    }
    rows = time_turns(there, options, training=False)
    is_half = setup.weights != torch.float32
    precision = half(options.device) if is_half else setup.precision
    roof = ceilings(precision, options.device)["matrix_product"]
    for each in rows.values():
        speed = each["images_per_second"]["median"]
        each["mfu"] = budget.mfu(config, speed, roof, training=False)
    ours = rows["vitedu"]
    ratios = "".join(
        f", {row['times']['median']:.3f} times {peer}"
        for peer, row in rows.items()
        if peer != "vitedu"
    )
    tell(
        f"inference: {name}, batch {setup.batch_size}: "
        f"{ours['milliseconds']:.2f} ms, "
        f"{ours['images_per_second']['median']:,.0f} images/s{ratios}"
    )
    return {
        "setup": setup._asdict() | {"weights": str(setup.weights)},
        "rows": rows,
        "matrix_product": roof,
    }


def outcome(
    config: ViTConfig, done: dict[str, dict[str, Any]], still_open: list[str]
) -> Outcome:
    """What the rows say, as a recorded result."""
    metrics: dict[str, Any] = {}
    for piece, values in done.items():
        for name, row in values.get("rows", {}).items():
            own, speed = f"{piece}/{name}", row["images_per_second"]
            metrics[f"{own}/speed"] = metric(speed, "images per second")
            metrics[f"{own}/latency"] = {
                "value": row["milliseconds"],
                "unit": "milliseconds a batch",
            }
            if name in PEERS:
                unit = f"times as fast as {name}"
                metrics[f"{piece}/ratio_{name}"] = metric(row["times"], unit)
                continue
            metrics[f"{own}/mfu"] = {
                "value": 100 * row["mfu"],
                "unit": "percent of matrix_product",
            }
    away = [f"{x}: {v['away']}" for x, v in done.items() if "away" in v]
    config_of = {"model": config.to_json(), "pieces": done}
    return Outcome(config_of, metrics, RANDOM, still_open, "; ".join(away))
