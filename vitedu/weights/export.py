"""A model as a program that runs without vitedu: ONNX, or torch.export.

`vitedu.weights.convert("ViT-Ti/16", "model.onnx", to="onnx")`: pixels in,
logits out.
"""

import io
import json
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor, nn

from vitedu.errors import UserError, readable_bytes
from vitedu.model.network import Network, new_network
from vitedu.pictures import normalise
from vitedu.weights.checkpoint import Checkpoint

Program = Literal["onnx", "torch-export"]
PROGRAMS = {"onnx": (".onnx",), "torch-export": (".pt2",)}
NEEDED = ("onnx", "onnxruntime", "onnxscript")
# of an ONNX file, which is one protobuf message
MOST_BYTES = 2_000_000_000
# share of the largest logit: two runtimes add float32 in other orders
ROUNDING = 1e-3


class FromPixels(nn.Module):
    """uint8 pixels (b, c, h, w), 0 to 255 -> the network's output, float32."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(normalise(images, self.network.preprocess))


def check_packages(to: str) -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if to == "onnx" and missing:
        raise UserError(
            f"--to onnx needs {', '.join(missing)}; "
            "pip install 'vitedu[onnx]', or take --to torch-export"
        )


def exported(checkpoint: Checkpoint, to: Program) -> tuple[bytes, str]:
    """A file's content, and by how much its output differs from the model's.

    The input is "images", the output "logits", or "features" without classes.
    UserError: the program computes something else, or is too large for ONNX.
    """
    with torch.device("meta"):
        network = new_network(checkpoint.config)
    state = {name: x.float() for name, x in checkpoint.state_dict.items()}
    network.load_state_dict(state, assign=True)
    network.preprocess = checkpoint.preprocess
    model = FromPixels(network).eval()
    usage = checkpoint.usage.to_json()
    metadata = {key: json.dumps(value) for key, value in usage.items()}
    output = "logits" if checkpoint.config.num_classes else "features"
    with torch.no_grad(), warnings.catch_warnings():
        # what exporters say about themselves
        warnings.simplefilter("ignore")
        if to == "onnx":
            content = to_onnx(model, pixels(model, 2), metadata, output)
            run = run_of_onnx(content)
        else:
            content = to_torch_export(model, pixels(model, 2), metadata)
            run = torch.export.load(io.BytesIO(content)).module()
        images = pixels(model, 3), pixels(model, 1)
        want = torch.cat([model(each) for each in images])
        found = torch.cat([run(each) for each in images])
    difference, size = (found - want).abs().max(), want.abs().max()
    said = (
        f"its {output} of four images of noise differ from the model's by up "
        f"to {difference:.1e} (the largest is {size:.1e})"
    )
    # also not where one is NaN
    if not difference <= ROUNDING * size:
        raise UserError(
            f"the model cannot be written as {to}: {said}, which is more than "
            "rounding"
        )
    return content, said


def pixels(model: FromPixels, b: int) -> Tensor:
    config = model.network.config
    shape = (b, config.in_channels, *config.image_size)
    generator = torch.Generator().manual_seed(b)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator)


def to_onnx(
    model: FromPixels, images: Tensor, metadata: dict[str, str], output: str
) -> bytes:
    num_bytes = 4 * sum(weight.numel() for weight in model.parameters())
    if num_bytes > MOST_BYTES:
        raise UserError(
            f"the weights take {readable_bytes(num_bytes)}, and an ONNX file "
            f"holds {readable_bytes(MOST_BYTES)}; take --to torch-export"
        )
    program = torch.onnx.export(
        model,
        (images,),
        dynamo=True,
        input_names=["images"],
        output_names=[output],
        dynamic_shapes={"images": {0: "batch"}},
        verbose=False,
    )
    program.model.metadata_props.update(metadata)
    return program.model_proto.SerializeToString()


def run_of_onnx(content: bytes) -> Callable[[Tensor], Tensor]:
    import onnxruntime

    run = onnxruntime.InferenceSession(content).run
    return lambda x: torch.from_numpy(run(None, {"images": x.numpy()})[0])


def to_torch_export(
    model: FromPixels, images: Tensor, metadata: dict[str, str]
) -> bytes:
    sizes, file = {"images": {0: torch.export.Dim("batch")}}, io.BytesIO()
    program = torch.export.export(model, (images,), dynamic_shapes=sizes)
    torch.export.save(program, file, extra_files=metadata)
    return file.getvalue()
