"""What PyTorch and ONNX make of a loaded model: logits as before."""

import shutil
import warnings

import pytest
import torch
from torch.testing import assert_close

import vitedu

pytestmark = [pytest.mark.clients, pytest.mark.slow]
# float32, a dozen blocks, sums in another order: measured 1.4e-5 where the
# largest logit is 15; a forgotten layer would move them by whole numbers
CLOSE = {"rtol": 1e-4, "atol": 2e-4}


@pytest.fixture
def model(model):
    """Three blocks of the real model: all twelve compile alike, and as long."""
    del model.blocks[3:]
    return model


@pytest.fixture
def images(model):
    """Two photographs, prepared."""
    pictures = [vitedu.data.photo("hopper"), vitedu.data.photo("cat")]
    return vitedu.preprocess(model, pictures)


@pytest.fixture
def logits(model, images):
    """What the model itself says."""
    with torch.no_grad():
        return model(images)


@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:::torch")
def test_compiled(model, images, logits):
    with torch.no_grad():
        assert_close(torch.compile(model)(images), logits, **CLOSE)


@pytest.mark.filterwarnings("ignore:::torch")
def test_it_compiles_to_one_graph(model, images, logits):
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        assert_close(compiled(images), logits, **CLOSE)


def test_exported_for_any_number_of_images(model, images, logits, tmp_path):
    shapes = ({0: torch.export.Dim("batch", max=64)},)
    program = torch.export.export(model, (images,), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()
    with torch.no_grad():
        assert_close(again(images), logits, **CLOSE)
        assert_close(again(images[:1]), logits[:1], **CLOSE)


def test_onnx(model, images, logits, tmp_path):
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name)
    runtime = pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's, about itself
        torch.onnx.export(model, (images,), path, dynamo=True, verbose=False)
    session = runtime.InferenceSession(path)
    (found,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    assert_close(torch.from_numpy(found), logits, **CLOSE)
