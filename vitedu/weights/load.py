"""From a file, a folder or a name to a model: `vitedu.load`.

`model = vitedu.load("ViT-B_16.npz", image_size=384, num_classes=10)`
"""

import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, Unpack, overload

import torch
from torch import Tensor

from vitedu.budget import parameters
from vitedu.budget.building import table_bytes
from vitedu.errors import UserError, check_memory, reason
from vitedu.fields import Size, check_names, converted
from vitedu.model import NoPosition, SinCos2D, ViT, lecun_normal, new_network
from vitedu.model.classifier import LoadReport
from vitedu.model.config import ViTConfig, ViTFields
from vitedu.model.network import Network
from vitedu.model.resize import resize_positions
from vitedu.model.resnet import PoolPadding
from vitedu.weights.checkpoint import ANSWERS, Checkpoint, NetworkConfig
from vitedu.weights.hub import Trained
from vitedu.weights.leftovers import pattern_for
from vitedu.weights.read import WeightsFile, read_checkpoint

# Numbers in a table of fixed positions, which is computed whatever a file
# holds; H/14 has as many at 3,200 pixels.
MOST_POSITIONS = 1 << 26


class LoadFields(ViTFields, total=False):
    """The fields that a call of `load` may override, for type checkers."""

    pool_padding: PoolPadding | None  # of a ResNet


# Nearly every file holds a ViT, so that is what a type checker is told; `Any`
# says that a BiT's file gives a ResNet.
@overload
def load(
    source: Trained,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    ignore: str | Sequence[str] = (),
    **overrides: Unpack[LoadFields],
) -> ViT: ...
@overload
def load(
    source: str | PathLike[str],
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    ignore: str | Sequence[str] = (),
    **overrides: Unpack[LoadFields],
) -> ViT | Any: ...
def load(
    source: str | PathLike[str],
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    ignore: str | Sequence[str] = (),
    **overrides: Unpack[LoadFields],
) -> ViT | Any:
    """A trained model in eval mode, from a file, a folder or a name.

    "ViT-Ti/16" is in the package and needs no network, nor do "mnist-tiny" (28
    x 28 grey digits) and "shapes-small"; other names of the paper's Table 1, as
    "ViT-B/16", names of timm's and models on the hub are downloaded once. A
    file may be vitedu's or a run folder, or in one of the dialects of
    `vitedu.weights.dialects`, which is recognised by its arrays. A BiT's file
    gives a ResNet, all others a ViT. `model.train()` turns dropout on for
    training.

    The model carries `model.preprocess` (a PreprocessSpec), `model.class_names`
    (where others' files have none, ImageNet's if they are as many: a note says
    so), `model.loss_name` (where the file says what it was trained by) and
    `model.load_report`. GELU, epsilons, preprocessing and the way of resizing
    are those of the file's source, so that the numbers are too.

    An array that neither the network nor its dialect knows is refused. `ignore`
    is a pattern of names, `"extra/*"`, or several: arrays that fit one are left
    out.

    `overrides` are fields of the configuration. Another `image_size` has the
    positions resized. Another `num_classes` puts a head of zeros in place of
    the stored one, 0 none at all, so that the model gives features; the
    pre-logits layer goes with the old head, unless `pre_logits` names its
    width. Overrides also answer what a file cannot say: a sentence asks for
    them.

    A warning says so if the head is all zeros, if the JSON beside the file says
    another preprocessing, or if nothing does.
    UserError: nothing to read at `source`, damaged, NaN or infinity in it, an
    array without a place, or tensors that do not fit the configuration with its
    overrides. Then there is no model at all.
    """
    if not dtype.is_floating_point:
        raise ValueError(f"a model's weights are floats, dtype is {dtype}")
    given = in_kept_form({**overrides})
    answers = {name: given[name] for name in ANSWERS if name in given}
    stored = read_checkpoint(source, ignore=ignore, **answers)
    checkpoint, config = stored.checkpoint, overridden(stored, given)
    model = empty_model(stored, config)
    state, resized = resized_state(stored, config)
    state, dropped, new = with_head(checkpoint.config, model, state)
    check_tensors(stored.path, state, model.state_dict(), bool(given))
    model.load_state_dict(placed(stored, state, device, dtype), assign=True)
    names, loss_name = checkpoint.class_names, checkpoint.loss_name
    has_its_head = config.num_classes == checkpoint.config.num_classes
    model.preprocess = checkpoint.preprocess.sized(
        config.image_size, config.in_channels
    )
    model.class_names = names if len(names) == config.num_classes else ()
    model.loss_name = loss_name if has_its_head else None
    model.resize_mode = checkpoint.resize_mode
    model.load_report = LoadReport(
        str(stored.path),
        stored.dialect,
        loaded=tuple(x for x in state if x not in new and x not in resized),
        dropped=checkpoint.dropped + dropped,
        new=new,
        resized=resized,
        notes=checkpoint.notes + notes_on(stored, model, new),
    )
    return model.eval()


def in_kept_form(overrides: dict[str, Any]) -> dict[str, Any]:
    """The overrides: image size as a pair, positions "none" as its object."""
    overrides = dict(overrides)
    if "image_size" in overrides:
        size = converted("image_size", overrides["image_size"], Size)
        overrides["image_size"] = size
    if overrides.get("position") == "none":  # as a command line says it
        overrides["position"] = NoPosition()
    return overrides


def overridden(stored: WeightsFile, overrides: dict[str, Any]) -> NetworkConfig:
    """The configuration of the file with its overrides.

    UserError: a field is unknown, or cannot be changed once there are weights.
    """
    before = stored.checkpoint.config
    known = [each.name for each in fields(before)]
    check_names(type(before).__name__, overrides, known)
    classes = overrides.get("num_classes", before.num_classes)
    if classes != before.num_classes and "pre_logits" in known:
        # the head goes as a whole, as in the authors' fine-tuning load
        overrides = {"pre_logits": None} | overrides
    config = replace(before, **overrides)
    for name in ("patch_size", "in_channels"):
        here, there = getattr(before, name, 0), getattr(config, name, 0)
        if here != there:
            raise UserError(
                f"{stored.path} holds weights for {name} {here}, not {there}; "
                "load it without that override"
            )
    return config


def empty_model(stored: WeightsFile, config: NetworkConfig) -> Network:
    """The model of a configuration, its weights shapes without numbers.

    UserError: it cannot be built, has far more layers than the file has arrays,
    or needs more memory than is free.
    """
    num_arrays = len(stored.checkpoint.state_dict)
    if config.num_layers > num_arrays:
        raise UserError(
            f"{stored.path} holds {num_arrays} tensors, too few for "
            f"{config.num_layers} layers"
        )
    is_fixed = isinstance(getattr(config, "position", None), SinCos2D)
    if is_fixed and config.num_tokens * config.embed_dim > MOST_POSITIONS:
        raise UserError(
            f"{stored.path}: images of {config.image_size} make "
            f"{config.num_tokens:,} tokens of width {config.embed_dim:,}, a "
            "table too large to compute"
        )
    check_memory(
        bytes_to_add(stored, config),
        f"{stored.path}: its network",
        "load it where there is more memory",
    )
    try:
        with torch.device("meta"):
            return new_network(config)
    except (RuntimeError, OverflowError, TypeError) as error:
        raise UserError(
            f"{stored.path}: its network cannot be built: {reason(error)}"
        ) from None


def bytes_to_add(stored: WeightsFile, config: NetworkConfig) -> int:
    """Bytes that a network takes besides its file's tensors, which it keeps.

    Positions are resized in float64, where the new table is held up to three
    times.
    """
    num_held = sum(
        tensor.numel()
        for tensor in stored.checkpoint.state_dict.values()
        if tensor.dtype in (torch.float32, torch.float64)
    )
    num_new = max(parameters(config).total - num_held, 0)
    before, resizing = stored.checkpoint.config, 0
    if isinstance(config, ViTConfig) and config.image_size != before.image_size:
        names = stored.checkpoint.state_dict
        if any(name.endswith("pos_embed") for name in names):
            resizing = 24 * config.num_tokens * config.embed_dim
    return table_bytes(config) + 4 * num_new + resizing


def resized_state(
    stored: WeightsFile, config: NetworkConfig
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The state_dict in float32 or better for `config`'s images; what changed.

    Positions are resized before they get another dtype, so that they are those
    which their source computes in float32.
    """
    before, mode = stored.checkpoint.config, stored.checkpoint.resize_mode
    check_floats(stored)
    state = {
        name: tensor if tensor.dtype == torch.float64 else tensor.float()
        for name, tensor in stored.checkpoint.state_dict.items()
    }
    # tables of another kind of positions will not fit, which a sentence says
    if getattr(before, "position", None) != getattr(config, "position", None):
        return state, ()
    after = resize_positions(state, before, config, mode=mode)
    return after, tuple(x for x in after if after[x] is not state[x])


def with_head(
    before: NetworkConfig, model: Network, state: dict[str, Tensor]
) -> tuple[dict[str, Tensor], tuple[str, ...], tuple[str, ...]]:
    """The state_dict, its head zeros if `model`'s classes aren't the file's.

    Also the names that went and those that are new. A pre-logits layer of the
    stored width stays; one of another width is drawn, since two layers of zeros
    stay zeros.
    """
    config = model.config
    if config.num_classes == before.num_classes:
        return state, (), ()
    parts: tuple[str, ...] = ("head.",)
    width = getattr(config, "pre_logits", None)
    if width is None or width != before.pre_logits:
        parts = ("head.", "pre_logits.")
    dropped = tuple(name for name in state if name.startswith(parts))
    head = {
        name: torch.zeros(weight.shape)
        for name, weight in model.state_dict().items()
        if name.startswith(parts)
    }
    if "pre_logits.fc.weight" in head:
        lecun_normal(head["pre_logits.fc.weight"])
    body = {name: state[name] for name in state if name not in dropped}
    return body | head, dropped, tuple(head)


def check_tensors(
    path: Path,
    state: dict[str, Tensor],
    expected: dict[str, Tensor],
    is_overridden: bool,
) -> None:
    """UserError unless names and shapes of `state` are those `expected`."""
    missing = sorted(expected.keys() - state.keys())
    extra = sorted(state.keys() - expected.keys())
    advice = (
        "load it without that override" if is_overridden else "it is damaged"
    )
    if missing or extra:
        wrong = []
        if missing:
            tensors = (
                "1 tensor" if len(missing) == 1 else f"{len(missing)} tensors"
            )
            wrong.append(f"{tensors} missing ({', '.join(missing[:3])})")
        if extra:
            wrong.append(f"{len(extra)} unknown ({', '.join(extra[:3])})")
        if not missing and not is_overridden:
            pattern = pattern_for(extra, {*expected})
            advice = f'leave out what it does not need: ignore="{pattern}"'
        raise UserError(
            f"{path} does not fit its model: {', '.join(wrong)}; {advice}"
        )
    for name, tensor in state.items():
        if tensor.shape != expected[name].shape:
            raise UserError(
                f"{path} holds {name} of shape {tuple(tensor.shape)}, the "
                f"model wants {tuple(expected[name].shape)}; {advice}"
            )


def placed(
    stored: WeightsFile,
    state: dict[str, Tensor],
    device: str | torch.device,
    dtype: torch.dtype,
) -> dict[str, Tensor]:
    """The state_dict on its device and in its dtype.

    UserError: the device is not available, or a tensor holds NaN or infinity.
    """
    try:
        state = {
            name: tensor.to(device, dtype).contiguous()
            for name, tensor in state.items()
        }
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            f"device {str(device)!r} is not available: {reason(error)}"
        ) from None
    check_finite(stored, state)
    return state


def check_floats(stored: WeightsFile) -> None:
    """UserError naming the first tensor of other numbers than floats."""
    for name, tensor in stored.checkpoint.state_dict.items():
        if not tensor.is_floating_point():
            raise UserError(
                f"{stored.path} holds {name} as {tensor.dtype}; weights are "
                "floats"
            )


def check_finite(stored: WeightsFile, state: dict[str, Tensor]) -> None:
    """UserError naming the first tensor that holds NaN or infinity."""
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise UserError(
                f"{stored.path} holds NaN or infinity in {name} (as "
                f"{tensor.dtype}); it was saved after training failed, or is "
                "damaged"
            )


def notes_on(
    stored: WeightsFile, model: Network, new: tuple[str, ...]
) -> tuple[str, ...]:
    """What else a loaded model's report says; it warns of a head of zeros."""
    notes = []
    before, config = stored.checkpoint.config, model.config
    if getattr(before, "grid", None) != getattr(config, "grid", None):
        (rows, columns), (to_rows, to_columns) = before.grid, config.grid
        notes.append(
            f"the grid of patches was {rows}x{columns} and is "
            f"{to_rows}x{to_columns}"
        )
    state = model.state_dict()
    kernel = "head.fc.weight" if "head.fc.weight" in state else "head.weight"
    if kernel in state and kernel not in new and not state[kernel].any():
        note = (
            "its head is all zeros, so every image gets the same logits; train "
            "it, or take the features with num_classes=0"
        )
        notes.append(note)
        warnings.warn(f"{stored.path}: {note}", stacklevel=3)
    return tuple(notes)


def checkpoint_of(model: Network) -> Checkpoint:
    """What `write_weights` needs, from a model with preprocess and names."""
    return Checkpoint(
        model.config,
        model.state_dict(),
        model.preprocess,
        model.class_names,
        model.loss_name,
        model.resize_mode,
    )
