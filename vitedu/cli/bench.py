"""`vitedu bench`: a model's speed beside other libraries', in one run."""

import argparse
from dataclasses import fields
from typing import Any

from vitedu.bench import KINDS, PEERS, Settings
from vitedu.bench import bench as measure
from vitedu.cli.answer import Answer
from vitedu.cli.command import Command
from vitedu.cli.talk import say
from vitedu.cli.words import split_words
from vitedu.errors import UserError
from vitedu.model import HYBRIDS, NAMES, RESNETS, ViTConfig
from vitedu.model.network import network_config_of
from vitedu.train import find_device, override


def bench(options: argparse.Namespace) -> Answer:
    """Images a second of ours and of the peers, ratios, memory, utilisation."""
    names, changes = split_words(options.words)
    # train takes model.image_size=384, here there is nothing but a model
    changes = {
        name.removeprefix("model."): value for name, value in changes.items()
    }
    if len(names) != 1:
        raise UserError(
            "bench needs one MODEL, as in `vitedu bench ViT-S/16 "
            "image_size=384`"
        )
    config = override(network_config_of(names[0]), changes)
    device = find_device(options.device)
    kinds = tuple(x for x in KINDS if getattr(options, x))
    batch_size = options.batch
    if batch_size is None:
        batch_size = 4 if device.type == "cpu" else 128
    settings = Settings(
        batch_size=batch_size,
        precision=options.precision,
        compile=options.compile,
        rounds=options.rounds,
        threads=options.threads,
        kinds=kinds or KINDS,
    )
    against = tuple(name for name in options.against.split(",") if name)
    measured = measure(
        config, settings, against=against, device=device, tell=say
    )
    values = {"model": names[0], **measured}
    return Answer(values, text(values))


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `vitedu bench` takes."""
    parser.add_argument(
        "--against",
        default=",".join(PEERS),
        metavar="LIST",
        help=f"of {', '.join(PEERS)}; all of them by default",
    )
    parser.add_argument(
        "--batch",
        type=int,
        metavar="N",
        help="images at a time: 4 on a CPU, 128 elsewhere",
    )
    parser.add_argument(
        "--precision",
        default="auto",
        metavar="P",
        help="fp32, tf32, bf16, fp16, or auto: the fastest that the device "
        "computes well",
    )
    parser.add_argument(
        "--compile", action="store_true", help="with torch.compile"
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="threads of the CPU; by default as many as torch takes",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=9,
        metavar="N",
        help="how often all take their turn; 9 by default, at least 5",
    )
    parser.add_argument(
        "--inference", action="store_true", help="only inference"
    )
    parser.add_argument("--training", action="store_true", help="only training")


def text(values: dict[str, Any]) -> str:
    """A table for each kind, below what is the same for all of them."""
    settings, config = values["settings"], values["config"]
    height, width = config["image_size"]
    count = values["contestants"]["vitedu"]["parameters"]
    lines = [
        f"{values['model']}: {count:,} parameters, images of {height}x{width}, "
        f"{config['num_classes']:,} classes",
        f"{values['hardware']}; batch {settings['batch_size']}, "
        f"{values['precision']}, "
        f"{'compiled' if settings['compile'] else 'not compiled'}, AdamW "
        f"(fused), {settings['rounds']} rounds, clock {values['clock']}",
    ]
    for ceiling, value in values["ceilings"].items():
        shown = f"{value / 1e12:.4g} TFLOP/s" if value else "unknown"
        lines.append(f"ceiling ({ceiling.replace('_', ' ')}): {shown}")
    for kind in settings["kinds"]:
        lines += ["", *rows(kind, values[kind], list(values["ceilings"]))]
    lines += [
        f"{name} did not take part: {why}"
        for name, why in values["away"].items()
    ]
    return "\n".join(lines)


def rows(kind: str, measured: dict[str, Any], ceilings: list[str]) -> list[str]:
    """A line per contestant: speed, ratio, quartiles, memory, utilisation."""
    head = ["images/s", "ours / theirs", "peak memory"]
    head += [f"MFU ({ceiling.replace('_', ' ')})" for ceiling in ceilings]
    table = [[kind, *head]]
    for name, row in measured["contestants"].items():
        memory = row["peak_memory"]
        shares = [
            f"{100 * row['mfu'][each]:.1f} %" if each in row["mfu"] else ""
            for each in ceilings
        ]
        table.append(
            [
                name,
                spread(row["images_per_second"], ".1f"),
                spread(row["ratio"], ".3f") if "ratio" in row else "",
                f"{memory / 2**30:.2f} GiB" if memory else "not counted",
                *shares,
            ]
        )
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in table
    ]


def spread(values: dict[str, float], form: str) -> str:
    """A median with its quartiles."""
    low, median, high = (
        format(values[x], form) for x in ("low", "median", "high")
    )
    return f"{median} ({low} to {high})"


BENCH = Command(
    bench,
    usage="MODEL [field=value ...]",
    summary="a model's speed compared to other libraries",
    about="Measure a model's speed against other libraries, all in one run "
    "and turn by turn: images a second, ratios, memory, utilisation.",
    words=[
        (
            "MODEL",
            "a name: ViT-B/16, R50+ViT-B/16, BiT-R50x1; see `vitedu info`",
        ),
        ("field=value", "of the model: image_size=384, depth=6"),
    ],
    examples=[
        ("vitedu bench ViT-Ti/16 --batch 8", "on this computer"),
        (
            "vitedu bench ViT-B/16 --against timm --precision bf16 --training",
            "a training step beside timm's",
        ),
    ],
    add_options=add_options,
    fields=lambda: [each.name for each in fields(ViTConfig)],
    completions=lambda: [*NAMES, *HYBRIDS, *RESNETS],
)
