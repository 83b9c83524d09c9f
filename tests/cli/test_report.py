"""`vitedu report`, and the page that training on pictures leaves behind."""

import contextlib
import html
import io
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import vitedu
from tests.cli.small import TINY, write_pictures
from vitedu.cli import main
from vitedu.data import ArraySource, load_dataset
from vitedu.figures.report import examples
from vitedu.interpret import attention_map
from vitedu.model import ViT
from vitedu.pictures import normalise
from vitedu.train import Run, fit, override
from vitedu.train.data import open_sources
from vitedu.train.fit import draw_page
from vitedu.train.recipes import recipe
from vitedu.train.recipes.compare import changed_settings
from vitedu.train.run_folder import RunFolder

TRAIN = [
    *("train", "shapes-small", "data=photos", *TINY, "model.image_size=16"),
    *("ema=none", "steps=3", "batch_size=2", "log_every=1"),
    *("--tier", "smoke", "--out", "run"),
]
BAD = "<b>no picture.png"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with photographs of two classes, and a run on them."""
    folder = tmp_path_factory.mktemp("report")
    write_pictures(folder / "photos", **{"ants": 10, "<i>bees<i>": 10})
    (folder / "photos/ants" / BAD).write_bytes(b"no picture")
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setenv("VITEDU_CACHE", str(folder / "cache"))
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            assert main(TRAIN) == 0
    (folder / "stdout").write_text(out.getvalue())
    (folder / "stderr").write_text(err.getvalue())
    return folder


@pytest.fixture
def here(here, trained):
    """A copy of it, to change as one likes."""
    shutil.copytree(trained, here, dirs_exist_ok=True)
    return here


def page(folder="run"):
    return (Path(folder) / "report.html").read_text(encoding="utf-8")


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_training_on_pictures_leaves_a_report_and_says_where(here):
    assert (here / "stdout").read_text().endswith("report: run/report.html\n")
    result = json.loads((here / "run/result.json").read_text())
    accuracy = result["metrics"]["test_accuracy"]["value"]
    assert f"<h1>photos: {accuracy:.2f}% of the test pictures right" in page()
    assert page().count("<img src=") == 2 * 4  # all 4 test pictures
    assert page().count("<svg ") == 3


@pytest.mark.parametrize(("most", "every"), [(120, 1), (50, 3)])
def test_the_most_confident_come_first_with_their_picture_and_map(
    monkeypatch, most, every
):
    monkeypatch.setattr(examples, "MOST_MEASURED", most)
    digits = load_dataset("digits").test.first(120)
    torch.manual_seed(0)
    words = dict(word.split("=") for word in TINY)
    config = override(recipe("digits", "smoke"), words)
    model = ViT(config.model).eval()
    torch.nn.init.normal_(model.head.weight)
    named = replace(digits, class_names=tuple("abcdefghij"))
    source = ArraySource(named, config.preprocess)
    found = examples.measure(model, source, config, lambda: False)
    assert torch.equal(found.answers.labels, digits.labels[::every])
    sure = found.answers.probabilities
    is_right = found.answers.is_correct
    for shown, rows in ((found.right, is_right), (found.wrong, ~is_right)):
        shares = [each.probability for each in shown]
        assert shares == sorted(sure[rows].tolist(), reverse=True)[:6]
    assert found.right and len(found.wrong) == 6
    for each in (*found.right, *found.wrong):
        index = int(each.name.removeprefix("test image ")) - 1
        assert index % every == 0
        assert each.label == f"class {digits.labels[index]}"
        assert (each.label == each.predicted) == (each in found.right)
        pixels = digits.images[index : index + 1]  # (1, 1, 28, 28)
        # float32
        assert torch.allclose(each.picture, pixels[0] / 255, atol=1e-6)
        (want,) = attention_map(model, normalise(pixels, config.preprocess))
        assert torch.allclose(each.shares, want, atol=1e-6)


def test_names_from_the_data_are_shown_as_they_are_written(here):
    assert '<th scope="row">model.depth</th><td>1 (recipe: ' in page()
    words = html.unescape(re.sub("<[^>]*>", "", page()))
    assert "<i>bees<i>" in words
    assert f"cannot read ants/{BAD}: it is not a picture" in words
    assert "<i>" not in page()


def test_the_page_has_all_that_the_terminal_said(here):
    words = html.unescape(re.sub("<[^>]*>", " ", page()))
    words = " ".join(words.split())
    text = (here / "stderr").read_text()
    said = re.findall(r"^(data|model|device|plan|run|note) +(.*)$", text, re.M)
    assert [name for name, _ in said] == [
        *("data", "model", "device", "plan", "run", "note", "note")
    ]
    facts = [line for name, line in said if name != "run"]
    assert [line for line in facts if line not in words] == []
    (run,) = [line for name, line in said if name == "run"]
    place, settings = run.split("; not as in the recipe: ")
    assert place in words and settings.count("=") > 5
    for setting in settings.split(" "):
        assert f"{setting.replace('=', ' ')} (recipe: " in words
    # what it ended with: accuracy, seconds, and how fast it was
    ending = (here / "stdout").read_text()
    accuracy, seconds = re.match(
        r"test accuracy (.*%) on 4 images of photos, (\d+ s) of", ending
    ).groups()
    assert f"test accuracy {accuracy}" in words
    assert f"training {seconds}" in words
    assert " images/s" in text and re.search(r"speed [\d,]+ images/s", words)
    # and what it left out, with the reason
    (skipped,) = json.loads((here / "run/result.json").read_text())["dataset"][
        "skipped"
    ]
    assert skipped in text and words.count(skipped) == 2


@pytest.mark.slow
def test_a_report_is_drawn_again_and_changes_no_other_file(here, answer):
    before = files(here / "run")
    (here / "run/report.html").unlink()
    found = answer("report", "run")
    assert files(here / "run") == before
    assert found["report"] == "run/report.html" and found["missing"] is None
    result = json.loads((here / "run/result.json").read_text())
    assert found["num_images"] == result["dataset"]["num_test"] == 4
    accuracy = 100 * found["num_correct"] / found["num_images"]
    assert accuracy == result["metrics"]["test_accuracy"]["value"]


def test_the_lines_that_load_the_model_run(here, capsys):
    vitedu.data.photo("cat").save("photo.jpg")
    code = re.search(r"<code>(import vitedu.*?)</code>", page(), re.S)[1]
    program = html.unescape(code)
    assert len([x for x in program.splitlines()[1:] if x]) == 3
    names = {}
    exec(program, names)
    assert names["images"].shape == (1, 3, 16, 16)
    guesses = vitedu.classify(names["model"], "photo.jpg")
    assert capsys.readouterr().out == f"{guesses}\n"


def test_what_comes_with_the_weights_is_no_change_of_the_recipe():
    config = recipe("finetune", "cpu")
    model = replace(config.model, image_size=(32, 32), dropout=0.1)
    config = replace(config, model=model, dataset="photos", lr=0.5)
    found = changed_settings(config)
    assert found == {"lr": (0.01, 0.5), "model.dropout": (0.0, 0.1)}
    assert changed_settings(replace(config, recipe="of my own")) is None


@pytest.mark.slow
def test_data_that_have_moved_leave_the_report_without_pictures(
    here, capsys, answer
):
    before = page()
    (here / "photos").rename(here / "moved")
    assert main(["report", "run"]) == 0
    assert "note: the test pictures are missing: data=photos" in (
        capsys.readouterr().err
    )
    assert "<img src=" not in page() and page().count("<svg ") == 3
    assert "`vitedu report RUN data=FOLDER`" in html.unescape(page())
    assert "Class by class" not in page()
    found = answer("report", "run", "data=moved")
    assert found["num_images"] == 4 and page().count("<img src=") == 8
    # the names of pictures are those below the folder, wherever it is
    assert page().count("ants/") == before.count("ants/")


@pytest.mark.slow
def test_other_data_are_not_taken_for_those_of_the_run(here, answer):
    (here / "photos/ants/0.png").unlink()
    found = answer("report", "run")
    assert "aren't those of the run" in found["missing"]
    assert found["num_images"] == 0 and "Class by class" not in page()


@pytest.mark.parametrize("data", ["gone", "photos/ants"])
def test_a_wrong_place_is_one_sentence_and_the_page_stays(here, sentence, data):
    before = page()
    sentence("report", "run", f"data={data}")
    assert page() == before


@pytest.mark.slow
def test_a_report_that_cannot_be_drawn_does_not_end_a_run(
    here, monkeypatch, capsys
):
    def broken(contents):
        raise ZeroDivisionError("no ink")

    monkeypatch.setattr("vitedu.figures.report.page.render", broken)
    words = [*TRAIN[:-1], "other"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "report.html could not be drawn: no ink" in err
    assert "report:" not in out
    assert not [x for x in os.listdir("other") if x.startswith("report")]


def test_ctrl_c_ends_the_drawing_and_not_the_run(here):
    folder = RunFolder("run")
    config, result = folder.read_config(), json.loads(folder.result.read_text())
    run = Run(result, folder.history(), vitedu.load("run"))
    test = open_sources(config, torch.device("cpu")).test
    said = "report.html could not be drawn: it was stopped; `vitedu report RUN`"
    with pytest.warns(UserWarning, match=said):
        draw_page(run, folder, test, lambda: True)
    assert not (here / "run/report.html").exists()


@pytest.mark.slow
def test_a_run_on_arrays_has_a_report_if_it_is_asked_for(here, answer):
    others = ("data=", "model.image")
    words = [word for word in TRAIN if not word.startswith(others)]
    words[1] = "digits"
    words[words.index("batch_size=2")] = "batch_size=64"
    assert main([*words[:-1], "numbers"]) == 0
    assert not (here / "numbers/report.html").exists()
    found = answer("report", "numbers")
    result = json.loads((here / "numbers/result.json").read_text())
    assert found["num_images"] == result["dataset"]["num_test"]
    assert "test image " in page("numbers")
    assert page("numbers").count("<img src=") >= 2 * 6


@pytest.mark.slow
def test_data_given_in_python_are_missing_in_a_sentence(here, answer):
    dataset = [
        (Image.new("RGB", (20, 20), (9 * n, 9, 9)), n % 2) for n in range(20)
    ]
    config = recipe("shapes-small", "smoke")
    model = replace(RunFolder("run").read_config().model, num_classes=2)
    config = replace(config, model=model, steps=1, batch_size=4, ema=None)
    given = vitedu.data.from_torch(dataset, num_classes=2)
    fit(config, "given", train=given, test=given)
    found = answer("report", "given")
    assert found["missing"].endswith("given its data in Python (test, train)")
