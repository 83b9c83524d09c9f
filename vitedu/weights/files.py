"""Arrays out of the files in which weights come, without trusting any of them.

`read_arrays("model.safetensors").arrays` maps names to tensors. No code of a
file is run, and nothing is allocated because a header says so: what a header
promises is compared with the bytes that are there, and these with the memory
that is free.
"""

import os
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from vitedu.errors import UserError, check_memory, reason
from vitedu.files import check_regular, list_folder, read_json, user_path
from vitedu.weights.archives import read_npz
from vitedu.weights.checkpoint import About
from vitedu.weights.leftovers import (
    as_patterns,
    check_all_used,
    refusal,
    without,
)
from vitedu.weights.torch_files import Content, read_torch

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
# The longest name that a library writes has some 90 letters, and every dialect
# searches all names.
MOST_LETTERS = 500


class Arrays(NamedTuple):
    """What a file of weights holds, and what is known about it."""

    arrays: dict[str, Tensor]  # on the CPU, in the precision of the file
    about: About
    path: Path  # the file that was read
    notes: tuple[str, ...] = ()  # what was left out, a sentence each
    ignored: tuple[str, ...] = ()  # names of arrays that `ignore` left out


def read_arrays(
    source: str | PathLike[str], *, ignore: str | Sequence[str] = ()
) -> Arrays:
    """Read a file of weights, or the one in a folder.

    A file is .npz, .safetensors, what torch saved (.pth, .pt, .bin, .ckpt) or
    an index of shards (.index.json); without one of these suffixes it is read
    as safetensors. A folder is a run folder, one as Hugging Face and timm write
    it, or holds a single file of weights. A wrapper around all names, such as
    "module.", is taken off. Arrays whose names fit a pattern of `ignore`,
    `"extra/*"`, are left out.

    UserError: nothing to read there, damaged, too large for the memory, holding
    more than arrays, or arrays that are neither in the state_dict nor a
    training's state; a pattern fits no array.
    """
    patterns = as_patterns(ignore)
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
    if not content.arrays:
        raise UserError(f"{path} doesn't contain any arrays")
    for name in content.arrays:
        if not name.isprintable() or len(name) > MOST_LETTERS:
            raise UserError(
                f"{path} holds an array {name[:100]!r}, which cannot be a name"
            )
    arrays, ignored = without_ignored(path, content, patterns)
    about = About(
        name_of(path),
        content.metadata,
        json_beside(path, "config.json"),
        json_beside(path, "preprocessor_config.json"),
    )
    return Arrays(arrays, about, path, notes, ignored)


def without_ignored(
    path: Path, content: Content, patterns: tuple[str, ...]
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The unwrapped arrays but for those that fit a pattern; and these names.

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
    """A file's name without suffix; its folder's where it is only "model"."""
    name = path.name.removesuffix(".index.json")
    name = name.removesuffix(Path(name).suffix) if has_suffix(name) else name
    name = re.sub(r"\.(fp16|bf16|fp32)$", "", name)
    if name in ("model", "pytorch_model"):
        return path.absolute().parent.name
    return name


def has_suffix(name: str) -> bool:
    """Whether a name ends as files of weights do."""
    return Path(name).suffix.lower() in SUFFIXES


def json_beside(path: Path, name: str) -> dict[str, Any]:
    """The JSON object in a file beside `path`; empty if there is no file."""
    beside = path.with_name(name)
    # a pipe of that name is nobody's JSON, and reading it would wait
    return read_json(beside) if os.path.isfile(beside) else {}


def read_file(path: Path) -> Content:
    """What one file holds, read as its suffix says."""
    size = check_regular(path).st_size
    if not size:
        raise UserError(f"{path} is empty; download it again")
    check_memory(size, str(path))
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return Content(read_npz(path), {})
    if suffix in PICKLED:
        return read_torch(path)
    return Content(*read_safetensors(path))


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The arrays and the metadata of a safetensors file.

    The library itself refuses a header that does not fit the file. The arrays
    are copies: what it hands out would change with the file.
    """
    from safetensors import SafetensorError, safe_open

    check_regular(path)
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
    places = shards_in(path)
    shards = [path.parent / file for file in sorted({*places.values()})]
    for shard in shards:
        if not shard.exists():
            raise UserError(
                f"{path} names {shard.name}, which is not beside it"
            )
    check_memory(sum(check_regular(x).st_size for x in shards), str(path))
    whole = Content({}, {})
    for shard in map(read_file, shards):
        twice = sorted(whole.arrays.keys() & shard.arrays.keys())
        if twice:
            raise UserError(
                f"the shards of {path} hold {twice[0]} twice; download them "
                "again"
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


def shards_in(path: Path) -> dict[str, str]:
    """The file of each array, from an index. UserError: it isn't an index."""
    places = read_json(path).get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(file, str) for file in places.values()
    ):
        raise UserError(
            f"{path} is not an index of shards: its weight_map is missing"
        )
    for file in places.values():
        is_plain = file.isprintable() and re.fullmatch(r"[^/\\:]+", file)
        if not is_plain or file in (".", ".."):
            raise UserError(
                f"{path} names {file!r}; shards must be in the folder of their "
                "index"
            )
    return places


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
