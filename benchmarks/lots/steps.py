"""Lot 1: a training step of ViT-B/16 at 224 pixels beside timm, torchvision.

In every format that the card has, then with one setting changed at a time; and
the largest batch, beside what `vitedu.budget` counts.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch

from lots import RANDOM, Options, Outcome, free, in_pieces, tell
from lots.timing import (
    Contestant,
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
from vitedu.bench.measure import step_of, wait
from vitedu.bench.peers import Contestant as Peer
from vitedu.errors import UserError
from vitedu.model import ViTConfig
from vitedu.train import train_step
from vitedu.train.precision import DTYPES

PEERS = ("timm", "torchvision")
BATCHES = (256, 64)
SETTINGS: dict[str, dict[str, Any]] = {  # of ours, one changed at a time
    "as it is": {},
    "attention from single operations": {"attention": "math"},
    "attention=flash": {"attention": "flash"},
    "attention=efficient": {"attention": "efficient"},
    "attention=cudnn": {"attention": "cudnn"},
    "AdamW, not fused": {"fused": False},
    "channels_last": {"channels_last": True},
}
COMPILED: dict[str, dict[str, Any]] = {
    "as it is": {},
    "compiled": {"compile": "default"},
    "compiled, CUDA graphs": {"compile": "reduce-overhead"},
}
FIRST_TRY = 256  # images, when looking for the largest batch


def run(options: Options) -> Iterator[Outcome]:
    """Yield what is measured so far after every row."""
    config = chosen("ViT-B/16", options)
    small = {256: 4, 64: 2} if options.smoke else {}
    large, middle = (small.get(each, each) for each in BATCHES)
    best = half(options.device)

    @cache
    def peers() -> list[Peer]:
        entered, away = contestants(config, PEERS)
        for why in away.values():
            tell(f"steps: {why}")
        return entered

    def row(precision: str, batch_size: int, compile: str | None = None):
        setup = Setup(precision, batch_size, compile=compile)
        # compiling takes minutes, so only beside the fastest
        entered = [x for x in peers() if not compile or x.name != "torchvision"]
        return beside(entered, config, setup, options)

    pieces = {
        f"{best}-{large}": partial(row, best, large),
        f"{best}-{large}-compiled": partial(row, best, large, "default"),
        f"{best}-{middle}": partial(row, best, middle),
        f"settings-{best}-{large}": lambda: switched(
            peers()[0], config, Setup(best, large), SETTINGS, options
        ),
        **{
            f"{precision}-{batch_size}": partial(row, precision, batch_size)
            for precision in ("tf32", "fp16", "fp32")
            for batch_size in (large, middle)
            if precision != best
        },
        f"largest-{best}": lambda: largest(peers()[0], config, best, options),
        f"compiled-{best}-{middle}": lambda: switched(
            peers()[0], config, Setup(best, middle), COMPILED, options
        ),
        "largest-fp32": lambda: largest(peers()[0], config, "fp32", options),
    }
    if options.smoke:
        del pieces["largest-fp32"]
    yield from in_pieces(options, pieces, partial(outcome, config))


def beside(
    entered: list[Peer], config: ViTConfig, setup: Setup, options: Options
) -> dict[str, Any]:
    """A step of ours and of the peers, all set up alike."""
    forget_compiled()
    there = {
        each.name: contestant(each.model, config, setup, options)
        for each in entered
    }
    rows = time_turns(there, options, training=True)
    values = complete(rows, config, setup, options)
    ours = rows["vitedu"]
    ratios = ", ".join(
        f"{row['times']['median']:.3f} times {name}"
        for name, row in rows.items()
        if name != "vitedu"
    )
    tell(
        f"steps: {setup.precision}, batch {setup.batch_size}"
        f"{', compiled' if setup.compile else ''}: "
        f"{ours['images_per_second']['median']:,.0f} images/s, {ratios}, "
        f"MFU {100 * ours['mfu']['matrix_product']:.1f}%"
    )
    return values


def switched(
    ours: Peer,
    config: ViTConfig,
    setup: Setup,
    settings: dict[str, dict[str, Any]],
    options: Options,
) -> dict[str, Any]:
    """A step of ours with one setting changed at a time."""
    forget_compiled()
    there: dict[str, Contestant] = {}
    away = {}
    for name, changed in settings.items():
        try:
            each = contestant(
                ours.model, config, setup._replace(**changed), options
            )
            step_of(each.state, each.batch, True)()
        except (UserError, RuntimeError) as error:  # this card has no such
            away[name] = str(error).splitlines()[0]
            tell(f"steps: {name}: left out, {away[name]}")
            continue
        there[name] = each
    rows = time_turns(there, options, training=True)
    for name, row in rows.items():
        speed = row["images_per_second"]["median"]
        tell(f"steps: batch {setup.batch_size}, {name}: {speed:,.0f} images/s")
    return complete(rows, config, setup, options) | {"left_out": away}


def complete(
    rows: dict[str, dict[str, Any]],
    config: ViTConfig,
    setup: Setup,
    options: Options,
) -> dict[str, Any]:
    """Rows with their share of the card's speed, and the budget's memory."""
    roofs = ceilings(setup.precision, options.device)
    for row in rows.values():
        speed = row["images_per_second"]["median"]
        row["mfu"] = {
            name: budget.mfu(config, speed, roof)
            for name, roof in roofs.items()
        }
    counted = counted_memory(config, setup.precision, setup.batch_size)
    return {
        "setup": setup._asdict() | {"weights": str(setup.weights)},
        "rows": rows,
        "ceilings": roofs,
        "counted_memory": counted,
    }


def counted_memory(config: ViTConfig, precision: str, batch_size: int) -> int:
    """Bytes of a step, as `vitedu.budget` has them."""
    return budget.memory(
        config, batch_size=batch_size, autocast=DTYPES.get(precision)
    ).total


def largest(
    ours: Peer, config: ViTConfig, precision: str, options: Options
) -> dict[str, Any]:
    """The largest batch of which a step fits, to 1/16; and the budget's."""
    device, first = options.device, 4 if options.smoke else FIRST_TRY
    one = contestant(ours.model, config, Setup(precision, 1), options)
    one.state.model.train()
    free(device)
    most, room = None, 0
    if device.type == "cuda":
        # what the weights take is counted by the budget too
        room = torch.cuda.mem_get_info(device)[0]
        room += torch.cuda.memory_reserved(device)
    else:  # a smoke test: no memory that ends
        most, room = 2 * first, counted_memory(config, precision, 2 * first)
    found = search(partial(fits, one, config, device), first, most)
    values = {
        "batch_size": found,
        "counted_batch_size": search(
            lambda size: counted_memory(config, precision, size) <= room,
            first,
            most,
        ),
        "available_memory": room,
        "counted_memory": counted_memory(config, precision, max(found, 1)),
    }
    tell(
        f"steps: {precision}, largest batch {found:,}; "
        f"{values['counted_batch_size']:,} by the budget"
    )
    return values


def fits(
    one: Contestant, config: ViTConfig, device: torch.device, batch_size: int
) -> bool:
    """Whether a step on that many images finds the memory it needs."""
    shape = (batch_size, config.in_channels, *config.image_size)
    try:
        images = torch.randn(shape, device=device)
        labels = torch.zeros(batch_size, dtype=torch.int64, device=device)
        train_step(one.state, (images, labels))
        wait(device)
        is_enough = True
    except torch.cuda.OutOfMemoryError:
        is_enough = False
    # outside of `except`, where the error would keep the step's tensors alive
    images = labels = None
    one.state.optimizer.zero_grad()
    free(device)
    return is_enough


def search(
    works: Callable[[int], bool], first: int, most: int | None = None
) -> int:
    """The largest size that works, to 1/16, but at most `most`; 0: none."""
    low, high = 0, first
    while works(high):
        low = high
        if low == most:
            return low
        high *= 2
    while high - low > max(high // 16, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low


def outcome(
    config: ViTConfig, done: dict[str, dict[str, Any]], still_open: list[str]
) -> Outcome:
    """What the rows say, as a recorded result."""
    metrics: dict[str, Any] = {}
    for piece, values in done.items():
        if "batch_size" in values:
            for name in ("batch_size", "counted_batch_size"):
                metrics[f"{piece}/{name}"] = {
                    "value": values[name],
                    "unit": "images, AdamW",
                }
        for name, row in values.get("rows", {}).items():
            own = f"{piece}/{name}"
            speed = row["images_per_second"]
            metrics[f"{own}/speed"] = metric(speed, "images per second")
            if name in PEERS:
                unit = f"times as fast as {name}"
                metrics[f"{piece}/ratio_{name}"] = metric(row["times"], unit)
                continue
            for roof, share in row["mfu"].items():
                metrics[f"{own}/mfu_{roof}"] = {
                    "value": 100 * share,
                    "unit": f"percent of {roof}",
                }
            if row["peak_memory"]:
                metrics[f"{own}/memory"] = {
                    "value": row["peak_memory"],
                    "unit": "bytes",
                }
        if "counted_memory" in values:
            counted = {"value": values["counted_memory"], "unit": "bytes"}
            metrics[f"{piece}/counted_memory"] = counted
    away = {x: v["away"] for x, v in done.items() if "away" in v}
    return Outcome(
        {"model": config.to_json(), "pieces": done},
        metrics,
        RANDOM,
        still_open,
        "; ".join(f"{name}: {why}" for name, why in away.items()),
    )
