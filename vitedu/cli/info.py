"""`vitedu info`: what there is, and what it costs."""

import argparse
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from inspect import getdoc
from typing import Any

import torch

from vitedu import __version__, budget, results
from vitedu.bench.trial import GPUS, num_images, on_gpu, step_memory
from vitedu.cli.output import Answer, Command, Rows, rows_in, section, table
from vitedu.cli.overrides import OF_WEIGHTS, load_fields, split_words
from vitedu.data import where
from vitedu.data.catalogue import sets_of
from vitedu.data.locate import present
from vitedu.errors import UserError, counted, did_you_mean, readable_bytes
from vitedu.model import HYBRIDS, NAMES, RESNETS, ViTConfig, new_network
from vitedu.model.network import NetworkConfig
from vitedu.train import RECIPES, TrainConfig, find_device, override, recipe
from vitedu.train.config import dotted
from vitedu.train.finetune import LEAST, SHARE, tier_of, with_weights
from vitedu.train.optimizer import parameter_groups
from vitedu.train.precision import concrete
from vitedu.weights import load
from vitedu.weights.hub import EMBEDDED, HUB
from vitedu.weights.mapping import listed
from vitedu.weights.named import is_network, network_config_of

# Settings for the smallest GPUs, at the price of time.
LOW_MEMORY = {
    "micro_batch_size": "8",
    "activation_checkpointing": "true",
    "precision": "fp16",
}
# of the recipe finetune, which waits for the data
BY_DATA = {
    "model.num_classes": "counted in the data",
    "validation": f"{SHARE} of {LEAST / SHARE:.0f} photographs or more, else 0",
    "keep": "best with validation, else last",
}


def info(options: argparse.Namespace) -> Answer:
    words, fields = split_words(options.words, OF_WEIGHTS)
    if len(words) > 1:
        raise UserError(f"info takes one name, got {len(words)}")
    name = words[0] if words else None
    if name and is_network(name):
        return info_paper(name, fields)
    if fields and (name in (None, "data", "device") or name in RECIPES):
        raise UserError(f"{', '.join(fields)} belongs to a model or to weights")
    if name is None:
        return info_overview()
    if name == "data":
        return info_data()
    if name == "device":
        return info_device(find_device(options.device))
    if name in RECIPES:
        return info_recipe(name, options)
    return info_weights(name, fields)


def names() -> list[str]:
    return [*NAMES, *HYBRIDS, *RESNETS, *RECIPES, "data", "device"]


def tier_for(options: argparse.Namespace, name: str | None = None) -> str:
    return name or os.environ.get("VITEDU_TIER") or tier_of(options.device)


def info_overview() -> Answer:
    about = {}
    for name in sorted(RECIPES):
        first, _, _ = (getdoc(RECIPES[name]) or "").partition("\n\n")
        about[name] = first.replace("\n", " ")
    places = where()
    values = {
        "version": __version__,
        "recipes": sorted(RECIPES),
        "about": about,
        "models": [*NAMES, *HYBRIDS, *RESNETS],
        "datasets": list(places),
        "results": results.names(),
    }
    models = {"ViT": NAMES, "hybrids": HYBRIDS, "ResNets": RESNETS}
    datasets = [
        (name, f"here: {place.origin}" if place else "not here")
        for name, place in places.items()
    ]
    datasets += rows_in("""
        shapes  drawn when needed: shapes-1k, shapes-100k, any number of
                thousands
        glyphs-same, glyphs-which, glyphs-left  puzzles, drawn when needed
        trashnet-small, ...  photographs: `vitedu info data` lists them
        FOLDER, FILE.npz  your own: data=photos
        a-{000..127}.tar, hf:NAME  WebDataset's shards, Hugging Face's sets
    """)
    widest = max(map(len, about))
    sections = [
        section("recipes, for `vitedu train`", list(about.items()), 4 + widest),
        section(
            "models, for `vitedu.vit` and `vitedu bench`",
            [(kind, grouped(rows)) for kind, rows in models.items()],
        ),
        section(
            "trained weights in the package, for all commands",
            [(name, "no network needed") for name in EMBEDDED],
        ),
        section("data sets", datasets),
        section(
            "recorded results, in `vitedu.results`",
            [("", ", ".join(results.names()))],
        ),
    ]
    end = (
        "`vitedu info NAME` shows more about a recipe, a model or weights.\n"
        "`vitedu info data` and `vitedu info device` show what is here."
    )
    return Answer(
        values, "\n\n".join([f"vitedu {__version__}", *sections, end])
    )


def grouped(names: Iterable[str]) -> str:
    """Group names that differ in the last number: "ViT-Ti/8, /14"."""
    groups: dict[str, list[str]] = {}
    for name in names:
        kind, separator, number = re.split(r"([/x])(?=\d+$)", name)
        groups.setdefault(kind, []).append(separator + number)
    return "; ".join(kind + ", ".join(ends) for kind, ends in groups.items())


def info_data() -> Answer:
    places = where()
    pictures = sets_of("photos", "zip", "torchvision", "boxes")
    places |= {name: present(name) for name in pictures}
    values = {
        name: place and {"path": str(place.path), "from": place.origin}
        for name, place in places.items()
    }
    rows = [
        (name, f"{place.origin}: {place.path}" if place else "not here")
        for name, place in places.items()
    ]
    return Answer(values, table(rows))


def info_device(device: torch.device) -> Answer:
    hardware = results.hardware(device)
    recorded, rows = [], []
    for name in results.names():
        if name.startswith("gpu-"):
            lot = results.read(name)
            kept = {x: lot[x] for x in ("hardware", "date", "status")}
            recorded.append({"name": name, **kept})
            part = ", in part" if lot["status"] == "interrupted" else ""
            line = f"{lot['hardware']}, {lot['date']}{part}"
            rows.append((name.removeprefix("gpu-"), line))
    values = {
        "device": str(device),
        "hardware": hardware,
        "measured_on_gpus": recorded,
    }
    rows = rows or [("none", "no lot has run on a GPU yet")]
    lots = section("lots of `make gpu` that are recorded", rows)
    return Answer(values, f"{device}: {hardware}\n\n{lots}")


def info_paper(name: str, fields: dict[str, str]) -> Answer:
    weights = HUB.get(name)
    place = f"{weights} on the hub" if weights else "none known"
    if name in EMBEDDED:
        weights, place = str(EMBEDDED[name]), "in the package"
    config = network_config_of(name, **load_fields(fields))
    values, rows = size_of(name, config)
    rows.append(("trained weights", place))
    rows += dotted(config.to_json())
    return Answer(values | {"weights": weights}, table(rows))


def info_weights(name: str, fields: dict[str, str]) -> Answer:
    end = did_you_mean(name, names())
    is_near = end.startswith("did you mean")
    # a name on the hub is OWNER/MODEL, unless it is one of ours mistyped
    is_on_hub = "/" in name and not ("ViT-" in name and is_near)
    if not (os.path.exists(name) or is_on_hub or name.startswith("~")):
        end = end if is_near else "`vitedu info` lists what there is"
        raise UserError(
            f"{name!r} is not a model, a recipe, a file or a run folder; {end}"
        )
    model = load(name, **load_fields(fields))
    report, preprocess = model.load_report, model.preprocess.to_json()
    values, rows = size_of(name, model.config)
    values |= {
        "source": report.source,
        "dialect": report.dialect,
        "notes": list(report.notes),
        "resized": list(report.resized),
        "dropped": list(report.dropped),
        "preprocess": preprocess,
        "class_names": list(model.class_names),
    }
    more = [
        ("file", report.source),
        ("dialect", report.dialect),
        *dotted({"preprocess": preprocess}),
        ("class_names", listed(model.class_names) or "none"),
        *((x, listed(values[x])) for x in ("resized", "dropped") if values[x]),
        *(("note", note) for note in report.notes),
    ]
    text = table([*rows, *dotted(model.config.to_json())])
    return Answer(values, f"{text}\n{table(more)}")


def size_of(
    name: str, config: NetworkConfig
) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    parameters, flops = budget.parameters(config).total, budget.flops(config)
    values = {
        "name": name,
        "config": config.to_json(),
        "parameters": parameters,
        "flops": flops,
    }
    work = f"{flops / 1e9:.3g} GFLOPs (2 per multiply-add)"
    rows: list[tuple[str, Any]] = [
        ("name", name),
        ("parameters", f"{parameters:,}"),
        ("forward pass of one image", work),
    ]
    if isinstance(config, ViTConfig):
        values["tokens"] = config.num_tokens
        rows.append(("tokens", config.num_tokens))
    return values, rows


def on_device(config: TrainConfig) -> TrainConfig:
    device = find_device(config.device)
    return concrete(replace(config, device=str(device)), device)


def info_recipe(name: str, options: argparse.Namespace) -> Answer:
    """The settings of a run on this machine, before its data are known."""
    config, about = recipe(name, tier_for(options)), getdoc(RECIPES[name])
    config = on_device(replace(config, device=options.device))
    if name == "finetune":
        num_classes = config.model.num_classes
        config = with_weights(config, str(config.weights), num_classes)
    with torch.device("meta"):  # shapes alone, no memory
        model = new_network(config.model)
    found = dict(dotted(config.to_json()))
    rows = list((found | (BY_DATA if name == "finetune" else {})).items())
    rows += [
        (
            group["name"],
            f"{sum(x.numel() for x in group['params']):,} weights in "
            f"{counted(len(group['params']), 'tensor')}, weight_decay "
            f"{group['weight_decay']:g}, lr x {group['lr_scale']:.3g}",
        )
        for group in parameter_groups(
            model,
            weight_decay=config.weight_decay,
            layer_decay=config.layer_decay,
        )
    ]
    costs, cost_text = cost(config)
    text = "\n\n".join(filter(None, [about, cost_text, table(rows)]))
    return Answer(config.to_json() | costs | {"about": about}, text)


# --- what a recipe costs


def cost(config: TrainConfig) -> tuple[dict[str, Any], str]:
    images = num_images(config)
    if images is None or config.tier == "smoke":
        return {}, ""
    on_gpus = {name: on_gpu(config, images, name) for name in GPUS}
    words = " ".join(f"{x}={value}" for x, value in LOW_MEMORY.items())
    least = step_memory(override(config, LOW_MEMORY)).total
    rows = [(name, described(found)) for name, found in on_gpus.items()]
    rows.append(("low memory", f"{readable_bytes(least)} with {words}"))
    shares = ", ".join(f"{x.mfu:g} on {name}" for name, x in GPUS.items())
    title = (
        f"cost, computed; assumed: shares of a GPU's peak ({shares}), and that "
        "8 of them are 8 times as fast"
    )
    run = section("on 1, 8 and 64 GPUs", commands(config.recipe), indent=16)
    values = {"gpus": on_gpus, "low_memory": {"bytes": least, "add": words}}
    return {"cost": values}, f"{section(title, rows, indent=16)}\n\n{run}"


def described(found: dict[str, Any] | None) -> str:
    if found is None:
        return "a step doesn't fit"
    hours = found["hours"]
    times = ", ".join(f"{readable_hours(hours[n])} on {n}" for n in hours)
    add = f" with {found['add']}" if found["add"] else ""
    return (
        f"{times}; one learns from {found['images_per_second']:,.0f} images/s "
        f"in {readable_bytes(found['bytes'])} of memory{add}"
    )


def commands(recipe: str) -> Rows:
    run = f"vitedu train {recipe} data=FOLDER"
    rows = rows_in(f"""
        1  {run}
        8  torchrun --nproc-per-node 8 -m {run}
        64  torchrun --nnodes 8 --nproc-per-node 8 --rdzv-backend c10d
            --rdzv-endpoint HOST:29500 --rdzv-id {recipe} -m {run}
    """)
    last = (
        "The last on each of the 8 machines; HOST is one of them, which the "
        "others can reach at this port. Two machines: --nnodes 2."
    )
    return [*rows, ("", last)]


def readable_hours(hours: float) -> str:
    """As in a sentence: "50 s", "18 minutes", "7.6 hours", "12 days"."""
    if hours * 60 < 2:
        return f"{hours * 3600:.0f} s"
    if hours < 1:
        return f"{hours * 60:.0f} minutes"
    if hours < 72:
        return f"{hours:.1f} hours"
    return f"{hours / 24:,.0f} days"


INFO = Command(
    info,
    usage="[MODEL|WEIGHTS|RECIPE|data|device] [name=value ...]",
    summary="recipes, models, data sets; what one of them is",
    about="Show what there is: recipes, models and data sets; or what one of "
    "them is, and what it costs.",
    reads_weights=True,
    words=rows_in("""
        MODEL  size and cost of a model of the paper: ViT-B/16
        RECIPE  what it is for, and every setting of it
        data  where each data set would be taken from
        device  what would be computed on, and what was measured on GPUs
    """),
    examples=rows_in("""
        vitedu info  everything that has a name
        vitedu info digits  a recipe
        vitedu info ViT-B/16 image_size=384  a model at another size
    """),
    completions=names,
)
