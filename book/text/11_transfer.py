# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · about five minutes of computing on a laptop, no GPU needed · about 2 minutes on a T4 (predicted)

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Transfer: glass, paper, metal
#
# Somebody has to sort the rubbish. Here's some of it, photographed piece by piece by Gary
# Thung and Mindy Yang. They sorted 2,527 such photographs by material
# ([TrashNet](https://github.com/garythung/trashnet), MIT licence): cardboard, glass, metal,
# paper, plastic, and *trash*, which is whatever fits nowhere else.
#
# Before you read on, sort these twelve yourself, and write your answers down. At the end of
# this page you'll compete with two networks.

# %% tags=["nbval-ignore-output", "hide-input"]
import math
import os
import tempfile
from collections import Counter
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from vitedu import figures, results
from vitedu.data import Augment, ImageSource, folder_of, load_folder
from vitedu.evaluate import features, linear_probe
from vitedu.figures import photos
from vitedu.figures.chapters import transfer
from vitedu.plain import ViT, accuracy, train_step, warmup_cosine
from vitedu.train import find_device
from vitedu.train.finetune import tier_of

torch.set_num_threads(1)
TIER = os.environ.get("VITEDU_TIER") or tier_of("auto")
device = find_device("auto" if TIER == "gpu" else "cpu")
print(f"tier {TIER}, seed 0, {device}, torch {torch.__version__}")

# %% tags=["hide-input"]
# epochs on sixty photographs, and on all of TrashNet (0: the recorded run);
# steps that are watched
SIZES = {"smoke": (1, 0, 1), "cpu": (12, 0, 5), "gpu": (12, 5, 5)}
EPOCHS, MORE, WATCHED = SIZES[TIER]
BATCH = 12
scratch = tempfile.TemporaryDirectory()
here = Path(scratch.name)  # a folder that goes away with this notebook
waste = load_folder(folder_of("trashnet-small"))
real = vitedu.load("ViT-Ti/16").to(device)
source = ImageSource(waste.test, real.preprocess, device=device)
x_test, y_test = next(source.batches(batch_size=len(source)))
pixels = x_test.cpu() / 2 + 0.5  # (60, 3, 224, 224) in 0..1
KINDS = waste.class_names

# %% tags=["hide-input"]
ORDER = (4, 1, 2, 5, 0, 3, 1, 5, 3, 4, 2, 0)  # kinds, each twice
TWELVE = [  # rows of the sixty, which are sorted by kind
    10 * kind + (8 if kind in ORDER[:place] else 3)
    for place, kind in enumerate(ORDER)
]
shown = {f"{place + 1}": pixels[row] for place, row in enumerate(TWELVE)}
words = "Twelve photographs of waste on white, numbered, two of each kind."
figures.show(*photos.pictures(shown, words, columns=3))

# %% [markdown]
# Not so easy, is it? Clear things may be glass or plastic. ViT-Ti/16 knows a thousand words,
# but it has never sorted anything. What would it say? Let's show it sixty photographs, ten of
# each kind, and print its three most frequent answers for each kind. (`real` is the trained
# network.)

# %% tags=["nbval-ignore-output"]
with torch.no_grad():
    logits = torch.cat([real(x) for x in x_test.split(20)])  # (60, 1000)
words = [real.class_names[i] for i in logits.argmax(dim=-1)]
for kind, name in enumerate(KINDS):
    said = Counter(w for w, y in zip(words, y_test.tolist()) if y == kind)
    print(f"{name:9}", *(word for word, _ in said.most_common(3)), sep="  ")

# %% [markdown]
# It sees *things*: a carton, a pill bottle, a packet. ImageNet asks what a thing is, and
# hardly ever what it's made of. There's no class *glass* or *metal* among the thousand, and
# a packet may be made of anything.
#
# Your own photographs may well need words that it doesn't have. **How do you teach a trained
# network words of your own, with ten photographs for each?**
#
# ## First, train nothing
#
# The cheapest idea is to leave the network alone and only replace its head. Without a head, the
# network turns each photograph into 192 numbers, its *features*. On those you train a linear
# classifier with the package's `linear_probe`. It learns from sixty more photographs, again ten of
# each kind.

# %% tags=["nbval-ignore-output"]
known = features(real, waste.train)  # (60, 192), and their labels
unseen = features(real, waste.test)
probe = linear_probe(real, known)
before = probe.logits(unseen.features)
right = (before.argmax(dim=1) == unseen.labels).sum().item()
print(f"{right} of 60, where guessing gives 10")


# %% [markdown]
# Seven out of ten, although only the head has learned anything about waste. Much of what it takes
# to tell these materials apart was in the network all along, but nobody had asked for it. That
# makes 42 the number to beat: if training all 5.5 million weights doesn't do better, why bother?
#
# ## A head of zeros
#
# Now the whole network. We load the trained weights into your class from chapter 4, then
# swap its head for a new one, with six outputs, all its weights and biases zero:


# %%
def with_new_head(num_classes):
    """The trained ViT, with a head of zeros."""
    model = ViT()
    model.load_state_dict(real.state_dict())
    model.head = nn.Linear(192, num_classes)
    for weight in model.head.parameters():
        nn.init.zeros_(weight)
    return model.to(device)


# %% [markdown] tags=["predict"]
# A head of zeros gives every photograph the same six logits, all 0. **What's the loss of
# this network on its first photographs?**

# %%
zeros = with_new_head(6)
loss = F.cross_entropy(zeros(x_test[:4]), y_test[:4])
print(f"loss {loss:.4f}, and ln 6 is {math.log(6):.4f}")

# %% [markdown]
# Equal logits give each class a sixth, and $-\ln\frac16 = \ln 6$.
#
# Which weight tensors get a gradient from this loss? Let's compare with a random head:

# %%
random = with_new_head(6)
random.head.reset_parameters()  # PyTorch's random values
for name, model in {"zeros": zeros, "random": random}.items():
    F.cross_entropy(model(x_test[:4]), y_test[:4]).backward()
    moved = [bool(w.grad.any()) for w in model.parameters()]
    print(f"head of {name:6}: {sum(moved)} of {len(moved)} have a gradient")

# %% [markdown]
# On its way down to the other layers, a gradient is multiplied by the head's weights. While these
# are zero, nothing gets through: only the head's own two tensors have a gradient, its weights and
# its biases. The head takes the first step alone, and the trained weights wait. A random head would
# move them all at once, although it knows nothing yet. The paper starts from zeros ([Dosovitskiy et
# al. 2021](https://arxiv.org/abs/2010.11929)), and we'll soon see what that's worth.
#
# ## A heavy ball and gentle pushes
#
# Chapter 5 used AdamW, which gives every weight steps of about the same length, however small its
# gradient. But our weights are trained already, so a tiny gradient may well mean that a weight is
# fine where it is. Plain gradient descent respects that: a tiny gradient makes a tiny step. The
# paper uses it with two additions.
#
# The first is *momentum*. Imagine a heavy ball rolling downhill: each batch gives it a
# push, and from one step to the next it keeps nine tenths of its speed. Give it three pushes
# of 1, and its speed is 1, then $0.9 + 1 = 1.9$, then 2.71.
#
# In symbols, the gradient $g$ pushes the *velocity* $v$, and the weight $w$ moves downhill
# by the velocity times the rate $\eta$:
#
# $$ v \leftarrow 0.9\,v + g \qquad\qquad w \leftarrow w - \eta\,v $$

# %% tags=["hide-input"]
cases = {"ten batches agree": [1.0] * 10, "ten disagree": [1.0, -1.0] * 5}
rolling = {}
for name, gradients in cases.items():
    v, rolling[name] = 0.0, []
    for g in gradients:
        v = 0.9 * v + g
        rolling[name].append(v)
figures.show(*transfer.momentum(cases, rolling))

# %% [markdown]
# When the batches agree, the velocity grows, but not forever: at $v = 10$, the tenth of its speed
# that the ball loses is 1, exactly what the next push adds. When the batches disagree, their pushes
# mostly cancel, and the velocity never gets beyond a single push.
#
# The second addition limits each push. In plain gradient descent a huge gradient makes a huge step,
# and we don't want that with weights that took so long to train. So we treat the gradients of all
# the weight tensors as *one* long vector. If it's longer than 1, we shrink it to length 1,
# and it keeps its direction. This is called *clipping* ([Pascanu et al.
# 2013](https://arxiv.org/abs/1211.5063)):

# %% tags=["hide-input"]
figures.show(*transfer.clipping([0.6, 3]))


# %% [markdown]
# Now the step in code. For each weight tensor, `velocities` holds a tensor that starts as zeros.
# `norm` is the length of the one long vector, and `g` is one tensor's gradient after
# clipping. (Here's the step [as a drawing](#Your-step-as-a-drawing).)


# %%
def finetune_step(weights, velocities, loss, rate):
    """Clip, push, move; returns the gradient's length before clipping."""
    loss.backward()
    norm = torch.stack([w.grad.norm() for w in weights]).norm().item()
    shrink = min(1.0, 1.0 / norm)
    with torch.no_grad():
        for w, v in zip(weights, velocities):
            g = w.grad * shrink
            v.mul_(0.9).add_(g)
            w.sub_(rate * v)
            w.grad = None
    return norm


# %% tags=["hide-cell"]
from dataclasses import replace

from vitedu.train import recipe
from vitedu.train import train_step as package_step
from vitedu.train.optimizer import optimizer_of
from vitedu.train.precision import build_precision
from vitedu.train.schedule import build_schedule
from vitedu.train.step import TrainState

torch.manual_seed(0)
sizes = {"image_size": 32, "patch_size": 16, "depth": 2, "num_classes": 2}
config = replace(recipe("trashnet", "cpu"), epochs=None, steps=6)
theirs = vitedu.vit("ViT-Ti/16", **sizes).double()
ours = ViT(32, num_classes=2, depth=2).double()
with torch.no_grad():
    theirs.head.weight.normal_()  # so that gradients are long and clipped
ours.load_state_dict(theirs.state_dict())
optimizer = optimizer_of(theirs, config)
state = TrainState(
    *(config, theirs.train(), optimizer),
    *(
        build_schedule("cosine", 0.01, 6, 0.5),
        build_precision("fp32", torch.device("cpu")),
    ),
)

# %% tags=["nbval-check-output", "hide-cell"]
ours_weights = list(ours.parameters())
ours_velocities = [torch.zeros_like(w) for w in ours_weights]
lengths = []
for number in range(6):
    x, y = torch.randn(8, 3, 32, 32).double(), torch.randint(2, (8,))
    package_step(state, (x, y))
    rate = warmup_cosine(number, 0.01, 6, 3)
    loss = F.cross_entropy(ours(x), y)
    lengths.append(finetune_step(ours_weights, ours_velocities, loss, rate))
assert max(lengths) > 1, "nothing was clipped"
for mine, other in zip(ours_weights, theirs.parameters(), strict=True):
    # PyTorch's clipping adds a millionth to the length
    assert torch.allclose(mine, other, rtol=0, atol=1e-6)
print("check: six steps give the weights of the package's own step")

# %% [markdown]
# ## Never the same photograph twice
#
# Show a network the same sixty photographs again and again, and it learns them by heart. To make
# that harder, we never show it quite the same picture twice. Each time, we cut out a random box of
# at least three tenths of the area, stretch it to a square of 224 pixels, and toss a coin to
# decide whether to mirror it. Here are two photographs. The left column has the boxes of three
# epochs, and beside it is what each box cut out (M means mirrored):

# %% tags=["hide-input"]
from vitedu.data.augment.augment import BOX, GEOMETRY
from vitedu.data.feed.pictures import Epoch

cropped = Augment(crop=0.3, flip=True)
views = ImageSource(waste.train, real.preprocess, augment=cropped)
plain = ImageSource(waste.train, real.preprocess)
chosen = {"glass": 17, "metal": 20}
whole = next(plain.batches(batch_size=len(plain)))[0] / 2 + 0.5
cut, boxes, mirrored = [], [], []
for epoch in range(3):
    cut.append(next(views.batches(batch_size=60, epoch=epoch))[0] / 2 + 0.5)
    drawn = Epoch(views, epoch, 0)[list(range(60))][2]
    mirrored.append(drawn[:, GEOMETRY.index("flip")] != 0)
    y, x, height, width = drawn[:, BOX].T
    left, top = (1 + x - width) / 2, (1 + y - height) / 2
    boxes.append(torch.stack([left, top, width, height], dim=1))
cut, boxes = torch.stack(cut, dim=1), torch.stack(boxes, dim=1).tolist()
mirrored = torch.stack(mirrored, dim=1).tolist()

# %% tags=["hide-input"]
figures.show(
    *transfer.crops(
        {
            name: (whole[i], boxes[i], cut[i], mirrored[i])
            for name, i in chosen.items()
        }
    )
)

# %% [markdown]
# A mirrored can is still a can. In code, all this is the argument `augment`, and `views` makes new
# cuts in every epoch:

# %%
views = ImageSource(
    waste.train,
    real.preprocess,
    augment=Augment(crop=0.3, flip=True),
    shuffle=True,
    device=device,
)


# %% [markdown]
# ## Twelve epochs
#
# Let's put it all together, with the warm-up and cosine of [chapter 5](05_mnist.ipynb). Twelve
# photographs make a batch, so an epoch takes five steps:


# %%
def finetune(model, views, epochs, lr, batch_size=12):
    """Train all the weights; (loss, gradient's length) of every step."""
    weights = list(model.parameters())
    velocities = [torch.zeros_like(w) for w in weights]
    num_steps = epochs * math.ceil(len(views) / batch_size)
    log = []
    for epoch in range(epochs):
        for x, y in views.batches(batch_size=batch_size, epoch=epoch):
            rate = warmup_cosine(len(log), lr, num_steps, 0.1 * num_steps)
            loss = F.cross_entropy(model(x), y)
            norm = finetune_step(weights, velocities, loss, rate)
            log.append((loss.item(), norm))
    return log


# %% [markdown] tags=["predict"]
# On the sixty test photographs, the number to beat is 42. Now all 5.5 million weights learn, which
# takes a minute or two. (`EPOCHS` is 12, and `accuracy` is chapter 5's.) **How many will be right
# this time?**

# %% tags=["nbval-ignore-output"]
torch.manual_seed(0)
tuned = with_new_head(6)
log = finetune(tuned, views, EPOCHS, lr=0.01)
right = round(60 * accuracy(tuned, x_test, y_test, batch_size=20))
print(
    f"loss {log[0][0]:.2f} -> {log[-1][0]:.2f}, {right} of 60 test photographs"
)

# %% tags=["nbval-ignore-output", "hide-input"]
losses, lengths = zip(*log)
longer = sum(g > 1 for g in lengths) / len(lengths)
print(f"in {longer:.0%} of the steps the gradient was clipped")
figures.show(*transfer.run(losses, lengths))

# %% [markdown]
# All that work, and we've gained nothing! It's two fewer than the linear classifier got in seconds,
# and with only sixty photographs, a difference of two is a tie. Yet the loss is nearly zero: the
# network seems to have memorised its training photographs.
#
# The lower curve shows the gradient's length before clipping. In the first twenty steps it was
# about ten times what we allow: without clipping, the ball would have been pushed ten times as
# hard.
#
# Did training at least change *which* answers are right? Here are six of the sixty: on the left
# two that it mended, in the middle two that it spoiled, and on the right two that are wrong both
# times. Below each are two answers: *frozen* is the linear classifier on the untouched network, and
# *tuned* is the network that you've just trained.

# %% tags=["nbval-ignore-output", "hide-input"]
with torch.no_grad():
    after = torch.cat([tuned(x) for x in x_test.split(20)]).cpu()
became = transfer.changed(before, after, unseen.labels)
print(", ".join(f"{len(rows)} {name}" for name, rows in became.items()))
# two of each, and none of the twelve
some = [[i for i in rows if i not in TWELVE][:2] for rows in became.values()]
six = [row for each in zip_longest(*some) for row in each if row is not None]
said = {
    name: transfer.told(logits[six], unseen.labels[six], KINDS)
    for name, logits in {"frozen": before, "tuned": after}.items()
}
titles = [KINDS[unseen.labels[i]] for i in six]
figures.show(*transfer.answers(pixels[six], titles, said))

# %% [markdown]
# Only six of the sixty changed sides, four of them for the worse: the apple core is metal now. And
# about the two glass jars, the network isn't any wiser, only surer. ([Where did it
# look?](#What-did-your-network-look-at?))
#
# ## Was it worth the trouble?
#
# We started from a head of zeros, we did without AdamW, and we trained all 5.5 million weights. Did
# any of that help? Sixty test photographs are too few to tell. Fortunately, TrashNet's authors set
# aside 431 for testing, and others for choosing settings, the *validation part*.
#
# We trained again on your sixty photographs, twelve epochs with three seeds each: once with your
# step, once with a random head, and once with AdamW. Your step and AdamW need rates of very
# different sizes, so we chose one for each on the validation part ([second
# reading](#Which-rates-we-tried)). We never left out momentum or clipping, so we can't say what
# those are worth.
#
# By the end, every run got all sixty of its training photographs right. Only the 431 can tell the
# runs apart:

# %% tags=["hide-input"]
record = results.read("trashnet-finetune")["metrics"]
frozen = results.read("trashnet-frozen")["metrics"]
ways = {
    "your step": "momentum",
    "random head": "momentum, random head",
    "AdamW": "adamw",
}
found = {name: record[f"test/{way}"]["per_seed"] for name, way in ways.items()}
found["head alone"] = [frozen["small_probe/431"]["value"]]
figures.show(*transfer.compared(found))
on_their_own = {  # percent of the sixty that they learned from
    each for way in ways.values() for each in record[f"train/{way}"]["per_seed"]
}
print(f"on their own sixty, all nine runs: {min(on_their_own):.0f}% right")
assert (probe.logits(known.features).argmax(1) == known.labels).all()

# %% [markdown]
# AdamW costs you six points, and a random head costs you eight. The random head had the same rate
# as yours, and we didn't try whether another rate suits it better. Why so much harm? In the [second
# reading](#Who-moves-first) we watch both heads at work.
#
# And then there's the last row, the linear head on the untouched network. (Nothing in it is random,
# so it has a single dot.) It's as good as your step: the difference is three photographs!
# Perhaps ten photographs of each kind are enough to tell the network what we call the things it
# sees, but too few to teach it to see better.
#
# ## Thirty times as many
#
# Let's give it more to learn from: all 1,768 photographs that TrashNet offers for training. A linear
# classifier on frozen features, learning from all of them, still makes 65 mistakes on the 431.
#
# But there's another way to use frozen features, and it needs no training at all. For each test
# photograph, find the training photograph whose features are most similar, and answer with its
# material. This *nearest neighbour* makes only 47 mistakes, and that's what we have to beat.

# %% [markdown] tags=["predict"]
# Now we take the step that you've written, on all the weights, at the same rate, for five epochs.
# **How many mistakes does that leave, compared with those 47?**
#
# * about as many
# * about two thirds of them
# * fewer than half
# * hardly any

# %% tags=["hide-input"]
from vitedu.errors import UserError

recorded = results.read("trashnet")["metrics"]["test_accuracy"]
whole, seeds = recorded["value"], recorded["per_seed"]
large = None
with suppress(UserError):  # it isn't here, and there is no network
    large = MORE and load_folder(folder_of("trashnet"))
if large:
    spec = real.preprocess
    how = {"augment": cropped, "shuffle": True, "num_workers": 2}
    many = ImageSource(large.train, spec, device=device, **how)
    model = with_new_head(6)
    finetune(model, many, MORE, lr=0.01, batch_size=32)
    others = ImageSource(large.test, spec, device=device)
    x, y = next(others.batches(batch_size=len(others)))
    whole = 100 * accuracy(model, x, y, batch_size=20)
    seeds = [whole]

# %% tags=["hide-input"]
rows = {
    "frozen, linear": frozen["probe/224"]["value"],
    "frozen, nearest": frozen["nearest/224"]["value"],
    "all weights": whole,
}
for what, share in rows.items():
    missed = round(431 * (1 - share / 100))
    print(f"{what:17}{share:.1f}% of 431 right, {missed} wrong:")
    for start in range(0, missed, 33):
        print(" x" * min(33, missed - start))
missed = [str(round(431 * (1 - each / 100))) for each in seeds]
print("all weights, seed by seed:", ", ".join(missed), "wrong")

# %% [markdown]
# There it is! On average over three seeds, 29 mistakes are left of 47, and even the unluckiest seed
# makes fewer than the nearest neighbour. By the rule of [chapter 5](05_mnist.ipynb) the difference
# is at least two standard errors, so it's hardly luck.
#
# Had we shown you only the linear classifier, we could have boasted that more than half of the
# mistakes are gone. Always compare with the best of the cheap methods!
#
# On your own photographs, don't count on the same gain. Some of these test photographs show an
# object that's among the training photographs, too. The nearest neighbour [profits from
# that](#The-same-bottle-twice). Perhaps the network does, too, but we haven't measured how much.
#
# What should you do, then? Begin with frozen features. If you have well over a thousand photographs,
# try training all the weights. (We've measured nothing between 60 and 1,768.)
#
# ## Three losses
#
# You'll rarely write the step yourself. With one of PyTorch's optimizers, these four lines
# get the network ready to train:

# %% tags=["failure"]
model = ViT().to(device)
model.load_state_dict(real.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model.head = with_new_head(6).head

# %% [markdown] tags=["predict"]
# Let's take three steps with chapter 5's `train_step`, all with the same twelve photographs. The
# first loss is $\ln 6 \approx 1.7918$, as it should be. **What's the third?**
#
# * a little less
# * exactly the same
# * more

# %% tags=["nbval-ignore-output"]
x, y = next(views.batches(batch_size=12))
for _ in range(3):
    loss = train_step(model, optimizer, x, y)
    print(f"{loss:.4f}")

# %% [markdown]
# The same, and there was no error! The optimizer only moves the weights that it was given, and it
# was given the *old* head, so the new head never moves. And since the new head is all zeros, no
# gradient gets past it, so nothing else moves either.
#
# > **Remember.** Replace the head first, then make the optimizer. And watch the first three
# > losses: the first is $\ln$ of the number of classes, and the third must differ from it, if
# > only in its last digits. (The second needn't, because a warm-up begins with a rate of 0.)
#
# ## Your own things
#
# Now it's your turn. Make a folder for each class, with ten or more photographs in it, and put
# these folders into one called `mine`. The command below holds out a fifth of every class to test
# on.
#
# If you have no photographs yet, use ours. They're already split: the sixty to learn from are in
# `mine/train`, and the sixty to test on in `mine/val`. `shell` runs a command as your terminal
# would, and shows what the command prints after the last training step:

# %% tags=["hide-input"]
import io
import shlex
import shutil
import textwrap
from contextlib import chdir, redirect_stderr, redirect_stdout

from vitedu import cli

for part, name in {"train": "train", "test": "val"}.items():
    shutil.copytree(folder_of("trashnet-small") / part, here / "mine" / name)


# %% tags=["hide-input"]
def shell(command, after):
    """Run `vitedu ...` as a terminal would; its words, 70 columns wide.

    Only the lines below the last one that begins with `after`.
    """
    written = io.StringIO()
    with chdir(here), redirect_stdout(written), redirect_stderr(written):
        cli.main([*shlex.split(command)[1:], "--tier", TIER])
    lines = written.getvalue().splitlines()
    begins = [i for i, line in enumerate(lines) if line.startswith(after)]
    for line in lines[begins[-1] + 1 :]:
        print(textwrap.fill(line, 70, subsequent_indent="        "))


# %% tags=["nbval-ignore-output"]
run = "vitedu train finetune data=mine epochs=12 batch_size=12 --out run"
shell(run, after="step")

# %% [markdown]
# That's your own step again, behind one line, and again 40 of 60 are right. Open `report.html` to
# see the photographs that the network is most wrong about. The network is in the same folder
# (`here` is where this page keeps its files), and `vitedu.load` brings it back:

# %%
mine = vitedu.load(here / "run", image_size=224)
with torch.no_grad():
    said = mine(x_test[TWELVE].cpu()).argmax(dim=1)

# %% [markdown]
# Now fetch your answers! Two networks sort the same twelve photographs, and neither has been
# trained on them. You've just trained the first, on ten of each kind. The second took your step
# on all 1,768. (We ran it beforehand.)

# %% tags=["nbval-ignore-output", "hide-input"]
sixty = torch.tensor(frozen["sixty/224"]["answers"])
rows = {"10 each": said.tolist(), "1,768": sixty[TWELVE].tolist()}
told, right = {}, {}
for name, given in rows.items():
    pairs = list(zip(given, ORDER, strict=True))
    told[name] = [(KINDS[answer], answer == kind) for answer, kind in pairs]
    right[name] = sum(answer == kind for answer, kind in pairs)
titles = [f"{place}. {KINDS[kind]}" for place, kind in enumerate(ORDER, 1)]
figures.show(*transfer.answers(pixels[TWELVE], titles, told))
for name, many in right.items():
    print(f"{name:8} {many} of 12")
print("you      ?")
many = (sixty == y_test.cpu()).sum().item()
print(f"\n1,768 on all sixty: {many}")

# %% [markdown]
# How did you do? (The second network isn't perfect: of all sixty, it gets 56.)
#
# Look at no. 9. Would you have called it paper? TrashNet's authors did, and so does a
# network that has seen 1,768 of *their* labels. Train it on your own things, and it learns what
# *you* call them. When you began this page, it had none of these six words.
#
# ## What to take with you
#
# 1. A trained network knows more than its words. A linear head and a nearest neighbour on frozen
#    features show in seconds how much, and the better of the two is the number to beat.
# 2. Training all the weights paid off with 1,768 photographs, but not with sixty. Start from a
#    head of zeros: with sixty, and the same rate, a random one cost us eight points.
# 3. Replace the head, then make the optimizer. With a head of zeros, the first three
#    losses tell you if you didn't.
#
# **Five questions** ([answers](#Solutions))
#
# 1. Why should the new head start from zeros, and what does that show you?
# 2. When is it enough to train the head alone?
# 3. What does momentum do with gradients that agree, and with those that don't?
# 4. Which two lines have to be in the right order when you replace a head, and how do you
#    notice that they aren't?
# 5. After training on sixty photographs, why does the accuracy on those sixty tell you
#    nothing?
#
# You've taken your step sixty times. The paper takes it twenty thousand times, on all 1.28
# million photographs of ImageNet. **What does that take?** That's [chapter
# 12](12_imagenet.ipynb).
#
# ## Exercises
#
# **1.** ★ Your data have 37 breeds of cats and dogs. What's the first loss, and what
# does it mean if your log says 3.9?
#
# **2.** ★ PyTorch's [tutorial on transfer
# learning](https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html)
# trains for 25 epochs, measures the test photographs after each, and keeps the best. Is
# its accuracy fair? What would you do?
#
# **3.** ★ Gradients of length 3, again and again, all in the same direction, with
# clipping at 1 and a rate of 0.01. How far do all the weights together move in one
# step, after a long while? And without clipping?
#
# **4.** ★★ In the wrong order, leave PyTorch's random values in the new head. Predict
# the accuracy after one epoch, then run it. How would you have noticed?
#
# **5.** ★★ How far do the weights travel? Compare `tuned` with `real`, tensor by tensor:
# in which blocks has the mean weight moved most, as a share of its size?
#
# **6.** ★★ ✎ Write `finetune_step` without looking, then `from vitedu import check` and
# `check.finetune_step(finetune_step)`.
#
# **7.** ★★★ Some of TrashNet's objects were photographed several times, and their pictures
# are in different parts. Plan how you'd find out what that's worth, before you read
# [what we found](#The-same-bottle-twice).
#
# ## Second reading
#
# ### Your step as a drawing
#
# Each box has its symbols, and below it is its line of code. The two bars in $\Vert g \Vert$ mean
# the length of $g$, here of all the gradients together:

# %% tags=["hide-input"]
figures.show(*transfer.step())

# %% [markdown]
# ### Who moves first
#
# The loss can be lowered in two ways: by changing the head, or by changing everything below
# to suit it. Here's the first epoch, five of your own steps, from a head of zeros and from
# a random one. How far have the blocks moved, as a share of the size of their weights?

# %% tags=["hide-input"]
trained = real.state_dict()


def first_steps(model):
    """Fine-tune; how far the weights of the blocks get."""
    weights = list(model.parameters())
    velocities = [torch.zeros_like(w) for w in weights]
    batches = islice(views.batches(batch_size=12, epoch=0), WATCHED)
    for number, (x, y) in enumerate(batches):
        rate = warmup_cosine(number, 0.01, 60, 6)
        loss = F.cross_entropy(model(x), y)
        finetune_step(weights, velocities, loss, rate)
    way = size = 0.0
    for name, weight in model.state_dict().items():
        if name.startswith("blocks.") and "weight" in name:
            way += (weight - trained[name]).abs().sum().item()
            size += trained[name].abs().sum().item()
    return way / size


# %% tags=["nbval-ignore-output", "hide-input"]
torch.manual_seed(0)
random = with_new_head(6)
random.head.reset_parameters()
for name, model in {"zeros": with_new_head(6), "random": random}.items():
    print(f"head of {name:6}: blocks moved by {first_steps(model):.4%}")

# %% [markdown]
# With zeros the head goes first, and the blocks have hardly moved. With random values they
# move at once, fifty times as far, to please a head that means nothing yet. We think that's why
# a random head costs eight points, but this doesn't prove it: by the end of a good run, the
# blocks have moved further still ([solution 5](#Solutions)).
#
# ### Which rates we tried
#
# With seed 0, we tried three rates for your step and four for AdamW, each about three times the one
# before, and kept the rate with the lowest loss on the validation part: 0.01 for your step and
# 0.0003 for AdamW. The 1,768 photographs got 0.01 as well, in batches of 32.
#
# ### What did your network look at?
#
# Remember the jar with the label, which the network took for plastic before and after training. In
# these maps a patch is bright if much of the class token came from it, by a method that [chapter
# 15](15_inside.ipynb#What-did-it-look-at?) puts to the test. The class token is all that a head
# reads, so even the untouched network, which has no words for materials, has a map. The second map
# is of the network that you've loaded:

# %% tags=["nbval-ignore-output", "hide-input"]
from vitedu.interpret import attention_map

JAR = 10  # among the sixty
with torch.no_grad():
    looked = {
        name: 100 * attention_map(model.to(device), x_test).cpu()
        for name, model in {"untouched": real, "yours": mine}.items()
    }
pairs = zip(*(maps.flatten(1) for maps in looked.values()))
alike = [torch.corrcoef(torch.stack(pair))[0, 1].item() for pair in pairs]
words = (
    "The jar, and two maps of where the answer came from, before and after "
    "training. In both, the brightest patches are on its label."
)
figures.show(
    *photos.maps(
        pixels[JAR],
        {name: maps[JAR] for name, maps in looked.items()},
        "share of the answer, in percent",
        words,
    )
)
print("yours says", KINDS[mine(x_test[JAR : JAR + 1]).argmax()])
print(f"two maps of a photograph: correlation {sum(alike) / 60:.2f} on average")

# %% [markdown]
# Your network looks at the label most of all, and the label says little about the jar. But so did
# the untouched network, and on all sixty photographs the two maps are nearly the same. By this
# measure, training on sixty photographs has changed what the network says, and hardly where it
# looks. (The bright corners have [a story of their own](15_inside.ipynb#Something-out-there).)
#
# ### The same bottle twice
#
# Of the 431 test photographs, about half look very much like one of the 1,768 that TrashNet
# offers for training (a cosine above 0.75 between class tokens). By eye about half of those
# show the same object, so that's about a quarter of all. Does that flatter the numbers? We took
# the 506 look-alikes out of training:

# %% tags=["hide-input"]
print("                        all    look-alikes out    as many others out")
for name in ("probe", "nearest"):
    row = [
        frozen[f"{name}/224"],
        frozen[f"{name}_twins_out/0.75"],
        frozen[f"{name}_others_out/0.75"],
    ]
    every = "".join(f"{each['value']:15.1f}%" for each in row)
    print(f"{name:12}{every}")

# %% [markdown]
# The linear classifier doesn't mind. The nearest neighbour loses four points more without the
# look-alikes than without as many others: part of its success was recognising the object. Without
# them it's no better than the linear classifier. The 93% of the fine-tuned network may be flattered
# in the same way, which we haven't measured, so we don't know what's left of its gain on things
# that are all new. On your own rubbish, expect less than any of these numbers.
#
# And without the pretrained weights? TrashNet's authors trained a network from random weights
# and report around 75% right, on a split of the same sizes ([their
# repository](https://github.com/garythung/trashnet)). It had to learn to see from waste alone.
#
# ### Slower at the bottom
#
# With *layer decay*, each block learns at, say, three quarters of the rate of the block above it.
# The authors of [MAE](https://arxiv.org/abs/2111.06377) do that, with AdamW; for ViT-L, their code
# trains for 50 epochs, five of them warm-up, with a weight decay of 0.05. To try layer
# decay, run `vitedu train finetune data=mine optimizer=adamw lr=1e-4 layer_decay=0.75`. We haven't
# measured what it brings. (Left to itself, our network did the opposite: the last blocks moved
# least, says [solution 5](#Solutions).)
#
# ### A test that proves little
#
# Many tutorials fine-tune on [PyTorch's ants and
# bees](https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html), 244
# photographs to learn from and 153 to test on. Ours gets 97% there (`vitedu train ants-bees`). But
# before any training, looking only at the logits of *ant* and *bee*, it gets 97%, too: the set is
# a part of ImageNet, and both words are among its thousand. If you test transfer, take classes
# that the network has no words for.
#
# ## Where this is in the paper
#
# | here | in the paper |
# |---|---|
# | a head of zeros in place of the old one | section 3.2, appendix B.1.1 |
# | momentum, clipping at 1, cosine, no weight decay | section 4.1, Table 4 |
# | one rate of several, chosen on held-out data | Table 4 |
#
# ### What differs
#
# * The paper fine-tunes at 384 pixels, in batches of 512. We keep 224, with 12 at a time. At
#   384, with all 1,768 photographs, our network gets to 96% ([chapter
#   10](10_resolution.ipynb#And-with-training?)).
# * On CIFAR-10 its ViT-B/16, at 384 pixels, gets to 98.95%; ours, much smaller, is in [chapter
#   13](13_few_shot.ipynb#Ten-kinds-on-32-pixels).
# * Its crops keep 5% of the area or more (in the authors' code); ours keep 30%, because a
#   tiny piece of a bottle often has no bottle.
# * Ti/16 isn't in the paper. Its weights are, by all evidence, those of [Steiner et al.
#   2022](https://arxiv.org/abs/2106.10270).
#
# ## Three readings
#
# * [Steiner et al. 2022](https://arxiv.org/abs/2106.10270), section 4: for small data sets,
#   hours of training from scratch don't reach what minutes of transfer do.
# * [Kumar et al. 2022](https://arxiv.org/abs/2202.10054): fine-tuning all weights can spoil
#   good features, which shows on photographs of another kind. First train the head, then
#   everything.
# * [He et al. 2019](https://arxiv.org/abs/1811.08883) disagree with this chapter. For finding
#   objects they train from random weights, for longer, and end up just as good. With how much
#   data does that stop being true?
#
# ## Solutions
#
# <details><summary>Five questions</summary>
#
# 1. It leaves the trained weights alone in the first step, and the first loss is exactly
#    $\ln$ of the number of classes.
# 2. When the frozen features already tell the classes apart, or when you have so few
#    photographs that nothing more can be learned from them: measure it first.
# 3. It adds up those that agree, up to ten times, and lets the others cancel.
# 4. First the new head, then the optimizer. Otherwise the loss of a head of zeros doesn't move
#    at all.
# 5. All nine runs got all sixty right, and yet on other photographs the ways to train differ by up
#    to eight points.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# $\ln 37 \approx 3.61$. At 3.9 the network is worse than knowing nothing, so it isn't
# guessing evenly among 37: the head wasn't zero when you measured, or it has too many
# outputs, since $\ln 50$ is 3.91. (Labels in the wrong order wouldn't
# show here. With a head of zeros, any labels give 3.61.)
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# No. It's the luckiest of 25 looks at the same test photographs. A fair way: hold out a
# part of the training photographs, pick the epoch by those, and read the test photographs
# once. Or don't pick: say beforehand that the last epoch counts, and let the rate fall to
# zero towards it. That's what we did.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# Clipped, the gradient has length 1, so the velocity approaches length 10, and a step is 0.1
# long. Without clipping it would be 0.3.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# The next cell runs it. The loss ends far above $\ln 6$, and the answers are no better than
# guesses: all the trained weights were thrown about to suit a head that never learned. It
# looks like a rate that's too high, and you could look there for days. You'd find it by
# comparing the head before and after: it's equal to the last bit. Or by counting the
# weights that the optimizer holds: its head still has a thousand outputs.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
torch.manual_seed(0)
model = ViT().to(device)
model.load_state_dict(real.state_dict())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
model.head = nn.Linear(192, 6, device=device)
head = model.head.weight.clone()
for x, y in views.batches(batch_size=BATCH):
    loss = train_step(model, optimizer, x, y)
right = round(60 * accuracy(model, x_test, y_test, batch_size=20))
print(f"last loss {loss:.2f}, {right} of 60 test photographs")
print("the head has not moved:", bool((model.head.weight == head).all()))

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# The next cell compares them. Most blocks have moved by about 0.2% of their size, the last three
# by half to two thirds of that. That's a short way, and yet far enough to learn sixty photographs
# by heart.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
trained, now = real.state_dict(), tuned.state_dict()
for block in range(12):
    names = [
        x for x in now if x.startswith(f"blocks.{block}.") and "weight" in x
    ]
    way = sum((now[x] - trained[x]).abs().sum() for x in names)
    size = sum(trained[x].abs().sum() for x in names)
    print(f"block {block + 1:2}: {way / size:.2%}")

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# The usual mistakes: clipping each tensor by its own length, clipping the velocity instead
# of the gradient, forgetting to clear `w.grad`, and multiplying the rate into the velocity,
# where the schedule would then be felt ten steps late.
#
# </details>
#
# <details><summary>Solution 7</summary>
#
# Find pairs of a training and a test photograph that look alike, and look at some of them
# to see how often they show one object. Then train without the look-alikes. That also
# leaves fewer photographs to learn from, so train once more, this time without as many others, drawn
# at random, and compare.
#
# </details>
