"""Join finished runs that differ in their seed into one recorded result.

    python tools/record.py runs/mnist-tiny-* [--name NAME] [--notes TEXT]
    python tools/record.py runs/cifar10-finetune-* --reproduces table-5=98.95

writes `vitedu/results/NAME.json`; the name is the recipe's unless it is given.
`--reproduces` names a row of the ledger that it fills at a small scale, and the
paper's number beside our test accuracy.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from vitedu import results
from vitedu.errors import UserError
from vitedu.train.run_folder import RunFolder


def join(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One result from several: means of metrics; `per_seed` has each run's.

    The commit is kept if it is the same for all.

    UserError: a run is not finished, differs in more than the seed, or repeats
    one.
    """
    runs = sorted(runs, key=lambda run: run["seeds"])
    for run in runs:
        if run["status"] != "finished":
            raise UserError(
                f"a run of {run['name']} isn't finished, but {run['status']}"
            )
        for part in ("config", "dataset", "hardware", "versions"):
            theirs, ours = without_seed(run[part]), without_seed(runs[0][part])
            if theirs != ours:
                raise UserError(
                    f"the runs differ in {part}: seed {run['seeds'][0]} has "
                    f"{theirs}, seed {runs[0]['seeds'][0]} has {ours}"
                )
    seeds = [seed for run in runs for seed in run["seeds"]]
    if len(set(seeds)) != len(seeds):
        raise UserError(f"a seed is there twice: {', '.join(map(str, seeds))}")
    metrics = {}
    for name, first in runs[0]["metrics"].items():
        values = [run["metrics"][name]["value"] for run in runs]
        metrics[name] = first | {
            "value": sum(values) / len(values),
            "per_seed": values,
        }
    commits = {run["commit"] for run in runs}
    waits = [run["data_wait"] for run in runs if "data_wait" in run]
    data_wait = {"data_wait": sum(waits) / len(waits)} if waits else {}
    return runs[0] | {
        **data_wait,
        "commit": commits.pop() if len(commits) == 1 else None,
        "command": " && ".join(run["command"] for run in runs),
        "metrics": metrics,
        "seeds": seeds,
        "date": max(run["date"] for run in runs),
        "wall_seconds": round(sum(run["wall_seconds"] for run in runs), 1),
    }


def without_seed(values: Any) -> Any:
    """A configuration without its seed; other things as they are."""
    if not isinstance(values, dict):
        return values
    return {name: value for name, value in values.items() if name != "seed"}


def at_small_scale(result: dict[str, Any], claim: str) -> dict[str, Any]:
    """What is written of "table-5=98.95". UserError: it is of another form."""
    row, _, paper = claim.partition("=")
    try:
        number = float(paper)
    except ValueError:
        raise UserError(
            f"--reproduces {claim} needs a row and the paper's number, as in "
            "table-5=98.95"
        ) from None
    return {
        "row": row,
        "scale": "small",
        "ours": round(result["metrics"]["test_accuracy"]["value"], 2),
        "paper": number,
        "n": len(result["seeds"]),
    }


def main(arguments: list[str] | None = None) -> int:
    """Read runs, write the result; exit code 2 for what a user can mend."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--name")
    parser.add_argument("--notes")
    parser.add_argument("--reproduces", metavar="ROW=PAPER")
    parser.add_argument(
        "--into", type=Path, default=Path(results.__file__).parent
    )
    options = parser.parse_args(arguments)
    try:
        result = join(
            [results.read_file(RunFolder(run).result) for run in options.runs]
        )
        if options.name:
            result["name"] = options.name
        if options.notes:
            result["notes"] = options.notes
        if options.reproduces:
            result["reproduces"] = at_small_scale(result, options.reproduces)
        path = options.into / f"{result['name']}.json"
        results.write(path, result)
    except UserError as error:
        print(f"record: {error}", file=sys.stderr)
        return 2
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
