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
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, wait
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

import PIL
import torch
from filelock import FileLock, Timeout

from vitedu import files
from vitedu.data.feed.source import seed_from
from vitedu.data.labels import check_known
from vitedu.data.open import reader_of
from vitedu.data.prepared_index import (
    Format,
    Index,
    Part,
    Settings,
    Shard,
    read_index,
    shard_of,
    write_index,
)
from vitedu.data.readers import folder as folders
from vitedu.data.readers.shards import samples_in, sha256_of
from vitedu.data.scan import decoding_threads, threads
from vitedu.errors import UserError, printable
from vitedu.fields import Count, Range
from vitedu.fields import converted as checked
from vitedu.pictures import (
    LARGE_PIXELS,
    UnreadablePicture,
    converted,
    open_picture,
)

UNFINISHED = ".unfinished"  # the folder of the notes, in OUT
SECONDS = 0.2  # between two reports
SHUFFLE_SEED = 0
STRANGE = re.compile(r"[^A-Za-z0-9_-]")
MOST_LETTERS = 60  # of a key: a tar's header has room for 100
# Progress: pictures that are done, and all of them.
OnProgress = Callable[[int, int], object]
Quality = Annotated[int, Range(1, 100)]


class Prepared(NamedTuple):
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
    subsampling. Photographs are turned upright; one that keeps its bytes keeps
    its EXIF tag, by which its reader turns it.

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
    num_workers = checked("num_workers", num_workers, Count | None)
    folder, out = files.user_path(folder), files.user_path(out)
    read, written = folder.resolve(), out.resolve()
    for inner, outer in ((written, read), (read, written)):
        if inner.is_relative_to(outer):
            raise UserError(
                f"{inner} is inside {outer}; give a folder elsewhere"
            )
    _begun(out, settings)  # says what is wrong before it takes long
    work = Work(plan_of(folder, settings), settings, out)
    if index := work.finished():
        return Prepared(out, index, was_finished=True)
    files.make_folder(out / UNFINISHED)
    try:
        with FileLock(out / UNFINISHED / "lock", timeout=0):
            index = work.do(num_workers or threads(), on_progress)
    except Timeout:
        raise UserError(
            f"another process is preparing {out}; wait for it, or give another "
            "folder"
        ) from None
    shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    return Prepared(out, index, was_finished=False)


def _begun(out: Path, settings: Settings) -> Index | None:
    """The index in `out`; None: no job has begun."""
    if not os.path.lexists(out):
        return None
    names = files.list_folder(out)
    if index := read_index(out):
        pairs = zip(Settings._fields, index.settings, settings, strict=True)
        differ = [f"{name}={x} (now {y})" for name, x, y in pairs if x != y]
        if differ:
            raise UserError(
                f"{out} was begun with {', '.join(differ)}; give the same "
                "settings, or another folder"
            )
        return index
    # of a run that was killed before it could write its index
    if all(
        name == UNFINISHED or files.LEFT_OVER.fullmatch(name) for name in names
    ):
        return None
    raise UserError(
        f"{out} has other files in it ({', '.join(names[:3])}"
        f"{', ...' if names[3:] else ''}), and prepare doesn't write among "
        "them; give a new folder"
    )


# --- Which picture goes into which shard


class Original(NamedTuple):
    path: Path
    label: int
    target: str  # its key in a shard, or its path in a folder


class Job(NamedTuple):
    """One shard, or as many pictures of a folder as a shard would have."""

    name: str  # "train-000000"
    part: str
    originals: list[Original]


class Plan(NamedTuple):
    folder: Path
    classes: tuple[str, ...]
    parts: tuple[str, ...]
    jobs: list[Job]
    digest: str  # 16 hex digits, of the names and sizes of the files


def plan_of(folder: Path, settings: Settings) -> Plan:
    if reader_of(folder) is not folders:
        raise UserError(
            f"{folder} isn't a folder of class folders, which is what prepare "
            "reads"
        )
    folder = folders.existing_folder(folder)
    classes = folders.class_names(folder)
    roots = folders.parts(folder) or {"train": folder}
    digest = hashlib.sha256()
    jobs: list[Job] = []
    for part, root in roots.items():
        found = _labelled(root, classes)
        for path, _ in found:
            # None: nothing is there; reading it will tell
            size = path.stat().st_size if path.exists() else None
            name = f"{path.relative_to(folder).as_posix()} {size}\n"
            digest.update(os.fsencode(name))
        if settings.format == "shards":
            targets = [
                f"{number:09}-{STRANGE.sub('_', path.stem)[:MOST_LETTERS]}"
                for number, (path, _) in enumerate(found)
            ]
        else:
            targets = _jpeg_names(
                [path.relative_to(folder) for path, _ in found]
            )
        generator = torch.Generator().manual_seed(seed_from(SHUFFLE_SEED))
        order = torch.randperm(len(found), generator=generator)
        for number, rows in enumerate(order.split(settings.shard_size)):
            originals = [
                Original(*found[row], targets[row]) for row in rows.tolist()
            ]
            jobs.append(Job(f"{part}-{number:06}", part, originals))
    return Plan(folder, classes, tuple(roots), jobs, digest.hexdigest()[:16])


def _labelled(root: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    names = folders.class_folders(root)
    check_known(root, names, classes)
    found = [
        (path, classes.index(name))
        for name in names
        for path in sorted(folders.pictures_in(root / name))
    ]
    if not found:
        raise UserError(
            f"there are no pictures in class folders in {root}, which "
            f"contains {folders.contents(root)}; put some there, or move the "
            "folder away"
        )
    return found


def _jpeg_names(paths: list[Path]) -> list[str]:
    """These names, with .jpg appended to those of other formats."""
    taken: set[str] = set()
    names = []
    for path in paths:
        is_jpeg = path.suffix.lower() in (".jpg", ".jpeg")
        name = path.as_posix() if is_jpeg else f"{path.as_posix()}.jpg"
        # cat.png beside cat.png.jpg; not every disk tells a.jpg from A.jpg
        while name.casefold() in taken:
            name = f"{name}.jpg"
        taken.add(name.casefold())
        names.append(name)
    return names


# --- Doing it


class Note(NamedTuple):
    shard: Shard
    counts: Counter[int]  # pictures by label


class Work:
    def __init__(self, plan: Plan, settings: Settings, out: Path) -> None:
        self.plan = plan
        self.settings = settings
        self.out = out
        # of a finished OUT, some of which may be lost
        self.shards: dict[str, Shard] = {}
        self.num_done = 0  # pictures
        self.stop = threading.Event()
        self.counting = threading.Lock()
        self.one_large = threading.Lock()

    def finished(self) -> Index | None:
        """The index, if all is there. UserError: OUT is of something else."""
        index = _begun(self.out, self.settings)
        if index is None:
            return None
        if index.source != self.plan.digest:
            raise UserError(
                f"the pictures in {self.plan.folder} have changed since "
                f"{self.out} was begun; prepare them into another folder, or "
                "delete that one"
            )
        self.shards = index.shards
        are_there = all(map(self._is_there, self.shards.values()))
        return index if index.is_complete and are_there else None

    def do(self, num_workers: int, on_progress: OnProgress | None) -> Index:
        plan, settings = self.plan, self.settings
        how = {
            "short_side": settings.short_side,
            "interpolation": "bicubic",
            "quality": settings.quality,
            "subsampling": "4:4:4",
            "pillow": PIL.__version__,
        }
        index = Index(False, settings, plan.digest, plan.classes, {}, how)
        notes = {
            job.name: note for job in plan.jobs if (note := self._note_of(job))
        }
        write_index(self.out, index)
        left = [job for job in plan.jobs if job.name not in notes]
        notes |= self._written(left, num_workers, on_progress)
        parts = {}
        for name in plan.parts:
            done = [notes[job.name] for job in plan.jobs if job.part == name]
            counts = sum((note.counts for note in done), Counter[int]())
            parts[name] = Part(
                tuple(counts[label] for label in range(len(plan.classes))),
                tuple(note.shard for note in done),
            )
        index = index._replace(is_complete=True, parts=parts)
        if 0 in parts["train"].counts:
            name = plan.classes[parts["train"].counts.index(0)]
            raise UserError(
                f"no picture of the class {name!r} can be read (of all: "
                f"{index.unreadable[0]}); put others there and prepare them "
                "into another folder"
            )
        for path in self.out.rglob("*.part"):
            if files.LEFT_OVER.fullmatch(path.name):
                path.unlink(missing_ok=True)
        write_index(self.out, index)
        return index

    def _written(
        self, jobs: list[Job], num_workers: int, on_progress: OnProgress | None
    ) -> dict[str, Note]:
        num_all = sum(len(job.originals) for job in self.plan.jobs)
        self.num_done = num_all - sum(len(job.originals) for job in jobs)
        with decoding_threads(num_workers) as pool:
            futures = {job.name: pool.submit(self._do, job) for job in jobs}
            waiting = set(futures.values())
            try:
                while waiting:
                    done, waiting = wait(waiting, SECONDS, "FIRST_COMPLETED")
                    for future in done:
                        future.result()  # raises what went wrong
                    if on_progress is not None:
                        on_progress(self.num_done, num_all)
            finally:
                self.stop.set()
                pool.shutdown(cancel_futures=True)
        return {name: future.result() for name, future in futures.items()}

    def _note_of(self, job: Job) -> Note | None:
        try:
            values = files.read_json(self._note_file(job))
        except UserError:
            shard = self.shards.get(f"{job.name}.tar")
            if shard is None or not self._is_there(shard):
                return None
            samples, _ = samples_in(self.out / shard.name)
            counts = Counter(label for *_, label in samples)
            return self._write_note(job, Note(shard, counts))
        shard = shard_of(values["shard"])
        counts = Counter({int(x): n for x, n in values["counts"].items()})
        return Note(shard, counts) if self._is_there(shard) else None

    def _write_note(self, job: Job, note: Note) -> Note:
        values = {"shard": note.shard._asdict(), "counts": note.counts}
        files.replace_file(self._note_file(job), json.dumps(values))
        return note

    def _note_file(self, job: Job) -> Path:
        return self.out / UNFINISHED / f"{job.name}.json"

    def _is_there(self, shard: Shard) -> bool:
        if self.settings.format == "folder":
            return True
        path = self.out / shard.name
        return path.is_file() and path.stat().st_size == shard.bytes

    def _do(self, job: Job) -> Note:
        counts: Counter[int] = Counter()
        unreadable: list[str] = []
        pictures = self._pictures(job, counts, unreadable)
        if self.settings.format == "shards":
            name = f"{job.name}.tar"
            num_bytes, digest = write_shard(self.out / name, pictures)
        else:
            name = job.name
            num_bytes, digest = write_files(self.out, pictures)
        num_samples, left_out = counts.total(), tuple(unreadable)
        shard = Shard(name, num_samples, num_bytes, digest, left_out)
        return self._write_note(job, Note(shard, counts))

    def _pictures(
        self, job: Job, counts: Counter[int], unreadable: list[str]
    ) -> Iterator[tuple[Original, bytes]]:
        above = printable(f"{self.plan.folder.as_posix()}/")
        for original in job.originals:
            if self.stop.is_set():
                raise CancelledError
            try:
                yield original, self._jpeg(original.path)
                counts[original.label] += 1
            except UnreadablePicture as error:
                unreadable.append(str(error).replace(above, "", 1))
            with self.counting:
                self.num_done += 1

    def _jpeg(self, path: Path) -> bytes:
        from PIL import Image

        short_side = self.settings.short_side
        with open_picture(path) as image:
            width, height = image.size
            is_large = width * height >= LARGE_PIXELS
            is_plain = image.format == "JPEG" and image.mode in ("RGB", "L")
            with self.one_large if is_large else nullcontext():
                picture = converted(image, 3)
                if is_plain and min(width, height) <= short_side:
                    return path.read_bytes()
                size = resized_to(*picture.size, short_side)
                if size != picture.size:
                    how = Image.Resampling.BICUBIC
                    picture = picture.resize(size, how)
            content = io.BytesIO()
            picture.info.clear()  # no EXIF, no profile
            picture.save(
                content, "JPEG", quality=self.settings.quality, subsampling=0
            )
            return content.getvalue()


def resized_to(width: int, height: int, short_side: int) -> tuple[int, int]:
    short = min(width, height)
    new = min(short, short_side)
    return round(width * new / short), round(height * new / short)


def write_shard(
    path: Path, pictures: Iterator[tuple[Original, bytes]]
) -> tuple[int, str]:
    """A tar without dates and owners: its size and its SHA-256."""

    def write(file: BinaryIO) -> None:
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

    files.replace_file(path, write)
    return path.stat().st_size, sha256_of(path)


def write_files(
    out: Path, pictures: Iterator[tuple[Original, bytes]]
) -> tuple[int, str]:
    digest, num_bytes = hashlib.sha256(), 0
    for original, content in pictures:
        path = out / original.target
        files.make_folder(path.parent)
        files.replace_file(path, content)
        digest.update(content)
        num_bytes += len(content)
    return num_bytes, digest.hexdigest()
