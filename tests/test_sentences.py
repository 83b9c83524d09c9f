"""Calls that cannot be right: one table of them, and of what is said."""

import dataclasses
import functools
import importlib
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import tests.tiny
import vitedu
from vitedu import data, evaluate, interpret, model, pictures, train, weights
from vitedu.cli.output import rows_in

TABLE = Path(__file__).parent / "tables/sentences.txt"
KNOWN = {
    name: value
    for part in (data, evaluate, interpret, model, train, weights, pictures)
    for name, value in [*vars(part).items(), *vars(vitedu).items()]
}
KNOWN |= vars(dataclasses) | vars(functools) | vars(tests.tiny)
KNOWN |= {
    "math": math,
    "Path": Path,
    "np": np,
    "torch": torch,
    "vitedu": vitedu,
}
KNOWN |= {"nn": torch.nn, "F": torch.nn.functional}
ERRORS = {"TypeError": TypeError, "ValueError": ValueError}
ERRORS |= {"UserError": vitedu.UserError}


def table():
    """Each row's section, call and sentence."""
    found = []
    text = re.sub("^#.*\n", "", TABLE.read_text(), flags=re.MULTILINE)
    _, *parts = re.split(r"^\[(.*)\]\n", text, flags=re.MULTILINE)
    for section, rows in zip(parts[::2], parts[1::2], strict=True):
        for call, said in rows_in(rows.replace("\n\n", "\n")):
            found.append(pytest.param(section.split(), call, said, id=call))
    return found


@pytest.mark.filterwarnings("ignore:.*how its pictures are prepared")
@pytest.mark.parametrize(("section", "call", "said"), table())
def test_what_cannot_be_right_is_one_sentence(
    tmp_path, monkeypatch, section, call, said
):
    monkeypatch.chdir(tmp_path)
    names, kinds = dict(KNOWN), []
    for each in section:
        if each in ERRORS:
            kinds.append(ERRORS[each])
        else:
            names |= vars(importlib.import_module(each))
    with pytest.raises(tuple(kinds)) as error:
        eval(call, names)
    words = map(re.escape, said.removesuffix("$").split("..."))
    end = "$" if said.endswith("$") else ""
    assert re.search(".*".join(words) + end, str(error.value))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [model.ViTConfig, model.ResNetConfig])
def test_every_field_of_a_network_has_a_wrong_value(kind):
    calls = [row.id for row in table() if row.id.startswith(kind.__name__)]
    tried = {name for call in calls for name in re.findall(r"(\w+)=", call)}
    assert tried == {field.name for field in dataclasses.fields(kind)}
