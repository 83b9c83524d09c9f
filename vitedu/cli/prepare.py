"""`vitedu prepare`: photographs resized once, as shards or in a folder."""

import argparse
from typing import Any

from vitedu.cli.output import Answer, Command, rows_in, say, wrapped
from vitedu.cli.overrides import split_words
from vitedu.cli.progress import new_bar
from vitedu.data import Prepared
from vitedu.data import prepare as prepare_folder
from vitedu.errors import UserError, counted, readable_bytes
from vitedu.fields import check_names
from vitedu.train.config import parsed

# the settings and their types
FIELDS: dict[str, type] = {
    "short_side": int,
    "shard_size": int,
    "format": str,
    "quality": int,
    "num_workers": int,
}
MOST_SHOWN = 3  # of the files that cannot be read


def prepare(options: argparse.Namespace) -> Answer:
    words, fields = split_words(options.words)
    check_names("prepare", fields, FIELDS)
    if len(words) != 2:
        raise UserError(
            "prepare needs FOLDER and OUT, as in `vitedu prepare photos "
            "photos-256`"
        )
    settings: dict[str, Any] = {
        name: parsed(value, FIELDS[name]) for name, value in fields.items()
    }
    with new_bar(0, 0) as bar:

        def show(num_done: int, num_all: int) -> None:
            if not bar.total:  # an interrupted command goes on
                bar.initial = bar.n = num_done
            bar.total = num_all
            bar.update(num_done - bar.n)

        try:
            done = prepare_folder(*words, on_progress=show, **settings)
        except KeyboardInterrupt:
            say("the same command goes on from here")
            raise
    return Answer(values_of(done), text_of(done))


def values_of(done: Prepared) -> dict[str, Any]:
    index = done.index
    return {
        "out": str(done.out),
        "was_finished": done.was_finished,
        "settings": index.settings._asdict(),
        "classes": list(index.classes),
        "parts": {
            name: {
                "samples": part.num_samples,
                "counts": list(part.counts),
                "shards": len(part.shards),
                "bytes": sum(shard.bytes for shard in part.shards),
            }
            for name, part in index.parts.items()
        },
        "unreadable": list(index.unreadable),
    }


def text_of(done: Prepared) -> str:
    index = done.index
    for sentence in index.unreadable[:MOST_SHOWN]:
        say(wrapped("left out: ", sentence))
    num_more = len(index.unreadable) - MOST_SHOWN
    if num_more > 0:
        say(f"left out: {num_more:,} more; index.json names them")
    shards = [x for part in index.parts.values() for x in part.shards]
    each_part = [part.counts for part in index.parts.values()]
    counts = [sum(counts) for counts in zip(*each_part, strict=True)]
    low, high = min(counts), max(counts)
    spread = f"{low:,} to {high:,} in a" if low < high else f"{low:,} in each"
    parts = ", ".join(
        f"{part.num_samples:,} in {name}" for name, part in index.parts.items()
    )
    is_shards = index.settings.format == "shards"
    files = counted(len(shards), "shard") if is_shards else "folders"
    num_bytes = readable_bytes(sum(shard.bytes for shard in shards))
    was = " was finished already" if done.was_finished else ""
    return (
        f"{done.out}{was}: {counted(sum(counts), 'picture')} of "
        f"{counted(len(index.classes), 'class')} "
        f"({parts}; {spread} class), {num_bytes} in {files}, "
        f"{len(index.unreadable):,} left out; train with data={done.out}"
    )


PREPARE = Command(
    prepare,
    usage="FOLDER OUT [name=value ...]",
    summary="make photographs small once, for training",
    about="Write the pictures of FOLDER into OUT as smaller JPEGs, so that "
    "training isn't held up by decoding large ones. Interrupted, the same "
    "command goes on; the result is the same, byte for byte.",
    words=rows_in("""
        FOLDER  class folders, in train/, val/ and test/ or alone
        OUT  a new folder, which `data=OUT` then names
        short_side=256  pixels; a smaller picture isn't enlarged
        format=shards  WebDataset's tars, which a disk reads fast; or folder:
            class folders
        shard_size=1000  pictures in a shard
        quality=90  of the JPEGs, 1 to 100
        num_workers=N  decode so many at a time; by default as many as there are
            processors, up to 16
    """),
    examples=rows_in("""
        vitedu prepare imagenet imagenet-256  then: data=imagenet-256
        vitedu prepare photos small format=folder short_side=448
    """),
)
