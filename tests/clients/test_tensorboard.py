"""TensorBoard: a callback of four lines."""

from torch.testing import assert_close

import vitedu
from tests.clients.marks import client

pytestmark = client("tensorboard")


def test_losses_and_weights_are_written_during_a_run(tmp_path):
    from tensorboard.backend.event_processing import event_accumulator
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path))

    def log(progress):
        for name, value in progress.line.items():
            if isinstance(value, float):
                writer.add_scalar(name, value, progress.step)
        writer.add_histogram("head", progress.model.head.weight, progress.step)

    config = vitedu.train.recipe("digits", "smoke")
    run = vitedu.train.fit(config, on_progress=log)
    writer.close()
    events = event_accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    for name in ("loss", "lr", "train_accuracy", "test_accuracy"):
        assert_close(
            [event.value for event in events.Scalars(name)],
            [line[name] for line in run.history if name in line],
            rtol=1e-6,  # written as float32
            atol=0,
        )
    last = events.Histograms("head")[-1].histogram_value
    assert last.num == run.model.head.weight.numel()
