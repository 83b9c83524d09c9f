"""`vitedu convert`: weights in another format."""

import argparse

from vitedu.cli.output import Answer, Command, rows_in
from vitedu.cli.overrides import OF_WEIGHTS, load_fields, split_words
from vitedu.errors import UserError, counted
from vitedu.weights.convert import SUFFIXES
from vitedu.weights.convert import convert as convert_weights
from vitedu.weights.export import PROGRAMS


def convert(options: argparse.Namespace) -> Answer:
    words, fields = split_words(options.words, OF_WEIGHTS)
    if len(words) != 2 or options.to is None:
        raise UserError(
            "convert needs WEIGHTS, TARGET and --to FORMAT; known: "
            + ", ".join(SUFFIXES | PROGRAMS)
        )
    done = convert_weights(*words, to=options.to, **load_fields(fields))
    values = {
        "source": done.source,
        "dialect": done.dialect,
        "target": done.target,
        "format": done.format,
        "num_arrays": done.num_arrays,
        "config": done.config.to_json(),
        "notes": list(done.notes),
        **done.usage.to_json(),
    }
    text = (
        f"{done.target}: {counted(done.num_arrays, 'array')} of {done.source} "
        f"({done.dialect}) as {done.format}"
    )
    if done.format in PROGRAMS:
        text += f"; {done.notes[-1]}"
    return Answer(values, text)


CONVERT = Command(
    convert,
    usage="WEIGHTS TARGET --to FORMAT [name=value ...]",
    summary="write weights in another library's format, or ONNX",
    about="Write weights in another format. The arrays stay the same bit for "
    "bit; if the format cannot express something, you are told what that "
    "changes. onnx and torch-export are programs from uint8 pixels to logits, "
    "compared with the model before they are written.",
    reads_weights=True,
    words=rows_in("""
        TARGET  the file or folder to write; its suffix is the format's own
    """),
    examples=rows_in("""
        vitedu convert runs/mine mine-hf --to hf  for transformers
        vitedu convert ViT-B_16.npz b16.pth --to torchvision  one file
        vitedu convert runs/mine mine.onnx --to onnx  for onnxruntime
    """),
    options=rows_in("""
        --to FORMAT  vitedu, npz (the authors'), timm, hf (Hugging Face
            transformers) or torchvision; timm's and hf's are folders; onnx
            (.onnx) or torch-export (.pt2)
    """),
)
