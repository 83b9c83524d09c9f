"""What the page "Try it" loads is what the package carries."""

import json
import re
import zlib
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
import try_files
from PIL import Image

import vitedu
from vitedu.data import load_dataset, photo
from vitedu.data.readers.photos import PHOTOS
from vitedu.model import NoPosition

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("try") / "new"
    try_files.write(folder)
    return folder


def assigned(path):
    """The value in a script that assigns one."""
    target, _, value = path.read_text().partition(" = ")
    return target, json.loads(value.removesuffix(";\n"))


@pytest.mark.slow
@pytest.mark.parametrize("name", try_files.MODELS)
def test_the_weights_are_the_models_in_16_bits(folder, name):
    files = [folder / file for file in try_files.scripts(name)]
    target, packed = assigned(files[0])
    assert target == f'vitedu.packed["{name}"]'
    parts = dict(map(assigned, files[1:]))
    assert list(parts) == [f"{target}.data[{i}]" for i in range(1, len(files))]
    model = vitedu.load(name)
    content = b"".join(map(b64decode, [*packed["data"], *parts.values()]))
    halves = np.frombuffer(content, "<f2")
    place = 0
    for key, shape in packed["tensors"]:
        tensor = model.state_dict().get(key)
        if tensor is None:  # a table that no file has
            tensor = getattr(model, key)()
        assert tuple(shape) == tensor.shape
        found = torch.tensor(halves[place : place + tensor.numel()])
        assert torch.equal(found, tensor.half().flatten())
        place += tensor.numel()
    assert place == len(halves)
    assert packed["class_names"] == list(model.class_names)
    assert packed["preprocess"] == model.preprocess.to_json()
    assert packed["config"]["pool"] == model.config.pool


def test_the_page_asks_for_as_many_parts_as_there_are(folder):
    engine = (ROOT / "book/_static/try/networks.js").read_text()
    count = int(re.search(r"length: (\d+) }, \(_, part\)", engine)[1])
    assert len(list(folder.glob("vit-ti-16-*.js"))) == count


@pytest.mark.slow
def test_equal_sources_give_equal_bytes(folder, tmp_path):
    try_files.write(tmp_path)
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_the_digits_are_test_images_in_their_order(folder):
    _, packed = assigned(folder / "digits.js")
    digits = torch.tensor(list(b64decode(packed))).view(10, 1, 28, 28)
    test = load_dataset("digits").test
    for digit, image in enumerate(digits):
        same = (test.images == image).flatten(1).all(dim=1)
        assert test.labels[same].tolist() == [digit]


def test_the_photographs_are_the_packages(folder):
    _, photos = assigned(folder / "photos.js")
    assert list(photos) == list(PHOTOS)
    for name, address in photos.items():
        content = b64decode(address.removeprefix("data:image/jpeg;base64,"))
        with Image.open(BytesIO(content)) as image:
            assert image.convert("RGB").tobytes() == (photo(name).tobytes())
        with Image.open(folder / f"{name}.jpg") as image:
            assert image.size == (112, 112)


def test_the_digits_to_learn_from_are_the_packages(folder):
    _, packed = assigned(folder / "digit-set.js")
    content = zlib.decompress(b64decode(packed["data"]))
    data = load_dataset("digits")
    assert packed["train"] == len(data.train.labels)
    size = 784 * packed["count"]
    images = torch.cat([data.train.images, data.test.images])
    assert content[:size] == images.numpy().tobytes()
    labels = torch.cat([data.train.labels, data.test.labels])
    assert list(content[size:]) == labels.tolist()


def test_the_front_page_has_whom_each_patch_listens_to(folder):
    _, packed = assigned(folder / "hopper.js")
    found = np.frombuffer(b64decode(packed["maps"]), np.uint8)
    model = vitedu.load("ViT-Ti/16")
    with torch.no_grad(), vitedu.record_attention(model) as maps:
        model(vitedu.preprocess(model, photo("hopper")))
    want = maps[6].mean(dim=1)[0, 1:, 1:]
    levels = torch.tensor(found).view(196, 196)
    most = want.argmax(dim=1, keepdim=True)  # a byte may have it twice
    assert (levels.gather(1, most) == 255).all()
    assert (levels.min(dim=1).values == 0).all()
    size = (folder / "hopper.js").stat().st_size
    assert size < 150_000


@pytest.mark.parametrize(
    "fields",
    [
        {"gelu": "tanh"},
        {"pool": "map"},
        {"registers": 4},
        {"position": NoPosition()},
        {"class_token": False, "pool": "mean"},
    ],
    ids=str,
)
def test_another_network_is_refused(fields):
    model = vitedu.vit("ViT-Ti/16", depth=1, **fields)
    with pytest.raises(vitedu.UserError, match="and nothing else; this is"):
        try_files.read_fields(model.config)


def test_weights_that_16_bits_cannot_hold_are_refused():
    model = vitedu.load("mnist-tiny")
    model.head.bias.data[3] = 1e6
    with pytest.raises(vitedu.UserError, match="bias is too large"):
        try_files.weights(model)


@torch.no_grad()
def test_the_walk_is_through_the_network(folder):
    target, walk = assigned(folder / "walk-numbers.js")
    assert target == "vitedu.walk"
    model = vitedu.load("ViT-Ti/16")
    images = vitedu.preprocess(model, photo("hopper"))
    with vitedu.record_attention(model) as maps:
        model(images)
    found = torch.tensor(walk["scores"]).softmax(dim=0)
    patch, head = walk["patch"] + 1, walk["head"] - 1
    want = maps[walk["block"] - 1][0, head, patch]
    assert torch.allclose(found, want, atol=1e-3)
    assert walk["most"] == want[1:].topk(3).indices.tolist()
    word = torch.tensor(walk["word"]) + torch.tensor(walk["position"])
    assert torch.allclose(word, model.embed(images)[0, patch], atol=2e-3)
    keys, query = torch.tensor(walk["keys"]), torch.tensor(walk["query"])
    scores = torch.tensor(walk["scores"])[torch.tensor(walk["most"]) + 1]
    assert torch.allclose(keys @ query / 8, scores, atol=0.02)
