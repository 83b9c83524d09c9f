"""Kill `vitedu train` at random instants, resume it, compare final weights.

    python benchmarks/kill_and_resume.py

One run goes to its end undisturbed. A second is killed with SIGKILL again and
again, every other time while a checkpoint is being written, and started again
with the same command; a third is stopped with SIGTERM, which saves and exits
with 0. On the CPU with one thread all three must end with the same bytes and
the same log. What happened is printed and written to
`vitedu/results/kill-and-resume.json`.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import torch

from vitedu import cli, results
from vitedu.train.run_folder import RunFolder

# Everything that carries a state from step to step, or draws; and a checkpoint,
# of 1.3 MB, after every step.
FIELDS = (
    *("model.embed_dim=64", "model.depth=2", "model.num_heads=4"),
    *("model.mlp_dim=128", "model.dropout=0.1", "model.drop_path=0.1"),
    *("micro_batch_size=24", "max_grad_norm=1", "mixup=0.2", "ema=0.98"),
    *("validation=0.2", "log_every=1", "save_every=1", "device=cpu"),
)
TIMING = ("images_per_second", "wall_seconds", "data_wait")


class Trial:
    """A run in a folder of its own, started as often as it takes."""

    def __init__(self, out: Path, steps: int) -> None:
        self.out = out
        self.folder = RunFolder(out)
        self.words = [
            *("train", "digits", *FIELDS, f"steps={steps}", "--tier", "smoke"),
            *("--json", "--out", str(out)),
        ]

    def start(self) -> ForkProcess:
        """Start the run, or go on with it: a fork has imported all it needs."""
        process = multiprocessing.get_context("fork").Process(target=self.run)
        process.start()
        return process

    def run(self) -> None:
        """The command, whose output goes into files."""
        for number, end in ((1, ".json"), (2, ".stderr")):
            with open(self.out.with_suffix(end), "w") as file:
                os.dup2(file.fileno(), number)
        sys.exit(cli.main(self.words))

    def answer(self, process: ForkProcess) -> dict[str, Any]:
        """What the command says in the end, which must be a success."""
        process.join()
        if process.exitcode != 0:
            talk = self.out.with_suffix(".stderr").read_text()
            raise SystemExit(f"exit code {process.exitcode}: {talk}")
        return json.loads(self.out.with_suffix(".json").read_text())

    def wait_for_step(self, process: ForkProcess, step: int) -> None:
        """Return once `process` has logged `step`, or the first new one."""
        step = max(step, self.last_step() + 1)
        while self.last_step() < step:
            if not process.is_alive():
                raise SystemExit(f"the run ended before step {step}")
            time.sleep(0.005)

    def last_step(self) -> int:
        """The last step in the log."""
        history = self.folder.history()
        return history[-1]["step"] if history else 0

    def wait_for_write(self, process: ForkProcess) -> None:
        """Return as soon as a checkpoint is being written."""
        left = self.parts()  # by runs that were killed
        while self.parts() <= left:
            if not process.is_alive():
                raise SystemExit("the run ended before it wrote a checkpoint")

    def parts(self) -> set[Path]:
        """The checkpoints that are not written to their end."""
        return set(self.out.glob("checkpoint.pt.*.part"))

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log without what a clock wrote."""
        return [
            {name: line[name] for name in line if name not in TIMING}
            for line in self.folder.history()
        ]

    def weights(self) -> bytes:
        """What the run comes to."""
        return self.folder.weights.read_bytes()


def killed(trial: Trial, steps: list[int], pause: float) -> int:
    """Kill `trial` once it has done each of `steps`; how often in a write."""
    num_in_write = 0
    for number, step in enumerate(steps):
        process = trial.start()
        trial.wait_for_step(process, step)
        if number % 2:
            trial.wait_for_write(process)
        else:
            time.sleep(random.uniform(0, pause))
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            raise SystemExit(f"not killed: exit code {process.exitcode}")
        parts = list(trial.parts())
        num_in_write += bool(parts)
        left = f", {parts[0].stat().st_size:,} bytes written" if parts else ""
        print(f"killed after step {trial.last_step()}{left}", flush=True)
    return num_in_write


def terminated(trial: Trial, steps: list[int], pause: float) -> None:
    """Stop `trial` with SIGTERM once it has done each of `steps`."""
    for step in steps:
        process = trial.start()
        trial.wait_for_step(process, step)
        time.sleep(random.uniform(0, pause))
        sent = trial.last_step()
        process.terminate()
        status = trial.answer(process)["status"]
        if status != "interrupted":
            raise SystemExit(f"not interrupted but {status}")
        print(
            f"SIGTERM after step {sent}: saved after step {trial.last_step()}",
            flush=True,
        )


def main() -> None:
    """Disturb two runs, compare them with a third, record what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--terms", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0, help="of the instants")
    parser.add_argument(
        "--result",
        type=Path,
        default=Path(results.__file__).parent / "kill-and-resume.json",
    )
    options = parser.parse_args()
    for name in ("matplotlib.figure", "torch._dynamo"):
        importlib.import_module(name)  # once, not in every fork on its way
    random.seed(options.seed)
    torch.set_num_threads(1)
    started = time.perf_counter()

    def instants(count: int) -> list[int]:
        # not near the end, since a run goes on until its signal is sent
        return sorted(random.sample(range(1, options.steps * 2 // 3), count))

    with tempfile.TemporaryDirectory() as folder:
        whole, kills, terms = (
            Trial(Path(folder) / name, options.steps)
            for name in ("whole", "kills", "terms")
        )
        result = whole.answer(whole.start())
        pause = 2 * result["wall_seconds"] / options.steps
        num_in_write = killed(kills, instants(options.kills), pause)
        terminated(terms, instants(options.terms), pause)
        same = 0
        for trial in (kills, terms):
            trial.answer(trial.start())
            same += (
                trial.weights() == whole.weights()
                and trial.log() == whole.log()
            )
    metrics = {
        "sigkills": (options.kills, "kills"),
        "sigkills_in_a_write": (num_in_write, "kills in a checkpoint's write"),
        "sigterms": (options.terms, "stops with exit code 0"),
        "equal_runs": (same, "runs of 2 with equal weights and log"),
    }
    record = {
        name: result[name]
        for name in ("schema", "status", "config", "tier", "seeds", "dataset")
    }
    results.write(
        options.result,
        record
        | {
            "name": "kill-and-resume",
            "command": "python benchmarks/kill_and_resume.py",
            "metrics": {
                name: {"value": value, "unit": unit}
                for name, (value, unit) in metrics.items()
            },
            **results.machine(torch.device("cpu")),
            "date": datetime.now(UTC).date().isoformat(),
            "wall_seconds": round(time.perf_counter() - started, 1),
        },
    )
    print(
        f"{options.kills} kills, {num_in_write} in a write, {options.terms} "
        f"stops: {same} of 2 runs equal the undisturbed one"
    )
    if same != 2:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
