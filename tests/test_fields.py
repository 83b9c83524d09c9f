"""The fields of a frozen dataclass are checked and go to JSON and back."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from vitedu.fields import (
    Count,
    Positive,
    Range,
    Rate,
    Size,
    check_fields,
    from_json,
    meanings,
    to_json,
    with_meanings,
)


@dataclass(frozen=True)
class Inner:
    width: Count = 1

    def __post_init__(self):
        check_fields(self)


@dataclass(frozen=True)
class Outer:
    name: str
    alpha: Annotated[float, Range(0)] = 0.2
    kind: Literal["mixup", "cutmix"] = "mixup"
    images: Count | None = None
    size: Size = (1, 1)
    mean: tuple[float, ...] = (0.5,)
    rate: Rate = 0.1
    lr: Positive = 0.1
    flag: bool = False
    betas: tuple[Rate, Rate] = (0.9, 0.99)
    inner: Inner = Inner()
    anything: Any = None

    def __post_init__(self):
        check_fields(self)


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("alpha", 1, 1.0),
        ("alpha", np.float32(0.5), 0.5),
        ("images", np.int64(3), 3),
        ("images", None, None),
        ("size", 4, (4, 4)),
        ("size", [4, 5], (4, 5)),
        ("mean", [1, 2], (1.0, 2.0)),
        ("anything", {"a": 1}, {"a": 1}),
    ],
)
def test_a_value_is_kept_in_the_type_of_its_field(field, given, kept):
    value = getattr(Outer("a", **{field: given}), field)
    assert value == kept and type(value) is type(kept)


def test_json_goes_both_ways():
    config = Outer("a", size=(3, 4), images=7, inner=Inner(5), mean=(0.1, 0.2))
    values = to_json(config)
    assert values["size"] == [3, 4] and values["inner"] == {"width": 5}
    assert from_json(Outer, json.loads(json.dumps(values))) == config


class Documented:
    """One line.

    Attributes:
        first: what it is, and
            a second line
        second: more

    UserError: this isn't a field.
    """


def test_meanings_are_read_from_the_docstring():
    assert meanings(Documented) == {
        "first": "what it is, and a second line",
        "second": "more",
    }
    doc = with_meanings("Do it.\n\n    More.", Documented)
    assert doc.startswith("Do it.\n\nMore.\n\nKeyword Args:\n    first: what")
    assert with_meanings(None, Documented) is None  # python -OO
