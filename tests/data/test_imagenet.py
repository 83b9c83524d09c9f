"""The names of ImageNet's classes, and to what they are given."""

import pytest

from vitedu.compat import import_timm
from vitedu.data.imagenet import (
    assumed_names,
    classes_of,
    imagenet_21k_classes,
    imagenet_classes,
)

BOTH = {1_000: imagenet_classes, 21_843: imagenet_21k_classes}


@pytest.mark.parametrize("number", BOTH)
def test_every_class_has_a_readable_name_and_a_code_in_order(number):
    names, codes = BOTH[number]()
    assert len(names) == len(codes) == len(set(codes)) == number
    assert list(codes) == sorted(codes)
    assert all(code[0] == "n" and len(code) == 9 for code in codes)
    for name in names:
        assert name and name == name.strip() and name.isprintable()
        assert "_" not in name and "," not in name


def test_the_file_says_what_timm_says():
    import_timm()
    from timm.data import ImageNetInfo

    info = ImageNetInfo("imagenet-1k")
    for index, (name, code) in enumerate(zip(*imagenet_classes(), strict=True)):
        assert info.index_to_label_name(index) == code
        assert info.index_to_description(index).split(",")[0] == name


@pytest.mark.parametrize("number", BOTH)
def test_as_many_classes_are_taken_for_imagenets_and_that_is_said(number):
    names, notes = assumed_names(number)
    assert names == BOTH[number]().names == classes_of(number).names
    (note,) = notes
    assert f"{number:,} classes have no names" in note
    assert f"ImageNet-{'1k' if number == 1_000 else '21k'}'s" in note


@pytest.mark.parametrize("number", [10, 999, 21_841])
def test_other_numbers_of_classes_get_no_names(number):
    assert classes_of(number) is None
    assert assumed_names(number) == ((), ())
