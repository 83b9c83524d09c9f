"""The folder of a run: what stands in it, and whether a run may go on there."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from vitedu.errors import UserError
from vitedu.files import reason, replace_file
from vitedu.results import read_file
from vitedu.train.config import TrainConfig


class RunFolder:
    """Paths and small files of one run.

    `config.json`, `log.jsonl` (a line per measurement), `checkpoint.pt`, with
    keep="best" `best.safetensors`, and when the run is done or stopped
    `model.safetensors` and `result.json`, whose status says which.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.log = self.path / "log.jsonl"
        self.checkpoint = self.path / "checkpoint.pt"
        self.best = self.path / "best.safetensors"
        self.weights = self.path / "model.safetensors"
        self.result = self.path / "result.json"

    @contextmanager
    def held(self, config: TrainConfig) -> Iterator[None]:
        """`prepare`, and keep other processes out until the run or this process ends.

        UserError: another one is training here, or what `prepare` says.
        """
        with self._locked():
            self.prepare(config)
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Where the system or the disk knows no locks, nobody is kept out."""
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise UserError(
                f"cannot make {self.path}: {reason(error)}"
            ) from None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            raise UserError(
                f"another process is training in {self.path}; wait for it, stop it, "
                "or give another --out"
            ) from None
        except OSError:
            pass
        try:
            yield
        finally:
            os.close(folder)

    def prepare(self, config: TrainConfig) -> None:
        """Make the folder, or check that the run in it is this one.

        UserError: it belongs to another run (what differs is named), holds something
        else, or cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # what a run leaves that is killed while it writes a file
            parts = set(self.path.glob("*.part"))
            others = set(self.path.iterdir()) - parts
            if self.config.is_file():
                self._check_same(config)
            elif others:
                raise UserError(
                    f"{self.path} is no run folder: it holds files but no config.json; "
                    "give an empty or new folder with --out"
                )
            for part in parts:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot make {self.path}: {reason(error)}"
            ) from None
        replace_file(self.config, json.dumps(config.to_json(), indent=2) + "\n")

    def read_config(self) -> TrainConfig:
        """The configuration of the run. UserError: this is no run folder."""
        try:
            values = json.loads(self.config.read_text())
            if not isinstance(values, dict):
                raise ValueError("it is no JSON object")
            return TrainConfig.from_json(values)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            if not os.path.isfile(self.config):
                raise UserError(
                    f"{self.path} is no run folder: it holds no config.json"
                ) from None
            raise UserError(f"{self.config} cannot be read: {error}") from None

    def finished(self, config: TrainConfig) -> dict[str, Any] | None:
        """The result, if the run is done. UserError: it is another run's."""
        # unlike Path.is_file, these are False too for what may not be looked at
        if not (os.path.isfile(self.result) and os.path.isfile(self.weights)):
            return None
        self._check_same(config)
        result = read_file(self.result)
        return result if result["status"] == "finished" else None

    def append(self, line: dict[str, Any]) -> None:
        """Add one measurement to the log."""
        try:
            with open(self.log, "a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise UserError(
                f"cannot write {self.log}: {reason(error)}"
            ) from None

    def history(self, up_to: int | None = None) -> list[dict[str, Any]]:
        """The log's lines; of steps up to `up_to`, if given.

        What follows a line that a crash cut short is left out.
        """
        if not self.log.is_file():
            return []
        lines = []
        for text in self.log.read_text(errors="replace").splitlines():
            try:
                line = json.loads(text)
                step = line["step"]
            except (ValueError, KeyError, TypeError):
                break
            if up_to is None or step <= up_to:
                lines.append(line)
        return lines

    def rewind(self, step: int) -> list[dict[str, Any]]:
        """Forget what the log says after `step`, and of the test part.

        Both will be computed again.
        """
        lines = [
            x for x in self.history(up_to=step) if "test_accuracy" not in x
        ]
        replace_file(
            self.log, "".join(json.dumps(line) + "\n" for line in lines)
        )
        return lines

    def set_aside(self) -> Path | None:
        """Rename the folder to the first free `.1`, `.2`, …; None if there is none."""
        if not self.path.exists():
            return None
        if not self.path.name:
            raise UserError(
                f"cannot rename {self.path}; give another folder with --out"
            )
        with self._locked():
            pass  # nobody is at work in it
        number = 1
        while (
            old := self.path.with_name(f"{self.path.name}.{number}")
        ).exists():
            number += 1
        try:
            self.path.rename(old)
        except OSError as error:
            raise UserError(
                f"cannot rename {self.path}: {reason(error)}"
            ) from None
        return old

    def _check_same(self, config: TrainConfig) -> None:
        before, now = differences(self.read_config(), config)
        if "given" in before:
            was, given = before["given"], now["given"]
            raise UserError(
                f"{self.path} holds a run that was given {was or 'nothing'} in Python, "
                f"this one is given {given or 'nothing'}; give vitedu.train.fit the "
                "same to go on, or another out for a new run"
            )
        if before:
            raise UserError(
                f"{self.path} holds a run with {listed(before)}, this one has "
                f"{listed(now)}; give another --out, or --fresh to start anew"
            )


def differences(
    before: TrainConfig, now: TrainConfig
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that make two runs of `before` and `now`, as each has them."""
    old, new = dict(flat(before.identity())), dict(flat(now.identity()))
    names = [name for name in old | new if old.get(name) != new.get(name)]
    return (
        {name: old.get(name) for name in names},
        {name: new.get(name) for name in names},
    )


def listed(fields: dict[str, Any]) -> str:
    """Fields in a sentence: "lr=0.1 and seed=0"."""
    return " and ".join(f"{name}={value}" for name, value in fields.items())


def flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """{"a": {"b": 1}} as [("a.b", 1)]."""
    pairs = []
    for name, value in values.items():
        if isinstance(value, dict):
            pairs += flat(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, value))
    return pairs
