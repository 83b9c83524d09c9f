"""huggingface_hub: a class of a user's that saves and loads itself."""

import pytest
import torch
from huggingface_hub import PyTorchModelHubMixin
from torch.testing import assert_close

import vitedu

pytestmark = pytest.mark.clients


class HubViT(vitedu.ViT, PyTorchModelHubMixin):
    """A ViT with save_pretrained and from_pretrained."""


def test_what_was_saved_comes_back(tiny, batches, tmp_path):
    model = HubViT(tiny.config)
    model.load_state_dict(tiny.state_dict())
    model.save_pretrained(tmp_path / "saved")
    again = HubViT.from_pretrained(tmp_path / "saved")
    assert again.config == tiny.config
    images, _ = batches[0]
    with torch.no_grad():
        assert_close(again(images), tiny.eval()(images), rtol=0, atol=0)
