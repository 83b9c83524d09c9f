"""Small tensors on their way from the CPU to the device of the images."""

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor` on `device`; this process doesn't wait for it to arrive.

    CUDA copies at once only from pinned memory; from any other it may first
    wait for all work that is queued.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
