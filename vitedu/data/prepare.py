"""A folder of photographs made small, once: into shards or another folder.

`prepare("imagenet", "imagenet-256")`
`vitedu.finetune("ViT-Ti/16", "imagenet-256", "out")`

The work is divided into jobs, a shard each. A job writes its file under a
random name, renames it when it is whole, and leaves a note in OUT/.unfinished;
so whatever interrupts it, the next call does only the jobs without a note. The
bytes of a shard depend on its pictures and the settings alone.
"""

import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated

import PIL
from filelock import FileLock, Timeout

from vitedu.data.prepare_jobs import (
    UNFINISHED,
    OnProgress,
    Plan,
    Work,
    is_there,
    plan_of,
)
from vitedu.data.prepared_index import (
    NAME,
    Format,
    Index,
    Part,
    Settings,
    read_index,
    write_index,
)
from vitedu.data.scan import threads
from vitedu.errors import UserError
from vitedu.fields import Count, Range, converted
from vitedu.files import list_folder, make_folder, user_path

LEFT_OVER = re.compile(r".*\.[0-9a-f]{16}\.part")
Quality = Annotated[int, Range(1, 100)]


@dataclass(frozen=True)
class Prepared:
    """What is in OUT."""

    out: Path
    index: Index
    was_finished: bool  # before this call


def prepare(
    folder: str | PathLike[str],
    out: str | PathLike[str],
    *,
    short_side: int = 256,
    shard_size: int = 1000,
    format: Format = "shards",
    num_workers: int | None = None,
    quality: int = 90,
    on_progress: OnProgress | None = None,
) -> Prepared:
    """Write the pictures of `folder` into `out`, resized, as JPEG.

    `folder` has class folders, in train/, val/ and test/ or alone. The short
    side becomes `short_side` pixels (bicubic; a smaller picture isn't enlarged,
    and if it is a JPEG, its bytes are kept), the quality is pillow's, without
    chroma subsampling. An EXIF rotation is not applied, as everywhere here.

    format "shards": `out`/train-000000.tar, each with `shard_size` pictures of
    all classes in a random order that is always the same, for WebDataset or
    `data=out`. "folder": class folders again. index.json has the classes, the
    number of pictures in each, checksums and what could not be read.

    Interrupted, the same call goes on; finished, it returns at once, and writes
    shards anew that are missing or too short.
    `num_workers` pictures at a time are decoded, by default as many as there
    are processors, up to 16. `on_progress(done, all)` is called several times a
    second.

    UserError: `folder` doesn't fit, `out` has something else or was made with
    other settings or pictures, the disk is full, every picture of a class is
    broken, or a file may not be read.
    """
    settings = Settings(
        converted("format", format, Format),
        converted("short_side", short_side, Count),
        converted("shard_size", shard_size, Count),
        converted("quality", quality, Quality),
    )
    if num_workers is not None:
        num_workers = converted("num_workers", num_workers, Count)
    folder, out = user_path(folder), user_path(out)
    _check_apart(folder, out)
    _found(out, settings)  # says what is wrong before it takes long
    plan = plan_of(folder, settings)
    if index := _whole(out, _found(out, settings, plan)):
        return Prepared(out, index, was_finished=True)
    make_folder(out / UNFINISHED)
    try:
        with FileLock(out / UNFINISHED / "lock", timeout=0):
            # another process may have been at work in the meantime
            found = _found(out, settings, plan)
            index = _whole(out, found) or _run(
                Work(plan, settings, out, found),
                num_workers or threads(),
                on_progress,
            )
    except Timeout:
        raise UserError(
            f"another process is preparing {out}; wait for it, or give another "
            "folder"
        ) from None
    shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    return Prepared(out, index, was_finished=False)


def _check_apart(folder: Path, out: Path) -> None:
    """UserError: one is inside the other."""
    read, written = folder.resolve(), out.resolve()
    for inner, outer in ((written, read), (read, written)):
        if inner.is_relative_to(outer):
            raise UserError(
                f"{inner} is inside {outer}; give a folder elsewhere"
            )


def _found(
    out: Path, settings: Settings, plan: Plan | None = None
) -> Index | None:
    """The index in OUT; None: nothing was done yet.

    UserError: it is somebody's folder, or was begun with others of these.
    """
    if not os.path.lexists(out):
        return None
    if not os.path.isdir(out):
        raise UserError(f"{out} is a file; give a new folder")
    names = list_folder(out)
    if NAME in names:
        index = read_index(out)
        _check_same(settings, index.settings, out)
        if plan is not None and plan.digest != index.source:
            raise UserError(
                f"the pictures in {plan.folder} have changed since {out} was "
                "begun; prepare them into another folder, or delete that one"
            )
        return index
    # of a run that was killed before it could write its index
    if all(name == UNFINISHED or LEFT_OVER.fullmatch(name) for name in names):
        return None
    raise UserError(
        f"{out} contains other files ({names[0]}, ...), which stay as they "
        "are; give a new folder"
    )


def _check_same(new: Settings, old: Settings, out: Path) -> None:
    """UserError: the settings of OUT are others."""
    pairs = zip(Settings._fields, old, new, strict=True)
    differ = [f"{name}={x} (now {y})" for name, x, y in pairs if x != y]
    if differ:
        raise UserError(
            f"{out} was begun with {', '.join(differ)}; give the same "
            "settings, or another folder"
        )


def _whole(out: Path, index: Index | None) -> Index | None:
    """`index`, if it is complete and all its shards are there."""
    if index is None or not index.is_complete:
        return None
    if index.settings.format == "folder":
        return index
    is_whole = all(is_there(out, shard) for shard in index.shards.values())
    return index if is_whole else None


def _run(work: Work, num_workers: int, on_progress: OnProgress | None) -> Index:
    """Do the jobs that are left, and write the index."""
    plan, settings, out = work.plan, work.settings, work.out
    preprocess = {
        "short_side": settings.short_side,
        "interpolation": "bicubic",
        "quality": settings.quality,
        "subsampling": "4:4:4",
        "pillow": PIL.__version__,
    }
    index = Index(False, settings, plan.digest, plan.classes, {}, preprocess)
    notes = {job.name: note for job in plan.jobs if (note := work.note_of(job))}
    write_index(out, index)
    left = [job for job in plan.jobs if job.name not in notes]
    for job, note in work.do(left, num_workers, on_progress):
        notes[job.name] = note
    parts = {}
    for name in plan.parts:
        done = [notes[job.name] for job in plan.jobs if job.part == name]
        counts: Counter[int] = Counter()
        for note in done:
            counts.update(note.counts)
        parts[name] = Part(
            tuple(counts[label] for label in range(len(plan.classes))),
            tuple(note.shard for note in done),
        )
    index = index._replace(is_complete=True, parts=parts)
    _check_no_class_is_lost(index)
    # what killed runs left half-written
    for path in out.rglob("*.part"):
        if LEFT_OVER.fullmatch(path.name):
            path.unlink(missing_ok=True)
    write_index(out, index)
    return index


def _check_no_class_is_lost(index: Index) -> None:
    """UserError: every picture of a class is broken."""
    counts = index.parts["train"].counts
    for name, count in zip(index.classes, counts, strict=True):
        if not count:
            raise UserError(
                f"no picture of the class {name!r} can be read (of all: "
                f"{index.unreadable[0]}); put others there and prepare them "
                "into another folder"
            )
