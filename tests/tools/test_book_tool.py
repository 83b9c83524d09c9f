"""`make book`: what it trains on, and what it says."""

import re

import pytest

pytest.importorskip("fontTools", reason="the book's tools are not installed")
book = pytest.importorskip("book")


def test_without_mnist_it_trains_on_the_digits(here):
    assert book.first_recipe(download=False) == "digits"


def test_a_download_that_cannot_be_is_an_error_not_a_substitute(here):
    with pytest.raises(book.UserError, match="VITEDU_OFFLINE=1 forbids"):
        book.first_recipe(download=True)


@pytest.mark.slow
def test_it_says_how_good_the_first_vit_is_and_where_it_lies(here, monkeypatch):
    monkeypatch.setenv("VITEDU_TIER", "smoke")
    sentence = book.train("digits")
    found = re.fullmatch(
        r"first ViT: digits names (\d+\.\d\d)% of 500 test images correctly "
        r"\((runs/digits-[0-9a-f]{8})\)",
        sentence,
    )
    assert found and float(found[1]) > 12  # a constant answer: 10
    assert (here / found[2] / "model.safetensors").is_file()
