"""What the weights of a run reach, measured during the run and at its end."""

from collections.abc import Callable, Iterable, Iterator

from torch import Tensor, nn

from vitedu.data import Source
from vitedu.evaluate import Evaluation, accuracy
from vitedu.train.processes import ALONE, Processes
from vitedu.train.state import TrainState


def evaluate(
    state: TrainState,
    source: Source,
    should_stop: Callable[[], bool],
    processes: Processes = ALONE,
    model: nn.Module | None = None,
) -> Evaluation | None:
    """Float32 accuracy of the weights that would be the result now, or `model`.

    The loss is the one that is trained on, without label smoothing. Each
    process measures its share. None if `should_stop` ended it before all of
    `source` was seen.
    """
    if len(source) < processes.count:
        processes = ALONE  # a share would be empty: each sees all
    # as many images at a time as fit where learning does
    config, count = state.config, processes.count
    size = 2 * (config.micro_batch_size or -(-config.batch_size // count))
    batches = processes.share_of(source).batches(
        epoch=0, seed=0, batch_size=size * count
    )
    measured_model, trained = model or state.network, None
    if model is None and state.ema is not None:
        trained = swap_weights(measured_model, state.ema.average)
    measured = accuracy(
        measured_model, until(batches, should_stop), loss=state.plain_loss
    )
    if trained is not None:
        swap_weights(measured_model, trained)
    correct, loss_sum, num_images, unanswered = processes.total(
        [*measured[:3], measured.num_unanswered]
    )
    measured = Evaluation(
        int(correct),
        float(loss_sum),
        int(num_images),
        measured.loss_name,
        int(unanswered),
    )
    return measured if measured.num_images == len(source) else None


def until(
    batches: Iterable[tuple[Tensor, Tensor]], should_stop: Callable[[], bool]
) -> Iterator[tuple[Tensor, Tensor]]:
    """`batches`, until `should_stop` says so between two of them."""
    for number, batch in enumerate(batches):
        if number and should_stop():
            return
        yield batch


def swap_weights(
    model: nn.Module, weights: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Put `weights` into `model`; a copy of those it had."""
    before = {name: x.clone() for name, x in model.state_dict().items()}
    model.load_state_dict(weights)
    return before
