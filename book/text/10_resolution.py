# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · a quarter of a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Higher resolution
#
# In the package there's a photograph of a rocket, waiting on its launch pad at dusk. Our
# trained network takes it for an oil rig. Let's give it more pixels and ask again. (`say`
# prints a photograph's two most probable classes.)

# %% tags=["nbval-ignore-output", "hide-input"]
import math
import os
import statistics
from collections import Counter

import torch
import torch.nn.functional as F
from einops import rearrange

from vitedu import budget, figures, results
from vitedu.data import photo
from vitedu.figures.chapters import resolution as drawings

torch.set_num_threads(1)
_ = torch.manual_seed(0), torch.set_grad_enabled(False)  # nothing is trained
TIER = os.environ.get("VITEDU_TIER", "cpu")
print(f"tier {TIER}, seed 0, cpu, torch {torch.__version__}")

# %% tags=["hide-input"]
rocket, cat, coffee = photo("rocket"), photo("cat"), photo("coffee")
hopper = photo("hopper").crop((0, 20, 512, 532))


def say(model, picture, words):
    """Print the two most probable classes of a photograph."""
    best = vitedu.classify(model, picture, top=2)
    listed = ", ".join(f"{name} {share:.0%}" for name, share in best)
    print(f"{words}: {listed}")


# %% tags=["nbval-ignore-output"]
for side in (224, 288, 384):
    model = vitedu.load("ViT-Ti/16", image_size=side)
    say(model, rocket, f"{side} pixels")

# %% tags=["nbval-ignore-output", "hide-input"]
shown, told = [], []
for side in (224, 288, 384):
    model = vitedu.load("ViT-Ti/16", image_size=side)
    shown.append(model.preprocess(rocket) / 2 + 0.5)
    best = vitedu.classify(model, rocket, top=1)[0]
    told.append(f"{best[0]}\n{best[1]:.0%}")
figures.show(*drawings.cuts(shown, told))

# %% [markdown]
# The photograph and the file of weights are the same, and nobody has trained anything.
# A patch is still sixteen pixels wide and high, but there are more patches now, and
# each covers a smaller piece of the scene. At 288 pixels, the oil rig has turned into a space
# shuttle or a missile, which is as near to a Falcon rocket as ImageNet's classes get.

# %% tags=["nbval-ignore-output", "hide-input"]
answers = {}
for side in range(160, 385, 32):
    model = vitedu.load("ViT-Ti/16", image_size=side)
    answers[side] = vitedu.classify(model, rocket, top=3)
drawings.Sizes(shown[-1], answers)

# %% [markdown]
# Two things should bother you. The network was trained on 196 patches, and now it has read
# many more. How can it? And at the largest size, the oil rig is back in the lead.
#
# This chapter asks: **how can a network read a larger photograph than it was trained
# on, and how large should the photograph be?**
#
# ## What depends on the size?
#
# Walk through the network in your head. The patch embedding treats each patch by itself, so
# it doesn't care how many there are. The MLP does the same with its tokens. Attention compares
# every token with every other, but with the same matrices for five tokens or five thousand.
# And the head reads one token, the class token.
#
# Does anything depend on the size, then? Which arrays change their shape at 384×384 pixels?

# %%
small = vitedu.load("ViT-Ti/16").state_dict()
large = vitedu.load("ViT-Ti/16", image_size=384).state_dict()
for name, array in large.items():
    if array.shape != small[name].shape:
        print(name, tuple(small[name].shape), "->", tuple(array.shape))

# %% tags=["nbval-check-output", "hide-cell"]
same = [name for name in large if large[name].shape == small[name].shape]
assert all(torch.equal(large[name], small[name]) for name in same)
assert len(small) - len(same) == 1 and 577 == 24 * 24 + 1
print(
    f"checked: {len(same)} of {len(small)} arrays have equal shapes and values"
)

# %% [markdown]
# Only one: `pos_embed`, the table of positions from [chapter 4](04_vit.ipynb). It has a row
# for the class token and one for each patch. The larger image makes a grid of 24×24
# patches, and most of the rows that it needs were never learned. Where does `load` get
# them?
#
# ## A table that is a picture
#
# Leave the class token's row aside. Each of the other rows belongs to a place in the 14×14
# grid and has 192 numbers. Take only *one* of them, say at index 164, from every row, and
# write it down at the row's place. You get a small picture.
#
# In a photograph you'd call that a channel, such as the red one. The table is a picture, too,
# with 192 channels. Here are four of them: three with a clear
# pattern, and the least regular of all.

# %% tags=["hide-input"]
pos_embed = vitedu.load("ViT-Ti/16").pos_embed
grid = rearrange(pos_embed[0, 1:], "(gh gw) d -> gh gw d", gh=14)
waves = (164, 51, 54, 149)
figures.show(*drawings.numbers({"14×14": grid}, waves))

# %% tags=["nbval-check-output", "hide-cell"]
centred = grid - grid.mean(dim=(0, 1))
power = centred.square().mean(dim=(0, 1))
down = centred.mean(dim=1).square().mean(dim=0) / power
across = centred.mean(dim=0).square().mean(dim=0) / power
strong = power.argsort(descending=True)[:48]
even = strong[(down - across)[strong].abs() < 0.1]
assert waves[0] == strong[down[strong].argmax()]
assert waves[1] == strong[across[strong].argmax()]
assert waves[2] == even[0]
assert waves[3] == (down + across).argmin()
print("checked: the four are picked as the text says")


# %% [markdown]
# Nobody told the network that these numbers belong to a grid, and they began as noise. Now
# the first channel changes from top to bottom, the second from left to right, and the third
# is a chessboard of both. The last one looks wild, but its values hardly differ. Each picture has
# its own scale, from its lowest value (dark) to its highest (bright), so only the standard
# deviation, `std`, shows that.
#
# To enlarge a photograph, you'd put new values between the old ones. We'll do the same with every
# channel.
#
# ## Between two places
#
# Take a pencil. Three places in a line have the values $2, 6, 4$. You need five,
# with first and last unchanged. Walk along the line in half steps, and wherever you
# stop between two places, take half of each: $2, \mathbf{4}, 6, \mathbf{5}, 4$.
#
# Write down what each new place takes from the old ones, a row for each new place, and you
# have the matrix on the left, $W$:
#
# $$ \begin{pmatrix} 1 & 0 & 0 \\ \frac12 & \frac12 & 0 \\ 0 & 1 & 0 \\
# 0 & \frac12 & \frac12 \\ 0 & 0 & 1 \end{pmatrix}
# \begin{pmatrix} 2 \\ 6 \\ 4 \end{pmatrix}
# = \begin{pmatrix} 2 \\ 4 \\ 6 \\ 5 \\ 4 \end{pmatrix} $$
#
# Enlarging a line, then, is a product with a matrix.
#
# What if you need $m$ places, made from $n$? Count from zero. New place $i$ falls on the spot
#
# $$ u_i = i \, \frac{n - 1}{m - 1} $$
#
# of the old line. Old place $k$'s share is 1 if the spot lands right on it, and falls in a
# straight line to 0 one step away:
#
# $$ W_{ik} = \max(0, \; 1 - |u_i - k|) $$
#
# This is called linear interpolation. In code it takes two lines, with `clamp` for the maximum:


# %%
def shares(n, m):
    """What each of n old places gives to each of m new ones: (m, n)."""
    u = torch.linspace(0, n - 1, m)
    return (1 - (u[:, None] - torch.arange(n)).abs()).clamp(min=0)


W = shares(3, 5)
print(W)
print(W @ torch.tensor([2.0, 6.0, 4.0]))

# %% [markdown]
# A picture $P$ has two directions, and you enlarge one after the other.
# $W P$ puts new rows between the rows of $P$. Then $W^\top$, from the right, puts new columns
# between its columns. The larger picture is $W P \, W^\top$. (In code, `W.mT` is $W^\top$.)

# %% [markdown] tags=["predict"]
# Now enlarge a little hill from 3×3 values to 5×5:
#
# $$ P = \begin{pmatrix} 0 & 4 & 0 \\ 4 & 8 & 4 \\ 0 & 4 & 0 \end{pmatrix} $$
#
# In the larger hill, the place in the second row and second column falls between four old
# ones. **What is its value?**

# %%
P = torch.tensor([[0.0, 4, 0], [4, 8, 4], [0, 4, 0]])
print(W @ P @ W.mT)

# %% tags=["nbval-check-output", "hide-cell"]
assert torch.allclose(shares(14, 18).sum(dim=1), torch.ones(18))
assert torch.equal(W @ P @ W.mT, torch.tensor(drawings.LARGER_HILL).float())
print("checked: each row adds up to 1, and the hill is the one drawn below")

# %% [markdown]
# It's the mean of the four, $(0 + 4 + 4 + 8) / 4 = 4$.
#
# Our table is 192 such pictures. Store them as (192, 14, 14), and `@` enlarges all of
# them at once. If the new grid isn't square, each direction needs a matrix of its own:
# $W_h$ for the height and $W_w$ for the width.
#
# ## Resize the table
#
# Here are all the steps, for the hill, with the code beside the arrows:

# %% tags=["hide-input"]
figures.show(*drawings.stages())


# %% [markdown]
# The class token isn't at any place in the image, so its row isn't part of the picture.
# It's set aside and comes back unchanged. (After the function, `pos_embed` is the learned table.)


# %%
def resize_pos_embed(pos_embed, old, new):
    """Positions of an old grid for a new one: (1, t, d) -> (1, t_new, d)."""
    N = old[0] * old[1]
    token, table = pos_embed.split([1, N], dim=1)
    P = rearrange(table, "1 (gh gw) d -> d gh gw", gh=old[0])
    W_h, W_w = shares(old[0], new[0]), shares(old[1], new[1])
    larger = W_h @ P @ W_w.mT
    table = rearrange(larger, "d gh gw -> 1 (gh gw) d")
    return torch.cat([token, table], dim=1)


# %% tags=["nbval-ignore-output"]
larger = resize_pos_embed(pos_embed, (14, 14), (18, 18))
print(tuple(larger.shape))
theirs = vitedu.load("ViT-Ti/16", image_size=288).pos_embed
print(f"largest difference: {(larger - theirs).abs().max():.0e}")

# %% tags=["nbval-check-output", "hide-cell"]
for old, new in (((14, 14), (24, 24)), ((3, 5), (7, 4)), ((9, 6), (5, 6))):
    table = torch.randn(1, old[0] * old[1] + 1, 8)
    mine = resize_pos_embed(table, old, new)
    package = vitedu.resize_pos_embed(
        table,
        new,
        old_grid=old,
        num_prefix_tokens=1,  # the class token
    )
    assert torch.allclose(mine, package, atol=1e-5)
    assert torch.equal(mine[:, 0], table[:, 0])
assert (larger - theirs).abs().max() < 1e-5
print("checked: our function is the package's, for four pairs of grids")

# %% [markdown]
# Up to rounding, you've written what `load` did for the rocket. (Other libraries do it [a little
# differently](#Libraries-that-resize-tables).)
#
# Here are two of our four channels before and after, for an image of 384 pixels:

# %% tags=["hide-input"]
table = resize_pos_embed(pos_embed, (14, 14), (24, 24))
after = rearrange(table[0, 1:], "(gh gw) d -> gh gw d", gh=24)
both = {"14×14": grid, "24×24": after}
figures.show(*drawings.numbers(both, waves[2:]))


# %% [markdown]
# The chessboard has stayed in place, in finer steps, and channel 149 has become smoother. A patch a
# third of the way down is still told that it's a third of the way down.
#
# ## A shortcut that raises no error
#
# Suppose you want *smaller* images, with ten patches in a line. The table has more rows than
# you need, so why resize it? Just take the first ones!
# vit-pytorch, a ViT that many have copied, [does just
# that](https://github.com/lucidrains/vit-pytorch/issues/70).
#
# The trouble starts with the eleventh patch. In such an image, it begins the second line. But
# the table was learned with fourteen patches in a line, so its eleventh row still belongs to
# the first line. From there on, every patch is told a wrong place.
#
# `ask` shows the network two photographs: the cat, and Grace Hopper in her uniform (from
# [chapter 1](01_images.ipynb)). With a resized table, it names both at 160 pixels.

# %% [markdown] tags=["predict"]
# **And with the first rows: what will it make of Hopper's uniform?**
#
# * *military uniform*, a little less sure
# * something else that people wear
# * nonsense, such as *coil*


# %% tags=["hide-input"]
def ask(model, words):
    """What a network says about Hopper and the cat."""
    say(model, hopper, f"{words}, Hopper")
    say(model, cat, f"{words}, cat")


# %% tags=["failure", "nbval-ignore-output"]
model = vitedu.load("ViT-Ti/16", image_size=160)
ask(model, "160, resized")
model.pos_embed.copy_(pos_embed[:, :101])
ask(model, "160, first rows")

# %% [markdown]
# Hopper gets a graduate's cap. The cat survives, and that's [chapter 9](09_weights.ipynb)'s trap:
# had you looked only at the cat's first answer, you'd have noticed nothing.
#
# Let's count, on that chapter's 1,000 photographs:

# %% tags=["nbval-ignore-output", "hide-input"]
record = results.read("resolution")


def recorded(case, name):
    """A number of the record."""
    return record["metrics"][f"{name}/{case}"]["value"]


for words, case in (("resized", "160"), ("the first rows", "160-cut")):
    print(f"160 pixels, {words:15}{recorded(case, 'top1'):4} right")

# %% [markdown]
# More than a third of the right answers are gone, and nothing complained. It's like reading a page
# with its lines broken in the wrong places.
#
# > **Remember.** A table of the right *shape* can still put every patch in the wrong place.
# > Check it on photographs whose answers you know, and on more than one.
#
# ## How large, without training?
#
# With the right table, are more pixels better? We've run the 1,000 photographs at seven
# sizes, with the same network and the same square from the middle of each.

# %% [markdown] tags=["predict"]
# At 160 pixels 751 were right, and at 224, 813. **And at 384?**
#
# * about as few as at 160
# * clearly more than that, but fewer than at 224
# * more than at 224

# %% tags=["nbval-ignore-output", "hide-input"]
SIDES = (160, 192, 224, 256, 288, 320, 384)
right = {side: recorded(side, "top1") for side in SIDES}
costs = {side: recorded(side, "macs") / recorded(224, "macs") for side in SIDES}
changes = {
    side: [recorded(side, f"{way}_answers") for way in ("gained", "lost")]
    for side in SIDES
}
errors = {side: sum(counts) ** 0.5 for side, counts in changes.items()}
figures.show(*drawings.curve(right, costs, errors, trained=224))

# %% [markdown]
# The grey band reaches two [standard errors](#Gained-and-lost) of the difference above and below
# the count at 224, where it shrinks to a point. By the rule of [chapter 5](05_mnist.ipynb),
# everything inside is a tie, from 192 to 288 pixels, even the peak. Then the curve falls. At 384,
# the network is no better than at 160, for more than seven times the work.
#
# Why does it fall? The reason may be what [Touvron et al.
# 2019](https://arxiv.org/abs/1906.06423) call the *train-test resolution discrepancy*. A network
# gets used to how large things are in training. Enlarge the photograph, and everything in
# it grows, but the patches don't: what used to fit into one patch now fills nearly three. There are
# other suspects: interpolated rows in the table, and attention shared among three times as many
# tokens.
#
# Besides, our files are too small to hold much more detail. With sharper copies, the fall is [half as
# deep](#Detail-and-size).
#
# And our rocket? It got a better name at 288 pixels. If we'd shown you only the rocket, would you
# have believed in larger images? Let's cut out our square four pixels further left, or right:

# %% tags=["nbval-ignore-output", "hide-input"]
for side in (224, 384):
    model = vitedu.load("ViT-Ti/16", image_size=side)
    for words, left in ("left", 76), ("right", 84):
        square = rocket.crop((left, 0, left + 320, 320))
        say(model, square, f"{side}, moved to the {words}")

# %% [markdown]
# Now the oil rig isn't even second at 384, and even at 224 the missile wins. That's how little one
# photograph tells you.
#
# ## And with training?
#
# Now let's *fine-tune*: we go on training our network, on [chapter 11](11_transfer.ipynb)'s
# photographs of waste, sorted by material.

# %% [markdown] tags=["predict"]
# Fine-tuned at 224 pixels, it gets about 93% of the test photographs right. The same network,
# tested at 384, gets only about 90%. Now we fine-tune at the larger size, too. **How many will it
# get right at 384?**
#
# * about 90%, or fewer
# * about 93%
# * about 96%
# * above 99%

# %% tags=["nbval-ignore-output", "hide-input"]
waste = results.read("resolution-trashnet")
cases = {
    sides: waste["metrics"]["accuracy/{}-{}".format(*sides)]["per_seed"]
    for sides in ((224, 224), (224, 384), (384, 384))
}
figures.show(*drawings.practice(cases))


# %% [markdown]
# Each dot is a seed, and each bar is a mean. Here, **the extra resolution paid off, once the network
# had practised at the new size**: four in ten of the mistakes at 224 are gone. The resized positions
# [hardly moved](#A-new-table).
#
# Does practice always pay? Chapter 11 has a second set, small photographs of ants and bees. Here's
# how many points each set gains or loses at the larger size, compared with fine-tuning and testing
# at the smaller one (± the standard error over the seeds):


# %% tags=["hide-input"]
def from_224(found, case):
    """A mean over seeds minus the mean at 224, and its error."""
    pair = [
        found["metrics"][f"accuracy/{each}"]["per_seed"]
        for each in ("224-224", case)
    ]
    before, after = map(statistics.mean, pair)
    errors = [statistics.stdev(seeds) / len(seeds) ** 0.5 for seeds in pair]
    return after - before, math.hypot(*errors)


sets = {"waste": waste, "ants, bees": results.read("resolution-finetune")}
points = {
    name: [from_224(found, case) for case in ("224-384", "384-384")]
    for name, found in sets.items()
}
print("tested at 384  fine-tuned at 224  fine-tuned at 384")
for name, (without, practised) in points.items():
    cells = [f"{x:+.1f} ± {error:.1f}" for x, error in (without, practised)]
    print(f"{name:13}{cells[0]:>19}{cells[1]:>19}")

# %% tags=["nbval-check-output", "hide-cell"]
for difference, error in points["waste"]:
    assert 5 < abs(difference) / error < 7
difference, error = points["ants, bees"][1]
assert 2.9 < abs(difference) / error < 3.1


def photographs(found, case):
    number = found["dataset"]["num_test"]
    before, after = (
        found["metrics"][f"accuracy/{each}"]["per_seed"]
        for each in ("224-224", case)
    )
    pairs = zip(before, after, strict=True)
    return [round((y - x) * number / 100) for x, y in pairs]


moved = {
    name: [photographs(found, case) for case in ("224-384", "384-384")]
    for name, found in sets.items()
}
assert all(-14 <= n <= -8 for n in moved["waste"][0])
assert all(10 <= n <= 14 for n in moved["waste"][1])
assert f"{14 / 14**0.5:.1f}" == "3.7"
assert all(-4 <= n < 0 for each in moved["ants, bees"] for n in each)
print("checked: waste by seeds, and how many photographs that is")


# %% [markdown]
# On waste, the drop and the gain are both more than five standard errors, so by chapter 5's rule
# they're results, at least on these test photographs. On ants and bees, both losses could still be
# luck: of only 153 test photographs, no seed lost more than four. But practice bought us nothing
# there. ([Possible reasons, and how sure we are](#Who-gains-from-384-pixels).)
#
# ## A photograph in its own shape
#
# So far we've cut both sides off the rocket's photograph, because the input was a square. But
# `resize_pos_embed` doesn't need one. Let the short side keep the 14 patches that the network
# knows, and give the long side as many as the photograph's shape asks for:


# %% tags=["nbval-ignore-output"]
def in_shape(picture):
    """A network for a photograph's own shape, its short side 14 patches."""
    sides = picture.height, picture.width
    size = [16 * round(14 * side / min(sides)) for side in sides]
    return vitedu.load("ViT-Ti/16", image_size=tuple(size))


wide = in_shape(rocket)
say(wide, rocket, f"{wide.config.image_size} pixels")


# %% [markdown]
# Now it's a missile, by a wide margin. On the 1,000 photographs, though, whole and cut are [a
# tie](#Gained-and-lost).
#
# ## Can the patches find a cat?
#
# Does the network also know *where* things are? So far its head has read only the class token, but
# you can hand it all the other tokens, too, and ask each patch by itself. Let's paste a cat into the
# rocket's sky. Will the patches find it?
#
# (`x / 2 + 0.5` turns the network's input back into colours, and `show_where` draws the patches'
# answers as a map.)


# %% tags=["nbval-ignore-output"]
def by_patch(picture):
    """The picture as a network of its shape sees it; its patches' answers."""
    network = in_shape(picture)
    x = network.preprocess(picture)
    # after the last block, without the class token
    (tokens,) = network.get_intermediate_layers(x[None])
    chances = network.head(network.norm(tokens)).softmax(dim=-1)
    return x / 2 + 0.5, chances.view(*network.config.grid, 1000)


sky = rocket.copy()
sky.paste(cat.resize((180, 120)), (290, 20))
_, chances = by_patch(sky)
print(tuple(chances.shape))

# %% tags=["hide-input"]
DRINK = slice(3, 6), slice(7, 13)  # rows and columns of the coffee's patches


def show_where(*pictures):
    """Pictures, each followed by its names; the patches' chances of them."""
    seen, maps, marked = [], {}, {}
    for picture, *names in pictures:
        shown, chances = by_patch(picture)
        rows = [wide.class_names.index(name) for name in names]
        seen.append(shown)
        maps[", ".join(names)] = chances[..., rows].sum(dim=-1)
        if picture is coffee:
            marked[", ".join(names)] = DRINK
    figures.show(*drawings.where(torch.stack(seen), maps, marked))


# %% tags=["nbval-ignore-output"]
show_where(
    (sky, "Egyptian cat", "tabby", "tiger cat"),
    (coffee, "cup", "espresso"),
)

# %% tags=["nbval-check-output", "hide-cell"]
number = wide.class_names.index
drink, launch = (by_patch(picture)[1] for picture in (coffee, rocket))
inside = drink.argmax(dim=-1)[DRINK]
along = launch.argmax(dim=-1)[4:, 10]  # from its tip to the ground
assert (inside == number("earthstar")).sum() in range(7, 12)
assert (along == number("planetarium")).sum() > 4
assert (
    launch[..., [number("missile"), number("projectile")]].sum(-1).max() < 0.3
)
cats = [number(name) for name in ("Egyptian cat", "tabby", "tiger cat")]
lit = chances[..., cats].sum(-1) > 0.1
assert lit.sum() > 20 and lit[1:6, 13:20].sum() == lit.sum()
print("checked: the lit cat, the earthstar and the planetarium are in place")

# %% [markdown]
# There's the cat! The map has gaps, but no patch outside the cat gives those names more than a tenth.
# Nobody has told this network where anything is. It learned names for whole photographs.
#
# The cup's rim and the saucer are lit, too (and a bit of bare wood), but the drink, in the white
# frame, isn't. What do its patches say, and what do the rocket's say?

# %% tags=["nbval-ignore-output", "hide-input"]
names = wide.class_names
for words, found in (("drink", inside), ("rocket", along)):
    common = Counter(names[number] for number in found.flatten().tolist())
    said = ", ".join(f"{name} {n}" for name, n in common.most_common(3))
    print(f"{found.numel()} patches of the {words}: {said}")

# %% [markdown]
# An earthstar is a mushroom, and no patch of the rocket's photograph gives *missile* even 30%. Yet
# the class token says *missile*. It gathers from all patches, and in training only its answer
# counted, so no patch ever had to know a name.
#
# Now it's your turn. Put your own photograph in place of Hopper's, and in the last line write the
# name you get:

# %% tags=["nbval-ignore-output"]
from PIL import Image

mine = hopper  # or Image.open("mine.jpg").convert("RGB")
say(in_shape(mine), mine, "mine")
show_where((mine, "military uniform"))

# %% tags=["nbval-check-output", "hide-cell"]
_, chances = by_patch(hopper)
uniform = chances[..., names.index("military uniform")]
assert uniform[:3, 4:10].max() < 0.05 and uniform[9:].max() < 0.1
assert (uniform > 0.2).sum() == (uniform[3:6, 5:11] > 0.2).sum() > 4
print("checked: her face is lit, and the cap and the jacket aren't")

# %% [markdown]
# It's a uniform, say the patches of her forehead and her nose, while cap and jacket stay dark!
# After twelve blocks, each token has gathered from the whole photograph, so its answer needn't be
# about its own little square.
#
# Can you trust such a map, then? It found the cat, and it put a uniform on a face. Take it as a
# hint, not as a location.
#
# ## What to take with you
#
# 1. Only the table of positions depends on the size of the image. It's a picture with
#    many channels, so you resize it like a picture, without the class token's row.
# 2. A table with the right shape and the wrong places raises no error, and cost us more than
#    a third of the right answers. ([Two more such
#    tables](#Rows-and-columns-mixed-up) are below.)
# 3. Without training, choose the shape that you like, but keep the short side near the size
#    that the network knows. On waste, a larger size paid off, but only with practice.
# 4. A patch's own answer hints at what's there, but it may be about another part of the
#    photograph.
#
# **Five questions**
#
# 1. Why does the same patch embedding work for any size of image?
# 2. Why must the class token's row be kept out of the resizing?
# 3. Three places have the values $1, 4, 1$. Stretch them to four places. What are the values?
# 4. Why is "take the first rows" wrong for a smaller image?
# 5. At 256 pixels there are more right answers than at 224. Why isn't that a result?
#
# <details><summary>Answers</summary>
#
# 1. It treats each patch by itself, and a patch keeps its size.
# 2. It belongs to no place in the image, so it has no neighbours to be mixed with.
# 3. $1, 3, 3, 1$.
# 4. The rows are counted line by line. With fewer patches per line, a row no longer belongs
#    to the place where it was learned.
# 5. The gain is about one standard error.
#
# </details>
#
# You've now stretched other people's weights, but they still know only ImageNet's
# thousand classes. **How do you teach a trained network your own classes?** That's
# [chapter 11](11_transfer.ipynb).
#
# ## Exercises
#
# **1.** ★ How many rows does the table of a ViT-B/16 have at 384 pixels, and that of a
# ViT-H/14 at 518? How many of them are new, compared with 224 pixels? And how many
# *weights* does each network gain, if a ViT-B is 768 wide and a ViT-H 1,280?
#
# **2.** ★ Write down $W$ for shrinking five places to three. Which old places have no
# share in anything? Is that a problem for smooth waves? For the noise of channel 149?
#
# **3.** ★★ You enlarge the table from 14×14 to 27×27 and shrink it back to 14×14. Do you
# get the old table? And by way of 18×18? Predict, then try it with `resize_pos_embed`.
#
# **4.** ★★ In the drawing, the red row stays. Suppose you forget it altogether, and the
# class token gets a row of zeros. Predict: nonsense, different answers, or the same
# answers with different probabilities? Try it at 224 pixels, with
# `model.pos_embed[:, 0] = 0`. What does that say about what the row is for?
#
# **5.** ★★ You may spend about nine times what a photograph costs at 224 pixels. Would
# you take one larger input, or nine crops at 224 whose answers you average? Say from the
# chart what larger inputs buy up to 384 pixels. Predict what nine crops make of the
# rocket, and try it. Which of the two has won, then?
#
# **6.** ★★★ Does fine-tuning at 288 beat fine-tuning at 224 on ants and bees? Say how
# many test photographs you'd need before you could tell a difference of half a percent,
# if 3% are wrong, the two networks make half of their mistakes on the same photographs,
# and you want three standard errors, so that it's a result. Then plan the experiment:
# what do you keep equal, how many seeds, and which data?
#
# ## Second reading
#
# ### Rows and columns mixed up
#
# Our function asks for both grids, and doesn't guess. Suppose you confuse height and
# width when you resize for the whole rocket:

# %% tags=["nbval-ignore-output"]
say(wide, rocket, "the right table, rocket")
say(wide, coffee, "the right table, coffee")

tall = resize_pos_embed(pos_embed, (14, 14), (21, 14))
wide.pos_embed.copy_(tall)
say(wide, rocket, "the table of a tall image, rocket")
say(wide, coffee, "the table of a tall image, coffee")

# %% [markdown]
# The second table has as many rows as the first, so nothing complains, and the coffee
# turns into eggnog. DINO, a well-known way to train ViTs without labels, had a relative of
# this mistake, but a louder one: for images that aren't square, its function [returned a
# wrong number of rows](https://github.com/facebookresearch/dino/issues/8).
#
# ### Stretched along a line
#
# For a *larger* image, a lazy way doesn't bother with grids. There are 197 rows, and
# you need 325, so you let PyTorch stretch the rows along a line, class token and all.

# %% tags=["nbval-ignore-output"]
model = vitedu.load("ViT-Ti/16", image_size=288)
ask(model, "288, resized")
line = F.interpolate(pos_embed.mT, size=325, mode="linear").mT
model.pos_embed.copy_(line)
ask(model, "288, stretched")
print("right:", *(recorded(case, "top1") for case in ("288", "288-line")))

# %% [markdown]
# Hopper is wrong in the same way, and of 1,000 photographs nearly half of the right answers are
# gone.
#
# ### Detail and size
#
# Our 1,000 JPEGs have a short side of 256 pixels. We cut out a square of nine tenths of it, which is
# 230 pixels, so an input beyond that shows nothing new. Another copy of the same photographs has a
# short side of up to 440:

# %% tags=["nbval-ignore-output", "hide-input"]
detail = results.read("resolution-detail")
finer = {
    side: detail["metrics"][f"top1/{side}"]["value"] for side in (224, 288, 384)
}
print("pixels  short side 256  short side up to 440")
for side, count in finer.items():
    print(f"{side:6}{right[side]:16}{count:22}")

# %% [markdown]
# With more to see, the fall at 384 is half as deep. (The second column is in bfloat16,
# which moves a few close answers, so compare within a column.) But it's still a fall: 77
# answers are lost and 41 gained, a difference of more than three standard errors. So something
# else may be at work, too.
#
# For Touvron et al. it's the way of training. The network saw random pieces of photographs,
# scaled to 224 pixels, so it's used to objects that fill much of the picture. A slightly larger
# test picture makes a cat as large as that. Go on, and the cat is larger than in training.
#
# ### Gained and lost
#
# Is any size really better than 224? Count the answers that are right only at the new size
# (gained) and those that were right only at the old one (lost). The standard error of
# their difference is the square root of their sum. Below two standard errors it's no
# result, and above three it is.

# %% tags=["nbval-ignore-output", "hide-input"]
print("side  right  gained  lost  difference / error")
for side in SIDES:
    if side != 224:
        gained, lost = changes[side]
        ratio = (gained - lost) / errors[side]
        print(f"{side:4} {right[side]:6} {gained:7} {lost:5} {ratio:12.1f}")

# %% [markdown]
# And here are the 1,000 cut to a square and whole, each in its own shape, with the short
# side that the network knows:

# %% tags=["nbval-ignore-output", "hide-input"]
gained, lost = (
    recorded("224-whole", f"{x}_answers") for x in ("gained", "lost")
)
print(f"cut to a square  {recorded(224, 'top1')} right")
print(f"whole            {recorded('224-whole', 'top1')} right")
ratio = (gained - lost) / (gained + lost) ** 0.5
print(f"gained {gained}, lost {lost}, difference / error {ratio:.1f}")


# %% [markdown]
# ### Who gains from 384 pixels
#
# Here's all that we know. (A *probe* trains only a new head.)


# %% tags=["hide-input"]
def percent(name, case):
    """The values at both sizes, and how many seeds they are means of."""
    found = results.read(name)["metrics"]
    cells = [found[case.format(side)] for side in (224, 384)]
    values = [f"{each['value']:.1f}" for each in cells]
    return values, len(cells[0].get("per_seed") or [0])


# %% tags=["nbval-ignore-output", "hide-input"]
rows = {
    "waste, a probe": percent("trashnet-frozen", "probe/{}"),
    "waste": percent("resolution-trashnet", "accuracy/{0}-{0}"),
    "ants and bees": percent("resolution-finetune", "accuracy/{0}-{0}"),
    # timm's table of results, see below
    "ImageNet": (["75.5", "78.4"], 1),
}
print(f"{'right (%)':18}at 224  at 384  seeds")
for words, (values, seeds) in rows.items():
    print(f"{words:18}{values[0]:>6}{values[1]:>8}{seeds:7}")

# %% [markdown]
# (The last row is from [timm's
# table](https://github.com/huggingface/pytorch-image-models/blob/main/results/results-imagenet.csv):
# our network, fine-tuned on all of ImageNet once at each size. Its 50,000 test photographs are
# [harder than our 1,000](12_imagenet.ipynb#The-1,300). The runs on waste at 224 are chapter 11's,
# repeated on another machine, where one seed differs by one photograph.)
#
# With fine-tuning, waste and ImageNet gain three points each. Their photographs have
# more to show than the small input can hold, and there are many to practise with. Those of ants
# and bees are small and few, and the network [knew both](11_transfer.ipynb#A-test-that-proves-little)
# from ImageNet before. With a probe, the network doesn't practise at all. Any of these may be
# the reason, and four rows can't separate them.
#
# How sure is the gain on waste? Over the seeds, it's more than five standard errors. But the
# photographs have an error of their own, and for that you'd count what was [gained and
# lost](#Gained-and-lost). A seed that's fine-tuned at 384 gets 10 to 14 more of the 431 right than
# the same seed at 224. If it lost none of its right answers, 14 more would be
# $14 / \sqrt{14} = 3.7$ standard errors. The more it lost, the lower that number gets, and our record
# keeps only the totals. The same holds for the drop without practice, 8 to 14 photographs. We
# can't say, then, whether other photographs of waste would show the drop or the gain.
#
# Ants and bees are the opposite case. Over the seeds, the loss with practice is right at the border
# of three standard errors. But no seed ends up more than four photographs lower. Even if it gained
# none, that's only $4 / \sqrt{4} = 2$ standard errors of the photographs, so we don't call it a loss.
#
# ### A new table
#
# If you train at the new size anyway, do you have to resize the table? You could also learn the
# positions anew, from a table that's random and small, as in [chapter 4](04_vit.ipynb):

# %% tags=["nbval-ignore-output"]
model = vitedu.load("ViT-Ti/16", image_size=384)
ask(model, "384, resized")
torch.manual_seed(0)
model.pos_embed[:, 1:] = 0.02 * torch.randn(1, 576, 192)
ask(model, "384, new")

# %% [markdown]
# With a new table, Hopper is a jigsaw puzzle! The pieces are all there, and none of them
# knows its place. Training would have to solve that puzzle first. The resized table has nothing
# to solve. In the runs on waste, how far did fine-tuning move it, as a share of its length?

# %% tags=["hide-input"]
for side in (224, 384):
    share = waste["metrics"][f"positions_moved/{side}"]["value"]
    print(f"fine-tuned at {side}: the table moved by {share:.2f}%")

# %% [markdown]
# It hardly changed.
#
# ### Libraries that resize tables
#
# If you've loaded a ViT at a different size before, your library did the resizing, in
# its own way. Ours is the way of the ViT's authors. The package knows three others, as
# `mode="timm"`, `"torchvision"` and `"hf"` (Hugging Face). How many of the 1,000 photographs
# get another answer at 288 pixels?

# %% tags=["nbval-ignore-output", "hide-input"]
modes = {
    "288": "the authors",
    "288-timm": "timm",
    "288-torchvision": "torchvision",
    "288-hf": "Hugging Face",
}
print(f"{'':14} other answers  right  top 5  largest change")
for case, words in modes.items():
    line = f"{words:14} {recorded(case, 'changed_answers'):13}"
    line += f" {recorded(case, 'top1'):6} {recorded(case, 'top5'):6}"
    print(f"{line} {recorded(case, 'largest_change'):15.1f}")

# %% [markdown]
# Very few, and the count of right ones hardly moves. (*Top 5* counts a photograph if its name is
# among the five most probable.) *Where* a row belongs decides a lot, and *how* you compute the
# values between decides next to nothing. It does change the
# logits, as the last column shows. If you want to reproduce a library's numbers, take
# that library's mode.
#
# The libraries differ in two ways. The first is where the new places are:

# %% tags=["hide-input"]
figures.show(*drawings.ways())

# %% [markdown]
# We went corner to corner. You can also look at each place as a cell, a little square of
# the photograph, and let the cells fill the same area. Then the middle of the first new
# cell is closer to the edge than the middle of the first old one.
#
# The second difference is how many neighbours have a say. With our $W$ it's two along
# each axis. *Bicubic* interpolation takes four and draws a smooth curve through them. The
# authors' code goes corner to corner and takes two. torchvision goes corner to corner and
# takes four. timm and Hugging Face go cell by cell and take four, on curves that differ a
# little.
#
# PyTorch's `F.interpolate` gives our result with `mode="bilinear", align_corners=True`.
# Leave out the last argument, and it goes cell by cell.
#
# timm's way is bicubic with `antialias=True`. The word matters most when you *shrink* a
# table: [exercise 2](#Exercises) shows that plain interpolation then skips places, while
# antialiasing averages over them.

# %% tags=["nbval-check-output", "hide-cell"]
image = rearrange(pos_embed[:, 1:], "1 (gh gw) d -> 1 d gh gw", gh=14)
options = {"mode": "bilinear", "align_corners": True}
stretched = F.interpolate(image, size=(18, 18), **options)
stretched = rearrange(stretched, "1 d gh gw -> 1 (gh gw) d")
assert torch.allclose(stretched, larger[:, 1:], atol=1e-5)
wrong = F.interpolate(image, size=(18, 18), mode="bilinear")
wrong = rearrange(wrong, "1 d gh gw -> 1 (gh gw) d")
assert (wrong - larger[:, 1:]).abs().max() > 0.1
print("checked: PyTorch's bilinear with align_corners=True is ours")

# %% [markdown]
# ### What more patches cost
#
# The number of patches grows with the square of the side, and the pairs that attention
# compares grow with its fourth power. Why then does 384 cost less than four times as much
# as 224, and not nine times? Count the multiplications that an image takes (1 MAC is a
# multiplication and an addition), and which part of them depends on pairs:

# %% tags=["hide-input"]
print("network   side  patches      MACs  for pairs of tokens")
for name, side in (
    ("ViT-Ti/16", 224),
    ("ViT-Ti/16", 384),
    ("ViT-Ti/16", 768),
    ("ViT-B/16", 384),
):
    config = vitedu.vit_config(name, image_size=side)
    total, tokens = budget.macs(config), config.num_tokens
    pairs = config.depth * 2 * tokens**2 * config.embed_dim
    line = f"{name:9} {side:4} {tokens - 1:8} {total / 1e9:7.2f} G"
    print(f"{line} {pairs / total:13.0%}")

# %% [markdown]
# Most of the arithmetic is in the MLPs and projections, which treat each token once. Only
# at large sides do the pairs take over. In a wider network that happens even later, as
# the last line shows.
#
# ### Where the recorded numbers are from
#
# Each of these scripts is in the repository, and wrote what we show here:

# %% tags=["nbval-ignore-output", "hide-input"]
for each in (record, detail, *sets.values()):
    print(f"{each['hardware']}, {each['date']}")
    print(f"    {each['command']}")

# %% [markdown]
# ## Where this is in the paper
#
# | here | in [Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929) |
# |---|---|
# | patches keep their size, positions are resized by their place in the image | section 3.2 |
# | fine-tuning at 384 pixels | section 4.1, Table 5 |
# | 512 pixels for ViT-L/16, 518 for ViT-H/14 | section 4.1, Table 2 |
# | all of a network's positions, compared with each other | Figure 7 |
#
# ### What differs
#
# * The paper always fine-tunes after it has resized. We run the resized network as it is.
# * Its evaluation squeezes a photograph into the square. Ours scales the short side and
#   cuts out the middle, as timm does.
# * Its larger inputs could show more detail: our 1,000 photographs had been scaled down to a
#   short side of 256.
#
# ## Three readings
#
# * [Touvron et al. 2019](https://arxiv.org/abs/1906.06423) measure how large things are in
#   training and in testing, and win by fine-tuning only the last layers at the test size.
#   Our curve shows at most a trace of their gain: its top at 256 pixels is within the
#   error.
# * [Beyer et al. 2023](https://arxiv.org/abs/2212.08013) change the size of the patches
#   and not of the image, at random in training, and get one network for many patch sizes.
# * [Xie et al. 2021](https://arxiv.org/abs/2105.15203) disagree with resizing altogether.
#   They say that interpolated positions hurt when the size changes, which may be a part of
#   our loss at 384 pixels, and build a network that has none.
#
# ## Solutions
#
# <details><summary>Solution 1</summary>
#
# ViT-B/16: $24^2 + 1 = 577$ rows, 380 more than 197. ViT-H/14: $37^2 + 1 = 1370$, where
# 224 pixels gave $16^2 + 1 = 257$, so 1,113 more. Each row has $D$ numbers: 768 times 380
# is 291,840 weights for ViT-B/16, and 1,280 times 1,113 is 1,424,640 for ViT-H/14. "New"
# counts the difference. In fact nearly all of them are computed: only the rows that fall
# right on an old place, like the corners, are old.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# The spots are 0, 2 and 4, so each row of $W$ has a single 1:
#
# $$ W = \begin{pmatrix} 1 & 0 & 0 & 0 & 0 \\ 0 & 0 & 1 & 0 & 0 \\ 0 & 0 & 0 & 0 & 1
# \end{pmatrix} $$
#
# Places 1 and 3 have no share. For a smooth wave, what's lost can be guessed from its
# neighbours. For channel 149 it can't: of a piece of 5×5 specks, you keep
# every second one along each axis. That's nine of the 25, and the rest are gone.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# By way of 27 you get it back: $27 = 2 \cdot 14 - 1$, so the new places are the old ones
# and those halfway between, and shrinking picks out the old ones. By way of 18 you don't,
# except for the corners. The old values are gone, and only means of them are left to
# interpolate between, so everything gets a little smoother.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
for side in (27, 18):
    there = resize_pos_embed(pos_embed, (14, 14), (side, side))
    back = resize_pos_embed(there, (side, side), (14, 14))
    far = (back - pos_embed).abs().max()
    print(f"by way of {side}: largest difference {far:.5f}")

# %% [markdown]
# <details><summary>Solution 4</summary>
#
# The same answers, at least for these three photographs, but the cat's share drops a lot.
# The class token and its row are only ever used as a sum, so the row says nothing that
# the token couldn't say by itself. They've even had the same gradient in every step of
# their training, and have grown into twins: the last line of the cell below shows that
# their sum is as long as both lengths together, so they point the same way. Without the
# row, the class token is half as long as the network expects, and its probabilities
# change. If you want to do without the row, add it to the class token first.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
model = vitedu.load("ViT-Ti/16")
token, row = model.cls_token[0, 0], model.pos_embed[0, 0].clone()
for words in ("as it is", "zeros"):
    say(model, hopper, f"hopper, {words}")
    say(model, cat, f"cat, {words}")
    say(model, coffee, f"coffee, {words}")
    model.pos_embed[:, 0] = 0
lengths = [f"{each.norm():.1f}" for each in (token, row, token + row)]
print("lengths of token, row and sum:", ", ".join(lengths))

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# From the chart: without training, a larger input buys nothing that we could measure, and
# at 384 pixels it does harm. Nine crops make the rocket a missile, perhaps because it
# fills more of each crop. But nothing has won. A photograph that we chose because it
# makes a good story decides nothing. You'd need both ways on the 1,000.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
model = vitedu.load("ViT-Ti/16")
crops = [
    rocket.crop((left, top, left + 240, top + 240))
    for left in (60, 120, 180)
    for top in (0, 40, 80)
]
images = torch.stack([model.preprocess(crop) for crop in crops])
mean = model(images).softmax(dim=-1).mean(dim=0)
for share, place in zip(*mean.topk(3), strict=True):
    print(f"{model.class_names[place]} {share:.0%}")

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# With $n$ photographs, each network gets 3% wrong, half of them in common. So about $0.015 n$ are
# gained, and as many lost, give or take the difference of $0.005 n$. The standard error of the
# difference is the square root of what was gained and lost together, $\sqrt{0.03 n}$. You want
# $0.005 n$ to be three of those, because our rule calls that a result: $0.005 n = 3 \sqrt{0.03 n}$,
# which gives $n = 9 \cdot 0.03 / 0.005^2 = 10{,}800$. Ants and bees have 153 test photographs. So
# take another set with many test photographs, in their full size. Keep the photographs, the seeds,
# the number of epochs and the crops equal, and look for the best learning rate at *both* sizes, on
# a validation set. Three seeds each, at least.
#
# </details>
