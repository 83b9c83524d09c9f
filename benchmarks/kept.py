"""What several processes measure together, each part kept as a file at once.

`found = kept(Path("runs/race/vit-1k-0.json"), lambda: {"value": 93.1})`
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from vitedu import results


def kept(
    path: Path, measure: Callable[[], Any], device: torch.device
) -> dict[str, Any] | None:
    """{"found", "seconds", "hardware", ...}; None: another process is at it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    claim = path.with_suffix(".claim")
    if not path.exists() and claimed(claim):
        if not path.exists():  # it wasn't finished in between
            started = time.perf_counter()
            found = {"found": measure()}
            found["seconds"] = round(time.perf_counter() - started, 1)
            words = json.dumps(found | results.machine(device))
            part = path.with_suffix(".part")
            part.write_text(words)
            part.rename(path)
            print(path.stem, words[:200], flush=True)
        claim.unlink()
    return read(path)


def read(path: Path) -> dict[str, Any] | None:
    """What is kept there, if anything is."""
    return json.loads(path.read_text()) if path.exists() else None


def claimed(claim: Path) -> bool:
    """Whether this process may go on; the claim of a dead one is taken over."""
    try:
        with claim.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        try:
            os.kill(int(claim.read_text() or 1), 0)
        except (ProcessLookupError, FileNotFoundError):
            claim.unlink(missing_ok=True)
            return claimed(claim)
        except PermissionError:
            pass
        return False
    return True
