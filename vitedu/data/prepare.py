"""Resize a folder of photographs once, into shards or another folder.

`prepare("imagenet", "imagenet-256")`

The work is divided into jobs, one per shard, which depend only on the names and
sizes of the files and on the settings. A finished job leaves a note in
OUT/.unfinished; the next call does the jobs without one.
"""

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

import PIL
from filelock import FileLock, Timeout

from vitedu.data.prepare_plan import Job, Original, Plan, plan_of
from vitedu.data.prepared_index import (
    NAME,
    Format,
    Index,
    Part,
    Settings,
    Shard,
    read_index,
    shard_of,
    write_index,
)
from vitedu.data.readers.shards import samples_in, sha256_of
from vitedu.data.scan import ONE_POOL, threads
from vitedu.errors import UserError, printable
from vitedu.fields import Count, Range
from vitedu.fields import converted as checked
from vitedu.files import (
    list_folder,
    make_folder,
    read_json,
    replace_file,
    user_path,
)
from vitedu.pictures import (
    LARGE_PIXELS,
    UnreadablePicture,
    converted,
    opened,
    reading,
)

UNFINISHED = ".unfinished"  # the folder of the notes, in OUT
SECONDS = 0.2  # between two reports
# Progress: pictures that are done, and all of them.
OnProgress = Callable[[int, int], object]
LEFT_OVER = re.compile(r".*\.[0-9a-f]{16}\.part")
Quality = Annotated[int, Range(1, 100)]


class Note(NamedTuple):
    shard: Shard
    counts: dict[int, int]  # pictures by label


class Stopped(Exception):
    """Another job failed, or the user wants to stop."""


@dataclass(frozen=True)
class Prepared:
    """The prepared folder and its index."""

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
    and a smaller JPEG keeps its bytes), `quality` is pillow's, without chroma
    subsampling. EXIF rotation is not applied, as everywhere here.

    format "shards": `out`/train-000000.tar and so on, each with `shard_size`
    pictures of all classes in a fixed random order, for WebDataset or
    `data=out`. "folder": class folders again. index.json has the classes, the
    number of pictures in each, checksums and what could not be read.

    After an interruption, repeat the call to continue. A finished `out` is
    returned at once, and shards that are missing or too short are written
    again. `num_workers` pictures are decoded at a time, by default one per
    processor, up to 16. `on_progress(done, all)` is called several times a
    second.

    UserError: `folder` doesn't fit, `out` has other files or was made with
    other settings or pictures, the disk is full, every picture of a class is
    broken, or a file may not be read.
    """
    settings = Settings(
        checked("format", format, Format),
        checked("short_side", short_side, Count),
        checked("shard_size", shard_size, Count),
        checked("quality", quality, Quality),
    )
    if num_workers is not None:
        num_workers = checked("num_workers", num_workers, Count)
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
    read, written = folder.resolve(), out.resolve()
    for inner, outer in ((written, read), (read, written)):
        if inner.is_relative_to(outer):
            raise UserError(
                f"{inner} is inside {outer}; give a folder elsewhere"
            )


def _found(
    out: Path, settings: Settings, plan: Plan | None = None
) -> Index | None:
    """The index in `out`; None: no job has begun.

    UserError: `out` has other files, or was begun with other settings or
    pictures.
    """
    if not os.path.lexists(out):
        return None
    if not os.path.isdir(out):
        raise UserError(f"{out} is a file; give a new folder")
    names = list_folder(out)
    if NAME in names:
        index = read_index(out)
        pairs = zip(Settings._fields, index.settings, settings, strict=True)
        differ = [f"{name}={x} (now {y})" for name, x, y in pairs if x != y]
        if differ:
            raise UserError(
                f"{out} was begun with {', '.join(differ)}; give the same "
                "settings, or another folder"
            )
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


def _whole(out: Path, index: Index | None) -> Index | None:
    """`index`, if it is complete and all its shards are there."""
    if index is None or not index.is_complete:
        return None
    if index.settings.format == "shards" and not all(
        is_there(out, shard) for shard in index.shards.values()
    ):
        return None
    return index


def _run(
    work: "Work", num_workers: int, on_progress: OnProgress | None
) -> Index:
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
    counts = index.parts["train"].counts
    for name, count in zip(index.classes, counts, strict=True):
        if not count:
            raise UserError(
                f"no picture of the class {name!r} can be read (of all: "
                f"{index.unreadable[0]}); put others there and prepare them "
                "into another folder"
            )


class Work:
    """The jobs on their threads, and the notes of those already done."""

    def __init__(
        self, plan: Plan, settings: Settings, out: Path, index: Index | None
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.out = out
        # shards of a finished OUT, some of which may be lost
        self.finished = {} if index is None else index.shards
        self.num_done = 0  # pictures
        self.stop = threading.Event()
        self.counting = threading.Lock()
        self.one_large = threading.Lock()

    def do(
        self,
        jobs: list[Job],
        num_workers: int,
        on_progress: OnProgress | None,
    ) -> Iterator[tuple[Job, Note]]:
        """Yield each job with its note, in the order of completion."""
        from PIL import Image

        Image.init()  # all plug-ins, before threads load them side by side
        num_all = sum(len(job.originals) for job in self.plan.jobs)
        self.num_done = num_all - sum(len(job.originals) for job in jobs)
        with (
            ONE_POOL,
            warnings.catch_warnings(),
            ThreadPoolExecutor(num_workers) as pool,
        ):
            # pillow warns about files that it can read
            warnings.simplefilter("ignore")
            waiting: dict[Future[Note], Job] = {
                pool.submit(self._do, job): job for job in jobs
            }
            try:
                while waiting:
                    done, _ = wait(waiting, SECONDS, "FIRST_COMPLETED")
                    for future in done:
                        yield waiting.pop(future), future.result()
                    if on_progress is not None:
                        on_progress(self.num_done, num_all)
            finally:
                self.stop.set()
                pool.shutdown(cancel_futures=True)

    def note_of(self, job: Job) -> Note | None:
        """The note of a finished job, unless its shard has been lost."""
        try:
            values = read_json(self._note_file(job))
        except UserError:
            return self._finished_note(job)
        shard = shard_of(values["shard"])
        if self.settings.format == "shards" and not is_there(self.out, shard):
            return None
        return Note(shard, {int(x): n for x, n in values["counts"].items()})

    def _finished_note(self, job: Job) -> Note | None:
        shard = self.finished.get(f"{job.name}.tar")
        if shard is None or not is_there(self.out, shard):
            return None
        samples, _ = samples_in(self.out / shard.name)
        counts = Counter(label for *_, label in samples)
        return self._write_note(job, Note(shard, counts))

    def _write_note(self, job: Job, note: Note) -> Note:
        values = {"shard": note.shard._asdict(), "counts": note.counts}
        replace_file(self._note_file(job), json.dumps(values))
        return note

    def _note_file(self, job: Job) -> Path:
        return self.out / UNFINISHED / f"{job.name}.json"

    def _do(self, job: Job) -> Note:
        counts: Counter[int] = Counter()
        unreadable: list[str] = []
        write = write_shard if self.settings.format == "shards" else write_files
        pictures = self._pictures(job, counts, unreadable)
        shard = write(self.out, job.name, pictures)
        shard = shard._replace(unreadable=tuple(unreadable))
        return self._write_note(job, Note(shard, counts))

    def _pictures(
        self, job: Job, counts: Counter[int], unreadable: list[str]
    ) -> Iterator[tuple[Original, bytes]]:
        above = printable(f"{self.plan.folder.as_posix()}/")
        for original in job.originals:
            if self.stop.is_set():
                raise Stopped
            try:
                yield original, self._jpeg(original.path)
                counts[original.label] += 1
            except UnreadablePicture as error:
                unreadable.append(str(error).replace(above, "", 1))
            with self.counting:
                self.num_done += 1

    def _jpeg(self, path: Path) -> bytes:
        """A picture as it will be stored. UnreadablePicture: it is broken."""
        from PIL import Image

        short_side = self.settings.short_side
        with opened(path) as image, reading(str(path)):
            width, height = image.size
            is_large = width * height >= LARGE_PIXELS
            is_plain = image.format == "JPEG" and image.mode in ("RGB", "L")
            with self.one_large if is_large else nullcontext():
                picture = converted(image, 3)
                if is_plain and min(width, height) <= short_side:
                    return path.read_bytes()
                size = resized_to(width, height, short_side)
                if size != picture.size:
                    how = Image.Resampling.BICUBIC
                    picture = picture.resize(size, how)
            content = io.BytesIO()
            picture.info.clear()  # no EXIF, no profile
            picture.save(
                content, "JPEG", quality=self.settings.quality, subsampling=0
            )
            return content.getvalue()


def is_there(out: Path, shard: Shard) -> bool:
    path = out / shard.name
    return path.is_file() and path.stat().st_size == shard.bytes


def resized_to(width: int, height: int, short_side: int) -> tuple[int, int]:
    """(width, height) with this short side; small pictures keep their size."""
    short = min(width, height)
    if short <= short_side:
        return width, height
    scaled = [
        short_side if side == short else round(side * short_side / short)
        for side in (width, height)
    ]
    return scaled[0], scaled[1]


def write_shard(
    out: Path, name: str, pictures: Iterator[tuple[Original, bytes]]
) -> Shard:
    """Pictures and labels as a tar that has neither dates nor owners."""
    num_samples = 0

    def write(file: BinaryIO) -> None:
        nonlocal num_samples
        with tarfile.open(
            fileobj=file, mode="w", format=tarfile.USTAR_FORMAT
        ) as archive:
            for original, content in pictures:
                label = b"%d" % original.label
                for suffix, data in (("jpg", content), ("cls", label)):
                    # made on 1970-01-01 by user 0, mode 644
                    member = tarfile.TarInfo(f"{original.target}.{suffix}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
                num_samples += 1

    path = out / f"{name}.tar"
    replace_file(path, write)
    size = path.stat().st_size
    return Shard(path.name, num_samples, size, sha256_of(path), ())


def write_files(
    out: Path, name: str, pictures: Iterator[tuple[Original, bytes]]
) -> Shard:
    """Pictures as files; the checksum is that of their bytes, one by one."""
    digest, num_samples, num_bytes = hashlib.sha256(), 0, 0
    for original, content in pictures:
        path = out / original.target
        make_folder(path.parent)
        replace_file(path, content)
        digest.update(content)
        num_samples, num_bytes = num_samples + 1, num_bytes + len(content)
    return Shard(name, num_samples, num_bytes, digest.hexdigest(), ())
