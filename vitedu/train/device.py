"""The device that a name means."""

import torch

from vitedu.errors import UserError


def find_device(name: str) -> torch.device:
    """The device `name`; "auto" is the first of cuda, mps, cpu that is there.

    UserError: this machine doesn't have it.
    """
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(kind for kind in there if there[kind])
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(
            f"there is no device {name!r}; known: {', '.join(there)}"
        ) from None
    available = [kind for kind in there if there[kind]]
    if not there.get(device.type, False):
        raise UserError(
            f"this machine doesn't have the device {name!r}; it has "
            + ", ".join(available)
        )
    if (
        device.type == "cuda"
        and (device.index or 0) >= torch.cuda.device_count()
    ):
        raise UserError(
            f"this machine doesn't have the device {name!r}; it has "
            f"{torch.cuda.device_count()} cuda devices, counted from 0"
        )
    return device
