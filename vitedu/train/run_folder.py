"""A run's folder: its files, who may write them, and whether it is resumed."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from vitedu import files, results
from vitedu.errors import UserError, explained
from vitedu.train.config import TrainConfig, as_settings, differences

LOCK = ".lock"
# what a machine decides, and another one that goes on doesn't
AUTO = ("precision", "num_workers")


class OtherRun(UserError):
    """The run in the folder has other settings; `--fresh` puts it aside."""


class RunFolder:
    """`result.json` has a `status`: whether the run finished or stopped."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = files.user_path(path)
        self.config = self.path / "config.json"
        self.log = self.path / "log.jsonl"
        self.checkpoint = self.path / "checkpoint.pt"
        self.best = self.path / "best.safetensors"
        self.weights = self.path / "model.safetensors"
        self.result = self.path / "result.json"
        self.report = self.path / "report.html"

    # --- who may train here

    @contextmanager
    def locked(self) -> Iterator[None]:
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise UserError(
                f"another process is training in {self.path}; wait for it, "
                "stop it, or train in another folder"
            ) from None
        except (OSError, NotImplementedError):
            # no right to write, which the next file says, or (filelock's
            # NotImplementedError) a file system without locks
            pass
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def held(self, config: TrainConfig) -> Iterator[None]:
        """`prepare` under the lock; it raises the same."""
        files.make_folder(self.path)
        with self.locked():
            self.prepare(config)
            yield

    def check(self, config: TrainConfig) -> None:
        """Raise what `held` would, without writing files."""
        if os.path.exists(self.config):
            self.check_same(config)
            with self.locked():
                pass
        elif os.path.exists(self.path):
            self._check_nothing_else()

    def prepare(self, config: TrainConfig) -> None:
        """Create the folder, or go on with the run in it if it is this one."""
        files.make_folder(self.path)
        if os.path.exists(self.config):
            self.check_same(config)
        else:
            self._check_nothing_else()
        for name in filter(
            files.LEFT_OVER.fullmatch, files.list_folder(self.path)
        ):
            (self.path / name).unlink()
        text = json.dumps(config.to_json(), indent=2) + "\n"
        files.replace_file(self.config, text)

    def check_same(self, config: TrainConfig) -> None:
        before, now = differences(self.read_config(), config)
        if "given" in before:
            raise OtherRun(
                f"{self.path} contains a run that was given "
                f"{before['given'] or 'nothing'} in Python, and this one is "
                f"given {now['given'] or 'nothing'}; give vitedu.train.fit the "
                "same to go on, or train in another folder"
            )
        if before:
            raise OtherRun(
                f"{self.path} contains a run with {as_settings(before)}, this "
                f"one has {as_settings(now)}; train in another folder"
            )

    def _check_nothing_else(self) -> None:
        """UserError: there are files that a killed run wouldn't leave."""
        names = {*files.list_folder(self.path)} - {LOCK}
        if not all(map(files.LEFT_OVER.fullmatch, names)):
            raise UserError(
                f"{self.path} is not a run folder: it has files, but no "
                "config.json; train in an empty or a new folder"
            )

    def set_aside(self) -> Path | None:
        """Rename a run's folder to the first free `.1`, …; None if empty."""
        if not os.path.exists(self.path) or not files.list_folder(self.path):
            return None
        if not os.path.exists(self.config):
            self._check_nothing_else()
        elif is_foreign(self.config):
            raise UserError(
                f"{self.path} is not a run folder: its config.json describes "
                "something else; train in another folder"
            )
        number = 1
        while os.path.lexists(old := Path(f"{self.path}.{number}")):
            number += 1
        with self.locked(), explained(f"cannot rename {self.path}"):
            return self.path.rename(old)

    # --- its files

    def append(self, line: dict[str, Any]) -> None:
        with explained(f"cannot write {self.log}"), open(self.log, "a") as file:
            file.write(json.dumps(line) + "\n")

    def rewind(self, step: int) -> list[dict[str, Any]]:
        """Drop what will be logged again: later steps and the test part."""
        lines = [
            line
            for line in self.history()
            if line["step"] <= step
            and not line.keys() & {"test_accuracy", "test_loss"}
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        files.replace_file(self.log, text)
        return lines

    def read_config(self) -> TrainConfig:
        if not os.path.exists(self.config):
            raise UserError(
                f"{self.path} is not a run folder: config.json is missing"
            )
        what = f"{self.config} is not the configuration of a run"
        with explained(what, UserError):
            return TrainConfig.from_json(files.read_json(self.config))

    def kept(self, config: TrainConfig) -> TrainConfig:
        """`config` with what the machine decided when the run here began."""
        if not os.path.isfile(self.config):
            return config
        before = self.read_config()
        auto = [x for x in AUTO if getattr(config, x) == "auto"]
        kept: dict[str, Any] = {x: getattr(before, x) for x in auto}
        # the oldest runs took PyTorch's
        threads = before.threads or torch.get_num_threads()
        return replace(config, **{"threads": config.threads or threads} | kept)

    def finished(self, config: TrainConfig) -> dict[str, Any] | None:
        """The result, None if there is none yet. UserError: it is damaged."""
        if not (os.path.isfile(self.result) and os.path.isfile(self.weights)):
            return None
        self.check_same(config)
        try:
            result = results.read_file(self.result)
        except UserError as error:
            raise UserError(
                f"{error}; delete {self.result.name}, and the same run writes "
                "it again"
            ) from None
        return result if result["status"] == "finished" else None

    def history(self) -> list[dict[str, Any]]:
        """The log's lines, up to one that a crash cut short."""
        if not os.path.exists(self.log):
            return []
        lines = []
        for text in self.log.read_text(errors="replace").splitlines():
            try:
                lines.append(json.loads(text))
            except ValueError:
                break
        return lines


def is_foreign(config: Path) -> bool:
    """Whether another program wrote it; a damaged one counts as a run's."""
    try:
        return "recipe" not in files.read_json(config)
    except UserError:
        return False
