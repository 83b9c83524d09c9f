"""The one guard against sizes from outside, before anything is made of them.

`check_memory(header_bytes, "a.npz: x_train", "give fewer images")`
"""

import math
from pathlib import Path

from vitedu.errors import UserError

CGROUPS = Path("/sys/fs/cgroup")


def check_memory(num_bytes: int, what: str, remedy: str = "") -> None:
    """UserError with both numbers, unless `num_bytes` of memory are free.

    `what` begins the sentence ("photo.png, 50000 by 50000 pixels,"); `remedy`
    ends it.
    """
    free = available_memory()
    if num_bytes > free:
        end = f"; {remedy}" if remedy else ""
        raise UserError(
            f"{what} needs {readable_bytes(num_bytes)} of memory, and "
            f"{readable_bytes(free)} are free{end}"
        )


def available_memory() -> int:
    """Bytes this process can still use: what system and containers leave.

    What only caches files counts as free.
    """
    import psutil

    return min([psutil.virtual_memory().available, *container_memory()])


def container_memory(root: Path = CGROUPS) -> list[int]:
    """Bytes left in each of the control groups around this process (Linux)."""
    groups = [(root, "memory.max", "memory.current")]
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # version 2: every group up to the root
                for end in range(len(Path(path).parts), 1, -1):
                    inner = Path(*Path(path).parts[:end]).relative_to("/")
                    group = root / inner
                    groups.append((group, "memory.max", "memory.current"))
            elif "memory" in controllers.split(","):
                group = root / "memory" / path.lstrip("/")
                names = "memory.limit_in_bytes", "memory.usage_in_bytes"
                groups += [(group, *names), (root / "memory", *names)]
    except (OSError, ValueError):
        pass  # another system, or one that hides it
    left = []
    for group, limit, usage in groups:
        try:
            most = int((group / limit).read_text())
            used = int((group / usage).read_text()) - cached(group)
        except (OSError, ValueError):
            continue  # no such group, or "max": no limit
        left.append(max(most - used, 0))
    return left


def cached(group: Path) -> int:
    """Bytes of a control group that only cache files, given up when needed."""
    lines = (group / "memory.stat").read_text().splitlines()
    sizes = dict(line.split(" ", 1) for line in lines)
    # version 1 counts the groups inside apart
    prefix = "total_" if "total_active_file" in sizes else ""
    names = f"{prefix}active_file", f"{prefix}inactive_file"
    return sum(int(sizes.get(name, 0)) for name in names)


def readable_bytes(num_bytes: int) -> str:
    """A size in a sentence: "16.0 GB"; beyond all measure a power of ten."""
    if num_bytes < 1000:
        return f"{num_bytes} bytes"
    if num_bytes >= 10**18:
        return f"10^{int(math.log10(num_bytes))} bytes"
    units = ("kB", "MB", "GB", "TB", "PB")
    power = min(int(math.log10(num_bytes)) // 3, len(units))
    return f"{num_bytes / 1000**power:.1f} {units[power - 1]}"
