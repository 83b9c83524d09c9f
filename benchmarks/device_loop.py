"""A plain training loop whose data are on the device, for small networks.

    train(model, images, labels, lr=4e-3, steps=2000, seed=0)

Images are uint8 (n, 3, h, w); each is moved by up to four pixels and flipped at
random, unless `moves=False`. A GPU gets every update as a graph, since a small
network's kernels would wait for the host.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from graphs import captured
from torch import Tensor, nn

from vitedu.plain import warmup_cosine
from vitedu.train.optimizer import parameter_groups

SHIFT, WATCHED = 4, 20


def normalised(images: Tensor) -> Tensor:
    """Bytes to values from -1 to 1."""
    return images.float() / 127.5 - 1


@torch.no_grad()
def right(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Percent right of uint8 images (n, 3, h, w) with labels (n,)."""
    parts = [model(normalised(x)).argmax(dim=1) for x in images.split(500)]
    return 100 * (torch.cat(parts) == labels).double().mean().item()


def moved(images: Tensor, moves: Tensor) -> Tensor:
    """Each image by its row (down, right, is flipped) of `moves` (b, 3)."""
    n, side = len(images), images.shape[-1]
    at = torch.arange(side, device=images.device).expand(n, -1)
    columns = torch.where(moves[:, 2:] > 0, side - 1 - at, at) + moves[:, 1:2]
    rows = (at + moves[:, :1]) * (side + 2 * SHIFT)
    places = (rows[:, :, None] + columns[:, None]).flatten(1)
    padded = F.pad(images, (SHIFT,) * 4).flatten(2)
    places = places[:, None].expand(-1, images.shape[1], -1)
    return padded.gather(2, places).unflatten(2, (side, side))


def draws(n: int, steps: int, batch: int, seed: int) -> tuple[Tensor, Tensor]:
    """For each step its images (b,), epoch after epoch, and moves (b, 3)."""
    generator = torch.Generator().manual_seed(seed)
    epochs = [
        torch.randperm(n, generator=generator)
        for _ in range(0, steps * batch, n)
    ]
    order = torch.cat(epochs)[: steps * batch].view(steps, batch)
    moves = [
        torch.randint(most, (steps, batch), generator=generator)
        for most in (2 * SHIFT + 1, 2 * SHIFT + 1, 2)
    ]
    return order, torch.stack(moves, dim=2)


def adamw(
    model: nn.Module, lr: Tensor, betas: tuple[float, float] = (0.9, 0.999)
) -> torch.optim.Optimizer:
    """The optimizer of training from scratch."""
    return torch.optim.AdamW(
        parameter_groups(model, weight_decay=0.05),
        lr=lr,
        betas=betas,
        fused=True,
        capturable=lr.is_cuda,
    )


def momentum(model: nn.Module, lr: Tensor) -> torch.optim.Optimizer:
    """That of fine-tuning, as in the paper."""
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, fused=True)


def train(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    lr: float,
    steps: int,
    seed: int,
    batch: int,
    watch: Callable[[int], None] | None = None,
    moves: bool = True,
    build: Callable[[nn.Module, Tensor], torch.optim.Optimizer] = adamw,
    precision: torch.dtype = torch.float32,
    warmup: float = 0.1,
    smoothing: float = 0.0,
    ema: float | None = None,
) -> None:
    """Warm-up and cosine; `watch` is called 20 times.

    With `ema` the model ends as the average of its weights.
    """
    device = images.device
    order, places = (
        each.to(device) for each in draws(len(images), steps, batch, seed)
    )
    optimizer = build(model, torch.tensor(0.0, device=device))
    index, move = order[0].clone(), places[0].clone()
    half = precision != torch.float32
    weights = [each.detach() for each in model.parameters()]
    averages = [each.clone() for each in weights] if ema else []
    share = torch.zeros((), device=device)  # of the newest weights

    def gradients_and_step() -> None:
        x = images[index]
        if moves:
            x = moved(x, move)
        with torch.autocast(device.type, precision, half, cache_enabled=False):
            logits = model(normalised(x))
        F.cross_entropy(
            logits.float(), labels[index], label_smoothing=smoothing
        ).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        for average, now in zip(averages, weights, strict=False):
            average.lerp_(now, share)

    update = updates(gradients_and_step, optimizer, device)
    for step in range(steps):
        rate = warmup_cosine(step + 1, lr, steps + 1, round(warmup * steps))
        share.fill_(1 - min(ema or 0, (2 + step) / (11 + step)))
        for group in optimizer.param_groups:
            group["lr"].fill_(rate)
        index.copy_(order[step])
        move.copy_(places[step])
        update()
        if watch is not None and (step + 1) % (steps // WATCHED) == 0:
            watch(step + 1)
    for now, average in zip(weights, averages, strict=False):
        now.copy_(average)


def updates(
    gradients_and_step: Callable[[], None],
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> Callable[[], None]:
    """What makes one update; on a GPU a graph, unless it can't be captured."""

    def update() -> None:
        optimizer.zero_grad()
        gradients_and_step()

    if device.type == "cuda":
        return replayed(gradients_and_step, optimizer) or update
    return update


def replayed(
    gradients_and_step: Callable[[], None], optimizer: torch.optim.Optimizer
) -> Callable[[], None] | None:
    """The update as a CUDA graph, which is started by one call.

    Three updates before it, at a rate of 0, leave the weights alone, and
    without gradients its backward pass writes them, adds to none.
    """
    replay = captured(gradients_and_step, before=optimizer.zero_grad)
    for state in optimizer.state.values():
        for tensor in state.values():
            tensor.zero_()
    return replay
