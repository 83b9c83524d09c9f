"""What a GPU would mind, found without one: two devices mixed, and waiting.

Every test runs on `StandIn`; the last ones sabotage a step and see it caught.
"""

from dataclasses import fields, replace

import pytest
import torch
from torch import nn

from tests.model.test_variants import VARIANTS, VITS
from tests.stand_in import META, Mixed, StandIn, Waits
from tests.tiny import TINY, tiny
from tests.train.runs import SHORT
from vitedu.data import Augment, PreprocessSpec, as_source
from vitedu.data.augment import apply, augmentation_table, erase, mix
from vitedu.evaluate import (
    Features,
    accuracy,
    features,
    fewshot_accuracy,
    knn,
    linear_probe,
)
from vitedu.interpret import attention_map
from vitedu.model import Relative, new_network, record_attention
from vitedu.pictures import normalise
from vitedu.train.start import build_state
from vitedu.train.step import train_step

pytestmark = pytest.mark.slow

SPEC = PreprocessSpec(image_size=TINY.image_size)
SET = torch.zeros(40, 3, 8, 12, dtype=torch.uint8), torch.arange(40) % 5
EVERYTHING = Augment(
    shift=2,
    rotate=10,
    scale=0.1,
    shear=5,
    crop=0.3,
    flip=True,
    rand_layers=3,
    jitter=0.2,
    erase=0.5,
)
AUGMENTS = {
    "shift": Augment(shift=1),
    "flip": Augment(flip=True),
    "shift and flip": Augment(shift=1, flip=True),
    "rotate": Augment(rotate=10),
    "crop": Augment(crop=0.3),
    "RandAugment": Augment(rand_layers=2),
    "jitter": Augment(jitter=0.2),
    "erase": Augment(erase=0.5),
    "everything": EVERYTHING,
}


def on_meta(config):
    return new_network(config).to(META).train()


def built(**fields):
    """A state at step 0, as a run's, whose weights are on the device."""
    # on the CPU, since labels are counted before the first step
    train = as_source(SET, preprocess=SPEC)
    return build_state(replace(SHORT, **{"model": TINY} | fields), train, META)


def images_of(config, b=8):
    shape = b, config.in_channels, *config.image_size
    return torch.empty(shape, device=META)


def a_batch(config=TINY, b=8):
    labels = torch.empty(b, dtype=torch.int64, device=META)
    return images_of(config, b), labels


def pixels(b=8):
    return torch.empty(b, 3, 8, 12, dtype=torch.uint8, device=META)


def table(augment, b=8):
    """Real draws, on the CPU, as in a run."""
    return augmentation_table(augment, b, torch.Generator().manual_seed(0))


# --- a training step


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"micro_batch_size": 3},
        {"max_grad_norm": 1.0},
        {"ema": 0.9},
        {"loss": "sigmoid"},
        {"label_smoothing": 0.1},
        {"class_weights": "balanced"},
        {"class_weights": "balanced", "loss": "sigmoid"},
        {"freeze": 1},
        {"layer_decay": 0.75},
        {"optimizer": "sgd"},
        {"optimizer": "adam"},
        {"model": tiny(dropout=0.1, drop_path=0.5)},
        {"micro_batch_size": 3, "max_grad_norm": 1.0, "ema": 0.9},
    ],
    ids=str,
)
@pytest.mark.parametrize("is_soft", [False, True])
def test_a_step_stays_on_its_device_and_waits_for_nothing(fields, is_soft):
    state = built(**fields)
    images, labels = a_batch()
    if is_soft:
        labels = torch.empty(8, 5, device=META)
    with StandIn():
        for _ in range(2):
            train_step(state, (images, labels))
    assert state.step == 2


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_every_variant_of_the_network_takes_a_step(config):
    if config.pool == "none":
        pytest.skip("a network without a pool has no one answer to train on")
    state, batch = built(model=config), a_batch(config)
    with StandIn():
        train_step(state, batch)


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_every_variant_checkpoints_its_activations(config):
    model = on_meta(config)
    model.set_grad_checkpointing(True)
    with StandIn():
        model(images_of(config)).sum().backward()


def test_a_step_with_channels_last():
    state = built(model=VARIANTS["hybrid"])
    state.model.to(memory_format=torch.channels_last)
    images, labels = a_batch(VARIANTS["hybrid"])
    images = images.contiguous(memory_format=torch.channels_last)
    with StandIn():
        train_step(state, (images, labels))


@pytest.mark.parametrize(
    "shares", [{"mixup": 0.2}, {"cutmix": 1.0}, {"mixup": 0.2, "cutmix": 1.0}]
)
def test_a_batch_is_mixed_on_its_device(shares):
    state, batch = built(), a_batch()
    with StandIn():
        for seed in range(4):  # both kinds come up
            train_step(state, mix(*batch, 5, **shares, seed=seed))


# --- augmentation


def test_everything_has_every_augmentation_on():
    unset = [
        each.name
        for each in fields(Augment)
        if getattr(EVERYTHING, each.name) == each.default
    ]
    assert unset == ["rand_magnitude"]  # on by default, if there are layers


@pytest.mark.parametrize("augment", AUGMENTS.values(), ids=AUGMENTS)
def test_arrays_are_augmented_on_the_device(augment):
    source = as_source(
        SET, preprocess=SPEC, augment=augment, shuffle=True, device=META
    )
    with StandIn():
        for batch in source.batches(epoch=0, seed=0, batch_size=8):
            assert all(part.device == META for part in batch)


@pytest.mark.parametrize("augment", AUGMENTS.values(), ids=AUGMENTS)
def test_cropped_pictures_are_augmented_on_the_device(augment):
    rows = table(augment)
    with StandIn():
        images = apply(augment, pixels(), rows, is_cropped=True)
        images = erase(augment, normalise(images, SPEC), rows)
    assert images.device == META


# --- evaluation


def known():
    """A network that knows its preprocessing and names its classes."""
    model = on_meta(TINY)
    model.preprocess, model.class_names = SPEC, tuple("abcde")
    return model


def test_an_evaluation_waits_at_its_end_and_not_for_every_batch():
    model, waits = known(), []
    for batch_size in (40, 4):
        with StandIn(may_wait=True) as stand_in:
            accuracy(model, SET, batch_size=batch_size)
        waits.append(stand_in.waits)
    assert waits[0] == waits[1]


def test_features_come_to_the_cpu_and_few_shots_and_probe_work_there():
    with StandIn(may_wait=True):
        model = known()
        few = features(model, SET, batch_size=8)
    assert few.features.device.type == few.labels.device.type == "cpu"
    x = torch.randn(few.features.shape, generator=torch.Generator())
    with StandIn():
        given = Features(x, few.labels)
        fewshot_accuracy(model, given, given)
        linear_probe(model, given, l2=1.0)
        knn(model, given, given)


# --- looking inside


@pytest.mark.parametrize("config", VITS.values(), ids=VITS)
def test_maps_are_recorded_on_the_device(config):
    model = on_meta(config).eval()
    images = images_of(config)
    with StandIn(), record_attention(model) as maps:
        model(images)
    assert maps and all(each.device == META for each in maps)


@pytest.mark.parametrize("name", ["pool mean", "registers", "RoPE"])
def test_a_rollout_stays_on_the_device(name):
    model, images = on_meta(VITS[name]).eval(), images_of(VITS[name])
    with StandIn():
        assert attention_map(model, images).device == META


@pytest.mark.parametrize("name", VITS)
def test_another_size_is_set_on_the_device(name):
    config, model = VITS[name], on_meta(VITS[name])
    if isinstance(config.position, Relative):
        pytest.skip("its positions are learned for one grid")
    size = tuple(2 * side for side in config.image_size)
    images = torch.empty(2, config.in_channels, *size, device=META)
    with StandIn(may_wait=True):  # once: tables are resized on the CPU
        model.set_input_size(size)
    with StandIn():
        model(images)


# --- sabotage: what is done here to a step would be noticed


def sabotaged(what):
    """A step after `what`, in the network, has seen each batch of logits."""
    state = built()

    class Head(nn.Linear):
        def forward(self, x):
            logits = super().forward(x)
            what(logits)
            return logits

    state.model.head.__class__ = Head
    return state


@pytest.mark.parametrize(
    ("what", "error", "sentence"),
    [
        (lambda x: x.sum().item(), Waits, "_local_scalar_dense waits"),
        (lambda x: x.isnan().any() and 1, Waits, "_local_scalar_dense waits"),
        (lambda x: x.detach().cpu(), Waits, "_to_copy from the device waits"),
        (lambda x: x.tolist(), Waits, "_to_copy from the device waits"),
        (lambda x: x[x > 0], Waits, "index waits"),
        (lambda x: (x > 0).nonzero(), Waits, "nonzero waits"),
        (lambda x: x.argmax(1).unique(), Waits, "unique2 waits"),
        (lambda x: x.new_tensor([1.0, 2.0]), Waits, "new_tensor waits"),
        (lambda x: torch.ones(5).to(x.device), Waits, "to the device waits"),
        (lambda x: x + torch.ones(5), Mixed, "add of .* the last 1 on the CPU"),
        (lambda x: x @ torch.ones(5, 2), Mixed, "mm of .* the last 1 on the"),
        (lambda x: x[torch.arange(3)], Mixed, "index of .* the last 1 on the"),
    ],
)
def test_a_sabotaged_step_is_caught(what, error, sentence):
    state, batch = sabotaged(what), a_batch()
    with pytest.raises(error, match=sentence), StandIn():
        train_step(state, batch)


def test_what_a_gpu_does_not_mind_is_let_through():
    state, batch = sabotaged(lambda x: x * torch.tensor(2.0)), a_batch()
    rows = torch.tensor([0, 2])
    with StandIn():
        train_step(state, batch)
        batch[0][rows.to(META, non_blocking=True)]
