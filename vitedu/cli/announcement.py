"""The five lines before a run: data, model, device, plan and folder."""

from vitedu import budget
from vitedu.cli.answer import as_typed
from vitedu.cli.plan import Plan
from vitedu.cli.talk import wrapped
from vitedu.data import Source
from vitedu.model import (
    HYBRIDS,
    NAMES,
    RESNETS,
    ResNetConfig,
    ViTConfig,
    vit_config,
)
from vitedu.train import Start, TrainConfig
from vitedu.train.config import MAY_DIFFER
from vitedu.train.processes import from_environment

# more classes than this are not all named, only the first of them
MOST_NAMED = 5
FIRST_NAMED = 3
# the fields that make a model of Table 1, for any images and classes
TABLE_1 = ("stem", "patch_size", "embed_dim", "depth", "num_heads", "mlp_dim")
# they follow from the model
DERIVED = ("preprocess.image_size", "preprocess.in_channels")


def announcement(start: Start, plan: Plan) -> str:
    """What is about to be trained, and where; as wide as the terminal."""
    rows = {
        "data": data_line(start),
        "model": model_line(start.config),
        "device": device_line(start.config),
        "plan": plan_line(start),
        "run": run_line(start, plan),
    }
    lines = [*rows.items(), *(("note", note) for note in notes(start))]
    return "\n".join(wrapped(f"{name:<8}", line) for name, line in lines)


def notes(start: Start) -> tuple[str, ...]:
    """What was decided for the user, which the log says too."""
    return tuple(dict.fromkeys((*start.sources.notes, *start.state.notes)))


def data_line(start: Start) -> str:
    """Name, images and classes."""
    dataset, train, validation, test = start.sources[:4]
    parts = [f"{len(train):,} images to train"]
    if validation is not None:
        parts.append(f"{len(validation):,} to validate")
    parts.append(f"{len(test):,} to test")
    requested = getattr(dataset, "requested", dataset.name)
    instead = f" instead of {requested}" if requested != dataset.name else ""
    return f"{dataset.name}{instead}: {', '.join(parts)}; {class_line(train)}"


def class_line(source: Source) -> str:
    """How many classes, and the first of them: "2 classes: ants, bees"."""
    line = f"{source.num_classes:,} classes"
    names = source.class_names
    if len(names) > MOST_NAMED:
        names = (*names[:FIRST_NAMED], "...")
    return f"{line}: {', '.join(names)}" if names else line


def model_line(config: TrainConfig) -> str:
    """Its name in the paper, or its sizes, and how many weights."""
    model = config.model
    height, width = model.image_size
    parameters = budget.parameters(model).total
    line = (
        f"{model_name(model)} of {height}x{width} images; "
        f"{parameters:,} weights"
    )
    return f"{line}, from {config.weights}" if config.weights else line


def model_name(model: ViTConfig | ResNetConfig) -> str:
    """ "ViT-B/16", or what it is made of."""
    if isinstance(model, ResNetConfig):
        made_of = (model.family, model.layers, model.width)
        names = [name for name, row in RESNETS.items() if row == made_of]
        return names[0] if names else "a ResNet"
    for name in (*NAMES, *HYBRIDS):
        paper = vit_config(name)
        if all(getattr(model, x) == getattr(paper, x) for x in TABLE_1):
            return name
    height, width = model.patch_size
    return (
        f"{counted(model.depth, 'block')}, {model.embed_dim} wide, "
        f"{height}x{width} patches"
    )


def device_line(config: TrainConfig) -> str:
    """Where and how it is computed."""
    parts = [config.device, config.precision]
    if config.threads is not None:
        parts.append(counted(config.threads, "thread"))
    if config.compile:
        parts.append("compiled")
    if (size := from_environment().world_size) > 1:
        parts.append(f"{size} processes")
    return ", ".join(parts)


def plan_line(start: Start) -> str:
    """How long, in what batches, at what rate."""
    config, steps = start.config, counted(start.num_steps, "step")
    length = steps
    if config.epochs is not None:
        length = f"{counted(config.epochs, 'epoch')} ({steps})"
    return (
        f"{length}, batch size {config.batch_size:,}, {config.optimizer}, "
        f"learning rate {config.lr:g}"
    )


def counted(number: int, thing: str) -> str:
    """ "1 step", "1,200 steps"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def run_line(start: Start, plan: Plan) -> str:
    """The folder, the step to go on at, and what differs from the recipe."""
    line = str(plan.out)
    if start.state.step:
        line += f", going on at step {start.state.step:,}"
    # epochs or steps is none, whichever was not given
    changed = [
        f"{name}={as_typed(value)}"
        for name, value in plan.changed.items()
        if name not in (*MAY_DIFFER, *DERIVED) and value is not None
    ]
    if changed:
        line += f"; not as in the recipe: {' '.join(changed)}"
    return line
