"""Lot 2: one training step, timed after every line that makes it faster.

ViT-B/16, Ti/16 and S/16 at 224 pixels, from float32 to the compiled step; and
which kernels take the time, at the foot of the ladder and at its top.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from lots import RANDOM, Options, Outcome, in_pieces, tell
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
from vitedu.bench.measure import step_of, timed, wait
from vitedu.errors import UserError
from vitedu.model import ViTConfig, new_network

MODELS = ("ViT-B/16", "ViT-Ti/16", "ViT-S/16")
PROFILED = "ViT-B/16"
PROFILED_STEPS = 3
MOST_KERNELS = 25  # of a table
SMALL, LARGE = 64, 256  # images in a batch


class Rung(NamedTuple):
    """A line of code that is changed, and kept for the rungs above."""

    name: str
    line: str
    changes: dict[str, Any]
    is_kept: bool = True


# What a kernel does, by words of its name; the first that fits.
KINDS = {
    "attention": ("flash", "fmha", "attention", "sdpa"),
    "compiled": ("triton",),
    "optimizer": ("adam", "multi_tensor"),
    "products": ("gemm", "nvjet", "cutlass", "xmma", "cublas", "splitk"),
    "convolution": ("conv", "wgrad", "dgrad", "cudnn"),
    "norms": ("layer_norm", "layernorm", "gammabeta"),
    "softmax": ("softmax",),
    "GELU": ("gelu",),
    "copies and casts": ("copy", "memcpy", "memset", "catarray"),
    "sums": ("reduce",),
    "element by element": ("elementwise",),
}


def rungs(best: str, small: int, large: int) -> list[tuple[Rung, Setup]]:
    """The ladder: each rung and the whole setup there."""
    dtype = {"bf16": "torch.bfloat16", "fp16": "torch.float16"}.get(best)
    tf32 = 'torch.set_float32_matmul_precision("high")'
    cast = f'with torch.autocast("cuda", {dtype}):'
    fused = "scaled_dot_product_attention(q, k, v)"
    last = "model.to(memory_format=torch.channels_last)"
    steps = [
        Rung("float32", "", {}),
        Rung("TF32", tf32, {"precision": "tf32"}),
        Rung(best, cast, {"precision": best}),
        Rung("fused attention", fused, {"attention": "auto"}),
        Rung("fused AdamW", "AdamW(..., fused=True)", {"fused": True}),
        Rung("channels_last", last, {"channels_last": True}, False),
        Rung(f"batch of {large}", "", {"batch_size": large}),
        Rung("compiled", "model.compile()", {"compile": "default"}),
    ]
    at = Setup("fp32", small, attention="math", fused=False)
    ladder = []
    for rung in steps:
        setup = at._replace(**rung.changes)
        ladder.append((rung, setup))
        if rung.is_kept:
            at = setup
    return ladder


def run(options: Options) -> Iterator[Outcome]:
    """Yield what is measured so far, for each model twice: eager, compiled."""
    small, large = (2, 4) if options.smoke else (SMALL, LARGE)
    ladder = rungs(half(options.device), small, large)
    eager = [(rung, setup) for rung, setup in ladder if not setup.compile]
    compiled = [(rung, setup) for rung, setup in ladder if setup.compile]
    pieces = {}
    for model in MODELS:
        name = model.replace("/", "-")
        pieces[name] = partial(climb, model, eager, options)
        pieces[f"{name}-compiled"] = partial(climb, model, compiled, options)
    # the last, since a profiler may slow down what is timed after it
    ends = [ladder[0], ladder[-1]]
    pieces["kernels"] = partial(profiled, PROFILED, ends, options)
    if options.smoke:
        pieces = {x: pieces[x] for x in (*[*pieces][:2], "kernels")}
    yield from in_pieces(options, pieces, partial(outcome, ladder))


def networks(
    model: str, ladder: list[tuple[Rung, Setup]], options: Options
) -> tuple[ViTConfig, dict[str, Contestant]]:
    """A network for each rung, without those that the device can't do."""
    config = chosen(model, options)
    torch.manual_seed(0)
    network = new_network(config)
    there = {}
    for rung, setup in ladder:
        try:
            there[rung.name] = contestant(network, config, setup, options)
        except UserError as error:
            tell(f"ladder: {rung.name}: left out, {error}")
    return config, there


def climb(
    model: str, ladder: list[tuple[Rung, Setup]], options: Options
) -> dict[str, Any]:
    """The speed on every rung."""
    forget_compiled()
    config, there = networks(model, ladder, options)
    rows = time_turns(there, options, training=True)
    roofs = ceilings(half(options.device), options.device)
    for name, row in rows.items():
        speed = row["images_per_second"]["median"]
        row["mfu"] = budget.mfu(config, speed, roofs["matrix_product"])
        tell(
            f"ladder: {model}, {name}: {row['milliseconds']:.1f} ms for "
            f"{row['batch_size']} images, {speed:,.0f} images/s"
        )
    return {"model": config.to_json(), "rows": rows, "ceilings": roofs}


def profiled(
    model: str, ladder: list[tuple[Rung, Setup]], options: Options
) -> dict[str, Any]:
    """Which kernels take the time of a step, on each of these rungs."""
    forget_compiled()
    tables = {}
    for rung, setup in ladder:
        _, there = networks(model, [(rung, setup)], options)
        for name, each in there.items():
            tables[name] = kernels(each, options)
            shares = ", ".join(
                f"{kind} {100 * share:.0f}%"
                for kind, share in tables[name]["kinds"].items()
            )
            tell(f"ladder: {model}, {name}: {shares}")
    if not any(table["kernels"] for table in tables.values()):
        raise UserError("the profiler sees no kernels here")
    return {"tables": tables}


def kernels(one: Contestant, options: Options) -> dict[str, Any]:
    """Shares of the kernels' time in a step, by kernel and by kind.

    `busy` is their sum as a share of the step's time without the profiler.
    """
    device = options.device
    is_cuda = device.type == "cuda"
    one.state.model.train()
    step = step_of(one.state, one.batch, True)
    for _ in range(PROFILED_STEPS):
        step()
    seconds = min(timed(step, device) for _ in range(PROFILED_STEPS))
    activity = ProfilerActivity.CUDA if is_cuda else ProfilerActivity.CPU
    with profile(activities=[activity]) as profiler:
        for _ in range(PROFILED_STEPS):
            step()
        wait(device)
    spent: dict[str, tuple[float, int]] = {}
    for event in profiler.key_averages():
        if is_cuda and (
            event.device_type != torch.autograd.DeviceType.CUDA
            or getattr(event, "is_user_annotation", False)
        ):
            continue
        micros = (
            event.self_device_time_total
            if is_cuda
            else event.self_cpu_time_total
        )
        if micros > 0:
            spent[event.key] = (micros, event.count)
    total = sum(micros for micros, _ in spent.values())
    ordered = sorted(spent.items(), key=lambda item: -item[1][0])
    kinds: dict[str, float] = {}
    for name, (micros, _) in ordered:
        kinds[kind(name)] = kinds.get(kind(name), 0.0) + micros / total
    return {
        "kernels": [
            {
                "name": name[:200],
                "kind": kind(name),
                "share": micros / total,
                "milliseconds": micros / 1000 / PROFILED_STEPS,
                "calls": count / PROFILED_STEPS,
            }
            for name, (micros, count) in ordered[:MOST_KERNELS]
        ],
        "kinds": dict(sorted(kinds.items(), key=lambda item: -item[1])),
        "different_kernels": len(spent),
        "step_milliseconds": 1000 * seconds,
        "busy": total / 1e6 / PROFILED_STEPS / seconds,
    }


def kind(name: str) -> str:
    """What a kernel of this name does."""
    name = name.lower()
    for found, words in KINDS.items():
        if any(word in name for word in words):
            return found
    return "other"


def outcome(
    ladder: list[tuple[Rung, Setup]],
    done: dict[str, dict[str, Any]],
    still_open: list[str],
) -> Outcome:
    """What the rungs say, as a recorded result."""
    metrics: dict[str, Any] = {}
    for piece, values in done.items():
        own = piece.removesuffix("-compiled")
        for name, row in values.get("rows", {}).items():
            speed = row["images_per_second"]
            share = {"value": 100 * row["mfu"], "unit": "percent of products"}
            metrics[f"{own}/{name}/speed"] = metric(speed, "images per second")
            metrics[f"{own}/{name}/mfu"] = share
            if row["peak_memory"]:
                memory = {"value": row["peak_memory"], "unit": "bytes"}
                metrics[f"{own}/{name}/memory"] = memory
        for name, table in values.get("tables", {}).items():
            for each, share in table["kinds"].items():
                metrics[f"kernels/{name}/{each}"] = {
                    "value": 100 * share,
                    "unit": "percent of the kernels' time",
                }
            busy = {"value": 100 * table["busy"], "unit": "percent of a step"}
            metrics[f"kernels/{name}/busy"] = busy
    lines = [
        {
            "name": rung.name,
            "line": rung.line,
            "is_kept": rung.is_kept,
            "setup": setup._asdict() | {"weights": str(setup.weights)},
        }
        for rung, setup in ladder
    ]
    away = [f"{x}: {v['away']}" for x, v in done.items() if "away" in v]
    config = {"rungs": lines, "pieces": done}
    return Outcome(config, metrics, RANDOM, still_open, "; ".join(away))
