"""The fields of a frozen dataclass are checked and go to JSON and back."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from vitedu.errors import UserError
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


@pytest.mark.parametrize(
    ("field", "given", "sentence"),
    [
        ("name", 3, "name must be text, got 3"),
        ("alpha", -1, "alpha must be a number of at least 0, got -1"),
        ("alpha", True, "alpha must be a number of at least 0, got True"),
        ("alpha", float("nan"), "at least 0, got nan"),
        ("kind", "mixap", "kind='mixap' is not known; did you mean 'mixup'"),
        ("images", 0, "images must be a whole number of at least 1, got 0"),
        ("images", 2.0, "a whole number of at least 1, got 2.0"),
        ("size", 0, "size must be one number, or 2 whole numbers of at least"),
        ("size", (1, 2, 3), "got (1, 2, 3)"),
        ("mean", [float("nan")], "mean must be a list of numbers, got [nan]"),
        ("rate", 1, "rate must be a number of at least 0 and below 1, got 1"),
        ("lr", 0, "lr must be a number above 0, got 0"),
        ("flag", 1, "flag must be true or false, got 1"),
        ("betas", (0.9,), "betas must be 2 numbers of at least 0 and below 1"),
        ("inner", {}, "inner must be an Inner, got {}"),
    ],
)
def test_what_does_not_fit_is_one_sentence(field, given, sentence):
    with pytest.raises(UserError) as caught:
        Outer(**{"name": "a", field: given})
    assert sentence in str(caught.value)


def test_json_goes_both_ways():
    config = Outer("a", size=(3, 4), images=7, inner=Inner(5), mean=(0.1, 0.2))
    values = to_json(config)
    assert values["size"] == [3, 4] and values["inner"] == {"width": 5}
    assert from_json(Outer, json.loads(json.dumps(values))) == config


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"name": "a", "alfa": 1}, "Outer has no field 'alfa'; did you mean"),
        ({"name": "a", "inner": {"width": 0}}, "width must be a whole number"),
        ({"name": "a", "inner": {"depth": 1}}, "Inner has no field 'depth'"),
        ({"name": "a", "inner": [1]}, "inner must be an Inner, got [1]"),
        ({}, "Outer lacks name"),
        ([1], "Outer must be a JSON object, got [1]"),
    ],
)
def test_json_of_something_else_is_one_sentence(values, sentence):
    with pytest.raises(UserError) as caught:
        from_json(Outer, values)
    assert sentence in str(caught.value)


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
