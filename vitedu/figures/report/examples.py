"""What a report shows of the test part: the answers, and some pictures."""

import os
import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import NamedTuple

from torch import Tensor
from tqdm import tqdm

from vitedu.data import Source
from vitedu.data.feed.pictures import ImageSource
from vitedu.errors import UserError
from vitedu.evaluate import Predictions, predictions
from vitedu.evaluate.classify import class_names
from vitedu.figures.report.pictures import as_seen
from vitedu.interpret import attention_map
from vitedu.model.network import Network
from vitedu.train import TrainConfig
from vitedu.train.journal import until

EXAMPLES = 6  # pictures that are right, and as many that are wrong
# Of more test pictures, every nth: the run has measured them all, and a page
# should not take as long again.
MOST_MEASURED = 10_000
MOST_AT_ONCE = 64


class Example(NamedTuple):
    """A test picture, its label and the model's answer.

    `picture` is (3, h, w) in 0..1, as the model saw it; `shares` (gh, gw) is
    each patch's share of the answer, or None.
    """

    name: str
    picture: Tensor
    label: str
    predicted: str
    probability: float
    shares: Tensor | None


class Measured(NamedTuple):
    answers: Predictions
    right: tuple[Example, ...]  # the most confident first
    wrong: tuple[Example, ...]


def measure(
    model: Network,
    test: Source,
    place: Path | None,
    config: TrainConfig,
    should_stop: Callable[[], bool],
) -> Measured:
    """Answers on every nth test picture if there are over MOST_MEASURED.

    Names are relative to `place`. UserError: it was stopped.
    """
    every = -(-len(test) // MOST_MEASURED)
    num_images = -(-len(test) // every)
    size = min(config.micro_batch_size or config.batch_size, MOST_AT_ONCE)
    found = test.batches(
        epoch=0, seed=0, batch_size=every * size, rank=0, world=every
    )
    batches = tqdm(
        until(found, should_stop),
        total=-(-num_images // size),
        desc="report",
        unit="batch",
        disable=not sys.stderr.isatty(),
        leave=False,
        dynamic_ncols=True,
    )
    answers = predictions(model, iter(batches))
    if len(answers.labels) < num_images:
        raise UserError("it was stopped; `vitedu report RUN` draws it")
    one_by_one = copy(test)
    if isinstance(one_by_one, ImageSource):
        one_by_one.num_workers = 0  # which take longer to start than a picture
    names = class_names(model, answers.num_classes)
    like = next(model.parameters())

    def example(row: int) -> Example:
        index = row * every
        images, _ = next(
            iter(one_by_one.batches(epoch=0, seed=0, batch_size=1, start=index))
        )
        shares = None
        try:
            maps = attention_map(model, images.to(like.device, like.dtype))
            shares = maps[0].cpu()
        except UserError:  # a model without such maps
            pass
        return Example(
            name=name_of(test, index, place),
            picture=as_seen(images[0], config.preprocess),
            label=names[answers.labels[row]],
            predicted=names[answers.classes[row]],
            probability=answers.probabilities[row].item(),
            shares=shares,
        )

    def most_confident(rows: Tensor) -> tuple[Example, ...]:
        shares = answers.probabilities[rows]
        order = shares.argsort(descending=True, stable=True)[:EXAMPLES]
        return tuple(map(example, rows[order].tolist()))

    return Measured(
        answers,
        right=most_confident(answers.is_correct.nonzero()[:, 0]),
        wrong=most_confident((~answers.is_correct).nonzero()[:, 0]),
    )


def name_of(test: Source, index: int, place: Path | None) -> str:
    """The path below `place`; else the picture's number."""
    pictures = getattr(test, "pictures", None)
    if pictures is None or not pictures.is_named:
        return f"test image {index + 1:,}"
    name = pictures.name_of(index).removeprefix(f"{place}{os.sep}")
    # of an absolute path, the end says enough
    return "/".join(Path(name).parts[-2:]) if os.path.isabs(name) else name
