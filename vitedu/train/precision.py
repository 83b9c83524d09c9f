"""Number formats of a training step, behind one interface.

`autocast()` surrounds the forward pass, `backward(loss)` adds to the gradients,
`update(optimizer, max_norm)` clips, steps and clears them.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitedu.errors import UserError


class FullPrecision:
    """float32 throughout."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def autocast(self) -> AbstractContextManager:
        """The context of the forward pass."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of `loss` to those of the parameters."""
        loss.backward()

    def update(
        self, optimizer: torch.optim.Optimizer, max_norm: float | None
    ) -> Tensor | None:
        """One step. Returns the gradients' global norm before clipping, if clipped."""
        grad_norm = clip(optimizer, max_norm)
        optimizer.step()
        optimizer.zero_grad()
        return grad_norm

    def state_dict(self) -> dict:
        """What a checkpoint needs to go on."""
        return {}

    def load_state_dict(self, state: dict) -> None:
        """The inverse of `state_dict`."""


class BFloat16(FullPrecision):
    """bfloat16 where autocast finds it safe; float32 weights, no scaling needed."""

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """The context of the forward pass."""
        with torch.autocast(self.device.type, torch.bfloat16):
            if self.device.type != "cpu":
                yield
                return
            # PyTorch's fused CPU kernel takes most of a bfloat16 step, backward
            # above all; without it the step is twice as fast as in float32
            with sdpa_kernel(SDPBackend.MATH):
                yield


class Float16(FullPrecision):
    """float16 with a scaled loss: small gradients would otherwise become zero.

    A step whose gradients overflow is skipped and the scale halved.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.scaler = torch.amp.GradScaler(device.type)

    def autocast(self) -> AbstractContextManager:
        """The context of the forward pass."""
        return torch.autocast(self.device.type, torch.float16)

    def backward(self, loss: Tensor) -> None:
        """Add the scaled gradients of `loss` to those of the parameters."""
        self.scaler.scale(loss).backward()

    def update(
        self, optimizer: torch.optim.Optimizer, max_norm: float | None
    ) -> Tensor | None:
        """One step, unless the gradients overflowed; clips what is unscaled."""
        if max_norm is not None:
            self.scaler.unscale_(optimizer)
        grad_norm = clip(optimizer, max_norm)
        self.scaler.step(optimizer)
        self.scaler.update()
        optimizer.zero_grad()
        return grad_norm

    def state_dict(self) -> dict:
        """The scale and its history."""
        return self.scaler.state_dict()

    def load_state_dict(self, state: dict) -> None:
        """The inverse of `state_dict`."""
        self.scaler.load_state_dict(state)


PRECISIONS = {"fp32": FullPrecision, "bf16": BFloat16, "fp16": Float16}


def build_precision(name: str, device: torch.device) -> FullPrecision:
    """The precision called `name`. UserError: the device does not have it."""
    if (
        name == "bf16"
        and device.type == "cuda"
        and not torch.cuda.is_bf16_supported()
    ):
        raise UserError(
            f"{torch.cuda.get_device_name(device)} has no bfloat16; use precision=fp16"
        )
    return PRECISIONS[name](device)


def clip(
    optimizer: torch.optim.Optimizer, max_norm: float | None
) -> Tensor | None:
    """Scale the gradients down to a global norm of `max_norm`; the norm before."""
    if max_norm is None:
        return None
    parameters = [
        p for group in optimizer.param_groups for p in group["params"]
    ]
    return torch.nn.utils.clip_grad_norm_(parameters, max_norm)
