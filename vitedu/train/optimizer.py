"""Which weights decay, and who moves them."""

import torch
from torch import Tensor, nn

from vitedu.train.config import TrainConfig


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Kernels, which decay, and all else, which does not.

    A kernel is the weight of a dense or convolutional layer; biases, norms, class
    token and positions are left alone. The paper does not say; this is the rule of
    the authors' newer code (big_vision decays only what is called `kernel`).
    """
    kernels, others = [], []
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            is_kernel = name == "weight" and isinstance(
                module, nn.Linear | nn.Conv2d
            )
            (kernels if is_kernel else others).append(parameter)
    return [
        {"params": kernels, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


def build_optimizer(
    model: nn.Module, config: TrainConfig
) -> torch.optim.Optimizer:
    """AdamW (decay times learning rate, decoupled), Adam, or SGD with momentum."""
    groups = parameter_groups(model, config.weight_decay)
    device = next(model.parameters()).device.type
    shared = {"lr": config.lr, "fused": device in ("cpu", "cuda")}
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=config.betas[0], **shared)
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[
        config.optimizer
    ]
    return kind(groups, betas=config.betas, **shared)


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """The rate of the next update, for every group."""
    for group in optimizer.param_groups:
        group["lr"] = lr


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

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the average towards the weights of `model`."""
        self.num_updates += 1
        warming = (1 + self.num_updates) / (10 + self.num_updates)
        share = 1.0 - min(self.decay, warming)
        current = list(model.state_dict().values())
        torch._foreach_lerp_(list(self.average.values()), current, share)

    def state_dict(self) -> dict[str, Tensor | int]:
        """Plain tensors and numbers for a checkpoint."""
        return {"num_updates": self.num_updates, "average": self.average}

    def load_state_dict(self, state: dict) -> None:
        """The inverse of `state_dict`; tensors go to where the average lies."""
        self.num_updates = state["num_updates"]
        for name, tensor in state["average"].items():
            self.average[name].copy_(tensor)
