"""From a file to a model: `vitedu.load`."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from vitedu.errors import UserError
from vitedu.model import ViT, lecun_normal
from vitedu.model.checks import check_fields
from vitedu.weights.vitedu import Checkpoint, read_weights


class LoadReport(NamedTuple):
    """What became of the tensors of a file."""

    source: str
    dialect: str
    loaded: tuple[str, ...]  # taken over unchanged
    dropped: tuple[str, ...]  # in the file, not in the model
    new: tuple[str, ...]  # in the model, not in the file


def load(
    source: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    **overrides: Any,
) -> ViT:
    """A model ready for use from a safetensors file of vitedu or a run folder.

    It is in eval mode and carries `model.preprocess` (a PreprocessSpec),
    `model.class_names` and `model.load_report`. `overrides` are ViTConfig fields;
    another `num_classes` puts a head of zeros in place of the stored one.

    UserError: nothing to read at `source`, or its tensors do not fit the
    configuration with its overrides.
    """
    path = weights_file(source)
    checkpoint = read_weights(path)
    config, state = checkpoint.config, dict(checkpoint.state_dict)
    check_fields("ViTConfig", overrides, config.to_json())
    for name in ("image_size", "patch_size", "in_channels"):
        here = getattr(config, name)
        there = getattr(replace(config, **overrides), name)
        if there != here:
            raise UserError(
                f"{path} holds weights for {name} {here}, not {there}; fitting them "
                "to another size is not done yet, load it without that override"
            )
    new_head = (
        overrides.get("num_classes", config.num_classes) != config.num_classes
    )
    if new_head:
        # the head goes as a whole, as in the authors' fine-tuning load
        overrides = {"pre_logits": None} | overrides
    with torch.device("meta"):
        model = ViT(replace(config, **overrides))
    expected = model.state_dict()
    dropped, new = (), ()
    if new_head:
        head = ("head.", "pre_logits.")
        dropped = tuple(name for name in state if name.startswith(head))
        new = tuple(name for name in expected if name.startswith(head))
        state = {name: state[name] for name in state if name not in dropped}
        state |= {name: torch.zeros(expected[name].shape) for name in new}
        if "pre_logits.fc.weight" in state:
            # two layers of zeros would stay zeros
            lecun_normal(state["pre_logits.fc.weight"])
    check_tensors(path, state, expected, bool(overrides))
    try:
        state = {
            name: tensor.to(device, dtype) for name, tensor in state.items()
        }
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"device {str(device)!r} is not there: {reason}"
        ) from None
    model.load_state_dict(state, assign=True)
    model.preprocess = checkpoint.preprocess
    model.class_names = () if new_head else checkpoint.class_names
    loaded = tuple(name for name in state if name not in new)
    model.load_report = LoadReport(str(path), "vitedu", loaded, dropped, new)
    return model.eval()


def weights_file(source: str | Path) -> Path:
    """The file of weights that `source` names. UserError: there is none."""
    path = Path(source)
    if path.is_dir():
        if not (path / "model.safetensors").is_file():
            raise UserError(
                f"{path} holds no model.safetensors; a run writes it when it is done"
            )
        return path / "model.safetensors"
    if not path.is_file():
        raise UserError(
            f"there is no file or run folder {str(source)!r}; names of models on a "
            "hub are not read yet, give the path of a file"
        )
    return path


def check_tensors(
    path: Path,
    state: dict[str, torch.Tensor],
    expected: dict[str, torch.Tensor],
    is_overridden: bool,
) -> None:
    """UserError unless names and shapes of `state` are those `expected`."""
    missing = sorted(expected.keys() - state.keys())
    extra = sorted(state.keys() - expected.keys())
    if missing or extra:
        raise UserError(
            f"{path} does not fit its model: {len(missing)} tensors missing "
            f"({', '.join(missing[:3])}), {len(extra)} unknown ({', '.join(extra[:3])})"
        )
    advice = (
        "load it without that override" if is_overridden else "it is damaged"
    )
    for name, tensor in state.items():
        if tensor.shape != expected[name].shape:
            raise UserError(
                f"{path} holds {name} of shape {tuple(tensor.shape)}, the model wants "
                f"{tuple(expected[name].shape)}; {advice}"
            )


def checkpoint_of(model: ViT) -> Checkpoint:
    """What `write_weights` needs, from a model that carries preprocess and names."""
    return Checkpoint(
        model.config, model.state_dict(), model.preprocess, model.class_names
    )
