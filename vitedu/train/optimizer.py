"""Parameter groups, optimizers, and the moving average of the weights."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from vitedu.errors import UserError, unknown
from vitedu.train.config import TrainConfig

Groups = list[dict[str, Any]]

# attributes of a network before its blocks; those not named come after its norm
BEFORE = ("patch_embed", "cls_token", "reg_token", "pos_embed", "stem")
BEFORE += ("norm_pre",)


def parameter_groups(
    model: nn.Module, *, weight_decay: float = 0.0, layer_decay: float = 1.0
) -> Groups:
    """Parameter groups: only kernels decay; per layer if `layer_decay` < 1.

    A kernel is the weight of a dense or convolutional layer; the paper does not
    say what decays, this is the rule of the authors' newer code, big_vision.
    Frozen weights (`requires_grad=False`) are in no group.

    With `layer_decay` below 1, each layer learns at that share of the next
    one's rate (`lr_scale`), the head at the full rate: early layers of a
    trained network need to change least. The final norm learns with the last
    block. `set_lr` applies `lr_scale`; a schedule of your own has to.
    Source: BEiT's and MAE's fine-tuning; for the norm, timm's group_matcher.

    UserError: all weights are frozen.
    """
    layers = layers_of(model) if layer_decay < 1.0 else {}
    last = max(layers.values(), default=0)
    groups: Groups = [
        {
            "params": [],
            "weight_decay": decay,
            "lr_scale": layer_decay ** (last - layer),
            "name": f"layer {layer} {kind}" if layers else kind,
        }
        for layer in range(last + 1)
        for kind, decay in (("kernels", weight_decay), ("others", 0.0))
    ]
    kernels = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, nn.Linear | nn.Conv2d)
    }
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            number = 2 * layers.get(name, 0) + (id(parameter) not in kernels)
            groups[number]["params"].append(parameter)
    filled = [group for group in groups if group["params"]]
    if not filled:
        raise UserError(
            "all weights are frozen (requires_grad=False), so there is nothing "
            "to train; leave at least the head free"
        )
    return filled


def layers_of(model: Any) -> dict[str, int]:
    """Each parameter's layer: 0 is the stem, i + 1 block i, then the head."""
    blocks = list(model.blocks_in_order())
    inside = {
        id(parameter): number
        for number, block in enumerate(blocks, start=1)
        for parameter in block.parameters()
    }
    parts = dict.fromkeys(BEFORE, 0)
    parts["norm"] = parts["fc_norm"] = last = len(blocks)  # with the last block
    return {
        name: inside.get(id(weight)) or parts.get(name.split(".")[0], last + 1)
        for name, weight in model.named_parameters()
    }


def freeze(model: Any, what: int | str | None) -> list[nn.Parameter]:
    """Keep weights from learning (`requires_grad=False`); which did before.

    A number is that of the first blocks, which come with stem and positions;
    "backbone" is all but the head. UserError: there are fewer blocks.
    """
    if what is None:
        return []
    depth = len(list(model.blocks_in_order()))
    if what == "backbone":
        head = {id(each) for each in model.get_classifier().parameters()}
        chosen = [each for each in model.parameters() if id(each) not in head]
    elif int(what) > depth:
        raise UserError(
            f"freeze={what}, but the model has {depth} blocks; freeze=backbone "
            "leaves nothing but the head to learn"
        )
    else:
        layers, named = layers_of(model), model.named_parameters()
        # the norm behind the last block counts as part of it
        chosen = [
            each
            for name, each in named
            if layers[name] <= int(what)
            and not name.startswith(("norm.", "fc_norm."))
        ]
    frozen = [each for each in chosen if each.requires_grad]
    for each in frozen:
        each.requires_grad_(False)
    return frozen


def sgd(
    groups: Groups, lr: float, betas: tuple[float, float], fused: bool
) -> torch.optim.Optimizer:
    # PyTorch 2.13 cannot fuse it for sharded weights (FSDP2)
    is_distributed = hasattr(groups[0]["params"][0], "full_tensor")
    optimizer = torch.optim.SGD(
        groups, lr=lr, momentum=betas[0], fused=fused and not is_distributed
    )
    # which PyTorch 2.13 leaves uninitialised if a scaler skips the first step
    for group in optimizer.param_groups:
        for parameter in group["params"] if betas[0] else ():
            velocity = torch.zeros_like(parameter)
            optimizer.state[parameter]["momentum_buffer"] = velocity
    return optimizer


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": sgd,
}


def build_optimizer(
    model: nn.Module,
    name: str = "adamw",
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    weight_decay: float = 0.0,
    layer_decay: float = 1.0,
) -> torch.optim.Optimizer:
    """The optimizer called `name`, over the groups of `parameter_groups`.

    `set_lr` sets the rate of the next step. UserError: the name is unknown.
    """
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS)
    groups = parameter_groups(
        model, weight_decay=weight_decay, layer_decay=layer_decay
    )
    is_fused = next(model.parameters()).device.type in ("cpu", "cuda")
    optimizer = OPTIMIZERS[name](groups, lr=lr, betas=betas, fused=is_fused)
    set_lr(optimizer, lr)
    return optimizer


def optimizer_of(
    model: nn.Module, config: TrainConfig
) -> torch.optim.Optimizer:
    return build_optimizer(
        model,
        config.optimizer,
        lr=config.lr,
        betas=config.betas,
        weight_decay=config.weight_decay,
        layer_decay=config.layer_decay,
    )


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the rate of the next update; each group gets its share of `lr`."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("lr_scale", 1.0)


class MovingAverage:
    """Exponential moving average of a model's weights (Polyak averaging).

    An update keeps the share `decay` of the old average; early on it is (1 +
    updates) / (10 + updates), so that the initial values are forgotten.
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
        # swa_utils.AveragedModel counts in a tensor, read at each update
        self.num_updates += 1
        warming = (1 + self.num_updates) / (10 + self.num_updates)
        average = get_ema_multi_avg_fn(min(self.decay, warming))
        current = list(model.state_dict().values())
        average(list(self.average.values()), current, None)

    def state_dict(self) -> dict[str, Tensor | int]:
        return {"num_updates": self.num_updates, "average": self.average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.num_updates = state["num_updates"]
        for name, tensor in state["average"].items():
            self.average[name].copy_(tensor)
