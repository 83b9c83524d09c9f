"""What a type checker says of a user's script: mypy, in its strict mode."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# torch's types: 20 seconds where they are not in the cache
pytestmark = pytest.mark.slow

# What a user writes, with the types that they expect.
RIGHT = """
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

import vitedu

# models
tiny = vitedu.load("ViT-Ti/16")
large = vitedu.load("ViT-B/16", image_size=384, num_classes=10)
notes: tuple[str, ...] = tiny.load_report.notes
again: vitedu.ViT = tiny
loaded = vitedu.load(Path("run"), device="cpu", dtype=torch.bfloat16)
loaded.set_input_size(384)
other = vitedu.load("photo-model.safetensors", ignore=("extra/*",))
model = vitedu.vit("ViT-B/16", num_classes=10, image_size=(384, 384))
pooled = vitedu.vit("ViT-S/16", pool="mean", gelu="tanh", drop_path=0.1)
hybrid: vitedu.ViT = vitedu.vit("R50+ViT-B/16")
resnet: vitedu.ResNet = vitedu.resnet("R50x1", num_classes=2)
config: vitedu.ViTConfig = replace(model.config, depth=2)
built = vitedu.ViT(config)
number: int = model.num_classes
names: tuple[str, ...] = model.class_names
width: int = model.config.embed_dim
model.reset_classifier(3)
model.set_input_size(384)
model.set_grad_checkpointing()
model.gradient_checkpointing_enable()
any_size = vitedu.load("ViT-Ti/16", dynamic=True)
path: Path = vitedu.save(model, "model.safetensors")

# pictures
images: Tensor = vitedu.preprocess(model, ["a.jpg", "b.jpg"])
one: Tensor = model.preprocess("a.jpg")
size: tuple[int, int] = model.preprocess.image_size
for name, probability in vitedu.classify(model, Path("a.jpg"), top=3):
    print(name.upper(), 100 * probability)
best: str = vitedu.classify("ViT-Ti/16", b"...")[0].name
for each in vitedu.predict(model, Path("album").glob("*.jpg"), top=3):
    print(each.file, each.names[:1], each.probabilities, each.error)
photo = vitedu.data.photo("hopper").resize((224, 224))

# inside
logits: Tensor = model.forward_head(model.forward_features(images))
for layer in model.get_intermediate_layers(images, 4, reshape=True):
    print(layer.shape)
final, blocks = model.forward_intermediates(images, indices=[5, 11], norm=True)
with vitedu.record_attention(model, detach=False) as maps:
    model(images)
last: Tensor = maps[-1]

# measures
features, labels = vitedu.evaluate.features(model, "photos/val")
rows: int = len(features) + len(labels)
accuracy: float = vitedu.evaluate.accuracy(model, "photos/val").accuracy
few = vitedu.evaluate.Features(features, labels)
five = few.take(vitedu.evaluate.sample_shots(labels, 5, seed=0))
accuracy = vitedu.evaluate.fewshot_accuracy(model, five, "photos/val")
classifier = vitedu.evaluate.fewshot_classifier(model, five)
scores: Tensor = classifier.scores(features)
for point in vitedu.evaluate.fewshot_curve(model, few, few, shots=(1, 5)):
    print(point.shots, point.mean, point.std or 0.0)
probe = vitedu.evaluate.linear_probe(model, "photos/train", l2=(0.1, 0.01))
accuracy = probe.accuracy(model, few)
accuracy = vitedu.evaluate.knn(model, "photos/train", "photos/val", k=5)
accuracy = vitedu.evaluate.real_accuracy(model, "val", "real.json").accuracy
accuracy = vitedu.evaluate.objectnet_accuracy(model, "on").top5_accuracy
vtab = vitedu.train.run_vtab("ViT-B/16", {"dtd": ("a", "b")}, "out", lr=0.003)
print(vtab.mean, [vtab.missing.get(task.name) for task in vitedu.evaluate.VTAB])


# training
def focal(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, labels, reduction="sum")


def watch(progress: vitedu.train.Progress) -> None:
    print(progress.step, progress.line["loss"], progress.model.num_classes)


class Noise:
    num_classes = 2
    class_names = ("left", "right")

    def __len__(self) -> int:
        return 64

    def batches(
        self,
        *,
        epoch: int,
        seed: int,
        batch_size: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        yield torch.zeros(64, 3, 32, 32), torch.zeros(64, dtype=torch.int64)


source: vitedu.data.Source = Noise()
folder = vitedu.data.as_source("photos", preprocess=model.preprocess)
for batch, answers in folder.batches(epoch=0, seed=0, batch_size=32):
    print(batch.shape, answers.tolist())
recipe = vitedu.train.recipe("digits", "cpu")
run = vitedu.train.fit(
    replace(recipe, lr=0.01),
    "out",
    model=model,
    train=source,
    test=(torch.zeros(4, 3, 32, 32), torch.zeros(4, dtype=torch.int64)),
    loss=focal,
    on_progress=watch,
    should_stop=lambda: False,
)
print(run.result["metrics"]["test_accuracy"]["value"])
trained: vitedu.ViT = run.model
tuned = vitedu.finetune(
    "ViT-Ti/16", "photos", "out", epochs=5, layer_decay=0.75, image_size=384
)
vitedu.save(tuned.model, "tuned.safetensors")
vitedu.weights.convert("tuned.safetensors", "tuned-hf", to="hf")

# a loop of one's own
groups = vitedu.train.parameter_groups(
    model, weight_decay=0.05, layer_decay=0.75
)
optimizer = vitedu.train.build_optimizer(model, "adamw", lr=1e-3)
precision = vitedu.train.build_precision("bf16", torch.device("cpu"))
with precision.autocast():
    loss = focal(model(images), labels)
precision.backward(loss)
norm = precision.update(optimizer, 1.0)
"""

# Lines that are wrong, and the code of mypy's answer to each.
WRONG = [
    ('vitedu.vit("ViT-Ti/16", num_clases=10)', "call-arg"),
    ('vitedu.vit("ViT-Ti/16", num_classes="10")', "arg-type"),
    ('vitedu.vit("ViT-Ti/16", pool="gap")', "arg-type"),
    ('vitedu.vit("ViT-Ti/16", gelu="relu")', "arg-type"),
    ('vitedu.vit_config("ViT-Ti/16", num_clases=10)', "call-arg"),
    ('vitedu.resnet("R50x1", num_clases=10)', "call-arg"),
    ('vitedu.load("ViT-Ti/16", num_clases=10)', "call-"),
    ('vitedu.finetune("ViT-Ti/16", "photos", epoch=5)', "call-arg"),
    ('vitedu.finetune("ViT-Ti/16", "photos", epochs="5")', "arg-type"),
    ('vitedu.classify(vitedu.vit("ViT-Ti/16"), "a.jpg", tops=3)', "call-"),
    ('vitedu.finetune("ViT-Ti/16", "photos", keep="bset")', "arg-type"),
    ('vitedu.train.TrainConfig("run", "cpu", lr="0.1")', "arg-type"),
    ('vitedu.train.TrainConfig("run", "cpu", keep="bset")', "arg-type"),
    ('vitedu.weights.convert("a.npz", "b", to="keras")', "arg-type"),
    ('vitedu.lode("ViT-Ti/16")', "attr-defined"),
]


def readme():
    """The Python of README.md."""
    text = (ROOT / "README.md").read_text()
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S))


@pytest.fixture(scope="module")
def said(tmp_path_factory, pytestconfig):
    """mypy's lines, by script and number of the line."""
    pytest.importorskip("mypy")
    here = tmp_path_factory.mktemp("types")
    wrong = ["import vitedu", *(line for line, _ in WRONG)]
    scripts = {
        "right.py": RIGHT,
        "readme_lines.py": readme(),
        "wrong.py": "\n".join(wrong) + "\n",
    }
    for name, text in scripts.items():
        (here / name).write_text(text)
    # kept between runs, so that torch's types are read once
    cache = pytestconfig.cache.mkdir("mypy")
    options = ["--strict", "--no-error-summary", f"--cache-dir={cache}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *scripts],
        cwd=here,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    pattern = r"^([\w.]+):(\d+): (error: .*)$"
    found = re.findall(pattern, done.stdout, flags=re.M)
    return [(name, int(line), text) for name, line, text in found]


@pytest.mark.parametrize("script", ["right.py", "readme_lines.py"])
def test_a_script_that_is_right_passes(said, script):
    assert [each for each in said if each[0] == script] == []


@pytest.mark.parametrize(
    ("number", "line", "code"),
    [(number, *pair) for number, pair in enumerate(WRONG, start=2)],
    ids=[line for line, _ in WRONG],
)
def test_a_wrong_line_is_an_error(said, number, line, code):
    found = [
        text for name, at, text in said if (name, at) == ("wrong.py", number)
    ]
    assert found, f"mypy has nothing to say of {line}"
    assert any(f"[{code}" in text for text in found), found
