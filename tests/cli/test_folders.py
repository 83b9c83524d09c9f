"""The command on one's own photographs, and what evaluation says of a model."""

import json
import os

import pytest
import torch
from PIL import Image, ImageOps

import vitedu
from tests.cli.small import TINY, write_model, write_pictures
from vitedu.cli import main
from vitedu.data import load_dataset

pytestmark = pytest.mark.slow  # each test trains

SMALL = [*TINY, "model.image_size=16", "ema=none"]


@pytest.fixture
def here(here, monkeypatch):
    """A folder with photographs of two classes."""
    monkeypatch.setenv("VITEDU_TIER", "smoke")
    write_pictures(here / "photos", ants=10, bees=10)
    return here


# --- training on a folder


def test_classes_are_counted_and_what_is_held_out_is_said(here, capsys):
    words = ["train", "shapes-small", "data=photos", *SMALL, "--out", "run"]
    assert main(words) == 0
    err = capsys.readouterr().err
    assert "2 classes: ants, bees" in err.splitlines()[0]
    (note,) = [line for line in err.splitlines() if line.startswith("note ")]
    assert "4 of its 20 pictures" in note and "held out" in note
    config = json.loads((here / "run/config.json").read_text())
    assert config["model"]["num_classes"] == 2
    assert vitedu.load(here / "run").class_names == ("ants", "bees")


def test_class_folders_are_never_passed_over_for_mnist(here, answer):
    found = answer("train", "mnist-tiny", "data=photos", "--out", "run")
    assert found["dataset"]["name"] == "photos"


@pytest.fixture
def finished(here):
    """The words of a finished run on the photographs, which are bitmaps."""
    for path in list((here / "photos").glob("*/*.png")):
        with Image.open(path) as picture:
            picture.save(path.with_suffix(".bmp"))
        path.unlink()
    words = ["train", "shapes-small", "data=photos", *SMALL, "--out", "run"]
    assert main(words) == 0
    return words


def test_a_finished_run_is_not_that_of_the_folder_with_more_in_it(
    here, finished, sentence
):
    write_pictures(here / "photos", ants=3, bees=27)
    said = sentence(*finished)
    assert "photos has 50 images now, 30 more than then" in said
    assert "--out DIR trains elsewhere, --fresh starts again" in said
    assert sentence(*finished, "--dry-run") == said
    for path in (here / "photos").glob("*/*.png"):
        path.unlink()
    (here / "photos/ants/0.bmp").unlink()
    assert "19 images now, 1 fewer" in sentence(*finished)
    assert main([*finished, "--fresh"]) == 0


def test_a_touched_picture_is_the_same_and_a_changed_one_is_not(
    here, finished, sentence, capsys
):
    picture = here / "photos/ants/7.bmp"
    os.utime(picture, (1, 1))
    assert main(finished) == 0
    assert "already finished" in capsys.readouterr().err
    changed = picture.read_bytes()
    picture.write_bytes(changed[:-1] + bytes([changed[-1] ^ 1]))
    os.utime(picture, (1, 1))
    assert "some pictures of photos were changed since" in sentence(*finished)
    picture.write_bytes(changed)
    picture.rename(here / "photos/ants/70.bmp")
    assert "some of the 20 images of photos were rep" in sentence(*finished)


def test_a_finished_run_whose_photographs_are_gone_is_still_told(
    here, finished, capsys
):
    (here / "photos").rename(here / "elsewhere")
    assert main(["train", "--resume", "run"]) == 0
    assert "already finished" in capsys.readouterr().err


# --- fine-tuning


def test_finetune_starts_from_the_weights_and_counts_the_classes(here, capsys):
    words = ["train", "finetune", "weights=shapes-small", "data=photos"]
    assert main([*words, "steps=2", "batch_size=4", "--out", "run"]) == 0
    err = capsys.readouterr().err
    assert "from shapes-small" in err and "2 classes: ants, bees" in err
    assert "not as in the recipe: " in err and "steps=2" in err
    assert "model.num_classes" not in err and "=none" not in err
    config = json.loads((here / "run/config.json").read_text())
    assert config["weights"] == "shapes-small"
    assert config["model"]["num_classes"] == 2
    theirs, ours = vitedu.load("shapes-small"), vitedu.load(here / "run")
    assert theirs.preprocess == ours.preprocess
    # two small steps from where it began, and far from another beginning
    weight, start = (x.patch_embed.proj.weight for x in (ours, theirs))
    assert 0 < (weight - start).norm() < 0.1 * start.norm()


def test_a_fine_tuned_run_is_measured_on_a_set_of_another_size(here, answer):
    words = ["train", "finetune", "weights=shapes-small", "data=digits"]
    words += ["steps=1", "batch_size=2", "max_images=500"]
    words += ["model.image_size=32"]
    trained = answer(*words, "--out", "run")["metrics"]
    assert vitedu.load(here / "run").config.image_size == (32, 32)
    found = answer("evaluate", "run")
    assert found["num_images"] == 500
    assert found["accuracy"] == trained["test_accuracy"]["value"]


# --- evaluation


@pytest.fixture
def run(here, capsys):
    """A run on the photographs, a fifth of which it held out."""
    words = ["train", "shapes-small", "data=photos", *SMALL, "--out", "run"]
    assert main(words) == 0
    capsys.readouterr()
    return here / "run"


def test_a_run_is_measured_on_what_it_held_out(run, answer):
    trained = json.loads((run / "result.json").read_text())["metrics"]
    for words in ([], ["photos"], [run.parent / "photos"]):
        found = answer("evaluate", run, *words)
        assert found["num_images"] == 4
        assert found["accuracy"] == trained["test_accuracy"]["value"]


def test_what_a_run_skipped_is_in_its_evaluation(run, answer):
    (run.parent / "photos/ants/0.png").write_bytes(b"no picture")
    for words in ([], [run.parent / "photos"]):
        (skipped,) = answer("evaluate", run, *words)["skipped"]
        assert skipped.startswith("cannot read ants/0.png: ")


def test_a_run_with_test_data_of_its_own_held_out_nothing(
    here, sentence, answer
):
    write_pictures(here / "other", ants=2, bees=2)
    fields = {"steps": 1, "epochs": None, "batch_size": 4, "tier": "smoke"}
    vitedu.finetune("shapes-small", "photos", "run", test="other", **fields)
    assert "(test=other)" in sentence("evaluate", "run")
    for folder, num_images in (("photos", 20), ("other", 4)):
        found = answer("evaluate", "run", folder)
        assert found["num_images"] == num_images


def test_top_5_is_left_out_below_6_classes(run, capsys, answer):
    found = answer("evaluate", run)
    assert found["top5_accuracy"] is None and found["num_top5_correct"] is None
    assert main(["evaluate", str(run)]) == 0
    out = capsys.readouterr().out
    assert "top-5" not in out and out.startswith("accuracy ")


@pytest.mark.parametrize("bias", [0.0, -8.0], ids=["softmax", "sigmoid"])
def test_it_says_what_is_measured_from_python(here, capsys, bias, answer):
    model = write_model(
        "w.safetensors",
        change=lambda model: model.head.bias.fill_(bias),
        num_classes=7,
    )
    write_pictures(here / "seven", **dict.fromkeys("0123456", 1))
    want = vitedu.evaluate.accuracy(model, "seven")
    found = answer("evaluate", "w.safetensors", "seven")
    assert found["loss_name"] == ("sigmoid" if bias else "softmax")
    for name in found.keys() - {"weights", "dataset", "skipped"}:
        # all pictures are one batch, for both
        assert found[name] == getattr(want, name), name
    main(["evaluate", "w.safetensors", "seven"])
    out = capsys.readouterr().out
    assert ("sigmoid cross-entropy" in out) == bool(bias) and " top-5 " in out


def test_the_loss_of_a_run_is_its_own(here, capsys, answer):
    words = ["train", "digits", "loss=sigmoid", *TINY, "--out", "run"]
    assert main(words) == 0
    capsys.readouterr()
    found = answer("evaluate", "run", "digits")
    metrics = json.loads((here / "run/result.json").read_text())["metrics"]
    assert found["loss_name"] == "sigmoid"
    # float32 sums of 500 images in batches of another size
    assert found["loss"] == pytest.approx(
        metrics["test_loss"]["value"], rel=1e-5
    )


# --- predicting


def test_invert_swaps_dark_and_light(here, answer):
    write_model("w.safetensors", in_channels=1)
    digit = load_dataset("digits").test.images[0, 0].numpy()
    Image.fromarray(digit).save("light.png")
    ImageOps.invert(Image.fromarray(digit)).save("dark.png")
    light, turned, dark = (
        answer("predict", "w.safetensors", *words)["predictions"][0]["top"]
        for words in (["light.png"], ["dark.png", "--invert"], ["dark.png"])
    )
    assert light == turned != dark


def test_arrays_that_nobody_knows_can_be_left_out(here, sentence):
    from safetensors.torch import load_file, save_file

    write_model("w.safetensors")
    arrays = load_file(here / "w.safetensors")
    save_file(arrays | {"extra.a": torch.ones(3)}, here / "more.safetensors")
    Image.new("RGB", (16, 16)).save("a.png")
    words = ["predict", "more.safetensors", "a.png", "num_heads=3"]
    assert "extra.a" in sentence(*words)
    assert main([*words, "ignore=extra.*"]) == 0
    fields = ["num_heads=3", "ignore=extra.*"]
    assert main(["info", "more.safetensors", *fields]) == 0
    words = ["convert", "more.safetensors", "out.safetensors", "--to", "vitedu"]
    assert main([*words, *fields]) == 0
