"""Accuracy against a direct count: every image once, nothing left changed."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import vitedu
from vitedu import PreprocessSpec, UserError
from vitedu.data import photo
from vitedu.evaluate import Evaluation, accuracy


class Given(nn.Module):
    """Takes the logits themselves for images."""

    def forward(self, images):
        return images


def drawn(num_images, num_classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_images, num_classes, generator=generator)
    return logits, torch.randint(
        num_classes, (num_images,), generator=generator
    )


def cut(logits, labels, size):
    return list(zip(logits.split(size), labels.split(size), strict=True))


def direct(logits, labels):
    """Hits and summed loss, image by image."""
    hits, loss = 0, 0.0
    for row, label in zip(logits.double(), labels.tolist(), strict=True):
        hits += int(row.argmax()) == label
        loss += float(row.exp().sum().log() - row[label])
    return hits, loss


@pytest.mark.slow
@settings(deadline=None, derandomize=True)
@given(num_images=st.integers(1, 60), size=st.integers(1, 70))
def test_equals_a_direct_count_however_the_images_are_cut(num_images, size):
    logits, labels = drawn(num_images)
    measured = accuracy(Given(), cut(logits, labels, size))
    hits, loss = direct(logits, labels)
    assert (measured.num_correct, measured.num_images) == (hits, num_images)
    assert measured.accuracy == pytest.approx(
        100 * hits / num_images, rel=1e-12
    )
    # float32 within a batch
    assert measured.loss_sum == pytest.approx(loss, rel=1e-5)
    assert measured.loss == pytest.approx(loss / num_images, rel=1e-5)


def test_is_no_mean_of_batch_means():
    # 3 of 3 right, then 0 of 1: 75 %, where a mean of means says 50 %
    logits = torch.tensor([[9.0, 0.0]] * 4)
    labels = torch.tensor([0, 0, 0, 1])
    assert accuracy(Given(), cut(logits, labels, 3)).accuracy == 75.0


@pytest.mark.parametrize("size", [1, 4, 30])
def test_top_5_counts_labels_among_the_five_largest(size):
    logits, labels = drawn(30, num_classes=12)
    measured = accuracy(Given(), cut(logits, labels, size))
    places = logits.argsort(1, descending=True) == labels[:, None]
    among = sum(place < 5 for place in places.int().argmax(1).tolist())
    assert measured.num_top5_correct == among
    assert measured.top5_accuracy == pytest.approx(100 * among / 30)


def test_top_5_is_left_out_where_five_guesses_are_nearly_all():
    measured = accuracy(Given(), cut(*drawn(9, num_classes=5), 4))
    assert measured.num_top5_correct is None
    assert measured.top5_accuracy is None


def test_an_image_without_an_answer_is_not_among_the_five():
    logits, labels = torch.full((2, 6), torch.nan), torch.tensor([0, 1])
    assert accuracy(Given(), [(logits, labels)]).num_top5_correct == 0


def test_a_model_that_is_always_right_has_a_hundred_percent():
    labels = torch.arange(7) % 5
    logits = 50.0 * F.one_hot(labels, 5)
    measured = accuracy(Given(), cut(logits, labels, 2))
    assert measured.accuracy == 100.0
    # float32: log(1 + 4 exp(-50)) is 0
    assert measured.loss == 0.0


def test_the_loss_of_a_constant_answer_is_the_logarithm_of_the_classes():
    logits, labels = torch.zeros(7, 5), torch.arange(7) % 5
    measured = accuracy(Given(), cut(logits, labels, 2))
    # float32
    assert measured.loss == pytest.approx(
        torch.tensor(5.0).log().item(), rel=1e-6
    )


def test_the_sum_of_many_images_loses_no_digits():
    # 2,000 batches of one: a float32 sum of 2e7 would drop each 0.5
    logits = torch.tensor([[0.0, 1e4]] * 2000)
    logits[1000:, 0] = 1e4 - 0.5
    labels = torch.zeros(2000, dtype=torch.int64)
    measured = accuracy(Given(), cut(logits, labels, 1))
    want = F.cross_entropy(logits.double(), labels, reduction="sum").item()
    assert measured.loss_sum == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_logits_of_half_precision_are_summed_in_float32(dtype):
    logits, labels = drawn(40)
    logits = logits.to(dtype)
    measured = accuracy(Given(), cut(logits, labels, 7))
    hits, loss = direct(logits.float(), labels)
    assert measured.num_correct == hits
    assert measured.loss_sum == pytest.approx(loss, rel=1e-5)


def test_sums_are_plain_numbers():
    measured = accuracy(Given(), cut(*drawn(10, num_classes=6), 3))
    kinds = [int, float, int, str, int, int]
    assert [type(value) for value in measured] == kinds


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_model_is_put_back(training):
    model = nn.Sequential(nn.Dropout(0.5), Given()).train(training)
    accuracy(model, cut(*drawn(10), 3))
    assert {module.training for module in model.modules()} == {training}


def test_nothing_is_dropped_while_measuring():
    model = nn.Sequential(nn.Dropout(0.9), Given()).train()
    logits, labels = drawn(40)
    assert (
        accuracy(model, cut(logits, labels, 7)).num_correct
        == direct(logits, labels)[0]
    )


def test_a_part_that_was_frozen_stays_frozen():
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(5)).train()
    model[1].eval()
    accuracy(model, cut(*drawn(10), 3))
    assert [module.training for module in model] == [True, False]


def test_the_mode_is_put_back_after_an_error_too():
    model = nn.Sequential(Given()).train()

    def broken():
        yield drawn(3)
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        accuracy(model, broken())
    assert model.training


def test_no_gradient_is_recorded():
    model, seen = nn.Linear(5, 5), []
    model.register_forward_hook(
        lambda *args: seen.append(args[2].requires_grad)
    )
    accuracy(model, cut(*drawn(10), 5))
    assert seen == [False, False]
    assert model.weight.grad is None


@pytest.mark.parametrize(
    "batches", [[], [(torch.zeros(0, 5), torch.zeros(0).long())]]
)
def test_no_image_is_an_error(batches):
    with pytest.raises(ValueError, match="at least one image"):
        accuracy(Given(), batches)


def test_an_empty_batch_among_others_counts_nothing():
    logits, labels = drawn(4)
    batches = [(logits, labels), (logits[:0], labels[:0])]
    measured = accuracy(Given(), batches)
    assert measured == accuracy(Given(), [(logits, labels)])


def test_batches_are_read_once_and_may_be_a_generator():
    logits, labels = drawn(10)
    reads = iter(cut(logits, labels, 3))
    assert accuracy(Given(), reads).num_images == 10
    assert list(reads) == []


def test_ratios_follow_from_the_sums():
    measured = Evaluation(num_correct=3, loss_sum=6.0, num_images=8)
    assert (measured.accuracy, measured.loss) == (37.5, 0.75)


# --- which loss


def one_sided(bias):
    """A model with a head, whose biases are all the same."""
    torch.manual_seed(0)
    model = vitedu.vit(
        "ViT-Ti/16",
        image_size=8,
        patch_size=4,
        embed_dim=8,
        depth=1,
        num_heads=2,
        mlp_dim=16,
        num_classes=3,
    )
    nn.init.normal_(model.head.weight)
    nn.init.constant_(model.head.bias, bias)
    return model.eval()


def prepared(num_images=6):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(num_images, 3, 8, 8, generator=generator)
    return images, torch.arange(num_images) % 3


def test_a_softmax_model_is_measured_by_the_softmax():
    model, (images, labels) = one_sided(0.0), prepared()
    measured = accuracy(model, [(images, labels)])
    assert measured.loss_name == "softmax_cross_entropy"
    with torch.no_grad():
        want = F.cross_entropy(model(images), labels, reduction="sum").item()
    assert measured.loss_sum == want


def test_a_sigmoid_model_is_measured_by_the_sigmoid():
    model, (images, labels) = one_sided(-6.0), prepared()
    measured = accuracy(model, [(images, labels)])
    assert measured.loss_name == "sigmoid_cross_entropy"
    with torch.no_grad():
        logits = model(images)
    yes_or_no = F.one_hot(labels, 3).float()
    want = F.binary_cross_entropy_with_logits(
        logits, yes_or_no, reduction="sum"
    )
    assert measured.loss_sum == want.item()
    by_softmax = F.cross_entropy(logits, labels).item()
    assert measured.loss != pytest.approx(by_softmax, rel=0.1)


def test_a_loss_may_be_given():
    def wrong(logits, labels):
        return (logits.argmax(-1) != labels).sum()

    measured = accuracy(one_sided(0.0), [prepared()], loss=wrong)
    assert measured.loss_name == "wrong"
    assert measured.loss_sum == 6 - measured.num_correct


def test_a_model_that_says_so_is_measured_by_the_sigmoid(tmp_path):
    model = one_sided(-0.04)  # which no head would tell
    model.loss_name = "sigmoid"
    path = vitedu.save(model, tmp_path / "w.safetensors")
    for each in (model, path, str(path)):
        measured = accuracy(each, [prepared()])
        assert measured.loss_name == "sigmoid_cross_entropy"


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (F.cross_entropy, "loss=cross_entropy is the same .* it is a mean"),
        (partial(F.cross_entropy, reduction="none"), r"returned \(6,\)"),
        (lambda logits, labels: 0.5, "returned float"),
    ],
)
def test_a_loss_that_is_no_sum_is_refused(loss, said):
    with pytest.raises(UserError, match=said):
        accuracy(one_sided(0.0), [prepared()], loss=loss)


def test_a_loss_that_begins_with_zero_is_checked_later():
    logits = torch.tensor([[0.0, 200.0], [0.0, 200.0]])
    batches = [(logits, torch.ones(2).long()), (logits, torch.zeros(2).long())]
    with pytest.raises(UserError, match="it is a mean"):
        accuracy(Given(), batches, loss=F.cross_entropy)


# --- labels


@pytest.mark.parametrize("label", [5, -100])
def test_a_label_is_checked_though_the_model_does_not_say_its_classes(label):
    logits, labels = drawn(6)
    labels[4] = label
    with pytest.raises(UserError, match=f"the label {label}"):
        accuracy(Given(), [(logits, labels)])


# --- where the images come from


def test_batches_come_in_the_models_dtype():
    images, labels = prepared()
    want = accuracy(one_sided(0.0).double(), [(images.double(), labels)])
    loader = DataLoader(TensorDataset(images, labels), batch_size=4)
    measured = accuracy(one_sided(0.0).double(), loader)
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
    model, hits = one_sided(0.0), set()
    for names in (("egg", "fig", "ant"), ("ant", "egg", "fig")):
        model.class_names = names
        measured = accuracy(model, folder / "val", batch_size=3)
        assert measured.num_images == 4
        assert measured.num_correct == by_hand(model, folder)
        hits.add(measured.num_correct)
    assert len(hits) == 2


def test_a_warning_names_what_is_left_out_of_a_folder(folder):
    model = one_sided(0.0)
    model.class_names = ("egg", "fig", "ant")
    (folder / "val/egg/0.png").write_bytes(b"no picture")
    with pytest.warns(
        UserWarning, match=r"1 of 4 pictures .* egg/0\.png"
    ) as caught:
        assert accuracy(model, folder / "val", batch_size=1).num_images == 3
    (warning,) = caught
    assert warning.filename == __file__


def test_of_a_folder_with_parts_val_is_measured(folder):
    model = one_sided(0.0)
    model.class_names = ("egg", "fig", "ant")
    (folder / "train").mkdir()
    assert accuracy(model, str(folder)) == accuracy(model, folder / "val")


def test_a_class_that_the_model_does_not_have_is_refused(folder):
    model = one_sided(0.0)
    model.class_names = ("fig", "ant", "dog")
    with pytest.raises(UserError, match="'egg'"):
        accuracy(model, folder / "val")


def test_arrays_with_more_classes_than_the_model_are_refused():
    images, _ = prepared()
    with pytest.raises(UserError, match="6 classes, but the model has 3"):
        accuracy(one_sided(0.0), (images, torch.arange(6)))


def test_a_dataset_is_prepared_as_the_model_says():
    model = one_sided(0.0)
    model.preprocess = PreprocessSpec(8, mean=0.2, std=0.1)
    images = [photo(name) for name in ("cat", "coffee")]
    measured = accuracy(model, list(zip(images, [0, 1], strict=True)))
    pictures = vitedu.preprocess(model, images)
    want = accuracy(model, [(pictures, torch.tensor([0, 1]))])
    assert measured == want


def pixels(*size):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(
        0, 256, (6, 3, *size), dtype=torch.uint8, generator=generator
    )


@pytest.mark.parametrize("size", [(8, 8), (11, 9)])
def test_pixels_in_batches_are_prepared_as_in_memory(size):
    model, labels = one_sided(0.0), torch.arange(6) % 3
    want = accuracy(model, (pixels(*size), labels))
    loader = DataLoader(TensorDataset(pixels(*size), labels), batch_size=6)
    for data in (loader, iter(loader), [(pixels(*size), labels)]):
        assert accuracy(model, data) == want


def test_pixels_in_batches_need_a_preprocess():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    with pytest.raises(UserError, match=r"torch\.uint8, .*model\.preprocess"):
        accuracy(model, [(pixels(8, 8), torch.arange(6) % 3)])


@pytest.mark.parametrize(
    ("label", "word"), [(5, "are 3 classes"), (-1, "at 0")]
)
def test_a_label_in_a_batch_that_is_no_class_is_one_sentence(label, word):
    images, labels = prepared()
    batches = [(images, labels), (images[:1], torch.tensor([label]))]
    with pytest.raises(
        UserError, match=f"batch 1 has the label {label}.*{word}"
    ):
        accuracy(one_sided(0.0), batches)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_floats_that_nobody_normalised_are_found_in_small_batches(size):
    images, labels = prepared()
    raw = images.abs().clamp(max=1)
    loader = DataLoader(TensorDataset(raw, labels), batch_size=size)
    with pytest.raises(UserError, match="normalise them as its preprocess"):
        accuracy(one_sided(0.0), loader)


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_pair_of_arrays_may_be_a_list(kind):
    images, labels = prepared()
    want = accuracy(one_sided(0.0), [(images, labels)])
    assert accuracy(one_sided(0.0), kind([images, labels])) == want


def test_a_list_of_items_that_are_dicts_is_read_one_by_one():
    pictures = [photo(name) for name in ("cat", "coffee")]
    items = [{"image": each, "label": n} for n, each in enumerate(pictures)]
    want = accuracy(one_sided(0.0), list(zip(pictures, [0, 1], strict=True)))
    assert accuracy(one_sided(0.0), items) == want


class Overflowing(nn.Module):
    """Finite weights, and NaN for one of three images, infinity for another."""

    num_classes = 3

    def forward(self, images):
        logits = torch.eye(3)
        logits[1, 2] = math.nan
        logits[2, 0] = math.inf
        return logits


def test_an_image_without_an_answer_is_wrong_and_counted():
    # NaN is the "largest" logit, so label 2 would be right by accident
    labels = torch.tensor([0, 2, 0])
    measured = accuracy(Overflowing(), [(torch.zeros(3, 1, 2, 2), labels)])
    assert measured.num_correct == 1
    assert measured.num_unanswered == 2
    assert math.isnan(measured.loss)
