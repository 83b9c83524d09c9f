"""A model to a file: `vitedu.save(model, "mine.safetensors")`.

`vitedu.load` gives back the same weights, preprocessing, class names, loss and
way of resizing.
"""

from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from vitedu.errors import UserError, reason
from vitedu.files import user_path
from vitedu.model import Classifier, new_network
from vitedu.model.classifier import checked_names
from vitedu.model.network import Network, NetworkConfig
from vitedu.pictures import PreprocessSpec
from vitedu.weights.checkpoint import Metadata, checkpoint_of
from vitedu.weights.vitedu import header_of, to_vitedu, write_weights

# a wrapper's attribute for its network: torch.compile's, then
# DistributedDataParallel's
INSIDE = ("_orig_mod", "module")
# files of a run, whose model.safetensors is its result
OF_A_RUN = ("checkpoint.pt", "log.jsonl", "result.json")


def save(model: nn.Module, path: str | PathLike[str]) -> Path:
    """Write a ViT or ResNet, whole or not at all, to .safetensors; its path.

    The file holds all that `load` needs: the weights in their own dtype, the
    configuration, `model.preprocess`, `class_names`, `resize_mode` and
    `loss_name`. An existing file is replaced. A model inside torch.compile,
    DistributedDataParallel or AveragedModel is unwrapped. With several
    processes, call it in one.

    UserError: `load` would refuse the file: the weights don't fit
    `model.config` (a head added by hand, adapters), aren't finite or plain
    floats, or class names or preprocessing contradict it; or no .safetensors
    file can go there.
    TypeError: the model is not a ViT or ResNet of vitedu.
    """
    network = inside(model)
    try:
        check_described(network)
        checkpoint = checkpoint_of(network)._replace(
            state_dict=plain_state(network),
            class_names=checked_names(network.class_names),
        )
        to_vitedu({}, Metadata(header=header_of(checkpoint)))
    except UserError as error:
        raise UserError(f"the model cannot be saved: {error}") from None
    try:
        target = checked_path(user_path(path))
    except OSError as error:
        raise UserError(f"cannot write {path}: {reason(error)}") from None
    write_weights(target, checkpoint)
    return target


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


def check_described(network: Network) -> None:
    spec, config = network.preprocess, network.config
    if not isinstance(spec, PreprocessSpec):
        raise UserError(
            f"model.preprocess is {type(spec).__name__}, not a "
            "vitedu.PreprocessSpec"
        )
    given = spec.in_channels, *spec.image_size
    wanted = config.in_channels, *config.image_size
    if given != wanted:
        raise UserError(
            f"model.preprocess makes images of {given}, but the model takes "
            f"{wanted} (channels, height, width); set model.preprocess = "
            "PreprocessSpec(...) for these"
        )
    names, num_classes = checked_names(network.class_names), config.num_classes
    if names and len(names) != num_classes:
        raise UserError(
            f"it has {num_classes} classes and {len(names)} class names; set "
            "model.class_names to one for each class, or to ()"
        )


def plain_state(network: Network) -> dict[str, Tensor]:
    """The state_dict as copies: on the CPU, contiguous, finite."""
    state = {
        name.replace("_orig_mod.", ""): tensor  # blocks compiled one by one
        for name, tensor in network.state_dict().items()
    }
    check_fits(state, expected_shapes(network.config))
    for name, tensor in state.items():
        kind = type(tensor)
        if kind not in (Tensor, nn.Parameter) or not tensor.is_floating_point():
            raise UserError(
                f"{name} is {kind.__name__} of {tensor.dtype}, not a plain "
                "tensor of floats; save it before it is quantised or sharded, "
                "or gather it first"
            )
        if tensor.is_meta:
            raise UserError(
                f"{name} is on the meta device and has no numbers yet"
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
    faults = {name: "is missing" for name in expected if name not in state}
    for name in state.keys() - expected.keys():
        faults[name] = "has no place in its configuration"
    for name in expected.keys() & state.keys():
        if state[name].shape != expected[name]:
            faults[name] = (
                f"has shape {tuple(state[name].shape)}, but its configuration "
                f"says {tuple(expected[name])}"
            )
    if not faults:
        return
    name = next(x for x in [*expected, *state] if x in faults)
    advice = (
        "a weight that was added or taken away cannot be loaded again (merge "
        "adapters into the weights first)"
    )
    if all(each.startswith("head.") for each in faults):
        advice = (
            "call model.reset_classifier(number of classes), which changes "
            "both, and copy the weights of your own head into model.head"
        )
    elif "pos_embed" in name and name in state:
        advice = "resize with model.set_input_size, which changes both"
    raise UserError(f"{name} {faults[name]}; {advice}")


def checked_path(path: Path) -> Path:
    if path.is_dir():
        raise UserError(
            f"{path} is a folder; name a file in it, such as "
            f"{path / 'model.safetensors'}"
        )
    if path.suffix != ".safetensors":
        raise UserError(
            f"{path} does not end in .safetensors; vitedu.save writes that "
            "format, vitedu.weights.convert others"
        )
    folder = path.parent
    if not folder.is_dir():
        raise UserError(f"the folder {folder} does not exist; create it first")
    is_run = any((folder / name).is_file() for name in OF_A_RUN)
    if is_run and path.name == "model.safetensors":
        raise UserError(
            f"{path} belongs to the run in that folder; save under another name"
        )
    return path
