"""What `vitedu.save` writes, `vitedu.load` reads; what it can't is refused."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import vitedu
from vitedu import PreprocessSpec, UserError
from vitedu.data.imagenet import imagenet_classes
from vitedu.model import Hybrid, Learned2D, SinCos2D, new_network
from vitedu.weights import convert

from .. import tiny as small
from .examples import BIT, randomise


def tiny(**fields):
    config = small.tiny(**{"image_size": 8, "num_classes": 3} | fields)
    return randomise(new_network(config)).train()


def assert_loads(model, path, dtype=torch.float32):
    """The file gives the same network, weights and all that goes with them."""
    again = vitedu.load(path, dtype=dtype)
    assert (again.config, again.preprocess) == (model.config, model.preprocess)
    assert again.class_names == tuple(model.class_names)
    assert again.load_report.dialect == "vitedu"
    assert again.load_report.source == str(path)
    assert again.load_report.dropped == again.load_report.new == ()
    state, same = model.state_dict(), again.state_dict()
    assert state.keys() == same.keys()
    for name, tensor in state.items():
        assert torch.equal(same[name], tensor.to(dtype))
    return again


# --- what can be saved


@pytest.mark.parametrize(
    "model",
    [
        tiny(),
        tiny(num_classes=0),
        tiny(position=Learned2D(), pool="mean", gelu="tanh"),
        tiny(position=SinCos2D(), pool="map", class_token=False),
        tiny(pre_logits=8, dropout=0.1, drop_path=0.2),
        tiny(image_size=(8, 12), in_channels=1),
        tiny(stem=Hybrid((1,)), image_size=64, patch_size=2),
        randomise(new_network(BIT)),
    ],
    ids=["vit", "headless", "2d", "map", "more", "grey", "hybrid", "resnet"],
)
def test_a_new_model_comes_back(tmp_path, model):
    path = vitedu.save(model, tmp_path / "w.safetensors")
    again = assert_loads(model, path)
    config = model.config
    images = torch.randn(2, config.in_channels, *config.image_size)
    with torch.no_grad():
        assert torch.equal(again(images), model.eval()(images))


def test_names_and_preprocessing_travel_with_the_weights(tmp_path):
    model = tiny()
    model.class_names = ["ant", "bee", "½"]
    model.preprocess = PreprocessSpec(8, mean=0.1, std=0.2, crop=0.5)
    assert_loads(model, vitedu.save(model, tmp_path / "w.safetensors"))


@pytest.mark.slow
def test_a_loaded_model_with_another_head_comes_back(tmp_path):
    model = vitedu.load("ViT-Ti/16")
    assert model.class_names == imagenet_classes().names
    assert_loads(model, vitedu.save(model, tmp_path / "w.safetensors"))
    model.reset_classifier(3)
    with pytest.warns(UserWarning, match="all zeros"):
        assert_loads(model, vitedu.save(model, tmp_path / "w.safetensors"))
    nn.init.normal_(model.head.weight)
    model.reset_classifier(2, class_names=("ant", "bee"))
    nn.init.normal_(model.head.weight)
    assert_loads(model, vitedu.save(model, tmp_path / "w.safetensors"))


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64]
)
def test_weights_keep_their_dtype(tmp_path, dtype):
    model = tiny().to(dtype)
    path = vitedu.save(model, tmp_path / "w.safetensors")
    assert_loads(model, path)
    assert_loads(model, path, dtype=dtype)
    stored = vitedu.weights.read_weights(path).state_dict
    assert {tensor.dtype for tensor in stored.values()} == {dtype}


def test_tied_and_frozen_weights_and_views_come_back(tmp_path):
    model = tiny()
    model.blocks[1].mlp = model.blocks[0].mlp
    wide = torch.randn(32, 6)
    model.head.weight = nn.Parameter(wide.T[::2], requires_grad=False)
    assert not model.head.weight.is_contiguous()
    assert_loads(model, vitedu.save(model, tmp_path / "w.safetensors"))


@pytest.mark.slow
def test_a_model_comes_out_of_its_wrappers(tmp_path):
    model = tiny()
    for wrapped in (
        torch.compile(model, backend="eager"),
        AveragedModel(model),
        nn.DataParallel(model),
        nn.DataParallel(torch.compile(model, backend="eager")),
    ):
        assert_loads(model, vitedu.save(wrapped, tmp_path / "w.safetensors"))
        (tmp_path / "w.safetensors").unlink()


@pytest.mark.slow
def test_blocks_compiled_one_by_one_come_back(tmp_path):
    model, compiled = tiny(), tiny()
    for number, block in enumerate(compiled.blocks):
        compiled.blocks[number] = torch.compile(block, backend="eager")
    assert_loads(model, vitedu.save(compiled, tmp_path / "w.safetensors"))


# --- what would not load is refused before anything is written


def sentence(tmp_path, model, error=UserError):
    """What is said; and nothing was written."""
    with pytest.raises(error) as raised:
        vitedu.save(model, tmp_path / "w.safetensors")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []
    return str(raised.value)


class LowRank(nn.Module):
    """What adapters put in place of a linear layer."""

    def __init__(self):
        super().__init__()
        self.base_layer, self.down = nn.Linear(32, 96), nn.Linear(32, 2)


def with_number(model, value):
    with torch.no_grad():
        model.norm.bias[3] = value


def vector(dtype=torch.float32, size=(1, 4, 32)):
    return nn.Parameter(torch.zeros(size, dtype=dtype), requires_grad=False)


NOT_FINITE = "norm.bias holds NaN or infinity"
REFUSED = {
    "few names": (
        lambda m: put(m, class_names=("a",)),
        "3 classes and 1 class",
    ),
    "more names": (
        lambda m: put(m, class_names="abcd"),
        "3 classes and 4 class names",
    ),
    "no names": (lambda m: put(m, class_names=(1, 2, 3)), "must be strings"),
    "larger head": (
        lambda m: put(m, head=nn.Linear(32, 5)),
        "reset_classifier",
    ),
    "bare head": (
        lambda m: put(m, head=nn.Linear(32, 3, bias=False)),
        "reset_classifier",
    ),
    "no head": (lambda m: put(m, head=nn.Identity()), "reset_classifier"),
    "positions": (lambda m: put(m, pos_embed=vector()), "set_input_size"),
    "adapters": (
        lambda m: put(m.blocks[0].attn, qkv=LowRank()),
        "blocks.0.attn.qkv.weight is missing; a weight that was added",
    ),
    "one too many": (
        lambda m: put(m, registers=vector()),
        "registers has no place",
    ),
    "whole numbers": (
        lambda m: put(m.norm, bias=vector(torch.int8, 32)),
        "torch.int8",
    ),
    "NaN": (lambda m: with_number(m, torch.nan), NOT_FINITE),
    "infinity": (lambda m: with_number(m, torch.inf), NOT_FINITE),
    "beyond float32": (lambda m: with_number(m.double(), 1e300), NOT_FINITE),
    "larger pictures": (
        lambda m: put(m, preprocess=PreprocessSpec(16)),
        "images of (3, 16, 16), but its network takes (3, 8",
    ),
    "grey pictures": (
        lambda m: put(m, preprocess=PreprocessSpec(8, 1)),
        "images of (1, 8, 8)",
    ),
    "a loss": (
        lambda m: put(m, loss_name="hinge"),
        "loss is 'hinge', not one of softmax",
    ),
}


def put(module, **values):
    for name, value in values.items():
        setattr(module, name, value)


@pytest.mark.parametrize("case", REFUSED)
def test_what_load_would_not_take_is_refused(tmp_path, case):
    change, said = REFUSED[case]
    model = tiny()
    change(model)
    assert said in sentence(tmp_path, model)


def test_a_head_of_the_right_shape_put_there_by_hand_is_taken(tmp_path):
    model = tiny()
    model.head = nn.Linear(32, 3)
    assert_loads(model, vitedu.save(model, tmp_path / "w.safetensors"))


def test_the_network_of_somebody_else_is_refused(tmp_path):
    said = sentence(tmp_path, nn.Linear(2, 2), error=TypeError)
    assert "got Linear" in said and "merge_and_unload" in said


# --- places


def test_a_runs_own_file_is_not_replaced(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(UserError, match="belongs to the run"):
        vitedu.save(tiny(), tmp_path / "model.safetensors")
    assert_loads(tiny(), vitedu.save(tiny(), tmp_path / "mine.safetensors"))


# --- what else is known of a model


def test_the_loss_travels_with_the_weights(tmp_path):
    model = tiny(gelu="tanh")
    model.loss_name = "sigmoid"
    path = vitedu.save(model, tmp_path / "w.safetensors")
    assert vitedu.load(path).loss_name == "sigmoid"
    with pytest.warns(UserWarning, match="sigmoid"):
        convert(path, tmp_path / "other.npz", to="npz")
    convert(path, tmp_path / "again.safetensors", to="vitedu")
    assert vitedu.load(tmp_path / "again.safetensors").loss_name == "sigmoid"


def test_another_head_forgets_the_loss_of_the_old_one(tmp_path):
    model = tiny()
    model.loss_name = "sigmoid"
    path = vitedu.save(model, tmp_path / "w.safetensors")
    assert vitedu.load(path, num_classes=2).loss_name is None
    model.reset_classifier(2)
    assert model.loss_name is None


@pytest.mark.parametrize("mode", ["timm", "torchvision", "hf"])
def test_the_way_of_resizing_travels_with_the_weights(tmp_path, mode):
    model = tiny()
    model.resize_mode = mode
    path = vitedu.save(model, tmp_path / "w.safetensors")
    again, larger = vitedu.load(path), vitedu.load(path, image_size=16)
    assert again.resize_mode == larger.resize_mode == mode
    for each in (model, again):
        each.set_input_size(16)
        assert torch.equal(each.pos_embed, larger.pos_embed)


def test_a_converted_file_resizes_as_its_source(tmp_path):
    path = vitedu.save(tiny(), tmp_path / "first.safetensors")
    convert(path, tmp_path / "theirs", to="timm")
    convert(tmp_path / "theirs", tmp_path / "w.safetensors", to="vitedu")
    assert vitedu.load(tmp_path / "w.safetensors").resize_mode == "timm"
