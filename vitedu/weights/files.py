"""Arrays out of the files in which weights come, without trusting any of them.

`read_arrays("model.safetensors").arrays` maps names to tensors. No code of a file is
run, and nothing is allocated because a header says so: what a header promises is
compared with the bytes that are there.
"""

import json
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from vitedu.errors import UserError
from vitedu.files import reason
from vitedu.weights.archives import read_npz
from vitedu.weights.torch_files import Content, read_torch
from vitedu.weights.unknown import (
    as_patterns,
    check_all_used,
    refusal,
    without,
)

JSON_BYTES = 1 << 24  # the index of a thousand shards is far smaller
# what training programs wrap around the names of a model, one at a time
WRAPPERS = ("module.", "_orig_mod.", "model.")
# what a folder of weights may hold, the first wins
IN_FOLDER = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
PICKLED = (".pth", ".pt", ".bin", ".ckpt")
SUFFIXES = (".npz", ".safetensors", *PICKLED)
BEST = "best.safetensors"  # in the folder of a run with keep=best


class Arrays(NamedTuple):
    """What a file of weights holds, and what is beside it."""

    arrays: dict[str, Tensor]  # on the CPU, in the precision of the file
    metadata: dict[str, str]  # of a safetensors file
    config: dict[str, Any] | None  # config.json beside it
    preprocessor: dict[str, Any] | None  # preprocessor_config.json beside it
    name: str  # of the file or, where it is "model", of its folder; no suffix
    path: Path  # the file that was read
    notes: tuple[str, ...] = ()  # what was left out, a sentence each
    ignored: tuple[str, ...] = ()  # names of arrays that `ignore` left out


def read_arrays(
    source: str | PathLike[str], *, ignore: str | Sequence[str] = ()
) -> Arrays:
    """Read a file of weights, or the one in a folder.

    A file is .npz, .safetensors, what torch saved (.pth, .pt, .bin, .ckpt) or an index
    of shards (.index.json); without one of these suffixes it is read as safetensors.
    A folder is a run folder, one as Hugging Face and timm write it, or holds a single
    file of weights. A wrapper around all names, such as "module.", is taken off.
    Arrays whose names fit a pattern of `ignore`, `"extra/*"`, are left out.

    UserError: nothing to read there, damaged, holding more than arrays, or arrays that
    are neither in the state_dict nor a training's state; a pattern fits no array.
    """
    patterns = as_patterns(ignore)
    path = weights_file(Path(source))
    is_index = path.name.endswith(".index.json")
    content = read_shards(path) if is_index else read_file(path)
    notes = content.notes
    if path.name == BEST and path != Path(source):
        notes += (
            f"the run in {path.parent} is not done, so {BEST} was read: the best "
            "weights so far on its validation part",
        )
    if not content.arrays:
        raise UserError(f"{path} holds no arrays")
    for name in content.arrays:
        if not name.isprintable():
            raise UserError(
                f"{path} holds an array {name!r}, which cannot be a name"
            )
    arrays, ignored = without_ignored(path, content, patterns)
    return Arrays(
        arrays,
        content.metadata,
        read_json(path.with_name("config.json")),
        read_json(path.with_name("preprocessor_config.json")),
        name_of(path),
        path,
        notes,
        ignored,
    )


def without_ignored(
    path: Path, content: Content, patterns: tuple[str, ...]
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The arrays without their wrapper and those that fit a pattern; these names.

    A pattern may say the wrapper or leave it out.
    UserError: a pattern fits nothing, or arrays beside the state_dict fit none.
    """
    kept, with_wrapper = without(content.arrays, patterns)
    kept, bare = without(unwrapped(kept), patterns)
    names = dict.fromkeys(content.beside)
    beside, let_go = without(names, patterns)
    gone = with_wrapper | bare | let_go
    used = set().union(*gone.values())
    check_all_used(path, patterns, used, [*content.arrays, *beside])
    if beside:
        error = refusal(beside, [*content.arrays, *beside])
        raise UserError(f"{path}: {error}")
    if not kept:
        raise UserError(
            f"ignore={patterns} leaves none of the arrays of {path}"
        )
    return kept, tuple(gone)


def weights_file(path: Path) -> Path:
    """The file of weights that `path` is or holds. UserError: there is none."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise UserError(f"there is no file or run folder {str(path)!r}")
    for name in IN_FOLDER:
        if (path / name).is_file():
            return path / name
    # a run that is not done holds checkpoint.pt, which is more than weights
    suffixes = (".npz", ".safetensors", ".pth")
    files = sorted(file for file in path.iterdir() if file.suffix in suffixes)
    if len(files) > 1:
        held = ", ".join(file.name for file in files[:4])
        raise UserError(
            f"{path} holds {len(files)} files of weights ({held}); give the path of one"
        )
    if not files:
        raise UserError(
            f"{path} holds no model.safetensors or other file of weights; a run "
            "writes it when it is done"
        )
    return files[0]


def name_of(path: Path) -> str:
    """The name of a file without suffix; of its folder where it is but "model"."""
    name = path.name.removesuffix(".index.json")
    name = name.removesuffix(Path(name).suffix) if has_suffix(name) else name
    name = re.sub(r"\.(fp16|bf16|fp32)$", "", name)
    if name in ("model", "pytorch_model"):
        return path.absolute().parent.name
    return name


def has_suffix(name: str) -> bool:
    """Whether a name ends as files of weights do."""
    return Path(name).suffix.lower() in SUFFIXES


def read_file(path: Path) -> Content:
    """What one file holds, read as its suffix says."""
    if not path.stat().st_size:
        raise UserError(f"{path} is empty; download it again")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return Content(read_npz(path), {})
    if suffix in PICKLED:
        return read_torch(path)
    return Content(*read_safetensors(path))


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The arrays and the metadata of a safetensors file.

    The library itself refuses a header that does not fit the file. The arrays are
    copies: what it hands out would change with the file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            arrays = {k: file.get_tensor(k).clone() for k in file.keys()}
            return arrays, file.metadata() or {}
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as safetensors: {reason(error)}"
        ) from None


def read_shards(path: Path) -> Content:
    """The arrays of all files that an index names; they are beside it."""
    index = read_json(path) or {}
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(file, str) for file in places.values()
    ):
        raise UserError(
            f"{path} is not an index of shards: it has no weight_map"
        )
    whole = Content({}, {})
    for file in sorted(set(places.values())):
        if Path(file).name != file or file in ("", ".", ".."):
            raise UserError(
                f"{path} names {file!r}; shards must be in the folder of their index"
            )
        if not (path.parent / file).is_file():
            raise UserError(f"{path} names {file}, which is not beside it")
        shard = read_file(path.parent / file)
        twice = sorted(whole.arrays.keys() & shard.arrays.keys())
        if twice:
            raise UserError(
                f"the shards of {path} hold {twice[0]} twice; download them again"
            )
        whole = Content(
            whole.arrays | shard.arrays,
            {},
            whole.notes + shard.notes,
            whole.beside + shard.beside,
        )
    missing = sorted(places.keys() - whole.arrays.keys())
    if missing:
        raise UserError(
            f"the shards of {path} lack {len(missing)} of its arrays "
            f"({', '.join(missing[:3])})"
        )
    return whole


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None where there is no file."""
    if not path.is_file():
        return None
    try:
        with open(path, "rb") as file:
            text = file.read(JSON_BYTES + 1)
        if len(text) > JSON_BYTES:
            raise ValueError(f"longer than {JSON_BYTES:,} bytes")
        values = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {reason(error)}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} does not hold a JSON object")
    return values


def unwrapped(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arrays without the wrappers that all their names begin with."""
    while arrays:
        for wrapper in WRAPPERS:
            if all(name.startswith(wrapper) for name in arrays):
                arrays = {k.removeprefix(wrapper): v for k, v in arrays.items()}
                break
        else:
            break
    return arrays
