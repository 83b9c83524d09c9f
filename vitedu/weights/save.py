"""A model to a file: `vitedu.save(model, "mine.safetensors")`.

`vitedu.load` gives back the same weights, preprocessing, class names, loss and
way of resizing.
"""

import os
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from vitedu.errors import UserError, explained
from vitedu.files import user_path
from vitedu.model import Classifier, new_network
from vitedu.model.network import Network, NetworkConfig
from vitedu.weights.checkpoint import Checkpoint, Metadata, checkpoint_of
from vitedu.weights.vitedu import header_of, to_vitedu, write_weights

# a wrapper's attribute for its network: torch.compile's, then
# DistributedDataParallel's
INSIDE = ("_orig_mod", "module")
# files of a run, whose model.safetensors is its result
OF_A_RUN = ("checkpoint.pt", "log.jsonl", "result.json")


def save(model: nn.Module, path: str | PathLike[str]) -> Path:
    """Write a ViT or ResNet, whole or not at all, to .safetensors; its path.

    The file holds all that `load` needs, the weights in their own dtype. An
    existing file is replaced. A model inside torch.compile,
    DistributedDataParallel or AveragedModel is unwrapped. With several
    processes, call it in one.

    UserError: `load` would refuse the file: the weights don't fit
    `model.config` (a head added by hand, adapters), aren't finite floats, or
    class names or preprocessing contradict it; or it can't be written there.
    TypeError: the model is not a ViT or ResNet of vitedu.
    """
    checkpoint = savable(model)
    target = checked_path(user_path(path))
    write_weights(target, checkpoint)
    return target


def savable(model: nn.Module, caller: str = "save") -> Checkpoint:
    """What a file of the model holds, checked as `load` does."""
    network = inside(model, caller)
    with explained("the model cannot be saved", UserError):
        checkpoint = checkpoint_of(network)._replace(
            state_dict=plain_state(network)
        )
        header = header_of(checkpoint)
        to_vitedu(checkpoint.state_dict, Metadata(header=header))
    return checkpoint


def inside(model: nn.Module, caller: str = "save") -> Network:
    """The network inside its wrappers. TypeError: it is not vitedu's."""
    network: object = model
    while not isinstance(network, Classifier):
        held = (getattr(network, name, None) for name in INSIDE)
        network = next((x for x in held if isinstance(x, nn.Module)), None)
        if network is None:
            raise TypeError(
                f"{caller} takes a ViT or ResNet of vitedu, got "
                f"{type(model).__name__}; give the network inside it (with "
                "adapters of peft: model.merge_and_unload())"
            )
    return network


def plain_state(network: Network) -> dict[str, Tensor]:
    """The state_dict as copies: on the CPU, contiguous, finite."""
    state = {
        name.replace("_orig_mod.", ""): tensor  # blocks compiled one by one
        for name, tensor in network.state_dict().items()
    }
    check_fits(state, expected_shapes(network.config))
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            raise UserError(
                f"{name} is of {tensor.dtype}, not of floats; save it before "
                "it is quantised"
            )
        # in the dtype that `load` gives a model
        if not torch.isfinite(tensor.detach().float()).all():
            raise UserError(
                f"{name} holds NaN or infinity (as torch.float32), so training "
                "has failed; save an earlier one"
            )
    # a copy, since safetensors takes neither tied tensors nor views
    return {
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in state.items()
    }


def expected_shapes(config: NetworkConfig) -> dict[str, torch.Size]:
    with torch.device("meta"):
        built = new_network(config)
    return {name: tensor.shape for name, tensor in built.state_dict().items()}


def check_fits(
    state: dict[str, Tensor], expected: dict[str, torch.Size]
) -> None:
    held = {name: tensor.shape for name, tensor in state.items()}
    wrong = [x for x in expected | held if held.get(x) != expected.get(x)]
    if not wrong:
        return
    name = wrong[0]
    advice = (
        "a weight that was added or taken away cannot be loaded again (merge "
        "adapters into the weights first)"
    )
    if all(each.startswith("head.") for each in wrong):
        advice = (
            "call model.reset_classifier(number of classes), which changes "
            "both, and copy the weights of your own head into model.head"
        )
    elif "pos_embed" in name and name in held:
        advice = "resize with model.set_input_size, which changes both"
    if name not in held:
        fault = "is missing"
    elif name not in expected:
        fault = "has no place in its configuration"
    else:
        fault = (
            f"has shape {tuple(held[name])}, but its configuration says "
            f"{tuple(expected[name])}"
        )
    raise UserError(f"{name} {fault}; {advice}")


def checked_path(path: Path) -> Path:
    if path.suffix != ".safetensors":
        raise UserError(
            f"{path} does not end in .safetensors; vitedu.save writes that "
            "format, vitedu.weights.convert others"
        )
    is_run = any(os.path.isfile(path.with_name(name)) for name in OF_A_RUN)
    if is_run and path.name == "model.safetensors":
        raise UserError(
            f"{path} belongs to the run in that folder; save under another name"
        )
    return path
