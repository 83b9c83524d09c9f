"""`vitedu info`: what there is, and what it costs."""

import argparse
import inspect
import os
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import torch

from vitedu import __version__, budget, results
from vitedu.cli.answer import Answer, table
from vitedu.cli.command import Command, Rows, section
from vitedu.cli.cost import cost
from vitedu.cli.plan import tier_for
from vitedu.cli.words import (
    FIELDS_HELP,
    OF_WEIGHTS,
    answers_in,
    load_model,
    split_words,
)
from vitedu.data import where
from vitedu.data.places import named_folders
from vitedu.errors import UserError, did_you_mean
from vitedu.model import HYBRIDS, NAMES, RESNETS, ViTConfig, new_network
from vitedu.model.network import NetworkConfig, network_config_of
from vitedu.train import RECIPES, TrainConfig, find_device, recipe
from vitedu.train.config import dotted
from vitedu.train.optimizer import decay_table
from vitedu.weights.hub import EMBEDDED, HUB
from vitedu.weights.mapping import listed


def info(options: argparse.Namespace) -> Answer:
    """What there is, or what a model, weights, recipe, data or device is."""
    words, fields = split_words(options.words, OF_WEIGHTS)
    if len(words) > 1:
        raise UserError(f"info takes one name, got {len(words)}")
    name = words[0] if words else None
    if name in (*NAMES, *HYBRIDS, *RESNETS):
        return info_paper(name, fields)
    if fields and (name in (None, "data", "device") or name in RECIPES):
        raise UserError(f"{', '.join(fields)} belongs to a model or to weights")
    if name is None:
        return info_overview()
    if name == "data":
        return info_data()
    if name == "device":
        device = find_device(options.device)
        hardware = results.hardware(device)
        values = {"device": str(device), "hardware": hardware}
        return Answer(values, f"{device}: {hardware}")
    if name in RECIPES:
        return info_recipe(name, options)
    check_may_be_weights(name)
    return info_weights(name, fields)


def check_may_be_weights(name: str) -> None:
    """UserError unless `name` is a file, a folder or a model on the hub.

    The nearest name is suggested.
    """
    end = did_you_mean(name, names())
    is_near = end.startswith("did you mean")
    # a name on the hub is OWNER/MODEL, unless it is one of ours mistyped
    is_on_hub = "/" in name and not ("ViT-" in name and is_near)
    if os.path.exists(name) or is_on_hub or name.startswith("~"):
        return
    if not is_near:
        end = "`vitedu info` lists what there is"
    raise UserError(
        f"{name!r} is not a model, a recipe, a file or a run folder; {end}"
    )


def names() -> list[str]:
    """All that `vitedu info` knows by name."""
    return [*NAMES, *HYBRIDS, *RESNETS, *RECIPES, "data", "device"]


def info_paper(name: str, fields: dict[str, str]) -> Answer:
    """Size and cost of a model of the paper, and where trained weights are."""
    weights = HUB.get(name)
    place = f"{weights} on the hub" if weights else "none known"
    if name in EMBEDDED:
        weights, place = str(EMBEDDED[name]), "in the package"
    config = network_config_of(name, **answers_in(fields))
    answer = info_model(name, config, {"trained weights": place})
    return answer._replace(values=answer.values | {"weights": weights})


def info_weights(name: str, fields: dict[str, str]) -> Answer:
    """What is in a file, where it came from, and how it takes its pictures."""
    model = load_model(name, fields)
    report = model.load_report
    answer = info_model(name, model.config)
    preprocess = model.preprocess.to_json()
    values = answer.values | {
        "source": report.source,
        "dialect": report.dialect,
        "notes": list(report.notes),
        "resized": list(report.resized),
        "dropped": list(report.dropped),
        "preprocess": preprocess,
        "class_names": list(model.class_names),
    }
    rows = [
        ("file", report.source),
        ("dialect", report.dialect),
        *dotted({"preprocess": preprocess}),
        ("class_names", listed(model.class_names) or "none"),
    ]
    for what in ("resized", "dropped"):
        if names := getattr(report, what):
            rows.append((what, listed(names)))
    rows += [("note", note) for note in report.notes]
    return Answer(values, answer.text + "\n" + table(rows))


def info_recipe(name: str, options: argparse.Namespace) -> Answer:
    """What a recipe is for, and every setting of it."""
    config = recipe(name, tier_for(options))
    about = inspect.getdoc(RECIPES[name])
    values = config.to_json()
    rows = [*dotted(values), *optimizer_rows(config)]
    costs, cost_text = cost(config)
    text = "\n\n".join(filter(None, [about, cost_text, table(rows)]))
    return Answer(values | costs | {"about": about}, text)


def optimizer_rows(config: TrainConfig) -> Rows:
    """Which weights decay, and how fast they learn compared to the others."""
    with torch.device("meta"):  # shapes alone, no memory
        model = new_network(config.model)
    return [
        (
            group.name,
            f"{group.num_weights:,} weights in {group.num_tensors} tensors, "
            f"weight_decay {group.weight_decay:g}, lr x {group.lr_scale:.3g}",
        )
        for group in decay_table(model, config)
        if group.num_tensors
    ]


def info_overview() -> Answer:
    """The names that the other commands take."""
    about = {name: first_line(RECIPES[name]) for name in sorted(RECIPES)}
    values = {
        "version": __version__,
        "recipes": sorted(RECIPES),
        "about": about,
        "models": [*NAMES, *HYBRIDS, *RESNETS],
        "datasets": list(where()),
        "results": results.names(),
    }
    models = {
        "ViT": NAMES,
        "hybrids": HYBRIDS,
        "ResNets": RESNETS,
    }
    datasets = [
        (name, "not here" if place is None else f"here: {place.origin}")
        for name, place in where().items()
    ]
    datasets += [
        (
            "shapes",
            "drawn when needed: shapes-1k, shapes-100k, any number of "
            "thousands",
        ),
        (
            "ants-bees, flowers102, ...",
            "photographs: `vitedu info data` lists them",
        ),
        ("FOLDER, FILE.npz", "your own: data=photos"),
        (
            "a-{000..127}.tar, hf:NAME",
            "WebDataset's shards, Hugging Face's sets",
        ),
    ]
    text = "\n\n".join(
        [
            f"vitedu {__version__}",
            section(
                "recipes, for `vitedu train`",
                list(about.items()),
                indent=4 + max(map(len, about)),
            ),
            section(
                "models, for `vitedu.vit` and `vitedu bench`",
                [(kind, grouped(names)) for kind, names in models.items()],
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
            "`vitedu info NAME` shows more about a recipe, a model or "
            "weights.\n"
            "`vitedu info data` and `vitedu info device` show what is here.",
        ]
    )
    return Answer(values, text)


def grouped(names: Iterable[str]) -> str:
    """Names that differ in the last number together: "ViT-Ti/8, /14"."""
    groups: dict[str, list[str]] = {}
    for name in names:
        kind, separator, number = re.split(r"([/x])(?=\d+$)", name)
        groups.setdefault(kind, []).append(separator + number)
    return "; ".join(kind + ", ".join(ends) for kind, ends in groups.items())


def first_line(about: object) -> str:
    """The sentence that a recipe's docstring begins with."""
    return (inspect.getdoc(about) or "").partition("\n\n")[0].replace("\n", " ")


def info_data() -> Answer:
    """Where each named data set would be taken from now."""
    found = {
        name: None
        if place is None
        else {"path": str(place.path), "from": place.origin}
        for name, place in (where() | named_folders()).items()
    }
    rows = [
        (
            name,
            "not here"
            if place is None
            else f"{place['from']}: {place['path']}",
        )
        for name, place in found.items()
    ]
    return Answer(found, table(rows))


def info_model(
    name: str,
    config: NetworkConfig,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Answer:
    """Size and cost of a configuration, and `more` rows on it."""
    parameters = budget.parameters(config)
    flops = budget.flops(config)
    values = {
        "name": name,
        "config": config.to_json(),
        "parameters": parameters.total,
        "flops": flops,
    }
    rows = [
        ("name", name),
        ("parameters", f"{parameters.total:,}"),
        (
            "forward pass of one image",
            f"{flops / 1e9:.3g} GFLOPs (2 per multiply-add)",
        ),
    ]
    if isinstance(config, ViTConfig):
        values["tokens"] = config.num_tokens
        rows.append(("tokens", f"{config.num_tokens}"))
    rows += [*more.items(), *dotted(config.to_json())]
    return Answer(values, table(rows))


INFO = Command(
    info,
    usage="[MODEL|WEIGHTS|RECIPE|data|device] [name=value ...]",
    summary="recipes, models, data sets; what one of them is",
    about="Show what there is: recipes, models and data sets; or what one of "
    "them is, and what it costs.",
    words=[
        ("MODEL", "size and cost of a model of the paper: ViT-B/16"),
        ("WEIGHTS", "what is in a file, a run folder or a model on the hub"),
        ("RECIPE", "what it is for, and every setting of it"),
        ("data", "where each data set would be taken from"),
        ("device", "what would be computed on"),
        *FIELDS_HELP,
    ],
    fields=lambda: OF_WEIGHTS,
    completions=names,
    examples=[
        ("vitedu info", "everything that has a name"),
        ("vitedu info digits", "a recipe"),
        ("vitedu info ViT-B/16 image_size=384", "a model at another size"),
    ],
)
