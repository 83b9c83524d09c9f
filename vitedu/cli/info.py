"""`vitedu info`: what there is, and what it costs."""

import argparse
import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from vitedu import __version__, budget, results
from vitedu.cli.answer import Answer, shown, table
from vitedu.cli.train import tier_of
from vitedu.cli.words import hints_in, load_model, named_fields
from vitedu.data import where
from vitedu.errors import UserError, did_you_mean
from vitedu.model import (
    HYBRIDS,
    NAMES,
    RESNETS,
    ResNetConfig,
    ViTConfig,
    resnet_config,
    vit_config,
)
from vitedu.train import RECIPES, find_device, recipe
from vitedu.train.folder import flat
from vitedu.weights.files import listed
from vitedu.weights.hub import EMBEDDED, HUB
from vitedu.weights.load import HINTS


def info(options: argparse.Namespace) -> Answer:
    """What there is; what a model, a file of weights or a recipe is; data; device."""
    words, fields = named_fields(options.words, HINTS)
    if len(words) > 1:
        raise UserError(f"info takes one name, got {len(words)}")
    name = words[0] if words else ""
    if name in NAMES or name in HYBRIDS:
        return info_paper(name, fields)
    if name in RESNETS:
        return info_model(name, resnet_config(name, **hints_in(fields)))
    if fields and (not name or name in ("data", "device") or name in RECIPES):
        raise UserError(f"{', '.join(fields)} belongs to a model or to weights")
    if not name:
        return info_overview()
    if name == "data":
        return info_data()
    if name == "device":
        device = find_device(options.device)
        hardware = results.hardware(device)
        values = {"device": str(device), "hardware": hardware}
        return Answer(values, f"{device}: {hardware}")
    if name in RECIPES:
        config = recipe(name, tier_of(os.environ.get("VITEDU_TIER"), options))
        about = inspect.getdoc(RECIPES[name])
        values = config.to_json()
        return Answer(
            values | {"about": about}, f"{about}\n\n{table(flat(values))}"
        )
    known = [*NAMES, *HYBRIDS, *RESNETS, *RECIPES, "data", "device"]
    end = did_you_mean(name, known)
    # a name on the hub is OWNER/MODEL, and none of ours mistyped
    is_ours = "/" not in name or ("ViT-" in name and "did you mean" in end)
    if not Path(name).exists() and is_ours:
        raise UserError(
            f"{name!r} is no model, recipe, file or run folder; {end}"
        )
    return info_weights(name, fields)


def info_paper(name: str, fields: dict[str, str]) -> Answer:
    """Size and cost of a model of the paper, and where its trained weights are."""
    weights = HUB.get(name)
    said = f"{weights} on the hub" if weights else "none known"
    if name in EMBEDDED:
        weights, said = str(EMBEDDED[name]), "in the package"
    config = vit_config(name, **hints_in(fields))
    answer = info_model(name, config, {"trained weights": said})
    return answer._replace(values=answer.values | {"weights": weights})


def info_weights(name: str, fields: dict[str, str]) -> Answer:
    """What a file holds, where it came from, and what its pictures must be."""
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
        *flat({"preprocess": preprocess}),
        ("class_names", listed(model.class_names) or "none"),
    ]
    for what in ("resized", "dropped"):
        if names := getattr(report, what):
            rows.append((what, listed(names)))
    rows += [("note", note) for note in report.notes]
    return Answer(values, answer.text + "\n" + table(rows))


def info_overview() -> Answer:
    """The names that the other commands take."""
    values = {
        "version": __version__,
        "recipes": sorted(RECIPES),
        "models": [*NAMES, *HYBRIDS, *RESNETS],
        "datasets": list(where()),
        "results": results.names(),
    }
    rows = [(name, shown(value)) for name, value in values.items()]
    return Answer(values, table(rows))


def info_data() -> Answer:
    """Where each named data set would be taken from now."""
    found = {
        name: None
        if place is None
        else {"path": str(place.path), "from": place.origin}
        for name, place in where().items()
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
    config: ViTConfig | ResNetConfig,
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
    rows += [*more.items(), *flat(config.to_json())]
    return Answer(values, table(rows))
