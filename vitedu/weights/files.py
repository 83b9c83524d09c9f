"""Arrays out of the files in which weights come, without trusting any of them.

`read_arrays("model.safetensors").arrays` maps names to tensors. No code of a file is
run, and nothing is allocated because a header says so: what a header promises is
compared with the bytes that are there.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vitedu.errors import UserError
from vitedu.files import reason
from vitedu.weights.archives import check_members, read_npz

JSON_BYTES = 1 << 24  # the index of a thousand shards is far smaller
# what training programs wrap around the names of a model, one at a time
WRAPPERS = ("module.", "_orig_mod.", "model.")
# under which of their keys they keep the model
CONTAINERS = ("state_dict", "model_state_dict", "model_state", "model", "net")
# what a folder of weights may hold, the first wins
IN_FOLDER = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
PICKLED = (".pth", ".pt", ".bin", ".ckpt")
SUFFIXES = (".npz", ".safetensors", *PICKLED)


class Arrays(NamedTuple):
    """What a file of weights holds, and what stands beside it."""

    arrays: dict[str, Tensor]  # on the CPU, in the precision of the file
    metadata: dict[str, str]  # of a safetensors file
    config: dict[str, Any] | None  # config.json beside it
    preprocessor: dict[str, Any] | None  # preprocessor_config.json beside it
    name: str  # of the file or, where it is "model", of its folder; no suffix
    path: Path  # the file that was read
    notes: tuple[str, ...] = ()  # what was left out, a sentence each


def read_arrays(source: str | Path) -> Arrays:
    """Read a file of weights, or the one in a folder.

    A file is .npz, .safetensors, what torch saved (.pth, .pt, .bin, .ckpt) or an index
    of shards (.index.json); without one of these suffixes it is taken for safetensors.
    A folder is a run folder, one as Hugging Face and timm write it, or holds a single
    file of weights. A wrapper around all names, such as "module.", is taken off.

    UserError: nothing to read there, damaged, or holding more than arrays.
    """
    path = weights_file(Path(source))
    metadata, notes = {}, ()
    if path.name.endswith(".index.json"):
        arrays = read_shards(path)
    else:
        arrays, metadata, notes = read_file(path)
    if not arrays:
        raise UserError(f"{path} holds no arrays")
    for name in arrays:
        if not name.isprintable():
            raise UserError(f"{path} holds an array {name!r}, which is no name")
    return Arrays(
        unwrapped(arrays),
        metadata,
        read_json(path.with_name("config.json")),
        read_json(path.with_name("preprocessor_config.json")),
        name_of(path),
        path,
        notes,
    )


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


def read_file(
    path: Path,
) -> tuple[dict[str, Tensor], dict[str, str], tuple[str, ...]]:
    """The arrays, metadata and notes of one file, by its suffix."""
    if not path.stat().st_size:
        raise UserError(f"{path} is empty; fetch it again")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return read_npz(path), {}, ()
    if suffix in PICKLED:
        arrays, notes = read_torch(path)
        return arrays, {}, notes
    return *read_safetensors(path), ()


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


def read_torch(path: Path) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The state_dict in what torch.save wrote, and what was left out beside it.

    torch.load alone runs no code with `weights_only`, but it believes the sizes in a
    file. So a zip archive is mapped, where a storage cannot be longer than the file,
    and what comes out may not be larger than what the file holds.
    """
    try:
        with open(path, "rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"  # where torch itself looks
    except OSError as error:
        raise UserError(f"{path} cannot be read: {reason(error)}") from None
    if is_zip:
        check_members(path)
    try:
        content = torch.load(
            path, map_location="cpu", weights_only=True, mmap=is_zip
        )
    # A hostile or damaged pickle may raise nearly anything; all of it means one thing.
    except Exception as error:
        raise unreadable(path, error) from None
    arrays, notes = state_dict_in(path, content)
    for name, tensor in arrays.items():
        if type(tensor) not in (Tensor, torch.nn.Parameter) or not (
            tensor.layout == torch.strided
            and tensor.device.type == "cpu"
            and not tensor.is_quantized
        ):
            raise UserError(
                f"{path} holds {name} as {tensor.layout} {tensor.dtype} on "
                f"{tensor.device}; weights are plain arrays"
            )
    num_bytes = sum(t.numel() * t.element_size() for t in arrays.values())
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
        for t in arrays.values()
    }
    held = path.stat().st_size
    # arrays may share a storage (tied weights), but hardly all of them
    if sum(storages.values()) > held or num_bytes > 2 * held:
        raise UserError(
            f"{path} holds {held:,} bytes, but promises arrays of {num_bytes:,}; "
            "it is damaged, or was made to do harm"
        )
    return {k: t.detach().clone() for k, t in arrays.items()}, notes


def unreadable(path: Path, error: Exception) -> UserError:
    """The sentence for what torch.load refused: what it holds, or its damage."""
    found = re.findall(r"GLOBAL ([\w.]+\.\w+) (?:whose|was)", str(error))
    if found:
        names = listed(sorted(set(foreign_names(path)) or set(found)))
        return UserError(
            f"{path} holds more than tensors and plain types: {names}; reading that "
            "could run code, so save its state_dict alone where you trust the file"
        )
    if "TorchScript" in str(error):
        return UserError(
            f"{path} is a TorchScript program, which is code; save its state_dict"
        )
    said = f"{type(error).__name__}: {reason(error)[:120]}"
    if (
        "Weights only" in said
    ):  # and four lines of advice on how to read it anyway
        said = type(error).__name__
    return UserError(
        f"{path} cannot be read as a checkpoint of torch, it is damaged or another "
        f"kind of file ({said})"
    )


def foreign_names(path: Path) -> list[str]:
    """Every class or function that a checkpoint names and torch does not allow."""
    # newer than the oldest torch that vitedu takes; without it one name is said
    names = getattr(
        torch.serialization, "get_unsafe_globals_in_checkpoint", None
    )
    try:
        return names(path) if names else []
    # The file is refused already, and this only names more of what it holds: whatever a
    # damaged or pre-1.6 file raises here must not hide that sentence.
    except Exception:
        return []


def state_dict_in(
    path: Path, content: Any
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The dictionary of tensors in a checkpoint, and a note on what is beside it."""
    left_out = []
    while isinstance(content, dict):
        tensors = {k: v for k, v in content.items() if isinstance(v, Tensor)}
        if tensors:
            left_out += [key for key in content if key not in tensors]
            if any(not isinstance(key, str) for key in tensors):
                break
            note = f"left out of {path.name}: {listed(left_out)}"
            return tensors, (note,) if left_out else ()
        inner = [
            key
            for key in CONTAINERS
            if isinstance(content.get(key), dict) and content[key]
        ]
        if not inner:
            break
        left_out += [key for key in content if key != inner[0]]
        content = content[inner[0]]
    held = type(content).__name__
    if isinstance(content, dict):
        held = "a dict of " + (listed(content) or "nothing")
    raise UserError(
        f"{path} holds {held}, and no dictionary of named tensors, neither by itself "
        f"nor under {', '.join(CONTAINERS)}; save the model's state_dict"
    )


def listed(names: Iterable[Any], most: int = 8) -> str:
    """Names out of a file, in a sentence; they may be anything."""
    words = [str(name) for name in names]
    shown = [x if x.isprintable() else repr(x) for x in words[:most]]
    if len(words) > most:
        shown.append(f"and {len(words) - most} more")
    return ", ".join(shown)


def read_shards(path: Path) -> dict[str, Tensor]:
    """The arrays of all files that an index names; they lie beside it."""
    index = read_json(path) or {}
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(file, str) for file in places.values()
    ):
        raise UserError(f"{path} is no index of shards: it has no weight_map")
    arrays = {}
    for file in sorted(set(places.values())):
        if Path(file).name != file or file in ("", ".", ".."):
            raise UserError(
                f"{path} names {file!r}; shards lie in the folder of their index"
            )
        if not (path.parent / file).is_file():
            raise UserError(f"{path} names {file}, which is not beside it")
        arrays |= read_file(path.parent / file)[0]
    missing = sorted(places.keys() - arrays.keys())
    if missing:
        raise UserError(
            f"the shards of {path} lack {len(missing)} of its arrays "
            f"({', '.join(missing[:3])})"
        )
    return arrays


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
        raise UserError(
            f"{path} is no readable JSON: {reason(error)}"
        ) from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no JSON object")
    return values


def unwrapped(arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arrays without the wrappers that all their names begin with."""
    while True:
        for wrapper in WRAPPERS:
            if all(name.startswith(wrapper) for name in arrays):
                arrays = {k.removeprefix(wrapper): v for k, v in arrays.items()}
                break
        else:
            return arrays
