"""VTAB-1k: fine-tune on 19 small tasks with one setting, and average.

`result = vitedu.train.run_vtab("ViT-B/16", "data", "runs/vtab")`
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, TypeAlias, Unpack

import torch

from vitedu.data.augment import Augment
from vitedu.data.feed.source import epoch_generator
from vitedu.data.labels import numbered_names
from vitedu.data.open import open_split
from vitedu.errors import UserError, counted, did_you_mean
from vitedu.evaluate import vtab
from vitedu.files import user_path
from vitedu.pictures import PreprocessSpec
from vitedu.train.finetune import FinetuneFields, finetune
from vitedu.train.journal import Progress
from vitedu.train.recipes.transfer import TABLE_4, WARMUP_STEPS
from vitedu.weights import load

# torchvision's root, or tasks' parts by name: {"dmlab": (train, test)}
VtabData: TypeAlias = str | PathLike[str] | Mapping[str, tuple[Any, Any]] | None
NUM_IMAGES, NUM_TRAIN = 1_000, 800
ROW = TABLE_4["vtab"]
# one for all tasks; pictures are squeezed, since a crop or a flip would change
# the answer to some of the questions
SETTING: FinetuneFields = {
    "optimizer": "sgd",
    "betas": (0.9, 0.999),
    "lr": ROW.rates[0],
    "weight_decay": 0.0,
    "schedule": "cosine",
    "warmup": WARMUP_STEPS / ROW.steps,
    "max_grad_norm": 1.0,
}
# tier smoke has smaller ones
SIZES: FinetuneFields = {
    "image_size": 384,
    "epochs": None,
    "steps": ROW.steps,
    "batch_size": 512,
}


def run_vtab(
    weights: str | PathLike[str],
    data: VtabData = None,
    out: str | PathLike[str] | None = None,
    *,
    tasks: Sequence[str] | None = None,
    choose: bool = False,
    on_task: Callable[[vtab.VtabTask], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    **fields: Unpack[FinetuneFields],
) -> vtab.VtabResult:
    """Fine-tune on each task of VTAB-1k, and measure on its whole test part.

    `weights` is a name, a file or a run folder; each task starts from them.
    `data` is the folder of torchvision's data sets (its `root`), or some tasks'
    parts by name: {"dmlab": (train, test)}, each anything that
    `vitedu.data.as_source` takes. By default torchvision's sets are looked for
    in $VITEDU_DATA and the cache. `tasks` are names in VTAB, by default all.
    Tasks without data are in `missing`, each with a sentence.

    1,000 training images are sampled by `seed` (the authors sampled others,
    with TensorFlow). With `choose`, 800 of them train and 200 test, to choose a
    setting by. The setting is the paper's for all tasks (section 4.1, Table 4);
    `fields` change it, as in `vitedu.finetune`; micro_batch_size=64 saves
    memory.

    `out` gets a run folder per task, and the same call resumes a stopped run.
    `on_task` is called before each task; the rest is as in `fit`.

    UserError: a task is unknown, none has data, or a task's data don't fit it.
    """
    here, missing = reachable(tasks, data)
    settings = settings_for(weights, fields)
    seed = settings.get("seed", 0)
    accuracies: dict[str, float] = {}
    for task, parts in here:
        if on_task is not None:
            on_task(task)
        drawn = drawn_images(task, parts, seed, choose)
        folder = f"{task.name}-choose" if choose else task.name
        run = finetune(
            weights,
            drawn.train,
            None if out is None else user_path(out) / folder,
            test=drawn.test,
            augment=Augment(),
            on_progress=on_progress,
            should_stop=should_stop,
            command="vitedu.train.run_vtab",
            **settings,
        )
        if run.result["status"] != "finished":
            break
        accuracies[task.name] = run.result["metrics"]["test_accuracy"]["value"]
    for task, _ in here[len(accuracies) :]:
        missing[task.name] = (
            f"{task.title} isn't finished; the same call goes on with it"
        )
    return vtab.VtabResult(accuracies, missing)


def reachable(
    names: Sequence[str] | None, data: VtabData
) -> tuple[list[tuple[vtab.VtabTask, vtab.TaskData]], dict[str, str]]:
    tasks = {task.name: task for task in vtab.VTAB}
    given = list(data) if isinstance(data, Mapping) else []
    for name in (*(names or ()), *given):
        if name not in tasks:
            raise UserError(
                f"VTAB has no task {name!r}; {did_you_mean(name, tasks)}"
            )
    here, missing = [], {}
    for name in dict.fromkeys(tasks if names is None else names):
        task = tasks[name]
        try:
            here.append((task, data_of(task, data)))
        except vtab.MissingTaskError as error:
            missing[name] = str(error)
    if not here:
        first = next(iter(missing.values()), "no task is named")
        raise UserError(f"there is nothing to learn: {first}")
    return here, missing


def data_of(task: vtab.VtabTask, data: VtabData) -> vtab.TaskData:
    if not isinstance(data, Mapping):
        parts = vtab.open_task(task, data)
    elif task.name in data:
        parts = vtab.TaskData(*map(open_split, data[task.name]))
    else:
        raise vtab.MissingTaskError(
            f"{task.title} isn't among the data given; get it from {task.where}"
        )
    names = parts.train.class_names or numbered_names(task.num_classes)
    if len(names) != task.num_classes:
        raise UserError(
            f"the data of {task.title} have {counted(len(names), 'class')}, "
            f"but VTAB's have {task.num_classes}: {task.question}"
        )
    if len(parts.train) < NUM_IMAGES:
        raise UserError(
            f"{task.title} has {len(parts.train):,} training images, but "
            f"VTAB-1k draws {NUM_IMAGES:,}; give all of its training part"
        )
    return vtab.TaskData(*(part.with_classes(names) for part in parts))


def drawn_images(
    task: vtab.VtabTask, parts: vtab.TaskData, seed: int, choose: bool
) -> vtab.TaskData:
    order = torch.randperm(len(parts.train), generator=epoch_generator(seed, 0))
    rows = order[:NUM_IMAGES].tolist()
    train = replace(parts.train, name=f"VTAB-1k {task.title}")
    if choose:
        learned, measured = rows[:NUM_TRAIN], rows[NUM_TRAIN:]
        return vtab.TaskData(train.take(learned), train.take(measured))
    return vtab.TaskData(train.take(rows), parts.test)


def settings_for(
    weights: str | PathLike[str], fields: FinetuneFields
) -> FinetuneFields:
    spec = load(weights).preprocess
    preprocess = PreprocessSpec(
        in_channels=spec.in_channels, mean=spec.mean, std=spec.std
    )
    sizes: FinetuneFields = {} if fields.get("tier") == "smoke" else SIZES
    return {**SETTING, **sizes, "preprocess": preprocess, **fields}
