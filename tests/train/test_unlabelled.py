"""Runs that need no labels: their loss, their end, and what starts from it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import vitedu
from tests.train.runs import equal, lines
from vitedu.cli.main import main
from vitedu.model import ViT
from vitedu.model.mae import MAE
from vitedu.model.mpp import MPP
from vitedu.train import fit, recipe

SMALL = {"steps": 6, "max_images": 64, "batch_size": 16, "save_every": 2}


def small(name):
    config = replace(recipe(name, "smoke"), dataset="digits", **SMALL)
    model = replace(config.model, depth=1, embed_dim=32, mlp_dim=48)
    return replace(config, model=model)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "mae"
    return fit(small("mae-mnist"), out, progress=False)


@pytest.mark.parametrize(
    ("name", "kind"), [("mae-mnist", MAE), ("mpp-mnist", MPP)]
)
def test_a_run_measures_its_loss_and_no_accuracy(name, kind):
    run = fit(replace(small(name), log_every=1), progress=False)
    assert type(run.model) is kind and run.model.class_names == ()
    assert set(run.result["metrics"]) == {"test_loss"}
    losses = [line["loss"] for line in run.history if "loss" in line]
    assert len(losses) == 6 and losses[-1] < losses[0]
    assert not any("train_accuracy" in line for line in run.history)
    assert run.accuracy is None


def test_a_stopped_run_ends_on_the_same_weights_and_log(tmp_path):
    digits = vitedu.data.load_dataset("digits").test
    given = {"validation": (digits.images, digits.labels), "progress": False}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    config, steps = small("mae-mnist"), iter([False, False, True])
    first = fit(config, whole, **given)
    assert {*first.result["metrics"]} == {"test_loss", "validation_loss"}
    fit(config, parts, should_stop=lambda: next(steps, True), **given)
    for _ in range(2):
        again = fit(config, parts, **given)
        assert equal(again.model, first.model)
        assert again.result["metrics"] == first.result["metrics"]
        assert lines(parts) == lines(whole)
        again.folder.result.unlink()  # as if killed before it was written


def test_with_classes_it_loads_as_the_vit_inside(pretrained):
    where = pretrained.folder.path
    whole, inside = vitedu.load(where), vitedu.load(where, num_classes=0)
    assert type(whole) is MAE and type(inside) is ViT
    assert "mask_token" in inside.load_report.dropped
    x = torch.randn(2, 1, 28, 28)
    with torch.no_grad():
        features = whole.forward_features(x)
        assert torch.equal(inside.forward_features(x), features)


@pytest.mark.slow
def test_fine_tuning_starts_from_it(pretrained, tmp_path, capsys):
    where = pretrained.folder.path
    out = tmp_path / "tuned"
    settings = ["dataset=digits", "steps=1", "max_images=20", "lr=1e-9"]
    settings += ["--out", str(out), "--tier", "cpu"]
    code = main(["train", "finetune", f"weights={where}", *settings])
    assert code == 0, capsys.readouterr().err
    tuned = vitedu.load(out)
    assert type(tuned) is ViT and tuned.config.num_classes == 10
    for name in ("patch_embed.proj.weight", "blocks.0.attn.qkv.weight"):
        before = pretrained.model.state_dict()[name]
        assert torch.allclose(tuned.state_dict()[name], before, atol=1e-4)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_it_names_no_class(pretrained, command, tmp_path, capsys):
    picture = vitedu.data.photo("cat")
    picture.save(tmp_path / "cat.png")
    what = "digits" if command == "evaluate" else str(tmp_path / "cat.png")
    assert main([command, str(pretrained.folder.path), what]) == 2
    assert "has no head, so it cannot name a class" in capsys.readouterr().err


def test_the_command_draws_completed_pictures(tmp_path, capsys):
    digits = vitedu.data.load_dataset("digits").test.images[:2, 0]
    for number, pixels in enumerate(digits):
        Image.fromarray(pixels.numpy()).save(tmp_path / f"{number}.png")
    drawn = tmp_path / "drawn.png"
    words = ["predict", "mae-mnist", str(tmp_path), "--complete", str(drawn)]
    assert main(words) == 0
    picture = torch.tensor(np.array(Image.open(drawn)))
    assert picture.shape == (56, 84)
    assert torch.equal(picture[:28, 56:], digits[0])
    seen = picture[:28, :28] != 128  # the grey of a cover
    assert torch.equal(picture[:28, 28:56][seen], digits[0][seen])
    for words, sentence in (
        (
            ["mnist-tiny", "--complete", str(drawn)],
            "needs a masked autoencoder",
        ),
        (["mae-mnist", "--complete", "drawn.jpg"], "that ends in .png"),
    ):
        assert (
            main(["predict", words[0], str(tmp_path / "0.png"), *words[1:]])
            == 2
        )
        assert sentence in capsys.readouterr().err


def test_there_are_no_answers_to_report_on(pretrained, capsys):
    assert main(["report", str(pretrained.folder.path)]) == 2
    assert "learned without labels" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("place", ["album", "album/all"])
def test_one_folder_of_pictures_is_enough(place, tmp_path, capsys):
    (tmp_path / place).mkdir(parents=True)
    for number in range(4):
        picture = vitedu.data.photo("cat").resize((40, 36))
        picture.save(tmp_path / place / f"{number}.png")
    (tmp_path / "empty").mkdir()
    words = ["train", "mae-shapes", "steps=1", "--tier", "smoke", "--out"]
    words += [str(tmp_path / "run")]
    assert main([*words, f"data={tmp_path / 'album'}"]) == 0
    assert "test loss" in capsys.readouterr().out
    assert main([*words, "--fresh", f"data={tmp_path / 'empty'}"]) == 2
    assert "empty has nothing" in capsys.readouterr().err
