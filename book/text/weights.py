# %% [markdown]
# (weights)=
# # Everybody's weights
#
# You have a file with a trained Vision Transformer in it, or the name of one. This page
# says how to get a model from it whose answers are those that its makers published.
#
# ```python
# model = vitedu.load("ViT-B_16.npz")  # or .pth, .safetensors, a folder, a hub's name
# logits = model(vitedu.preprocess(model, "photo.jpg"))  # (1, 1000)
# print(logits.topk(5).indices)
# ```
#
# In the shell, `vitedu info ViT-B_16.npz` says what is in the file, and `vitedu predict
# ViT-B_16.npz photo.jpg --top 5` gives names, ImageNet's where the file has none.
#
# Whose file it is, is found out from the names of its arrays. The form of GELU, the
# epsilon of the norms, the preprocessing and the way of resizing positions are those of
# the source, so that the numbers are too. No code in a file is ever executed, and a model
# comes back whole or not at all.

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
# ## A model to try it with
#
# The package carries one small trained model, for where nothing can be fetched: a ViT of
# 829,578 weights that names ten drawn shapes on images of 64×64 pixels. Every cell that
# is executed on this page starts from it; blocks with other file names are not executed.

# %%
import vitedu
from vitedu import results

ours = vitedu.load("shapes-small")
run = results.read("shapes-small")
reached = run["metrics"]["test_accuracy"]["value"]
print(*ours.class_names, sep=", ")
print(f"recorded: {reached:.2f} % of {run['dataset']['num_test']:,} images")
print(f"by: {run['command']}")

# %% [markdown]
# Three lines from a picture to a label. `preprocess` takes a file, a PIL image or an
# array and does to it what `model.preprocess` says; that description travels with the
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
# The first hundred test images, to hold other files against:

# %% tags=["nbval-check-output"]
from vitedu.data import normalise

x = normalise(shapes.images.float(), ours.preprocess)  # (100, 3, 64, 64)
with torch.no_grad():
    expected = ours(x)
right = int((expected.argmax(dim=1) == shapes.labels).sum())
assert right >= 80
print("at least 80 of 100 named rightly")

# %% [markdown]
# The same weights in the formats of four other libraries, as `vitedu convert` writes
# them. A warning says what a format has no place for, and how far the logits move.

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
    lost = [str(each.message) for each in told] or ["nothing is lost"]
    print(f"{to}:", *lost, sep="\n  ")

# %% [markdown]
# ## How do I load …
#
# ### … Google's files: vit_jax, AugReg, big_vision, BiT?
#
# The arrays alone say the architecture, attention heads included. All names that these
# files have had are read.

# %%
model = vitedu.load("shapes.npz")
print(model.load_report.dialect, model.config.num_heads, model.config.gelu)

# %% [markdown]
# ```python
# model = vitedu.load("ViT-B_16.npz")
# model = vitedu.load("R50+ViT-B_16.npz")  # a hybrid
# model = vitedu.load("BiT-M-R50x1.npz")  # a ResNet
# ```
#
# Three things are asked for where the arrays leave them open: `image_size=` where there
# is no table of positions (big_vision's sines and cosines fit any size) or its grid is no
# square, as in `image_size=(224, 320)`; `position="none"` where there are no positions at
# all; `pool="none"` for logits of every token.
#
# ### … timm's weights?
#
# By timm's name, which goes to the hub through huggingface_hub, or as a file or folder.

# %%
model = vitedu.load("shapes-timm")
report = model.load_report
print(report.dialect, len(report.loaded), "arrays taken over unchanged")
print("dropped", report.dropped, "new", report.new, "resized", report.resized)

# %% [markdown]
# ```python
# model = vitedu.load("vit_tiny_patch16_224.augreg_in21k_ft_in1k")
# model = vitedu.load("vit_tiny_patch16_224.safetensors")
# model = vitedu.load("a-folder/with-config.json")
# ```
#
# No array shows which mean and standard deviation the pixels want: Google's weights want
# 0.5 and 0.5, DeiT, DINO and MAE ImageNet's. A `config.json` is believed first, then the
# name; where neither says it, 0.5 is taken, and a warning tells.
#
# ### … DeiT, DINO (the first), MAE?
#
# They are written with timm's names.
#
# ```python
# model = vitedu.load("deit_small_patch16_224-cd65a155.pth")
# model = vitedu.load("dino_deitsmall16_pretrain.pth")  # no head: it gives features
# model = vitedu.load("mae_pretrain_vit_base.pth")  # the encoder, likewise
# ```
#
# A distilled DeiT has a second token, for which this network has no place, and an MAE
# that was fine-tuned norms after taking the mean (timm's `fc_norm`): both are refused in
# a sentence.
#
# ### … Hugging Face's ViT?
#
# A name of the hub or a folder, sharded or not; both spellings of its arrays are read.

# %%
model = vitedu.load("shapes-hf")
print(model.load_report.dialect, model.class_names[:3], model.preprocess.mean)

# %% [markdown]
# ```python
# model = vitedu.load("google/vit-base-patch16-224")
# ```
#
# ### … torchvision's?
#
# Its files are arrays and nothing else. At the sizes of the paper's Table 1 the number
# of attention heads is looked up there, and the preprocessing goes by the name of the
# file. This network is none of Table 1, and so the number is asked for:

# %% tags=["failure", "raises-exception"]
vitedu.load("shapes.pth")

# %%
model = vitedu.load("shapes.pth", num_heads=4)
print(model.load_report.dialect, model.config.num_heads)

# %% [markdown]
# ```python
# model = vitedu.load("vit_b_16-c867db91.pth")
# ```
#
# ### … my own?
#
# A run folder, or the `model.safetensors` in it: configuration, preprocessing and class
# names are in that one file.
#
# ```python
# model = vitedu.load("runs/mnist-tiny-0a1b2c3d")
# ```
#
# ### … for other images?
#
# `image_size` has the positions resized, in the way of the source's library. It is not
# free: the patches stay, and the grid that attention has learned is stretched. Positions
# learned on 8×8 patches, before any fine-tuning:

# %%
import torch.nn.functional as F

for side in (48, 64, 80, 96):
    model = vitedu.load("shapes-small", image_size=side)
    images = F.interpolate(x, size=side, mode="bicubic", antialias=True)
    with torch.no_grad():
        hits = (model(images).argmax(dim=1) == shapes.labels).sum()
    print(f"{side} pixels, {model.config.num_patches:3} patches: {hits} of 100")

# %% [markdown]
# ### … for other classes, or for features?
#
# `num_classes` puts a head of zeros in place of the stored one, as the authors' own
# fine-tuning does, and leaves a pre-logits layer out with it, unless `pre_logits=` names
# its width. With 0 classes the model gives features; `forward_features` gives all tokens.

# %% tags=["nbval-check-output"]
fresh = vitedu.load("shapes-timm", num_classes=3)
assert fresh.load_report.new == ("head.weight", "head.bias")
assert not fresh.head.weight.any() and not fresh.head.bias.any()
features = vitedu.load("shapes-timm", num_classes=0)
with torch.no_grad():
    assert features(x).shape == (100, 128)
    assert features.forward_features(x).shape == (100, 1 + 64, 128)
print("a head of zeros for 3 classes; 128 features; 65 tokens")

# %% [markdown]
# ### … in another number format, or on a GPU?
#
# ```python
# model = vitedu.load("ViT-B_16.npz", dtype=torch.bfloat16, device="cuda")
# ```
#
# ### … without a network?
#
# With `VITEDU_OFFLINE=1` nothing is ever fetched. What is missing is named, with the
# place to put it, a folder in the cache (`$VITEDU_CACHE`, or the platform's); for a model
# of transformers, `preprocessor_config.json` belongs there too. This page is executed so.

# %% tags=["failure", "raises-exception", "nbval-ignore-output"]
import os

os.environ["VITEDU_OFFLINE"] = "1"
os.environ["VITEDU_CACHE"] = "cache"
warnings.filterwarnings("ignore", "IProgress")  # tqdm's, about progress bars
vitedu.load("google/vit-base-patch16-224")


# %% [markdown]
# ## What goes wrong silently
#
# A checkpoint that loads without an error can still be the wrong function. Google's
# format means the tanh form of GELU, and our model was trained with the exact one:


# %%
def difference(model):
    """The largest difference from the original's logits."""
    with torch.no_grad():
        return float((model(x) - expected).abs().max())


loaded = {
    "npz": vitedu.load("shapes.npz"),
    "npz, gelu='exact'": vitedu.load("shapes.npz", gelu="exact"),
    "timm": vitedu.load("shapes-timm"),
    "hf": vitedu.load("shapes-hf"),
    "torchvision": vitedu.load("shapes.pth", num_heads=4),
}
for name, model in loaded.items():
    print(f"{name:18} {difference(model):.1e}")

# %% tags=["nbval-check-output"]
assert 1e-4 < difference(loaded["npz"]) < 1.0
assert difference(loaded["npz, gelu='exact'"]) < 1e-4
for name in ("timm", "hf", "torchvision"):
    assert difference(loaded[name]) < 1e-4, name
print("equal in every format that can say the GELU, or is told it")

# %% [markdown]
# The warning above had announced a difference, and a smaller one: it is measured on two
# images of noise. What larger slips cost a real ViT-Ti/16 on 1,000 photographs, one of
# each class of ImageNet (re-encoded, so that they are small), is recorded:

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
print(f"{'':24} top-1 cross-entropy")
for slip, name in slips.items():
    top1 = metrics[f"top1/{slip}"]["value"]
    nats = metrics[f"cross_entropy/{slip}"]["value"]
    print(f"{name:24} {top1:5} {nats:13.4f}")
print(f"{run['command']}, {run['date']}, {run['hardware']}")

# %% [markdown]
# The wrong mean and deviation cost 327 photographs of 813, and there is no error message.
# Bilinear resizing gives four *more* right answers, and a higher cross-entropy: accuracy
# on a thousand images does not tell these two apart. The last two rows cannot be told
# from the first, and yet they are other functions.
#
# So `load` warns where the JSON beside a file contradicts what is taken. Here is a folder
# with our weights, beside which somebody has put the usual JSON of another model:

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
# `preprocess` of a loaded model is a plain value, and may be replaced by whoever knows
# better:

# %% tags=["nbval-check-output"]
from dataclasses import replace

spec = replace(again.preprocess, mean=said["image_mean"], std=said["image_std"])
again.preprocess = spec
assert vitedu.preprocess(again, picture).max() > 1.0  # no longer in -1..1
print("other pixels for the same picture")

# %% [markdown]
# ## What is refused
#
# Some files look like a ViT and are another network: DINOv2 and DeiT III (LayerScale),
# BEiT, CLIP, SigLIP, Swin, ConvNeXt, MLP-Mixer. They are refused by name. A `.pth` may
# hold any Python object, and many training checkpoints do (`argparse.Namespace` in
# DINO's full ones): only tensors and plain values are read, and what else is in it is
# named. A file that is cut short, holds not-a-number or promises more than it has ends in
# a sentence:

# %% tags=["failure", "raises-exception"]
whole = Path("shapes.npz").read_bytes()
Path("half.npz").write_bytes(whole[: len(whole) // 2])
vitedu.load("half.npz")

# %% [markdown]
# `convert` refuses as well, where a format cannot hold the network at all:

# %% tags=["failure", "raises-exception"]
from vitedu.weights import checkpoint_of, write_weights

mean = vitedu.vit("ViT-Ti/16", image_size=64, pool="mean", num_classes=2)
mean.preprocess, mean.class_names = ours.preprocess, ("cat", "dog")
write_weights("mean.safetensors", checkpoint_of(mean))
convert("mean.safetensors", "mean-hf", to="hf")

# %% [markdown]
# ## Out of PyTorch
#
# A loaded model is a plain module, and PyTorch's own exporters take it.

# %% tags=["nbval-check-output"]
batch = {0: torch.export.Dim("batch")}
program = torch.export.export(ours, (x[:2],), dynamic_shapes=(batch,))
with torch.no_grad():
    exported = program.module()(x[:5])
assert torch.allclose(exported, expected[:5], atol=1e-5)
print("torch.export gives the same logits, for any number of images")

# %% [markdown]
# With `onnx` and `onnxscript` installed, ONNX is one line more; the tests hold
# onnxruntime's answers against ours.
#
# ```python
# torch.onnx.export(ours, (x[:2],), "model.onnx", dynamic_shapes=(batch,), dynamo=True)
# ```
#
# ## What each format can hold
#
# | | it can hold | it leaves unsaid |
# |---|---|---|
# | `npz` | ViT with class token, mean or attention pooling, learned or sin-cos positions, pre-logits; hybrids; BiT | GELU (tanh), epsilon, preprocessing, class names; images that are no squares |
# | `timm` | ViT with every pool, learned or no positions; hybrids; BiT | without `config.json`: attention heads, GELU, preprocessing |
# | `hf` | ViT with class token and learned positions; a pooler where there is no head | without its JSON: attention heads, GELU, epsilon, preprocessing |
# | `torchvision` | ViT with class token, learned positions and a head; square RGB images | attention heads, GELU (exact), epsilon, preprocessing, class names |
# | `vitedu` | all that this book builds | nothing |
#
# `vitedu convert SOURCE TARGET --to FORMAT` writes each of them from any other. Arrays
# keep their bits (bfloat16 becomes float32 in an `.npz`, which does not know it).
