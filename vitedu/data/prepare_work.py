"""The jobs of `vitedu prepare`: pictures decoded, resized and written.

`for job, note in Work(settings, plan, out).do_all(plan.jobs, 2, None): ...`
"""

import hashlib
import io
import json
import os
import tarfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, NamedTuple

import PIL

from vitedu.data.prepare_plan import Job, Original, Plan
from vitedu.data.prepared_index import Index, Settings, Shard, shard_of
from vitedu.data.readable import ONE_POOL
from vitedu.data.shard_listing import sha256_of
from vitedu.data.tars import listed
from vitedu.errors import UserError, printable
from vitedu.files import make_folder, read_json, replace_file
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


class Note(NamedTuple):
    """What a job has done."""

    shard: Shard
    counts: dict[int, int]  # pictures by label


class Stopped(Exception):
    """Another job failed, or the user wants to stop."""


def known(index: Index) -> dict[str, Shard]:
    """The shards of a finished index, by the names of their jobs."""
    return {
        shard.name.removesuffix(".tar"): shard
        for part in index.parts.values()
        for shard in part.shards
    }


def is_there(out: Path, shard: Shard) -> bool:
    """Whether a shard is a file of its size."""
    path = out / shard.name
    return os.path.isfile(path) and os.stat(path).st_size == shard.bytes


class Work:
    """The jobs on their threads."""

    def __init__(
        self, settings: Settings, plan: Plan, out: Path, done: dict[str, Shard]
    ) -> None:
        """`done`: shards of a finished index, of which some may be lost."""
        self.done = done
        self.settings = settings
        self.plan = plan
        self.out = out
        self.num_done = 0  # pictures
        self.stop = threading.Event()
        self.counting = threading.Lock()
        self.one_large = threading.Lock()

    def do_all(
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
                pool.submit(self.do, job): job for job in jobs
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
        is_tar = self.settings.format == "shards"
        try:
            values = read_json(self.note_file(job))
            if values["pillow"] != PIL.__version__:
                return None  # another one may write other bytes
            shard = shard_of(values["shard"])
            counts = {int(label): n for label, n in values["counts"].items()}
        except (UserError, AttributeError, KeyError, TypeError, ValueError):
            if job.name not in self.done or not is_tar:
                return None
            shard = self.done[job.name]
            if not is_there(self.out, shard):
                return None
            if sha256_of(self.out / shard.name) != shard.sha256:
                return None
            samples = listed(self.out / shard.name).samples
            counts = Counter(sample.label for sample in samples)
            self.write_note(job, Note(shard, counts))
        if is_tar and not is_there(self.out, shard):
            return None
        return Note(shard, counts)

    def note_file(self, job: Job) -> Path:
        """Where a job notes that it is done."""
        return self.out / UNFINISHED / f"{job.name}.json"

    def do(self, job: Job) -> Note:
        """One job, and the note that it is done."""
        counts: Counter[int] = Counter()
        unreadable: list[str] = []
        pictures = self.pictures(job, counts, unreadable)
        if self.settings.format == "shards":
            shard = write_shard(self.out, job.name, pictures)
        else:
            shard = write_folder(self.out, job.name, pictures)
        shard = shard._replace(unreadable=tuple(unreadable))
        note = Note(shard, dict(sorted(counts.items())))
        self.write_note(job, note)
        return note

    def write_note(self, job: Job, note: Note) -> None:
        """Note that a job is done."""
        values = {
            "shard": note.shard._asdict(),
            "counts": note.counts,
            "pillow": PIL.__version__,
        }
        replace_file(self.note_file(job), json.dumps(values))

    def pictures(
        self, job: Job, counts: Counter[int], unreadable: list[str]
    ) -> Iterator[tuple[Original, bytes]]:
        """Those of a job that can be read, as JPEG; the others are noted."""
        above = printable(f"{self.plan.folder.as_posix()}/")
        for original in job.originals:
            if self.stop.is_set():
                raise Stopped
            try:
                yield original, self.jpeg(original.path)
                counts[original.label] += 1
            except UnreadablePicture as error:
                unreadable.append(str(error).replace(above, "", 1))
            with self.counting:
                self.num_done += 1

    def jpeg(self, path: Path) -> bytes:
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
                _add(archive, f"{original.target}.jpg", content)
                _add(archive, f"{original.target}.cls", b"%d" % original.label)
                num_samples += 1

    path = out / f"{name}.tar"
    replace_file(path, write)
    size = os.stat(path).st_size
    return Shard(path.name, num_samples, size, sha256_of(path), ())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)  # made on 1970-01-01 by user 0, mode 644
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def write_folder(
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
