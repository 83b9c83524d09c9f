import pytest
import record

from vitedu import results
from vitedu.errors import UserError


def run(seed, accuracy, **changes):
    """A finished run's result."""
    return {
        "schema": 1,
        "status": "finished",
        "name": "digits",
        "command": f"vitedu train digits seed={seed}",
        "config": {"lr": 0.1, "seed": seed},
        "tier": "cpu",
        "metrics": {"test_accuracy": {"value": accuracy, "unit": "percent"}},
        "seeds": [seed],
        "dataset": {
            "name": "digits",
            "digest": "0",
            "num_train": 1,
            "num_test": 1,
        },
        "hardware": "a processor, 2 threads",
        "versions": {"torch": "2.13.0"},
        "commit": None,
        "date": f"2026-01-0{seed + 1}",
        "wall_seconds": 2.0,
    } | changes


def test_metrics_are_means_with_each_seed_kept():
    first, second = run(0, 97.0, data_wait=0.1), run(1, 98.0, data_wait=0.3)
    joined = record.join([second, first])
    accuracy = joined["metrics"]["test_accuracy"]
    assert accuracy["value"] == 97.5
    assert accuracy["per_seed"] == [97.0, 98.0]
    assert joined["seeds"] == [0, 1]
    assert joined["data_wait"] == pytest.approx(0.2)
    assert joined["wall_seconds"] == 4.0
    assert joined["date"] == "2026-01-02"
    results.check(joined, "joined")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (run(1, 98.0, status="interrupted"), "isn't finished, but interrupted"),
        (run(1, 98.0, config={"lr": 0.2, "seed": 1}), "differ in config"),
        (run(1, 98.0, hardware="another"), "differ in hardware"),
        (run(0, 98.0), "is there twice"),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(second, message):
    with pytest.raises(UserError, match=message):
        record.join([run(0, 97.0), second])


def test_the_command_writes_what_the_reader_accepts(tmp_path, capsys):
    for seed in (0, 1):
        folder = tmp_path / f"run-{seed}"
        folder.mkdir()
        results.write(folder / "result.json", run(seed, 97.0))
    runs = [str(tmp_path / f"run-{seed}") for seed in (0, 1)]
    assert record.main([*runs, "--name", "mine", "--into", str(tmp_path)]) == 0
    written = results.read_file(tmp_path / "mine.json")
    assert written["name"] == "mine" and written["seeds"] == [0, 1]


def test_no_run_and_a_claim_without_a_number_write_nothing(tmp_path, capsys):
    assert record.main([str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("record: ")
    results.write(tmp_path / "result.json", run(0, 91.2))
    options = ["--reproduces", "table-5", "--into", str(tmp_path)]
    assert record.main([str(tmp_path), *options]) == 2
    assert "as in table-5=98.95" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
