"""Reads files of weights without running code from them.

`read_arrays("model.safetensors").arrays` maps names to tensors.
"""

import os
import re
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitedu.errors import UserError, check_free, explained, reason
from vitedu.files import check_regular, list_folder, read_json, user_path
from vitedu.weights.checkpoint import Metadata
from vitedu.weights.mapping import listed

# prefixes that training programs add to names, removed one at a time
WRAPPERS = ("module.", "_orig_mod.", "model.")
# files in a folder of weights; the first wins
IN_FOLDER = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
PICKLED = (".pth", ".pt", ".bin", ".ckpt", ".tar")
SUFFIXES = (".npz", ".safetensors", *PICKLED)
BEST = "best.safetensors"  # in the folder of a run with keep=best

# Keys of a checkpoint: the model, and training state that we don't need. DINO's
# teacher is the better of its two networks, and what others go on with.
CONTAINERS = (
    *("state_dict", "model_state_dict", "model_state", "model", "net"),
    *("teacher", "student"),
)
TRAINING = re.compile(
    r"optim|^opt($|_)|sched|scaler|scaling|loss|^loops$|^callbacks$"
    r"|(^|_)(ema|rng)($|_)",
    re.IGNORECASE,
)


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
    arguments: dict[str, Any] | None = None  # those that it was trained with


def read_arrays(
    source: str | PathLike[str], *, ignore: str | Sequence[str] = ()
) -> Arrays:
    """Read a file of weights, or the one in a folder.

    A file is .npz, a torch file (.pth, .pt, .bin, .ckpt), an index of shards
    (.index.json), else safetensors. A prefix of all names, such as "module.",
    is removed. Arrays whose names match a pattern in `ignore` (`"extra/*"`) are
    left out.

    UserError: nothing to read there, damaged, too large for the memory, or
    containing more than arrays; a pattern matches no array.
    """
    patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
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
    arrays, ignored = without_ignored(path, content.arrays, patterns)
    if not arrays:
        left = " that ignore= leaves" if ignored else ""
        raise UserError(f"{path} doesn't contain any arrays{left}")
    metadata = Metadata(
        stem_of(path),
        content.header,
        json_beside(path, "config.json") or content.arguments or {},
        json_beside(path, "preprocessor_config.json"),
    )
    return Arrays(arrays, metadata, path, notes, ignored)


# --- which file


def weights_file(path: Path) -> Path:
    if not os.path.exists(path):
        raise UserError(f"there is no file or run folder {str(path)!r}")
    if path.suffix in (".onnx", ".pt2"):
        raise UserError(
            f"{path} is an exported program; give the weights it was made from"
        )
    if not path.is_dir():
        return path
    held = list_folder(path)
    for name in IN_FOLDER:
        if name in held:
            return path / name
    # a run that is not done holds checkpoint.pt, which is more than weights
    suffixes = (".npz", ".safetensors", ".pth")
    files = [name for name in held if Path(name).suffix in suffixes]
    if len(files) == 1:
        return path / files[0]
    if files:
        raise UserError(
            f"{path} holds {len(files)} files of weights "
            f"({', '.join(files[:4])}); give the path of one"
        )
    raise UserError(
        f"{path} doesn't contain model.safetensors or another file of "
        "weights; a run writes it when it is done"
    )


def stem_of(path: Path) -> str:
    """A file's stem; its folder's name if that is only "model"."""
    name = path.name.removesuffix(".index.json").removesuffix(".tar")
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
    check_free(check_regular(path).st_size, str(path))
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return Content(read_npz(path), {})
    if suffix in PICKLED:
        return read_torch(path)
    return Content(*read_safetensors(path))


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    kinds = SafetensorError, OSError, RuntimeError, ValueError
    with (
        explained(f"{path} cannot be read as safetensors", *kinds),
        safe_open(path, framework="pt") as file,
    ):
        # copies: what the library hands out would change with the file
        arrays = {k: file.get_tensor(k).clone() for k in file.keys()}
        return arrays, file.metadata() or {}


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
                array = file[name]
                if array.dtype == "V2":  # what numpy makes of JAX's bfloat16
                    half = torch.from_numpy(array.view(np.int16))
                    arrays[name] = half.view(torch.bfloat16)
                else:
                    arrays[name] = torch.from_numpy(array)
    # a damaged archive may raise nearly anything
    except Exception as error:
        raise UserError(
            f"{path}: {name} cannot be read: {reason(error)[:200]}"
        ) from None
    return arrays


def read_shards(path: Path) -> Content:
    arrays, notes = {}, ()
    for name in sorted({*shards_in(path).values()}):
        shard = read_file(path.parent / name)
        arrays |= shard.arrays
        notes += shard.notes
    return Content(arrays, {}, notes)


def shards_in(path: Path) -> dict[str, str]:
    places = read_json(path).get("weight_map")
    if not isinstance(places, dict):
        raise UserError(
            f"{path} is not an index of shards: its weight_map is missing"
        )
    for file in places.values():
        is_name = re.fullmatch(r"[^/\\:]+", str(file))
        if not is_name or not isinstance(file, str) or file in (".", ".."):
            raise UserError(
                f"{path} names {file!r}; shards must be in the folder of their "
                "index"
            )
    return places


# --- what torch.save wrote


def read_torch(path: Path) -> Content:
    try:
        # training programs keep their arguments in it, which is plain data
        with torch.serialization.safe_globals([Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    # a hostile or damaged pickle may raise nearly anything
    except Exception as error:
        forbidden = re.search(r"GLOBAL ([\w.]+\.\w+) (?:whose|was)", str(error))
        if forbidden:
            raise UserError(
                f"{path} holds more than tensors and plain types: "
                f"{forbidden[1]}; reading that could run code, so save its "
                "state_dict alone where you trust the file"
            ) from None
        raise UserError(
            f"{path} cannot be read as a torch checkpoint: it is damaged, a "
            f"TorchScript program or another kind of file "
            f"({type(error).__name__})"
        ) from None
    found = state_dict_in(path, content)
    # tensors of their own, not parts of a larger storage
    arrays = {k: x.detach().clone() for k, x in found.arrays.items()}
    return found._replace(arrays=arrays)


def state_dict_in(path: Path, content: Any) -> Content:
    """The state_dict, and arrays beside it that are no state of a training."""
    left_out: dict[Any, Any] = {}
    arguments = arguments_in(content)
    while inner := container_in(content):
        left_out |= {k: v for k, v in content.items() if k != inner}
        content = content[inner]
    arrays = {}
    if isinstance(content, dict):
        arrays = {
            key: value
            for key, value in content.items()
            if isinstance(key, str) and isinstance(value, Tensor)
        }
    if not arrays:
        raise UserError(
            f"{path} holds no dictionary of named tensors, neither at the top "
            f"nor under {', '.join(CONTAINERS)}; save the model's state_dict"
        )
    left_out |= {k: v for k, v in content.items() if k not in arrays}
    beside = {
        name: array
        for key, value in left_out.items()
        if not TRAINING.search(str(key)) and key not in CONTAINERS
        for name, array in arrays_in(str(key), value)
    }
    note = f"left out of {path.name}: {listed(left_out)}"
    notes = (note,) if left_out else ()
    if "student" in left_out:
        notes += ("of student and teacher, the teacher was read",)
    return Content(unwrapped(arrays) | beside, {}, notes, arguments)


def arguments_in(content: Any) -> dict[str, Any] | None:
    args = content.get("args") if isinstance(content, dict) else None
    arch = content.get("arch") if isinstance(args, Namespace) else None
    return {"arch": arch, "args": vars(args)} if arch else None


def container_in(content: Any) -> str | None:
    if not isinstance(content, dict):
        return None
    held = (x for x in CONTAINERS if isinstance(content.get(x), dict))
    return next((x for x in held if content[x]), None)


def arrays_in(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Arrays of several numbers, however deep, as "extra/0/weight"."""
    if isinstance(value, Tensor) and value.numel() != 1:
        yield name, value
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, each in value.items():
            yield from arrays_in(f"{name}/{key}", each)


# --- what the caller leaves out


def without_ignored(
    path: Path, arrays: dict[str, Tensor], patterns: tuple[str, ...]
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The unwrapped arrays that match no pattern; and the names that do.

    A pattern may be with or without the wrapper. UserError: it matches nothing.
    """

    def matches(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    bare = unwrapped({k: v for k, v in arrays.items() if not matches(k)})
    ignored = (*filter(matches, arrays), *filter(matches, bare))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in ignored):
            raise UserError(
                f"ignore={pattern!r} matches no array of {path}; it has "
                f"{listed(sorted(arrays), most=3)}"
            )
    return {k: v for k, v in bare.items() if not matches(k)}, ignored


def unwrapped(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    for wrapper in WRAPPERS:
        if arrays and all(name.startswith(wrapper) for name in arrays):
            return unwrapped(
                {k.removeprefix(wrapper): v for k, v in arrays.items()}
            )
    return arrays
