"""What a report shows of the test part: every answer, and some pictures."""

import os
import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path

from tqdm import tqdm

from vitedu.data import Source
from vitedu.data.image_source import ImageSource
from vitedu.data.images import Pictures
from vitedu.errors import UserError
from vitedu.evaluate.classify import class_names
from vitedu.evaluate.confusion import Predictions, predictions
from vitedu.figures.report import Example, Measured
from vitedu.figures.report_pictures import as_seen
from vitedu.interpret import attention_map
from vitedu.model.network import Network
from vitedu.train import TrainConfig
from vitedu.train.evaluation import until

EXAMPLES = 6  # pictures that are right, and as many that are wrong


def measure(
    model: Network,
    test: Source,
    place: Path | None,
    config: TrainConfig,
    should_stop: Callable[[], bool],
) -> Measured:
    """What the model says of every test picture, and some of them to be shown.

    UserError: it was stopped.
    """
    size = config.micro_batch_size or config.batch_size
    batches = tqdm(
        until(test.batches(epoch=0, seed=0, batch_size=size), should_stop),
        total=-(-len(test) // size),
        desc="report",
        unit="batch",
        disable=not sys.stderr.isatty(),
        leave=False,
        dynamic_ncols=True,
    )
    answers = predictions(model, iter(batches))
    one_by_one = copy(test)
    if isinstance(one_by_one, ImageSource):
        one_by_one.num_workers = 0  # which take longer to start than a picture
    if len(answers.labels) < len(test):
        raise UserError("it was stopped; `vitedu report RUN` draws it")
    order = answers.probabilities.argsort(descending=True, stable=True)
    is_correct = answers.is_correct[order]
    return Measured(
        answers,
        *(
            tuple(
                example(model, one_by_one, place, answers, index, config)
                for index in rows[:EXAMPLES].tolist()
            )
            for rows in (order[is_correct], order[~is_correct])
        ),
    )


def example(
    model: Network,
    test: Source,
    place: Path | None,
    answers: Predictions,
    index: int,
    config: TrainConfig,
) -> Example:
    """One test picture, and where in it the model looks."""
    images, _ = next(
        iter(test.batches(epoch=0, seed=0, batch_size=1, start=index))
    )
    shares = None
    try:
        like = next(model.parameters())
        shares = attention_map(model, images.to(like.device, like.dtype))
    except UserError:  # a model without such maps
        pass
    names = class_names(model, answers.num_classes)
    return Example(
        name=name_of(test, index, place),
        picture=as_seen(images[0], config.preprocess),
        label=names[answers.labels[index]],
        predicted=names[answers.classes[index]],
        probability=answers.probabilities[index].item(),
        shares=None if shares is None else shares[0].cpu(),
    )


def name_of(test: Source, index: int, place: Path | None) -> str:
    """A picture's name below the place of the data; else its number."""
    pictures = getattr(test, "pictures", None)
    if not isinstance(pictures, Pictures):
        return f"test image {index + 1:,}"
    name = pictures.name_of(index).removeprefix(f"{place}{os.sep}")
    # a page that is passed on shouldn't tell where its author keeps things
    return "/".join(Path(name).parts[-2:]) if os.path.isabs(name) else name
