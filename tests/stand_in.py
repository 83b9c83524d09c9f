"""A GPU without a GPU: the device "meta", whose tensors have no numbers.

`with StandIn(): train_step(state.to("meta"), batch)`

Meta tensors go through forward pass, backward pass and optimizer. `StandIn`
adds what a GPU would mind: an operation on both devices (`Mixed`), and one that
makes Python wait for numbers (`Waits`). Tensors on the CPU stay real, so what
is drawn there is drawn. PyTorch's fake tensors see less: they take indices from
the CPU, and they have no numbers on the CPU either.

What it can't see: kernels, formats of numbers, whether memory is pinned.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")
COPIES = ("aten::_to_copy", "aten::copy_")
# made of Python's numbers on the CPU, and copied in a way that waits
MAKES = (torch.tensor, torch.as_tensor, Tensor.new_tensor)


class Mixed(Exception):
    """An operation on tensors of two devices."""


class Waits(Exception):
    """An operation after which Python has numbers of the device."""


class StandIn(ExitStack):
    """The block in which "meta" is held to a GPU's rules.

    With `may_wait` numbers read from it are zeros, and `waits` counts how
    often: for what has to wait, but not for every batch.
    """

    def __init__(self, *, may_wait: bool = False) -> None:
        super().__init__()
        self.may_wait = may_wait
        self.waits: list[str] = []

    def __enter__(self) -> "StandIn":
        self.enter_context(_Makes(self))
        self.enter_context(_Operations(self))
        return self

    def wait(self, what: str) -> None:
        """Python waits for the device."""
        if not self.may_wait:
            raise Waits(f"{what} waits for the device")
        self.waits.append(what)


class _Makes(TorchFunctionMode):
    """What never gets to the dispatcher on "meta"."""

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__()
        self.stand_in = stand_in

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        if function in MAKES and made.device == META:
            self.stand_in.wait(function.__name__)
        return made


class _Operations(TorchDispatchMode):
    """Every operation, those of the backward pass included."""

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__()
        self.stand_in = stand_in

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = function._schema.name
        # a tensor without dimensions counts as a number of Python's
        there, here = [], []
        for each in tree_leaves((args, kwargs)):
            if isinstance(each, Tensor):
                if each.device == META:
                    there.append(each)
                elif each.ndim:
                    here.append(each)
        if name in COPIES:
            return self.copied(function, args, kwargs)
        if there and here:
            shapes = [tuple(each.shape) for each in (*there, *here)]
            raise Mixed(f"{name} of {shapes}, the last {len(here)} on the CPU")
        if there and name == "aten::_local_scalar_dense":
            self.stand_in.wait(name)
            return torch.zeros((), dtype=there[0].dtype).item()
        if there and torch.Tag.data_dependent_output in function.tags:
            raise Waits(f"{name} waits for the device")
        if there and torch.Tag.dynamic_output_shape in function.tags:
            masks = [each for each in there if each.dtype == torch.bool]
            if name != "aten::index" or masks:
                raise Waits(f"{name} waits for the device")
        return function(*args, **kwargs)

    def copied(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A copy between devices: from the GPU it waits, to it it must not."""
        name = function._schema.name
        if name == "aten::copy_":
            target, source = args[:2]
            to, is_free = target.device, len(args) > 2 and args[2]
        else:
            source = args[0]
            to = kwargs.get("device") or source.device
            is_free = kwargs.get("non_blocking", False)
        if to == source.device:
            return function(*args, **kwargs)
        if to == META:
            if source.ndim and not is_free:
                self.stand_in.wait(f"{name} to the device")
            return function(*args, **kwargs)
        self.stand_in.wait(f"{name} from the device")
        zeros = torch.zeros(
            source.shape, dtype=kwargs.get("dtype") or source.dtype
        )
        return args[0].copy_(zeros) if name == "aten::copy_" else zeros
