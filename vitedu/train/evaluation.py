"""What the weights of a run reach, measured in its course and at its end."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor, nn

from vitedu.data import Source
from vitedu.evaluate import Evaluation, accuracy
from vitedu.train.distributed import ALONE, World, bare
from vitedu.train.step import TrainState


def evaluate(
    state: TrainState,
    source: Source,
    should_stop: Callable[[], bool],
    world: World = ALONE,
    model: nn.Module | None = None,
) -> Evaluation | None:
    """Accuracy in float32 of the weights that would be the result now, or of `model`.

    The loss is the one that is trained on, without label smoothing. Of several
    processes each sees its share. None if `should_stop` said so before all of `source`
    was seen.
    """
    if len(source) < world.size:
        world = ALONE  # a share would be empty: each sees all
    # as many images at a time as fit where learning does
    size = 2 * (state.config.micro_batch_size or state.config.batch_size)
    batches = source.batches(
        epoch=0,
        seed=0,
        batch_size=size * world.size,
        rank=world.rank,
        world=world.size,
    )
    own, measured_model = None, model or bare(state.model)
    if model is None and state.ema is not None:
        own = swap_weights(measured_model, state.ema.average)
    measured = accuracy(
        measured_model, until(batches, should_stop), loss=state.plain_loss
    )
    if own is not None:
        swap_weights(measured_model, own)
    if world.size > 1:
        correct, loss_sum, num_images = world.sum(measured[:3])
        measured = Evaluation(
            int(correct), loss_sum, int(num_images), measured.loss_name
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
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(weights)
    return own


def as_metrics(
    part: str, accuracy_percent: float, loss: float
) -> dict[str, Any]:
    """Accuracy and loss of one part of the data as metrics of a result."""
    return {
        f"{part}_accuracy": {
            "value": accuracy_percent,
            "unit": "percent",
            "per_seed": [accuracy_percent],
        },
        f"{part}_loss": {"value": loss, "unit": "nats", "per_seed": [loss]},
    }
