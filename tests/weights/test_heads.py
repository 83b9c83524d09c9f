"""The number of heads, which no array says: known, guessed, or asked for."""

import warnings

import pytest
import torch

from vitedu import UserError, load
from vitedu.weights import DIALECTS

from ..tiny import tiny
from .examples import checkpoint


def file_of(folder, name="w", to="timm", width=192):
    """Arrays of 12 blocks under a dialect's names."""
    sizes = {"embed_dim": width, "depth": 12, "num_heads": 12, "mlp_dim": 1}
    config = tiny(image_size=8, patch_size=4, num_classes=3, **sizes)
    path = folder / f"{name}.pth"
    torch.save(DIALECTS[to].from_vitedu(checkpoint(config)), path)
    return path


def said_on_heads(path, **given):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = load(path, **given)
    said = [str(each.message) for each in caught]
    said = [each for each in said if "num_heads=" in each]
    notes = [x for x in model.load_report.notes if "num_heads=" in x]
    assert [f"{path}: {note}" for note in notes] == said
    return model.config.num_heads, said


@pytest.mark.parametrize("to", ["timm", "hf", "torchvision"])
def test_a_guess_is_said_in_a_warning_and_in_the_report(tmp_path, to):
    path = file_of(tmp_path, to=to)
    found, (said,) = said_on_heads(path)
    assert found == 3
    assert "num_heads=3 is guessed from its width 192 and 12 blocks" in said
    assert said_on_heads(path, num_heads=4) == (4, [])


@pytest.mark.slow
@pytest.mark.parametrize("to", ["timm", "hf", "torchvision"])
def test_of_two_usual_numbers_the_caller_says_which(tmp_path, to):
    path = file_of(tmp_path, to=to, width=384)
    with pytest.raises(UserError, match="give num_heads=6 or num_heads=12"):
        load(path)
    assert said_on_heads(path, num_heads=12) == (12, [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "to", "width", "num_heads"),
    [
        ("dino_deitsmall16_pretrain", "timm", 384, 6),
        ("deit_small_patch16_224-cd65a155", "timm", 384, 6),
        ("mocov3_small", "timm", 384, 12),
        ("mae_pretrain_vit_tiny", "timm", 192, 3),
        ("vit_b_16-c867db91", "torchvision", 192, 3),
    ],
)
def test_a_name_that_says_them_is_believed(
    tmp_path, name, to, width, num_heads
):
    path = file_of(tmp_path, name, to, width)
    assert said_on_heads(path) == (num_heads, [])
