"""Import torchvision and timm beside a torch that they were not built for.

torchvision's Linux wheel is linked against CUDA. Beside a CPU build of torch
its compiled part does not load, and `import torchvision` ends in `operator
torchvision::nms does not exist`. Declaring two operators is enough for its
Python part and for timm; compiled operators (`nms`, `decode_jpeg`) fail when
called.

`timm = import_timm()`
"""

import importlib
import warnings
from types import ModuleType

# torch withdraws the operators of a Library when it is collected, so one must
# be kept.
_KEPT_LIBRARIES: list[object] = []


def import_torchvision() -> ModuleType:
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        # Only after this very error: declared under a CUDA torch, the operators
        # abort.
        if "operator torchvision::nms does not exist" not in str(error):
            raise
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(
            f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        )
    _KEPT_LIBRARIES.append(library)
    return importlib.import_module("torchvision")


def import_timm() -> ModuleType:
    import_torchvision()
    with warnings.catch_warnings():
        # timm reaches tqdm.auto, which asks for ipywidgets in every notebook
        # and prints a path of the reader's machine while doing so.
        warnings.filterwarnings("ignore", message="IProgress not found")
        return importlib.import_module("timm")
