"""From a file, a folder or a name to a model: `vitedu.load`.

`model = vitedu.load("ViT-B_16.npz", image_size=384, num_classes=10)`
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

import torch
from torch import Tensor

from vitedu.budget.meta import on_meta
from vitedu.data.imagenet import assumed_names
from vitedu.data.readers.folder import is_picture
from vitedu.errors import UserError, check_free, counted, explained
from vitedu.fields import Size, check_names, converted
from vitedu.files import user_path
from vitedu.model import NoPosition, ViT, lecun_normal, new_network
from vitedu.model.classifier import LoadReport, Usage
from vitedu.model.config import ViTFields
from vitedu.model.mae import UnlabelledConfig
from vitedu.model.network import Network
from vitedu.model.resize import resize_positions
from vitedu.model.resnet import PoolPadding
from vitedu.model.vit import take_any_size
from vitedu.weights import hf, hub, npz, torchvision, vitedu
from vitedu.weights.checkpoint import (
    ANSWERS,
    Checkpoint,
    Metadata,
    NetworkConfig,
)
from vitedu.weights.files import Arrays, read_arrays
from vitedu.weights.mapping import listed, note_on_dropped
from vitedu.weights.timm import plain as timm

# The dialects, asked in this order. Each is a module with
#   MARKS        sets of names of arrays; a file that has all of one is its
#   SUFFIXES     of the file that is written; none: a folder with JSON in it
#   POSITIONS    that it can say; others are written as a table where they can
#   to_vitedu(arrays, metadata) -> Checkpoint    uses every array once
#   from_vitedu(checkpoint) -> arrays            its inverse
#   beside(checkpoint) -> {file: content}        the JSON, where there is some
Dialect = Literal["vitedu", "npz", "hf", "torchvision", "timm"]
DIALECTS: dict[Dialect, ModuleType] = {
    "vitedu": vitedu,
    "npz": npz,
    "hf": hf,
    "torchvision": torchvision,
    "timm": timm,
}

# Other architectures: what they are called, and a name that only they have.
# Without it some would pass for a ViT with arrays that may be ignored.
REFUSED = {
    "BEiT": r"relative_position_bias_table$|\.\d+\.lambda_1$",
    "CLIP in OpenAI's spelling (Hugging Face's is read)": r"^visual\.",
    "DINOv3 in Meta's spelling (timm's is read)": r"^storage_tokens$",
    "a DeiT with a distillation token": r"(^|\.)dist(illation)?_token$",
    "a ViT with attention and MLP side by side": r"^blocks\.0\.in_proj\.",
    "a ViT with two attentions side by side": r"^blocks\.0\.attns\.0\.",
    "a ViT with differential attention": r"\.attn\.lambda_[aq]",
    "a ResNet with BatchNorm": r"(^|\.)bn1\.running_mean$",
}


class LoadFields(ViTFields, total=False):
    """The fields that a call of `load` may override, for type checkers."""

    pool_padding: PoolPadding | None  # of a ResNet


class WeightsFile(NamedTuple):
    """A file of weights, read and understood, before any change."""

    path: Path
    dialect: Dialect
    checkpoint: Checkpoint


if TYPE_CHECKING:

    class LoadedViT(ViT):
        """A ViT whose report is there, which a new one's isn't."""

        load_report: LoadReport


# Nearly every file holds a ViT, so that is what a type checker is told; `Any`
# says that a BiT's file gives a ResNet.
def load(
    source: str | PathLike[str],
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    ignore: str | Sequence[str] = (),
    dynamic: bool = False,
    **overrides: Unpack[LoadFields],
) -> "LoadedViT | Any":
    """A trained model in eval mode, from a file, a folder or a name.

    "ViT-Ti/16", "mnist-tiny" (28 x 28 grey digits) and "shapes-small" are in
    the package. Other names from the paper's Table 1, such as "ViT-B/16",
    timm's names and models on the hub are downloaded once. A file or folder is
    vitedu's, or of another of the `DIALECTS`, recognised by its arrays. A BiT
    gives a ResNet, all others a ViT.

    The model carries `preprocess` (a PreprocessSpec), `class_names`
    (ImageNet's if the file has none but as many classes), `loss_name` and
    `load_report`. GELU, epsilons, preprocessing and the way of resizing are the
    source's, so the numbers match too.

    `ignore` is a pattern such as `"extra/*"`, or several, for arrays to leave
    out; any other unknown array is an error. With `dynamic` the model takes
    images of any size that divides into patches: each forward pass resizes the
    positions (timm's `dynamic_img_size`). `overrides` are fields of the
    configuration; some answer what a file cannot say. Another `image_size`
    resizes the positions. Another `num_classes` replaces the head by zeros; 0
    removes it, so that the model gives features. The pre-logits layer goes with
    the old head, unless `pre_logits` names its width. What learned without
    labels is an MAE or an MPP, and with `num_classes` the ViT inside it.

    It warns about a head of zeros, about a number of heads that is guessed from
    the width, and about preprocessing that is contradicted or stated nowhere.
    UserError: nothing to read at `source`, damaged, NaN or infinity in it, an
    array without a place, or tensors that do not fit the configuration.
    """
    if not dtype.is_floating_point:
        raise ValueError(f"a model's weights are floats, dtype is {dtype}")
    given = normalised({**overrides})
    answers = {name: given[name] for name in ANSWERS if name in given}
    stored = read_checkpoint(source, ignore=ignore, **answers)
    if "num_classes" in given:
        stored = stored._replace(checkpoint=classifying(stored.checkpoint))
    path, before = stored.path, stored.checkpoint
    config = overridden(stored, given)
    model = empty_model(stored, config)
    state, resized = resized_state(before, config)
    state, dropped, new = with_head(before.config, model, state)
    check_tensors(path, state, model.state_dict(), bool(given))
    absent = f"device {str(device)!r} is not available"
    with explained(absent, RuntimeError, AssertionError):
        state = {k: x.to(device, dtype).contiguous() for k, x in state.items()}
    check_finite(path, state)
    model.load_state_dict(state, assign=True)
    has_its_head = config.num_classes == before.config.num_classes
    spec, names, loss_name, resize_mode = before.usage
    model.usage = Usage(
        spec.sized(config.image_size, config.in_channels),
        names if len(names) == config.num_classes else (),
        loss_name if has_its_head else None,
        resize_mode,
    )
    model.load_report = LoadReport(
        str(path),
        stored.dialect,
        loaded=tuple(x for x in state if x not in new and x not in resized),
        dropped=before.dropped + dropped,
        new=new,
        resized=resized,
        notes=before.notes + notes_on(stored, model, new),
    )
    if dynamic:
        take_any_size(model)
    return model.eval()


# --- from a source to a Checkpoint


def read_checkpoint(
    source: str | PathLike[str],
    *,
    ignore: str | Sequence[str] = (),
    **answers: Any,
) -> WeightsFile:
    """Read and understand a file; `answers` are Metadata fields it may need."""
    found = find_arrays(source, ignore)
    dialect, metadata = recognise(found), replace(found.metadata, **answers)
    with explained(str(found.path), UserError):
        checkpoint = DIALECTS[dialect].to_vitedu(found.arrays, metadata)
    doubts = (*checkpoint.doubts, *contradictions(checkpoint, metadata))
    for doubt in doubts:
        warnings.warn(f"{found.path}: {doubt}", stacklevel=3)
    config, names, notes = checkpoint.config, checkpoint.class_names, ()
    if not names and dialect != "vitedu":
        names, notes = assumed_names(config.num_classes)
    notes += note_on_dropped(found.ignored, "ignore= matches them")
    checkpoint = checkpoint._replace(
        preprocess=checkpoint.preprocess.sized(
            config.image_size, config.in_channels
        ),
        class_names=names,
        dropped=checkpoint.dropped + found.ignored,
        notes=found.notes + checkpoint.notes + notes + doubts,
    )
    return WeightsFile(found.path, dialect, checkpoint)


def find_arrays(
    source: str | PathLike[str], ignore: str | Sequence[str] = ()
) -> Arrays:
    name = fspath(source)
    path = user_path(name)
    if is_picture(name):
        raise UserError(
            f"{name} is a picture, and weights come first, as in `vitedu "
            f"predict ViT-Ti/16 {name}`"
        )
    with explained(f"cannot read {name}"):
        is_here = path.exists()
    if is_here:
        return read_arrays(path, ignore=ignore)
    found = read_arrays(hub.find(name), ignore=ignore)
    metadata = replace(found.metadata, name=hub.bare_name(name))
    return found._replace(metadata=metadata)


def recognise(found: Arrays) -> Dialect:
    """The dialect of a file. UserError: another architecture, or none known."""
    path, names = found.path, found.arrays.keys()
    if "vitedu" in found.metadata.header:
        return "vitedu"
    for network, pattern in REFUSED.items():
        if any(re.search(pattern, name) for name in names):
            raise UserError(
                f"{path} holds weights of {network}, which isn't a ViT or "
                "BiT of the paper; vitedu doesn't read it"
            )
    for dialect, module in DIALECTS.items():
        if any(marks <= names for marks in module.MARKS):
            return dialect
    raise UserError(
        f"{path} holds {len(names)} arrays ({', '.join(sorted(names)[:4])}, "
        "...) that belong to no known ViT or BiT; known dialects: "
        f"{', '.join(DIALECTS)}"
    )


def contradictions(checkpoint: Checkpoint, metadata: Metadata) -> Iterator[str]:
    size, spec = checkpoint.config.image_size, checkpoint.preprocess
    beside = metadata.preprocessor or metadata.config
    beside = beside.get("pretrained_cfg") or beside  # as timm writes it
    for ours, theirs in (("mean", "image_mean"), ("std", "image_std")):
        stated, used = beside.get(theirs, beside.get(ours)), getattr(spec, ours)
        if isinstance(stated, list) and tuple(stated) != used:
            yield (
                f"the JSON beside it says {ours} {tuple(stated)}, but {used} "
                "is used for these weights; one of them gives wrong answers"
            )
    if spec.image_size != size:
        yield (
            f"its preprocessing says images of {spec.image_size}, its "
            f"positions {size}, which is used"
        )


# --- from a Checkpoint to a model


def classifying(checkpoint: Checkpoint) -> Checkpoint:
    """The ViT inside an MAE or an MPP; any other network as it is."""
    config = checkpoint.config
    if not isinstance(config, UnlabelledConfig):
        return checkpoint
    network, _ = on_meta(new_network, config.encoder)
    state, names = checkpoint.state_dict, network.state_dict()
    return checkpoint._replace(
        config=config.encoder,
        state_dict={name: state[name] for name in names},
        dropped=(*checkpoint.dropped, *(x for x in state if x not in names)),
    )


def normalised(overrides: dict[str, Any]) -> dict[str, Any]:
    if "image_size" in overrides:
        size = converted("image_size", overrides["image_size"], Size)
        overrides = overrides | {"image_size": size}
    if overrides.get("position") == "none":  # as a command line says it
        overrides = overrides | {"position": NoPosition()}
    return overrides


def overridden(stored: WeightsFile, overrides: dict[str, Any]) -> NetworkConfig:
    before = stored.checkpoint.config
    known = [each.name for each in fields(before)]
    check_names(type(before).__name__, overrides, known)
    classes = overrides.get("num_classes", before.num_classes)
    if classes != before.num_classes and "pre_logits" in known:
        # the head goes as a whole, as in the authors' fine-tuning load
        overrides = {"pre_logits": None} | overrides
    return replace(before, **overrides)


def empty_model(stored: WeightsFile, config: NetworkConfig) -> Network:
    """The model of a configuration on the meta device: shapes alone."""
    what, state = f"{stored.path}: its network", stored.checkpoint.state_dict
    model, _ = on_meta(new_network, config, what=what)
    num_new = sum(
        tensor.numel()
        for name, tensor in model.state_dict().items()
        if name not in state or state[name].shape != tensor.shape
    )
    # positions are resized in float64, where there are up to three of them
    check_free(24 * num_new, what, "load it where there is more memory")
    return model


def resized_state(
    before: Checkpoint, config: NetworkConfig
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    halves = (torch.float16, torch.bfloat16)
    state = {
        name: tensor.float() if tensor.dtype in halves else tensor
        for name, tensor in before.state_dict.items()
    }
    # tables of another kind of positions will not fit, which a sentence says
    old = before.config
    if getattr(old, "position", None) != getattr(config, "position", None):
        return state, ()
    after = resize_positions(state, old, config, mode=before.resize_mode)
    return after, tuple(x for x in after if after[x] is not state[x])


def with_head(
    before: NetworkConfig, model: Network, state: dict[str, Tensor]
) -> tuple[dict[str, Tensor], tuple[str, ...], tuple[str, ...]]:
    """The state_dict, its head zeros if `model`'s classes aren't the file's.

    Also the removed and the new names. A pre-logits layer of the stored width
    stays; one of another width is random, since two layers of zeros stay zeros.
    """
    config = model.config
    if config.num_classes == before.num_classes:
        return state, (), ()
    width = getattr(config, "pre_logits", None)
    stays = width is not None and width == before.pre_logits
    parts = ("head.",) if stays else ("head.", "pre_logits.")
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
    advice = (
        "load it without that override" if is_overridden else "it is damaged"
    )
    missing = sorted(expected.keys() - state.keys())
    unknown = sorted(state.keys() - expected.keys())
    if missing or unknown:
        raise UserError(
            f"{path} does not fit its model: {counted(len(missing), 'tensor')} "
            f"missing, {len(unknown)} unknown "
            f"({listed(missing + unknown, most=3)}); {advice}"
        )
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            raise UserError(
                f"{path} holds {name} as {tensor.dtype}; weights are floats"
            )
        if tensor.shape != expected[name].shape:
            raise UserError(
                f"{path} holds {name} of shape {tuple(tensor.shape)}, the "
                f"model wants {tuple(expected[name].shape)}; {advice}"
            )


def check_finite(path: Path, state: dict[str, Tensor]) -> None:
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise UserError(
                f"{path} holds NaN or infinity in {name} (as {tensor.dtype}); "
                "it was saved after training failed, or is damaged"
            )


def notes_on(
    stored: WeightsFile, model: Network, new: tuple[str, ...]
) -> tuple[str, ...]:
    notes: tuple[str, ...] = ()
    before, config = stored.checkpoint.config, model.config
    if getattr(before, "grid", None) != getattr(config, "grid", None):
        was, now = ("{}x{}".format(*each.grid) for each in (before, config))
        notes += (f"the grid of patches was {was} and is {now}",)
    name = f"{model.head_name}.weight"
    kernel = model.state_dict().get(name)
    if kernel is not None and name not in new and not kernel.any():
        notes += (
            "its head is all zeros, so every image gets the same logits; train "
            "it, or take the features with num_classes=0",
        )
        warnings.warn(f"{stored.path}: {notes[-1]}", stacklevel=3)
    return notes
