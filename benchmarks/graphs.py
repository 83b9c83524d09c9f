"""Training passes of small networks on a GPU, without the launches."""

import sys
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from vitedu.train.fit import Start


def replay(
    model: nn.Module,
    images: Tensor,
    context: AbstractContextManager[object] | None = None,
) -> None:
    """Record both passes of a batch like `images` once; training replays them.

    Kernels of a small network take less time than their launches, of which then
    two are left. What is computed stays the same; batches of another size, and
    evaluation, go the usual way. `context` is that of the forward pass. On a
    CPU nothing happens.
    """
    if images.device.type != "cuda":
        return
    plain = model.forward
    model.train()
    try:
        with context or nullcontext():
            expected = plain(images).detach()
            torch.set_autocast_cache_enabled(False)
            torch.cuda.make_graphed_callables(model, (images,))
            torch.set_autocast_cache_enabled(True)
            replayed = model.forward
            torch.testing.assert_close(
                replayed(images).detach(), expected, rtol=0.05, atol=0.05
            )
    except (RuntimeError, AssertionError) as error:
        print(f"passes aren't replayed: {error}", file=sys.stderr, flush=True)
        model.forward = plain
        return

    def forward(x: Tensor) -> Tensor:
        return replayed(x) if len(x) == len(images) else plain(x)

    model.forward = forward


def replay_steps(start: Start) -> None:
    """As `on_start` of `fit`: what it trains is replayed."""
    config, state = start.config, start.state
    shape = config.model.in_channels, *config.model.image_size
    images = torch.randn(config.batch_size, *shape, device=config.device)
    replay(state.model, images, state.precision.autocast())
