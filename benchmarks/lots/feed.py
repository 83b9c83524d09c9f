"""Lot 4: pictures on their way to the device, and whether a run waits for them.

Images a second from a folder of JPEGs and from shards with 1 to 16 workers, as
a run reads them (a random crop, 224 pixels, flipped, normalised on the device);
torchvision's decoder on the device beside them, which only decodes; and the
share of a run's time in which ViT-S/16 waited.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from lots import Options, Outcome, in_pieces, tell
from lots.pictures import sample, shards
from vitedu.compat import import_torchvision
from vitedu.data import Augment, as_source, load_folder
from vitedu.errors import UserError
from vitedu.model import ViTConfig
from vitedu.pictures import PreprocessSpec
from vitedu.train import fit, recipe

WORKERS = (16, 8, 4, 2, 1)
SIDE, BATCH, CROP = 224, 128, 0.05
SECONDS = 5.0  # that one row is timed for
# of each picture; every file of a folder is looked at before the first batch
COPIES = {"shards": 16, "folder": 8}
RUN_STEPS = 60


def run(options: Options) -> Iterator[Outcome]:
    """Yield what is measured so far after every row."""
    folder = cache(partial(place, options))
    counts = [min(2, os.cpu_count() or 1)] if options.smoke else WORKERS
    pieces = {
        f"{kind}-{count}": partial(row, options, folder, kind, count)
        for count in counts
        for kind in ("shards", "folder")
    }
    pieces["device"] = partial(on_device, options, folder)
    for count in counts[:2]:
        name = f"run-{count}"
        pieces[name] = partial(wait_of_a_run, options, folder, count)
    yield from in_pieces(options, pieces, partial(outcome, options))


def place(options: Options, kind: str) -> Path:
    """The pictures in one of the two forms."""
    copies = 2 if options.smoke else COPIES[kind]
    started = time.perf_counter()
    made = (shards if kind == "shards" else sample)(options, copies)
    tell(f"feed: {kind} ready, {time.perf_counter() - started:.1f} s")
    return made


def row(options: Options, folder: Any, kind: str, count: int) -> dict[str, Any]:
    """Images a second once the workers run, for SECONDS."""
    source = as_source(
        load_folder(folder(kind)).train,
        preprocess=PreprocessSpec(32 if options.smoke else SIDE),
        augment=Augment(crop=CROP, flip=True),
        shuffle=True,
        num_workers=count,
        device=options.device,
    )
    batch_size = 2 if options.smoke else BATCH
    # the first batches come at once, and say how fast workers start
    skipped = 0 if options.smoke else count
    num_images, began, started = 0, None, time.perf_counter()
    first = None
    for number, (_, labels) in enumerate(source.batches(batch_size=batch_size)):
        now = time.perf_counter()
        first = first or now - started
        if number == skipped:
            began = now
        elif began is not None:
            num_images += len(labels)
            if now - began > SECONDS:
                break
    wait(options.device)
    if began is None or not num_images:
        raise UserError(f"{kind} has too few pictures for {count} workers")
    speed = num_images / (time.perf_counter() - began)
    tell(f"feed: {kind}, {count} workers: {speed:,.0f} images/s")
    return {"speed": speed, "first_batch": first, "num_images": num_images}


def on_device(options: Options, folder: Any) -> dict[str, Any]:
    """torchvision's decoder on the device, batches of whole pictures."""
    import_torchvision()
    from torchvision.io import ImageReadMode, decode_jpeg

    size = 4 if options.smoke else BATCH
    paths = sorted(folder("folder").glob("val/*/*"))
    files = [
        torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
        for path in paths
    ]
    batches = [files[i : i + size] for i in range(0, len(files), size)]

    def decode(batch: list[torch.Tensor]) -> None:
        decode_jpeg(batch, mode=ImageReadMode.RGB, device=options.device)

    try:
        decode(batches[0])
    except RuntimeError as error:
        line = str(error).splitlines()[0]
        raise UserError(f"decode_jpeg fails on the device: {line}") from None
    wait(options.device)
    num_images, began = 0, time.perf_counter()
    limit = 0.2 if options.smoke else SECONDS
    while time.perf_counter() - began < limit:
        for batch in batches:
            decode(batch)
            num_images += len(batch)
        wait(options.device)
    speed = num_images / (time.perf_counter() - began)
    tell(f"feed: decode_jpeg on the device: {speed:,.0f} images/s, no more")
    return {"speed": speed, "num_images": num_images}


def wait_of_a_run(options: Options, folder: Any, count: int) -> dict[str, Any]:
    """Speed of ViT-S/16 in training, and the share it waited."""
    config = recipe("imagenet-s16", "gpu")
    config = replace(
        config,
        model=model_of(config.model, options),
        dataset=str(folder("shards")),
        epochs=None,
        steps=2 if options.smoke else RUN_STEPS,
        batch_size=4 if options.smoke else 512,
        max_images=8 if options.smoke else None,
        warmup=0.0,
        num_workers=count,
        device=str(options.device),
        threads=1 if options.smoke else None,
        log_every=1 if options.smoke else 10,
        # evaluated in one go, on few
        validation=0.0,
    )
    found = fit(config)
    lines = [line for line in found.history if "images_per_second" in line]
    settled = lines[len(lines) // 2 :]  # without the start of the workers
    speed = sum(x["images_per_second"] for x in settled) / len(settled)
    waited = sum(x["data_wait"] for x in settled) / len(settled)
    tell(
        f"feed: ViT-S/16, {count} workers: {speed:,.0f} images/s, "
        f"{100 * waited:.0f}% waiting"
    )
    return {"speed": speed, "wait": waited}


def model_of(model: ViTConfig, options: Options) -> ViTConfig:
    """The recipe's, or in a smoke test a thin one for the photographs."""
    if not options.smoke:
        return model
    thin = {"embed_dim": 48, "depth": 1, "num_heads": 3, "mlp_dim": 48}
    classes = 1000 if options.data else 5
    return replace(
        model, image_size=(32, 32), num_classes=classes, pre_logits=None, **thin
    )


def wait(device: torch.device) -> None:
    """Until the device has done what was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def outcome(
    options: Options, done: dict[str, dict[str, Any]], still_open: list[str]
) -> Outcome:
    """What the rows say, as a recorded result."""
    metrics: dict[str, Any] = {}
    notes = []
    for name, values in done.items():
        if "away" in values:
            notes.append(f"{name}: {values['away']}")
            continue
        unit = "images per second"
        metrics[f"{name}/speed"] = {"value": values["speed"], "unit": unit}
        if "wait" in values:
            share = {"value": 100 * values["wait"], "unit": "percent of time"}
            metrics[f"{name}/data_wait"] = share
        if "first_batch" in values:
            first = {"value": values["first_batch"], "unit": "seconds"}
            metrics[f"{name}/first_batch"] = first
    notes.append(
        "each row from workers that run already; files in the disk's cache; "
        "the device's decoder neither crops nor resizes"
    )
    return Outcome(
        config={
            "image_size": SIDE,
            "batch_size": BATCH,
            "crop": CROP,
            "seconds": SECONDS,
            "cores": os.cpu_count(),
        },
        metrics=metrics,
        dataset={
            "name": "imagenet-sample, short side 256, each picture repeated",
            "digest": "see imagenet-sample.json",
            "num_train": 1000 * COPIES["shards"],
            "num_test": 1000,
        },
        open=still_open,
        notes="; ".join(notes),
    )
