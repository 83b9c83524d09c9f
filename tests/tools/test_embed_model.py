"""The tool of the embedded weights: the same bytes again, and a comparison."""

import embed_model
import pytest
from safetensors.torch import save_file

from vitedu.weights import read_weights
from vitedu.weights.hub import EMBEDDED, HUB

NAME = "vit_tiny_patch16_224.augreg_in21k_ft_in1k.safetensors"
PACKAGED = EMBEDDED["ViT-Ti/16"]


@pytest.fixture
def published(tmp_path):
    """The embedded weights as timm publishes its own: 32 bits, no metadata."""
    state = read_weights(PACKAGED).state_dict
    path = tmp_path / NAME
    save_file({name: x.float() for name, x in state.items()}, path)
    return path


@pytest.mark.slow
def test_equal_weights_give_the_packages_bytes(published, tmp_path, capsys):
    target = tmp_path / "made.safetensors"
    assert embed_model.main(["make", str(published), str(target)]) == 0
    assert target.read_bytes() == PACKAGED.read_bytes()
    message = capsys.readouterr().out
    assert "152 tensors, 5,717,416 numbers, 11,449,040 bytes" in message


@pytest.mark.slow
def test_equal_weights_compare_equal_and_prove_nothing(published, capsys):
    assert embed_model.main(["compare", str(published)]) == 0
    message = capsys.readouterr().out
    assert "152 of 152 tensors" in message and "stays inferred" in message


@pytest.mark.slow
def test_the_published_name_settles_it(
    published, monkeypatch, tmp_path, capsys
):
    """Put where a file of the hub is looked for that was fetched by hand."""
    name = embed_model.PUBLISHED
    assert name == HUB["ViT-B/16"].replace("vit_base", "vit_tiny")
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache/weights" / name.replace("/", "--")
    folder.mkdir(parents=True)
    published.rename(folder / NAME)
    assert embed_model.main(["compare"]) == 0
    assert "compared, not just inferred" in capsys.readouterr().out
    state = {k: x.float() for k, x in read_weights(PACKAGED).state_dict.items()}
    state["head.bias"] += 1
    save_file(state, folder / NAME)
    assert embed_model.main(["compare"]) == 0
    assert "mend NOTICE" in capsys.readouterr().out


def test_a_network_of_another_size_or_nothing_is_one_sentence(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("VITEDU_OFFLINE", "1")
    monkeypatch.setenv("VITEDU_CACHE", str(tmp_path))
    for words, message in (
        (["make", "shapes-small"], "another network than ViT-Ti/16"),
        (["make", "gone.safetensors"], "no file or run folder"),
        (["compare"], "VITEDU_OFFLINE=1 forbids the download"),
    ):
        assert embed_model.main(words) == 2
        found = capsys.readouterr().err
        assert message in found and found.count("\n") == 1
    assert embed_model.main(["mak"]) == 2
    assert "embed_model.py make SOURCE" in capsys.readouterr().err
