# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · about a minute and a half of computing on a laptop, no GPU needed · about 2 minutes on a T4 (predicted)

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Scale, and nothing lost
#
# Nothing goes wrong in a run of a few seconds. In one that takes days, something will: the program
# crashes, or the machine you've rented is taken back in the middle of the night. That's why you
# save a file now and then. After the accident you load it and go on.
#
# PyTorch's own example of this,
# [`multigpu_torchrun.py`](https://github.com/pytorch/examples/blob/f62b4aec7bff832fc65b59aa62d60e94ddd6b39e/distributed/ddp-tutorial-series/multigpu_torchrun.py)
# (commit `f62b4ae`), saves the weights and the number of the epoch that it has just finished. But
# after an accident it starts that very epoch again. The epoch is trained twice, and no error tells
# you.

# %% tags=["nbval-ignore-output", "hide-input"]
import copy
import hashlib
import inspect
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.optim import AdamW
from torch.utils.checkpoint import checkpoint

from vitedu.train import find_device
from vitedu.train.finetune import tier_of

torch.set_num_threads(1)
TIER = os.environ.get("VITEDU_TIER") or tier_of("auto")
device = find_device("auto" if TIER == "gpu" else "cpu")
print(f"tier {TIER}, seed 0, {device}, torch {torch.__version__}")

# %% tags=["hide-input"]
from vitedu import figures, results
from vitedu.budget import memory, parameters
from vitedu.budget.meta import bytes_kept
from vitedu.data import load_dataset, photo
from vitedu.figures.chapters import scale as drawings
from vitedu.model import vit_config
from vitedu.plain import ViT, accuracy, train_step, warmup_cosine

# steps of a run, and seeds: a GPU takes the same, but on the device
SIZES = {
    "smoke": (24, (0,)),  # only proves that it all runs
    "cpu": (120, (0, 1, 2)),
    "gpu": (120, (0, 1, 2)),
}
STEPS, SEEDS = SIZES[TIER]
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
torch.use_deterministic_algorithms(device.type == "cuda")  # equal bytes
HALF = STEPS // 2
temporary = tempfile.TemporaryDirectory()  # it goes when the kernel goes
folder = Path(temporary.name)

# %% tags=["hide-input"]
accident = [drawings.Life(0, HALF, True), drawings.Life(HALF, STEPS, False)]
figures.show(*drawings.lives(accident, STEPS))

# %% [markdown]
# The drawing shows what you hope for: the second start goes on where the first one was killed. What
# if it gets nothing but the weights? Let's rehearse it with a small ViT and these digits:

# %% tags=["hide-input"]
data = load_dataset("digits")
x, y = data.train.images / 127.5 - 1, data.train.labels
x_test = data.test.images.to(device) / 127.5 - 1
y_test = data.test.labels.to(device)
print(f"{len(x):,} digits of MNIST to learn from, {len(x_test)} to test")


# %% [markdown]
# The ViT learns to read them in 120 steps (`STEPS`), once in one go and once with an accident
# halfway (`HALF`).
#
# The learning rate warms up and falls as in [chapter 5](05_mnist.ipynb), and we keep a running
# average of the weights, because it's less noisy. To compare two runs, we hash this average and
# call the result the run's *fingerprint*: change a single bit, and you get another one.


# %% tags=["hide-input"]
def new_run(seed=0):
    """A training run before its first step, by its parts."""
    torch.manual_seed(seed)
    model = ViT(28, 7, 1, 10, embed_dim=32, depth=2, num_heads=4, mlp_dim=64)
    average = copy.deepcopy(model).to(device)
    optimizer = AdamW(model.to(device).parameters())
    parts = {"model": model, "optimizer": optimizer, "average": average}
    return parts | {"step": 0}


def one_step(run, rows):
    """One update by these images; the average goes a tenth of the way."""
    for group in run["optimizer"].param_groups:
        group["lr"] = warmup_cosine(run["step"], 0.01, STEPS, STEPS / 10)
    images, labels = x[rows].to(device), y[rows].to(device)
    train_step(run["model"], run["optimizer"], images, labels)
    follow = zip(run["average"].parameters(), run["model"].parameters())
    with torch.no_grad():
        for mean, weight in follow:
            mean.lerp_(weight, 0.1)
    run["step"] += 1


# %% tags=["hide-input"]
def advance(run, steps):
    """Some steps, each with 64 random images."""
    for _ in range(steps):
        one_step(run, torch.randperm(len(x))[:64])


def weights(run):
    """The average that a run has come to, in one long row."""
    average = run["average"].parameters()
    return nn.utils.parameters_to_vector(average).detach().cpu()


def fingerprint(run):
    """The first digits of the SHA-256 of all weights."""
    return hashlib.sha256(weights(run).numpy().tobytes()).hexdigest()[:12]


# %% tags=["nbval-ignore-output"]
whole = new_run()  # sets the seed; before the first step
advance(whole, STEPS)  # so many steps, on random images

half = new_run()
advance(half, HALF)
torch.save(half["model"].state_dict(), folder / "half.pt")
# here the machine goes down, and the program is started again
again = new_run()
again["model"].load_state_dict(torch.load(folder / "half.pt"))
advance(again, HALF)

for name, run in {"in one go": whole, "interrupted": again}.items():
    right = accuracy(run["average"], x_test, y_test)
    print(f"{name:12} {right:.0%} right, fingerprint {fingerprint(run)}")

# %% tags=["nbval-check-output", "hide-cell"]
assert whole["step"] == STEPS and fingerprint(whole) != fingerprint(again)
assert (weights(whole) != weights(again)).double().mean() > 0.9
print("checked: more than nine weights in ten differ")


# %% [markdown]
# Same seed, same data, same number of steps, and yet you got a different network. No error warned
# you, and the accuracy doesn't either: after a real accident you'd see the second line alone, and
# 72% looks fine. Compare two recipes after such accidents, and you may be comparing the accidents.
#
# **How do you train what doesn't fit into memory, on machines that don't last, and still get the
# same weights?**
#
# In the end, you'll kill a run eight times, whenever you like. Will its fingerprint survive?
#
# ## What the weights leave out
#
# What should we have saved, besides the weights? Make a list before you read on.
#
# Four more things change from step to step: the optimizer with Adam's means, the average, the
# number of the step, and the state of the random numbers, from which the next images are drawn.
# A file with all of them is called a *checkpoint*.


# %%
def contents(run):
    """All that the next step depends on."""
    parts = ("model", "optimizer", "average")
    saved = {name: run[name].state_dict() for name in parts}
    return saved | {"step": run["step"], "random": torch.get_rng_state()}


# %% tags=["hide-input"]
def put_back(run, saved):
    """Make `run` what it was; what isn't in `saved` stays new."""
    for name, value in saved.items():
        if name == "step":
            run["step"] = value
        elif name == "random":
            torch.set_rng_state(value)
        else:
            run[name].load_state_dict(value)


# %% [markdown] tags=["predict"]
# Now we repeat the accident, leaving out a different thing each time (`put_back` restores the
# rest). Every run then takes sixty more steps, but what it forgot begins anew: Adam's means at
# zero, the average at the untrained weights, the random numbers at the seed. A run that forgot its
# step counts from 0, so its learning rate warms up again.
#
# How far from the undisturbed run does each of them end? A fingerprint can't say, so we measure the
# distance between the averages. The undisturbed run's way from the untrained weights is 100%, "its
# own distance" in the picture. The numbers are means of three seeds, the grey dots.
#
# **After the weights, what's the worst thing to forget?**
#
# * the optimizer
# * the average
# * the number of the step
# * the state of the random numbers


# %% tags=["hide-input"]
def without(missing, seed):
    """Distance (percent of the goal's) and accuracy of an interrupted run."""
    run = new_run(seed)
    first = weights(run).clone()
    advance(run, HALF)
    torch.save(contents(run), folder / "state.pt")
    advance(run, STEPS - HALF)
    last = weights(run).clone()
    saved = torch.load(folder / "state.pt")
    kept = {name: saved[name] for name in saved if name not in missing}
    run = new_run(seed)
    put_back(run, kept)
    advance(run, STEPS - HALF)
    far = 100 * (weights(run) - last).norm() / (last - first).norm()
    return far.item(), 100 * accuracy(run["average"], x_test, y_test)


# %% tags=["hide-input"]
ROWS = {
    "nothing left out": (),
    "without average": ("average",),
    "without random": ("random",),
    "without optimizer": ("optimizer",),
    "without step": ("step",),
    "weights alone": ("optimizer", "average", "step", "random"),
    "without weights": ("model",),
}
rows = []
for name, missing in ROWS.items():
    by_seed = [without(missing, seed) for seed in SEEDS]
    rows.append(drawings.Omission(name, *zip(*by_seed, strict=True)))
figures.show(*drawings.omissions(rows))

# %% tags=["nbval-check-output", "hide-cell"]
by_name = {row.words: row.distances for row in rows}
assert set(by_name.pop("nothing left out")) == {0}
assert all(min(distances) > 0 for distances in by_name.values())
print("checked: with nothing left out it's exactly 0, on every seed")


# %% [markdown]
# The number of the step! Forget a single integer, and you end up half the whole distance away. With
# nothing forgotten, the distance is exactly 0: all weights are the same, and so is the fingerprint.
#
# Is half a lot? The run without the random numbers makes no wrong step. It only sees other images
# than it should, and ends 19% away. Without the step you end much further off than other images can
# explain. And the average? Every step moves it a tenth of the way to the weights, so sixty steps
# later it has caught up.
#
# Read the accuracies at the right: only the lost weights would have alarmed you. Without the step,
# the run even reads *more* digits, perhaps because its learning rate stayed high.
#
# The state of the random numbers doesn't have to be saved if you compute the order of each epoch
# from the run's seed and the number of the epoch. That [costs
# little](#A-computed-order-and-its-price).


# %%
def rows_of(step, seed=0):
    """The 64 images of a step, out of an order computed from the epoch."""
    epoch, place = divmod(step, len(x) // 64)
    random_state = torch.Generator().manual_seed(1_000 * seed + epoch)
    order = torch.randperm(len(x), generator=random_state)
    return order[64 * place : 64 * (place + 1)]


# %% [markdown]
# ## Cut the batch
#
# You've cut a run in two. Next, you cut a single step. The paper pretrains with 4,096 images
# a step ([Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929)). How much memory is that,
# for a ViT-B/16 in float32? `vitedu.budget` counts it:

# %%
for batch_size in (4096, 256, 32):
    need = memory(vit_config("ViT-B/16"), batch_size=batch_size)
    print(f"{batch_size:5} images  {need.total / 1e9:6.1f} GB")

# %% [markdown]
# Your laptop may have 16 GB, so 32 images would fit.
#
# Let $\ell_i$ be the loss of image $i$ in a batch of $n$ images. A step needs the gradient
# $g$ of their mean, and that's a sum over the images. You can cut a sum into *slices*
# $S$, and do one after the other:
#
# $$
# g = \nabla \, \frac{1}{n} \sum_{i=1}^{n} \ell_i
# = \sum_{S} \nabla \, \frac{1}{n} \sum_{i \in S} \ell_i
# $$
#
# PyTorch makes that easy, because `loss.backward()` adds to whatever gradients are already there.
# In the picture, $\ell_S$ is the summed loss of a slice:

# %% tags=["hide-input"]
figures.show(*drawings.slices())


# %% [markdown] tags=["predict"]
# This is *gradient accumulation*. The loop goes back before the step, so there's only one
# step per batch, and memory never holds more than one slice.
#
# **Take a pencil:** three images give some weight the gradients 1, 3 and 8. The first two
# are one slice, the third is a slice by itself. What's $g$? Now take the mean of each slice.
# **What would you get if you took the mean of the two means?**


# %%
def accumulated_step(model, optimizer, images, labels, size):
    """`train_step` with at most `size` images in memory."""
    optimizer.zero_grad()
    for part, truth in zip(images.split(size), labels.split(size)):
        loss = F.cross_entropy(model(part), truth, reduction="sum")
        (loss / len(images)).backward()  # n, not the size of the slice
    optimizer.step()


# %% [markdown]
# Your pencil should say 4 for $g$, and 5 for the mean of means.
#
# Does the code find the same gradient as one whole batch? We try a hundred images, in three slices
# of 32 and one of 4. `twin` copies the network trained in one go, and `relative` compares two
# gradients.


# %% tags=["hide-input"]
def twin():
    """A copy of the trained network in float64, and an optimizer for it."""
    model = new_run()["model"].cpu().double()
    model.load_state_dict(whole["model"].state_dict())
    return model, AdamW(model.parameters())


def gradient(model):
    """All gradients in one long vector."""
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def relative(found, right):
    """The length of the difference, as a share of the length of `right`."""
    return ((found - right).norm() / right.norm()).item()


# %% tags=["nbval-ignore-output"]
images, labels = x[:100].double(), y[:100]
# two copies of the trained network, in float64
(uncut, optimizer), (sliced, its_optimizer) = twin(), twin()
train_step(uncut, optimizer, images, labels)
accumulated_step(sliced, its_optimizer, images, labels, size=32)
# all gradients as one vector; their difference, as a share of its length
print(f"difference {relative(gradient(sliced), gradient(uncut)):.0e}")

# %% tags=["nbval-check-output", "hide-cell"]
assert relative(gradient(sliced), gradient(uncut)) < 1e-12
for one, other in zip(sliced.parameters(), uncut.parameters(), strict=True):
    assert torch.allclose(one, other, rtol=0, atol=1e-10)  # after Adam
print("checked: gradients agree to 1e-12, weights after the step to 1e-10")

# %% [markdown]
# That's rounding, because slices add the same numbers in another order.
#
# The next version looks just as good. It divides each slice's *mean* loss by the number of slices.

# %% tags=["failure", "nbval-ignore-output"]
careless, _ = twin()
for part, truth in zip(images.split(32), labels.split(32)):
    loss = F.cross_entropy(careless(part), truth) / 4
    loss.backward()
print(f"difference {relative(gradient(careless), gradient(uncut)):.0%}")

# %% tags=["nbval-check-output", "hide-cell"]
assert relative(gradient(careless), gradient(uncut)) > 0.05
assert ((1 + 3) / 2 + 8) / 2 == 5 and (1 + 3 + 8) / 3 == 4
print("checked: your pencil's answers are 4, and with a mean of means 5")


# %% [markdown]
# The error is longer than the gradient itself! Each of the four images in the last slice counts as
# much as eight others. Your pencil's error was smaller, because all three gradients pulled the same
# way. In a large batch, gradients pull in different directions and mostly [cancel each
# other](#Half-a-batch). Among four images far less cancels out, and those four now decide a quarter
# of the result.
#
# Hugging Face's `transformers` [had this
# mistake](https://github.com/huggingface/transformers/pull/34191) until October 2024.
#
# Done right, the paper's step fits on a laptop, as 128 slices of 32 images. But slices save memory,
# not work.
#
# ## Cut the memory
#
# And if not even a slice fits? In the backward pass, each layer needs what it was given on the
# way forward. So the forward pass keeps nearly everything that it computes.
#
# *Activation checkpointing* ([Chen et al. 2016](https://arxiv.org/abs/1604.06174)) keeps only the
# input of each block. When the backward pass arrives there, the block runs forward again.


# %%
class Forgetful(nn.Module):
    """A block that keeps nothing but its input."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        # of PyTorch's two ways, this is the newer one
        return checkpoint(self.block, x, use_reentrant=False)


# %% [markdown] tags=["predict"]
# We try it on a ViT-Ti/16 (`loaded`) with the photograph of Grace Hopper (`image`), and `step_cost`
# counts what a step keeps and computes.
#
# A backward pass is about twice the work of a forward pass: for each matrix product on the way
# forward it has two, for the gradients of both factors. **By this count, how much more work is
# a step, if every block runs forward twice?**
#
# * about a sixth more
# * about a third more
# * twice as much


# %% tags=["hide-input"]
def step_cost(model, image):
    """Bytes kept for backward, multiply-adds, and the gradient."""
    from torch.utils.flop_counter import FlopCounterMode

    model.zero_grad()
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(image), torch.tensor([652])).backward()
    work = counter.get_total_flops() / 2
    return bytes_kept(model, image), work, gradient(model)


hopper = photo("hopper").crop((0, 20, 512, 532))
loaded = vitedu.load("ViT-Ti/16")
image = loaded.preprocess(hopper)[None]
one_block = bytes_kept(ViT().blocks[0], torch.zeros(1, 197, 192))

# %% tags=["nbval-ignore-output"]
large = ViT()  # by default it's a ViT-Ti/16
large.load_state_dict(loaded.state_dict())
# a step's bytes kept, multiply-adds, and gradient
kept, work, plain_gradient = step_cost(large, image)
large.blocks = nn.Sequential(*map(Forgetful, large.blocks))
kept_now, work_now, same_gradient = step_cost(large, image)
most = kept_now + one_block  # what a block keeps while it runs again
print(f"keeps {kept / 1e6:4.1f} MB, {work / 1e9:.1f} billion multiply-adds")
print(f"keeps {kept_now / 1e6:4.1f} MB, {work_now / 1e9:.1f} billion")
print(f"with the block that runs again, {most / 1e6:.1f} MB at most")

# %% tags=["nbval-check-output", "hide-cell"]
assert torch.equal(plain_gradient, same_gradient)
assert 10 < kept / kept_now < 16 and 1.2 < work_now / work < 1.34
assert 5.5 < kept / most < 7.5
print("checked: the gradient is the same, to the last bit")

# %% [markdown]
# By this count it's a third: three parts of work become four. But we counted only a quarter,
# because PyTorch [skips part of the second run](#A-quarter-instead-of-a-third).
#
# And the memory? Even while a block runs again, the step keeps about a sixth of what it kept before.
# The gradient is the same to the last bit.
#
# The 5.2 GB of a ViT-B/16 shrink less, because the weights, their gradients and Adam's means stay:

# %%
need = memory(vit_config("ViT-B/16"), batch_size=32, checkpointing=True)
print(f"{need.total / 1e9:.1f} GB")

# %% [markdown]
# ## Share the work
#
# Slices don't have to wait for each other. Give each of several *processes* (running programs, on
# one machine or many) a copy of the network and a slice of the batch. They compute [at the same
# time](#What-sharing-brings). Then they add up their gradients, and every process gets the sum:
# that's an *all-reduce*. All take the same step, so the copies stay equal.
#
# Take four processes, each with a gradient of a million numbers. If each sends it to the three
# others, that's three million numbers per process. Can it be fewer?
#
# Put them in a ring, and cut each gradient into four *chunks*. All the gradients are ones, so a 3
# means that three processes are in the sum. A red frame marks what has just arrived.

# %% tags=["hide-input"]
held = torch.ones(4, 4)
frames = [held]
for turn in range(6):
    before, held = held, held.clone()
    for i in range(4):
        place, neighbour = (i - turn) % 4, (i + 1) % 4
        arrives = before[i, place]
        stays = before[neighbour, place] if turn < 3 else 0
        held[neighbour, place] = stays + arrives
    frames.append(held)
figures.show(*drawings.ring(torch.stack(frames)))


# %% [markdown]
# In each round, every process sends one chunk to its neighbour. For three rounds, the neighbour
# adds what arrives to its own chunk, and sends the sum on in the next round. Now every chunk is
# finished somewhere: a 4. The last three rounds only hand those sums around.
#
# Each process sends six chunks of a quarter of a million numbers, or one and a half million instead
# of three. With $p$ processes and a gradient of $m$ numbers, it's $2 \, (p - 1) / p \cdot m$: less
# than $2m$, however many machines you have.


# %% tags=["hide-input"]
def ring_round(chunks, turn):
    """`chunks[i]` are those of process i, which sends one to the next."""
    count = len(chunks)
    messages = []
    for i in range(count):
        place = (i - turn) % count  # its own first, then the one before
        messages.append((place, chunks[i][place]))
    for i, (place, chunk) in enumerate(messages):
        neighbour = chunks[(i + 1) % count]
        if turn < count - 1:
            neighbour[place] = neighbour[place] + chunk
        else:
            neighbour[place] = chunk


# %% tags=["hide-input"]
def all_reduce(vectors):
    """Each of these vectors becomes the sum of all of them."""
    chunks = [list(vector.chunk(len(vectors))) for vector in vectors]
    for turn in range(2 * (len(vectors) - 1)):
        ring_round(chunks, turn)  # from one panel to the next
    return [torch.cat(each) for each in chunks]


# %% tags=["nbval-check-output", "hide-cell"]
for count in (2, 3, 4, 7):
    vectors = torch.randn(count, 10 * count, dtype=torch.float64)
    for found in all_reduce(vectors):
        assert torch.allclose(found, vectors.sum(dim=0), rtol=0, atol=1e-12)
ones = [list(torch.ones(4).chunk(4)) for _ in range(4)]
for turn in range(6):
    ring_round(ones, turn)
    assert torch.equal(torch.tensor(ones), frames[turn + 1])
print("checked: everyone has the sum, and the picture shows how")


# %% [markdown]
# ### Two processes at work
#
# Now for two real processes. Both compute the same order with `rows_of`, and each takes every other
# image.


# %% tags=["hide-input"]
def worker(share, count, divide_by):
    """Ten steps in one of `count` processes; the weights after them."""
    model = new_run()["model"].double()
    optimizer = AdamW(model.parameters(), lr=0.01)
    for step in range(10):
        rows = rows_of(step)[share::count]
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows].double()), y[rows]).backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
            weight.grad /= divide_by  # fine, as the shares are equal
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach()


# %% [markdown] tags=["predict"]
# After the backward pass, the all-reduce of `torch.distributed` (`dist` for short) adds up the
# gradients. Each is a mean over half the batch, so we halve their sum:
#
# ```
# for weight in model.parameters():
#     dist.all_reduce(weight.grad)
#     weight.grad /= 2
# ```
#
# We take ten steps, done *right*, and then with two mistakes. With "same images", both processes
# take the same half of the batch. With "sum", nobody divides by two. The goal is where one process
# ends up, after ten steps on full batches. The way there from the untrained weights is 100%.
#
# **Which mistake ends further from the goal?**
#
# * *same images*
# * *sum*
# * both end equally far

# %% tags=["hide-input"]
HEADER = f"""
import copy, os, sys, time
import torch, torch.distributed as dist, torch.nn.functional as F
from torch import nn
from torch.optim import AdamW
from vitedu.data import load_dataset
from vitedu.plain import ViT, train_step, warmup_cosine

torch.set_num_threads(1)
device = torch.device("cpu")
STEPS = {STEPS}
data = load_dataset("digits").train
x, y = data.images / 127.5 - 1, data.labels
"""
places = os.pathsep.join(place for place in sys.path if place)
settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": places}
if sys.platform != "win32":  # the processes talk inside of this machine
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    settings["GLOO_SOCKET_IFNAME"] = loopback


# %% tags=["hide-input"]
def start(functions, ending, *words):
    """A new Python with these functions; it prints into a pipe."""
    path = folder / f"{functions[-1].__name__}.py"
    path.write_text("\n\n".join([HEADER, *map(inspect.getsource, functions)]))
    with open(path, "a") as file:
        file.write(ending)
    return subprocess.Popen(
        [sys.executable, str(path), *map(str, words)],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        text=True,
    )


# %% tags=["hide-input"]
ENDING = """
rank = int(sys.argv[1])
store = dist.FileStore(sys.argv[2], 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
found = {
    "right": worker(rank, 2, divide_by=2),
    "same images": worker(0, 2, divide_by=2),
    "sum": worker(rank, 2, divide_by=1),
}
if rank == 0:
    torch.save(found, sys.argv[3])
dist.destroy_process_group()
"""
needed = [new_run, rows_of, worker]
words = [folder / "meeting", folder / "found.pt"]
# on Windows, in WSL
pair = [start(needed, ENDING, rank, *words) for rank in range(2)]
try:
    for process in pair:
        process.communicate(timeout=300)
finally:
    for process in pair:
        process.kill()  # if it still runs
found = torch.load(folder / "found.pt")


# %% tags=["hide-input"]
def one_process(seed=0):
    """The weights before and after ten steps on the whole batch."""
    model = new_run()["model"].cpu().double()
    first = nn.utils.parameters_to_vector(model.parameters()).detach()
    optimizer = AdamW(model.parameters(), lr=0.01)
    for step in range(10):
        rows = rows_of(step, seed)
        train_step(model, optimizer, x[rows].double(), y[rows])
    return first, nn.utils.parameters_to_vector(model.parameters()).detach()


# %% tags=["nbval-ignore-output", "hide-input"]
first, alone = one_process()  # its weights before and after
# `found`: where the two processes ended, as read from a file
for name, ends in found.items():
    far = (100 * (ends - alone).norm() / (alone - first).norm()).item()
    print(f"{name:12} {far:{'7.0f' if far >= 1 else '7.2g'}}%")

# %% [markdown]
# Neither mistake raises an error. Done right, two processes end where one does, up to
# [rounding](#When-bytes-differ). But rounding is enough to change a fingerprint, so here only the
# distance can judge.
#
# The sum hardly matters, because with Adam twice the gradient is nearly the same step.
#
# With the same images, half of each batch is never seen. Ten correct steps on [other
# images](#Half-a-batch) end about as far off (116%).
#
# And is it faster? With a larger ViT, yes, but [far from twice as fast](#What-sharing-brings).
#
# ## Killed while saving
#
# One accident is left: the one that happens *while* you save. Let's say half of the file has reached
# the disk.

# %% tags=["failure"]
torn = folder / "torn.pt"
torch.save(contents(whole), torn)
torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
try:
    torch.load(torn)
except RuntimeError as error:
    print(str(error).split(":")[0])


# %% [markdown]
# Suppose you wrote it under the name of your last checkpoint, as PyTorch's example at the top does.
# Then you've lost the old one as well, because opening a file for writing empties it.
#
# Write to a second file beside it instead, make sure it's all on the disk, and only then rename it.
# If the program dies, the renaming has happened [completely or not at all](#Beyond-a-rename).


# %%
def save(saved, path):
    """Write a file that's always whole: the old one or the new one."""
    beside = f"{path}.part"
    with open(beside, "wb") as file:
        torch.save(saved, file)
        file.flush()
        os.fsync(file.fileno())  # until the disk has it
    os.replace(beside, path)


def program(path):
    """Train from wherever the file says we are, and save every 5 steps."""
    run = new_run()
    if os.path.exists(path):
        put_back(run, torch.load(path))
    print(run["step"], flush=True)
    while run["step"] < STEPS:
        one_step(run, rows_of(run["step"]))
        print(run["step"], flush=True)
        if run["step"] % 5 == 0 or run["step"] == STEPS:
            save(contents(run), path)


# %% [markdown]
# ### Kill it yourself
#
# Now `program` runs as a process of its own, and you kill it with SIGKILL, the signal that no
# program can catch. Then the same command starts it again.
#
# You pick the moments. Each number in the list is a step; stay below 110, so that the kill comes
# before the end. It comes up to 30 milliseconds after this step, so it may hit one of the next
# steps, or a save.

# %% tags=["hide-input"]
LIFE = """
from vitedu.train import find_device
device = find_device(sys.argv[2])
torch.use_deterministic_algorithms(device.type == "cuda")
program(sys.argv[1])
"""
device_name = "auto" if TIER == "gpu" else "cpu"


def life(path, kill_at):
    """Start the program; kill it soon after this step, if there is one."""
    process = start([new_run, one_step, rows_of, contents, put_back, save,
                     program], LIFE, path, device_name)  # fmt: skip
    steps = []
    try:
        for line in process.stdout:
            steps.append(int(line))
            if kill_at is not None and steps[-1] >= kill_at:
                time.sleep(random.uniform(0, 0.03))
                process.kill()
                kill_at = None
        code = process.wait(timeout=300)
    finally:
        process.kill()
    return drawings.Life(steps[0], steps[-1], is_killed=code != 0)


# %%
moments = [7, 18, 19, 40, 54, 55, 77, 98]  # steps; yours?

# %% tags=["hide-input"]
run_file = folder / "run.pt"
moments = [step for step in moments if step < STEPS - 10]
starts = [life(run_file, kill_at) for kill_at in [*moments, None]]
figures.show(*drawings.lives(starts, STEPS, saves=5))

# %% [markdown]
# Each new start goes back to the last whole checkpoint, and has to do the light red steps again.
# A start that begins where it's to be killed, or later, is hardly more than a cross.
#
# With your moments, you may see a cross on a grey line and the next start one line earlier. Then the
# kill came before the save was done: the new file didn't have its name yet, but the old one was
# still whole.
#
# Hitting a save takes luck. In a [harder test](#Beyond-a-rename) of our package, 12 of 20 kills
# came in the middle of a write, and the weights were still equal.
#
# Has the fingerprint survived? The first two lines are the pair from the top. The last two have
# `program`'s own order of images: once undisturbed, once killed.

# %% tags=["nbval-ignore-output"]
killed = new_run()
put_back(killed, torch.load(run_file))
undisturbed = new_run()
for step in range(STEPS):
    one_step(undisturbed, rows_of(step))
kills = sum(start.is_killed for start in starts)
for name, run in {
    "at the top, in one go": whole,
    "at the top, interrupted": again,
    "here, in one go": undisturbed,
    f"here, killed {kills} times": killed,
}.items():
    print(f"{name:24} {fingerprint(run)}")

# %% tags=["nbval-check-output", "hide-cell"]
assert killed["step"] == STEPS and kills == len(moments)
assert fingerprint(killed) == fingerprint(undisturbed)
pair = [run["optimizer"].state.values() for run in (killed, undisturbed)]
for ours, theirs in zip(*pair, strict=True):
    assert torch.equal(ours["exp_avg"], theirs["exp_avg"])
    assert torch.equal(ours["exp_avg_sq"], theirs["exp_avg_sq"])
print("checked: Adam's means are the same bytes as well")

# %% [markdown]
# At the top, one accident gave you another network, and nothing warned you. Here the program died
# eight times, and nothing in the result shows it: the same bytes, Adam's means included.
#
# Don't just believe us. Put the meanest moments you can think of into the list, and run the
# notebook again. On [one processor with one thread](#When-bytes-differ), we bet that the last two
# lines will still agree.
#
# ## What to take with you
#
# 1. Equal accuracy doesn't prove an equal run. A checkpoint holds all that the next step depends
#    on, and it's written beside the old one.
# 2. A gradient is a sum over images. You can cut it into slices, one after the other or
#    on several machines, if you divide by the whole batch.
# 3. Memory can be traded for work, by forgetting what you can compute again.
#
# **Five questions** ([answers](#Solutions))
#
# 1. Why does accumulation divide by the size of the batch, and not of the slice?
# 2. Why doesn't activation checkpointing double the work of a step?
# 3. How much does each process send in a ring of two? And of a thousand?
# 4. Which missing part of a checkpoint made the accuracy much better, and why is that bad
#    all the same?
# 5. Why must a checkpoint never be written over the last one?
#
# You now know how to train a large network and lose nothing on the way. But somebody may have done
# that before you, and given the weights away. **How do you get their trained network into your own
# ViT?** That's [chapter 9](09_weights.ipynb).
#
# ## Exercises
#
# ✎ Write `accumulated_step` from memory, and `all_reduce` from the picture of the ring. After
# `from vitedu import check`, `check.accumulated_step(accumulated_step)` tells you how closely yours agrees
# with ours, or what's likely to be wrong with it; so does `check.all_reduce(all_reduce)`.
#
# **1.** ★ Your batch has 256 images, in slices of 64. You forget to divide, and add up
# four *means*. What happens to the weights with plain gradient descent? With Adam? And
# with Adam, if gradients longer than 1 are cut to length 1 first?
#
# **2.** ★ You checkpoint only every second block. How much is kept, and how much work is
# it? Think first, then count with `step_cost` (in the hidden cell of "Cut the memory").
#
# **3.** ★ In the picture of the ring, which process finishes the sum of chunk 0, and in
# which round? Suppose that this process is the slowest of all. Do the others have to wait
# for it?
#
# **4.** ★★ A run saves every 5 steps and is killed at a random moment. How many steps does
# it lose on average? A checkpoint of ViT-B/16 with Adam takes 3 seconds to write, a step
# takes 1 second, and an accident happens once a day. How many steps would you leave
# between two saves?
#
# **5.** ★★ Adam's state has a third thing besides the two means: a counter of its steps.
# Leave out only this counter. (`saved["optimizer"]["state"]` is a dict from the number of
# a weight to its `step`, `exp_avg` and `exp_avg_sq`; set every `step` to zero.) Does the
# run end further away than without the whole optimizer, or less far? Guess, then measure
# with the hidden function `without` as your pattern.
#
# **6.** ★★★ First read [DDP and FSDP](#DDP-and-FSDP) below. With FSDP each process has a share of
# the weights. Write the sequence of messages of one step in words, and count the numbers that
# each process sends. How much more is it than with DDP?
#
# ## Second reading
#
# ### Half a batch
#
# With the same 32 images in both processes, ten steps ended far from the goal. Does that mean
# damage? As a yardstick, let's see how far away ten *correct* steps on other images end:

# %% tags=["nbval-ignore-output", "hide-input"]
other = one_process(seed=1)[1]
far = 100 * (other - alone).norm() / (alone - first).norm()
print(f"other images {far:.0f}%")

# %% [markdown]
# Distance alone can't prove damage, then: without any mistake, other images lead you even further
# away. But it isn't the run you planned.
#
# Earlier, [other images](#What-the-weights-leave-out) led only 19% away. But there, the two runs had
# sixty steps in common, and we compared averages.
#
# How different is the gradient of 32 images from the gradient of all 64? Here's the difference in
# the first step, as a share of the length of the gradient of all 64:

# %% tags=["nbval-ignore-output", "hide-input"]
by_all, by_half = (new_run()["model"].cpu().double() for _ in range(2))
for model, rows in ((by_all, rows_of(0)), (by_half, rows_of(0)[::2])):
    F.cross_entropy(model(x[rows].double()), y[rows]).backward()
off = relative(gradient(by_half), gradient(by_all))
print(f"the first gradient, of 32 images: off by {off:.0%}")

# %% tags=["nbval-check-output", "hide-cell"]
way = (alone - first).norm()
assert (found["right"] - alone).abs().max() < 1e-10
assert (found["same images"] - alone).norm() > 0.5 * way
assert (found["sum"] - alone).norm() < 0.01 * way
assert 0.8 < off < 1.2
print("checked: two processes end where one does, to ten digits")


# %% [markdown]
# The difference is about as long as the gradient itself: with so few images, most of it is
# noise. Adam rescales whatever it gets, noise included, so its steps are as long as ever.
#
# ### What sharing brings
#
# Does sharing pay? Two folded cells give batches of 64 to a larger ViT, in one process, then in
# two:


# %% tags=["hide-input"]
def images_per_second(count, number):
    """Images per second of `count` processes, and all-reduce's share."""
    torch.manual_seed(0)
    model = ViT(28, 4, 1, 10, embed_dim=192, depth=6, num_heads=3, mlp_dim=768)
    optimizer = AdamW(model.parameters())
    rows = rows_of(0)[: 64 // count]
    together = 0.0
    for step in range(number + 1):
        if step == 1:  # the first is slower
            begin, together = time.perf_counter(), 0.0
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        computed = time.perf_counter()
        for weight in model.parameters() if count > 1 else ():
            dist.all_reduce(weight.grad)
            weight.grad /= count
        together += time.perf_counter() - computed
        optimizer.step()
    spent = time.perf_counter() - begin
    return number * count * len(rows) / spent, together / spent


# %% tags=["hide-input"]
RACE = """
rank, count = int(sys.argv[1]), int(sys.argv[3])
store = dist.FileStore(sys.argv[2], count)
dist.init_process_group("gloo", store=store, rank=rank, world_size=count)
print(*images_per_second(count, int(sys.argv[4])))
dist.destroy_process_group()
"""


# %% tags=["hide-input"]
def race(count):
    """What `images_per_second` says in the first of `count` processes."""
    words = (folder / f"race {count}", count, 1 if TIER == "smoke" else 8)
    racing = [
        start([rows_of, images_per_second], RACE, rank, *words)
        for rank in range(count)
    ]
    try:
        told = [each.communicate(timeout=300)[0] for each in racing]
    finally:
        for process in racing:
            process.kill()
    return map(float, told[0].split())


(one, _), (two, share) = race(1), race(2)
print(f"{os.cpu_count()} processors, images per second: one process {one:.0f},")
print(f"two processes {two:.0f}, so {two / one:.1f} times as many;")
print(f"{share:.0%} of their time goes into adding up gradients")

# %% [markdown]
# That's far from twice as fast: while they add up, the processes also wait for each other. (Beside
# other programs it was once 1.2 times and 9%, so don't take one run for a verdict.) And they can't
# send less: no all-reduce gets by with fewer numbers than the ring, as [Patarasuk and
# Yuan 2009](https://doi.org/10.1016/j.jpdc.2008.09.002) prove.
#
# ### DDP and FSDP
#
# `DistributedDataParallel`, DDP for short ([Li et al.
# 2020](https://arxiv.org/abs/2006.15704)), adds two things to what your two processes did. At the
# start, all processes get the weights of the first. And gradients already travel while the
# backward pass is still busy with earlier blocks. But every process holds everything: each
# weight, its gradient, and Adam's two means, which makes four numbers of four bytes. FSDP ([Zhao et al.
# 2023](https://arxiv.org/abs/2304.11277)) gives each process a share of all four, and brings
# a block's weights together only while that block computes. For eight processes:

# %%
for name in ("ViT-B/16", "ViT-H/14"):
    state_size = 4 * 4 * parameters(vit_config(name)).total / 1e9
    print(f"{name}: DDP {state_size:4.1f} GB each, ", end="")
    print(f"FSDP {state_size / 8:4.2f} GB each")


# %% [markdown]
# With slices, only the last backward pass of a step has to send anything; DDP's `no_sync()`
# keeps the others quiet. The package does both, DDP and FSDP. PyTorch's command `torchrun`
# starts the processes, and `shard=true` at the end of the line turns DDP into FSDP:
#
# ```
# torchrun --nproc-per-node 2 -m vitedu train mnist-tiny
# ```
#
# In float16, the loss scale of [chapter 7](07_speed.ipynb) also goes into the checkpoint.
# And if you test on several processes, mind [one trap](#Counting-on-several-processes).
#
# ### A quarter instead of a third
#
# If every block runs forward twice, you expect a third more work, but we counted only a quarter.
# PyTorch ends the second run of a block as soon as it has all that the backward pass needs. So it
# leaves out the block's last matrix product, the second one of the MLP. Its gradients are computed
# from what goes into it. What comes out is only added to the residual stream, and the gradient of
# a sum doesn't depend on its terms. In a ViT-Ti/16, this one product is more than a quarter of a
# block's work, so less than three quarters of each block are done twice.
#
# ### A second run that differs
#
# Activation checkpointing has a catch, if a block draws random numbers. *Dropout*, for
# example, sets some of its inputs to zero, and the second run has to hit the same ones.
# `checkpoint` takes care of that, unless you switch it off to save a little time. The
# hidden `slope` computes the gradient of the matrix in `noisy`, with or without
# `checkpoint`.


# %% tags=["hide-input"]
def slope(network, **options):
    """The gradient of its matrix, always with the same seed."""
    torch.manual_seed(0)
    tokens = torch.ones(4, 8)
    if options:
        outputs = checkpoint(network, tokens, use_reentrant=False, **options)
    else:
        outputs = network(tokens)
    return torch.autograd.grad(outputs.square().sum(), network[1].weight)[0]


# %% tags=["failure", "nbval-ignore-output"]
noisy = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 8))
for care in (True, False):
    error = relative(slope(noisy, preserve_rng_state=care), slope(noisy))
    print(f"preserve_rng_state={care!s:5} gradient off by {error:.0%}")

# %% tags=["nbval-check-output", "hide-cell"]
assert torch.equal(slope(noisy, preserve_rng_state=True), slope(noisy))
assert error > 0.05
print("checked: with the same draws it's equal to the last bit")

# %% [markdown]
# Slices have a catch, too: the network must look at one image at a time, as a ViT does. The
# *BatchNorm* of most ResNets mixes all the images that it sees at once, so a slice isn't a
# part of the whole batch any more. With texts, slices can differ in size without your noticing:
# equally many texts don't have equally many tokens. That's how Hugging Face's mistake came about.
#
# ### A computed order and its price
#
# `rows_of` computes a whole epoch's order for every step. With 2,500 digits that's
# nothing. With a million photographs you'd compute it once per epoch and keep it. Random
# crops and dropout can be treated the same way: seed them with the run's seed and the
# number of the step, and with the number of the process if each process should draw its
# own.
#
# You can also cut the data. ImageNet is more than a million small files, and
# reading them in random order keeps a disk busy with seeking. So you pack them into a
# few hundred larger files, *shards*, which are read from front to back:
#
# ```
# vitedu prepare imagenet small short_side=448
# ```
#
# But then, what's a random order? The package takes the shards in random order, opens a
# few at once, and shuffles the photographs within this *window*. The order is computed
# from seed and epoch, as in `rows_of`, so a run on shards has one integer for a
# position, too. And if you kill `prepare` and start it again, it goes on and ends
# with the same bytes.
#
# ### When bytes differ
#
# On one processor with one thread, the same program adds the same numbers in the same
# order. With a different number of threads, or on a different kind of processor, sums
# are cut differently and the last digit changes. Two processes cut them differently from
# one, too. On a GPU, some operations add up in whatever order the threads finish.
# `torch.use_deterministic_algorithms(True)` picks others, which may be slower. Our
# promise of equal bytes is for the CPU with one thread. (Where this notebook finds a GPU, it
# trains there with that setting. The two processes and what's compared in float64 stay on
# the CPU.)
#
# Adam can magnify such rounding: it divides by the gradient's size, and where a gradient is nearly
# zero, the noise of rounding decides the step. That's why our two processes, after ten steps, don't
# agree as closely as the gradients of our slices. And that's why the hidden checks on this page
# demand that gradients agree to twelve digits, in float64, but the weights after Adam only to ten.
#
# ### Counted and measured
#
# This page counts memory. Does a real GPU agree? Here's a training step of ViT-B/16:

# %% tags=["nbval-ignore-output", "hide-input"]
if "gpu-steps" in results.names():
    lot = results.read("gpu-steps")
    for kind, count in (("fp32", 64), ("bf16", 64), ("bf16", 256)):
        counted, measured = (
            lot["metrics"][f"{kind}-{count}/{name}"]["value"] / 1e9
            for name in ("counted_memory", "vitedu/memory")
        )
        print(f"{count:3} images, {kind}  counted {counted:5.2f} GB, ", end="")
        print(f"measured {measured:5.2f} GB")
    print(f"{lot['hardware']}, {lot['date']}")
else:
    print("no record of a GPU here: python benchmarks/gpu_day.py --lot 1")

# %% [markdown]
# On our H100 the count was within four percent, so you can trust it before you rent a GPU.
#
# ### Counting on several processes
#
# If you test on two processes, 501 images don't divide evenly. PyTorch's
# `DistributedSampler` then repeats the first image of its order, and a sum over both
# processes counts it twice. On large test sets it's a small error, but it's a different one
# for every number of processes. The package shares out every batch so that each process takes
# `rows_of(step)[share::count]`, repeats nothing, and adds up counts, never means.
#
# ### Beyond a rename
#
# `os.replace` protects you from a program that dies. If the power fails, which this page
# doesn't test, the new name itself may not have reached the disk, so the package also calls `fsync` on the folder.
# And sometimes a disk returns bytes that it was never given. So the package's checkpoints
# end with a hash of everything before it, and a file whose hash doesn't match is rejected.
#
# Our harder test killed the package itself, where the command that began a run also resumes it. The
# folded cell below names the record.

# %% tags=["nbval-ignore-output", "hide-cell"]
record = results.read("kill-and-resume")
metrics = {name: each["value"] for name, each in record["metrics"].items()}
assert metrics["sigkills"] == 20 and metrics["sigkills_in_a_write"] == 12
assert metrics["equal_runs"] == 2
print(f"{record['hardware']}, {record['date']}")
print(record["command"])


# %% [markdown]
# ## Where this is in the paper
#
# | here | in the paper |
# |---|---|
# | batches of 4,096 | section 4.1 |
# | several processes | section 4.2: cores of TPUv3, and how many days they took |
# | the memory that a step needs | appendix D.5 and Figure 12, compared with ResNets |
# | a running average as the result | Table 2: the ImageNet numbers of the largest models |
#
# Accumulation, activation checkpointing and resuming aren't mentioned. They're supposed to
# change nothing, and you've seen what that takes.
#
# ### What differs
#
# * The paper trained on TPUs, with its batch spread over many cores. We had two processes
#   on one CPU, and their batch was 64.
# * Our timeline of kills has one kind of accident. A whole machine that disappears from a
#   group of eight needs more: somebody has to notice, and start the others again.
#   `torchrun` can do that.
# * The short run of this page says which omissions change the result. How much they
#   change depends on the length of the run.
#
# ## Three readings
#
# * [Goyal et al. 2017](https://arxiv.org/abs/1706.02677) train ImageNet in an hour on 256
#   GPUs, and list mistakes with several processes that raise no error. You'll recognise
#   some.
# * [Rajbhandari et al. 2020](https://arxiv.org/abs/1910.02054) had the idea behind FSDP:
#   count what every process holds twice, and divide it up.
# * [Masters and Luschi 2018](https://arxiv.org/abs/1804.07612) argue against large batches.
#   In their experiments, the best results come with 32 images or fewer.
#
# ## Solutions
#
# <details><summary>The five questions</summary>
#
# 1. The step needs the mean over the whole batch. Slices may differ in size, and in a mean of
#    their means, each image of a small slice would count for more.
# 2. The backward pass is about two thirds of the work, and it isn't repeated. Only the forward
#    pass is.
# 3. With $2 \, (p - 1) / p \cdot m$, two processes send $m$ numbers each, and a thousand send
#    $1.998 \, m$: less than twice as much.
# 4. The number of the step. It's another run than the one you planned, and if you compare it
#    with others, you compare accidents.
# 5. Opening the file for writing empties it. If you're killed before the new one is complete,
#    you have neither.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# The gradient is four times too long. With plain gradient descent, every step is four
# times as long, as if you had raised the learning rate. Adam divides by the gradient's
# own size, so nearly nothing changes. If you clip, it does: a gradient that was short
# enough is cut after you've made it four times as long. Steps with a large and with a
# small gradient then count the same in Adam's means. So a mistake that Adam forgives
# comes back as soon as you clip. The cell below takes ten steps with the right and with the longer
# gradients. It prints how far apart they end, in percent of the distance from the start to the
# right weights.
#
# </details>


# %% tags=["hide-cell", "nbval-ignore-output"]
def ten_steps(kind, rate, factor, longest=float("inf")):
    """The way that the weights go, with gradients `factor` times too long."""
    model = new_run()["model"].cpu().double()
    first = nn.utils.parameters_to_vector(model.parameters()).detach()
    optimizer = kind(model.parameters(), lr=rate)
    for step in range(10):
        rows = rows_of(step)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows].double()), y[rows]).backward()
        for weight in model.parameters():
            weight.grad *= factor
        nn.utils.clip_grad_norm_(model.parameters(), longest)
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach() - first


for name, settings_of in {
    "gradient descent": (torch.optim.SGD, 0.01),
    "Adam": (AdamW, 0.01),
}.items():
    right, wrong = ten_steps(*settings_of, 1), ten_steps(*settings_of, 4)
    print(f"{name:16} {100 * relative(wrong, right):6.2f}%")
right, wrong = ten_steps(AdamW, 0.01, 1, 1), ten_steps(AdamW, 0.01, 4, 1)
print(f"Adam, clipped    {100 * relative(wrong, right):6.2f}%")

# %% [markdown]
# <details><summary>Solution 2</summary>
#
# The forgetful half keeps nearly nothing, the other half keeps all, so a bit more than
# half is kept. And half of the blocks run twice, so the extra work is half as much.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
second = ViT()
second.load_state_dict(loaded.state_dict())
for i in range(0, 12, 2):
    second.blocks[i] = Forgetful(second.blocks[i])
kept_half, work_half, _ = step_cost(second, image)
print(f"kept {kept_half / kept:.0%}, work {work_half / work:.0%}")

# %% [markdown]
# <details><summary>Solution 3</summary>
#
# Process 3, in round 3, because chunk 0 set out from process 0. After that round every row
# of the picture has exactly one 4, so the four sums are finished at the same time. And
# yes, everyone waits for the slowest. Each chunk has to pass through each process, so
# every round takes as long as its slowest transfer. It's the price of doing the same as
# one machine.
#
# </details>
#
# <details><summary>Solution 4</summary>
#
# Two and a half, because every moment between two saves is equally likely. Now save every $k$
# steps. A day has 86,400 seconds, and the writing costs $86{,}400 / k \cdot 3$ of them,
# nearly. The accident costs $k / 2$ on average. Their sum is smallest where the two are
# equal: $k^2 = 518{,}400$, so $k = 720$, every twelve minutes. The writing then costs about
# six minutes a day, and so does the accident.
#
# </details>
#
# <details><summary>Solution 5</summary>
#
# Less far. With a counter of zero, Adam takes its two means for fresh ones, and divides
# them by $1 - 0.9^t$ and $1 - 0.999^t$ as if $t$ had begun anew. For the mean of the
# gradients that's put right after some twenty steps. For the mean of the squares it takes
# hundreds, more than our run has left. Until then Adam's estimate of the squares is too
# large, and its steps are too small.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
run = new_run()
first = weights(run).clone()
advance(run, HALF)
torch.save(contents(run), folder / "state.pt")
advance(run, STEPS - HALF)
last = weights(run).clone()
saved = torch.load(folder / "state.pt")
for state_of_weight in saved["optimizer"]["state"].values():
    state_of_weight["step"].zero_()
run = new_run()
put_back(run, saved)
advance(run, STEPS - HALF)
far = 100 * (weights(run) - last).norm() / (last - first).norm()
print(f"without the counter {far:.0f}% away")
print(f"without the optimizer {without(('optimizer',), 0)[0]:.0f}%")

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# Let there be $p$ processes and $m$ weights. On the way forward, each block's weights are
# brought together: the second half of the ring, $(p - 1) / p \cdot m$ numbers per process
# over all blocks. Afterwards they're thrown away, so the backward pass brings them
# together once more. Then the gradients are added, but each process only needs the sum of
# its own share: the first half of the ring. That's three halves, where DDP has two. FSDP
# sends half as much again, and holds one $p$-th of the state.
#
# </details>
