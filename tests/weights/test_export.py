"""Loaded models outside Python: torch.export, and ONNX under onnxruntime."""

import importlib.util
import warnings
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from vitedu import load
from vitedu.model import Learned1D
from vitedu.model.axial import Axial
from vitedu.model.hybrid import Hybrid
from vitedu.model.position import Learned2D, NoPosition, SinCos2D
from vitedu.model.relative import Relative, RoPE

from ..tiny import tiny
from . import examples

pytestmark = pytest.mark.slow  # seconds each

TINY = tiny(image_size=(32, 24), patch_size=8)
BIT = replace(examples.BIT, image_size=(32, 24))
KINDS = {
    "token": TINY,
    "no head": replace(TINY, num_classes=0),
    "pre-logits": replace(TINY, pre_logits=7, gelu="tanh"),
    "mean": replace(TINY, class_token=False, pool="mean"),
    "map": replace(TINY, pool="map"),
    "every token": replace(TINY, pool="none"),
    "no positions": replace(TINY, position=NoPosition()),
    "sin-cos": replace(TINY, position=SinCos2D()),
    "sin-cos in blocks": replace(TINY, position=SinCos2D(at="layers")),
    "1-D shared": replace(TINY, position=Learned1D(at="shared")),
    "2-D": replace(TINY, position=Learned2D()),
    "2-D in blocks": replace(TINY, position=Learned2D(at="layers")),
    "relative": replace(TINY, position=Relative()),
    "relative shared": replace(TINY, position=Relative(at="shared")),
    "rope": replace(TINY, position=RoPE()),
    "registers": replace(TINY, registers=2),
    "axial": replace(TINY, block=Axial()),
    "root": replace(TINY, stem=Hybrid(()), patch_size=2),
    "hybrid": replace(TINY, stem=Hybrid((1, 1), width=0.5), patch_size=1),
    "bit-v2": BIT,
    "bit-v2, zeros": replace(BIT, pool_padding="zeros"),
    "bit-v1": replace(BIT, family="bit-v1"),
}


@pytest.fixture(params=KINDS)
def loaded(request, tmp_path):
    """A model of each kind, out of a file of ours, and two images."""
    config = KINDS[request.param]
    path = examples.write("vitedu", tmp_path, examples.checkpoint(config))
    return load(path), torch.randn(2, 3, *config.image_size)


def exported(model, images):
    """The program of any number of images."""
    batch = torch.export.Dim("batch", max=64)
    return torch.export.export(model, (images,), dynamic_shapes=({0: batch},))


@torch.no_grad()
def test_the_exported_program_gives_the_same(loaded):
    model, images = loaded
    program = exported(model, images).module()
    for some in (images, torch.randn(3, *images.shape[1:])):
        # the same operators in the same order
        assert_close(program(some), model(some))


@torch.no_grad()
def test_onnxruntime_gives_the_same(loaded, tmp_path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    import onnxruntime

    model, images = loaded
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, on its own future
        torch.onnx.export(
            exported(model, images), (), path, dynamo=True, verbose=False
        )
    session = onnxruntime.InferenceSession(path)
    for some in (images, torch.randn(3, *images.shape[1:])):
        feed = {session.get_inputs()[0].name: some.numpy()}
        (found,) = session.run(None, feed)
        # float32 with other kernels; sums of at most 1,000 terms
        want = model(some)
        scale = want.abs().max().item()
        assert_close(torch.from_numpy(found), want, atol=1e-5 * scale, rtol=0)
