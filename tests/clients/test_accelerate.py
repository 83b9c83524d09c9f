"""accelerate: the usual loop, on whatever device there is."""

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from tests.clients.marks import client

pytestmark = client("accelerate")


def test_its_loop_trains_and_gives_the_model_back(tiny, batches, tmp_path):
    import accelerate

    images, labels = map(torch.cat, zip(*batches, strict=True))
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(
        tiny.train(),
        torch.optim.AdamW(tiny.parameters(), lr=3e-3),
        DataLoader(TensorDataset(images, labels), batch_size=8),
    )
    losses = []
    for _ in range(8):
        losses.append(0.0)
        for x, y in loader:
            loss = cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1)
            optimizer.step()
            optimizer.zero_grad()
            losses[-1] += loss.item()
    assert losses[-1] < losses[0] / 4
    accelerator.save_state(tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    assert accelerator.unwrap_model(model) is tiny
