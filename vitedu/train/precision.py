"""Number formats of a training step.

`autocast()` surrounds the forward pass, `backward(loss)` adds to the gradients,
`update(optimizer, max_norm)` clips, steps and clears them.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from vitedu.errors import UserError
from vitedu.train.config import TrainConfig
from vitedu.train.processes import full_tensor

KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
# PyTorch's own choice but for cuDNN: of 64, 192, 320, ... tokens its backward
# pass makes NaN from finite numbers (pytorch/pytorch issue 196678)
AUTO = [KERNELS[name] for name in ("flash", "efficient", "math")]

# autocast's format where that is safe; weights stay float32
DTYPES: dict[str, torch.dtype | None] = {
    "fp32": None,
    "tf32": None,  # a GPU multiplies factors rounded to 10 bits, not 23
    "bf16": torch.bfloat16,
    "fp16": torch.float16,  # with a scaled loss: see `Precision`
}


class Precision:
    """A number format on a device, and an attention kernel.

    float16 scales the loss, as small gradients would become zero; a step whose
    gradients overflow is skipped and the scale halved. `attention` chooses
    scaled_dot_product_attention's kernel; "auto" is PyTorch's choice, but never
    cuDNN's, whose gradients can be NaN.
    """

    def __init__(
        self, name: str, device: torch.device, attention: str = "auto"
    ) -> None:
        # PyTorch's fused CPU kernel takes most of a bfloat16 step, backward
        # above all; without it the step is twice as fast as in float32
        if name == "bf16" and device.type == "cpu" and attention == "auto":
            attention = "math"
        self.name = name
        self.device = device
        self.attention = attention
        # a no-op if not enabled
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "fp16")

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """Set the matrix-product and attention kernels inside the block.

        Of the backward pass too: checkpointing computes the forward pass again.
        UserError: the attention kernel doesn't support the input.
        """
        attention = AUTO
        if self.attention != "auto":
            attention = [KERNELS[self.attention]]
        products = float32_products(self.device, tf32=self.name == "tf32")
        try:
            with products, sdpa_kernel(attention):
                yield
        except RuntimeError as error:
            # PyTorch's two messages
            refusals = "No available kernel", "No viable backend"
            if not any(each in str(error) for each in refusals):
                raise
            raise UserError(
                f"attention={self.attention}: that kernel does not compute "
                "this model's attention on this device in this precision; use "
                "attention=auto"
            ) from None

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """The context of the forward pass."""
        dtype, half = DTYPES[self.name], nullcontext()
        if dtype is not None:
            half = torch.autocast(self.device.type, dtype)
        with self.kernels(), half:
            yield

    def backward(self, loss: Tensor) -> None:
        """Add the (scaled) gradients of `loss` to those of the parameters."""
        with self.kernels():
            self.scaler.scale(loss).backward()

    def update(
        self, optimizer: torch.optim.Optimizer, max_norm: float | None
    ) -> Tensor | None:
        """One step, unless the gradients overflowed; their norm, if clipped.

        The norm is the global one, before clipping.
        """
        grad_norm = None
        if max_norm is not None:
            self.scaler.unscale_(optimizer)
            weights = [
                x for each in optimizer.param_groups for x in each["params"]
            ]
            norm = torch.nn.utils.clip_grad_norm_(weights, max_norm)
            grad_norm = full_tensor(norm)
        self.scaler.step(optimizer)
        self.scaler.update()
        optimizer.zero_grad()
        return grad_norm

    def state_dict(self) -> dict[str, Any]:
        """The loss scale and its history; empty in other formats."""
        return self.scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.scaler.load_state_dict(state)


def build_precision(
    name: str, device: torch.device, attention: str = "auto"
) -> Precision:
    """The precision called `name`, with "auto" resolved.

    UserError: the device doesn't support it.
    """
    return Precision(resolve_precision(name, device), device, attention)


def concrete(config: TrainConfig, device: torch.device) -> TrainConfig:
    """`config` with the precision that "auto" means on `device`."""
    name = resolve_precision(config.precision, device)
    return replace(config, precision=name)


def resolve_precision(name: str, device: torch.device) -> str:
    """`name`, with "auto" resolved.

    auto: bf16 on a GPU from capability 8.0 on, fp16 from 7.0 on, else fp32.
    (PyTorch reports bfloat16 on older GPUs too, where it is emulated and slow.)
    UserError: the device does not have it.
    """
    here, capability = device.type, (0, 0)
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        here = "GPU of capability {}.{}".format(*capability)
    is_ampere = capability >= (8, 0)
    if name == "auto":
        if is_ampere:
            return "bf16"
        return "fp16" if capability >= (7, 0) else "fp32"
    needs_ampere = name == "tf32" or (name == "bf16" and device.type == "cuda")
    if needs_ampere and not is_ampere:
        instead = resolve_precision("auto", device)
        raise UserError(
            f"precision={name} needs a GPU of compute capability 8.0 or "
            f"higher, this is a {here}; use precision={instead}"
        )
    return name


@contextmanager
def float32_products(device: torch.device, *, tf32: bool) -> Iterator[None]:
    """Whether float32 factors may be rounded to TF32, inside the block."""
    if device.type != "cuda":
        yield
        return
    convolution = torch.backends.cudnn
    before = torch.get_float32_matmul_precision(), convolution.allow_tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    convolution.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        convolution.allow_tf32 = before[1]
