"""Seconds of training until 96% of MNIST's test images are right.

The usual loop against vitedu, on the same 7,850 weights and threads, in one
run:

    VITEDU_DATA=... python benchmarks/mnist_time_to_accuracy.py

The usual loop is what tutorials show: a DataLoader over torchvision's MNIST,
Adam 1e-3, batch 64, a ViT with tanh on its logits. Both sides are evaluated
every 16,384 images; that is not timed. They take turns, so that a slow minute
hits both. The last line printed is the ratio: median over the seeds, and the
range.
"""

import argparse
import gzip
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from recorded import result_fields
from torch import Tensor, nn

from vitedu import compat, results
from vitedu.data import locate
from vitedu.evaluate import accuracy
from vitedu.train import recipe, train_step
from vitedu.train.data import open_sources
from vitedu.train.start import build_state

TARGET = 96.0  # percent
EVERY = 16_384  # images between evaluations
MOST_EPOCHS = 40
NUM_IMAGES = 60_000


class TutorialViT(nn.Module):
    """Many blog posts' ViT: N(0, 1) token and positions, tanh at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(49, 16)
        self.cls_token = nn.Parameter(torch.randn(1, 1, 16))
        self.positions = nn.Parameter(torch.randn(1, 17, 16))
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(16),
                    "attention": nn.MultiheadAttention(16, 2, batch_first=True),
                    "norm2": nn.LayerNorm(16),
                    "mlp": nn.Sequential(
                        nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)
                    ),
                }
            )
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(16)
        self.head = nn.Sequential(nn.Linear(16, 10), nn.Tanh())

    def forward(self, images: Tensor) -> Tensor:
        """(b, 1, 28, 28) -> (b, 10), each in [-1, 1]."""
        patches = F.unfold(images, kernel_size=7, stride=7).mT  # (b, 16, 49)
        x = self.embed(patches)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = x + self.positions
        for block in self.blocks:
            normed = block["norm1"](x)
            x = (
                x
                + block["attention"](
                    normed, normed, normed, need_weights=False
                )[0]
            )
            x = x + block["mlp"](block["norm2"](x))
        return self.head(self.norm(x[:, 0]))


def usual_loop(root: Path, num_workers: int, seed: int) -> Iterator[nn.Module]:
    """Train as tutorials do; the model at first, and every `EVERY` images."""
    torchvision = compat.import_torchvision()
    torch.manual_seed(seed)
    dataset = torchvision.datasets.MNIST(
        root, train=True, transform=torchvision.transforms.ToTensor()
    )
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=64, shuffle=True, num_workers=num_workers
    )
    model = TutorialViT()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    yield model  # ready: what follows is timed
    seen = 0
    for _ in range(MOST_EPOCHS):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            seen += len(images)
            if seen // EVERY > (seen - len(images)) // EVERY:
                yield model


def through_vitedu(epochs: int, seed: int) -> Iterator[nn.Module]:
    """Train mnist-tiny; yields the model at first and every `EVERY` images."""
    config = replace(
        recipe("mnist-tiny", "cpu"), epochs=epochs, seed=seed, device="cpu"
    )
    device = torch.device("cpu")
    source = open_sources(config, device).train
    state = build_state(config, source, device)
    yield state.model  # ready: what follows is timed
    seen = 0
    for epoch in range(epochs):
        for batch in source.batches(
            epoch=epoch, seed=seed, batch_size=config.batch_size
        ):
            result = train_step(state, batch)
            seen += result.num_images
            if seen // EVERY > (seen - result.num_images) // EVERY:
                yield state.model


class Side:
    """One side of the race: its seconds of training, and what it reached."""

    def __init__(
        self, models: Iterator[nn.Module], test: tuple[Tensor, Tensor]
    ) -> None:
        self.models = models
        self.test = test
        next(models)  # data read and network built
        self.seconds = 0.0
        self.best = 0.0
        self.num_evaluations = 0
        self.running = True

    @property
    def reached(self) -> bool:
        """Whether the target was met."""
        return self.best >= TARGET

    def turn(self) -> None:
        """Train on `EVERY` images more (timed), then evaluate (not timed)."""
        started = time.perf_counter()
        model = next(self.models, None)
        self.seconds += time.perf_counter() - started
        if model is None:
            self.running = False
            return
        images, labels = self.test
        batches = zip(images.split(1000), labels.split(1000), strict=True)
        self.best = max(self.best, accuracy(model, batches).accuracy)
        self.num_evaluations += 1
        self.running = not self.reached


def torchvision_root(folder: Path) -> Path:
    """A folder like torchvision's MNIST, unpacked from the located files."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for packed in locate("mnist").path.glob("*.gz"):
        (raw / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


def fastest_workers(root: Path) -> int:
    """2 or 0 workers, whichever feeds the usual loop faster."""
    seconds = {}
    for num_workers in (2, 0):
        models = usual_loop(root, num_workers, seed=0)
        next(models)
        started = time.perf_counter()
        next(models)
        seconds[num_workers] = time.perf_counter() - started
    return min(seconds, key=seconds.get)


def main() -> None:
    """Race for every seed, record the seconds, print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--epochs", type=int, default=3, help="of mnist-tiny")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = replace(
        recipe("mnist-tiny", "cpu"), epochs=options.epochs, device="cpu"
    )
    sources = open_sources(config, torch.device("cpu"))
    arrays = sources.dataset.test
    plain = (arrays.images / 255.0, arrays.labels)
    normal = next(iter(sources.test.batches(batch_size=len(sources.test))))
    seconds: dict[str, list[float]] = {"usual": [], "vitedu": []}
    best: dict[str, list[float]] = {"usual": [], "vitedu": []}
    with tempfile.TemporaryDirectory() as folder:
        root = torchvision_root(Path(folder))
        num_workers = fastest_workers(root)
        print(f"the usual loop takes {num_workers} workers")
        for seed in options.seeds:
            sides = {
                "usual": Side(usual_loop(root, num_workers, seed), plain),
                "vitedu": Side(through_vitedu(options.epochs, seed), normal),
            }
            while any(side.running for side in sides.values()):
                for side in sides.values():
                    if side.running:
                        side.turn()
            for name, side in sides.items():
                end = "" if side.reached else f", {TARGET}% never reached"
                print(
                    f"seed {seed} {name}: {side.seconds:.2f} s, best "
                    f"{side.best:.2f}% in {side.num_evaluations} "
                    f"evaluations{end}",
                    flush=True,
                )
                seconds[name].append(side.seconds)
                best[name].append(side.best)
    # a side that never got there has at least this many seconds: the ratio is a
    # bound
    ratios = [
        u / v for u, v in zip(seconds["usual"], seconds["vitedu"], strict=True)
    ]
    metrics = {
        "ratio": {
            "value": statistics.median(ratios),
            "unit": "times less training time",
            "per_seed": ratios,
        }
    }
    for name in ("usual", "vitedu"):
        metrics[f"{name}_seconds"] = {
            "value": statistics.median(seconds[name]),
            "unit": f"seconds of training to {TARGET}%",
            "per_seed": seconds[name],
        }
        metrics[f"{name}_best_accuracy"] = {
            "value": statistics.median(best[name]),
            "unit": "percent",
            "per_seed": best[name],
        }
    result = {
        **result_fields(
            "mnist-time-to-96",
            f"python benchmarks/mnist_time_to_accuracy.py "
            f"--threads {options.threads} --epochs {options.epochs}",
            sum(map(sum, seconds.values())),
        ),
        "config": config.to_json(),
        "metrics": metrics,
        "seeds": options.seeds,
        "dataset": {
            "name": "mnist",
            "digest": sources.dataset.digest,
            "num_train": NUM_IMAGES,
            "num_test": len(arrays.labels),
        },
        "notes": f"the usual loop with {num_workers} workers, the faster of 0 "
        f"and 2; mnist-tiny with epochs={options.epochs}",
    }
    results.write(
        Path(results.__file__).parent / "mnist-time-to-96.json", result
    )
    low, high = min(ratios), max(ratios)
    print(
        f"ratio {statistics.median(ratios):.1f} x ({low:.1f} \u2013 {high:.1f})"
    )


if __name__ == "__main__":
    main()
