"""Whether a checkpoint belongs to a run: whether that could have written it."""

import math
from typing import Any

import torch
from torch import Tensor

from vitedu.fields import shown
from vitedu.train.config import TrainConfig
from vitedu.train.folder import as_settings, differences
from vitedu.train.state import TrainState
from vitedu.train.step import StepResult


def check_same_run(content: dict[str, Any], state: TrainState) -> None:
    """ValueError: the configuration or the data are those of another run."""
    before = TrainConfig.from_json(content["config"])
    theirs, ours = differences(before, state.config)
    if theirs:
        raise ValueError(
            f"it has {as_settings(theirs)}, not {as_settings(ours)}"
        )
    if content["data"] != state.data_digest:
        raise ValueError(
            "it was trained on other data; restore them, or start anew"
        )


def check_parts(content: dict[str, Any], state: TrainState) -> None:
    """ValueError: a part is not one that this run could have written."""
    step, seconds = content["step"], content["seconds"]
    if type(step) is not int or not 0 <= step <= state.num_steps:
        raise ValueError(
            f"its step is {shown(step)}, and this run takes {state.num_steps} "
            "steps"
        )
    if not is_amount(seconds):
        raise ValueError(
            f"its seconds are {shown(seconds)}, which is not a time"
        )
    if not isinstance(content["pending"], list) or not all(
        map(is_step_result, content["pending"])
    ):
        raise ValueError("pending is not a list of measurements")
    wanted = {
        "model": state.network.state_dict(),
        "ema": None if state.ema is None else state.ema.state_dict(),
        "precision": state.precision.state_dict(),
    }
    for part, own in wanted.items():
        check_like(part, content[part], own)
    content["optimizer"] = checked_optimizer(
        content["optimizer"], state.optimizer
    )
    check_moments(content, state)


def check_like(name: str, found: Any, wanted: Any) -> None:
    """ValueError unless `found` has the names, types and shapes of `wanted`."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in wanted.keys() ^ found.keys():
            where = "missing" if key in wanted else "not part of this run"
            raise ValueError(f"{name}.{key} is {where}")
        for key, value in wanted.items():
            check_like(f"{name}.{key}", found[key], value)
    elif isinstance(wanted, Tensor) and isinstance(found, Tensor):
        forms = [(tuple(x.shape), x.dtype) for x in (found, wanted)]
        if forms[0] != forms[1]:
            raise ValueError(f"{name} is {forms[0]}, not {forms[1]}")
    elif type(found) is not type(wanted):
        kinds = [type(x).__name__ for x in (found, wanted)]
        raise ValueError(f"{name} is of type {kinds[0]}, not {kinds[1]}")
    elif wanted is not None and not is_amount(found):
        raise ValueError(f"{name} is {shown(found)}")


def checked_optimizer(
    found: dict[str, Any], optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """The moments that were found, in the groups of this run.

    The groups follow from the configuration, save for the current rate.
    ValueError: the moments are not those of its parameters.
    """
    groups, shapes = [], []
    for theirs, own in zip(
        found["param_groups"], optimizer.param_groups, strict=True
    ):
        first = len(shapes)
        shapes += [weight.shape for weight in own["params"]]
        if theirs["params"] != list(range(first, len(shapes))):
            raise ValueError("optimizer.param_groups has other parameters")
        if not is_amount(theirs["lr"]):
            raise ValueError(f"optimizer has lr={shown(theirs['lr'])}")
        groups.append(own | {"params": theirs["params"], "lr": theirs["lr"]})
    if found["state"].keys() - set(range(len(shapes))):
        raise ValueError("optimizer.state has other parameters")
    # an optimizer may treat matrices in its own way (Muon), and the rest alike
    names: dict[bool, set[str]] = {}
    for number, moments in found["state"].items():
        allowed = (), shapes[number]
        is_matrix = len(shapes[number]) == 2
        expected = names.setdefault(is_matrix, set(moments))
        if set(moments) != expected or not all(
            isinstance(x, Tensor) and x.shape in allowed
            for x in moments.values()
        ):
            raise ValueError(
                f"optimizer.state.{number} doesn't fit a parameter of the "
                f"shape {tuple(shapes[number])}"
            )
    return {"state": found["state"], "param_groups": groups}


def check_moments(content: dict[str, Any], state: TrainState) -> None:
    """ValueError: moments that the steps so far must have left are missing."""
    groups = state.optimizer.param_groups
    moments = content["optimizer"]["state"]
    missing = set(range(sum(len(each["params"]) for each in groups)))
    missing -= moments.keys()
    # without momentum SGD keeps nothing, and a scaler may have skipped all the
    # steps
    may_be_empty = groups[0].get("momentum") == 0 or (
        state.config.precision == "fp16" and not state.optimizer.state
    )
    if content["step"] == 0 or not missing or (may_be_empty and not moments):
        return
    raise ValueError(
        f"optimizer.state.{min(missing)} is missing after {content['step']} "
        "steps"
    )


def is_step_result(value: Any) -> bool:
    """Whether it is what `StepResult` holds."""
    return (
        isinstance(value, tuple)
        and len(value) == len(StepResult._fields)
        and is_scalar(value[0])
        and all(x is None or is_scalar(x) for x in (value[1], value[3]))
        and type(value[2]) is int
        and value[2] >= 0
    )


def is_scalar(value: Any) -> bool:
    """Whether it is a tensor of one number."""
    return isinstance(value, Tensor) and value.shape == ()


def is_amount(value: Any) -> bool:
    """Whether it is a finite number of 0 or more."""
    return type(value) in (int, float) and 0 <= value < math.inf
