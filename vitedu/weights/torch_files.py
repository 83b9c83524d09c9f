"""What torch.save wrote: a checkpoint's state_dict, read without running code.

`read_torch(Path("model.pth")).arrays["head.weight"]` is a tensor.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vitedu.errors import UserError, reason
from vitedu.weights.archives import check_members, check_stored
from vitedu.weights.leftovers import arrays_in, in_words, listed

# under which of their keys they keep the model
CONTAINERS = ("state_dict", "model_state_dict", "model_state", "model", "net")
MOST_CONTAINERS = 8  # one in the other
# and under which the state of a training that is of no use without it
TRAINING = re.compile(
    r"optim|^opt($|_)|sched|scaler|scaling|^loops$|^callbacks$"
    r"|(^|_)(ema|rng)($|_)",
    re.IGNORECASE,
)

# Files that ran code although torch.load had been told to read weights only:
# the first release without the fault, and its name.
FAULTS = {(2, 6): "CVE-2025-32434", (2, 10): "CVE-2026-24747"}


class Content(NamedTuple):
    """One file of weights, read."""

    arrays: dict[str, Tensor]
    metadata: dict[str, str]
    notes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # names of arrays outside the state_dict


def read_torch(path: Path) -> Content:
    """The state_dict in what torch.save wrote, and what was left out beside it.

    torch.load alone runs no code with `weights_only`, but it believes the sizes
    in a file. So a zip archive is mapped, where a storage cannot be longer than
    the file, and what comes out may not be larger than what the file holds.
    """
    check_torch(torch.__version__, path)
    try:
        with open(path, "rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"  # where torch itself looks
    except OSError as error:
        raise UserError(f"cannot read {path}: {reason(error)}") from None
    if is_zip:
        check_members(path)
        check_stored(path)
    try:
        content = torch.load(
            path, map_location="cpu", weights_only=True, mmap=is_zip
        )
    # A hostile or damaged pickle may raise nearly anything; all of it means one
    # thing.
    except Exception as error:
        raise unreadable(path, error) from None
    found = state_dict_in(path, content)
    arrays = found.arrays
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
            f"{path} holds {held:,} bytes, but promises arrays of "
            f"{num_bytes:,}; it is damaged or malicious"
        )
    return found._replace(
        arrays={k: t.detach().clone() for k, t in arrays.items()}
    )


def check_torch(version: str, path: str | Path) -> None:
    """UserError under a torch whose `weights_only` lets code through."""
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
    """The sentence on what torch.load refused: its contents or its damage."""
    found = re.findall(r"GLOBAL ([\w.]+\.\w+) (?:whose|was)", str(error))
    if found:
        names = listed(sorted(set(foreign_names(path)) or set(found)))
        return UserError(
            f"{path} holds more than tensors and plain types: {names}; reading "
            "that could run code, so save its state_dict alone where you trust "
            "the file"
        )
    if "TorchScript" in str(error):
        return UserError(
            f"{path} is a TorchScript program, which is code; save its "
            "state_dict"
        )
    why = f"{type(error).__name__}: {reason(error)[:120]}"
    # and four lines of advice on how to read it anyway
    if "Weights only" in why:
        why = type(error).__name__
    return UserError(
        f"{path} cannot be read as a torch checkpoint: it is damaged or "
        f"another kind of file ({why})"
    )


def foreign_names(path: Path) -> list[str]:
    """Each class or function that a checkpoint names and torch forbids."""
    try:
        return torch.serialization.get_unsafe_globals_in_checkpoint(path)
    # The file is refused already, and this only names more of what it holds:
    # whatever a damaged or pre-1.6 file raises here must not hide that
    # sentence.
    except Exception:
        return []


def state_dict_in(path: Path, content: Any) -> Content:
    """The dictionary of tensors in a checkpoint; what is beside it, in a note.

    The names of arrays beside it that are no training's state are kept, since
    they may be weights.
    """
    left_out: dict[str, Any] = {}
    for _ in range(MOST_CONTAINERS):  # a pickle may hold itself
        if not isinstance(content, dict):
            break
        tensors = {k: v for k, v in content.items() if isinstance(v, Tensor)}
        inner = [
            key
            for key in CONTAINERS
            if isinstance(content.get(key), dict) and content[key]
        ]
        # beside a container, tensors are a measure or two, or a random state
        num_inside = len(arrays_in("", content[inner[0]])) if inner else 0
        if len(tensors) > num_inside:
            left_out |= {k: v for k, v in content.items() if k not in tensors}
            if any(not isinstance(key, str) for key in tensors):
                break
            note = f"left out of {path.name}: {listed(left_out)}"
            return Content(
                tensors,
                {},
                (note,) if left_out else (),
                beside_in(left_out),
            )
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


def beside_in(left_out: dict[str, Any]) -> tuple[str, ...]:
    """Names of arrays in parts of a checkpoint that aren't training state."""
    return tuple(
        name
        for key, value in left_out.items()
        if not TRAINING.search(in_words(key)) and key not in CONTAINERS
        for name in arrays_in(in_words(key), value)
    )
