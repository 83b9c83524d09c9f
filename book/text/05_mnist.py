# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · about fifteen minutes of computing on a laptop, no GPU needed · about 10 minutes on a T4 (predicted)

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # The first training: MNIST
#
# Here's a duel. In one corner is the simplest classifier there is: one linear layer, from the 784
# pixels of a handwritten digit straight to ten scores. It has $784 \cdot 10 + 10 = 7{,}850$
# weights, and it learns to read 92 of 100 new digits. In the other corner is a Vision
# Transformer, your class of [chapter 4](04_vit.ipynb). It's tiny, two blocks of width 16, and has
# 7,850 weights, too.
#
# Who wins, and by how much? Today you train the weights yourself, and learn to tell a better
# recipe from a lucky run.

# %% tags=["nbval-ignore-output", "hide-input"]
import os

import torch

from vitedu.train import find_device, recipe
from vitedu.train.finetune import tier_of

torch.set_num_threads(1)
_ = torch.manual_seed(0)
TIER = os.environ.get("VITEDU_TIER") or tier_of("auto")
device = find_device("auto" if TIER == "gpu" else "cpu")
print(f"tier {TIER}, seed 0, {device}, torch {torch.__version__}")

# %% tags=["hide-input"]
import math
import statistics
from dataclasses import replace
from functools import partial
from itertools import pairwise

import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vitedu import figures, results
from vitedu.data import load_dataset
from vitedu.figures.chapters import mnist
from vitedu.model import ViT as PackageViT
from vitedu.model import record_attention
from vitedu.plain import ViT, patchify

# %% tags=["nbval-ignore-output", "hide-input"]
SMOKE = TIER == "smoke"  # only proves that it all runs
# tier cpu is the whole recipe already, so a GPU takes the same sizes
SHORT, LONG, SEEDS = (1, 8, (0, 1)) if SMOKE else (2, 15, (0, 1, 2))
data = load_dataset("mnist", fallback="digits")
first = 2_500 if SMOKE else None
images = data.train.images[:first].to(device)
labels = data.train.labels[:first].to(device)
order = torch.randperm(len(images))
held_out, learn = order.tensor_split([len(order) // 6])
x_learn, y_learn = images[learn] / 255, labels[learn]
x_held, y_held = images[held_out] / 255, labels[held_out]
x_test = data.test.images.to(device) / 255
y_test = data.test.labels.to(device)
name = (
    "MNIST" if data.name == "mnist" else "no MNIST here, the small set instead"
)
print(f"{name}: {len(x_learn):,} to learn from, {len(x_held):,} held out")

# %% tags=["hide-input"]
firsts = [int((y_learn == k).nonzero()[0]) for k in range(10)]
figures.show(*mnist.digit_grid(x_learn[firsts], data.class_names, patch_size=7))


# %% [markdown]
# MNIST ([LeCun et al. 1998](https://doi.org/10.1109/5.726791)) has 70,000 of these, 28×28 grey
# pixels each, from 0 (paper) to 1 (ink). The blue lines show the ViT's sixteen patches.
#
# Ten thousand digits are for testing, at the very end. Of the others, a random sixth is held out
# (`x_held`, with labels `y_held`) to see how we're doing. The network learns from the rest
# (`x_learn`, `y_learn`).
#
# We'll begin with a loop that many tutorials use. It shuffles the images, takes a
# *batch* of 64 at a time, computes the loss, and lets AdamW move the weights. One pass over all
# the images is an *epoch*.


# %%
def tiny(seed=0):
    """7,850 weights; the seed decides their first values."""
    torch.manual_seed(seed)
    sizes = {"embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_dim": 64}
    return ViT(28, 7, 1, 10, **sizes).to(device)  # a GPU, if you have one


def tutorial(model, images, labels, epochs, lr):
    """The tutorial's loop: passes over the images at a constant rate."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# %% tags=["nbval-ignore-output"]
def try_rate(lr, loop=tutorial):
    """Train for one epoch, and print how many digits are right."""
    model = tiny()
    loop(model, x_learn, y_learn, epochs=1, lr=lr)
    with torch.no_grad():
        right = model(x_held).argmax(dim=-1) == y_held
    print(f"learning rate {lr}: {right.float().mean():.0%} right")
    return model


slow = try_rate(0.001)

# %% [markdown] tags=["predict"]
# That's no match for the linear layer yet. But look at the 0.001, PyTorch's default. It's the
# *learning rate*: it scales every step of the weights. Let's multiply it by ten, then by a
# hundred. **What does a hundred times the rate do?**
#
# * it gets many more digits right
# * it gets about as many right
# * it gets far fewer right

# %% tags=["nbval-ignore-output"]
fast = try_rate(0.01)
wild = try_rate(0.1)

# %% [markdown]
# Ten times the rate removes over a third of the mistakes. With a hundred times, the network
# misreads most digits.
#
# **Why, then, does a first training run disappoint, which number matters most, and how do you
# find it without fooling yourself?**
#
# ## One step
#
# Let's slow that loop down. Each turn does four things, and `zero_grad` only clears the last
# turn's gradients.

# %% tags=["hide-input"]
figures.show(*mnist.training_loop())


# %% [markdown]
# The loss $\ell = -\ln p_y$ of an image is small when the network gives its true label $y$ a
# probability $p_y$ close to one. The gradient $g$ says for every weight $w$ how fast the loss
# would rise if that weight grew, so the step moves each weight the other way. `detach` keeps
# the loss itself and forgets how it was computed.


# %% tags=["teaches"]
def train_step(model, optimizer, images, labels):
    """One update of the weights; the mean loss of the batch before it."""
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


# %% [markdown]
# In plain gradient descent, a step moves a weight by the learning rate times its gradient. Adam
# ([Kingma and Ba 2015](https://arxiv.org/abs/1412.6980)) keeps two running means for each weight:
# $\hat m$ of its recent gradients, and $\hat v$ of their squares. The hats mark [a
# correction](#Adam-in-four-lines) for the first steps. Then it takes this step, where $\eta$ is
# the learning rate:
#
# $$ w \leftarrow w - \eta \, \frac{\hat m}{\sqrt{\hat v}} $$
#
# The W of AdamW is for *weight decay*: each step also shrinks every weight a little.
#
# In the very first step, both means are of a single gradient: $\hat m = g$ and $\hat v = g^2$.

# %% [markdown] tags=["predict"]
# Pencil and paper: in the head, all weights start at zero, so there's nothing to shrink. Two of
# them have gradients of $0.1$ and $0.0005$. The learning rate is $\eta = 0.001$. **How far does
# the weight with the gradient 0.0005 move?**

# %% tags=["nbval-ignore-output"]
model = tiny()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
loss = train_step(model, optimizer, x_learn[:64], y_learn[:64])
head = model.head.weight.detach().abs()  # it was 0: how far it moved
gradients = model.head.weight.grad.abs()
print(f"head: gradients from {gradients.min():.5f} to {gradients.max():.5f}")
print(f"head: weights moved by {head.min():.5f} to {head.max():.5f}")

# %% tags=["nbval-check-output", "hide-cell"]
assert abs(loss.item() - math.log(10)) < 1e-4
assert gradients.max() > 20 * gradients.min()
# below 1e-6 Adam's epsilon of 1e-8 begins to show
assert ((head - 0.001).abs() < 2e-5)[gradients > 1e-6].all()
below = max(p.grad.abs().max() for p in model.blocks.parameters())
assert below == 0
assert sum(p.numel() for p in model.parameters()) == 7850
print("every weight of the head moved by the learning rate")

# %% [markdown]
# Every weight of the head moved by the learning rate, whether its gradient was large or tiny,
# because $g / \sqrt{g^2}$ is plus or minus one. Adam's first step keeps the sign of each gradient
# and throws its size away.
#
# With Adam, then, the learning rate is a *length*: roughly the most that a weight moves in a
# step. How far did the weights get in our epoch?

# %% tags=["nbval-ignore-output"]
weights = nn.utils.parameters_to_vector  # all 7,850 in one row
start = weights(tiny().parameters())
print(f"at the start   mean size of a weight {start.abs().mean():.2f}")
for lr, each in {0.001: slow, 0.01: fast}.items():
    moved = (weights(each.parameters()) - start).abs()
    print(f"rate {lr:<10} mean distance moved  {moved.mean():.2f}")

# %% [markdown]
# The epoch had 782 steps, so a weight could have gone $782 \cdot 0.001 \approx 0.8$, but many
# steps cancel each other. At the default rate, the weights have moved by only a third of their own
# size, so the first run was probably still on its way.
#
# Or is there a bug? There's a two-second test: give a fresh network the *same* 64 digits again
# and again. It should soon know them by heart.

# %% tags=["nbval-ignore-output"]
tested, same = tiny(), []
optimizer = torch.optim.AdamW(tested.parameters(), lr=0.01)
for _ in range(201):
    same.append(train_step(tested, optimizer, x_learn[:64], y_learn[:64]))
print(f"first loss {same[0]:.4f}, and ln 10 is {math.log(10):.4f}")
print(f"after 200 steps on one batch: loss {same[-1]:.4f}")

# %% [markdown]
# It does. If yours can't, stop training and look for the mistake. Check the first loss, too: a
# network that knows nothing gives each of the ten digits a tenth, so its loss is $\ln 10$.
#
# ## Rise and fall
#
# Long steps get you across town, but not onto a doorstep: you keep stepping over it. In training,
# gradients near a good place are mostly noise, and Adam divides even the noise by its own size,
# so the steps don't shrink as the weights get nearer.
#
# Here's a toy: two hundred weights, and the best place for each is 0, the red line. A weight's
# gradient is its distance from 0, plus random noise, and Adam takes the steps.

# %% tags=["hide-input"]
walks = {"constant": [], "falling": []}
for name, walk in walks.items():
    noise = torch.Generator().manual_seed(0)
    weight = torch.ones(200, requires_grad=True)
    optimizer = torch.optim.Adam([weight])
    for t in range(2_000):
        falling = 0.03 * (1 + math.cos(math.pi * t / 2_000)) / 2
        optimizer.param_groups[0]["lr"] = {"constant": 0.03}.get(name, falling)
        weight.grad = weight.detach() + torch.randn(200, generator=noise)
        optimizer.step()
        walk.append(weight.detach().clone())
walks = {name: torch.stack(walk) for name, walk in walks.items()}
figures.show(*mnist.paths(walks))


# %% [markdown]
# At a constant rate, the weights arrive and then keep wandering. If the rate falls to zero, they
# settle, three times closer.
#
# We don't start at the full rate, either. The first gradients come from a network that knows
# nothing, and large steps along them can lead it astray. So the rate rises from zero over about
# the first tenth of the steps: the *warm-up*.
#
# Take a run of $T$ steps, of which the first $T_w$ are the warm-up. The rate $\eta_t$ of step $t$
# climbs in a straight line to the highest rate $\eta$. Then comes the *decay*: it falls to zero
# along half a cosine.
#
# $$
# \eta_t = \begin{cases}
# \eta \, \dfrac{t}{T_w} & \text{if } t < T_w \\
# \dfrac{\eta}{2} \left( 1 + \cos \pi \, \dfrac{t - T_w}{T - T_w} \right)
# & \text{otherwise}
# \end{cases}
# $$
#
# Try it on paper, with $T = 8$, $T_w = 2$ and $\eta = 1$. What are the rates of steps 1, 5 and 7?


# %% tags=["teaches"]
def warmup_cosine(step, lr, num_steps, warmup_steps):
    """The rate of a step: a line up to `lr`, then a cosine down to 0."""
    if step < warmup_steps:
        return lr * step / warmup_steps
    progress = (step - warmup_steps) / (num_steps - warmup_steps)
    return lr * (1 + math.cos(math.pi * progress)) / 2


# %%
print([round(warmup_cosine(t, 1.0, 8, 2), 2) for t in range(9)])

# %% tags=["hide-input"]
rates = [warmup_cosine(step, 1.0, 1_000, 100) for step in range(1_001)]
figures.show(*mnist.schedule(rates))


# %% [markdown]
# Put step and rate together, and you have a whole training run:


# %% tags=["teaches"]
def train(model, images, labels, epochs, lr, batch_size=64, warmup=0.1):
    """Train `model` in place with AdamW; the loss of every step."""
    num_steps = epochs * math.ceil(len(images) / batch_size)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(batch_size):
            rate = warmup_cosine(len(losses), lr, num_steps, warmup * num_steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            x, y = images[batch], labels[batch]
            losses.append(train_step(model, optimizer, x, y))
    return torch.stack(losses)


# %% [markdown]
# One epoch again, at the best rate so far:

# %% tags=["nbval-ignore-output"]
settled = try_rate(0.01, loop=train)


# %% [markdown]
# From 81 to 89 to 91 percent, without a single new weight or image!
#
# ## Which rate?
#
# Let's try five rates, for two epochs each (`SHORT`). The best of many tries owes part of its
# lead to luck. That's why we choose on the held-out digits, the *validation set*, and keep the
# test set closed.
#
# *Accuracy* is the share of images whose true class has the largest of the head's ten numbers,
# the *logits*. Count the right answers over all batches, and divide once: an [average over
# batches](#Three-networks-that-never-look) is wrong when the last one is smaller.


# %% tags=["teaches"]
@torch.no_grad()
def accuracy(model, images, labels, batch_size=500):
    """The share of all images whose largest logit is that of their label."""
    correct = 0
    for x, y in zip(images.split(batch_size), labels.split(batch_size)):
        correct += (model(x).argmax(dim=-1) == y).sum().item()
    return correct / len(labels)


# %% [markdown]
# Here are the five runs. We'll need `scale` and `shift` later.

# %% tags=["nbval-ignore-output"]
as_is = nn.Identity()  # changes nothing


def climb(seed, lr, loop=train, scale=as_is, shift=as_is):
    """Percent of the held-out digits misread after two epochs."""
    model = tiny(seed)
    loop(nn.Sequential(shift, model), scale(x_learn), y_learn, SHORT, lr)
    return 100 - 100 * accuracy(model, scale(x_held), y_held)


by_rate = {lr: climb(0, lr) for lr in (0.001, 0.003, 0.01, 0.03, 0.1)}
figures.show(*mnist.rates(by_rate, linear=8))

# %% [markdown]
# PyTorch's default makes more than twice the mistakes of the best rate. At the bottom, the curve
# is so flat that one run each can't tell neighbours apart. We take 0.01 rather than 0.03, because
# on the right there's a cliff. With 5.5% mistakes, your ViT is past the linear layer (dashed).
#
# And what does the warm-up do? Here's 0.03 with and without it, for three seeds each (`SEEDS`). A
# *seed* decides the first weights and the order of the images:

# %% tags=["nbval-ignore-output"]
fall = partial(train, warmup=0.0)  # the same, with no warm-up
for name, loop in {"with": train, "without": fall}.items():
    found = [climb(seed, 0.03, loop) for seed in SEEDS]
    print(f"{name:7} warm-up:", ", ".join(f"{each:.1f}%" for each in found))


# %% [markdown]
# Without the warm-up, you get about two to six times the mistakes. It helps every time, but one
# seed couldn't have told you how much.
#
# ## Better, or lucky?
#
# So in this section, we'll compare means of three seeds.
#
# One more change might help: `centre` maps the pixels to −1 to 1, so that paper and ink have
# opposite signs.


# %% tags=["hide-cell"]
class Shift(nn.Module):
    """Moves each image of (b, c, h, w) by up to a pixel along each axis."""

    def forward(self, images):
        steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        moved = torch.stack([images.roll(step, (2, 3)) for step in steps])
        chosen = torch.randint(9, (len(images),))
        return moved[chosen, torch.arange(len(images))]  # one of nine each


def centre(pixels):
    """From 0..1 to -1..1."""
    return 2 * pixels - 1


# %% [markdown]
# We'll make one change at a time, each on top of the last, like the rungs of a ladder. Ignore the
# last rung, the shifts, until the next section.

# %% tags=["nbval-ignore-output"]
RUNGS = {
    "0.001, constant": (0.001, tutorial, as_is, as_is),
    "0.01, constant": (0.01, tutorial, as_is, as_is),
    "+ rise and fall": (0.01, train, as_is, as_is),
    "+ pixels around 0": (0.01, train, centre, as_is),
    "+ shifts": (0.01, train, centre, Shift()),
}
rungs = {
    name: [climb(seed, *rung) for seed in SEEDS] for name, rung in RUNGS.items()
}


# %% tags=["nbval-ignore-output", "hide-input"]
def with_errors(rungs):
    """For each rung the mean of its seeds, and the standard error."""
    return {
        name: (statistics.mean(x), statistics.stdev(x) / math.sqrt(len(x)))
        for name, x in rungs.items()
    }


found = with_errors(rungs)
figures.show(*mnist.ladder(rungs, found))


# %% [markdown]
# Each grey dot is a seed, and the upright mark is their mean. How far off is it, typically? That's
# the *standard error*: the standard deviation of the runs, divided by the square root of their
# number. It's the whisker, and the number after the ±.
#
# Is a rung better than the rung above it? The difference of their means is the gain. For the error
# of the gain, square both errors, add, and take the root.
#
# > **Rule of thumb.** Change one thing, use several seeds, and divide the difference by
# > its error. Below 2, it's no result. From 2 to 3, it's a hint. Above 3, it's a result.
# > With three seeds the error itself is a rough guess, so near a border add seeds.

# %% [markdown] tags=["predict"]
# With pixels around 0, the mistakes went from 6.0 ± 0.3 to 5.1 ± 0.2 percent.
# **By the rule of thumb, what is that?**
#
# * no result
# * a hint
# * a result


# %% tags=["nbval-ignore-output", "hide-input"]
def ratios(found):
    """Each rung's gain over the rung above, in its own errors."""
    changes = {"0.01, constant": "0.001 → 0.01"}
    return {
        changes.get(name, name.removeprefix("+ ")): (
            (before - after) / math.hypot(error, other)
        )
        for (_, (before, error)), (name, (after, other)) in pairwise(
            found.items()
        )
    }


record = results.read("mnist-ladder")["metrics"]
recorded = {name: record[name]["per_seed"] for name in record}
recorded["+ rise and fall"] = recorded["+ warm-up"]  # on top of "+ cosine"
twenty = with_errors({name: recorded[name] for name in RUNGS})
figures.show(
    *mnist.ruler(
        {"3 seeds": ratios(with_errors(rungs)), "20 seeds": ratios(twenty)}
    )
)

# %% [markdown]
# It's a hint: the gain of 0.9 is about two and a half times its error, $\sqrt{0.3^2 + 0.2^2}
# \approx 0.36$.
#
# In the picture, each row is the gain from one change. The hollow circles are our three seeds,
# the full ones a record of [twenty seeds](#Twenty-seeds), where the pixels are a result.
#
# That record has a surprise: at our rate of 0.01, the gain from the warm-up is about [one of its
# errors](#Solutions), so it's no result. The warm-up stays, because it costs nothing.
#
# A falling rate [doesn't always help](#When-falling-hurts): at 0.001, you get more mistakes than
# with a constant rate, probably because it falls too early.
#
# ## Fifteen epochs
#
# In a long run, a network may learn its digits by heart. Against that, `Shift` moves each image
# at random, by up to a pixel, every time it's used in training. On the ladder it brought nothing,
# but nobody memorises fifty thousand digits in two epochs.
#
# Let's train for fifteen (`LONG`), without shifts and with them. We train `runner`, which shifts
# the images first, but we measure `model`, which doesn't. **Which network will be better on its
# own digits, and which on fresh ones?**

# %% tags=["nbval-ignore-output"]
finished = {}
for name, shift in {"as they are": as_is, "shifted": Shift()}.items():
    model = tiny()
    runner = nn.Sequential(shift, model)
    losses = train(runner, centre(x_learn), y_learn, LONG, lr=0.01)
    finished[name] = model
    learned = accuracy(model, centre(x_learn), y_learn)
    fresh = accuracy(model, centre(x_held), y_held)
    print(f"{name:11}  training {learned:.2%}, held out {fresh:.2%}")

# %% [markdown]
# Without shifts, the network does much better on its own digits than on fresh ones, so it has
# learned some by heart. With shifts, most of that gap is gone, mainly because the training
# accuracy fell.
#
# Here's the run with shifts in red, and in grey the same run at a constant 0.01.

# %% tags=["nbval-ignore-output", "hide-input"]
steady = tiny()
runner, pixels, constant = nn.Sequential(Shift(), steady), centre(x_learn), []
optimizer = torch.optim.AdamW(steady.parameters(), lr=0.01)
for _ in range(LONG):
    for batch in torch.randperm(len(pixels)).split(64):
        turn = train_step(runner, optimizer, pixels[batch], y_learn[batch])
        constant.append(turn)
stayed = accuracy(steady, centre(x_held), y_held)
print(f"shifted, constant rate: held out {stayed:.2%}")

# %% tags=["hide-input"]
steps = len(losses)
rates = [warmup_cosine(t, 0.01, steps, 0.1 * steps) for t in range(steps)]
two_losses = {"constant": torch.stack(constant), "rise and fall": losses}
two_rates = {"constant": [0.01] * steps, "rise and fall": rates}
figures.show(*mnist.runs(two_losses, two_rates, math.ceil(len(x_learn) / 64)))

# %% [markdown]
# The constant rate starts out ahead. Then the red rate sinks, and the red curve pulls away. On
# fresh digits, the constant run makes nearly twice the mistakes.
#
# But are the shifts better, or lucky? On fresh digits, they bought you a third of a percentage
# point. Count the images that only one of the two networks gets right: $a$ without shifts, and
# $b$ with them.

# %% tags=["nbval-ignore-output"]
with torch.no_grad():
    first, second = (
        model(centre(x_held)).argmax(dim=-1) == y_held
        for model in finished.values()
    )
a = (first & ~second).sum().item()
b = (second & ~first).sum().item()
print(f"right only without shifts: {a}, right only with them: {b}")
print(f"difference {b - a} images, standard error {math.sqrt(a + b):.0f}")

# %% tags=["nbval-ignore-output", "hide-input"]
figures.show(*mnist.toss(a, b, "the shifted network"))

# %% [markdown]
# If both networks were equally good, each of these images would be a coin toss that adds 1 to the
# lead $b - a$ or takes 1 away. After $n$ tosses you're typically about $\sqrt{n}$ away from 0, so
# the lead has a standard error of $\sqrt{a + b}$, here 15.
#
# Your lead of 35 is between two and three errors: a hint, and only for this pair of runs. Keeping
# the shifts is a bet, but you know how good a bet.
#
# ## The duel
#
# All choices are made, so we may open the test set. We took one shortcut: the rate comes from
# runs of two epochs, before we centred the pixels.

# %% tags=["nbval-ignore-output"]
model = finished["shifted"]
found = accuracy(model, centre(x_test), y_test)
print(f"{found:.2%} of {len(y_test):,} test images are right")

# %% tags=["nbval-check-output", "hide-cell"]
with torch.no_grad():
    logits = model(centre(x_test))
answers = logits.argmax(dim=-1)
always = y_test.bincount().max() / len(y_test)
assert answers.unique().numel() > 5, "nearly the same answer to every image"
assert found > 3 * always
print("no lazy network, and it was trained")

# %% [markdown]
# That's a single run, but an honest number, because you chose nothing on these images. The linear
# layer gets the same training, with a rate from five short runs of its own.

# %% tags=["nbval-ignore-output", "hide-cell"]
for lr in by_rate:
    torch.manual_seed(0)
    rival = nn.Sequential(Shift(), nn.Flatten(), nn.Linear(784, 10).to(device))
    train(rival, centre(x_learn), y_learn, SHORT, lr)
    mistakes = 100 - 100 * accuracy(rival[1:], centre(x_held), y_held)
    print(f"linear layer, rate {lr}: {mistakes:.1f}% held-out mistakes")

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
rival = nn.Sequential(Shift(), nn.Flatten(), nn.Linear(784, 10).to(device))
train(rival, centre(x_learn), y_learn, LONG, lr=0.01)
print(f"linear {accuracy(rival[1:], centre(x_test), y_test):.2%}")


# %% [markdown]
# Your ViT wins, and it isn't close: the linear layer makes more than four times the mistakes.

# %% [markdown] tags=["predict"]
# One more rival steps into the ring: three small convolutions with 7,768 weights. Each slides a
# window of 3×3 pixels over the image and applies the same few weights at every place. They train
# exactly as your ViT did. **How many digits will the convolutions misread?**
#
# * more than your ViT
# * about as many
# * fewer than half as many


# %%
def convolutions():
    """Three layers and a head: (b, 1, 28, 28) -> (b, 10)."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 42, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(42, 10)),
    )


# %% tags=["nbval-check-output", "hide-cell"]
sizes = [
    sum(p.numel() for p in each.parameters())
    for each in (rival, convolutions(), tiny())
]
assert sizes == [7850, 7768, 7850]
print("weights: linear 7,850, convolutions 7,768, ViT 7,850")

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
third = convolutions().to(device)
train(nn.Sequential(Shift(), third), centre(x_learn), y_learn, LONG, lr=0.01)
print(f"convolutions {accuracy(third, centre(x_test), y_test):.2%}")

# %% tags=["nbval-ignore-output", "hide-input"]
by_tutorial = results.read("mnist-seed")["metrics"]["test_accuracy"]["value"]
right = {
    "linear layer": accuracy(rival[1:], centre(x_test), y_test),
    "ViT, the tutorial's way": by_tutorial / 100,
    "your ViT": found,
    "convolutions": accuracy(third, centre(x_test), y_test),
}
misread = {name: round(10_000 * (1 - each)) for name, each in right.items()}
notes = {"ViT, the tutorial's way": "60,000 images,\nmean of 3 runs"}
figures.show(*mnist.duel(misread, notes))

# %% [markdown]
# Fewer than half! That's a lead of 107 digits, and [its error is at most
# 16](#ViT-against-convolutions). For this pair of runs, it's a result.
#
# The bars show who wins, not why. A likely reason: a stroke stays the same stroke one pixel
# further along. The convolutions are built that way, while your ViT has to learn it from
# examples. But they also do [about four times as many multiplications](#ViT-against-convolutions)
# per image.
#
# The second bar is your network trained [the tutorial's way](#Three-records): twice your
# mistakes, from ten thousand more images. So it matters how you train, and probably what you
# build in. When can a network learn that from examples instead? Much of this book is about that.
#
# ## The ten it got most wrong
#
# These are the ten test digits where your network gave the right answer the least chance. Write
# down your own answers, then open the cell below the picture.

# %% tags=["hide-input"]
each_loss = F.cross_entropy(logits, y_test, reduction="none")
worst = each_loss.topk(10).indices
titles = [f"no. {i}" for i in range(1, 11)]
figure, _ = mnist.digit_grid(x_test[worst], titles)
words = "Ten badly written digits, numbered from 1 to 10, for you to read"
figures.show(figure, f"{words}; the network got all of them wrong.")

# %% tags=["hide-cell", "nbval-ignore-output"]
sure = logits.softmax(dim=-1)
for title, i in zip(titles, worst.tolist(), strict=True):
    true, read = y_test[i], answers[i]
    print(f"{title:6} written {true} ({sure[i, true]:.2%}), ", end="")
    print(f"read {read} ({sure[i, read]:.0%})")


# %% [markdown]
# How many did you get? Some can hardly be read by anyone, but others are plain to you. Perhaps it
# helps that you know how a pen moves. The network has seen fifty thousand digits, and never a pen.
#
# Write a few yourself: [*Try it*](try.md#Learn) trains this network in your browser, then reads
# what you draw.
#
# ## What to take with you
#
# 1. Find the learning rate first, in short runs at rates a factor of three apart, and let it
#    fall to zero at the end.
# 2. Choose on a validation set, and open the test set last.
# 3. Divide a difference by its error: below two it's no result, above three it is one. One run
#    can't tell you how much runs scatter.
#
# **Five questions** ([answers](#Solutions))
#
# 1. Why hold out a validation set, when there's a test set already?
# 2. Why shouldn't you average the accuracies of the batches?
# 3. Why don't Adam's steps shrink when the gradients turn into noise?
# 4. Three runs had 5.9, 6.0 and 6.4% mistakes. You change something, and one run has 5.5%. Is it
#    better?
# 5. Two networks have read the same test images. Which images tell you who's better?
#
# Trained from scratch on small photographs, Vision Transformers are known for poor accuracy.
# **What does a photograph need that a digit doesn't?** That's [chapter 6](06_recipe.ipynb).
#
# ## Exercises
#
# ✎ Write `train_step`, `warmup_cosine` and `accuracy` again from memory. After `from
# vitedu import check`, `check.train_step(train_step)` tells you how closely yours agrees
# with ours, or what's likely to be wrong with it; so do
# `check.warmup_cosine(warmup_cosine)` and `check.accuracy(accuracy)`.
#
# **1.** ★ The short last batch of a test set happens to hold the hardest images. A loop
# averages batch accuracies. Is the printed accuracy too high or too low? Would it help to
# shuffle the test images?
#
# **2.** ★ Suppose twenty learning rates are all equally good, and the mistakes of a run
# scatter around the same mean with a spread of half a percent. You try each rate once on
# the held-out digits and keep the best. By how much will its mistakes look better than
# they are? And where would you read the honest number?
#
# **3.** ★ Two models of about 98% are measured on two *different* test sets of $n$
# images each. How large must $n$ be for a difference of 0.1% to be two standard errors?
# (You need [this error](#A-tenth-of-a-percent), twice.)
#
# **4.** ★★ With the record's twenty seeds, the warm-up's gain at 0.01 is about one of its errors.
# If the gain is real, about how many seeds would make it a result? Guess what three seeds will
# say, then compare `climb(seed, 0.01, fall)` with `climb(seed, 0.01, train)`.
#
# **5.** ★★ Put the 16 patches of every test image into another order, the same for all
# images. Attention doesn't care about order ([chapter 2](02_attention.ipynb)). What
# accuracy do you expect from the trained network, and why?
#
# **6.** ★★★ The network of `mnist-tiny` still has a class token, though its head reads
# the mean of the patches. Could the token matter all the same? Plan an experiment that
# decides whether to remove it. (`config = recipe("mnist-tiny", "cpu").model` describes
# the network, `replace(config, class_token=False)` the one without, and `PackageViT`
# builds either.)
#
# ## Second reading
#
# ### Adam in four lines
#
# The main path left out where $\hat m$ and $\hat v$ come from. Adam keeps a running mean
# $m$ of the gradients, in which each new one counts for a tenth, and a running mean $v$ of
# their squares, in which each new one counts for a thousandth. Both start at zero, so at
# first they're too small: after $t$ steps only the share $1 - 0.9^t$ of $m$ comes from
# gradients, and the rest is still the zero of the start. Divide by that share and you
# have $\hat m$, and $\hat v$ in the same way. The root gets a tiny number on top, in case
# it's 0.


# %%
def adam(weight, grad, m, v, t, lr):
    """Adam's step t = 1, 2, ...: the new weight and the new means."""
    m = 0.9 * m + 0.1 * grad
    v = 0.999 * v + 0.001 * grad**2
    m_hat, v_hat = m / (1 - 0.9**t), v / (1 - 0.999**t)
    return weight - lr * m_hat / (v_hat.sqrt() + 1e-8), m, v


# %% tags=["nbval-check-output", "hide-cell"]
weight, m, v = torch.linspace(-1, 1, 5), torch.zeros(5), torch.zeros(5)
theirs = weight.clone().requires_grad_()
optimizer = torch.optim.Adam([theirs], lr=0.001)
for t in range(1, 6):
    theirs.grad = torch.sin(t * torch.arange(1.0, 6.0))  # any gradients
    weight, m, v = adam(weight, theirs.grad, m, v, t, 0.001)
    optimizer.step()
assert torch.allclose(weight, theirs, rtol=0, atol=1e-6)
print("five steps give the weights of torch.optim.Adam")

# %% [markdown]
# Why did we look at the head alone? It starts at zero (chapter 4), and zeros pass no gradient
# down. So in the very first step the blocks below had the gradient 0, and waited.
#
# ### Three networks that never look
#
# Does it matter how you count? Suppose you average the accuracies of the batches. The last batch
# is usually smaller, but it then counts as much as a full one. [Notebook
# 08](https://github.com/mrdbourke/pytorch-deep-learning/blob/main/08_pytorch_paper_replicating.ipynb)
# of a much loved PyTorch course counts that way. It tests its network on 75 photographs of food,
# sorted by class, in batches of 32. Let's measure three "networks" that way, each of which gives
# every photograph the same answer.

# %% tags=["failure"]
truth = torch.tensor([0] * 25 + [1] * 19 + [2] * 31)
for answer in range(3):
    batches = [(part == answer).float().mean() for part in truth.split(32)]
    measured = sum(batches) / len(batches)
    real = (truth == answer).float().mean()
    print(f"always {answer}: measured {measured:.2%}, really {real:.2%}")


# %% [markdown]
# Every measurement is wrong, because the last batch holds only eleven images. Now look at that
# notebook's ten epochs of training from scratch. Their test accuracies are these three numbers,
# and no others, so very likely its network never looked, either.
#
# Our `accuracy` counts right answers, so it doesn't matter how the batches are cut.


# %% tags=["nbval-check-output", "hide-cell"]
def always_two(images):
    """Ten logits for each image, and class 2 has the largest."""
    return F.one_hot(torch.full((len(images),), 2), 10)


counted = [accuracy(always_two, truth, truth, size) for size in (7, 32, 75)]
assert counted == [31 / 75] * 3
print("always 2 is right for 31 of 75, with batches of 7, 32 and 75")

# %% [markdown]
# ### When falling hurts
#
# On the ladder, 0.001 stays constant, and you get fewer mistakes than in the run at 0.001 where
# the rate rose and fell. But that was a single run, so here are three of each, over two epochs:

# %% tags=["nbval-ignore-output"]
fallen = [climb(seed, 0.001) for seed in SEEDS]
both = {"constant": rungs["0.001, constant"], "rise and fall": fallen}
for name, (mean, error) in with_errors(both).items():
    print(f"0.001, {name:13} {mean:4.1f} ± {error:.1f}% mistakes")

# %% [markdown]
# The difference is about four of its errors: a result. At this rate the weights are probably still
# on their way after two epochs, and a falling rate stops them before they arrive.
#
# ### Which digits it confuses
#
# The mistakes on the test set, by what was written and what the network read. The right
# answers on the diagonal are left out, or you'd see nothing else.

# %% tags=["hide-input"]
counts = (10 * y_test + answers).bincount(minlength=100).view(10, 10)
figures.show(*mnist.confusion(counts, data.class_names))

# %% [markdown]
# The five brightest cells hold more than a quarter of all the mistakes, and in most of
# them the two digits share many of their strokes. A 4 whose top closes is a 9, and a 5
# and a 3 have the same lower half.
#
# Is a 4 taken for a 9 more often than a 9 for a 4? It's 15 against 6, and by the coin toss the
# difference of 9 has an error of $\sqrt{21} = 4.6$: just under two, no result. And we picked that
# cell because it was the brightest of ninety, which makes even that ratio flattering.
#
# ### Twenty seeds
#
# In the picture of gains, the full circles come from the same ladder with twenty seeds, which we
# ran once and recorded. The record has the fall and the warm-up as separate rungs; our "+ rise
# and fall" is the record's rung with both. Errors shrink with the square root of the number of
# seeds, so the ratio of a real gain to its error should grow about $\sqrt{20/3} \approx 2.6$
# times. None of the ratios grows as much as that, perhaps because three seeds hardly know their
# own spread. Still, what they called a result holds up. And the shifts, two epochs long, lean the
# wrong way, if at all.
#
# Two details: the standard deviation of $n$ runs divides by $n - 1$, and our rungs share their
# seeds, so adding their squared errors is only approximate.
#
# ### A tenth of a percent
#
# If a model is right with probability $p$, its accuracy on $n$ images has a standard error of
#
# $$ \sigma = \sqrt{\frac{p \, (1 - p)}{n}} $$
#
# With $p = 0.98$ and $n = 10{,}000$ that's 0.14%, or fourteen images. If two models differ by
# ten images, on two *different* test sets, it means nothing.
#
# ### Three records
#
# The tutorial's way is `mnist-seed`: your network, fifteen epochs of plain Adam at a
# constant 0.001, on all 60,000 images. That's the second bar of the duel, with 374 misread
# digits on average.
# `mnist-tiny` is a ViT of the same size with a recipe tuned further, and `mnist-small` a
# larger one.

# %% tags=["nbval-ignore-output", "hide-input"]
for name in ("mnist-seed", "mnist-tiny", "mnist-small"):
    record = results.read(name)
    metric = record["metrics"]["test_accuracy"]
    seeds = ", ".join(f"{value:.2f}" for value in metric["per_seed"])
    print(f"{name:11} {metric['value']:.2f}% (runs: {seeds})")

# %% [markdown]
# ### ViT against convolutions
#
# The paper's comparison begins just like ours. Its ViTs overtake the ResNets, which are deep
# convolutional networks, only when they're trained on far more images than ImageNet has (Figures
# 3 and 4).
#
# How large is the error of our lead of 107? By the coin toss, it's $\sqrt{a + b}$. Only your ViT
# can be right on the convolutions' 79 mistakes, so the number of digits that it alone gets right
# is at most 79. Likewise, the convolutions alone can be right on at most your ViT's 186 mistakes.
# So the error is at most $\sqrt{79 + 186} \approx 16$.
#
# And how hard do they work? A convolution uses its weights at every place, so our three do $28^2
# \cdot 72 + 14^2 \cdot 1{,}152 + 7^2 \cdot 6{,}048 \approx 579{,}000$ multiplications per image.
# (Those are their weights, without biases.) Your ViT uses its patch embedding for 16 patches and
# the weights of its blocks for 17 tokens. With the products of queries, keys and values, that's
# about $16 \cdot 784 + 2 \cdot 17 \cdot 3{,}072 + 2 \cdot 2 \cdot 17^2 \cdot 16 \approx
# 135{,}000$. So the ViT shares weights across places, too, but only from patch to patch.
#
# ### Where it looks, and what it needs
#
# The head reads the class token, so there's one natural attention map per image: how much
# the class token takes from each patch in the last block, averaged over the two heads.
# It's tempting to read such a map as "what mattered". There's a test for that. Blank one
# patch, see how much the loss rises, and do it for all sixteen.
#
# Blank it with what? With −1, the patch becomes empty paper. But then a patch that was
# empty anyway can't make any difference, so damage follows ink by construction. So we do
# it a second time, with the mean of that patch over all the training digits. (A hidden
# cell loads your weights into the package's network, which can record attention maps.)

# %% tags=["nbval-check-output", "hide-cell"]
recorder = PackageViT(recipe("mnist-seed", "cpu").model).eval().to(device)
recorder.load_state_dict(model.state_dict())
pictures = centre(x_test)
with record_attention(recorder) as maps, torch.no_grad():
    same = recorder(pictures)
assert torch.allclose(same, logits, atol=1e-3)
taken = maps[-1].mean(dim=1)[:, 0, 1:]  # (b, 16), by the class token
mean_digit = centre(x_learn).mean(dim=0)
fills = {"paper": -torch.ones_like(mean_digit), "mean": mean_digit}
rises = {name: torch.zeros_like(taken) for name in fills}
for name, fill in fills.items():
    for place in range(16):
        row, column = 7 * (place // 4), 7 * (place % 4)
        window = (..., slice(row, row + 7), slice(column, column + 7))
        blanked = pictures.clone()
        blanked[window] = fill[window]
        with torch.no_grad():
            loss = F.cross_entropy(model(blanked), y_test, reduction="none")
        rises[name][:, place] = loss - each_loss
print("16 shares of attention and 16 rises of the loss for each image")

# %% tags=["hide-input"]
share = 100 * taken.mean(0).view(4, 4)
cost = rises["paper"].mean(0).view(4, 4)
names = ["attention of the\nclass token (%)", "rise of the loss\nwhen blanked"]
figures.show(*mnist.two_maps(share, cost, names))


# %% [markdown]
# Both maps are means over all test images. For the map on the right, each patch in turn was
# blanked with paper. (The shares on the left don't add up to 100%, because the class token also
# takes something from itself.) Even on average, the maps disagree: the class token takes most from
# one patch, and blanking another hurts most.
#
# Do they agree image by image? Over the 16 patches of an image, we correlate the rise of
# the loss (1 is perfect agreement, 0 none) with three things: the image's own attention
# map, the map of *another* image, and simply how much ink there is in each patch.


# %% tags=["nbval-ignore-output", "hide-input"]
def correlation(one, other):
    """Of two (b, 16), over the patches: (b,)."""
    one = one - one.mean(dim=1, keepdim=True)
    other = other - other.mean(dim=1, keepdim=True)
    sizes = (one.norm(dim=1) * other.norm(dim=1)).clamp(min=1e-12)
    return (one * other).sum(dim=1) / sizes


ink = patchify(x_test, 7).mean(dim=-1)  # (b, 16)
rivals = {"own map": taken, "other map": taken.roll(1, dims=0), "ink": ink}
print("blanked with   " + "   ".join(f"{name:>11}" for name in rivals))
for name, rise in rises.items():
    line = f"{name:14} "
    for rival in rivals.values():
        found = correlation(rival, rise)
        error = found.std() / math.sqrt(len(found))
        line += f" {found.mean():6.3f} ± {error:.3f}"
    print(line)

# %% [markdown]
# With paper, the map of an image agrees with the damage a little better than the map of
# some *other* digit does, and with the mean patch the lead is smaller still. Both leads
# are more than three errors, so they're real, but they're small. And plain ink, which
# knows nothing about the network, beats both maps, even with the mean patch.
# (An inky patch is usually far from the mean, too, so some of that may be built in.)
#
# So be careful with the sentence "it looks at the loop of the 9". A map shows where values
# are taken from. By the last block, though, every token is already a mixture of many
# patches, so what's taken from the token of a patch isn't only that patch. A map suggests
# what to test, and blanking is such a test.
#
# ### A race to 96%
#
# How long until 96% of the test images are right? We raced `mnist-tiny`, with its images in
# memory, against a loop with four habits from blog posts: Adam at a constant 0.001, $\tanh$ on
# the logits, positions and class token of size 1, and a loader that fetches each image by itself.
# Both have the same number of weights, and they took turns on the same processor.

# %% tags=["nbval-ignore-output", "hide-input"]
race = results.read("mnist-time-to-96")
for side in ("usual", "vitedu", "ratio"):
    measured = race["metrics"][side if side == "ratio" else f"{side}_seconds"]
    unit = "" if side == "ratio" else " s"
    seeds = ", ".join(f"{value:.1f}" for value in measured["per_seed"])
    print(f"{side:6} median {measured['value']:4.1f}{unit} (seeds: {seeds})")
print(f"{race['hardware']}, {race['date']}")
print(race["command"])

# %% [markdown]
# `mnist-tiny` is nearly nine times as fast. The record doesn't say how much each of the four
# habits costs.
#
# ## Where this is in the paper
#
# | here | in the paper |
# |---|---|
# | rate, warm-up, decay of the rate | section 4.1 and Table 3 |
# | a validation set for choosing | the development sets behind Table 4 |
# | three seeds and their spread | Table 2: mean and deviation of three fine-tuning runs |
# | class token or mean of the patches | appendix D.3 |
# | ViT against convolutions | Figures 3 and 4, by number of training images |
#
# ### What differs
#
# | | the paper, on ImageNet | here |
# |---|---|---|
# | optimizer, batch | Adam, 4,096 images | AdamW, 64 images |
# | highest rate | 0.003 | 0.01 |
# | warm-up | 10,000 steps | a tenth of the steps (the first has the rate 0, so it teaches nothing) |
# | weight decay | 0.3 | 0.01 |
# | dropout | 0.1 | none |
# | gradients clipped | at norm 1 | no |
# | images | cropped at random, mirrored | shifted: a mirrored 3 isn't a 3 |
#
# The paper's numbers are in its Table 3. On the larger sets, its rate falls in a straight line.
#
# ## Three readings
#
# * [Loshchilov and Hutter 2019](https://arxiv.org/abs/1711.05101) explain the W in AdamW:
#   why `weight_decay` means two different things in Adam and in AdamW.
# * [Beyer et al. 2022](https://arxiv.org/abs/2205.01580) do for ImageNet what our ladder
#   does for digits: one small ViT, a few plain changes, and a number for each.
# * [Defazio et al. 2024](https://arxiv.org/abs/2405.15682) disagree with our section on
#   rise and fall. They drop the decay of the rate, average the weights along the way
#   instead, and don't need to know beforehand when the training will end.
#
# ## Solutions
#
# <details><summary>The five questions</summary>
#
# 1. What you choose on looks better than it is. The validation set is for choosing, so that
#    the test set can tell you the truth once.
# 2. The last batch is usually smaller, and its images would count for more than the others.
# 3. Adam divides by the size of the recent gradients, and if those are noise, that's noise
#    divided by noise.
# 4. You can't tell: one run can't show how much such runs scatter. If they scatter like
#    the other three, the difference of 0.6 has an error of about 0.3. That's two errors, from
#    very few runs.
# 5. Those that only one of the two gets right. If both networks were equally good, each of
#    these would be a coin toss, so their difference has an error of $\sqrt{a + b}$.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# Too low: each image of the short batch counts as much as several others, and these are
# the hard ones. Shuffling doesn't repair it. The error then has no fixed direction, but
# there's a different one in every run. Counting repairs it.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# By nearly one percent. The lowest of twenty such numbers is on average almost two
# spreads below their mean (the cell below draws them), and a spread is half a percent.
# Run the winner again with new seeds, and its luck is gone: it's no better than the rest.
# For a number to report, take images that had no part in the choice, the test set.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
draws = 0.5 * torch.randn(10_000, 20)
best = draws.amin(dim=1).mean()
print(f"the best of twenty looks {-best:.2f} percent better than it is")

# %% [markdown]
# <details><summary>Solution 3</summary>
#
# The errors of two independent measurements add as squares, so the difference has a standard error
# of $\sqrt{2 p (1 - p) / n}$. It must be 0.0005, which gives $n = 2 \cdot 0.98 \cdot 0.02 /
# 0.0005^2 = 156{,}800$ images in each test set. That's why models are compared on the same images.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# About 180. The ratio must grow from one to three, so the error must shrink to a third, and that
# takes nine times as many seeds. Three seeds can say nearly anything, because their error is more
# than twice that of twenty. Perhaps the first steps at 0.01 are short enough as they are. Deep
# Transformers are another matter: without warm-up they can fail to train at all ([Liu et al.
# 2020](https://arxiv.org/abs/2004.08249)). The cell below prints the record's means.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
without, with_it = (
    with_errors({name: recorded[name]})[name]
    for name in ("+ cosine", "+ warm-up")
)
print(
    f"20 seeds without warm-up: {without[0]:.2f} ± {without[1]:.2f}%", end=", "
)
print(f"with it: {with_it[0]:.2f} ± {with_it[1]:.2f}%")

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# A low one. Attention alone wouldn't notice, but before the first block each patch gets
# the position embedding of the place it's put in. A stroke from the top that turns up at
# the bottom is read as a stroke at the bottom, and the digit falls apart. The cell below
# tries it.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
elsewhere = torch.randperm(16, generator=torch.Generator().manual_seed(0))
shuffled = rearrange(
    patchify(centre(x_test), 7)[:, elsewhere],
    "b (gh gw) (p q c) -> b c (gh p) (gw q)",
    gh=4,
    p=7,
    q=7,
)
print(f"{accuracy(model, shuffled, y_test):.0%} of the shuffled images")

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# It could: the patch tokens attend to it, and what they take from it enters the mean.
# Train with and without it, all else equal, on the images to learn from, for all
# epochs and with at least three seeds. Compare on the held-out images, image by image,
# and divide by the standard error. Say beforehand which difference would make you keep
# it. Without the token the network is smaller by 32 weights, the token and its position,
# so a tie is a reason to drop it.
#
# </details>
