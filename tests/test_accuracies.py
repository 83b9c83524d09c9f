"""What is called an accuracy is in percent, wherever it stands."""

import json
from types import ModuleType

import pytest
import torch

import vitedu
from tests.evaluate.small import small
from vitedu import evaluate, results, train
from vitedu.cli import main
from vitedu.evaluate import Features

LABELS = torch.tensor([0, 0, 0, 1] * 3)
# of equal images nobody can get more right than the most frequent class
RIGHT = 75.0


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Twelve equal pictures of two classes to train on, and to test on."""
    folder = tmp_path_factory.mktemp("accuracies") / "photos"
    picture = vitedu.data.photo("cat").crop((0, 0, 16, 16))
    for part in ("train", "val", "test"):
        for number, label in enumerate(LABELS.tolist()):
            path = folder / part / "ab"[label] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture.save(path)
    return folder


@pytest.fixture(scope="module")
def trained(photos):
    """A run on them: what `fit` returns, its folder, its progress."""
    config = vitedu.train.TrainConfig(
        "photos",
        "cpu",
        model=small(num_classes=2).config,
        dataset=str(photos),
        batch_size=12,
        steps=30,
        lr=0.01,
        threads=1,
    )
    lines, out = [], photos.parent / "run"
    run = train.fit(
        config, out, on_progress=lambda progress: lines.append(progress.line)
    )
    return run, out, lines


def found_in(values, path=""):
    """Numbers under a key of JSON that names an accuracy, by their path."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from found_in(value, f"{path}/{key}")
    elif isinstance(values, list):
        for each in values:
            yield from found_in(each, path)
    elif "accuracy" in path and isinstance(values, int | float):
        if not path.endswith(("/step", "/epoch")):
            yield path, values


def public():
    """Public names of accuracies: functions, and fields of results."""
    packages = [vitedu, *vars(vitedu).values()]
    for package in packages:
        if not isinstance(package, ModuleType):
            continue
        for name in getattr(package, "__all__", ()):
            value = getattr(package, name)
            if callable(value) and "accura" in name:
                yield name
            if isinstance(value, type):
                yield from (f"{name}.{x}" for x in dir(value) if "accura" in x)


@pytest.mark.slow
def test_every_public_one_is_in_percent(trained, photos):
    run, _, _ = trained
    model = small(num_classes=8)
    with torch.no_grad():  # knows the first class alone
        model.head.weight.zero_()
        model.head.bias.copy_(-torch.arange(8.0))
    pictures = torch.zeros(12, 3, 8, 8)
    x = Features(torch.ones(12, 4), LABELS)
    measured = evaluate.accuracy(model, [(pictures, LABELS * 7)])
    real = evaluate.RealEvaluation(3, 4)
    objects = evaluate.ObjectNetEvaluation(3, 3, 4)
    points = evaluate.fewshot_curve(model, x, x, shots=(3,), seeds=(0, 1))
    probe = evaluate.linear_probe(model, x, l2=0.1)
    tasks = evaluate.VtabResult({"dtd": RIGHT}, {})
    values = {
        "accuracy": measured.accuracy,
        "Evaluation.accuracy": measured.accuracy,
        "Evaluation.top5_accuracy": measured.top5_accuracy,
        "real_accuracy": real.accuracy,
        "RealEvaluation.accuracy": real.accuracy,
        "objectnet_accuracy": objects.accuracy,
        "ObjectNetEvaluation.accuracy": objects.accuracy,
        "ObjectNetEvaluation.top5_accuracy": objects.top5_accuracy,
        "fewshot_accuracy": evaluate.fewshot_accuracy(model, x, x),
        "FewShotPoint.accuracies": points[0].accuracies[0],
        "LinearProbe.accuracy": probe.accuracy(model, x),
        "VtabResult.accuracies": tasks.mean,
        "Run.accuracy": run.accuracy,
    }
    assert set(values) == set(public())
    # without "accuracy" in their names
    values["knn"] = evaluate.knn(model, x, x)
    values["FewShotPoint.mean"] = points[0].mean
    # of three images of each class, the first of two equal ones wins
    assert set(values.values()) <= {RIGHT, 100 - RIGHT}


@pytest.mark.slow
def test_so_are_those_of_a_run(trained):
    run, out, lines = trained
    result = json.loads((out / "result.json").read_text())
    log = [json.loads(x) for x in (out / "log.jsonl").read_text().splitlines()]
    assert result["metrics"]["test_accuracy"]["unit"] == "percent"
    for values in (run.result, run.history, lines, result, log):
        found = list(found_in(values))
        assert found and {value for _, value in found} == {RIGHT}


@pytest.mark.slow
def test_so_are_those_that_commands_answer(trained, photos, capsys):
    _, out, _ = trained
    words = ["evaluate", str(out), str(photos), "--per-class", "--json"]
    assert main(words) == 0
    found = dict(found_in(json.loads(capsys.readouterr().out)))
    assert found.pop("/accuracy") == RIGHT
    assert found.pop("/mean_class_accuracy") == 50
    assert main(words[:-1]) == 0
    assert "accuracy 75.00% (9 of 12" in capsys.readouterr().out
    assert main(["report", str(out)]) == 0
    page = (out / "report.html").read_text()
    assert "75.00% of the test pictures right" in page


def test_so_are_those_that_were_recorded():
    for name in results.names():
        for metric, values in results.read(name)["metrics"].items():
            if "accuracy" in metric:
                assert values["unit"].startswith("percent"), name
                assert 1 < values["value"] <= 100, name
