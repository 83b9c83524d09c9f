# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · 15 seconds of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Loading and writing weights
#
# You have a file with a trained Vision Transformer in it, or the name of one. This page
# shows you how to turn it into a model that gives the answers its makers published.
#
# ```python
# model = vitedu.load("ViT-B_16.npz")  # or .pth, .safetensors, a folder, a hub name
# for name, probability in vitedu.classify(model, "photo.jpg"):
#     print(name, probability)
# ```
#
# In the shell, `vitedu info ViT-B_16.npz` tells you what a file contains, and
# `vitedu predict ViT-B_16.npz photo.jpg --top 5` names a picture, with ImageNet's class
# names if the file has none of its own.
#
# You don't have to say whose file it is: the loader recognises the source from the array
# names. It then follows that source in everything that changes the numbers: the form of
# GELU, the epsilon of the norms, the preprocessing, the way positions are resized. It
# never runs code from a file, and it gives you the whole model or an error.

# %% tags=["nbval-ignore-output"]
import torch

torch.set_num_threads(1)
print(f"cpu, torch {torch.__version__}")

# %% [markdown]
# ## Two models to try it with
#
# The package carries two sets of trained weights, so you can try all of this without a
# network connection. The first is a real ViT-Ti/16, the smallest of the usual sizes,
# trained on ImageNet:

# %%
from vitedu.data import photo

real = vitedu.load("ViT-Ti/16")
for name, probability in vitedu.classify(real, photo("cat"), top=3):
    print(f"{probability:4.0%} {name}")

# %% [markdown]
# The second is small enough to be written out in every format in a moment: it recognises
# ten drawn shapes in images of 64×64 pixels. The rest of this page starts from it. Code
# with other file names is there to copy; the page doesn't run it.

# %%
from vitedu import results

ours = vitedu.load("shapes-small")
run = results.read("shapes-small")
reached = run["metrics"]["test_accuracy"]["value"]
print(*ours.class_names, sep=", ")
print(f"recorded: {reached:.2f}% of {run['dataset']['num_test']:,} images")
print(f"by: {run['command']}")

# %% [markdown]
# `classify` does two things that you can also do yourself: `preprocess` turns a picture
# (a file, a PIL image or an array) into the tensor this model expects, and the model turns
# the tensor into logits. How to preprocess is stored with the weights.

# %%
from vitedu.data import load_dataset

shapes = load_dataset("shapes-1k", max_images=100).test
picture = shapes.images[0].permute(1, 2, 0).numpy()  # (64, 64, 3) uint8

logits = ours(vitedu.preprocess(ours, picture))
print("seen:", ours.class_names[shapes.labels[0]])
print("said:", ours.class_names[logits.argmax()])
print(ours.preprocess)

# %% [markdown]
# We'll compare every other file with what this model says about a hundred test images:

# %% tags=["nbval-check-output"]
from vitedu.data import normalise

x = normalise(shapes.images.float(), ours.preprocess)  # (100, 3, 64, 64)
with torch.no_grad():
    expected = ours(x)
right = int((expected.argmax(dim=1) == shapes.labels).sum())
assert right >= 80
print("at least 80 of 100 are right")

# %% [markdown]
# Here are the same weights in the formats of four other libraries, just as `vitedu
# convert` writes them. If a format has no place for something, a warning says what is lost
# and how far the logits move.

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
# The arrays alone give away the architecture, even the number of attention heads. These
# files have used several naming schemes over the years; all of them are read.

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
# Sometimes the arrays leave a question open, and you have to answer it:
#
# * `image_size=` if there is no table of positions (big_vision's sines and cosines fit
#   any size), or if its grid isn't square, as in `image_size=(224, 320)`;
# * `position="none"` if the model has no positions at all;
# * `pool="none"` if you want logits for every token.
#
# ### … timm's weights?
#
# Use timm's name, which is fetched from the Hugging Face hub, or a file or folder.

# %%
model = vitedu.load("shapes-timm")
report = model.load_report
print(report.dialect, len(report.loaded), "arrays used unchanged")
print("dropped", report.dropped, "new", report.new, "resized", report.resized)

# %% [markdown]
# ```python
# model = vitedu.load("vit_tiny_patch16_224.augreg_in21k_ft_in1k")
# model = vitedu.load("vit_tiny_patch16_224.safetensors")
# model = vitedu.load("a-folder/with-config.json")
# ```
#
# No array tells you how the pixels should be normalised. Google's weights expect a mean
# and standard deviation of 0.5, while DeiT, DINO and MAE expect ImageNet's. The loader
# looks into `config.json` first, then at the name. If neither helps, it takes 0.5 and
# warns you.
#
# Of the 186 ViTs that timm 1.0.31 lists as plain ViT, DeiT or ViT with RoPE, 156 load: ViT,
# DeiT, DeiT-III, DINO, DINOv2 and DINOv3, MAE, the image towers of CLIP and SigLIP, and
# RoPE. A test builds each of them small, with random weights, and holds its logits to
# timm's within 1e-10. Here is what the other 30 have, and our network doesn't:
#
# | part | names |
# |---|---|
# | a distillation token | `deit_…_distilled_…` |
# | branches side by side | `…_xp_…`, `…_18x2_…`, `…_pwee_…` |
# | differential attention | `vit_dwee_…`, `vit_dlittle_…` |
# | norms behind the branches, or none after the last block | `…_rpn_…`, `…_radio_…`, `…_intern300m_…` |
# | RoPE with learned speeds, or with a table beside it | `…_rope_mixed_…`, `…_rope_ape_…` |
#
# The error names the part. `vitedu.vit("vit_small_patch16_dinov3")` builds the same
# networks by the same names, with random weights.
#
# ### … DeiT, DINO, DINOv2, MAE, MoCo-v3?
#
# These use timm's array names, so they load the same way.
#
# ```python
# model = vitedu.load("deit_small_patch16_224-cd65a155.pth")
# model = vitedu.load("dino_deitsmall16_pretrain.pth")  # no head: it gives features
# model = vitedu.load("dinov2_vits14_pretrain.pth")  # likewise
# model = vitedu.load("mae_pretrain_vit_base.pth")  # the encoder
# model = vitedu.load("model_best.pth.tar")  # of timm's train.py
# ```
#
# Whole training checkpoints work too. Of DINO's two networks you get the teacher, and the
# arrays around the network (DINO's head, MAE's decoder) are left out and named in the
# report. One relative is refused with a sentence that says why: a distilled DeiT has a
# second class token, which this network has no place for.
#
# ### … Hugging Face's: ViT, MAE, DINOv2, DINOv3, CLIP, SigLIP?
#
# Use a hub name or a folder, sharded or not. Older and newer versions of transformers
# spell the array names differently; both are read. Of CLIP and SigLIP you get the image
# tower, and CLIP's projection is the head.

# %%
model = vitedu.load("shapes-hf")
print(model.load_report.dialect, model.class_names[:3], model.preprocess.mean)

# %% [markdown]
# ```python
# model = vitedu.load("google/vit-base-patch16-224")
# model = vitedu.load("facebook/dinov2-with-registers-small")
# model = vitedu.load("openai/clip-vit-base-patch32")
# ```
#
# ### … torchvision's?
#
# These files hold arrays and nothing else. For the sizes in the paper's Table 1, the
# loader looks up the number of attention heads there, and takes the preprocessing from
# the file name. If the name doesn't tell either, it warns you that the number of heads is
# a guess. Our small model isn't in Table 1, so you're asked for the number:

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
# Give it a run folder, or just the `model.safetensors` from one. That file also holds the
# configuration, the preprocessing and the class names.
#
# ```python
# model = vitedu.load("runs/mnist-tiny-0a1b2c3d")
# ```
#
# ### … for images of another size?
#
# Pass `image_size`, and the positions are resized the way the source's library does it.
# It has a price: the patches keep their size, so the model meets a grid it wasn't trained
# on. This one learned its positions on a grid of 8×8 patches; here it is without any
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
# ### … for other classes, or for features?
#
# With `num_classes`, you get a new head of zeros in place of the stored one, which is how
# the authors start fine-tuning. A pre-logits layer goes with the old head, unless you ask
# for one with `pre_logits=`. With 0 classes the model returns features, and
# `forward_features` returns all tokens.

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
# ### … without an internet connection?
#
# Set `VITEDU_OFFLINE=1` and nothing is ever fetched. If a file is missing, the error
# names it and the cache folder to put it in (`$VITEDU_CACHE`, or your platform's usual
# one). A transformers model needs its `preprocessor_config.json` there too. This page was
# executed offline:

# %% tags=["failure", "raises-exception", "nbval-ignore-output"]
import os

os.environ["VITEDU_OFFLINE"] = "1"
os.environ["VITEDU_CACHE"] = "cache"
warnings.filterwarnings("ignore", "IProgress")  # tqdm's, about progress bars
vitedu.load("google/vit-base-patch16-224")


# %% [markdown]
# ## What goes wrong silently
#
# A checkpoint can load without an error and still compute something else. Google's format
# implies the tanh form of GELU, but our model was trained with the exact one. How far are
# the logits off?


# %%
def difference(model):
    """The largest difference from the original logits."""
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
print("equal wherever the GELU is stored, or passed by hand")

# %% [markdown]
# The warning above announced a difference, but a smaller one: it compares two images of
# pure noise. [Chapter 9](09_weights.ipynb) makes fifteen such slips on 1,000 photographs.
# Three of them don't change a single answer, four leave next to nothing, and you get no
# error message for any of them.
#
# That's why `load` warns you if the JSON next to a file contradicts the settings it uses.
# Suppose our weights end up in a folder with another model's JSON:

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
# If you know better, replace it: `preprocess` of a loaded model is a plain value.

# %% tags=["nbval-check-output"]
from dataclasses import replace

spec = replace(again.preprocess, mean=said["image_mean"], std=said["image_std"])
again.preprocess = spec
assert vitedu.preprocess(again, picture).max() > 1.0  # no longer in -1..1
print("the same picture, normalised differently")

# %% [markdown]
# ## What is refused
#
# Some files look like a ViT but hold another network: BEiT, Swin, ConvNeXt, MLP-Mixer. The
# error tells you which one it is.
#
# A `.pth` file can contain any Python object, and loading one can run code. Only tensors,
# plain values and the arguments of a training (an `argparse.Namespace`) are read; anything
# else is refused by name. A file that was cut short, contains NaN or has fewer bytes than
# its header promises also ends in one sentence:

# %% tags=["failure", "raises-exception"]
whole = Path("shapes.npz").read_bytes()
Path("half.npz").write_bytes(whole[: len(whole) // 2])
vitedu.load("half.npz")

# %% [markdown]
# `convert` refuses too, if a format can't hold the network at all:

# %% tags=["failure", "raises-exception"]
from vitedu.weights import checkpoint_of, write_weights

mean = vitedu.vit("ViT-Ti/16", image_size=64, pool="mean", num_classes=2)
mean.preprocess, mean.class_names = ours.preprocess, ("cat", "dog")
write_weights("mean.safetensors", checkpoint_of(mean))
convert("mean.safetensors", "mean-hf", to="hf")

# %% [markdown]
# ## Out of PyTorch
#
# A loaded model is an ordinary `nn.Module`, so PyTorch's own exporters work on it.

# %% tags=["nbval-check-output"]
batch = {0: torch.export.Dim("batch")}
program = torch.export.export(ours, (x[:2],), dynamic_shapes=(batch,))
with torch.no_grad():
    exported = program.module()(x[:5])
assert torch.allclose(exported, expected[:5], atol=1e-5)
print("torch.export gives the same logits, for any number of images")

# %% [markdown]
# With `onnx` and `onnxscript` installed, ONNX takes one more line. The tests compare
# onnxruntime's answers with ours.
#
# ```python
# torch.onnx.export(ours, (x[:2],), "model.onnx", dynamic_shapes=(batch,), dynamo=True)
# ```
#
# ## What each format can hold
#
# | | what it can hold | what it leaves out |
# |---|---|---|
# | `npz` | ViT with class token, mean or attention pooling, learned or sin-cos positions, pre-logits; hybrids; BiT | GELU (tanh), epsilon, preprocessing, class names; images that aren't square |
# | `timm` | ViT with every pool; positions learned, rotary or none; registers, LayerScale, gates; hybrids; BiT | without `config.json`: attention heads, GELU, preprocessing |
# | `hf` | ViT with class token and learned positions; a pooler where there is no head; MAE, DINOv2, DINOv3, CLIP's and SigLIP's towers | without its JSON: attention heads, GELU, epsilon, preprocessing |
# | `torchvision` | ViT with class token, learned positions and a head; square RGB images | attention heads, GELU (exact), epsilon, preprocessing, class names |
# | `vitedu` | everything this book builds | nothing |
#
# `vitedu convert SOURCE TARGET --to FORMAT` converts any of them into any other. Arrays
# keep their exact bits, except that bfloat16 becomes float32 in an `.npz`, which has no
# bfloat16.
