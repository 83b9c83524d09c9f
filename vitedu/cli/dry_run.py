"""`vitedu train --dry-run`: what a run would need; its folder isn't touched.

The data are opened and counted, memory is predicted, and some steps are taken
with a copy of the weights that is thrown away.
"""

import statistics
import time
from dataclasses import replace
from typing import Any

import torch

from vitedu.bench.turns import wait
from vitedu.cli.announcement import announcement, counted
from vitedu.cli.answer import Answer
from vitedu.cli.forecast import forecast
from vitedu.cli.plan import Plan
from vitedu.cli.room import added_words, fits, made_to_fit, room_for
from vitedu.cli.talk import say
from vitedu.data import Source
from vitedu.data.image_source import Epoch, ImageSource
from vitedu.errors import UserError, available_memory
from vitedu.train import Progress, Start, TrainConfig, find_device, fit
from vitedu.train.processes import Processes, from_environment
from vitedu.train.run_folder import RunFolder
from vitedu.train.sources import Sources, open_sources
from vitedu.train.start import build_model, check_room

WARM_UP = 3  # steps that are taken but not timed; the first may compile
MEASURED = 10
SAMPLE = 200  # pictures that are read to see whether they can be


def dry_run(plan: Plan, *, fresh: bool = False) -> Answer:
    """Whether memory will do, how long it takes here, and what the data are.

    With `fresh`, the run would begin anew, whatever is in its folder.
    UserError: what the run itself would say before its first step.
    """
    processes = from_environment()
    device = processes.device(find_device(plan.config.device))
    values: dict[str, Any] = {"dry_run": True, "out": str(plan.out)}
    with processes.connected(device):
        done = 0 if fresh else processes.on_rank0(lambda: steps_done(plan))
        if done is None:
            text = f"the run in {plan.out} is finished; nothing would be done"
            return Answer(values | {"finished": True}, text)
        values["memory"] = processes.on_rank0(
            lambda: memory_for(plan.config, device, processes)
        )
        if values["memory"]["enough"] is False:
            # the steps would fail, or push everything else out of memory
            sources = processes.rank0_first(
                lambda: open_sources(plan.config, device)
            )
            values["data"] = look_at(sources, plan.config)
            check_network(plan.config, device)
        else:
            values |= tried(plan, device, done)
    return Answer(values, forecast(values) if processes.is_first else "")


def steps_done(plan: Plan) -> int | None:
    """The last step that the run in the folder has logged; None: it is done.

    UserError: the folder is another run's.
    """
    folder = RunFolder(plan.out)
    if not folder.path.exists():  # to look into it would make it
        return 0
    if folder.finished(plan.config) is not None:
        return None
    folder.check(plan.config)
    return max([0, *(line["step"] for line in folder.history())])


def tried(plan: Plan, device: torch.device, steps_done: int) -> dict[str, Any]:
    """Take some steps: what the data are, and how long the run takes.

    Of several processes only the first one knows.
    """
    trial = Trial(plan, device)
    try:
        fit(
            replace(plan.config, log_every=1),
            on_start=trial.start,
            on_progress=trial.measured,
            should_stop=trial.stepped,
        )
    except torch.cuda.OutOfMemoryError:
        raise UserError(
            f"a step doesn't fit into the memory of {device}, although the "
            "prediction said so; take half as many images at a time "
            "(micro_batch_size=)"
        ) from None
    if trial.begun is None:
        return {}
    expected = trial.expected(steps_done)
    if device.type == "cuda":
        expected["peak_memory"] = torch.cuda.max_memory_allocated(device)
    return {"data": trial.data, "time": expected}


def check_network(config: TrainConfig, device: torch.device) -> None:
    """UserError: the run would not begin, since its model can't be made."""
    check_room(config, device)
    if config.weights is not None:
        build_model(config)


class Trial:
    """What `fit` calls: it looks at the data, times steps, and stops."""

    def __init__(self, plan: Plan, device: torch.device) -> None:
        self.plan = plan
        self.device = device
        self.begun: Start | None = None
        self.data: dict[str, Any] = {}
        self.step = 0
        self.since = 0.0
        self.seconds: list[float] = []  # of each step
        self.waits: list[float] = []  # share of each that went by for data

    def start(self, start: Start) -> None:
        """Announce the run, and look at its data."""
        say(announcement(start, self.plan))
        self.begun = start
        self.data = look_at(start.sources, start.config)
        steps = min(WARM_UP + MEASURED, start.num_steps)
        say(f"taking {counted(steps, 'step')} to time them")
        self.since = time.perf_counter()

    def measured(self, progress: Progress) -> None:
        """Note how long the step waited for data."""
        if "data_wait" in progress.line:
            self.waits.append(progress.line["data_wait"])

    def stepped(self) -> bool:
        """Time a step; whether these are enough.

        Called between the batches of an evaluation too, which isn't timed.
        """
        if self.begun is None:
            return False
        state = self.begun.state
        wait(self.device)
        now = time.perf_counter()
        if state.step > self.step:
            self.seconds.append(now - self.since)
        self.step, self.since = state.step, now
        return state.is_done or len(self.seconds) == WARM_UP + MEASURED

    def expected(self, steps_done: int) -> dict[str, Any]:
        """How long the run takes from here on."""
        assert self.begun is not None
        config, sources = self.begun.config, self.begun.sources
        # a shorter run has nothing but its warm-up
        timed = self.seconds[WARM_UP:] or self.seconds[-1:]
        waits = self.waits[WARM_UP:] or self.waits[-1:]
        step = statistics.median(timed)
        steps = max(self.begun.num_steps - steps_done, 0)
        # learning from an image is three times the work of looking at it
        image = step / config.batch_size / 3
        num_images = len(sources.test)
        if sources.validation is not None:
            epochs = -(-steps // self.begun.state.epoch_steps)
            num_images += epochs * len(sources.validation)
        return {
            "steps": steps,
            "step_seconds": step,
            "measured_steps": len(timed),
            "training_seconds": steps * step,
            "images_per_second": config.batch_size / step,
            "data_wait": statistics.mean(waits),
            "evaluated_images": num_images,
            "evaluation_seconds": num_images * image,
        }


def memory_for(
    config: TrainConfig, device: torch.device, processes: Processes
) -> dict[str, Any]:
    """What a step needs, what there is, and what to add if it isn't enough."""
    # of a GPU each process has its own
    num_bytes = available_memory() // processes.world_size
    if device.type == "cuda":
        num_bytes, _ = torch.cuda.mem_get_info(device)
    values: dict[str, Any] = {"available": num_bytes, "enough": None}
    try:
        room = room_for(config, processes.world_size)
        values["needed"] = room._asdict()
        values["enough"] = fits(config, num_bytes, processes.world_size)
        if not values["enough"]:
            other = made_to_fit(config, num_bytes, processes.world_size)
            values["add"] = other and added_words(other, config)
    except UserError as error:
        values["unknown"] = str(error)
    return values


def look_at(sources: Sources, config: TrainConfig) -> dict[str, Any]:
    """Classes, how many images each has, and how many can't be read."""
    parts = {
        "train": sources.train,
        "validation": sources.validation,
        "test": sources.test,
    }
    sizes = {name: len(x) for name, x in parts.items() if x is not None}
    values: dict[str, Any] = {
        "name": sources.dataset.name,
        "num_classes": sources.train.num_classes,
        **{f"num_{name}": size for name, size in sizes.items()},
        "left_out": list(sources.skipped),
    }
    if (labels := labels_of(sources.train)) is not None:
        counts = torch.bincount(labels, minlength=sources.train.num_classes)
        names = sources.train.class_names
        for what, row in (
            ("smallest", int(counts.argmin())),
            ("largest", int(counts.argmax())),
        ):
            name = names[row] if row < len(names) else str(row)
            values[what] = {"class": name, "count": int(counts[row])}
    if isinstance(sources.train, ImageSource):
        values["sample"] = sample(sources.train, config.seed)
    return values


def labels_of(source: Source) -> torch.Tensor | None:
    """The labels of all images; None: only reading them would tell."""
    owner = getattr(source, "pictures", source)
    labels = getattr(owner, "labels", None)
    return None if labels is None else torch.as_tensor(labels).cpu()


def sample(source: ImageSource, seed: int) -> dict[str, Any]:
    """Read some pictures at even distances; those that can't be read."""
    epoch, count = Epoch(source, 0, seed), min(SAMPLE, len(source))
    read = [epoch[[row * len(source) // count]] for row in range(count)]
    wrong = [str(each) for each in read if isinstance(each, UserError)]
    return {"count": count, "unreadable": wrong}
