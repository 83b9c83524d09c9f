"""Reads files of weights without running code from them.

`read_arrays("model.safetensors").arrays` maps names to tensors.
"""

import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError, check_memory, reason
from vitedu.files import check_regular, list_folder, read_json, user_path
from vitedu.weights.checkpoint import Metadata
from vitedu.weights.mapping import listed, refusal

# prefixes that training programs add to names, removed one at a time
WRAPPERS = ("module.", "_orig_mod.", "model.")
# files in a folder of weights; the first wins
IN_FOLDER = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
PICKLED = (".pth", ".pt", ".bin", ".ckpt")
SUFFIXES = (".npz", ".safetensors", *PICKLED)
BEST = "best.safetensors"  # in the folder of a run with keep=best

# Keys of a checkpoint: the model, and training state that we don't need.
CONTAINERS = ("state_dict", "model_state_dict", "model_state", "model", "net")
TRAINING = re.compile(
    r"optim|^opt($|_)|sched|scaler|scaling|^loops$|^callbacks$"
    r"|(^|_)(ema|rng)($|_)",
    re.IGNORECASE,
)
# Releases that fixed a way past torch.load's weights_only, and the CVE.
FAULTS = {(2, 6): "CVE-2025-32434", (2, 10): "CVE-2026-24747"}


class Arrays(NamedTuple):
    """The arrays of a file of weights, and what is known about them."""

    arrays: dict[str, Tensor]  # on the CPU, in the precision of the file
    metadata: Metadata
    path: Path  # the file that was read
    notes: tuple[str, ...] = ()  # what was left out, a sentence each
    ignored: tuple[str, ...] = ()  # names of arrays that `ignore` left out


class Content(NamedTuple):
    arrays: dict[str, Tensor]
    header: dict[str, str]  # of safetensors
    notes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # names of arrays outside the state_dict


def read_arrays(
    source: str | PathLike[str], *, ignore: str | Sequence[str] = ()
) -> Arrays:
    """Read a file of weights, or the one in a folder.

    A file is .npz, .safetensors, a torch file (.pth, .pt, .bin, .ckpt) or an
    index of shards (.index.json); with any other suffix it is read as
    safetensors. A folder is a run folder, one written by Hugging Face or timm,
    or holds a single file of weights. A prefix of all names, such as "module.",
    is removed. Arrays whose names match a pattern in `ignore` (`"extra/*"`) are
    left out.

    UserError: nothing to read there, damaged, too large for the memory,
    containing more than arrays, or arrays that are neither in the state_dict
    nor training state; a pattern matches no array.
    """
    patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(
                "ignore takes patterns of names such as 'extra/*', got "
                f"{pattern!r}"
            )
    source = user_path(source)
    path = weights_file(source)
    is_index = path.name.endswith(".index.json")
    content = read_shards(path) if is_index else read_file(path)
    notes = content.notes
    if path.name == BEST and path != source:
        notes += (
            f"the run in {path.parent} is not done, so {BEST} was read: the "
            "best weights so far on its validation part",
        )
    arrays, ignored = without_ignored(path, content, patterns)
    if not arrays:
        left = " that ignore= leaves" if ignored else ""
        raise UserError(f"{path} doesn't contain any arrays{left}")
    metadata = Metadata(
        name_of(path),
        content.header,
        json_beside(path, "config.json"),
        json_beside(path, "preprocessor_config.json"),
    )
    return Arrays(arrays, metadata, path, notes, ignored)


# --- which file


def weights_file(path: Path) -> Path:
    try:
        if not path.exists():
            raise UserError(f"there is no file or run folder {str(path)!r}")
        if not path.is_dir():
            return path
    except OSError as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from None
    held = list_folder(path)
    for name in IN_FOLDER:
        if name in held:
            return path / name
    # a run that is not done holds checkpoint.pt, which is more than weights
    suffixes = (".npz", ".safetensors", ".pth")
    files = [name for name in held if Path(name).suffix in suffixes]
    if len(files) > 1:
        raise UserError(
            f"{path} holds {len(files)} files of weights "
            f"({', '.join(files[:4])}); give the path of one"
        )
    if not files:
        raise UserError(
            f"{path} doesn't contain model.safetensors or another file of "
            "weights; a run writes it when it is done"
        )
    return path / files[0]


def name_of(path: Path) -> str:
    """A file's stem; its folder's name if that is only "model"."""
    name = path.name.removesuffix(".index.json")
    name = name.removesuffix(Path(name).suffix) if has_suffix(name) else name
    name = re.sub(r"\.(fp16|bf16|fp32)$", "", name)
    if name in ("model", "pytorch_model"):
        return path.absolute().parent.name
    return name


def has_suffix(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES


def json_beside(path: Path, name: str) -> dict[str, Any]:
    beside = path.with_name(name)
    return read_json(beside) if os.path.isfile(beside) else {}


# --- what a file holds


def read_file(path: Path) -> Content:
    check_memory(check_regular(path).st_size, str(path))
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return Content(read_npz(path), {})
    if suffix in PICKLED:
        return read_torch(path)
    return Content(*read_safetensors(path))


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            # copies: what the library hands out would change with the file
            arrays = {k: file.get_tensor(k).clone() for k in file.keys()}
            return arrays, file.metadata() or {}
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as safetensors: {reason(error)}"
        ) from None


def read_npz(path: Path) -> dict[str, Tensor]:
    if not zipfile.is_zipfile(path):
        raise UserError(
            f"{path} is not an npz file (a zip archive), or it ends early"
        )
    arrays, name = {}, "its list"
    try:
        # opened here: numpy leaves a damaged archive open
        with (
            open(path, "rb") as opened,
            np.load(opened, allow_pickle=False) as file,
        ):
            for name in file.files:
                arrays[name] = tensor_of(file[name])
    # a damaged archive may raise nearly anything
    except Exception as error:
        raise UserError(
            f"{path}: {name} cannot be read: {reason(error)[:200]}"
        ) from None
    return arrays


def tensor_of(array: Any) -> Tensor:
    if not isinstance(array, np.ndarray):
        raise ValueError("it is not an array")
    if array.dtype == "V2":  # what numpy makes of JAX's bfloat16
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise ValueError(f"it holds {array.dtype}, weights are numbers")
    native = array.dtype.newbyteorder("=")
    return torch.from_numpy(array.astype(native, copy=False))


def read_shards(path: Path) -> Content:
    shards = [path.parent / x for x in sorted({*shards_in(path).values()})]
    check_memory(sum(check_regular(x).st_size for x in shards), str(path))
    whole = Content({}, {})
    for shard in map(read_file, shards):
        arrays = whole.arrays | shard.arrays
        notes = whole.notes + shard.notes
        whole = Content(arrays, {}, notes, whole.beside + shard.beside)
    return whole


def shards_in(path: Path) -> dict[str, str]:
    places = read_json(path).get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(file, str) for file in places.values()
    ):
        raise UserError(
            f"{path} is not an index of shards: its weight_map is missing"
        )
    for file in places.values():
        if not re.fullmatch(r"[^/\\:]+", file) or file in (".", ".."):
            raise UserError(
                f"{path} names {file!r}; shards must be in the folder of their "
                "index"
            )
    return places


# --- what torch.save wrote


def read_torch(path: Path) -> Content:
    check_torch(torch.__version__, path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    # a hostile or damaged pickle may raise nearly anything
    except Exception as error:
        raise unreadable(path, error) from None
    found = state_dict_in(path, content)
    for name, tensor in found.arrays.items():
        is_dense = tensor.layout == torch.strided and not tensor.is_quantized
        if not is_dense or tensor.is_meta:
            raise UserError(
                f"{path} holds {name} as {tensor.layout} {tensor.dtype} on "
                f"{tensor.device}; weights are plain arrays"
            )
    # tensors of their own, not parts of a larger storage
    arrays = {k: x.detach().clone() for k, x in found.arrays.items()}
    return found._replace(arrays=arrays)


def check_torch(version: str, path: str | Path) -> None:
    """UserError on a torch whose `weights_only` lets code run."""
    found = re.match(r"(\d+)\.(\d+)", version)
    for release, fault in FAULTS.items():
        if found and tuple(map(int, found.groups())) < release:
            raise UserError(
                f"{path} is a pickled file, and reading one with torch "
                f"{version} could run code that is hidden in it ({fault}); "
                f"upgrade to torch {'.'.join(map(str, [*FAULTS][-1]))} or take "
                "a .safetensors or .npz file"
            )


def unreadable(path: Path, error: Exception) -> UserError:
    found = re.findall(r"GLOBAL ([\w.]+\.\w+) (?:whose|was)", str(error))
    if not found:
        why = f"{type(error).__name__}: {reason(error)[:120]}"
        if "Weights only" in why:  # with advice on how to read it anyway
            why = type(error).__name__
        return UserError(
            f"{path} cannot be read as a torch checkpoint: it is damaged, a "
            f"TorchScript program or another kind of file ({why})"
        )
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # a damaged file, or one from before torch 1.6
        names = found
    return UserError(
        f"{path} holds more than tensors and plain types: "
        f"{listed(sorted({*names}))}; reading that could run code, so save its "
        "state_dict alone where you trust the file"
    )


def state_dict_in(path: Path, content: Any) -> Content:
    """The state_dict, and names of arrays beside it that may be weights."""
    left_out: dict[str, Any] = {}
    while isinstance(content, dict):
        tensors = {k: v for k, v in content.items() if isinstance(v, Tensor)}
        inner = [
            key
            for key in CONTAINERS
            if isinstance(content.get(key), dict) and content[key]
        ]
        # beside a container, tensors are a measure or two, or a random state
        num_inside = len(arrays_in("", content[inner[0]])) if inner else 0
        if len(tensors) > num_inside:
            if any(not isinstance(key, str) for key in tensors):
                break
            left_out |= {k: v for k, v in content.items() if k not in tensors}
            note = f"left out of {path.name}: {listed(left_out)}"
            beside = tuple(
                name
                for key, value in left_out.items()
                if not TRAINING.search(str(key)) and key not in CONTAINERS
                for name in arrays_in(str(key), value)
            )
            return Content(tensors, {}, (note,) if left_out else (), beside)
        if not inner:
            break
        left_out |= {k: v for k, v in content.items() if k != inner[0]}
        content = content[inner[0]]
    held = type(content).__name__
    if isinstance(content, dict):
        held = "a dict of " + (listed(content) or "nothing")
    raise UserError(
        f"{path} holds {held}, and no dictionary of named tensors, neither at "
        f"the top nor under {', '.join(CONTAINERS)}; save the model's "
        "state_dict"
    )


def arrays_in(name: str, value: Any) -> list[str]:
    """Names of arrays with several numbers, however deep: "extra/0/weight"."""
    if isinstance(value, Tensor):
        return [name] if value.numel() != 1 else []
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    inner = value.items() if isinstance(value, dict) else ()
    return [x for key, each in inner for x in arrays_in(f"{name}/{key}", each)]


# --- what the caller leaves out


def without_ignored(
    path: Path, content: Content, patterns: tuple[str, ...]
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The unwrapped arrays that match no pattern; and the names that do.

    UserError: a pattern matches nothing, or arrays beside the state_dict match
    none.
    """
    kept, with_wrapper = split(content.arrays, patterns)
    kept, bare = split(unwrapped(kept), patterns)
    beside, let_go = split(dict.fromkeys(content.beside), patterns)
    gone = with_wrapper | bare | let_go
    names = [*content.arrays, *beside]
    for pattern in patterns:
        if not any(pattern in fits for fits in gone.values()):
            raise UserError(
                f"ignore={pattern!r} matches no array of {path}; it has "
                f"{listed(sorted(names), most=3)}"
            )
    if beside:
        raise UserError(f"{path}: {refusal(beside, names)}")
    return kept, tuple(gone)


def split(
    arrays: Mapping[str, Any], patterns: Iterable[str]
) -> tuple[dict[str, Any], dict[str, set[str]]]:
    """Arrays that match no pattern; and, for the others, which they match."""
    fits = {
        name: {x for x in patterns if x == name or fnmatchcase(name, x)}
        for name in arrays
    }
    kept = {name: arrays[name] for name in arrays if not fits[name]}
    return kept, {name: found for name, found in fits.items() if found}


def unwrapped(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    for wrapper in WRAPPERS:
        if arrays and all(name.startswith(wrapper) for name in arrays):
            return unwrapped(
                {k.removeprefix(wrapper): v for k, v in arrays.items()}
            )
    return arrays
