"""Several processes train one model: the same run, whatever their number.

Each process computes the gradients of its share of every batch; their weighted mean
over the processes is the gradient of the whole batch. `torchrun` starts the processes,
DDP copies the model to each, FSDP2 (`shard=true`) spreads it over them.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from vitedu.errors import UserError
from vitedu.model import ResNet, ViT
from vitedu.train.precision import FullPrecision
from vitedu.train.step import StepResult, TrainState, train_step

# A process that dies ends the run at once (torchrun sees to it); this is for one
# that hangs. Compiling, or a download, may keep the others waiting for minutes.
TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True)
class World:
    """The processes of a run, and which of them this one is.

    What they tell each other goes over the CPU, so that none waits for its device.
    A process alone is answered at once.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among those of the same machine

    @property
    def is_first(self) -> bool:
        """Whether this is the process that reads, writes and prints."""
        return self.rank == 0

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Add each of the numbers up over all processes, in float64."""
        if self.size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def any(self, holds: bool) -> bool:
        """Whether it holds on at least one process."""
        return self.sum([holds])[0] > 0

    def first(self, make: Callable[[], Any]) -> Any:
        """What `make()` returns on the first process, on all; its UserError too."""
        if self.size == 1:
            return make()
        told = [None, None]
        if self.is_first:
            try:
                told[0] = make()
            except UserError as error:
                told[1] = error
        dist.broadcast_object_list(told, device=torch.device("cpu"))
        if told[1] is not None:
            raise told[1]
        return told[0]


ALONE = World()


def own_device(world: World, device: torch.device) -> torch.device:
    """The device of this process, where `device` is what the run was told.

    UserError: there are more processes than devices, or their kind cannot do it.
    """
    if world.size == 1 or device.type == "cpu":
        return device
    if device.type != "cuda" or device.index is not None:
        raise UserError(
            f"{world.size} processes cannot share device={device}; set device=cuda, "
            "and each takes its own, or device=cpu"
        )
    count = torch.cuda.device_count()
    if world.local_rank >= count:
        raise UserError(
            f"process {world.local_rank} of this machine has no device: there are "
            f"{count}, counted from 0; start torchrun --nproc-per-node {count}"
        )
    return torch.device("cuda", world.local_rank)


@contextmanager
def process_group(world: World, device: torch.device) -> Iterator[None]:
    """Connect the processes: gloo between CPUs, and nccl between GPUs."""
    if world.size == 1 or dist.is_initialized():
        yield
        return
    backend = "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend, timeout=TIMEOUT)
    yield
    # not after an error: the others may be gone, and would be waited for
    dist.destroy_process_group()


def spread(model: nn.Module, world: World, shard: bool) -> nn.Module:
    """`model`, equal on all processes, such that their gradients become one.

    With `shard` each process keeps a part of every weight, and a block has its whole
    weights only while it computes.
    """
    if world.size == 1:
        return model
    if not shard:
        # the class token's gradient has strides of its own, which costs nothing
        warnings.filterwarnings("ignore", "Grad strides do not match")
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:  # torch before 2.6
        from torch.distributed._composable.fsdp import fully_shard
    device = next(model.parameters()).device.type
    mesh = dist.init_device_mesh(device, (world.size,))
    for block in model.blocks_in_order():
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def bare(model: nn.Module) -> nn.Module:
    """The network without what torch.compile or DDP wrapped around it.

    The wrappers begin every name with `_orig_mod.` or `module.`; a run may go on
    compiled or not, in one process or in several.
    """
    while hasattr(model, "_orig_mod") or hasattr(model, "module"):
        model = getattr(model, "_orig_mod", None) or model.module
    return model


def whole_model(model: nn.Module) -> ViT | ResNet:
    """The network with all its weights, on every process."""
    model = bare(model)
    weights = model.state_dict()
    if not any(map(is_part, weights.values())):
        return model
    alone = type(model)(model.config).to(next(model.parameters()).device)
    alone.load_state_dict({name: whole(x) for name, x in weights.items()})
    return alone


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that FSDP2 may have spread over the processes."""
    return tensor.full_tensor() if is_part(tensor) else tensor


def is_part(tensor: Tensor) -> bool:
    """Whether this is a DTensor; to import that class would take a second."""
    return hasattr(tensor, "full_tensor")


def is_copied(model: nn.Module) -> bool:
    """Whether DDP wraps it; else FSDP2 has changed it in place, or it is alone."""
    return isinstance(model, DistributedDataParallel)


class Together(FullPrecision):
    """The precision of a step whose batch lies on several processes.

    `train_step` sees one process. Behind its calls the gradients become those of the
    mean loss over the whole batch: exchanged in the last backward pass of a step, and
    weighted, since shares may be unequal.
    """

    def __init__(
        self,
        precision: FullPrecision,
        model: nn.Module,
        world: World,
        micro_batch_size: int | None,
    ) -> None:
        self.precision = precision
        self.name = precision.name
        self.model = model
        self.world = world
        self.micro_batch_size = micro_batch_size

    def begin(self, example: Tensor, own: int, num_images: int) -> None:
        """Prepare a step on `own` of `num_images`; `example` is one (1, c, h, w)."""
        # the loss of a step is a mean over the share, the gradient one over processes
        self.weight = own * self.world.size / num_images
        # All make as many passes as the one with most images: sharded weights are
        # gathered in each.
        largest_share = -(-num_images // self.world.size)
        size = self.micro_batch_size or largest_share
        self.passes_left = -(-largest_share // size)
        self.example = example

    def autocast(self) -> AbstractContextManager:
        """The context of the forward pass; gradients are exchanged after the last."""
        self.passes_left -= 1
        is_last = self.passes_left == 0
        if is_copied(self.model):
            self.model.require_backward_grad_sync = is_last
        else:
            self.model.set_requires_gradient_sync(is_last)
        return self.precision.autocast()

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of `loss`, a part of the mean over this share."""
        self.precision.backward(loss * self.weight)

    def update(
        self, optimizer: torch.optim.Optimizer, max_norm: float | None
    ) -> Tensor | None:
        """One step, the same on all; the norm is that of the whole gradient."""
        while self.passes_left:
            with self.autocast():
                logits = self.model(self.example)
            self.backward(0 * logits.float().sum())
        norm = self.precision.update(optimizer, max_norm)
        return None if norm is None else whole(norm)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return self.precision.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.precision.load_state_dict(state)


def distributed_step(
    state: TrainState, batch: tuple[Tensor, Tensor], num_images: int
) -> StepResult:
    """`train_step` on `batch`, this process's share of `num_images` images.

    `state.precision` is a `Together`. The sums of the result are of this share alone,
    which may be empty.
    """
    images, labels = batch
    own = len(images)
    if own == 0:
        # the others wait for this process: it takes part with a black image
        images = images.new_zeros(1, *images.shape[1:])
        labels = labels.new_zeros(1, *labels.shape[1:])
    state.precision.begin(images[:1], own, num_images)
    result = train_step(state, (images, labels))
    return result if own else emptied(result)


def emptied(result: StepResult) -> StepResult:
    """The same with no image in it."""
    correct = None if result.correct is None else 0 * result.correct
    return StepResult(0 * result.loss_sum, correct, 0, result.grad_norm)


def whole_results(
    results: Sequence[StepResult], world: World
) -> list[StepResult]:
    """The results of some steps, each added up over all processes; waits for them."""
    if world.size == 1 or not results:
        return list(results)
    numbers = [
        float(number or 0)
        for result in results
        for number in (result.loss_sum, result.correct, result.num_images)
    ]
    sums = torch.tensor(world.sum(numbers), dtype=torch.float64)
    return [
        StepResult(
            loss_sum,
            None if result.correct is None else correct.long(),
            int(num_images),
            result.grad_norm,
        )
        for result, (loss_sum, correct, num_images) in zip(
            results, sums.view(-1, 3), strict=True
        )
    ]


def own_results(
    results: Sequence[StepResult], world: World
) -> list[StepResult]:
    """The inverse of `whole_results`: the first process has it all."""
    return list(results if world.is_first else map(emptied, results))


def gather(state: TrainState, world: World) -> dict[str, Any]:
    """Model, optimizer and average as one process has them, of worth on the first.

    All processes call it together.
    """
    ema = None if state.ema is None else state.ema.state_dict()
    if world.size == 1:
        return {
            "model": bare(state.model).state_dict(),
            "optimizer": state.optimizer.state_dict(),
            "ema": ema,
        }
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        get_optimizer_state_dict,
    )

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    optimizer = get_optimizer_state_dict(
        state.model, state.optimizer, options=options
    )
    if world.is_first:
        # it comes under names; the optimizer itself counts its parameters
        numbers = {name: i for i, name in enumerate(parameter_names(state))}
        optimizer = renamed(optimizer, numbers)
    if ema is not None:
        ema["average"] = {
            name: whole(tensor).cpu() for name, tensor in ema["average"].items()
        }
    return {
        "model": get_model_state_dict(state.model, options=options),
        "optimizer": optimizer,
        "ema": ema,
    }


def scatter(content: dict[str, Any], state: TrainState, world: World) -> None:
    """The inverse of `gather`: the first process's `content` goes to all."""
    if world.is_first:
        # which kernel updates the weights is not the file's to say
        theirs = content["optimizer"]["param_groups"]
        for group, own in zip(
            theirs, state.optimizer.param_groups, strict=True
        ):
            group["fused"] = own["fused"]
    if world.size == 1:
        bare(state.model).load_state_dict(content["model"])
        state.optimizer.load_state_dict(content["optimizer"])
        if state.ema is not None:
            state.ema.load_state_dict(content["ema"])
        return
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        set_model_state_dict,
        set_optimizer_state_dict,
    )

    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)

    def scatter_weights(weights: dict[str, Tensor]) -> None:
        # a copy, since its names are changed to those of the wrapped model
        set_model_state_dict(state.model, dict(weights), options=options)

    if state.ema is not None:
        # the average lies as the weights do, and goes there in their place
        ema = content.get("ema", {"average": {}})
        scatter_weights(ema["average"])
        state.ema.load_state_dict(
            {
                "num_updates": world.first(lambda: ema["num_updates"]),
                "average": bare(state.model).state_dict(),
            }
        )
    scatter_weights(content.get("model", {}))
    optimizer = {}
    if world.is_first:
        names = dict(enumerate(parameter_names(state)))
        optimizer = renamed(content["optimizer"], names)
    set_optimizer_state_dict(
        state.model, state.optimizer, optimizer, options=options
    )


def parameter_names(state: TrainState) -> list[str]:
    """The names of the optimizer's parameters, in its order."""
    names = {id(p): name for name, p in bare(state.model).named_parameters()}
    return [
        names[id(p)]
        for group in state.optimizer.param_groups
        for p in group["params"]
    ]


def renamed(optimizer: dict[str, Any], names: dict) -> dict[str, Any]:
    """An optimizer's state with its parameters called otherwise."""
    groups = [
        group | {"params": [names[each] for each in group["params"]]}
        for group in optimizer["param_groups"]
    ]
    state = {names[each]: x for each, x in optimizer["state"].items()}
    return {"state": state, "param_groups": groups}
