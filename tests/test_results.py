"""Recorded results: the schema refuses damage; what is recorded follows it."""

import json
from dataclasses import fields
from importlib import resources

import pytest
import torch

from vitedu import results
from vitedu.errors import UserError
from vitedu.train.processes.device import cpu_threads

ACCURACY = {"value": 98.0, "unit": "percent"}
DATASET = {
    "name": "mnist",
    "digest": "0f",
    "num_train": 60_000,
    "num_test": 10_000,
}
GOOD = {
    "schema": 1,
    "status": "finished",
    "name": "mnist-tiny",
    "command": "vitedu train mnist-tiny",
    "config": {"lr": 0.01},
    "tier": "cpu",
    "metrics": {
        "test_accuracy": ACCURACY | {"per_seed": [97.9, 98.1]},
        "speed": {"value": 3, "unit": "images per second"},
    },
    "seeds": [0, 1],
    "dataset": DATASET,
    "hardware": "a processor, 2 threads",
    "versions": {"python": "3.11.9", "torch": "2.13.0"},
    "commit": None,
    "date": "2026-01-31",
    "wall_seconds": 12.5,
}
REPRODUCES = {
    "row": "table-5",
    "scale": "small",
    "ours": 98.0,
    "paper": 98.5,
    "n": 2,
}


def refused(result):
    with pytest.raises(UserError, match=r"^where") as error:
        results.check(result, "where")
    assert "\n" not in str(error.value)
    return str(error.value)


def checked_metric(metric):
    results.check(GOOD | {"metrics": {"test_accuracy": metric}}, "where")


@pytest.mark.parametrize("name", results.names())
def test_every_recorded_result_is_strict_json_that_follows_the_schema(name):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    file = resources.files("vitedu.results") / f"{name}.json"
    result = json.loads(file.read_text(), parse_constant=refuse)
    assert result["name"] == name
    # a lot of gpu_day.py is kept in part, and says which pieces are missing
    is_in_part = name.startswith("gpu-") and "open: " in result["notes"]
    wanted = "interrupted" if is_in_part else "finished"
    assert result["status"] == wanted
    assert results.read(name) == result
    results.check(result, name)


@pytest.mark.parametrize(
    "changes",
    [
        {"reproduces": REPRODUCES, "notes": "n = 1", "data_wait": 0.25},
        {"reproduces": REPRODUCES | {"scale": "recomputed", "ours": "twice"}},
        {"facts": {"device": "cpu, 2 threads"}},
        {"status": "interrupted", "metrics": {}},  # nothing measured yet
        {"seeds": [0, 2**64 - 1]},
        {"dataset": DATASET | {"skipped": ["val/ants/7.jpg"]}},
    ],
)
def test_a_whole_result_is_accepted(changes):
    results.check(GOOD, "where")
    results.check(GOOD | changes, "where")


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_field_is_named(name):
    said = refused({k: v for k, v in GOOD.items() if k != name})
    assert f"lacks {name}" in said


WRONG = {
    "schema": 2,
    "status": "done",
    "name": None,
    "command": ["vitedu"],
    "config": "lr=1",
    "tier": 1,
    "metrics": "98 %",
    "seeds": 0,
    "dataset": "mnist",
    "hardware": {"gpu": 1},
    "versions": "2.13",
    "commit": 3,
    "date": 2026,
    "wall_seconds": "12",
    "start": 7,
    "data_wait": 1.5,
    "facts": "cpu, 2 threads",
    "reproduces": "table-5",
    "notes": None,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_field_of_the_wrong_type_is_named(name):
    assert name in refused(GOOD | {name: WRONG[name]})


def test_every_field_of_the_schema_is_tried():
    assert WRONG.keys() == {each.name for each in fields(results.Result)}


@pytest.mark.parametrize("result", [None, [GOOD]])
def test_what_is_not_an_object_is_refused(result):
    assert "must be a JSON object" in refused(result)


def test_an_unknown_field_names_the_nearest():
    said = refused(GOOD | {"seed": 0})
    assert "no field 'seed'; did you mean 'seeds'" in said


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": []},
        {"seeds": [0, 2**64]},
        {"metrics": {}},
        {"wall_seconds": float("nan")},
        {"wall_seconds": -1.0},
        {"dataset": {"name": "mnist"}},
        {"dataset": DATASET | {"num_test": "all"}},
        {"dataset": DATASET | {"skipped": [7]}},
        {"reproduces": {"row": "table-5"}},
        {"reproduces": REPRODUCES | {"scale": "tiny"}},
        {"reproduces": REPRODUCES | {"n": "two"}},
    ],
)
def test_damage_inside_a_field_is_refused(changes):
    refused(GOOD | changes)


# --- reading and writing


def test_what_is_written_is_read(tmp_path):
    results.write(tmp_path / "r.json", GOOD)
    assert results.read_file(tmp_path / "r.json") == GOOD
    assert results.read_file(str(tmp_path / "r.json")) == GOOD


def test_equal_results_are_equal_bytes(tmp_path):
    results.write(tmp_path / "a", GOOD)
    results.write(tmp_path / "b", dict(reversed(GOOD.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes().endswith(b"}\n")


def test_a_damaged_result_is_not_written(tmp_path):
    results.write(tmp_path / "r.json", GOOD)
    with pytest.raises(UserError, match="lacks schema"):
        results.write(tmp_path / "r.json", {"name": "r"})
    assert results.read_file(tmp_path / "r.json") == GOOD
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not valid JSON"),
        (b"\xff\xfe", "is not valid JSON"),
        (json.dumps(GOOD).encode()[:-20], "is not valid JSON"),
        (b"[1, 2]", "must be a JSON object"),
        (None, "does not exist"),
    ],
)
def test_a_file_that_is_no_result_is_one_sentence(tmp_path, content, said):
    path = tmp_path / "r.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"r\.json {said}") as error:
        results.read_file(path)
    assert "\n" not in str(error.value)


# --- hardware, versions, commit


def test_the_machine_gives_fields_of_the_schema():
    found = results.machine(torch.device("cpu"))
    results.check(GOOD | found, "where")
    assert found.keys() == {"hardware", "versions", "commit"}
    versions = found["versions"]
    assert {"python", "torch", "vitedu", "numpy"} <= versions.keys()
    assert versions["torch"].startswith(torch.__version__.split("+")[0])


def test_the_processor_comes_with_the_threads_in_use():
    for count, words in ((2, ", 2 threads"), (1, ", 1 thread")):
        with cpu_threads(count):
            assert results.hardware(torch.device("cpu")).endswith(words)


def test_the_commit_is_forty_digits_or_unknown():
    commit = results.commit()
    assert commit is None or (len(commit) == 40 and int(commit, 16) >= 0)


def test_without_git_the_commit_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert results.commit() is None
