"""Features are what the head gets of each image, in order; labels beside."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset

import vitedu
from vitedu import UserError
from vitedu.data import photo
from vitedu.evaluate import Features, features

TINY = {
    "image_size": 8,
    "patch_size": 4,
    "embed_dim": 32,
    "depth": 2,
    "num_heads": 2,
    "mlp_dim": 16,
}


def tiny(**fields):
    torch.manual_seed(0)
    model = vitedu.vit("ViT-Ti/16", **{"num_classes": 3} | TINY | fields)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model.eval()


def drawn(num_images=7):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(num_images, 3, 8, 8, generator=generator)
    return images, torch.arange(num_images) % 3


def batches(num_images=7, size=3):
    images, labels = drawn(num_images)
    return list(zip(images.split(size), labels.split(size), strict=True))


@torch.no_grad()
def without_head(model, images):
    """What the model returns once it has no head."""
    parts = model.pre_logits if hasattr(model, "pre_logits") else nn.Identity()
    model.head = nn.Identity()
    model.pre_logits = parts
    return model(images)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"num_classes": 0},
        {"pool": "mean"},
        {"pool": "map", "class_token": False},
        {"pre_logits": 8},
    ],
    ids=["token", "headless", "mean", "map", "pre-logits"],
)
def test_they_are_what_the_head_gets(fields):
    model = tiny(**fields)
    found = features(model, batches(size=7))
    assert isinstance(found, Features)
    assert torch.equal(found.features, without_head(model, drawn()[0]))
    assert torch.equal(found.labels, drawn()[1])


def test_the_head_on_top_gives_the_logits():
    model = tiny(pre_logits=8)
    found = features(model, batches(size=7)).features
    with torch.no_grad():
        assert torch.equal(model.head(found), model(drawn()[0]))


def test_a_resnet_has_features_too():
    torch.manual_seed(0)
    model = vitedu.resnet("BiT-R50x1", layers=(1, 1), num_classes=3).eval()
    images = torch.randn(2, 3, 32, 32)
    found = features(model, [(images, torch.tensor([0, 1]))]).features
    model.reset_classifier(0)
    with torch.no_grad():
        assert torch.equal(found, model(images))


@pytest.mark.parametrize("size", [1, 2, 7])
def test_every_image_comes_once_however_they_are_cut(size):
    want = features(tiny(), batches(size=7))
    found = features(tiny(), batches(size=size))
    # float32: a product of other shapes sums in another order
    torch.testing.assert_close(found.features, want.features)
    assert torch.equal(found.labels, want.labels)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_they_are_in_the_models_dtype(dtype):
    model = tiny().to(dtype)
    found = features(model, batches(size=7)).features
    assert found.dtype == dtype
    assert torch.equal(found, without_head(model, drawn()[0].to(dtype)))


@pytest.mark.parametrize("is_training", [True, False])
def test_dropout_is_off_and_the_mode_put_back(is_training):
    model = tiny(dropout=0.5)
    want = features(model, batches())
    model.train(is_training)
    model.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    found = features(model, batches())
    assert torch.equal(found.features, want.features)
    assert [module.training for module in model.modules()] == modes


def test_no_gradient_is_recorded():
    found = features(tiny(), batches()).features
    assert not found.requires_grad and not found.is_inference()


@pytest.mark.parametrize("wrap", [AveragedModel, nn.DataParallel])
def test_a_wrapped_model_is_taken_out(wrap):
    want = features(tiny(), batches()).features
    assert torch.equal(features(wrap(tiny()), batches()).features, want)


# --- where the images come from


def test_a_data_loader_a_generator_and_a_list_give_the_same():
    want = features(tiny(), batches())
    loader = DataLoader(TensorDataset(*drawn()), batch_size=3)
    for data in (loader, iter(batches()), (pair for pair in batches())):
        found = features(tiny(), data)
        assert torch.equal(found.features, want.features)
        assert torch.equal(found.labels, want.labels)


@pytest.fixture
def folder(tmp_path):
    """Two classes of two pictures, written in the order of another alphabet."""
    for name, number in (("zebra", 0), ("ant", 1), ("zebra", 2), ("ant", 3)):
        (tmp_path / name).mkdir(exist_ok=True)
        picture = photo("cat").crop((number * 20, 0, number * 20 + 60, 50))
        picture.save(tmp_path / name / f"{number}.png")
    return tmp_path


def test_of_a_folder_labels_are_the_sorted_classes(folder):
    model = tiny()
    found = features(model, folder, batch_size=3)
    assert found.labels.tolist() == [0, 0, 1, 1]
    paths = [
        *sorted((folder / "ant").iterdir()),
        *sorted((folder / "zebra").iterdir()),
    ]
    pictures = vitedu.preprocess(model, paths)
    want = without_head(model, pictures)
    torch.testing.assert_close(found.features, want)


def test_a_warning_names_what_is_left_out_of_a_folder(folder):
    (folder / "ant/1.png").write_bytes(b"no picture")
    with pytest.warns(
        UserWarning, match=r"1 of 4 pictures .* ant/1\.png"
    ) as caught:
        found = features(tiny(), folder, batch_size=1)
    (warning,) = caught
    assert warning.filename == __file__
    assert found.labels.tolist() == [0, 1, 1]


def test_a_folder_may_have_other_classes_than_the_model(folder):
    model = tiny()
    model.class_names = ("cat", "dog", "egg")
    assert features(model, str(folder)).labels.tolist() == [0, 0, 1, 1]


def test_arrays_in_memory_and_a_dataset_of_pictures_give_the_same():
    pixels = np.stack([np.array(photo("cat").resize((8, 8)))] * 2)
    want = features(tiny(), (pixels, np.array([1, 0])))
    assert want.labels.tolist() == [1, 0]
    first, second = map(Image.fromarray, pixels)
    pictures = [(first, 1), (second, 0)]
    found = features(tiny(), pictures)
    assert torch.equal(found.features, want.features)
    assert torch.equal(found.labels, want.labels)


def test_labels_of_batches_are_the_callers_own():
    """Pictures without a class may have any number, such as -1."""
    images, _ = drawn(2)
    found = features(tiny(), [(images, [-1, 99])])
    assert found.labels.tolist() == [-1, 99]


# --- what cannot be


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ([], ValueError, "at least one image"),
        (
            [(torch.zeros(2, 3, 8, 8).int(), torch.arange(2))],
            UserError,
            "int32; they are uint8",
        ),
        ([torch.zeros(2, 3, 8, 8)], UserError, "its label are needed"),
        ("nowhere", UserError, "nowhere"),
    ],
    ids=["none", "whole numbers", "no labels", "no folder"],
)
def test_what_is_no_data_is_one_sentence(data, error, said):
    with pytest.raises(error, match=said) as raised:
        features(tiny(), data)
    assert "\n" not in str(raised.value)


def test_images_that_are_not_normalised_are_refused():
    images = torch.rand(6, 3, 8, 8)  # ToTensor alone
    loader = DataLoader(TensorDataset(images, torch.arange(6)), batch_size=6)
    with pytest.raises(UserError, match="normalise them"):
        features(tiny(), loader)


def test_a_model_without_a_pool_says_so():
    with pytest.raises(UserError, match="pool=none"):
        features(tiny(pool="none"), batches())


def test_the_network_of_somebody_else_says_so():
    with pytest.raises(TypeError, match="features takes a ViT"):
        features(nn.Linear(2, 2), batches())


def test_a_model_may_be_named(tmp_path):
    path = vitedu.save(tiny(), tmp_path / "w.safetensors")
    want = features(tiny(), batches())
    for name in (path, str(path)):
        assert torch.equal(features(name, batches()).features, want.features)
