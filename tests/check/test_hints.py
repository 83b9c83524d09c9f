"""Every hint of `vitedu.check` answers the mistake that it names.

The mistakes are made here as a reader makes them: in the text of a chapter's
own definition.
"""

import ast
import math
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vitedu import check, plain
from vitedu.check import verdict
from vitedu.evaluate import dense, fewshot
from vitedu.evaluate.scaling import fitted
from vitedu.model.mae import num_hidden
from vitedu.model.mpp import LEVELS

ROOT = Path(__file__).parents[2]
# the definitions that are checked, where they stand
FILES = {
    "vitedu/plain.py": "patchify PatchEmbedding attention MultiHeadAttention "
    "MLP EncoderBlock ViT initialise train_step warmup_cosine accuracy",
    "book/text/03_encoder.py": "layer_norm",
    "book/text/06_recipe.py": "mixup decay_groups",
    "book/text/07_speed.py": "LossScaler",
    "book/text/08_scale.py": "accumulated_step all_reduce",
    "book/text/11_transfer.py": "finetune_step",
    "book/text/12_imagenet.py": "real_accuracy",
    "book/text/13_few_shot.py": "nearest_mean",
    "vitedu/evaluate/fewshot.py": "least_squares",
    "book/text/15_inside.py": "attention_distance position_similarity",
    "book/text/16_ablations.py": "table_2d relative_bias axial",
    "book/text/17_bias.py": "same_or_different shuffle",
    "book/text/18_scaling.py": "power_law bootstrap",
    "vitedu/evaluate/dense.py": "ridge box_targets suppress",
    "vitedu/model/mae.py": "random_mask masked_error",
    "vitedu/model/mpp.py": "colour_classes",
}
CHECKS = {name.replace("_", ""): name for name in check.__all__}
PLACES = {
    CHECKS[called.replace("_", "").lower()]: (ROOT / path, called)
    for path, names in FILES.items()
    for called in names.split()
}


def definition(name):
    """The text of a definition, with its decorators, and its name."""
    path, called = PLACES[name]
    text = path.read_text()
    for node in ast.parse(text).body:
        if getattr(node, "name", None) == called:
            first = min([node, *node.decorator_list], key=lambda x: x.lineno)
            lines = text.splitlines(keepends=True)
            return "".join(lines[first.lineno - 1 : node.end_lineno]), called
    raise LookupError(name)


def made(text, name):
    """What a definition's text defines, as in a notebook."""
    space = {
        **vars(plain),
        "torch": torch,
        "nn": nn,
        "F": F,
        "math": math,
        "rearrange": rearrange,
        "power_law": fitted,
        "whiten": fewshot.whiten,
        "FewShotClassifier": fewshot.FewShotClassifier,
        "Tensor": torch.Tensor,
        "box_iou": dense.box_iou,
        "num_hidden": num_hidden,
        "LEVELS": LEVELS,
    }
    if name == "all_reduce" and "def ring_round" not in text:
        source = PLACES["all_reduce"][0].read_text()
        start = source.index("def ring_round")
        text = source[start : source.index("def all_reduce")] + text
    exec(text, space)
    return space[PLACES[name][1]]


def test_every_check_is_tried_here():
    assert set(PLACES) == set(check.__all__) - {"Verdict"}


@pytest.mark.parametrize("name", PLACES)
def test_the_chapters_own_definition_is_right(name):
    text, _ = definition(name)
    answer = getattr(check, name)(made(text, name))
    assert answer.is_right, answer
    assert repr(answer).startswith("✓ ")


def mistakes():
    """Each row of the table: the check, the changes of its text, the hint."""
    text = (ROOT / "tests/tables/mistakes.txt").read_text()
    found, name = [], ""
    for line in text.replace("\n| ", " | ").splitlines():
        if line.startswith("["):
            name = line[1:-1]
        elif line and line[0] != "#":
            hint, *changes = line.replace("\\n", "\n").split(" | ")
            pairs = [change.split(" => ") for change in changes]
            found.append(pytest.param(name, pairs, hint, id=f"{name}: {hint}"))
    return found


@pytest.mark.parametrize(("name", "changes", "hint"), mistakes())
def test_a_mistake_is_named(name, changes, hint):
    text, _ = definition(name)
    for was, now in changes:
        assert was in text
        text = text.replace(was, now.replace("(nothing)", ""))
    answer = getattr(check, name)(made(text, name))
    assert not answer.is_right
    assert hint in answer.sentence
    assert repr(answer).startswith("✗ ")


def test_two_hundred_mistakes_are_known():
    assert len({row.id for row in mistakes()}) > 200


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("patchify", plain.ViT, "not the class ViT"),
        ("patchify", 3, "not an object of type int"),
        ("vit", plain.patchify, "not the function patchify"),
        ("mlp", plain.MLP(4, 4), "not an object of type MLP"),
        ("mlp", int, "int isn't an nn.Module"),
        ("loss_scaler", 3, "this checks a class"),
        ("attention", lambda q, k, v: None, "it should return 2 things"),
        ("patchify", lambda images, p: None, "is the return missing?"),
        ("patchify", lambda images, p: "patches", "got a str"),
        ("patchify", lambda images, p: images * torch.nan, "has the shape"),
        ("layer_norm", lambda x, eps: x * torch.nan, "NaN or infinity"),
        ("layer_norm", lambda x, eps: x - x.sum(), "depends on the others"),
        ("layer_norm", lambda x, eps: 2 * x, "no mistake that we know"),
        ("patchify", lambda images: images, "it raises TypeError"),
        ("mixup", lambda images, targets, share: images, "a Tensor"),
        ("decay_groups", lambda model, decay: None, "a list of groups"),
        ("bootstrap", lambda *case: None, "a and b, got nothing"),
    ],
)
def test_whatever_is_given_gets_one_sentence(name, given, sentence):
    answer = getattr(check, name)(given)
    assert not answer.is_right
    assert sentence in answer.sentence


def endless(images, patch_size):
    while True:
        time.sleep(0.01)


def test_what_never_ends_is_interrupted(monkeypatch):
    monkeypatch.setattr(verdict, "SECONDS", 1)
    answer = check.patchify(endless)
    assert "still running after 1 seconds" in answer.sentence


def test_outside_the_main_thread_nothing_is_interrupted():
    found = []
    thread = threading.Thread(
        target=lambda: found.append(check.patchify(plain.patchify))
    )
    thread.start()
    thread.join()
    assert found[0].is_right


def test_a_check_leaves_the_random_state_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    check.vit(plain.ViT)
    check.initialise(plain.initialise)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_answer_in_float32_is_right_too():
    answer = check.patchify(lambda x, p: plain.patchify(x.float(), p))
    assert answer.is_right
    assert "e-08" in answer.sentence


def test_any_partner_is_right_in_mixup():
    def shuffled(images, targets, share):
        order = torch.tensor([3, 4, 5, 0, 1, 2])
        return (
            share * images + (1 - share) * images[order],
            share * targets + (1 - share) * targets[order],
        )

    assert check.mixup(shuffled).is_right
