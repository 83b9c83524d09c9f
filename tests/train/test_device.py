"""The device that a name means, and the sentence where there is none."""

import pytest
import torch

from vitedu.errors import UserError
from vitedu.train import find_device

HERE = [
    name
    for name, there in (
        ("cuda", torch.cuda.is_available()),
        ("mps", torch.backends.mps.is_available()),
        ("cpu", True),
    )
    if there
]


def test_the_cpu_is_always_there():
    assert find_device("cpu") == torch.device("cpu")


def test_auto_is_the_first_of_cuda_mps_cpu():
    assert find_device("auto").type == HERE[0]


@pytest.mark.parametrize("name", HERE)
def test_what_is_there_holds_tensors(name):
    assert torch.ones(2, device=find_device(name)).sum().item() == 2


@pytest.mark.parametrize(
    "name", [name for name in ("cuda", "cuda:0", "mps") if name[:4] not in HERE]
)
def test_a_device_that_is_absent_is_one_sentence_naming_what_is_there(name):
    with pytest.raises(
        UserError, match=f"doesn't have the device '{name}'"
    ) as error:
        find_device(name)
    assert str(error.value).endswith("it has " + ", ".join(HERE))


def test_a_gpu_beyond_the_last_is_one_sentence():
    with pytest.raises(
        UserError, match="doesn't have the device 'cuda:99'; it has"
    ):
        find_device("cuda:99")


@pytest.mark.parametrize(
    "name",
    ["", "gpu", "CPU!", "cuda:", "cuda:x", "cuda:-1", "none", "meta", "xla"],
)
def test_a_name_of_no_device_is_one_sentence(name):
    with pytest.raises(UserError, match="device") as error:
        find_device(name)
    assert "\n" not in str(error.value)
