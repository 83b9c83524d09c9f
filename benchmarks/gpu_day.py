"""Everything of the book that needs a GPU, in lots of minutes.

    python benchmarks/gpu_day.py --list       what there is, how long it takes
    python benchmarks/gpu_day.py --lot 3      one of them; repeat for several
    python benchmarks/gpu_day.py --all --minutes 25     in order of worth
    python benchmarks/gpu_day.py --smoke      all of them small, on a CPU
    python benchmarks/gpu_day.py --pack DIR   the data that they need, as files

A lot writes its result, vitedu/results/gpu-NAME.json, after each of its pieces.
One that was stopped goes on with its next piece when it is started again.
Nothing is downloaded: what `--pack DIR` has written, `--data DIR` reads.
"""

import argparse
import json
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lots import (
    Options,
    Outcome,
    cifar,
    feed,
    finetune,
    free,
    imagenet,
    inference,
    ladder,
    resume,
    steps,
    tell,
    unlabelled,
    waste,
)
from lots.pack import ANTS, CIFAR, SAMPLE, WASTE, pack
from recorded import result_fields

from vitedu import results
from vitedu.errors import UserError, reason
from vitedu.files import make_folder, read_json, replace_file
from vitedu.train import find_device

PACKAGES = ("timm", "torchvision", "triton", "transformers")


class Lot(NamedTuple):
    """One line of `--list`."""

    number: int
    name: str
    minutes: float  # on an H100
    title: str
    run: Callable[[Options], Iterator[Outcome]]
    needs: tuple[str, ...] = ()  # of the folder that `--pack` writes


# in order of worth
LOTS = (
    Lot(1, "steps", 4, "a training step of ViT-B/16 beside timm's", steps.run),
    Lot(2, "ladder", 2.5, "a step after every faster line", ladder.run),
    Lot(3, "inference", 1.5, "ViT-B/16 on 1 and 64 images", inference.run),
    Lot(4, "feed", 2, "pictures from disk to device", feed.run, (SAMPLE,)),
    Lot(5, "cifar", 8, "CIFAR-10 from scratch", cifar.run, (CIFAR,)),
    Lot(6, "finetune", 2, "trained weights", finetune.run, (ANTS, CIFAR)),
    Lot(7, "imagenet", 2, "ViT-B/16 at 384 pixels", imagenet.run, (SAMPLE,)),
    Lot(8, "resume", 1, "runs that are killed and go on", resume.run),
    Lot(9, "waste", 4, "waste at 224 and 384 pixels", waste.run, (WASTE,)),
    Lot(10, "unlabelled", 8, "CIFAR-10, masked", unlabelled.run, (CIFAR,)),
)


def main(words: list[str] | None = None) -> int:
    """Run what is asked for.

    0: done, or out of minutes; 1: something broke off; 2: something is missing.
    """
    options = parser().parse_args(words)
    try:
        if options.list:
            print(listed(), end="")
            return 0
        if options.pack is not None:
            pack(options.pack)
            return 0
        if not (options.lot or options.all or options.smoke):
            raise UserError("choose --list, --lot N, --all, --smoke or --pack")
        return run_lots(options)
    except UserError as error:
        print(f"gpu_day: {error}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    own = argparse.ArgumentParser(
        prog="gpu_day.py",
        usage="%(prog)s (--list | --lot N | --all | --smoke | --pack DIR) ...",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = own.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="the lots")
    what.add_argument("--lot", type=int, action="append", metavar="N")
    what.add_argument("--all", action="store_true", help="in order of worth")
    what.add_argument("--pack", type=Path, metavar="DIR", help="write the data")
    own.add_argument("--smoke", action="store_true", help="small, on a CPU")
    own.add_argument("--minutes", type=float, help="stop a lot after these")
    own.add_argument("--epochs", type=int, help="of lots 5 and 10")
    own.add_argument("--data", type=Path, metavar="DIR", help="from --pack")
    own.add_argument("--device", help="default: cuda; with --smoke: cpu")
    own.add_argument("--folder", type=Path, help="default: runs/gpu-day")
    own.add_argument("--results", type=Path, help="default: vitedu/results")
    return own


def listed() -> str:
    """The table of lots."""
    return "".join(
        f"{lot.number:2}  {lot.name:10} {lot.minutes:4g} min  {lot.title}"
        + (f" (--data: {', '.join(lot.needs)})" if lot.needs else "")
        + "\n"
        for lot in LOTS
    )


def run_lots(options: argparse.Namespace) -> int:
    """Each lot that is asked for; the failure of one doesn't stop the next."""
    chosen = chosen_lots(options.lot)
    device = the_device(options.device, options.smoke)
    with tempfile.TemporaryDirectory() as scratch:
        # what a smoke test measures is never recorded
        home = Path(scratch) if options.smoke else Path("runs/gpu-day")
        folder = options.folder or home
        records = options.results
        if records is None:
            records = home if options.smoke else results.FOLDER
        make_folder(records)
        stop_at = None
        if options.minutes is not None:
            stop_at = time.monotonic() + 60 * options.minutes
        code = 0
        for lot in chosen:
            if stop_at is not None and time.monotonic() > stop_at:
                tell(f"{lot.name}: not begun, the minutes are spent")
                continue
            own = folder / slug(results.hardware(device)) / lot.name
            try:
                check_data(lot, options.data, options.smoke)
                make_folder(own)
                asked = Options(
                    device,
                    options.data,
                    own,
                    options.smoke,
                    options.epochs,
                    stop_at,
                )
                if not run_lot(lot, asked, records, stop_at):
                    code = code or 1
            except UserError as error:
                print(f"gpu_day: lot {lot.name}: {error}", file=sys.stderr)
                code = 2
            except torch.cuda.OutOfMemoryError as error:
                print(
                    f"gpu_day: lot {lot.name}: {no_room(device, error)}",
                    file=sys.stderr,
                )
                code = 2
            except Exception:  # a mistake of ours; the other lots can still run
                traceback.print_exc()
                tell(f"{lot.name}: broke off; what it measured is recorded")
                code = code or 1
            free(device)
        return code


def chosen_lots(numbers: list[int] | None) -> list[Lot]:
    """The lots of these numbers, or all. UserError: there is no such lot."""
    known = {lot.number: lot for lot in LOTS}
    for number in numbers or ():
        if number not in known:
            raise UserError(
                f"there is no lot {number}; --list shows those from "
                f"{min(known)} to {max(known)}"
            )
    return [known[number] for number in numbers or known]


def the_device(name: str | None, smoke: bool) -> torch.device:
    """The device to measure. UserError: it isn't one that lots are made for."""
    name = name or ("cpu" if smoke else "cuda")
    if name.startswith("cuda"):
        check_driver()
    device = find_device(name)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    if device.type != "cuda" and not smoke:
        raise UserError(
            f"the lots measure a CUDA GPU, not the device {name}; add --smoke "
            "to run them small"
        )
    return device


def check_driver() -> None:
    """UserError: there is no GPU that this PyTorch can use, and why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # init says the same
        if torch.cuda.is_available():
            return
    why = "PyTorch finds none"
    try:
        torch.cuda.init()
    except Exception as error:  # no driver, one that is too old, no CUDA
        why = reason(error).rstrip(".")
    raise UserError(f"no GPU: {why}; --smoke runs every lot small on the CPU")


def check_data(lot: Lot, data: Path | None, smoke: bool) -> None:
    """UserError: what the lot reads isn't there. A smoke test has stand-ins."""
    if not lot.needs or (smoke and data is None):
        return
    if data is None:
        raise UserError(
            f"it needs {' and '.join(lot.needs)}; name the folder that "
            "--pack wrote with --data"
        )
    missing = [name for name in lot.needs if not (data / name).exists()]
    if missing:
        raise UserError(
            f"{data} lacks {' and '.join(missing)}; --pack writes it"
        )


def no_room(device: torch.device, error: BaseException) -> str:
    """One sentence about a card that is too small for a lot."""
    free, total = torch.cuda.mem_get_info(device)
    return (
        f"it doesn't fit into the memory of {results.hardware(device)}, "
        f"{free / 1e9:.1f} of {total / 1e9:.1f} GB free ({reason(error)})"
    )


def run_lot(
    lot: Lot,
    options: Options,
    records: Path,
    stop_at: float | None,
) -> bool:
    """Run a lot, and write what it has measured after every piece.

    False: some pieces broke off.
    """
    tell(f"{lot.name}: {lot.title}, about {lot.minutes:g} minutes")
    name = record_name(lot, records, results.hardware(options.device))
    clock = options.folder / "seconds.json"
    before = read_json(clock)["seconds"] if clock.exists() else 0.0
    started = time.monotonic()
    still_open, is_stopped = ["everything"], False
    with closing(lot.run(options)) as outcomes:
        for outcome in outcomes:
            seconds = before + time.monotonic() - started
            replace_file(clock, json.dumps({"seconds": seconds}))
            still_open = outcome.open
            if outcome.metrics:
                record = record_of(lot, name, outcome, options, seconds)
                results.write(records / f"{name}.json", record)
            if still_open and stop_at and time.monotonic() > stop_at:
                is_stopped = True
                break
    took = time.monotonic() - started
    left = f"; open: {', '.join(still_open)}" if still_open else ""
    tell(f"{lot.name}: {took:.0f} seconds{left}")
    return is_stopped or not still_open


def record_name(lot: Lot, records: Path, hardware: str) -> str:
    """gpu-NAME; gpu-NAME-CARD if that is the record of another card."""
    name = f"gpu-{lot.name}"
    path = records / f"{name}.json"
    if path.exists() and results.read_file(path)["hardware"] != hardware:
        return f"{name}-{slug(hardware)}"
    return name


def record_of(
    lot: Lot, name: str, outcome: Outcome, options: Options, seconds: float
) -> dict[str, Any]:
    """What a lot has measured so far, as a recorded result."""
    command = f"python benchmarks/gpu_day.py --lot {lot.number}"
    command += " --data FOLDER" if lot.needs else ""
    command += f" --epochs {options.epochs}" if options.epochs else ""
    fields = result_fields(name, command, seconds, device=str(options.device))
    fields["versions"] |= versions(options.device)
    notes = [outcome.notes] if outcome.notes else []
    if outcome.open:
        notes.append(f"open: {', '.join(outcome.open)}")
    return fields | {
        "status": "interrupted" if outcome.open else "finished",
        "tier": "smoke" if options.smoke else "gpu",
        "config": outcome.config,
        "metrics": outcome.metrics,
        "dataset": outcome.dataset,
        "seeds": list(outcome.seeds),
        "notes": "; ".join(notes),
    }


def versions(device: torch.device) -> dict[str, str]:
    """What else a speed depends on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if device.type == "cuda":
        found["cuda"] = str(torch.version.cuda)
        found["cudnn"] = str(torch.backends.cudnn.version())
    return found


def slug(text: str) -> str:
    """A name of hardware as a folder is called."""
    letters = [each if each.isalnum() else "-" for each in text.lower()]
    return "-".join(part for part in "".join(letters).split("-") if part)


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # every piece that is done is recorded
        raise SystemExit(130) from None
