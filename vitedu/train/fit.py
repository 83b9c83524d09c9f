"""`fit`: a configuration in, a trained model out."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vitedu import results
from vitedu.data.augment import Augment, mix
from vitedu.data.dataset import changes
from vitedu.data.feed.pictures import ImageSource, PictureChange
from vitedu.data.feed.source import (
    Batches,
    Source,
    explain_killed_workers,
    restore,
    states,
)
from vitedu.errors import UserError, reason, warn
from vitedu.evaluate import Evaluation
from vitedu.evaluate.losses import Loss
from vitedu.files import user_path
from vitedu.model.classifier import LossName
from vitedu.model.network import Network
from vitedu.train.checkpoint import Saver
from vitedu.train.config import TrainConfig, as_settings
from vitedu.train.data import Sources, open_data, open_sources
from vitedu.train.journal import VALIDATED, Journal, Progress, Run, evaluate
from vitedu.train.precision import concrete
from vitedu.train.processes import SINGLE, Processes, from_environment
from vitedu.train.processes.device import (
    choose_threads,
    cpu_threads,
    find_device,
)
from vitedu.train.run_folder import AUTO, OtherRun, RunFolder
from vitedu.train.start import (
    NOTHING,
    Given,
    build_state,
    check_room,
    check_start,
    into_settings,
    start_of,
)
from vitedu.train.step import TrainState, step_seed, train_step
from vitedu.train.watch.bar import Bar, open_bar
from vitedu.train.watch.interrupt import Interrupt, ctrl_c
from vitedu.train.watch.notes import is_watched, log, notes_aloud
from vitedu.weights import checkpoint_of, load, write_weights


class Start(NamedTuple):
    """What `on_start` gets before the first step."""

    config: TrainConfig  # with the device, precision and threads that are used
    sources: Sources
    state: TrainState  # goes on with the run: `state.step`
    num_steps: int


@explain_killed_workers()
def fit(
    config: TrainConfig,
    out: str | PathLike[str] | None = None,
    *,
    model: Network | None = None,
    train: Any = None,
    validation: Any = None,
    test: Any = None,
    loss: LossName | Loss | None = None,
    augment: Augment | PictureChange | None = None,
    on_start: Callable[[Start], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    progress: bool = True,
    command: str = "vitedu.train.fit",
    notes: Sequence[str] = (),
) -> Run:
    """Train as `config` says; go on with the run in the folder `out`, if any.

    >>> fit(TrainConfig(epochs=3), model=model, train=(images, labels))

    A finished run is not repeated: you get what its folder contains. Without
    `out` nothing is written. The model of the result is in eval mode.

    `model` is one that you have, on any device, and is trained itself. Its
    configuration and preprocessing replace the config's; its frozen weights
    (`requires_grad=False`) stay as they are.

    `train`, `validation` and `test` are anything that `vitedu.data.as_source`
    takes: a folder, arrays, a torch Dataset, a DataLoader. They replace
    `config.dataset`. Without `test` a share of `train` is held out to test on,
    which needs labels that are known without reading the pictures (`targets`);
    `validation` may be the share of `train` to choose by. If the data do not
    name their classes, they get the names of the `model`.

    `loss(logits, labels)` returns a sum over the images of a batch, not a mean,
    of logits (b, classes) in float32; labels are int64 (b,), or (b, classes)
    with mixup. `augment(picture)` changes a training picture (pillow's) before
    it is resized; `config.augment` is then off. The name of a loss ("sigmoid"),
    an `Augment`, a path and a share are settings as in `config`. Any other
    object is recorded by its name, and has to be passed again when the run goes
    on.

    `on_start` is called before the first step, `on_progress` with each line of
    the log. `should_stop` is called after every step and between the batches of
    an evaluation: if it returns True, state and weights are saved as they are,
    and the same call goes on from there later. `notes` are sentences of yours
    that log and result begin with.

    Notebooks and terminals show a bar and the notes, unless `progress=False`;
    the logger "vitedu" has the notes anyway, at level INFO. Ctrl-C ends a run
    with `out` after its step: it is saved, KeyboardInterrupt is raised, and the
    same line goes on. A run on pictures has a page, `run.report`.

    Processes started by `torchrun` share every batch of `batch_size` images,
    and every evaluation; only the first one writes and reports.

    UserError: the configuration, the data and the model do not fit, the folder
    has another run in it, or the loss is not finite; the last good state is
    then in the folder.
    """
    # The processes and their device, and the run as its folder describes it.
    processes = from_environment()
    device = processes.device(find_device(config.device))
    given = Given(model, train, validation, test, loss, augment)
    config, given = into_settings(config, given)
    folder = None if out is None else RunFolder(out)
    gpus = [device] if device.type == "cuda" else []
    keyboard = ctrl_c() if folder else Interrupt(())
    with (
        notes_aloud(progress and processes.is_first),
        processes.connected(device),
        ExitStack() as stack,
    ):
        # The caller's random state is left as it was.
        stack.enter_context(torch.random.fork_rng(gpus))
        stack.callback(restore, states())

        # What the machine decides, or decided when the run began.
        if folder is not None:
            config = processes.on_rank0(lambda: folder.kept(config))
        auto = [x for x in AUTO if getattr(config, x) == "auto"]
        config = concrete(config, device)

        # A run that is finished is returned.
        start = folder and processes.on_rank0(
            lambda: start_of(config, given, folder.weights)
        )
        run = folder and processes.on_rank0(
            lambda: finished_run(folder, config, given, start)
        )
        if run:
            log.info("the run in %s was already finished", out)
            return returned(run, model, device)

        # What is cheap to refuse comes before the data, which may take minutes.
        if config.given != given.names:
            raise UserError(
                f"this run was given {config.given} in Python, which can't be "
                "stored; resume from Python, and give vitedu.train.fit the same"
            )
        threads = config.threads or processes.on_rank0(
            lambda: choose_threads(config, torch.get_num_threads())
        )
        config = replace(config, threads=threads)
        stack.enter_context(cpu_threads(threads))
        if folder is not None:
            processes.on_rank0(lambda: folder.check(config))
        if model is None:
            check_room(config, device)

        # The data.
        sources = processes.rank0_first(
            lambda: open_sources(config, device, given)
        )
        if sources.validation is None and (
            config.keep == "best" or config.patience is not None
        ):
            setting = "keep=best"
            if config.keep != "best":
                setting = f"patience={config.patience}"
            raise UserError(
                f"{setting} needs validation data to choose by; hold some out "
                "of the training data with validation=0.1"
            )

        is_read = isinstance(sources.train, ImageSource)
        workers = sources.train.num_workers if is_read else 0
        config = replace(config, num_workers=workers)
        chosen = {x: getattr(config, x) for x in auto}
        chosen = {x: y for x, y in chosen.items() if y not in ("fp32", 0)}
        if chosen:
            words = as_settings(chosen)
            notes = [*notes, f"chosen for this machine: {words}"]

        # The model with its optimizer, schedule, precision and loss.
        state = build_state(config, sources.train, device, processes, given)
        state.data, state.start = sources.dataset.record(), start
        state.notes = [*notes, *state.notes]
        loop = Loop(state, sources, folder, processes, on_progress)

        # The folder is ours from here on; the run in it goes on.
        if folder is not None:
            processes.on_rank0(lambda: stack.enter_context(folder.held(config)))
        loop.resume()

        # Training: step, measure, save, validate.
        if on_start is not None and processes.is_first:
            on_start(Start(config, sources, state, state.num_steps))
        stops = [keyboard.is_requested, should_stop or (lambda: False)]
        if progress and processes.is_first and is_watched():
            bar = Bar(state, open_bar(state.num_steps, state.step))
            stack.callback(bar.close)
            loop.journal.watchers.append(bar.measured)
            stops.insert(0, bar.stepped)
        stack.enter_context(keyboard)
        loop.run(lambda: any([stop() for stop in stops]))

        # The test part, the weights and the result.
        run = loop.finish(command)
    if folder is not None and processes.is_first and config.needs_labels:
        draw_page(run, folder, sources.test, should_stop)
    is_stopped = run.result["status"] == "interrupted"
    if is_stopped and keyboard.is_requested():
        raise KeyboardInterrupt(
            f"stopped at step {state.step:,} of {state.num_steps:,} and saved "
            f"in {out}; the same line goes on"
        )
    return run


def draw_page(
    run: Run,
    folder: RunFolder,
    test: Source,
    should_stop: Callable[[], bool] | None = None,
) -> None:
    """Write report.html if the test part has pictures; an error is a warning.

    Arrays have one if it is asked for (`vitedu report`). A run that was stopped
    doesn't make its user wait for the test pictures.
    """
    folder.report.unlink(missing_ok=True)  # of the run before it was finished
    if not isinstance(test, ImageSource):
        return
    try:
        from vitedu.figures.report.page import write_report

        shown: Source | str = test
        if run.result["status"] == "interrupted":
            shown = "the run was stopped; `vitedu report RUN` looks at them"
        write_report(run, folder, shown, should_stop or (lambda: False))
    except Exception as error:
        warn(f"{folder.report.name} could not be drawn: {reason(error)}")


def finished_run(
    folder: RunFolder,
    config: TrainConfig,
    given: Given = NOTHING,
    start: str | None = None,
) -> Run | None:
    """None if it isn't finished. OtherRun: its data or weights have changed."""
    result = folder.finished(config)
    if result is None:
        return None
    check_start(folder.path, config, result.get("start"), start)
    # data that have moved away, or were given in Python, are not asked for
    is_here = user_path(config.data or config.dataset).exists()
    if given.has_data or (is_here and config.given == given.names):
        now = open_data(config, given).record()
        if changed := changes(result["dataset"], now):
            raise OtherRun(
                f"{folder.path} contains a finished run on other data: "
                f"{changed}; train in another folder"
            )
    return Run(result, folder.history(), load(folder.weights), folder)


def returned(run: Run, model: Network | None, device: torch.device) -> Run:
    if model is None:
        run.model.to(device)
        return run
    model.load_state_dict(run.model.state_dict())
    model.usage = run.model.usage
    return run._replace(model=model.to(device).eval())


class Loop:
    def __init__(
        self,
        state: TrainState,
        sources: Sources,
        folder: RunFolder | None = None,
        processes: Processes = SINGLE,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.state = state
        self.config = state.config
        self.sources = sources
        self.folder = folder
        self.processes = processes
        self.journal = Journal(state, sources, folder, processes, on_progress)
        self.saver = Saver(state, folder, processes)
        self.data_wait = DataWait(state.device)
        self.should_stop: Callable[[], bool] = lambda: False
        self.stopped = False

    def resume(self) -> None:
        self.journal.seconds, self.journal.pending = self.saver.load()
        self.journal.resumed = self.journal.seconds
        if folder := self.folder:
            step = self.state.step or -1
            self.journal.history = self.processes.on_rank0(
                lambda: folder.rewind(step)
            )

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Step until the end, or until `should_stop` on any process."""
        state, config, total = self.state, self.config, self.processes.total
        self.should_stop = lambda: total([should_stop()])[0] > 0
        for note in (*self.sources.dataset.notes, *state.notes):
            self.journal.note(note)
        self.validate()  # a run may have been stopped before it did
        while not (self.is_over or self.stopped):
            epoch, start = divmod(state.step, state.epoch_steps)
            batches = self.processes.batches(
                self.sources.train,
                epoch=epoch,
                seed=config.seed,
                batch_size=config.batch_size,
                start=start,
            )
            for batch in self.data_wait.timed(batches):
                self.update(batch)
                if self.is_over or self.stopped:
                    break
        if self.is_over and not state.is_done:
            self.journal.note(
                f"the run ended at step {state.step:,} of {state.num_steps:,}, "
                f"since patience={config.patience} epochs brought no better "
                "validation accuracy; the learning rate was that of the whole "
                "schedule"
            )

    @property
    def is_over(self) -> bool:
        patience = self.config.patience
        has_stalled = patience and self.journal.has_stalled(patience)
        return self.state.is_done or bool(has_stalled)

    def update(self, batch: tuple[Tensor, Tensor]) -> None:
        """One step, and what is due after; only that waits for the device."""
        state, config = self.state, self.config
        seed = step_seed(config.seed, state.step, self.processes.rank)
        torch.manual_seed(seed)
        batch = mix(
            *batch,
            config.model.num_classes,
            mixup=config.mixup,
            cutmix=config.cutmix,
            seed=seed,
        )
        if not state.model.training:  # a callback looked at its answers
            state.model.train()
        result = train_step(state, batch, self.processes, state.num_images)
        self.journal.pending.append(result)
        if state.is_done or state.step % config.log_every == 0:
            totals = self.journal.totals()
            self.saver.check_loss(totals)
            self.journal.measure(totals, self.data_wait.take())
        self.stopped = self.should_stop()
        save_steps = config.save_every or state.epoch_steps
        if state.is_done or self.stopped or state.step % save_steps == 0:
            self.save()
        if not self.stopped:
            self.validate()

    def save(self) -> None:
        self.saver.save(self.journal.seconds, self.journal.totals())

    def validate(self) -> None:
        state, source = self.state, self.sources.validation
        ends_epoch = state.is_done or state.step % state.epoch_steps == 0
        if source is None or state.step == 0 or not ends_epoch:
            return
        if self.journal.last(*VALIDATED)["step"] == state.step:
            return
        self.saver.check_finite({"model": state.result_weights()})
        measured = self.evaluate(source)
        if measured is None:
            self.save()
            return
        highest = self.journal.best().get("validation_accuracy", -1.0)
        if self.config.keep == "best" and measured.accuracy >= highest:
            self.saver.keep_best()  # before the line that calls them best
        numbers = self.journal.numbers("validation", measured)
        self.journal.record(self.journal.place() | numbers)

    def evaluate(
        self, source: Any, model: Network | None = None
    ) -> Evaluation | None:
        """Measure `model` or the result so far; None if it was stopped."""
        with self.journal.clock_stopped():
            measured = evaluate(
                self.state, source, self.should_stop, self.processes, model
            )
        self.stopped = measured is None
        return measured

    def finish(self, command: str) -> Run:
        is_finished = self.is_over and not self.stopped
        model, test = self.saver.final_model(is_finished), None
        if is_finished:
            test = self.evaluate(self.sources.test, model)
        result = self.journal.conclude(command, test)
        if folder := self.folder:

            def write() -> None:
                write_weights(folder.weights, checkpoint_of(model))
                results.write(folder.result, result)

            self.processes.on_rank0(write)
        return Run(result, self.journal.history, model, self.folder)


class DataWait:
    """Seconds in which a step waited for its batch.

    On CUDA, where this process runs ahead of the device, it is device time:
    from the end of all earlier work to the batch's arrival, between two events
    that only `take` reads, so no step waits for them.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.waits: list[tuple[Any, Any]] = []  # from when to when

    def timed(self, batches: Batches) -> Batches:
        asked = self.now()
        for batch in batches:
            self.waits.append((asked, self.now()))
            yield batch
            asked = self.now()

    def now(self) -> "float | torch.cuda.Event":
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def take(self) -> float:
        seconds = 0.0
        for asked, came in self.waits:
            if isinstance(came, float):
                seconds += came - asked
            else:
                came.synchronize()
                seconds += asked.elapsed_time(came) / 1000
        self.waits = []
        return seconds
