"""A model to a file: `vitedu.save(model, "mine.safetensors")`.

What is written can be loaded: `vitedu.load("mine.safetensors")` gives the same
weights, preprocessing, class names, loss and way of resizing.
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
from vitedu.weights.checkpoint import About
from vitedu.weights.files import json_beside
from vitedu.weights.load import checkpoint_of
from vitedu.weights.vitedu import metadata_of, to_vitedu, write_weights

# what a wrapper calls the network inside: torch.compile, then
# DistributedDataParallel
INSIDE = ("_orig_mod", "module")
# files of a run, whose model.safetensors is its result
OF_A_RUN = ("checkpoint.pt", "log.jsonl", "result.json")


def save(model: nn.Module, path: str | PathLike[str]) -> Path:
    """Write a ViT or ResNet, whole or not at all, to .safetensors; its path.

    The file holds the weights in their own dtype, the configuration,
    `model.preprocess`, `model.class_names`, `model.resize_mode` and that the
    sigmoid's loss trained it, if `model.loss_name` says so: all that `load`
    needs. A file that is there already is replaced. A model inside
    torch.compile, DistributedDataParallel or AveragedModel is taken out of it.
    With several processes, call it in one.

    UserError: `load` would refuse the file, because the weights do not fit
    `model.config` (a head put there by hand, adapters), are not finite or are
    not plain floats, or because class names or preprocessing contradict it; or
    the path is not a new or replaceable .safetensors file. Then nothing is
    written.
    TypeError: the model is not a ViT or ResNet of vitedu.
    """
    network = inside(model)
    checkpoint = checkpoint_of(network)._replace(
        state_dict=plain_state(network),
        preprocess=checked_spec(network),
        class_names=names_of(network),
    )
    try:
        target = checked_path(user_path(path))
    except OSError as error:
        raise UserError(f"cannot write {path}: {reason(error)}") from None
    try:
        to_vitedu({}, About(metadata=metadata_of(checkpoint)))
    except UserError as error:
        raise UserError(f"the model cannot be saved: {error}") from None
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


def plain_state(network: Network) -> dict[str, Tensor]:
    """The state_dict as tensors of its own: on the CPU, contiguous, finite.

    UserError: names or shapes are not those of the configuration, or a tensor
    is not of finite floats.
    """
    state = {
        name.replace("_orig_mod.", ""): tensor  # blocks compiled one by one
        for name, tensor in network.state_dict().items()
    }
    check_fits(state, expected_shapes(network.config), network)
    for name, tensor in state.items():
        kind = type(tensor)
        if kind not in (Tensor, nn.Parameter) or not tensor.is_floating_point():
            raise UserError(
                f"the model cannot be saved: {name} is {kind.__name__} of "
                f"{tensor.dtype}, not a plain tensor of floats; save it before "
                "it is quantised or sharded, or gather it first"
            )
        if tensor.is_meta:
            raise UserError(
                f"the model cannot be saved: {name} is on the meta device and "
                "has no numbers yet"
            )
        # in the dtype that `load` gives a model
        if not torch.isfinite(tensor.detach().float()).all():
            raise UserError(
                f"the model cannot be saved: {name} holds NaN or infinity (as "
                "torch.float32), so training has failed; save an earlier one"
            )
    # a copy, since safetensors takes neither tied tensors nor views
    return {
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in state.items()
    }


def expected_shapes(
    config: NetworkConfig,
) -> dict[str, torch.Size]:
    """Names and shapes of the weights that `load` will look for."""
    with torch.device("meta"):
        built = new_network(config)
    return {name: tensor.shape for name, tensor in built.state_dict().items()}


def check_fits(
    state: dict[str, Tensor],
    expected: dict[str, torch.Size],
    network: Network,
) -> None:
    """UserError naming the first weight that the configuration contradicts."""
    missing = [name for name in expected if name not in state]
    unknown = [name for name in state if name not in expected]
    wrong = [
        name
        for name in expected
        if name in state and state[name].shape != expected[name]
    ]
    found = missing + unknown + wrong
    if not found:
        return
    name = found[0]
    fault = "is missing"
    if name in unknown:
        fault = "has no place in its configuration"
    elif name in wrong:
        fault = (
            f"has shape {tuple(state[name].shape)}, but its configuration says "
            f"{tuple(expected[name])}"
        )
    advice = (
        "a weight that was added or taken away cannot be loaded again (merge "
        "adapters into the weights first)"
    )
    if all(each.startswith("head.") for each in found):
        advice = (
            "call model.reset_classifier(number of classes), which changes "
            "both, and copy the weights of your own head into model.head"
        )
    elif "pos_embed" in name and name in wrong:
        advice = "resize with model.set_input_size, which changes both"
    raise UserError(f"the model cannot be saved: {name} {fault}; {advice}")


def checked_spec(network: Network) -> PreprocessSpec:
    """The preprocessing. UserError: none, or for images of another kind."""
    spec, config = network.preprocess, network.config
    if not isinstance(spec, PreprocessSpec):
        raise UserError(
            "the model cannot be saved: model.preprocess is "
            f"{type(spec).__name__}, not a vitedu.PreprocessSpec"
        )
    given = spec.in_channels, *spec.image_size
    wanted = config.in_channels, *config.image_size
    if given != wanted:
        raise UserError(
            "the model cannot be saved: model.preprocess makes images of "
            f"{given}, but the model takes {wanted} (channels, height, width); "
            "set model.preprocess = PreprocessSpec(...) for these"
        )
    return spec


def names_of(network: Network) -> tuple[str, ...]:
    """The class names. UserError: they aren't strings, or not one per class."""
    num_classes = network.config.num_classes
    try:
        names = checked_names(network.class_names)
    except UserError as error:
        raise UserError(f"the model cannot be saved: {error}") from None
    if names and len(names) != num_classes:
        raise UserError(
            f"the model cannot be saved: it has {num_classes} classes and "
            f"{len(names)} class names; set model.class_names to one for each "
            "class, or to ()"
        )
    return names


def checked_path(path: Path) -> Path:
    """The path. UserError: no .safetensors file can go there, or be loaded."""
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
    for name in ("config.json", "preprocessor_config.json"):
        json_beside(path, name)  # which `load` reads too
    return path
