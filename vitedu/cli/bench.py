"""`vitedu bench`: a model's speed beside other libraries', in one run."""

import argparse
from typing import Any

from vitedu.bench import KINDS, PEERS, Settings
from vitedu.bench import bench as measure
from vitedu.cli.output import Answer, Command, rows_in, say
from vitedu.cli.overrides import split_words
from vitedu.errors import UserError
from vitedu.model import HYBRIDS, NAMES, RESNETS
from vitedu.train import find_device, override
from vitedu.weights.named import network_config_of


def bench(options: argparse.Namespace) -> Answer:
    names, changes = split_words(options.words)
    if len(names) != 1:
        raise UserError(
            "bench needs one MODEL, as in `vitedu bench ViT-S/16 "
            "image_size=384`"
        )
    # train takes model.image_size=384, here there is nothing but a model
    changes = {
        name.removeprefix("model."): value for name, value in changes.items()
    }
    config = override(network_config_of(names[0]), changes)
    device = find_device(options.device)
    batch_size = options.batch
    if batch_size is None:
        batch_size = 4 if device.type == "cpu" else 128
    settings = Settings(
        batch_size=batch_size,
        precision=options.precision,
        compile=options.compile,
        rounds=options.rounds,
        threads=options.threads,
        kinds=tuple(x for x in KINDS if getattr(options, x)) or KINDS,
    )
    against = tuple(name for name in options.against.split(",") if name)
    measured = measure(
        config, settings, against=against, device=device, tell=say
    )
    values = {"model": names[0], **measured}
    return Answer(values, text(values))


def text(values: dict[str, Any]) -> str:
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
    ceilings = {name: name.replace("_", " ") for name in values["ceilings"]}
    for name, title in ceilings.items():
        value = values["ceilings"][name]
        shown = f"{value / 1e12:.4g} TFLOP/s" if value else "unknown"
        lines.append(f"ceiling ({title}): {shown}")
    for kind in settings["kinds"]:
        lines += ["", *table(kind, values[kind]["contestants"], ceilings)]
    lines += [
        f"{name} did not take part: {why}"
        for name, why in values["away"].items()
    ]
    return "\n".join(lines)


def table(
    kind: str, contestants: dict[str, Any], ceilings: dict[str, str]
) -> list[str]:
    rows = [[kind, "images/s", "ours / theirs", "peak memory"]]
    rows[0] += [f"MFU ({title})" for title in ceilings.values()]
    for name, row in contestants.items():
        memory = row["peak_memory"]
        speed, ratio = row["images_per_second"], row.get("ratio")
        cells = [
            name,
            quartiles(speed, ".1f"),
            quartiles(ratio, ".3f") if ratio else "",
            f"{memory / 2**30:.2f} GiB" if memory else "not counted",
        ]
        cells += [
            f"{100 * row['mfu'][x]:.1f}%" if x in row["mfu"] else ""
            for x in ceilings
        ]
        rows.append(cells)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows]


def quartiles(values: dict[str, float], form: str) -> str:
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
    words=rows_in("""
        MODEL  a name: ViT-B/16, R50+ViT-B/16, BiT-R50x1; see `vitedu info`
        field=value  of the model: image_size=384, depth=6
    """),
    examples=rows_in("""
        vitedu bench ViT-Ti/16 --batch 8  on this computer
        vitedu bench ViT-B/16 --against timm --precision bf16 --training
            a training step beside timm's
    """),
    options=rows_in(f"""
        --against LIST  of {", ".join(PEERS)}; all of them by default
        --batch N  images at a time: 4 on a CPU, 128 elsewhere
        --precision P  fp32, tf32, bf16, fp16, or auto: the fastest that the
            device computes well
        --compile  with torch.compile
        --threads N  threads of the CPU; by default as many as torch takes
        --rounds N  how often all take their turn; 9 by default, at least 5
        --inference  only inference
        --training  only training
    """),
    defaults={"against": ",".join(PEERS), "precision": "auto", "rounds": 9},
    completions=lambda: [*NAMES, *HYBRIDS, *RESNETS],
)
