"""Which weights decay, which learn slower, who moves them, and who averages them."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from vitedu.train.config import TrainConfig


def parameter_groups(
    model: nn.Module, weight_decay: float, layer_decay: float = 1.0
) -> list[dict]:
    """Kernels, which decay, and all else, which does not; layer by layer if told so.

    A kernel is the weight of a dense or convolutional layer; biases, norms, class
    token and positions are left alone. The paper does not say; this is the rule of
    the authors' newer code (big_vision decays only what is called `kernel`).

    With `layer_decay` below 1, each layer learns at that share of the next one's rate
    (`lr_scale`), the head at the full rate: early layers of a trained network need to
    change least. Source: BEiT's and MAE's fine-tuning.
    """
    last = len(model.blocks) + 1 if layer_decay < 1.0 else 0
    groups = {
        (layer, kind): {
            "params": [],
            "weight_decay": decay,
            "lr_scale": layer_decay ** (last - layer),
            "name": f"layer {layer} {kind}" if last else kind,
        }
        for layer in range(last + 1)
        for kind, decay in (("kernels", weight_decay), ("others", 0.0))
    }
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            is_kernel = name == "weight" and isinstance(
                module, nn.Linear | nn.Conv2d
            )
            layer = layer_of(f"{path}.{name}".lstrip("."), last) if last else 0
            kind = "kernels" if is_kernel else "others"
            groups[layer, kind]["params"].append(parameter)
    return list(groups.values())


def layer_of(name: str, last: int) -> int:
    """A parameter's layer: 0 the stem, i + 1 block i, `last` what is behind them.

    Class token and positions belong to the stem.
    """
    part, *rest = name.split(".")
    if part == "blocks":
        return int(rest[0]) + 1
    return 0 if part in ("patch_embed", "cls_token", "pos_embed") else last


class Group(NamedTuple):
    """Parameters that are treated alike."""

    name: str
    num_tensors: int
    num_weights: int
    weight_decay: float
    lr_scale: float  # share of the learning rate


def decay_table(model: nn.Module, config: TrainConfig) -> list[Group]:
    """What the optimizer of `config` does to which weights, a row a group."""
    groups = parameter_groups(model, config.weight_decay, config.layer_decay)
    return [
        Group(
            group["name"],
            len(group["params"]),
            sum(parameter.numel() for parameter in group["params"]),
            group["weight_decay"],
            group["lr_scale"],
        )
        for group in groups
    ]


def build_optimizer(
    model: nn.Module, config: TrainConfig
) -> torch.optim.Optimizer:
    """AdamW (decay times learning rate, decoupled), Adam, or SGD with momentum."""
    groups = parameter_groups(model, config.weight_decay, config.layer_decay)
    weight = next(model.parameters())
    shared = {"lr": config.lr, "fused": weight.device.type in ("cpu", "cuda")}
    if config.optimizer == "sgd":
        # which PyTorch 2.13 cannot fuse for weights spread over processes (FSDP2)
        shared["fused"] &= not hasattr(weight, "full_tensor")
        optimizer = torch.optim.SGD(groups, momentum=config.betas[0], **shared)
        start_at_rest(optimizer)
        return optimizer
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[
        config.optimizer
    ]
    return kind(groups, betas=config.betas, **shared)


def start_at_rest(optimizer: torch.optim.SGD) -> None:
    """Velocities of 0, from which the first step is the same as without any.

    PyTorch (2.4 to 2.13) allocates those of fused SGD in the first step and fills them
    in the kernel; if a loss scaler skips that step, they stay what the memory held.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            velocity = torch.zeros_like(parameter)
            optimizer.state[parameter]["momentum_buffer"] = velocity


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """The rate of the next update, for every group its share of `lr`."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("lr_scale", 1.0)


class MovingAverage:
    """Exponential moving average of a model's weights (Polyak averaging).

    `decay` is the share of the old average that an update keeps. Early on it is
    (1 + updates) / (10 + updates), so that the initial values are forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.num_updates = 0
        self.average = {
            name: tensor.detach().clone()
            for name, tensor in model.state_dict().items()
        }

    def update(self, model: nn.Module) -> None:
        """Move the average towards the weights and buffers of `model`."""
        # swa_utils.AveragedModel would count on a tensor, and read it at each update
        self.num_updates += 1
        warming = (1 + self.num_updates) / (10 + self.num_updates)
        average = get_ema_multi_avg_fn(min(self.decay, warming))
        current = list(model.state_dict().values())
        average(list(self.average.values()), current, None)

    def state_dict(self) -> dict[str, Tensor | int]:
        """Plain tensors and numbers for a checkpoint."""
        return {"num_updates": self.num_updates, "average": self.average}

    def load_state_dict(self, state: dict) -> None:
        """The inverse of `state_dict`; tensors go to where the average lies."""
        self.num_updates = state["num_updates"]
        for name, tensor in state["average"].items():
            self.average[name].copy_(tensor)
