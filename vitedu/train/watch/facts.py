"""A run in four lines: its data, model, device and plan.

`facts(state, sources, 1)["device"]` is "cpu, fp32, 2 threads".
"""

from vitedu.errors import counted
from vitedu.train.config import TrainConfig
from vitedu.train.data import Sources
from vitedu.train.recipes.compare import model_line
from vitedu.train.step import TrainState

# of more classes than this, only the first are named
MOST_NAMED = 5
FIRST_NAMED = 3


def facts(
    state: TrainState, sources: Sources, num_processes: int
) -> dict[str, str]:
    weights, model = [*state.network.parameters()], model_line(state.config)
    if not all(each.requires_grad for each in weights):
        count = sum(each.numel() for each in weights if each.requires_grad)
        model += f"; {count:,} of them learn"
    return {
        "data": data_line(sources),
        "model": model,
        "device": device_line(state.config, num_processes),
        "plan": plan_line(state, len(sources.train)),
    }


def data_line(sources: Sources) -> str:
    dataset, train, validation, test = sources
    name, requested = dataset.name, getattr(dataset, "requested", dataset.name)
    if requested != name:
        name += f" instead of {requested}"
    classes, names = counted(train.num_classes, "class"), train.class_names
    if len(names) > MOST_NAMED:
        names = (*names[:FIRST_NAMED], "...")
    if names:
        classes += f": {', '.join(names)}"
    to_validate = f"{len(validation):,} to validate, " if validation else ""
    return (
        f"{name}: {counted(len(train), 'image')} to train, {to_validate}"
        f"{len(test):,} to test; {classes}"
    )


def device_line(config: TrainConfig, num_processes: int) -> str:
    parts = [config.device, config.precision]
    if config.threads is not None:
        parts.append(counted(config.threads, "thread"))
    if config.compile:
        parts.append("compiled")
    if num_processes > 1:
        parts.append(f"{num_processes} processes")
    return ", ".join(parts)


def plan_line(state: TrainState, num_train: int) -> str:
    config, steps = state.config, counted(state.num_steps, "step")
    if config.epochs is not None:
        steps = f"{counted(config.epochs, 'epoch')} ({steps})"
    is_all = config.batch_size > num_train
    return (
        f"{steps}, batch size {config.batch_size:,}"
        f"{f' (all {num_train:,} images at once)' if is_all else ''}, "
        f"{config.optimizer}, learning rate {config.lr:g}"
    )
