"""The loop: data, step, measure, save. vitedu has no other loop of updates."""

from collections.abc import Callable

import torch
from torch import Tensor

from vitedu.data import Source
from vitedu.data.augment import mix
from vitedu.evaluate import Evaluation
from vitedu.model.network import Network
from vitedu.train.evaluation import evaluate
from vitedu.train.folder import RunFolder
from vitedu.train.journal import Journal, Progress, Run
from vitedu.train.processes import ALONE, Processes
from vitedu.train.saving import Saver
from vitedu.train.sources import Sources
from vitedu.train.state import TrainState
from vitedu.train.step import step_seed


class Loop:
    """A run from first to last step; `state` and `journal` grow with it."""

    def __init__(
        self,
        state: TrainState,
        sources: Sources,
        *,
        folder: RunFolder | None = None,
        processes: Processes = ALONE,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.state = state
        self.config = state.config
        self.sources = sources
        self.folder = folder
        self.processes = processes
        self.journal = Journal(state, sources, folder, processes, on_progress)
        self.saver = Saver(state, folder, processes)
        self.should_stop: Callable[[], bool] = lambda: False
        self.stopped = False

    def resume(self) -> None:
        """Go on where the folder's run was stopped, if there is one in it."""
        self.journal.seconds, self.journal.pending = self.saver.load()
        self.journal.resumed = self.journal.seconds
        if folder := self.folder:
            step = self.state.step or -1
            self.journal.history = self.processes.first(
                lambda: folder.rewind(step)
            )

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Step until the last step, or until `should_stop` on any process."""
        state, config, total = self.state, self.config, self.processes.total
        self.should_stop = lambda: total([should_stop()])[0] > 0
        for note in (*self.sources.notes, *state.notes):
            self.journal.note(note)
        self.validate()  # a run may have been stopped before it did
        share = self.processes.share_of(self.sources.train)
        while not (state.is_done or self.stopped):
            epoch, start = divmod(state.step, state.epoch_steps)
            batches = share.batches(
                epoch=epoch,
                seed=config.seed,
                batch_size=config.batch_size,
                start=start,
            )
            for batch in self.journal.data_wait.watched(batches):
                self.update(batch)
                if state.is_done or self.stopped:
                    break

    def update(self, batch: tuple[Tensor, Tensor]) -> None:
        """One step and what is due after it; only that waits for the device."""
        state, config = self.state, self.config
        seed = step_seed(config.seed, state.step, self.processes.number)
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
        result = self.processes.step(state, batch, state.num_images)
        self.journal.pending.append(result)
        if state.is_done or state.step % config.log_every == 0:
            self.measure()
        self.stopped = self.should_stop()
        save_steps = config.save_every or state.epoch_steps
        if state.is_done or self.stopped or state.step % save_steps == 0:
            self.save()
        if not self.stopped:
            self.validate()

    def measure(self) -> None:
        """Log the mean over the steps since the last line."""
        totals = self.journal.totals()
        self.saver.check_loss(totals)
        self.journal.measure(totals)

    def save(self) -> None:
        """Write what the next step depends on."""
        self.saver.save(self.journal.seconds, self.journal.totals())

    def validate(self) -> None:
        """Measure the held-out part where an epoch ends, unless the log has it.

        With keep="best" the weights are kept if they do better than any before.
        They are written before the line: what the log says is best is there.
        """
        state, source = self.state, self.sources.validation
        ends_epoch = state.is_done or state.step % state.epoch_steps == 0
        if source is None or state.step == 0 or not ends_epoch:
            return
        if self.journal.last("validation_accuracy")["step"] == state.step:
            return
        self.saver.finite_weights()  # what they answer would mean nothing
        measured = self.evaluate(source)
        if measured is None:
            self.save()
            return
        best = self.journal.best()
        if self.config.keep == "best" and (
            best is None or measured.accuracy > best["validation_accuracy"]
        ):
            self.saver.keep_best()
        self.journal.validated(measured)

    def evaluate(
        self, source: Source, model: Network | None = None
    ) -> Evaluation | None:
        """What the result or `model` reaches now; not timed. None: stopped."""
        with self.journal.clock_stopped():
            measured = evaluate(
                self.state, source, self.should_stop, self.processes, model
            )
        self.stopped = measured is None
        return measured

    def finish(self, command: str) -> Run:
        """The result of the run, measured and written.

        A run that was stopped can be loaded, and goes on from its checkpoint.
        Its weights are written as they are, averaged if `config.ema`; if it was
        stopped while the test part was measured, they are already those of the
        result.
        """
        is_finished = self.state.is_done and not self.stopped
        model, test = self.saver.final_model(is_finished), None
        if is_finished:
            test = self.evaluate(self.sources.test, model)
        result = self.journal.result(command, test)
        self.saver.write_weights(model)
        if folder := self.folder:
            self.processes.first(lambda: folder.write_result(result))
        return Run(result, self.journal.history, model)
