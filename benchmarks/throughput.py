"""Images a second of ours against timm, torchvision and transformers: a table.

    python benchmarks/throughput.py             the device that is there
    python benchmarks/throughput.py --device cpu --threads 1 --rounds 21

On a GPU: ViT-Ti, S, B and L at 224 pixels and B/16 at 384, bf16, with and
without torch.compile. On a CPU: ViT-Ti/16 and ViT-S/16 in fp32. Each row is
what `vitedu bench` answers. It is saved in a folder before the next begins, and
a row that is there already is not measured again: a run that was cut off goes
on. After each row the table so far is written to
vitedu/results/throughput-cpu.json or throughput-gpu.json, which names the rows
that are open.
"""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch

from vitedu import results
from vitedu.bench import Settings, bench
from vitedu.files import replace_file
from vitedu.model import vit_config
from vitedu.train import find_device


class Row(NamedTuple):
    """One line of the table."""

    model: str
    image_size: int
    batch_size: int
    compile: bool = False

    @property
    def name(self) -> str:
        """As a file and a metric are called: "vit-b16-384-compiled"."""
        name = f"{self.model.lower().replace('/', '')}-{self.image_size}"
        return f"{name}-compiled" if self.compile else name


SIZES = [
    ("ViT-B/16", 224, 128),  # the bar stands on this one, so it is the first
    ("ViT-S/16", 224, 256),
    ("ViT-L/16", 224, 64),
    ("ViT-B/16", 384, 64),
    ("ViT-Ti/16", 224, 512),
]
ROWS = {
    "gpu": [Row(*size, is_on) for size in SIZES for is_on in (True, False)],
    "cpu": [Row("ViT-S/16", 224, 4), Row("ViT-Ti/16", 224, 4)],
}
AGAINST = {
    "gpu": ("timm", "transformers"),
    "cpu": ("timm", "torchvision", "transformers"),
}
PRECISION = {"gpu": "auto", "cpu": "fp32"}


def main() -> None:
    """Measure the rows that are missing, write the table after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--folder", type=Path, help="where rows are kept")
    options = parser.parse_args()
    device = find_device(options.device)
    kind = "cpu" if device.type == "cpu" else "gpu"
    folder = options.folder or Path("runs") / f"throughput-{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    for row in ROWS[kind]:
        path = folder / f"{row.name}.json"
        if path.exists():
            print(f"{row.name} is measured already: {path}")
            continue
        started = time.perf_counter()
        print(row.name)
        settings = Settings(
            batch_size=row.batch_size,
            precision=PRECISION[kind],
            compile=row.compile,
            rounds=options.rounds,
            threads=options.threads,
        )
        measured = bench(
            vit_config(row.model, image_size=row.image_size),
            settings,
            against=AGAINST[kind],
            device=device,
            tell=lambda sentence: print(f"  {sentence}", flush=True),
        )
        measured |= {
            "name": row.name,
            "wall_seconds": round(time.perf_counter() - started, 1),
        }
        replace_file(path, json.dumps(measured, indent=1) + "\n")
        write_table(kind, folder, device, options)


def write_table(
    kind: str, folder: Path, device: torch.device, options: argparse.Namespace
) -> None:
    """The rows that are there as one recorded result."""
    paths = {row.name: folder / f"{row.name}.json" for row in ROWS[kind]}
    rows = [json.loads(x.read_text()) for x in paths.values() if x.exists()]
    still_open = [name for name, path in paths.items() if not path.exists()]
    notes = (
        "a ratio is ours to the fastest peer's: median and quartiles over the "
        "rounds, in each of which everybody has a turn"
    )
    if still_open:
        notes += f"; open: {', '.join(still_open)}"
    machine = results.machine(device)
    machine["versions"] |= rows[-1]["versions"]
    machine["hardware"] = rows[-1]["hardware"]
    threads = f" --threads {options.threads}" if options.threads else ""
    result = {
        "schema": results.SCHEMA,
        "status": "finished",
        "name": f"throughput-{kind}",
        "command": f"python benchmarks/throughput.py --device {device.type}"
        f"{threads} --rounds {options.rounds}",
        "config": {"rows": rows},
        "tier": kind,
        "metrics": {
            name: metric for row in rows for name, metric in metrics(row)
        },
        "seeds": [0],
        "dataset": {
            "name": "random images and labels",
            "digest": "torch.randn, seed 0",
            "num_train": 0,
            "num_test": 0,
        },
        **machine,
        "date": datetime.now(UTC).date().isoformat(),
        "wall_seconds": round(sum(row["wall_seconds"] for row in rows), 1),
        "notes": notes,
    }
    results.write(
        Path(results.__file__).parent / f"throughput-{kind}.json", result
    )


def metrics(row: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Ratio, speed, memory and utilisation of ours, for each kind of step."""
    found = []
    for kind in ("inference", "training"):
        measured, name = row[kind], f"{row['name']}_{kind}"
        ours = measured["contestants"]["vitedu"]
        speed = ours["images_per_second"]
        if measured["fastest_peer"]:
            unit = f"times as fast as {measured['fastest_peer']}"
            found.append((f"{name}_ratio", metric(measured["ratio"], unit)))
        found.append((f"{name}_speed", metric(speed, "images per second")))
        if ours["peak_memory"]:
            memory = {"value": ours["peak_memory"], "unit": "bytes"}
            found.append((f"{name}_memory", memory))
        for ceiling, share in ours["mfu"].items():
            used = {"value": 100 * share, "unit": f"percent of {ceiling}"}
            found.append((f"{name}_mfu_{ceiling}", used))
    return found


def metric(spread: dict[str, float], unit: str) -> dict[str, Any]:
    """A median with its quartiles, as a metric of a result."""
    quartiles = {"low": spread["low"], "high": spread["high"]}
    return {"value": spread["median"], "unit": unit, **quartiles}


if __name__ == "__main__":
    main()
