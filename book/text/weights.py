# %% [markdown]
# (weights)=
# # Everybody's weights
#
# You have a file with a trained Vision Transformer in it, or the name of one. This page
# says how to get a model from it whose answers are the ones that its makers published.
# It is executed like the chapters; every file that it reads is written on the page.
#
# One function reads all of them:
#
# ```python
# model = vitedu.load("ViT-B_16.npz")
# logits = model(vitedu.preprocess(model, "photo.jpg"))  # (1, 1000)
# print(model.class_names[logits.argmax()])
# ```
#
# Whose file it is, is found out from the names of the arrays in it. Nothing is executed
# that a file contains, and a model comes back whole or not at all.
#
# ## Which file is it?
#
# | dialect | how to know it | what it can hold | what it cannot say |
# |---|---|---|---|
# | `npz` | `.npz` from Google: vit_jax, AugReg, big_vision, BiT | ViT with every head, learned or sin-cos positions, hybrids, BiT ResNets | form of GELU (tanh), epsilon (1e-6), preprocessing, class names; an image that is no square |
# | `timm` | a folder with `config.json` and `model.safetensors`; `.safetensors`, `.pth`, `.bin` with keys `blocks.0.attn.qkv.weight`; DeiT, DINO (the first) and MAE's encoder are spelt so too | ViT with every head, learned or no positions, hybrids, BiT | heads, GELU and preprocessing where `config.json` is not beside it |
# | `hf` | a folder for transformers; keys `vit.encoder.layer.0…` or `vit.layers.0…`; shards with an index too | ViT with class token, learned positions | other heads and positions, hybrids |
# | `torchvision` | `vit_b_16-….pth`; keys `encoder.layers.encoder_layer_0…` | ViT with class token, learned positions | heads, form of GELU (exact), epsilon (1e-6), preprocessing, class names |
# | `vitedu` | one `.safetensors`, or a run folder | everything that this book builds | – |
#
# The small print is where copies of a model stop being the model: the form of GELU, the
# epsilon of the norms, mean and standard deviation of the pixels, the way a table of
# positions is resized. `load` takes each from the dialect, so that the numbers are those
# of the source. What a dialect cannot say and what cannot be looked up, it asks for in
# one sentence; it never guesses.

# %% tags=["setup", "remove-cell"]
import importlib.util

if importlib.util.find_spec("vitedu") is None:
    # %pip install -q "vitedu @ git+https://github.com/OWNER/vitedu@main"
    pass

# %% tags=["nbval-ignore-output"]
import torch

torch.set_num_threads(1)
print(f"cpu, torch {torch.__version__}")

# %% [markdown]
# ## Weights that are always here
#
# The package carries one small trained model, so that there is something to load where
# nothing can be fetched: a ViT of 829,578 weights that names ten drawn shapes on images
# of 64×64 pixels. Its recipe is `shapes-small`, and what the run reached is recorded.

# %%
import vitedu
from vitedu import results

ours = vitedu.load("shapes-small")
run = results.read("shapes-small")
reached = run["metrics"]["test_accuracy"]["value"]
print(f"{type(ours).__name__}, {len(ours.class_names)} classes:")
print(*ours.class_names, sep=", ")
print(f"recorded: {reached:.2f} % of {run['dataset']['num_test']:,} images")
print(f"by: {run['command']}")

# %% [markdown]
# Three lines from a picture to a label. `preprocess` reads a file, a PIL image or an
# array, and does to it what `model.preprocess` says; that description travels with the
# weights.

# %%
from vitedu.data import load_dataset

shapes = load_dataset("shapes-1k", max_images=100).test
picture = shapes.images[0].permute(1, 2, 0).numpy()  # (64, 64, 3) uint8

logits = ours(vitedu.preprocess(ours, picture))
print("seen:", ours.class_names[shapes.labels[0]])
print("said:", ours.class_names[logits.argmax()])
print(ours.preprocess)

# %% [markdown]
# The hundred first test images, to hold the files below against:

# %% tags=["nbval-check-output"]
from vitedu.data import normalise

x = normalise(shapes.images.float(), ours.preprocess)  # (100, 3, 64, 64)
with torch.no_grad():
    expected = ours(x)
right = int((expected.argmax(dim=1) == shapes.labels).sum())
assert right >= 80
print("more than 80 of 100 named rightly")

# %% [markdown]
# ## From any format to any other
#
# `vitedu convert SOURCE TARGET --to FORMAT` writes what another library reads; in Python
# it is `convert`. Arrays keep their bits. Where a format has no place for something, a
# warning says what is lost and how far the logits move because of it. Here are all four
# foreign formats, written and read again.

# %%
import warnings

from vitedu.weights import convert

targets = {
    "npz": "shapes.npz",
    "timm": "shapes-timm",
    "hf": "shapes-hf",
    "torchvision": "shapes.pth",
}
for to, target in targets.items():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        convert("shapes-small", target, to=to)
    print(f"{to}:", *(str(each.message) for each in told), sep="\n  ")


# %% [markdown]
# Read the warnings: they are the fourth column of the table above, for this model.
# Google's files mean the tanh form of GELU, and this model was trained with the exact
# one, so whoever reads the `.npz` computes another function. torchvision's file does
# not say how many heads there are. Let us see whether the warnings are right.


# %%
def difference(model):
    """The largest difference from the original's logits."""
    with torch.no_grad():
        return float((model(x) - expected).abs().max())


loaded = {
    "npz": vitedu.load("shapes.npz"),
    "npz, told": vitedu.load("shapes.npz", gelu="exact"),
    "timm": vitedu.load("shapes-timm"),
    "hf": vitedu.load("shapes-hf"),
    "torchvision": vitedu.load("shapes.pth", num_heads=4),
}
for name, model in loaded.items():
    print(f"{name:12} {difference(model):.1e}")

# %% tags=["nbval-check-output"]
assert 1e-4 < difference(loaded["npz"]) < 1.0  # another GELU
assert difference(loaded["npz, told"]) < 1e-4
for name in ("timm", "hf", "torchvision"):
    assert difference(loaded[name]) < 1e-4, name
print("equal in every format that can say the GELU, or is told it")

# %% [markdown]
# What became of every array stands in `load_report`:

# %%
report = loaded["timm"].load_report
print(report.dialect, len(report.loaded), "taken over unchanged")
print("dropped", report.dropped, "new", report.new, "resized", report.resized)

# %% [markdown]
# ## How do I load …
#
# ### … Google's files (vit_jax, AugReg, big_vision, BiT)?
#
# The arrays alone say the architecture, number of heads included. All the names that
# these files have had are read, and so are pre-logits, hybrids and BiT's ResNets.
#
# ```python
# model = vitedu.load("ViT-B_16.npz")
# model = vitedu.load("R50+ViT-B_16.npz")  # a hybrid
# model = vitedu.load("BiT-M-R50x1.npz")  # a ResNet, pool_padding as its names say
# ```
#
# A file without a table of positions comes from big_vision, and its positions are sines
# and cosines; they fit any size, so the size must be given, as it must be where images
# are no squares:
#
# ```python
# model = vitedu.load("FILE.npz", image_size=224)
# ```
#
# ### … timm's weights, DeiT, DINO, MAE?
#
# By timm's name, or as a file that lies here. The name goes to the hub through
# huggingface_hub and ends in its usual cache.
#
# ```python
# model = vitedu.load("vit_tiny_patch16_224.augreg_in21k_ft_in1k")
# model = vitedu.load("deit_small_patch16_224-cd65a155.pth")
# model = vitedu.load("dino_deitsmall16_pretrain.pth")  # no head: it gives features
# model = vitedu.load("mae_pretrain_vit_base.pth")  # the encoder
# ```
#
# Two things differ between these files that no array shows: DeiT, DINO and MAE want
# ImageNet's mean and standard deviation, Google's weights 0.5 and 0.5. `load` goes by
# the name and by `config.json`, and warns where they contradict each other. A distilled
# DeiT has a second token, for which this network has no place; it is refused.
#
# ### … Hugging Face's ViT?
#
# ```python
# model = vitedu.load("google/vit-base-patch16-224")
# model = vitedu.load("a-folder/of-transformers")  # sharded or not
# ```
#
# ### … torchvision's?
#
# ```python
# model = vitedu.load("vit_b_16-c867db91.pth")
# ```
#
# Its files are arrays and nothing else. At the sizes of the paper's Table 1 the number
# of heads is looked up there; ours is none of them, and so it is asked for:

# %% tags=["failure", "raises-exception"]
vitedu.load("shapes.pth")

# %% [markdown]
# ### … my own?
#
# A run folder, or the `model.safetensors` in it. Configuration, preprocessing and class
# names are in the file.
#
# ```python
# model = vitedu.load("runs/mnist-tiny-0a1b2c3d")
# ```
#
# ### … for other images and other classes?
#
# `image_size` has the positions resized, in the way of the source's library.
# `num_classes` puts a head of zeros in place of the old one, as the authors' own
# fine-tuning does; with 0 classes the model gives features.

# %%
larger = vitedu.load("shapes-timm", image_size=96, num_classes=3)
features = vitedu.load("shapes-timm", num_classes=0)
report = larger.load_report
print("resized", report.resized, "new", report.new)
with torch.no_grad():
    print("features", tuple(features(x).shape))

# %% tags=["nbval-check-output"]
assert larger.pos_embed.shape == (1, 1 + 12 * 12, 128)
assert larger.head.weight.shape == (3, 128)
assert not larger.head.weight.any() and not larger.head.bias.any()
print("12x12 positions, a head of zeros for 3 classes")

# %% [markdown]
# Resizing is not free: the patches are the same, and the grid that attention has learned
# is stretched. Positions learned on an 8×8 grid, at a few sizes and before any
# fine-tuning:

# %%
import torch.nn.functional as F

for side in (48, 64, 80, 96):
    model = vitedu.load("shapes-small", image_size=side)
    images = F.interpolate(x, size=side, mode="bicubic", antialias=True)
    with torch.no_grad():
        hits = (model(images).argmax(dim=1) == shapes.labels).sum()
    print(f"{side} pixels, {model.config.num_patches:3} patches: {hits} of 100")

# %% [markdown]
# ### … without a network?
#
# Set `VITEDU_OFFLINE=1`, and nothing is ever fetched. What is missing is then named,
# with the place to put it. This page is executed so.

# %% tags=["failure", "raises-exception", "nbval-ignore-output"]
import os

os.environ["VITEDU_OFFLINE"] = "1"
os.environ["VITEDU_CACHE"] = "cache"
warnings.simplefilter("ignore")  # tqdm misses progress bars in notebooks
vitedu.load("google/vit-base-patch16-224")

# %% [markdown]
# ## What goes wrong silently
#
# A checkpoint that loads without an error can still be the wrong function. This is what
# common slips cost a real ViT-Ti/16 on 1,000 photographs, one of each class of ImageNet,
# read from the recorded run:

# %%
run = results.read("imagenet-sample")
metrics = run["metrics"]
slips = {
    "none": "as its makers meant it",
    "imagenet_mean_std": "ImageNet's mean and std",
    "bgr": "BGR for RGB",
    "squash": "squashed, not cropped",
    "bilinear": "bilinear for bicubic",
    "tanh_gelu": "the other GELU",
    "norm_eps_1e-5": "epsilon 1e-5 for 1e-6",
}
print(f"{'':26} right of 1,000   cross-entropy")
for slip, name in slips.items():
    top1 = metrics[f"top1/{slip}"]["value"]
    nats = metrics[f"cross_entropy/{slip}"]["value"]
    print(f"{name:26} {top1:14} {nats:15.4f}")
print(f"{run['command']}, {run['date']}, {run['hardware']}")

# %% [markdown]
# The wrong mean and deviation cost 327 photographs of 813, and there is no error message.
# Bilinear resizing gives four *more* right answers, and a higher cross-entropy: accuracy
# on a thousand images does not tell these two apart. The last two rows cannot be told
# from the first, and yet they are other functions, as the `.npz` above was.
#
# So `load` warns where two things that it was given contradict each other. Here is a
# folder with our weights, beside which somebody has put the usual JSON of another model:

# %%
import json
from pathlib import Path

Path("mixed").mkdir()
convert("shapes-small", "mixed/model.safetensors", to="vitedu")
said = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
Path("mixed/preprocessor_config.json").write_text(json.dumps(said))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    again = vitedu.load("mixed")
print(*(str(each.message) for each in told), sep="\n")

# %% [markdown]
# Every field of the configuration that does not change the arrays may be given at
# loading, and `preprocess` of a loaded model is a plain value to be replaced:

# %% tags=["nbval-check-output"]
from dataclasses import replace

spec = replace(again.preprocess, mean=said["image_mean"], std=said["image_std"])
again.preprocess = spec
assert vitedu.preprocess(again, picture).max() > 1.0  # no longer in -1..1
wide = vitedu.load("shapes-small", dtype=torch.float64)
assert next(wide.parameters()).dtype == torch.float64
print("preprocessing replaced; weights in float64")

# %% [markdown]
# ## What is refused
#
# Some files look like a ViT and are another network: DINOv2, BEiT, CLIP, SigLIP, Swin,
# ConvNeXt, MLP-Mixer. They are refused by name. A `.pth` may hold any Python object;
# only tensors and plain values are read, and whatever else is in it is named. A file
# that is cut short, holds not-a-number, or promises more than it has, ends in a
# sentence:

# %% tags=["failure", "raises-exception"]
whole = Path("shapes.npz").read_bytes()
Path("half.npz").write_bytes(whole[: len(whole) // 2])
vitedu.load("half.npz")

# %% [markdown]
# ## Out of PyTorch
#
# A loaded model is a plain module, and PyTorch's own exporters take it.

# %% tags=["nbval-check-output"]
program = torch.export.export(ours, (x[:2],))
with torch.no_grad():
    exported = program.module()(x[:2])
assert torch.allclose(exported, expected[:2], atol=1e-5)
print("torch.export gives the same logits")

# %% [markdown]
# `torch.onnx.export(model, (x,), "model.onnx", dynamo=True)` writes ONNX, for which
# `onnx` and `onnxscript` must be installed; the tests hold onnxruntime's answers
# against ours.
