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
from torch import Tensor, nn

from vitedu.errors import UserError
from vitedu.files import reason
from vitedu.model import ViT, ViTConfig, lecun_normal, new_network
from vitedu.model.checks import check_fields
from vitedu.model.classifier import LoadReport
from vitedu.model.config import ViTFields
from vitedu.model.position import SinCos2D
from vitedu.model.resize import resize_positions
from vitedu.model.resnet import PoolPadding, ResNet, ResNetConfig
from vitedu.weights.hub import Trained
from vitedu.weights.stored import HINTS, Stored, in_form, read_stored
from vitedu.weights.unknown import pattern_for
from vitedu.weights.vitedu import Checkpoint

# numbers in a table of fixed positions; H/14 has as many at 4,500 pixels
MOST_POSITIONS = 1 << 27


class LoadFields(ViTFields, total=False):
    """The fields that a call of `load` may override, for type checkers."""

    pool_padding: PoolPadding | None  # of a ResNet


# Nearly every file holds a ViT, so that is what a type checker is told; `Any` says
# that a BiT's file gives a ResNet.
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

    "ViT-Ti/16" is in the package and needs no network; other names of the paper's
    Table 1, as "ViT-B/16", names of timm's and models on the hub are downloaded once. A
    file may be vitedu's or a run folder, or in one of the dialects of
    `vitedu.weights.dialects`, which is recognised by its arrays. A BiT's file gives a
    ResNet, all others a ViT. `model.train()` turns dropout on for training.

    The model carries `model.preprocess` (a PreprocessSpec), `model.class_names` (where
    others' files have none, ImageNet's if they are as many: a note says so),
    `model.loss_name` (where the file says what it was trained by) and
    `model.load_report`. GELU, epsilons, preprocessing and the way of resizing are those
    of the file's source, so that the numbers are too.

    An array that neither the network nor its dialect knows is refused. `ignore` is a
    pattern of names, `"extra/*"`, or several: arrays that fit one are left out.

    `overrides` are fields of the configuration. Another `image_size` has the positions
    resized. Another `num_classes` puts a head of zeros in place of the stored one, 0
    none at all, so that the model gives features; the pre-logits layer goes with the
    old head, unless `pre_logits` names its width. Overrides also answer what a file
    cannot say: a sentence asks for them.

    A warning tells of a head of zeros, and of JSON beside the file that says another
    preprocessing.
    UserError: nothing to read at `source`, damaged, NaN or infinity in it, an array
    that nobody knows, or tensors that do not fit the configuration with its overrides.
    Then there is no model at all.
    """
    if not dtype.is_floating_point:
        raise ValueError(f"a model's weights are floats, dtype is {dtype}")
    given = in_form({**overrides})
    hints = {name: given[name] for name in HINTS if name in given}
    stored = read_stored(source, ignore=ignore, **hints)
    config = overridden(stored, given)
    model = skeleton(stored, config)
    state, resized = fitted(stored, config)
    state, dropped, new = with_head(stored, model, state)
    check_tensors(stored.path, state, model.state_dict(), bool(given))
    model.load_state_dict(placed(stored, state, device, dtype), assign=True)
    spec, names = stored.checkpoint.preprocess, stored.checkpoint.class_names
    model.preprocess = replace(spec, image_size=config.image_size)
    model.class_names = names if len(names) == config.num_classes else ()
    has_its_head = config.num_classes == stored.checkpoint.config.num_classes
    model.loss_name = stored.checkpoint.loss_name if has_its_head else None
    if isinstance(model, ViT):
        model.resize_mode = stored.checkpoint.resize_mode
    model.load_report = LoadReport(
        str(stored.path),
        stored.dialect,
        loaded=tuple(x for x in state if x not in new and x not in resized),
        dropped=stored.dropped + dropped,
        new=new,
        resized=resized,
        notes=stored.notes + notes_on(stored, config, new, model),
    )
    return model.eval()


def overridden(
    stored: Stored, overrides: dict[str, Any]
) -> ViTConfig | ResNetConfig:
    """The configuration of the file with its overrides.

    UserError: a field is unknown, or cannot be changed once there are weights.
    """
    before = stored.checkpoint.config
    known = [each.name for each in fields(before)]
    check_fields(type(before).__name__, overrides, known)
    classes = overrides.get("num_classes", before.num_classes)
    if classes != before.num_classes and "pre_logits" in known:
        # the head goes as a whole, as in the authors' fine-tuning load
        overrides = {"pre_logits": None} | overrides
    config = replace(before, **overrides)
    for name in ("patch_size", "in_channels"):
        here, there = getattr(before, name, 0), getattr(config, name, 0)
        if here != there:
            raise UserError(
                f"{stored.path} holds weights for {name} {here}, not {there}; load it "
                "without that override"
            )
    return config


def skeleton(stored: Stored, config: ViTConfig | ResNetConfig) -> ViT | ResNet:
    """The model of a configuration, its weights shapes without numbers.

    UserError: it cannot be built, or would be far larger than the arrays in the file.
    """
    is_resnet = isinstance(config, ResNetConfig)
    depth = sum(config.layers) if is_resnet else config.depth
    num_arrays = len(stored.checkpoint.state_dict)
    if depth > num_arrays:
        raise UserError(
            f"{stored.path} holds {num_arrays} tensors, too few for {depth} layers"
        )
    is_fixed = not is_resnet and isinstance(config.position, SinCos2D)
    if is_fixed and config.num_tokens * config.embed_dim > MOST_POSITIONS:
        raise UserError(
            f"{stored.path}: images of {config.image_size} make {config.num_tokens:,} "
            f"tokens of width {config.embed_dim:,}, a table too large to compute"
        )
    try:
        with torch.device("meta"):
            return new_network(config)
    except (RuntimeError, OverflowError, TypeError) as error:
        raise UserError(
            f"{stored.path}: its network cannot be built: {reason(error)}"
        ) from None


def fitted(
    stored: Stored, config: ViTConfig | ResNetConfig
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The state_dict in float32 or better for the images of `config`, and what changed.

    Positions are resized before they get another dtype, so that they are those which
    their source computes in float32.
    """
    before = stored.checkpoint.config
    state = {}
    for name, tensor in stored.checkpoint.state_dict.items():
        if not tensor.is_floating_point():
            raise UserError(
                f"{stored.path} holds {name} as {tensor.dtype}; weights are floats"
            )
        state[name] = (
            tensor if tensor.dtype == torch.float64 else tensor.float()
        )
    if isinstance(before, ResNetConfig) or before.grid == config.grid:
        return state, ()
    if before.position != config.position:
        return state, ()  # the tables will not fit, and that is said
    mode = stored.checkpoint.resize_mode
    after = resize_positions(state, before, config, mode=mode)
    return after, tuple(x for x in after if after[x] is not state[x])


def with_head(
    stored: Stored, model: ViT | ResNet, state: dict[str, Tensor]
) -> tuple[dict[str, Tensor], tuple[str, ...], tuple[str, ...]]:
    """The state_dict with a head of zeros if `model` has other classes than the file.

    Also the names that went and those that are new. A pre-logits layer of the stored
    width stays; one of another width is drawn, since two layers of zeros stay zeros.
    """
    before, config = stored.checkpoint.config, model.config
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
                f"{path} holds {name} of shape {tuple(tensor.shape)}, the model wants "
                f"{tuple(expected[name].shape)}; {advice}"
            )


def placed(
    stored: Stored,
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
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise UserError(
                f"{stored.path} holds NaN or infinity in {name} (as {dtype}); it was "
                "saved after training failed, or is damaged"
            )
    return state


def notes_on(
    stored: Stored,
    config: ViTConfig | ResNetConfig,
    new: tuple[str, ...],
    model: nn.Module,
) -> tuple[str, ...]:
    """What else is to be known of a loaded model; a head of zeros is warned of too."""
    notes, before = [], stored.checkpoint.config
    if getattr(before, "grid", None) != getattr(config, "grid", None):
        (rows, columns), (to_rows, to_columns) = before.grid, config.grid
        notes.append(
            f"the grid of patches was {rows}x{columns} and is {to_rows}x{to_columns}"
        )
    state = model.state_dict()
    kernel = "head.fc.weight" if "head.fc.weight" in state else "head.weight"
    if kernel in state and kernel not in new and not state[kernel].any():
        note = (
            "its head is all zeros, so every image gets the same logits; train it, or "
            "take the features with num_classes=0"
        )
        notes.append(note)
        warnings.warn(f"{stored.path}: {note}", stacklevel=3)
    return tuple(notes)


def checkpoint_of(model: ViT | ResNet) -> Checkpoint:
    """What `write_weights` needs, from a model that carries preprocess and names."""
    return Checkpoint(
        model.config,
        model.state_dict(),
        model.preprocess,
        model.class_names,
        model.loss_name,
        model.resize_mode if isinstance(model, ViT) else "paper",
    )
