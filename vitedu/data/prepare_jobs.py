"""What `vitedu prepare` writes, in jobs: a shard each, or part of a folder.

`plan = plan_of(Path("photos"), Settings("shards", 256, 1000, 90))`
`for job, note in Work(plan, settings, out).do(plan.jobs, 2, None): ...`

A plan depends on the names and sizes of the files and on the settings alone, so
a run that was interrupted comes back to the same jobs.
"""

import hashlib
import io
import json
import os
import re
import tarfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, NamedTuple

import torch

from vitedu.data.feed.order import seed_from
from vitedu.data.listing import (
    class_folders,
    contents,
    existing_folder,
    pictures_in,
)
from vitedu.data.open import reader_of
from vitedu.data.prepared_index import Index, Settings, Shard, shard_of
from vitedu.data.readers import folder as folders
from vitedu.data.readers.shards import samples_in, sha256_of
from vitedu.data.scan import ONE_POOL
from vitedu.errors import UserError, printable
from vitedu.files import make_folder, read_json, replace_file
from vitedu.pictures import (
    LARGE_PIXELS,
    UnreadablePicture,
    converted,
    opened,
    reading,
)

SHUFFLE_SEED = 0
STRANGE = re.compile(r"[^A-Za-z0-9_-]")
MOST_LETTERS = 60  # of a key: a tar's header has room for 100
UNFINISHED = ".unfinished"  # the folder of the notes, in OUT
SECONDS = 0.2  # between two reports
# Progress: pictures that are done, and all of them.
OnProgress = Callable[[int, int], object]


class Original(NamedTuple):
    """A picture as it was found."""

    path: Path
    label: int
    target: str  # its key in a shard, or its path in a folder


class Job(NamedTuple):
    """The pictures of one shard, or as many of a folder."""

    name: str  # "train-000000"
    part: str
    originals: list[Original]


class Plan(NamedTuple):
    """All that will be written."""

    folder: Path
    classes: tuple[str, ...]
    parts: tuple[str, ...]
    jobs: list[Job]
    digest: str  # 16 hex digits, of the names and sizes of the files


class Note(NamedTuple):
    """What a job has done."""

    shard: Shard
    counts: dict[int, int]  # pictures by label


class Stopped(Exception):
    """Another job failed, or the user wants to stop."""


def plan_of(folder: Path, settings: Settings) -> Plan:
    """The jobs for class folders, in train/, val/ and test/ or alone.

    UserError: as `vitedu.data.load_folder`, as far as names tell.
    """
    if reader_of(folder) is not folders:
        raise UserError(
            f"{folder} isn't a folder of class folders, which is what prepare "
            "reads"
        )
    folder = existing_folder(folder)
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
            inner = "" if root == folder else f"{part}/"
            targets = _jpeg_names(root, inner, found)
        originals = [
            Original(path, label, target)
            for (path, label), target in zip(found, targets, strict=True)
        ]
        jobs += _jobs(part, originals, settings.shard_size)
    return Plan(folder, classes, tuple(roots), jobs, digest.hexdigest()[:16])


def _labelled(root: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    """The pictures of a part in the order of their names, and their labels."""
    names = class_folders(root)
    strange = [name for name in names if name not in classes]
    if strange:
        raise UserError(
            f"{root} has the class {strange[0]!r}, which train/ doesn't have; "
            f"its classes: {', '.join(classes[:5])}"
        )
    found = [
        (path, classes.index(name))
        for name in names
        for path in sorted(pictures_in(root / name))
    ]
    if not found:
        raise UserError(
            f"there are no pictures in class folders in {root}, but "
            f"{contents(root)}; put some there, or move the folder away"
        )
    return found


def _jpeg_names(
    root: Path, inner: str, found: list[tuple[Path, int]]
) -> list[str]:
    """The old names below OUT, with .jpg appended to those of other formats."""
    taken: set[str] = set()
    names = []
    for path, _ in found:
        name = f"{inner}{path.relative_to(root).as_posix()}"
        is_jpeg = path.suffix.lower() in (".jpg", ".jpeg")
        name = name if is_jpeg else f"{name}.jpg"
        # cat.png beside cat.png.jpg; not every disk tells a.jpg from A.jpg
        while name.casefold() in taken:
            name = f"{name}.jpg"
        taken.add(name.casefold())
        names.append(name)
    return names


def _jobs(part: str, originals: list[Original], size: int) -> Iterator[Job]:
    """Equal shares of a part, each from all of its classes."""
    generator = torch.Generator().manual_seed(seed_from(SHUFFLE_SEED))
    order = torch.randperm(len(originals), generator=generator).tolist()
    for number, first in enumerate(range(0, len(order), size)):
        rows = order[first : first + size]
        yield Job(f"{part}-{number:06}", part, [originals[row] for row in rows])


class Work:
    """The jobs on their threads, and what they have done already."""

    def __init__(
        self, plan: Plan, settings: Settings, out: Path, index: Index | None
    ) -> None:
        """`index`: of a finished `out`, of which some shards may be lost."""
        self.plan = plan
        self.settings = settings
        self.out = out
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
        """Each job with its note, in the order in which they are done."""
        from PIL import Image

        Image.init()  # all plug-ins, before threads load them side by side
        num_all = sum(len(job.originals) for job in self.plan.jobs)
        self.num_done = num_all - sum(len(job.originals) for job in jobs)
        with (
            ONE_POOL,
            warnings.catch_warnings(),
            ThreadPoolExecutor(num_workers) as pool,
        ):
            # of pillow, about what it could read all the same
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
        """What a job has done, if it is done and its shard is still there."""
        note = self._written_note(job) or self._finished_note(job)
        is_tar = self.settings.format == "shards"
        if note is None or (is_tar and not is_there(self.out, note.shard)):
            return None
        return note

    def _written_note(self, job: Job) -> Note | None:
        try:
            values = read_json(self._note_file(job))
            counts = {int(label): n for label, n in values["counts"].items()}
            return Note(shard_of(values["shard"]), counts)
        except (UserError, AttributeError, KeyError, TypeError, ValueError):
            return None

    def _finished_note(self, job: Job) -> Note | None:
        shard = self.finished.get(f"{job.name}.tar")
        if shard is None or not is_there(self.out, shard):
            return None
        path = self.out / shard.name
        if sha256_of(path) != shard.sha256:
            return None
        samples, _ = samples_in(path)
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
        """The readable pictures of a job as JPEG; the others are noted."""
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
    """Whether a shard is a file of its size."""
    path = out / shard.name
    return path.is_file() and path.stat().st_size == shard.bytes


def resized_to(width: int, height: int, short_side: int) -> tuple[int, int]:
    """The size with this short side; a picture isn't enlarged."""
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
