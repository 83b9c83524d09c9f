"""What tests of runs share: a small network, a set that it can learn, stops.

`fit(SHORT, "run", should_stop=stopper(3))`
"""

import json
import multiprocessing
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tiny import tiny
from vitedu.cli import main
from vitedu.data import Augment, PreprocessSpec
from vitedu.errors import UserError
from vitedu.model import Learned1D
from vitedu.train import TrainConfig

SMALL = tiny(
    image_size=8,
    in_channels=1,
    num_classes=3,
    embed_dim=8,
    depth=1,
    num_heads=2,
    mlp_dim=16,
)
# 30 training images in batches of 8: 4 steps an epoch
SHORT = TrainConfig(
    recipe="test",
    tier="cpu",
    model=SMALL,
    dataset="set.npz",
    steps=6,
    batch_size=8,
    precision="fp32",
    num_workers=0,
)


# A process takes seconds to import PyTorch, more on a busy machine.
PATIENCE = 300

# Another value of every field, by the dotted name that a message would use.
OTHER = {
    "recipe": {"recipe": "other"},
    "tier": {"tier": "gpu"},
    "model.gelu": {"model": replace(SMALL, gelu="tanh")},
    "model.position.at": {
        "model": replace(SMALL, position=Learned1D(at="shared"))
    },
    "dataset": {"dataset": "other.npz"},
    "data": {"data": "there"},
    "weights": {"weights": "start.safetensors"},
    "preprocess.mean": {"preprocess": PreprocessSpec(mean=0.1)},
    "augment.flip": {"augment": Augment(flip=True)},
    "epochs": {"epochs": 3, "steps": None},
    "steps": {"steps": 5},
    "batch_size": {"batch_size": 9},
    "optimizer": {"optimizer": "sgd"},
    "lr": {"lr": 0.5},
    "betas": {"betas": (0.9, 0.99)},
    "weight_decay": {"weight_decay": 0.1},
    "schedule": {"schedule": "linear"},
    "warmup": {"warmup": 0.1},
    "layer_decay": {"layer_decay": 0.75},
    "freeze": {"freeze": 1},
    "max_grad_norm": {"max_grad_norm": 1.0},
    "loss": {"loss": "sigmoid"},
    "head_bias": {"head_bias": -10.0},
    "label_smoothing": {"label_smoothing": 0.1},
    "class_weights": {"class_weights": "balanced"},
    "mixup": {"mixup": 0.2},
    "cutmix": {"cutmix": 1.0},
    "ema": {"ema": 0.6},
    "keep": {"keep": "best"},
    "patience": {"patience": 2},
    "given": {"given": "loss=f"},
    "precision": {"precision": "bf16"},
    "attention": {"attention": "math"},
    "activation_checkpointing": {"activation_checkpointing": True},
    "seed": {"seed": 1},
    "validation": {"validation": 0.1},
    "max_images": {"max_images": 10},
    "fallback": {"fallback": "digits"},
    "log_every": {"log_every": 7},
    "save_every": {"save_every": 7},
    "device": {"device": "cuda:1"},
    "num_workers": {"num_workers": 4},
    "micro_batch_size": {"micro_batch_size": 2},
    "compile": {"compile": True},
    "shard": {"shard": True},
    "threads": {"threads": 2},
}


def config(**fields):
    """`SHORT` with other values for these fields."""
    return replace(SHORT, **fields)


def drawn(count, noise=100, step=70, seed=0):
    """Images (count, 8, 8) of three learnable classes, and labels."""
    labels = np.arange(count) % 3
    images = np.random.default_rng(seed).integers(0, noise, (count, 8, 8))
    return (images + step * labels[:, None, None]).astype(np.uint8), labels


def write_set(folder, name="set", train=30, test=11, **options):
    """A set of so many images to train and to test on, as NAME.npz."""
    arrays = {}
    for part, count in (("train", train), ("test", test)):
        arrays[f"x_{part}"], arrays[f"y_{part}"] = drawn(count, **options)
    np.savez(folder / f"{name}.npz", **arrays)
    return folder / f"{name}.npz"


def stopper(steps):
    """A should_stop that says yes after so many steps of this call."""
    counter = iter(range(1, 10_000))
    return lambda: next(counter) == steps


def lines(folder):
    """The log without what a clock wrote."""
    timing = ("images_per_second", "wall_seconds", "data_wait")
    read = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [{n: v for n, v in line.items() if n not in timing} for line in read]


def weights(folder, name="model"):
    """The bytes of a file of weights in a run's folder."""
    return (folder / f"{name}.safetensors").read_bytes()


def losses(run):
    """The training losses of a run's lines."""
    return [line["loss"] for line in run.history if "loss" in line]


def equal(model, other):
    """Whether two networks have the same weights, bit by bit."""
    weights, others = model.state_dict(), other.state_dict()
    return weights.keys() == others.keys() and all(
        weights[name].equal(others[name]) for name in weights
    )


def sentence(call, *arguments, **options):
    """The one sentence with which a call is refused."""
    with pytest.raises(UserError) as error:
        call(*arguments, **options)
    said = str(error.value)
    assert "\n" not in said and len(said) < 1000
    return said


class Two:
    """`vitedu train` in two forks, as of torchrun, but with all imported."""

    def __init__(self, *words):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.start, self.words = {"MASTER_PORT": port}, words
        fork = multiprocessing.get_context("fork").Process
        self.ranks = [
            fork(target=self.run, args=rank, daemon=True) for rank in "01"
        ]
        for each in self.ranks:
            each.start()

    def run(self, rank):
        sys.stdout, sys.stderr = (
            open(f"{name}{rank}", "w") for name in ("out", "err")
        )
        os.environ |= self.start | {"MASTER_ADDR": "127.0.0.1"}
        os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2"}
        sys.exit(main(["train", *self.words, "--json"]))

    def answer(self):
        """What the first process says, once both have ended well."""
        for rank, each in enumerate(self.ranks):
            each.join(PATIENCE)
            assert each.exitcode == 0, Path(f"err{rank}").read_text()
        assert Path("out1").read_text() == ""
        return json.loads(Path("out0").read_text())
