"""The fields that every recorded result of a benchmark has alike."""

from datetime import UTC, datetime
from typing import Any

import torch

from vitedu import results


def result_fields(
    name: str, command: str, seconds: float, *, device: str = "cpu"
) -> dict[str, Any]:
    """What follows from the machine and the day; the seed is 0."""
    return {
        "schema": results.SCHEMA,
        "status": "finished",
        "name": name,
        "command": command,
        "tier": device,
        "seeds": [0],
        **results.machine(torch.device(device)),
        "date": datetime.now(UTC).date().isoformat(),
        "wall_seconds": round(seconds, 1),
    }
