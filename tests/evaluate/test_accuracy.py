"""Accuracy against a direct count: every image once, nothing left changed."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import vitedu
from tests.evaluate.small import cut, prepared, small
from vitedu import UserError
from vitedu.data import photo
from vitedu.evaluate import Answers, accuracy, all_logits, top_k_correct
from vitedu.evaluate.accuracy import mean_loss
from vitedu.evaluate.losses import LOSSES
from vitedu.pictures import normalise


class OnApple(torch.Tensor):
    """As on Apple's GPUs, which don't have float64."""

    def double(self):
        raise TypeError("MPS has no float64")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def drawn(num_images, num_classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_images, num_classes, generator=generator)
    return logits, torch.randint(
        num_classes, (num_images,), generator=generator
    )


def direct(logits, labels):
    """Hits and summed loss, image by image."""
    hits, loss = 0, 0.0
    for row, label in zip(logits.double(), labels.tolist(), strict=True):
        hits += int(row.argmax()) == label
        loss += float(row.exp().sum().log() - row[label])
    return hits, loss


# --- counting


@pytest.mark.parametrize("num_images", [1, 59])
@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_a_direct_count_however_the_images_are_cut(
    num_images, size, dtype
):
    logits, labels = drawn(num_images)
    logits = logits.to(dtype)
    measured = accuracy(nn.Identity(), cut(logits, labels, size))
    hits, loss = direct(logits, labels)
    assert (measured.num_correct, measured.num_images) == (hits, num_images)
    assert measured.accuracy == 100 * hits / num_images
    # float32 within a batch
    assert measured.loss_sum == pytest.approx(loss, rel=1e-5)
    assert measured.loss == pytest.approx(loss / num_images, rel=1e-5)
    assert measured.top5_accuracy is None  # five guesses of five classes


@pytest.mark.parametrize("size", [4, 30])
def test_top_5_counts_labels_among_the_five_largest(size):
    logits, labels = drawn(30, num_classes=12)
    measured = accuracy(nn.Identity(), cut(logits, labels, size))
    places = logits.argsort(1, descending=True) == labels[:, None]
    among = sum(place < 5 for place in places.int().argmax(1).tolist())
    assert measured.num_top5_correct == among
    assert measured.top5_accuracy == pytest.approx(100 * among / 30)
    kinds = [int, float, int, str, int, int]  # plain numbers
    assert [type(value) for value in measured] == kinds


def test_the_sum_of_many_images_loses_no_digits():
    # 2,000 batches of one: a float32 sum of 2e7 would drop each 0.5
    logits = torch.tensor([[0.0, 1e4]] * 2000)
    logits[1000:, 0] = 1e4 - 0.5
    labels = torch.zeros(2000, dtype=torch.int64)
    want = F.cross_entropy(logits.double(), labels, reduction="sum").item()
    logits = logits.as_subclass(OnApple)
    measured = accuracy(nn.Identity(), cut(logits, labels, 1))
    assert measured.loss_sum == pytest.approx(want, rel=1e-9)
    assert mean_loss(nn.Identity(), [(logits, labels)]).loss > 0


class Overflowing(nn.Module):
    """NaN for one of three images, infinity for another."""

    num_classes = 6

    def forward(self, images):
        logits = torch.eye(3, 6)
        logits[1, 2] = math.nan
        logits[2, 0] = math.inf
        return logits


def test_an_image_without_an_answer_is_wrong_and_counted():
    # NaN is the "largest" logit, so label 2 would be right by accident
    labels = torch.tensor([0, 2, 0])
    measured = accuracy(Overflowing(), [(torch.zeros(3, 1, 2, 2), labels)])
    assert measured.num_correct == measured.num_top5_correct == 1
    assert measured.num_unanswered == 2
    assert math.isnan(measured.loss)


@pytest.mark.parametrize(("k", "count"), [(1, 1), (2, 2), (3, 2), (5, 3)])
def test_an_image_counts_where_its_label_is_among_the_k_largest(k, count):
    # the true class is first, second, last
    logits = torch.tensor(
        [[9.0, 1.0, 2.0, 3.0], [5.0, 4.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0]]
    )
    assert top_k_correct(Answers(logits, torch.tensor([0, 1, 3])), k) == count


# --- what becomes of the model


def test_modes_are_put_back_and_nothing_is_dropped_while_measuring():
    model = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm1d(5)).train()
    model[1].eval()  # a frozen part
    logits, labels = drawn(40)
    measured = accuracy(model, cut(logits, labels, 7))
    assert measured.num_correct == direct(logits, labels)[0]
    assert [module.training for module in model] == [True, False]

    def broken():
        yield drawn(3)
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        accuracy(model, broken())
    assert [module.training for module in model] == [True, False]


# --- which loss


@pytest.mark.parametrize("bias", [0.0, -6.0])
def test_the_loss_is_the_one_that_the_head_was_trained_by(bias):
    model, (images, labels) = small(), prepared()
    nn.init.constant_(model.head.bias, bias)
    measured = accuracy(model, [(images, labels)])
    with torch.no_grad():
        logits = model(images)
    if bias:
        name, yes_or_no = "sigmoid", F.one_hot(labels, 3).float()
        want = F.binary_cross_entropy_with_logits(
            logits, yes_or_no, reduction="sum"
        )
    else:
        name = "softmax"
        want = F.cross_entropy(logits, labels, reduction="sum")
    assert (measured.loss_name, measured.loss_sum) == (name, want.item())


def test_a_model_that_says_so_is_measured_by_the_sigmoid(tmp_path):
    model = small()  # whose head wouldn't tell
    model.loss_name = "sigmoid"
    path = vitedu.save(model, tmp_path / "w.safetensors")
    for each in (model, path, str(path)):
        measured = accuracy(each, [prepared()])
        assert measured.loss_name == model.loss_name


def test_our_own_losses_have_the_same_name_when_they_are_given():
    for name, loss in LOSSES.items():
        smooth = partial(loss, label_smoothing=0.1)
        for each in (loss, smooth):
            measured = accuracy(small(), [prepared()], loss=each)
            assert measured.loss_name == name


def test_a_loss_may_be_given():
    def wrong(logits, labels):
        return (logits.argmax(-1) != labels).sum()

    measured = accuracy(small(), [prepared()], loss=wrong)
    assert measured.loss_name == "wrong"
    assert measured.loss_sum == 6 - measured.num_correct


# --- where the images come from


def test_batches_come_in_the_models_dtype():
    images, labels = prepared()
    model = small().double()
    want = accuracy(model, [(images.double(), labels)])
    loader = DataLoader(TensorDataset(images, labels), batch_size=4)
    measured = accuracy(model, loader)
    assert measured.num_correct == want.num_correct
    assert measured.loss == pytest.approx(want.loss, rel=1e-6)


@pytest.fixture
def folder(tmp_path):
    """Pictures of two of the three classes."""
    for number, name in enumerate(["egg", "ant", "egg", "egg"]):
        (tmp_path / "val" / name).mkdir(parents=True, exist_ok=True)
        picture = photo("cat").crop((number * 20, 0, number * 20 + 60, 50))
        picture.save(tmp_path / "val" / name / f"{number}.png")
    return tmp_path


def by_hand(model, folder):
    """Hits among the pictures of val/, one picture at a time."""
    return sum(
        vitedu.classify(model, path, top=1)[0].name == path.parent.name
        for path in (folder / "val").glob("*/*.png")
    )


def test_the_classes_of_a_folder_are_matched_by_name(folder):
    model, hits = small(), set()
    for names in (("egg", "fig", "ant"), ("ant", "egg", "fig")):
        model.class_names = names
        measured = accuracy(model, folder / "val", batch_size=3)
        assert measured.num_images == 4
        assert measured.num_correct == by_hand(model, folder)
        hits.add(measured.num_correct)
    assert len(hits) == 2
    (folder / "train").mkdir()  # of a folder with parts val is measured
    assert accuracy(model, str(folder)) == accuracy(model, folder / "val")


def test_a_warning_names_what_is_left_out_of_a_folder(folder):
    model = small()
    model.class_names = ("egg", "fig", "ant")
    (folder / "val/egg/0.png").write_bytes(b"no picture")
    said = r"1 of 4 pictures .* egg/0\.png"
    with pytest.warns(UserWarning, match=said) as caught:
        assert accuracy(model, folder / "val", batch_size=1).num_images == 3
    (warning,) = caught
    assert warning.filename == __file__


def pixels(*size):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(
        0, 256, (6, 3, *size), dtype=torch.uint8, generator=generator
    )


@pytest.mark.parametrize("size", [(8, 8), (11, 9)])
def test_pixels_in_batches_are_prepared_as_in_memory(size):
    model, labels = small(), torch.arange(6) % 3
    want = accuracy(model, (pixels(*size), labels))
    loader = DataLoader(TensorDataset(pixels(*size), labels), batch_size=6)
    for data in (loader, iter(loader), [(pixels(*size), labels)]):
        assert accuracy(model, data) == want
    bare = nn.Sequential(model)  # no names, and no number of classes
    bare.preprocess = model.preprocess
    assert accuracy(bare, (pixels(*size), labels)).num_images == 6


# --- what cannot be


IMAGES, LABELS = prepared()


def test_a_class_that_the_model_does_not_have_is_refused(folder):
    model = small()
    model.class_names = ("fig", "ant", "dog")
    with pytest.raises(UserError, match=r"for 1 folder \(egg\)"):
        accuracy(model, folder / "val")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_logits_takes_the_data_of_accuracy_in_any_form(dtype):
    model, labels = small().to(dtype).train(), torch.arange(6) % 3
    data = pixels(8, 8), labels
    want = accuracy(model, data).num_correct
    for given in (
        data,
        [data],
        [(normalise(data[0], model.preprocess), labels)],
    ):
        answers = all_logits(model, given)
        assert answers.logits.dtype == torch.float32
        assert answers.labels.equal(labels)
        assert top_k_correct(answers, 1) == want
    assert model.training
    with pytest.raises(UserError, match="normalise them by its mean"):
        all_logits(model, [(IMAGES.abs().clamp(max=1), LABELS)])
    with pytest.raises(ValueError, match="at least one image"):
        all_logits(model, [])
