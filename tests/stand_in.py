"""A GPU without a GPU: the device "meta", whose tensors have no numbers.

`with StandIn(): train_step(state.to("meta"), batch)`

Meta tensors go through forward pass, backward pass and optimizer. `StandIn`
adds what a GPU would mind: an operation on both devices (`Mixed`), and one that
makes Python wait for numbers (`Waits`). Tensors on the CPU stay real, so what
is drawn there is drawn. PyTorch's fake tensors see less: they take indices from
the CPU, and they have no numbers on the CPU either.

What it can't see: kernels, formats of numbers, whether memory is pinned.

`with WithNumbers(): ...` is for whole notebooks, which print and draw what a
network found. There a tensor on the device keeps its numbers on the CPU, behind
a door: mixing devices raises, and so does handing it to NumPy as it is.
"""

import warnings
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")
COPIES = ("aten::_to_copy", "aten::copy_")
# a GPU takes indices from the CPU, though it waits for them
MAY_MIX = (*COPIES, "aten::index", "aten::index_put_")
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


class WithNumbers(ExitStack):
    """The block in which "meta" is a device whose tensors have numbers.

    `operations` counts what ran there.
    """

    operations = 0

    def __enter__(self) -> "WithNumbers":
        # `param.data = ...` would leave the old numbers behind the door
        future = torch.__future__
        self.callback(
            future.set_overwrite_module_params_on_conversion,
            future.get_overwrite_module_params_on_conversion(),
        )
        future.set_overwrite_module_params_on_conversion(True)
        # it isn't one, where there are numbers
        self.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", ".* which is a no-op")
        # no sixteen bits on "meta": a block of autocast there does nothing
        self.callback(setattr, torch, "autocast", torch.autocast)
        torch.autocast = _autocast
        self.enter_context(_Doors())
        self.enter_context(_Device(self))
        return self


_real_autocast = torch.autocast


def _autocast(kind: str, *words: Any, **options: Any) -> Any:
    if kind == META.type:
        return nullcontext()
    return _real_autocast(kind, *words, **options)


class Behind(Tensor):
    """A tensor that says it's on the device; its numbers are on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, numbers: Tensor, device: "_Device") -> "Behind":
        return Tensor._make_wrapper_subclass(
            cls,
            numbers.shape,
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device=META,
        )

    def __init__(self, numbers: Tensor, device: "_Device") -> None:
        self.numbers, self.device_mode = numbers, device

    def __reduce_ex__(self, protocol: Any) -> Any:
        # saved with its numbers; it comes back on the CPU, to be copied
        return self.numbers.__reduce_ex__(protocol)

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.ndim == 0 else str(self), spec)

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        (found, *_) = (x for x in tree_leaves(args) if isinstance(x, Behind))
        return found.device_mode.run(function, args, kwargs or {})


class _Doors(TorchFunctionMode):
    """What a subclass of Tensor is refused, though a GPU's tensor is not."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        is_behind = bool(args) and isinstance(args[0], Behind)
        if is_behind and function is Tensor.tolist:
            return args[0].cpu().tolist()
        if is_behind and function is Tensor.numpy and kwargs.get("force"):
            return args[0].detach().cpu().numpy()
        if function is Tensor.__getitem__ and isinstance(args[1], list):
            # it would become an index on "meta", without numbers
            return args[0][torch.tensor(args[1])]
        to = kwargs.get("device")
        if function in MAKES and to is not None and torch.device(to) == META:
            made = function(*args, **kwargs | {"device": "cpu"})
            return made.to(META)
        return function(*args, **kwargs)


class _Device(TorchDispatchMode):
    """Computes on the CPU what is asked of the device."""

    def __init__(self, counter: WithNumbers) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if Behind not in types and kwargs.get("device") is None:
            return function(*args, **kwargs)
        return self.run(function, args, kwargs)

    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        name, to = function._schema.name, kwargs.get("device")
        there: list[Behind] = []
        here: list[Tensor] = []

        def numbers(each: Any) -> Any:
            kind = type(each)
            if kind is Behind:
                there.append(each)
                return each.numbers
            if kind is list or kind is tuple:
                return [numbers(x) for x in each]
            if isinstance(each, Tensor) and each.ndim:
                here.append(each)
            return each

        def behind(each: Any) -> Any:
            if isinstance(each, list | tuple):
                return type(each)(behind(x) for x in each)
            if not isinstance(each, Tensor):
                return each
            for x in there:
                if x.numbers is each:
                    return x
            return Behind(each, self)

        bare = [numbers(each) for each in args]
        options = {key: numbers(each) for key, each in kwargs.items()}
        if to is not None:
            options["device"] = torch.device("cpu")
        if there and here and name not in MAY_MIX:
            raise Mixed(f"{name}: {len(here)} of its tensors on the CPU")
        found = function(*bare, **options)
        self.counter.operations += bool(there)
        if found is None:
            return None
        if name.endswith("_") and not name.endswith("__"):
            return args[0]
        if to is not None:
            return behind(found) if to == META else found
        return behind(found) if there else found
