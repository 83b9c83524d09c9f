"""What type checkers are told of `load`, kept equal to what it takes."""

from typing import get_args, get_type_hints

from vitedu.model.config import ViTFields
from vitedu.weights.checkpoint import ANSWERS
from vitedu.weights.convert import SUFFIXES
from vitedu.weights.load import Dialect, LoadFields


def test_the_fields_of_load_are_the_configurations_and_the_answers():
    known = get_type_hints(LoadFields).keys()
    assert known == {*get_type_hints(ViTFields), "pool_padding"}
    assert {*ANSWERS} <= known


def test_the_formats_of_convert_are_those_it_writes():
    assert get_args(Dialect) == tuple(SUFFIXES)
