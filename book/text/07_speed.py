# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · about two minutes of computing on a laptop, no GPU needed · about 2 minutes on a T4 (predicted)

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Numbers and speed
#
# How much is $2048 + 1$? Ask PyTorch, with a number that takes sixteen bits instead of
# the usual 32:

# %% tags=["nbval-ignore-output", "hide-input"]
import math
import os
import statistics
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from vitedu import budget, figures, results
from vitedu.data import load_dataset, photo
from vitedu.figures.chapters import speed
from vitedu.model import vit_config
from vitedu.plain import ViT, accuracy, train_step, warmup_cosine
from vitedu.train import find_device
from vitedu.train.finetune import tier_of

torch.set_num_threads(1)
_ = torch.manual_seed(0)
TIER = os.environ.get("VITEDU_TIER") or tier_of("auto")
device = find_device("auto" if TIER == "gpu" else "cpu")
print(f"tier {TIER}, seed 0, {device}, torch {torch.__version__}")

# %%
x = torch.tensor(2048.0, dtype=torch.float16)
print(x + 1)

# %% [markdown]
# Still 2048! Here's 2049 in the usual 32 bits, and in two formats that have sixteen:

# %% tags=["hide-input"]
figures.show(*speed.formats(2049.0))

# %% [markdown]
# Every square is a bit. In `float32` the orange one holds the last 1 of 2049. `float16` would need
# a seventeenth bit. And yet large networks are usually trained with sixteen, because that
# takes less memory and, on the right chip, a fraction of the time.
#
# Here are the first four losses of [chapter 5's](05_mnist.ipynb) network on handwritten digits, in
# `float32` and in `float16`:

# %% tags=["nbval-ignore-output", "hide-input"]
# digits in each part, epochs and seeds of a training run; tries of what is
# timed, its photographs, and the side of a matrix
SIZES = {
    "smoke": (320, 1, (0, 1), 1, 1, 64),
    "cpu": (20_000, 2, (0, 1, 2), 5, 4, 512),
    "gpu": (20_000, 2, (0, 1, 2), 5, 64, 4_096),
}
IMAGES, EPOCHS, SEEDS, ROUNDS, BATCH, SIDE = SIZES[TIER]
data = load_dataset("mnist", fallback="digits")
pixels = data.train.images.to(device) / 127.5 - 1
digits = data.train.labels.to(device)
x_learn, y_learn = pixels[:IMAGES], digits[:IMAGES]
x_held, y_held = pixels[-IMAGES:], digits[-IMAGES:]
name = (
    "MNIST" if data.name == "mnist" else "no MNIST here, the small set instead"
)
print(f"{name}: {len(x_learn):,} to learn from, {len(x_held):,} held out")


# %% tags=["hide-input"]
def tiny(seed=0):
    """Chapter 5's 7,850 weights; the seed decides their first values."""
    torch.manual_seed(seed)
    sizes = {"embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_dim": 64}
    return ViT(28, 7, 1, 10, **sizes).to(device)


# %% tags=["hide-input"]
def learn(
    step,
    images,
    labels,
    seed=0,
    epochs=1,
    dtype=torch.float32,
    peak=0.01,
    eps=1e-8,
    start=None,
):
    """A training run, anew or from a network; the new one and its losses."""
    model = tiny(seed)
    if start is not None:
        model.load_state_dict(start.state_dict())
    model, images = model.to(dtype), images.to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), eps=eps)
    num_steps, losses = epochs * math.ceil(len(images) / 64), []
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            rate = warmup_cosine(len(losses), peak, num_steps, 0.1 * num_steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            losses.append(step(model, optimizer, images[batch], labels[batch]))
    return model, torch.stack(losses).float().cpu()


# %% tags=["failure", "nbval-ignore-output"]
# learn, in a folded cell, trains with any step that you give it
for dtype in (torch.float32, torch.float16):
    _, losses = learn(train_step, x_learn[:256], y_learn[:256], dtype=dtype)
    print(dtype, [f"{loss:.2f}" for loss in losses])

# %% [markdown]
# One step, and the second network is dead. NaN means "not a number": somewhere, something was
# calculated that has no answer. So why would you train with such numbers?
#
# **What keeps the computer busy, what do shorter numbers lose, and how do you train with them all the
# same?** By the end you'll know what killed that run, and you'll have seen six lines make a ViT train
# on nine times as many images a second.
#
# ## What is the computer doing all that time?
#
# It may be doing *arithmetic*. Or it may be waiting, for numbers from its *memory* or for *Python*
# to say what's next.
#
# A *profile* tells you where the time goes. Here's one training step of your ViT-Ti/16 in
# `float32`, by kind of operation, on one processor core:

# %% tags=["nbval-ignore-output", "hide-input"]
plain = ViT().to(device)
images = torch.randn(BATCH, 3, 224, 224).to(device)
labels = torch.arange(BATCH).to(device)
optimizer = torch.optim.AdamW(plain.parameters())
step = partial(train_step, plain, optimizer, images, labels)
step()  # the first one is slower
times = speed.times_by_kind(step, device)
figures.show(*speed.profile_bars(times))

# %% [markdown]
# Most of the time goes into matrix products. **Take a pencil:** if they took none at all, how
# many times as fast would the step be?

# %% tags=["nbval-ignore-output", "hide-input"]
rest = round(1 - times["products"] / sum(times.values()), 2)
print(f"without the products, {rest:.0%} of the time is left,")
print(f"so the step would be {1 / rest:.1f} times as fast")

# %% [markdown]
# That's the most that faster products can bring to this step (*Amdahl's law*). How much faster they
# get [depends on your chip](#Arithmetic-or-memory).
#
# GPUs have circuits for short formats, such as *TF32*: your tensors stay in `float32`, and the GPU
# rounds each number's fraction to ten bits on its way into a product. (More on that in a
# moment.) According to its data sheet, an H100 then multiplies 7.4 times as fast as in `float32`.
# In `bfloat16`, which has sixteen bits, it's 14.8 times.
#
# **How many times as fast is the step, if only its products get that much faster?**

# %% tags=["nbval-ignore-output", "hide-input"]
base = budget.datasheet("H100", "fp32")
for name, short in {"TF32": "tf32", "bfloat16": "bf16"}.items():
    factor = budget.datasheet("H100", short) / base
    left = f"{rest:.2f} + {1 - rest:.2f} / {factor:.1f} of the time is left"
    gain = 1 / (rest + (1 - rest) / factor)
    print(f"{name}: {left}, {gain:.1f} times as fast")

# %% tags=["hide-cell"]
# how many times as fast as in float32 products are, by the data sheets
GPUS = {"T4": "fp16", "V100 SXM2": "fp16", "A100": "bf16", "H100": "bf16"}
for gpu, half in GPUS.items():
    peaks = {each: budget.datasheet(gpu, each) for each in ("tf32", half)}
    base = budget.datasheet(gpu, "fp32")
    factors = [f"{x} {peak / base:4.1f}" for x, peak in peaks.items() if peak]
    print(f"{gpu:10}", "  ".join(factors))

# %% [markdown]
# TF32 should make this step more than three times as fast, and `bfloat16` should bring a little
# more. Later we'll check that on a real GPU.
#
# So most of the time goes into products, and chips have circuits for products with fewer bits. What
# do fewer bits lose?
#
# ## Sixteen bits
#
# A computer keeps a number the way you'd write $6.02 \cdot 10^{23}$: a few digits times a power,
# here a power of two. One bit is the sign, and some are the exponent $e$. The remaining $k$ bits
# are for the digits. Read as a whole number, they give $m$, from $0$ to $2^k - 1$, and the fraction
# is $m / 2^k$. Here's one tenth in three formats:

# %% tags=["hide-input"]
figures.show(*speed.formats(0.1))

# %% [markdown]
# Together, the bits say
#
# $$ \pm \left( 1 + \frac{m}{2^k} \right) \cdot 2^{e} $$
#
# One tenth is $1.6 \cdot 2^{-4}$, so $e$ is $-4$ (stored as $e + 127$, or as $e + 15$ in
# `float16`). The fraction comes as close to $0.6$ as $k$ bits can.
#
# The fraction decides how *fine* the numbers are: there are $2^k$ of them from $1$ to $2$, evenly
# spaced, and just as many from $2$ to $4$ or from $2048$ to $4096$. The exponent decides how *far*
# they reach. With sixteen bits you have to choose: `float16` is finer, and `bfloat16` reaches as
# far as `float32`. (TF32 does both, but that takes 19 bits.)
#
# **Take a pencil:** `float16` has $k = 10$. How far apart are its numbers from $2048$ on?
#
# While you think, here's how large and how small a number can be in each format, and how far it is
# from $1$ to the next:

# %%
FORMATS = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
print(f"{'':9}{'largest':>9}{'smallest':>10}{'step at 1':>11}")
for name, dtype in FORMATS.items():
    info = torch.finfo(dtype)
    # near zero the formula's 1 is dropped, to reach further down
    smallest = info.smallest_normal * info.eps
    print(f"{name:9}{info.max:9.0e}{smallest:10.0e}{info.eps:11.0e}")

# %% [markdown] tags=["predict"]
# From $2048$ to $4096$ there are $2^{10}$ numbers, so they're $2$ apart. That's what happened to
# $2048 + 1$: it's halfway between two numbers, and such a tie is rounded to the one whose last bit is
# $0$.
#
# ## Three tests
#
# **The first test.** A weight of $1$ gets $0.0001$ added to it, a thousand times over. That's
# what a small learning rate does.
#
# **Where does the weight end in bfloat16?**

# %%
for name, dtype in FORMATS.items():
    w = torch.ones((), dtype=dtype)
    for _ in range(1_000):
        w += 0.0001
    print(f"{name:9} {w:.4f}")

# %% [markdown]
# It ends where it began, at 1. *Small steps get lost:* each step is less than half the distance to
# the next number, so the sum is rounded back to 1.
#
# **The second test is large numbers.** `float16` ends at 65,504. That sounds roomy, but
# softmax takes exponentials. Here's the softmax of ViT-Ti/16's logits for a cup of coffee, by
# the formula, in `float16`:

# %% tags=["hide-input"]
real = vitedu.load("ViT-Ti/16")
photographs = [photo("hopper").crop((0, 20, 512, 532))]
photographs += [photo(each) for each in ("cat", "coffee", "astronaut")]
photographs = torch.stack([real.preprocess(each) for each in photographs])
with torch.no_grad():
    logits = real(photographs)[2]

# %% tags=["failure", "nbval-ignore-output"]
powers = logits.half().exp()
softmax = powers / powers.sum()
print(f"largest logit {logits.max():.0f}, its power {powers.max()}")
print(f"its probability {softmax.max()}")

# %% [markdown]
# It's an ordinary logit, but $e^{15}$ is about three million, far past the end of `float16`. So the
# power becomes infinity, and infinity divided by infinity is NaN.
#
# **The third test is tiny numbers,** and it solves the case from the top of the page. Adam divides
# by $\sqrt{\hat v} + \epsilon$, where $\hat v$ is the average of a weight's squared gradients. In
# the first step every gradient below the head is zero, because the head is still all zeros.
# So $\hat v$ is zero, too, and $\epsilon = 10^{-8}$ is there so that Adam doesn't divide by zero.

# %%
epsilon = torch.tensor(1e-8, dtype=torch.float16)
gradient = torch.tensor(0.0, dtype=torch.float16)
print(epsilon)
print(gradient / (gradient.square().sqrt() + epsilon))

# %% [markdown]
# But in `float16`, $\epsilon$ itself is rounded to zero. So Adam divided zero by zero, and that's
# what killed the run. With a larger $\epsilon$, [the NaN is gone](#A-larger-epsilon).

# %% tags=["nbval-check-output", "hide-cell"]
assert x + 1 == x and x + 2 > x
ends = {}
for dtype in FORMATS.values():
    w = torch.ones((), dtype=dtype)
    for _ in range(1_000):
        w += 0.0001
    ends[dtype] = round(w.item(), 3)
assert [*ends.values()] == [1.1, 1.0, 1.0]
assert logits.max() > 11.1 and powers.max().isinf() and softmax.isnan().any()
assert epsilon == 0 and logits.half().softmax(dim=-1).isfinite().all()
print("checked: a step that vanishes, a power too large, an epsilon of 0")

# %% [markdown]
# ## Let each number have what it needs
#
# Weights need [fine steps](#Weights-in-bfloat16), and Adam's averages of squared gradients are
# tiny, so both stay in `float32`. But most of the time goes into matrix products, so their factors
# are rounded to sixteen bits. This *mixed precision* ([Micikevicius et al.
# 2018](https://arxiv.org/abs/1710.03740)) is one line in PyTorch: inside `torch.autocast`, each
# operation picks its format. The loss is always computed in `float32`. On a GPU, so are [norms and
# softmax](https://docs.pytorch.org/docs/stable/amp.html).

# %% tags=["hide-cell"]
a, b = torch.randn(4, 8), torch.randn(8, 8)
with torch.autocast("cpu", torch.float16):
    product = F.linear(a, b)
    outputs = {
        "product": product,
        "norm of a": F.layer_norm(a, (8,)),
        "norm of the product": F.layer_norm(product, (8,)),
        "loss": F.cross_entropy(product, torch.tensor([0, 1, 2, 3])),
    }
for name, tensor in outputs.items():
    print(f"{name:20} {tensor.dtype}")

# %% tags=["nbval-check-output", "hide-cell"]
dtypes = [each.dtype for each in outputs.values()]
short, usual = torch.float16, torch.float32
assert dtypes == [short, usual, short, usual]
print("checked: a product in float16, the loss in float32")

# %% [markdown]
# ## Do the gradients fit?
#
# In the backward pass, the gradients of these products are sixteen bits too. Is that enough? Let's
# look at real gradients, at the outputs of ViT-Ti/16's linear layers, for four photographs.
#
# Late in training, a network is right about most pictures, and its gradients are small. To see
# that case, we take the network's own answers as the labels.
#
# **Take a pencil.** Half of these gradients are smaller than about $2^{-14}$. And since a batch's
# loss is a *mean*, each gradient is also divided by the batch size. ViT's authors pretrain with
# 4,096 images, which is $2^{12}$. Compare what's left with the smallest number in `float16`,
# $2^{-24}$: what share of the gradients is too small for it?

# %% tags=["nbval-ignore-output", "hide-input"]
layers = [each for each in real.modules() if isinstance(each, nn.Linear)]


def gradient_sizes(labels):
    """All that aren't 0 at the linear layers' outputs, over 4,096."""
    found = []
    handles = [
        each.register_full_backward_hook(
            lambda module, inside, outside: found.append(outside[0].flatten())
        )
        for each in layers
    ]
    F.cross_entropy(real(photographs), labels, reduction="sum").backward()
    for handle in handles:
        handle.remove()
    sizes = torch.cat(found).abs() / 4_096
    return sizes[sizes > 0]  # the last block has some that are truly 0


first_answers, second_answers = real(photographs).topk(2).indices.mT
sizes = gradient_sizes(first_answers)
figures.show(*speed.gradients(sizes, (1, 65_536)))

# %% [markdown]
# More than half would be lost: the median is down to $2^{-26}$, which rounds to zero. (In the pale
# strip, numbers have fewer digits.)

# %% tags=["nbval-check-output", "hide-cell"]
lost = [(sizes * scale).half().eq(0).float().mean() for scale in (1, 65_536)]
lost_if_wrong = gradient_sizes(second_answers).half().eq(0).float().mean()
assert 0.5 < lost[0] < 0.7 and lost[1] < 0.02 and 0.3 < lost_if_wrong < 0.4
assert (sizes * 65_536).max() < 65_504 and len(layers) == 49
print("checked: more than half become 0, with second answers a third")

# %% [markdown]
# So let's multiply the loss $\ell$ by some $s$. By the chain rule, that multiplies every gradient
# by $s$, at the layers' outputs and at each weight $w$:
#
# $$ \frac{\partial \, (s \, \ell)}{\partial w} = s \, \frac{\partial \ell}{\partial w} $$
#
# The lower panel shows it for $s = 2^{16}$. Afterwards, in `float32`, we divide by $s$ again. Here's
# the whole step, orange where the products have sixteen bits:

# %% tags=["hide-input"]
figures.show(*speed.mixed_step())


# %% [markdown]
# The best $s$ is as large as possible without overflow, and that changes during training. So a
# *loss scaler* finds it by trying. If any gradient is infinite or NaN, the scaler skips the step and
# halves $s$. After enough good steps in a row (its *patience*, usually 2,000), it doubles $s$.
#
# `bfloat16` reaches as far as `float32` and needs no scaler. If your chip isn't built for `bfloat16`
# (on a T4, for example), take `float16` and this:


# %%
class LossScaler:
    """Keeps float16 gradients from becoming zero or infinite."""

    def __init__(self, scale=65536.0, patience=2000):
        self.scale, self.patience, self.good_steps = scale, patience, 0

    def backward(self, loss):
        (loss * self.scale).backward()

    def step(self, optimizer):
        groups = [group["params"] for group in optimizer.param_groups]
        gradients = [w.grad for group in groups for w in group]
        for gradient in gradients:
            gradient /= self.scale
        if not all(gradient.isfinite().all() for gradient in gradients):
            self.scale, self.good_steps = self.scale / 2, 0
            return  # the weights stay as they are
        optimizer.step()
        self.good_steps += 1
        if self.good_steps == self.patience:
            self.scale, self.good_steps = self.scale * 2, 0


# %% [markdown]
# Here's the step from the figure (`device` is your processor or GPU):


# %%
def mixed_step(model, optimizer, images, labels, dtype, scaler, shrink=1):
    """`train_step`, with its products in `dtype`."""
    is_mixed = dtype is not torch.float32
    with torch.autocast(device.type, dtype, enabled=is_mixed):
        loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    scaler.backward(loss / shrink)  # shrink is for one later experiment
    scaler.step(optimizer)
    return loss.detach()


# %% [markdown]
# Step for step, your scaler does what PyTorch's `torch.amp.GradScaler` does.

# %% tags=["nbval-check-output", "hide-cell"]
mine, theirs = (nn.Parameter(torch.ones(3)) for _ in range(2))
scaler = LossScaler(scale=2.0**16, patience=3)
reference = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=3)
sgd = [torch.optim.SGD([w], lr=0.1) for w in (mine, theirs)]
history = []
# slopes of the loss; times the scale, the largest are infinite in float32
for slope in (1, 2, 1e38, 3, 1e38, 1e38, 1, 1, 1, 1, 1, 1, math.inf, 2, 1):
    for optimizer, w in zip(sgd, (mine, theirs), strict=True):
        optimizer.zero_grad()
        loss = (w * slope).sum() * 1e-3
        if w is mine:
            scaler.backward(loss)
            scaler.step(optimizer)
        else:
            reference.scale(loss).backward()
            reference.step(optimizer)
            reference.update()
    assert torch.equal(mine, theirs)
    assert scaler.scale == reference.get_scale()
    history.append(scaler.scale)
assert len(set(history)) > 3 and mine.isfinite().all()
print("checked: step for step the weights and scale of torch's GradScaler")

# %% [markdown]
# ## A run brought back to life
#
# To see your scaler at work, we need gradients that are too small for `float16`. In our little
# network they aren't, so we divide its loss by 65,536, and every gradient shrinks with it. Adam's
# $\epsilon$ shrinks as much, so in `float32` nothing changes. Your scaler begins at $1$ here, with a
# patience of four.

# %% tags=["nbval-ignore-output", "hide-input"]
shrunk = partial(mixed_step, shrink=65_536)
growing = LossScaler(scale=1.0, patience=4)
scales = []


def scaled_step(*batch):
    scales.append(growing.scale)  # for the figure
    return shrunk(*batch, dtype=torch.float16, scaler=growing)


always_1 = LossScaler(scale=1.0)  # 200 steps don't try its patience
STEPS = {
    "float32": partial(shrunk, dtype=torch.float32, scaler=always_1),
    "float16, unscaled": partial(shrunk, dtype=torch.float16, scaler=always_1),
    "float16, scaled": scaled_step,
}
few = x_learn[:12_800], y_learn[:12_800]
losses = {
    name: learn(step, *few, eps=1e-8 / 65_536)[1]
    for name, step in STEPS.items()
}
figures.show(*speed.rescue(losses, scales))


# %% [markdown]
# Without scaling, the loss stays at about $\ln 10$, pure guessing. There's no error and no NaN: the
# network just doesn't learn. With your scaler, the run is late at first, while the scale is small.
# Then it catches up (in one run each). The scale climbs until a gradient overflows. Then it halves,
# and tries again.
#
# And the network that died at the top of the page? Mixed precision lets it live even without a
# scaler: Adam is back in `float32`, where $\epsilon$ isn't rounded to zero.
#
# Do sixteen bits cost accuracy? In [three ordinary runs](#Three-formats-compared), `float16`
# lost a little on digits that it hadn't learned from, and `bfloat16` lost nothing.

# %% [markdown] tags=["predict"]
# ## What you saved
#
# Memory first. The backward pass needs what the forward pass computed, such as the inputs of each
# product. These numbers are the *activations*. We'll count them with your own attention, and with
# PyTorch's, which is called *fused*.
#
# The weights of ViT-Ti/16 take 23 MB in `float32`. **How much does the forward pass keep for
# one photograph?**
#
# * about 2 MB
# * about 10 MB
# * more than the weights


# %% tags=["hide-input"]
def per_image(model, dtype=None, side=224):
    """The same for one more image, in MB: what's cast once doesn't count."""
    channels = model.patch_embed.proj.weight.shape[1]
    few, many = (
        speed.kept(model, torch.zeros(count, channels, side, side), dtype)
        for count in (1, 2)
    )
    return {name: (many[name] - few[name]) / 1e6 for name in few}


# %% tags=["hide-input"]
fused = vitedu.vit("ViT-Ti/16")
bars = {
    "your ViT,\nfloat32": per_image(ViT()),
    "fused,\nfloat32": per_image(fused),
    "fused,\nbfloat16": per_image(fused, torch.bfloat16),
}
figures.show(*speed.memory(bars))

# %% [markdown]
# One photograph takes more than all the weights! The bars show two savings. The first is the pale
# strip, and it has nothing to do with bits: your `attention` from [chapter 2](02_attention.ipynb)
# keeps the attention maps. Fused attention computes the map piece by piece, throws each piece away,
# and computes it again in the backward pass ([Dao et al. 2022](https://arxiv.org/abs/2205.14135)).
#
# The second saving, about 40%, comes from `bfloat16`. It isn't half, because the residual stream
# stays in `float32`, and each norm saves its input at full width. Still, both savings together halve
# what each image costs, and in a batch of 64 that's [most of the memory](#Counting-memory).

# %% [markdown]
# ## One line at a time
#
# On an H100 we timed a training step of 64 images, with everything in `float32` and attention as you
# wrote it. Then we changed one line after another, and kept each change:
#
# ```
# torch.set_float32_matmul_precision("high")         # TF32
# with torch.autocast("cuda", torch.bfloat16):       # bf16
#     F.scaled_dot_product_attention(q, k, v)        # fused attention
# torch.optim.AdamW(model.parameters(), fused=True)  # fused AdamW
# batch_size = 256                                   # instead of 64
# model = torch.compile(model)                       # compiled
# ```
#
# We did it with ViT-B/16 and its little sister ViT-Ti/16, with a fifteenth of the weights.
#
# TF32 comes first, and our sum said more than three times as fast. **Do you believe it, for the
# large network and for the small one?**

# %% tags=["hide-input"]
NETWORKS = {"ViT-B/16": "ViT-B-16", "ViT-Ti/16": "ViT-Ti-16"}
record, ladder = results.read("gpu-ladder"), {}
metrics, steps = record["metrics"], record["config"]["rungs"]
rungs = [each["name"] for each in steps if each["is_kept"]]
for name, model in NETWORKS.items():
    speeds = [metrics[f"{model}/{x}/speed"]["value"] for x in rungs]
    times = [each / speeds[0] for each in speeds]
    ladder[name] = dict(zip(rungs, times, strict=True))
up_to = partial(speed.ladder, ladder, record["hardware"])
figures.show(*up_to("TF32"))

# %% [markdown]
# The large network comes close: 2.9 times. That's partly luck, because the profile was of
# ViT-Ti/16, on a processor. On the GPU, ViT-Ti/16 itself gains nothing: a profile only holds for
# its own chip.

# %% [markdown] tags=["predict"]
# By the data sheet, `bfloat16` doubles the speed of the products once more.
#
# **Which of the two does the bfloat16 line make faster?**
#
# * the large one
# * the small one
# * both, about equally

# %% tags=["hide-input"]
figures.show(*up_to("bf16"))

# %% [markdown]
# Only the large one, and it gains little, even less than the sum said. The small one gets slower.
#
# Our guess is that with the small network, the GPU is waiting for *Python*, which has to ask for
# every operation. TF32 asks for the same operations as before, so the speed hardly changes.
# Autocast adds some that convert numbers, so the step takes longer.
#
# The next two lines turn many operations into few: fused attention, and the fused AdamW, which
# updates all the weights in one go. **If our guess is right, what do they do for the small
# network?**

# %% tags=["hide-input"]
figures.show(*up_to("fused AdamW"))

# %% [markdown]
# They're the first to help it, each by about a fifth. The large network gains a lot from fused
# attention, because the maps needn't travel to memory and back.

# %% [markdown] tags=["predict"]
# Now the batch grows from 64 images to 256.
#
# **Which of the two gains more images a second?** Say why before you look.
#
# * the large one
# * the small one
# * both, about equally

# %% tags=["hide-input"]
figures.show(*up_to("batch of 256"))

# %% [markdown]
# The small one, by far. With four times the images, its step takes hardly longer, so with 64 the
# chip can't have been busy, and faster products couldn't help. So with a network this small,
# begin with the batch.
#
# The last line, `torch.compile`, [turns several operations into one](#What-torch.compile-does).
# **Which of the two can use that?**

# %% tags=["hide-input"]
figures.show(*up_to("compiled"))

# %% [markdown]
# Both, and about equally: fewer operations mean less waiting for Python, and fewer trips to the
# memory. Here's what each line brought, compared with the line before:

# %% tags=["hide-input"]
print(f"{'':15}", *(f"{name:>9}" for name in ladder))
for after, before in zip(rungs[1:], rungs, strict=False):
    factors = [times[after] / times[before] for times in ladder.values()]
    print(f"{after:15}", *(f"{factor:9.1f}" for factor in factors))
factors = [times[rungs[-1]] for times in ladder.values()]
print(f"{'all six':15}", *(f"{factor:9.1f}" for factor in factors))

# %% [markdown]
# The large network trains on **nine times** as many images a second. If you only paste three lines
# tonight, take the first three: they make it five times as fast.
#
# Is that all the GPU can do? The *MFU* tells you (model FLOPs utilisation, where a FLOP is an
# addition or a multiplication). It's the speed of your step's arithmetic, as a share of what the GPU
# manages when it only multiplies large matrices in `bfloat16`:

# %% tags=["hide-input"]
# MFU, model FLOPs utilisation: the operations per second of the training step,
# over what the GPU manages when it multiplies large matrices in bfloat16
for name, network in NETWORKS.items():
    shares = [metrics[f"{network}/{x}/mfu"]["value"] for x in rungs]
    print(f"{name:10}{shares[0]:2.0f}% in float32, {shares[-1]:.0f}% with all")

# %% [markdown]
# The large network begins at 5%, but that isn't an idle chip: if `bfloat16` is 14.8 times as fast,
# `float32` can't get much beyond 100% / 14.8, or 7%. With all six lines the MFU is 45%, so a
# seventh line can't do much better than twice as fast.
#
# ## What to take with you
#
# 1. Find out what the chip is doing. If it's busy with arithmetic, try a format that it has circuits
#    for. If it's waiting for memory, move fewer bytes. If it's waiting for Python, try a larger batch.
# 2. Sixteen bits are a choice between reach and fineness. `bfloat16` has the reach of
#    `float32`; `float16` is finer, and its small gradients need a loss scaler.
# 3. Weights and optimizer stay in `float32`, products get sixteen bits. With fused attention, that
#    halves the activations, which are most of the memory.
#
# **Three questions** ([answers](#Solutions))
#
# 1. What's $2048 + 1$ in `bfloat16`, and why?
# 2. What killed the run at the top of the page?
# 3. Why did no format help ViT-Ti/16 at 64 images on the GPU, and what did?
#
# What if half the activations are still too much, or if the machine is switched off at night?
# [Chapter 8](08_scale.ipynb) trains in pieces, and loses nothing.
#
# ## Exercises
#
# ✎ Write `LossScaler` again from what it has to do: scale, unscale, skip, halve, double.
# After `from vitedu import check`, `check.loss_scaler(LossScaler)` tells you how closely
# yours agrees with ours, or what's likely to be wrong with it.
#
# **1.** ★ A format has one sign bit, four bits of exponent and three of fraction (it
# exists, for the fastest GPUs). What's the step from 1 to the next number? From 16? What's
# 16 + 1?
#
# **2.** ★ A network in `bfloat16`, weights included, trains at a learning rate of 0.0001,
# so that Adam moves each weight by about that much. Above which size can a weight no longer
# move?
#
# **3.** ★★ The vanishing step, at 0.0001 a thousand times, ended at 1 in both 16-bit
# formats. Predict where it ends if the weight begins at 0.01 instead of 1. Then run it.
#
# **4.** ★★ The scaler halves its scale once for each overflow. Suppose it starts at
# $2^{16}$ and the gradients overflow above $2^6$. How many steps does it lose, in all, in a
# run of 10,000 steps with a patience of 2,000? Is that expensive?
#
# **5.** ★★ At 384 pixels, ViT-Ti/16 has 577 tokens. Predict how much larger the three bars
# of memory become (the attention maps grow with the square of the tokens, everything else
# in proportion). Then compare with the output under solution 5.
#
# **6.** ★★ And your own step? Predict how many times as fast `bfloat16` makes it, with [your chip's
# factor](#Arithmetic-or-memory) in place of 14.8. Then measure it (`plain` is your ViT-Ti/16 from the
# profile, and a scale of 1 changes nothing):
#
# ```python
# optimizer = torch.optim.AdamW(plain.parameters())
# batch = plain, optimizer, images, labels
# for dtype in (torch.float32, torch.bfloat16):
#     %timeit -n 1 mixed_step(*batch, dtype, LossScaler(scale=1.0))
# ```
#
# **7.** ★★★ Your colleague's run in `float16` ends in NaN after 3,000 good steps. There
# is a loss scaler. Which experiments would tell you whether a number was too large in the
# forward pass, too large in the backward pass, or whether the training itself went wrong?
# What would you try first?
#
# ## Second reading
#
# ### A larger epsilon
#
# Would a larger $\epsilon$ have saved the network at the top of the page? Here are the same
# four steps, with two of them:

# %% tags=["failure", "nbval-ignore-output"]
for eps in (1e-7, 1e-4):
    few = x_learn[:256], y_learn[:256]
    _, losses = learn(train_step, *few, dtype=torch.float16, eps=eps)
    print(eps, [f"{loss:.2f}" for loss in losses])

# %% [markdown]
# The smaller one only replaces NaN with huge losses. $\hat v$ comes from *squares*, and Adam
# stores only a thousandth of each new one. In `float16` that's zero for any gradient below
# about $0.005$. Such a gradient is divided by nearly nothing, and the weights leap away.
# With the larger $\epsilon$ the network survives these four steps, but Adam no longer sees how
# small its gradients are.
#
# ### Three formats compared
#
# An ordinary run, with nothing rigged: in each format we trained for two epochs on 20,000 digits,
# three times, and then read the 20,000 held-out ones. The network that died at the top of the page
# is back in the last row, in mixed precision:

# %% tags=["nbval-ignore-output", "hide-input"]
right = {}
for name, dtype in FORMATS.items():
    right[name] = []
    for seed in SEEDS:
        step = partial(mixed_step, dtype=dtype, scaler=LossScaler())
        model, _ = learn(step, x_learn, y_learn, seed, EPOCHS)
        right[name].append(100 * accuracy(model, x_held, y_held))

# %% tags=["nbval-ignore-output", "hide-input"]
print(f"{'':15} right (%)      against float32")
for name, percents in right.items():
    mean = statistics.mean(percents)
    gaps = [a - b for a, b in zip(percents, right["float32"], strict=True)]
    error, gap_error = (
        statistics.stdev(each) / math.sqrt(len(SEEDS))
        for each in (percents, gaps)
    )
    gap = f"{statistics.mean(gaps):+.2f} ± {gap_error:.2f}"
    print(f"{name:15} {mean:.2f} ± {error:.2f}   {gap if any(gaps) else ''}")

# %% [markdown]
# Which format would you choose? By [chapter 5's rule of thumb](05_mnist.ipynb#Better,-or-lucky?)
# both differences are results, because each is more than three times its error: `bfloat16` reads
# more digits than `float32`, and `float16` fewer. But from three seeds the error itself is a rough
# guess. On another processor, the same three put `bfloat16` only 0.14 ± 0.64 points ahead, and
# that's no result.
#
# So don't take `bfloat16` because it reads better. Take it because it costs no accuracy here and
# needs no scaler. And if your chip only has `float16`, you lose less than half a point.
#
# ### Weights in bfloat16
#
# Do the weights really need `float32`? Take the last network that we trained above, and swap
# black and white in the digits. It has to learn again, with a learning rate of $0.0001$:
# once with all its numbers in `float32`, once with all of them in `bfloat16`.

# %% tags=["failure", "nbval-ignore-output"]
few = -x_learn[:6_400], y_learn[:6_400]
for name in ("float32", "bfloat16"):
    dtype = FORMATS[name]
    _, losses = learn(train_step, *few, dtype=dtype, peak=1e-4, start=model)
    first, last = losses[:10].mean(), losses[-10:].mean()
    print(f"{name:9} loss {first:.2f} at the start, {last:.2f} at the end")

# %% [markdown]
# (Both begin far above $\ln 10$, because the network is sure of its wrong answers.) With
# everything in `bfloat16`, weights and Adam's means too, the loss falls an eighth as far, in one
# run each. It's the small step again: the larger weights can't move. And again, there's no error.
#
# ### Counting memory
#
# `vitedu.budget` counts what a step takes without running anything. For a batch of 64 and the
# ViT-Ti/16 with fused attention, in MB:

# %%
config = vit_config("ViT-Ti/16")
whole, mixed = (
    budget.memory(config, batch_size=64, autocast=dtype)
    for dtype in (None, torch.bfloat16)
)
print(f"{'':12} float32   mixed")
for what in whole._fields:
    before, after = (getattr(each, what) / 1e6 for each in (whole, mixed))
    print(f"{what:12} {before:7.0f} {after:7.0f}")

# %% tags=["nbval-check-output", "hide-cell"]
for dtype in (None, torch.bfloat16):
    held = budget.memory(config, batch_size=1, autocast=dtype)
    measured = sum(per_image(fused, dtype).values())
    assert round(measured * 1e6) == held.activations
whole, mixed = (sum(bars[each].values()) for each in (*bars,)[::2])
one_line = mixed / sum(bars["fused,\nfloat32"].values())
assert 0.48 < mixed / whole < 0.52 and 0.55 < one_line < 0.65
print("checked: what's kept is what budget says, to the byte")


# %% [markdown]
# *Casts* are copies of the weights in sixteen bits. The weights, their gradients and Adam's
# means together are less than a tenth, in both columns. (In the bars above, only the image grows in
# `bfloat16`: it's kept twice, as it came and rounded.)
#
# ### Arithmetic or memory
#
# How fast is *your* chip with each format? In billions of multiplications and additions a
# second, for square matrices of side `SIDE`, which is 512 here (`seconds`, in a hidden cell,
# takes the median of a few tries):


# %% tags=["hide-input"]
def seconds(run, *inputs):
    """The chip's time for one call: the median of a few."""
    run(*inputs)
    times = []
    for _ in range(ROUNDS):
        begin = speed.now(device)
        run(*inputs)
        times.append(speed.now(device) - begin)
    return max(statistics.median(times), 1e-9)


# %% tags=["nbval-ignore-output"]
rates = {}
for name, dtype in FORMATS.items():
    a, b = torch.randn(2, SIDE, SIDE).to(device, dtype)
    rates[name] = 2 * SIDE**3 / seconds(torch.matmul, a, b)
    share = rates[name] / rates["float32"]
    print(f"{name:9} {rates[name] / 1e9:6.1f}  {share:7.1%} of float32")


# %% [markdown]
# Your numbers will differ, and that's the point. A processor with circuits for a format gets
# faster. One without has to convert every number and gets *slower*: look at `float16`.
#
# And the operations that aren't products? The *roofline* ([Williams et al.
# 2009](https://doi.org/10.1145/1498765.1498785)) has both limits, memory and arithmetic, in one
# picture. Count how
# many operations a piece of work does for each byte it moves. With few operations per byte,
# the memory is the limit: that's the slope on the left. With many, it's the arithmetic, the
# flat part. (To add two tensors, the chip moves twelve bytes for every addition, two numbers in
# and one out, and however fast it adds, it has to wait for them.) Here are parts of a block of
# ViT-Ti/16 in `float32`, on the same processor as the profile above. *Scores* are the products
# of queries and keys, and a GELU or a norm counts as eight operations per number.


# %% tags=["hide-input"]
def operations():
    """By name: what to run, its operations, and the numbers it moves."""
    num_rows = 4 * BATCH * 197  # tokens
    rows = torch.randn(num_rows, 192).to(device)
    wide, other, spare = torch.randn(3, num_rows, 768).to(device)
    kernel = torch.randn(768, 192).to(device)
    gain = torch.ones(192).to(device)
    q = torch.randn(12 * BATCH, 197, 64).to(device)
    few, many, pairs = rows.numel(), wide.numel(), len(q) * 197 * 197
    product = partial(F.linear, rows, kernel)
    norm = partial(F.layer_norm, rows, (192,), gain, gain)
    scores = partial(torch.matmul, q, q.mT)
    moved = few + many + kernel.numel()
    return {
        "add": (partial(torch.add, wide, other, out=spare), many, 3 * many),
        "GELU": (partial(F.gelu, wide), 8 * many, 2 * many),
        "norm": (norm, 8 * few, 2 * few),
        "scores": (scores, 128 * pairs, pairs + 2 * q.numel()),
        "MLP product": (product, 2 * num_rows * 192 * 768, moved),
        "copy": (partial(spare.copy_, wide), 0, 2 * many),
    }


# %% tags=["nbval-ignore-output", "hide-input"]
points = []
for name, (run, count, numbers) in operations().items():
    spent = seconds(run)
    work = speed.Work(name, count / (4 * numbers), count / spent / 1e9)
    points.append(work)
    bandwidth = 4 * numbers / spent / 1e9  # of the last one, a copy
square = torch.randn(2 * SIDE, 2 * SIDE).to(device)
peak = 2 * (2 * SIDE) ** 3 / seconds(torch.matmul, square, square) / 1e9
figures.show(*speed.roofline(peak, bandwidth, points[:-1]))


# %% [markdown]
# Now imagine sixteen bits. With half the bytes, every point moves to the right. Circuits for
# the format raise the flat part, and the products with it. Adding is on the slope, so it gains
# only from fewer bytes. Norm and GELU don't even keep the memory busy.
#
# So the faster the products, the more of the time goes into everything else. On a GPU, say [Dao
# et al. 2022](https://arxiv.org/abs/2205.14135), most kinds of operation in a Transformer wait
# for the memory.
#
# ### One missing line
#
# When the paper trains on ImageNet, and whenever it fine-tunes, it *clips* the gradients:
# if their norm, over all weights together, is above one, they're scaled down to one. Where
# does that line go? In [one of PyTorch's own
# examples](https://github.com/pytorch/examples/issues/1196) and in [a popular
# U-Net](https://github.com/milesial/Pytorch-UNet/pull/470), users found it right after the
# backward pass, where the gradients are still multiplied by $s$. PyTorch's scaler has
# `unscale_` to divide by $s$ first. Let's leave it out. Plain `float32` will do, because the
# mistake has nothing to do with the format.


# %%
def clipped_step(model, optimizer, scaler, images, labels, unscale_first):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    if unscale_first:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)  # unscales, unless that's been done
    scaler.update()
    return loss.detach()


# %% [markdown]
# **Predict:** what does the missing `unscale_` cost with AdamW? And with SGD, plain
# gradient descent with momentum, which the paper uses for fine-tuning?

# %% tags=["failure", "nbval-ignore-output"]
OPTIMIZERS = {
    "AdamW": partial(torch.optim.AdamW, lr=0.01),
    "SGD": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
}
for name, build in OPTIMIZERS.items():
    for unscale_first in (True, False):
        model, scaler = tiny(), torch.amp.GradScaler(device.type)
        optimizer, losses = build(model.parameters()), []
        for x, y in zip(x_learn[:9_600].split(64), y_learn.split(64)):
            losses.append(
                clipped_step(model, optimizer, scaler, x, y, unscale_first)
            )
        how = "with" if unscale_first else "without"
        last = torch.stack(losses[-20:]).mean()
        print(f"{name:5} {how:7} unscale_: {last:.2f}")


# %% [markdown]
# These are mean losses of the last twenty batches. Without `unscale_` the gradients are
# 65,536 times too large, so *all* of them get clipped to norm $1$, and then divided by
# 65,536. SGD's steps are far too short, and it stands still. AdamW divides by the size of
# the gradients anyway, and you see next to no difference. The mistake waits, until somebody
# changes the optimizer.
#
# ### What torch.compile does
#
# PyTorch runs a network operation by operation, and each one reads its input from memory
# and writes its output back. `torch.compile` looks at the whole function first and writes
# new code for it, in which neighbouring small operations share one trip. On a processor,
# that needs a C++ compiler, and the first call takes a while. A norm, a GELU and an
# addition:


# %% tags=["nbval-ignore-output"]
def chain(x):
    return x + F.gelu(F.layer_norm(x, (192,)))


# %% tags=["nbval-ignore-output", "hide-input"]
tokens = torch.randn(64, 197, 192).to(device)
try:
    if TIER == "smoke":
        raise RuntimeError("takes too long")
    compiled = torch.compile(chain)
    same = torch.allclose(compiled(tokens), chain(tokens), atol=1e-5)
    ratio = seconds(chain, tokens) / seconds(compiled, tokens)
    print(f"the same numbers: {same}; {ratio:.1f} times as fast")
except RuntimeError:  # what a missing or broken compiler raises
    print("not compiled here: no C++ compiler, or the smoke tier")

# %% [markdown]
# The products don't gain, because they're already one operation each. How much a whole ViT
# gains depends on how much of its time goes into the rest. On your own data, `vitedu train`
# switches on fused attention and fused AdamW by itself; add `precision=bf16` and
# `compile=true`.
#
# ### Speed over size: Figure 12
#
# The paper's Figure 12 measures, on TPUs, how many images a second ViTs and ResNets
# classify at different sizes, and how large a batch fits. A ResNet is a deep convolutional
# network, and BiT is the family of ResNets that the paper compares with. The figure has
# curves and no table, so we can only compare what it says with a smaller measurement of
# ours: ViT-S/16 and BiT-R50x1, which do about the same arithmetic for an image of 224
# pixels, taking turns on one thread of a processor. The largest batch is computed, not
# measured: by `vitedu.budget`, for training with Adam in 80 GB.

# %% tags=["nbval-ignore-output", "hide-input"]
record = results.read("speed-over-size")
metrics, sides = record["metrics"], record["config"]["sides"]


def curve(model, measure):
    """A measure of the record over the side."""
    return {s: metrics[f"{model}/{s}/{measure}"]["value"] for s in sides}


vit, resnet = (
    curve(each, "training_batch_80gb") for each in ("vit-s16", "bit-r50x1")
)
ratios = {
    "speed": {s: metrics[f"vit_to_resnet/{s}"]["value"] for s in sides},
    "largest batch": {s: vit[s] / resnet[s] for s in sides},
}
figures.show(*speed.over_size(ratios))

# %% tags=["nbval-ignore-output", "hide-input"]
print("from 384 to 512 pixels, times")
for each in ("vit-s16", "bit-r50x1"):
    speeds = curve(each, "speed")
    print(f"  {speeds[384] / speeds[512]:.1f}  time of {each}")
print(f"  {(512 / 384) ** 2:.1f}  pixels")
print(f"  {(512 / 384) ** 4:.1f}  pairs of patches")
print(f"{record['command']}")
print(f"{record['hardware']}, {record['date']}")

# %% [markdown]
# The paper says three things about its curves. *ViT's speed is like that of similar ResNets.*
# Ours is, too: 10 to 31 percent faster at every size but the largest.
#
# *The growth with the fourth power of the side hardly shows.* Attention compares all pairs
# of patches, and their number grows with the fourth power. But most of the arithmetic is in
# the other products, and even the last step in size costs our ViT far less than that. It
# does cost more than the pixels, and that's where the ResNet overtakes.
#
# *ViT needs less memory.* Ours fits a batch 25 to 31 percent larger. Our count takes fused
# attention for granted, which the authors didn't have.

# %% [markdown]
# ## Where this is in the paper
#
# [Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929) say nothing about number
# formats. They trained on TPUs, Google's chips. Their appendix D.5 has the speed and the
# memory.
#
# ### What differs
#
# * In the authors' code, SGD keeps its momentum in `bfloat16`. Our optimizers keep
#   everything in `float32`.
# * Figure 12 is measured on TPUs, with many more models; ours on one thread of a processor,
#   and its batches aren't measured at all. At the largest sizes ours sees one image at a
#   time.
# * The figures in [One line at a time](#One-line-at-a-time) are from half an hour on one GPU. You
#   can repeat it on yours: `python benchmarks/gpu_day.py --lot 2`. The [ledger](ledger.md) has
#   what else we measured there.
#
# ## Three readings
#
# * [Micikevicius et al. 2018](https://arxiv.org/abs/1710.03740) introduced mixed precision
#   with loss scaling. Look at their histogram of gradients, and compare it with ours.
# * [Dao et al. 2022](https://arxiv.org/abs/2205.14135) make attention faster by computing
#   *more*, because it moves fewer bytes. It's the roofline, taken seriously.
# * [Zamirai et al. 2020](https://arxiv.org/abs/2010.06192) disagree with our rule about the
#   weights. They keep even those in 16 bits, and lose next to nothing, if each sum is
#   rounded up or down at random or the lost rest is remembered.
#
# ## Solutions
#
# <details><summary>The three questions</summary>
#
# 1. It's 2048, as in `float16`. With seven bits of fraction, the next number after 2048 is 2064, so
#    2049 is rounded down.
# 2. Adam's $\epsilon$ of $10^{-8}$ is 0 in `float16`, and in the first step every gradient
#    below the head is 0, too: zero divided by zero.
# 3. Most likely it waits for Python, not for arithmetic or memory. Fused attention and fused AdamW
#    helped a little, because Python asks for fewer operations, and a larger batch helped most,
#    because the GPU does more each time it's asked.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# Three bits of fraction make eight steps between 1 and 2, so the step is ⅛. From 16 to 32
# the numbers are 16 times as far apart, so the step is 2, and 16 + 1 is halfway between 16
# and 18. Ties go to the number whose last bit is 0, which is 16.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# A step is lost if it's less than half the distance to the next number. At 1 that distance
# is $2^{-7}$, about 0.008, and it halves with each power of two below. Half the distance
# first exceeds 0.0001 at $2^{-5} \approx 0.03$, where it's $2^{-13} \approx 0.00012$.
# Weights above about 0.03 don't move. To see what that means for a real ViT, take its
# weights `w` and compute `(w.abs() > 2**-5).float().mean()`.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# Near 0.01 the numbers of both formats are finer, so it begins to move. It stops where the
# distance to the next number exceeds twice the step: `bfloat16` stops at $2^{-5} =
# 0.03125$. `float16` would stop at ¼, and a thousand steps don't take it there. It ends near
# 0.118 instead of 0.11, because every step is rounded, and on the way more of them were
# rounded up than down.
#
# </details>

# %% tags=["hide-cell"]
for name, dtype in FORMATS.items():
    w = torch.tensor(0.01, dtype=dtype)
    for _ in range(1_000):
        w += 0.0001
    print(f"{name:9} {w:.4f}")

# %% [markdown]
# <details><summary>Solution 4</summary>
#
# From $2^{16}$ down to $2^6$ it halves ten times, so the first ten steps are lost. After
# that it tries a doubling after every 2,000 good steps and loses the next one: four more.
# Fourteen in 10,000 is about one step in seven hundred, which is cheap.
#
# </details>
#
# <details><summary>Solution 5</summary>
#
# Everything grows by $577 / 197 \approx 2.9$, and the attention maps by $2.9^2 \approx
# 8.6$. Your ViT, which keeps the maps, grows most, and the fused one a little less than
# three times.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
large = vitedu.vit("ViT-Ti/16", image_size=384)
for name, parts in {
    "your ViT, float32": per_image(ViT(384), side=384),
    "fused, float32": per_image(large, side=384),
    "fused, bfloat16": per_image(large, torch.bfloat16, side=384),
}.items():
    maps = parts["attention maps"]
    print(f"{name:18} {sum(parts.values()):5.1f} MB, maps {maps:.1f}")

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# On the processor that this page ran on, `bfloat16` products are more than four times as fast as in
# `float32`. With that in place of 14.8 in the sum, the step should be nearly three times as fast.
# Expect less, because autocast also has to convert numbers.
#
# </details>
#
# <details><summary>Solution 7</summary>
#
# Load the last good checkpoint and repeat the bad batch, because then everything else is
# the same. In `float32`: if that's NaN too, or the loss has been rising for a while, the
# training itself went wrong, whatever the format. In `bfloat16`: if that's fine, something
# left the range of `float16`. Is the loss itself infinite or NaN? Then it was the forward
# pass, and you look for the first block with a number near 65,504. If the loss is fine and
# the gradients aren't, it was the backward pass, and a scaler should have caught it. Is the
# scale falling step after step? Then no scale helps, and the gradients are NaN for another
# reason. The cheapest first try is `bfloat16`, if your chip has it.
#
# It isn't always a number that's too large. Our first run on a GPU ended in NaN after 88
# steps, in `bfloat16`. With the last weights and the bad batch, `float32` was fine, and so
# was `bfloat16` with another kernel of fused attention. The one that PyTorch had chosen has
# [a mistake](https://github.com/pytorch/pytorch/issues/196678) in its backward pass that
# shows when there are 64 tokens. So `attention=auto` of `vitedu train` leaves it out.
#
# </details>
