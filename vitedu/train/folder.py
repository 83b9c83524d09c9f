"""A run's folder: its files, who may write them, and whether it goes on."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from vitedu import results
from vitedu.errors import UserError, reason
from vitedu.fields import shown
from vitedu.files import (
    check_regular,
    list_folder,
    make_folder,
    read_json,
    replace_file,
    user_path,
)
from vitedu.train.config import TrainConfig
from vitedu.train.lock import FolderLock, FolderTaken
from vitedu.weights import Checkpoint, write_weights

# What a line of the log with the first of these numbers must have as well.
TOGETHER = {"loss": "wall_seconds", "validation_loss": "validation_accuracy"}
WORDS = ("note", "precision")  # all else in a line of the log is a number


class OtherRun(FolderTaken):
    """The run in the folder has other settings; `--fresh` puts it aside."""


class RunFolder:
    """The files of one run; whatever it writes goes through its folder.

    `config.json`, `log.jsonl` (a line per measurement), `checkpoint.pt`, with
    keep="best" `best.safetensors`, and when the run is done or stopped
    `model.safetensors` and `result.json`, whose status says which.

    While the folder is `held`, every write checks first that it is still the
    folder that was locked. FolderTaken: it was deleted or replaced.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = user_path(path)
        self.config = self.path / "config.json"
        self.log = self.path / "log.jsonl"
        self.checkpoint = self.path / "checkpoint.pt"
        self.best = self.path / "best.safetensors"
        self.weights = self.path / "model.safetensors"
        self.result = self.path / "result.json"
        self.lock = FolderLock(self.path)

    @contextmanager
    def held(self, config: TrainConfig) -> Iterator[None]:
        """`prepare`, and keep others out until the run or this process ends.

        FolderTaken: another one is training here, or what `prepare` says.
        """
        with self.lock:
            self.prepare(config)
            yield

    def check(self, config: TrainConfig) -> None:
        """What `held` would refuse, without making or writing anything."""
        if not is_missing(self.path):
            with self.lock:
                self._check_belongs(config)

    def prepare(self, config: TrainConfig) -> None:
        """Make the folder, or check that the run in it is this one.

        FolderTaken: it belongs to another run (what differs is named), or has
        other files in it. UserError: it cannot be written.
        """
        make_folder(self.path)
        self._check_belongs(config)
        for name in self._half_written():
            (self.path / name).unlink(missing_ok=True)
        self.write(self.config, json.dumps(config.to_json(), indent=2) + "\n")

    def _check_belongs(self, config: TrainConfig) -> None:
        """FolderTaken unless the folder is free or has the run of `config`."""
        if is_missing(self.config):
            self._check_nothing_else()
        else:
            self.check_same(config)

    def _check_nothing_else(self) -> None:
        """FolderTaken: there are files that a killed run wouldn't leave."""
        if set(list_folder(self.path)) - set(self._half_written()):
            raise FolderTaken(
                f"{self.path} is not a run folder: it has files, but no "
                "config.json; train in an empty or a new folder"
            )

    def _half_written(self) -> list[str]:
        """What a run leaves behind that is killed while it writes a file."""
        ours = [self.config, self.log, self.checkpoint, self.best]
        ours += [self.weights, self.result]
        ours += [self.path / "curves.png", self.path / "report.html"]
        begins = tuple(f"{file.name}." for file in ours)
        return [
            name
            for name in list_folder(self.path)
            if name.startswith(begins) and name.endswith(".part")
        ]

    # --- writing

    def write(
        self, path: Path, content: bytes | str | Callable[[BinaryIO], object]
    ) -> None:
        """Put `content` into a file of the run, whole or not at all."""
        self.lock.check()
        replace_file(path, content)

    def write_weights(self, path: Path, checkpoint: Checkpoint) -> None:
        """Write `self.weights` or `self.best`."""
        self.lock.check()
        write_weights(path, checkpoint)

    def write_result(self, result: dict[str, Any]) -> None:
        """Write `result.json`."""
        self.lock.check()
        results.write(self.result, result)

    def append(self, line: dict[str, Any]) -> None:
        """Add one measurement to the log."""
        self.lock.check()
        try:
            with open(self.log, "a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise UserError(
                f"cannot write {self.log}: {reason(error)}"
            ) from None

    def rewind(self, step: int) -> list[dict[str, Any]]:
        """Forget what the log says after `step`, and of the test part.

        Both will be computed again.
        """
        lines = [
            line
            for line in self.history(up_to=step)
            if "test_accuracy" not in line
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        self.write(self.log, text)
        return lines

    # --- reading

    def read_config(self) -> TrainConfig:
        """The configuration of the run. UserError: this is not a run folder."""
        if is_missing(self.config):
            raise FolderTaken(
                f"{self.path} is not a run folder: config.json is missing"
            )
        values = read_json(self.config)
        try:
            return TrainConfig.from_json(values)
        except UserError as error:
            raise UserError(
                f"{self.config} is not the configuration of a run: {error}"
            ) from None

    def finished(self, config: TrainConfig) -> dict[str, Any] | None:
        """The result, if the run is done.

        UserError: the run is another one than `config`'s, or the result is
        damaged.
        """
        # unlike Path.is_file, these are False too for what may not be looked at
        if not (os.path.isfile(self.result) and os.path.isfile(self.weights)):
            return None
        self.check_same(config)
        try:
            result = results.read_file(self.result)
            if result["status"] != "finished":
                return None
            if "test_accuracy" not in result["metrics"]:
                raise UserError(f"{self.result} lacks the test_accuracy")
        except UserError as error:
            raise UserError(
                f"{error}; delete {self.result.name}, and the same run writes "
                "it again"
            ) from None
        return result

    def history(self, up_to: int | None = None) -> list[dict[str, Any]]:
        """The log's lines; of steps up to `up_to`, if given.

        What follows a line that a crash cut short is left out.
        UserError: the log can't be read, or a whole line isn't one that a run
        writes.
        """
        if is_missing(self.log):
            return []
        check_regular(self.log)
        lines = []
        text = self.log.read_text(errors="replace")
        for number, each in enumerate(text.splitlines(), start=1):
            try:
                line = json.loads(each)
            except (ValueError, RecursionError):
                break
            check_line(line, f"{self.log}, line {number}")
            if up_to is None or line["step"] <= up_to:
                lines.append(line)
        return lines

    def set_aside(self) -> Path | None:
        """Rename the folder of a run to the first free `.1`, `.2`, …

        A damaged run can be renamed too, so its config.json need not be
        readable. None: there is nothing to rename. UserError: the folder isn't
        that of a run, a process is training in it, or it can't be renamed.
        """
        if is_missing(self.path) or not list_folder(self.path):
            return None
        name, number = self.path.name, 1
        if not name:
            raise FolderTaken(
                f"cannot rename {self.path}; train in another folder"
            )
        if is_missing(self.config):
            self._check_nothing_else()
        elif is_foreign(self.config):
            raise FolderTaken(
                f"{self.path} is not a run folder: its config.json describes "
                "something else; train in another folder"
            )
        while os.path.lexists(old := self.path.with_name(f"{name}.{number}")):
            number += 1
        with self.lock:
            try:
                self.path.rename(old)
            except OSError as error:
                raise UserError(
                    f"cannot rename {self.path}: {reason(error)}"
                ) from None
        return old

    def check_same(self, config: TrainConfig) -> None:
        """OtherRun naming the settings where the run here isn't `config`'s."""
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


def is_missing(path: Path) -> bool:
    """Whether surely nothing is there; what may not be looked at may be."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def is_foreign(config: Path) -> bool:
    """Whether a config.json is another program's; a damaged one is a run's."""
    try:
        return "recipe" not in read_json(config)
    except UserError:
        return False


def check_line(line: Any, where: str) -> None:
    """UserError unless `line` is one that a run writes into its log."""
    remedy = "delete this line and what follows it"
    if not isinstance(line, dict) or type(line.get("step")) is not int:
        raise UserError(f"{where}: a whole number as step is missing; {remedy}")
    if line["step"] < 0:
        raise UserError(f"{where}: step is {line['step']}; {remedy}")
    for name, value in line.items():
        if name not in WORDS and type(value) not in (int, float):
            raise UserError(
                f"{where}: {name} must be a number, got {shown(value)}; "
                f"{remedy}"
            )
    for name, other in TOGETHER.items():
        if name in line and other not in line:
            raise UserError(f"{where} has {name} but not {other}; {remedy}")


def differences(
    before: TrainConfig, now: TrainConfig
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that make two runs of `before` and `now`, as each has them."""
    old, new = dict(dotted(before.identity())), dict(dotted(now.identity()))
    names = [name for name in old | new if old.get(name) != new.get(name)]
    return (
        {name: old.get(name) for name in names},
        {name: new.get(name) for name in names},
    )


def as_settings(fields: dict[str, Any]) -> str:
    """Fields as they are set, in a sentence: "lr=0.1 and seed=0"."""
    return " and ".join(f"{name}={value}" for name, value in fields.items())


def dotted(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """{"a": {"b": 1}} as [("a.b", 1)]."""
    pairs = []
    for name, value in values.items():
        if isinstance(value, dict):
            pairs += dotted(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, value))
    return pairs
