"""The state of a run, and what it is before the first step."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from vitedu.budget import OPTIMIZER_STATE, check_memory
from vitedu.data import Source
from vitedu.model.classifier import LossName
from vitedu.model.network import Network
from vitedu.train.config import TrainConfig
from vitedu.train.losses import LOSSES, GivenLoss, Loss, build_loss
from vitedu.train.network import check_order, first_network, run_classes
from vitedu.train.optimizer import MovingAverage, optimizer_of
from vitedu.train.precision import FullPrecision, build_precision
from vitedu.train.processes import ALONE, Processes
from vitedu.train.schedule import Schedule, build_schedule


@dataclass
class TrainState:
    """What a step reads and changes; `step` counts the updates done.

    `loss` is the one that `config` names unless another is given; it sums over
    images. What an evaluation reports, `plain_loss`, is the same without label
    smoothing.
    """

    config: TrainConfig
    model: nn.Module
    optimizer: Optimizer
    schedule: Schedule
    precision: FullPrecision
    ema: MovingAverage | None = None
    step: int = 0
    loss: Loss | None = None
    images_per_epoch: int = 0
    data_digest: str = ""  # of the data set, see vitedu.data.Dataset
    class_names: tuple[str, ...] = ()  # what the result calls its outputs
    # a sentence for each thing that is not done as `config` asks
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plain_loss = self.loss or LOSSES[self.config.loss]
        if self.loss is None:
            self.loss = build_loss(self.config)

    @property
    def network(self) -> Network:
        """The model without what torch.compile or DDP wraps around it.

        The wrappers begin every name with `_orig_mod.` or `module.`; a run may
        go on compiled or not, in one process or in several.
        """
        model = self.model
        while hasattr(model, "_orig_mod") or hasattr(model, "module"):
            model = getattr(model, "_orig_mod", None) or model.module
        return model

    @property
    def loss_name(self) -> LossName | None:
        """What the weights are trained by; None: a loss of the caller's."""
        return None if isinstance(self.loss, GivenLoss) else self.config.loss

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    @property
    def num_steps(self) -> int:
        """Updates of the whole run."""
        return count_steps(self.config, self.images_per_epoch)

    @property
    def epoch_steps(self) -> int:
        """Updates in an epoch; the last batch may be short."""
        return -(-self.images_per_epoch // self.config.batch_size)

    @property
    def is_done(self) -> bool:
        """Whether the last step has been taken."""
        return self.step == self.num_steps

    @property
    def num_images(self) -> int:
        """Images in the batch of the next step."""
        seen = self.step % self.epoch_steps * self.config.batch_size
        return min(self.config.batch_size, self.images_per_epoch - seen)

    def result_weights(self) -> dict[str, Tensor]:
        """What would be the result now: the averaged weights if there are any.

        Whole, where FSDP2 distributes them; then all processes have to ask.
        """
        weights = self.network.state_dict()
        if self.ema is not None:
            weights = self.ema.average
        return {name: whole(tensor) for name, tensor in weights.items()}


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, of which FSDP2 may have left a part to this process."""
    # a DTensor; to import that class would take a second
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def build_state(
    config: TrainConfig,
    train: Source,
    device: torch.device,
    processes: Processes = ALONE,
    *,
    model: Network | None = None,
    loss: Loss | None = None,
) -> TrainState:
    """The state before the first step: weights from the seed, on the CPU.

    A `model` that is given keeps its weights, and is itself what learns.
    UserError: it counts the classes of the data in another order.
    """
    class_names = tuple(getattr(train, "class_names", ()))
    if model is None:
        check_room(config, device)
        model, notes = first_network(config, class_names)
    else:
        notes = check_order(model, class_names)
    class_names, more_notes = run_classes(model, class_names)
    notes += more_notes
    model = model.to(device)
    if config.activation_checkpointing:
        model.set_grad_checkpointing()
    if config.compile and (note := compile_model(model, device)):
        notes.append(note)
    if processes.count > 1:
        notes.append(f"{processes.count} processes share every batch")
    elif config.shard:
        notes.append("shard=true has no effect: there is one process")
    num_steps = count_steps(config, len(train))
    return TrainState(
        config=config,
        # first: FSDP2 puts others in the place of the parameters
        model=processes.spread(model.train(), config.shard),
        optimizer=optimizer_of(model, config),
        schedule=build_schedule(
            config.schedule, config.lr, num_steps, config.warmup
        ),
        precision=build_precision(config.precision, device, config.attention),
        ema=MovingAverage(model, config.ema) if config.ema else None,
        loss=loss,
        images_per_epoch=len(train),
        class_names=class_names,
        notes=notes,
    )


def build_model(config: TrainConfig) -> Network:
    """The network as the run begins with it, on the CPU.

    With the initial weights of the seed, or with the trained ones of
    `config.weights`.
    UserError: those are of another architecture.
    """
    return first_network(config, ())[0]


def check_room(config: TrainConfig, device: torch.device) -> None:
    """UserError: there isn't enough memory to build and train the network."""
    # it is built on the CPU, but only what learns here is kept several times
    copies = num_copies(config) if device.type == "cpu" else 1
    check_memory(config.model, "training this model", copies=copies)


def num_copies(config: TrainConfig) -> int:
    """Tensors of its size that training keeps for a weight, itself included."""
    moments = OPTIMIZER_STATE.get(config.optimizer, 2)
    # the weights, their gradients, and what the optimizer and the average keep
    return 2 + moments + bool(config.ema)


def count_steps(config: TrainConfig, num_images: int) -> int:
    """Updates of the whole run; the last batch of an epoch may be short."""
    if config.steps is not None:
        return config.steps
    return (config.epochs or 0) * -(-num_images // config.batch_size)


def compile_model(model: nn.Module, device: torch.device) -> str | None:
    """Compile in place, at the first forward pass; names of parameters stay.

    Where that cannot be done (no C++ compiler, no Triton, a Python or a system
    that torch.compile does not know) the model is left as it is, and a sentence
    says so.
    """
    try:
        torch.compile(probe)(torch.ones(8, device=device))
    except Exception as error:  # each missing tool raises another kind
        lines = str(error).splitlines() or [type(error).__name__]
        return (
            "compile=true has no effect, torch.compile fails here "
            f"({lines[0]}); training goes on uncompiled"
        )
    model.compile()
    return None


def probe(x: torch.Tensor) -> torch.Tensor:
    """The least that has to be compiled to know whether there is a compiler."""
    return x.sin() + 1.0
