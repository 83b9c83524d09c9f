"""huggingface_hub: a class of a user's that saves and loads itself."""

import json

import pytest
import torch
from huggingface_hub import PyTorchModelHubMixin
from safetensors.torch import save_file
from torch import nn
from torch.testing import assert_close

import vitedu
from vitedu import PreprocessSpec, UserError
from vitedu.files import read_header, write_header

pytestmark = pytest.mark.clients


class HubViT(vitedu.ViT, PyTorchModelHubMixin):
    """A ViT with save_pretrained and from_pretrained."""


class HubResNet(vitedu.ResNet, PyTorchModelHubMixin):
    """A ResNet with the same."""


@pytest.fixture
def hub_model(tiny):
    """The tiny model as a user's class, and all that it may know of itself."""
    model = HubViT(tiny.config)
    model.load_state_dict(tiny.state_dict())
    model.preprocess = PreprocessSpec(16, mean=0.1, std=0.2, crop=0.9)
    model.class_names = ("ant", "bee")
    model.loss_name, model.resize_mode = "sigmoid", "timm"
    return model.eval()


def assert_same(again, model, images):
    """Configuration, answers, and what else is known."""
    assert again.config == model.config
    for name in ("preprocess", "class_names", "loss_name", "num_classes"):
        assert getattr(again, name) == getattr(model, name)
    with torch.no_grad():
        assert_close(again(images), model(images), rtol=0, atol=0)


def test_what_was_saved_comes_back(hub_model, batches, tmp_path):
    hub_model.save_pretrained(tmp_path)
    again = HubViT.from_pretrained(tmp_path)
    assert_same(again, hub_model, batches[0][0])
    assert again.resize_mode == "timm"


def test_the_folder_is_one_that_vitedu_loads(hub_model, batches, tmp_path):
    hub_model.save_pretrained(tmp_path / "hub")
    again = vitedu.load(tmp_path / "hub")
    assert_same(again, hub_model, batches[0][0])
    assert (again.resize_mode, again.load_report.dialect) == ("timm", "vitedu")
    path = vitedu.save(hub_model, tmp_path / "w.safetensors")
    assert_same(vitedu.load(path), hub_model, batches[0][0])


def test_another_head_and_size_come_back(hub_model, tmp_path):
    hub_model.reset_classifier(3, ("ant", "bee", "cat"))
    nn.init.normal_(hub_model.head.weight)
    hub_model.set_input_size(32)
    hub_model.save_pretrained(tmp_path)
    images = torch.randn(2, 3, 32, 32)
    assert_same(HubViT.from_pretrained(tmp_path), hub_model, images)
    assert_same(vitedu.load(tmp_path), hub_model, images)


def test_what_came_back_can_be_saved_again(hub_model, tmp_path):
    hub_model.save_pretrained(tmp_path / "a")
    HubViT.from_pretrained(tmp_path / "a").save_pretrained(tmp_path / "b")
    for name in ("config.json", "model.safetensors"):
        one, other = (tmp_path / x / name for x in "ab")
        assert one.read_bytes() == other.read_bytes()


def test_a_resnet_comes_back(tmp_path):
    fields = {"layers": (1, 1), "image_size": 32, "num_classes": 2}
    model = HubResNet(vitedu.ResNetConfig(**fields)).eval()
    nn.init.normal_(model.head.fc.weight)
    model.class_names = ("ant", "bee")
    model.save_pretrained(tmp_path)
    images = torch.randn(2, 3, 32, 32)
    assert_same(HubResNet.from_pretrained(tmp_path), model, images)
    assert_same(vitedu.load(tmp_path), model, images)


def test_a_folder_of_the_mixin_alone_comes_back_as_before(tiny, tmp_path):
    """Without our header it keeps nothing but the configuration."""
    weights = {k: x.contiguous() for k, x in tiny.state_dict().items()}
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(tiny.config.to_json()))
    again = HubViT.from_pretrained(tmp_path)
    assert (again.config, again.class_names) == (tiny.config, ())


class Own(vitedu.ViT, PyTorchModelHubMixin):
    """A class with arguments of its own, and any field of the network."""

    def __init__(self, name="ViT-Ti/16", temperature=1.0, **fields):
        super().__init__(vitedu.model.vit_config(name, **fields))
        self.temperature = temperature


def test_a_class_with_arguments_of_its_own_gets_them_alone_back(tmp_path):
    sizes = {"image_size": 32, "depth": 1, "num_classes": 2}
    own = {"name": "ViT-Ti/16", "temperature": 3.0, **sizes}
    model = Own(**own).eval()
    nn.init.normal_(model.head.weight)
    model.class_names = ("ant", "bee")
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text()) == own
    images = torch.randn(2, 3, 32, 32)
    again = Own.from_pretrained(tmp_path)
    assert again.temperature == 3.0
    assert_same(again, model, images)
    assert_same(vitedu.load(tmp_path), model, images)


def test_config_json_has_the_configuration_alone(hub_model, tmp_path):
    hub_model.save_pretrained(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    assert content == hub_model.config.to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"preprocess": 3},
        {"class_names": ["ant"]},
        {"class_names": "ants"},
        {"loss": "hinge"},
        {"resize": "nearest"},
    ],
)
def test_what_cannot_be_understood_is_one_sentence(hub_model, tmp_path, change):
    hub_model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    content = json.loads(read_header(path)["vitedu"])
    write_header(path, {"vitedu": json.dumps(content | change)})
    for read in (HubViT.from_pretrained, vitedu.load):
        with pytest.raises(UserError) as error:
            read(tmp_path)
        assert "\n" not in str(error.value)
        assert str(tmp_path) in str(error.value)
