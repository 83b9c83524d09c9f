# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · a quarter of a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Looking inside
#
# You have a trained Vision Transformer, and it's right about most photographs. But what
# does it *do* in there? Let's begin with a simple question to each of its heads: how far
# away do you look?

# %% tags=["nbval-ignore-output", "hide-input"]
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
_ = torch.manual_seed(0)
print(f"seed 0, cpu, torch {torch.__version__}")

# %% tags=["hide-input"]
from vitedu import figures, interpret, results
from vitedu.data import photo
from vitedu.figures.chapters import inside

NAMES = ("hopper", "cat", "coffee", "astronaut", "rocket")
UNIFORM = 116.49  # pixels, of a head that looks everywhere alike

# %%
model = vitedu.load("ViT-Ti/16")
images = [vitedu.preprocess(model, photo(name)) for name in NAMES]
images = torch.cat(images)  # five photographs, (5, 3, 224, 224)


def look(model):
    """The attention of every block: a list of (b, heads, t, t)."""
    with torch.no_grad(), vitedu.record_attention(model) as maps:
        model(images)
    return maps


maps = look(model)
far = interpret.attention_distance(maps, grid=(14, 14), patch_size=16)

# %% tags=["hide-input"]
figures.show(*inside.distances({"five photographs": far}, UNIFORM))

# %% [markdown]
# Each dot is one of three heads in one of twelve blocks. Its height is how far away,
# measured in pixels of the photograph, a patch finds what it takes from others, on the
# mean. A head at zero would look at its own patch alone. A head that looks at all patches
# alike would be on the dashed line.
#
# The early blocks look as you'd expect: some heads stay close to home, others look far
# away. Now look at the last three blocks. Every head is *above* the line. It looks farther
# away than a head that looks everywhere! **How can anybody look farther than
# everywhere?**
#
# The paper draws this figure too, as its Figure 7, for a larger model. It's one of five
# pictures in which the authors look inside. We'll draw all five with the model on board,
# and the last one will lead us to four strange patches that nobody wrote about until three
# years later.

# %% tags=["hide-input", "margin"]
figures.show(*figures.network("patches", "positions", "attention"))

# %% [markdown]
# ## What does the first layer look for?
#
# The first thing that happens to a patch is $\mathbf{E}$: 192 small pictures that it's
# compared with ([chapter 1](01_images.ipynb)). Many of them are nearly alike. So
# let's ask for the few pictures from which all 192 can be mixed best, the most important
# one first. They're called *principal components*, and they come from one line of linear
# algebra, the singular value decomposition of $\mathbf{E}$ without its mean:

# %%
E = model.patch_embed.proj.weight.detach().flatten(1)  # (192, 768)
components = torch.linalg.svd(E - E.mean(0), full_matrices=False).Vh
components = components[:28].view(28, 3, 16, 16)

# %% tags=["hide-input"]
figures.show(*inside.filters(components))

# %% [markdown]
# Light and dark come first, then slopes, then stripes that get finer and finer, and a few
# in colour. If you've ever seen how a JPEG is made, you know them: it describes each of
# its small squares by a list of such stripes. Nobody told this network to. It seems to be
# what a patch of a photograph is best described by, whoever looks.
#
# ## Where am I?
#
# Attention can't tell left from right, so every patch gets a position vector from a table
# of 196 ([chapter 4](04_vit.ipynb)). All its numbers were random at first. Has the table
# noticed that the world has two dimensions?
#
# Two vectors are alike if they point the same way. Their *cosine* says how much: 1 for the
# same direction, 0 at a right angle, −1 for opposite ones. That's the dot product, once
# both have length 1:


# %%
def position_similarity(pos_embed):
    """(1, 1 + n, d) -> (n, n): the cosine of every two positions."""
    rows = F.normalize(pos_embed[0, 1:], dim=-1)  # without the class token
    return rows @ rows.mT


alike = position_similarity(model.pos_embed.detach())
alike = alike.view(14, 14, 14, 14)  # row, column, and another row, column

# %% tags=["nbval-check-output", "hide-cell"]
assert torch.allclose(alike, interpret.position_similarity(model), atol=1e-6)
print("checked: the same as vitedu.interpret.position_similarity")

# %% [markdown] tags=["predict"]
# Take the patch in row 3 and column 5 (counted from 0). Two others want to be the most like
# it. One is close, three rows down and two columns to the right. The other is in the same
# column, but eight rows down. **Which one's position is more like it?**
#
# * the close one, in row 6 and column 7
# * the far one, in row 11 and column 5
# * they're about the same

# %%
print(f"row  6, column 7: {alike[3, 5, 6, 7]:5.2f}")
print(f"row 11, column 5: {alike[3, 5, 11, 5]:5.2f}")

# %% tags=["hide-input"]
figures.show(*inside.crosses({"every second patch": alike}, step=2))

# %% [markdown]
# The far one wins clearly. Here's the whole table, one small map per patch (every
# second one, to save space), and you see why. In each map there's a bright *cross*: the
# patch's row and its column. The network has built itself a grid paper, with one part of the
# vector for the row and another for the column, though nobody told it which patch is next
# to which.
#
# Does that always happen? In the appendix (Figure 10), the authors show that it depends on
# how you train. We tried a small ViT with patches of 4 on all of MNIST, under three settings:

# %% tags=["hide-input"]
record = results.read("inside-training")["metrics"]
SETTINGS = ("rate 0.0005, decay 0.01", "rate 0.001, decay 0.1", "twice as long")


def table(name):
    """How alike the positions of the first seed are, (7, 7, 7, 7)."""
    similarity = torch.tensor(record[name]["similarity_of_seed_0"])
    return similarity.view(7, 7, 7, 7)


figures.show(
    *inside.crosses({x.replace(", ", "\n"): table(x) for x in SETTINGS})
)

# %% tags=["hide-input"]
print(f"{'three seeds each':25} test digits      cross")
for name in SETTINGS:
    row = record[name]
    crosses = ", ".join(f"{x:.2f}" for x in row["cross_per_seed"])
    print(f"{name:25} {row['value']:9.2f} %  {crosses}")

# %% [markdown]
# SETTINGS TEXT
#
# ## How far does a head look?
#
# Now the figure from the top. A head gives every patch a list of weights that sum to 1. So
# the distance it looks is a mean: each distance, times the weight of the patch that is there.

# %% [markdown] tags=["predict"]
# Take a pencil. A picture has four patches, 2×2, each 16 pixels wide. The patch at the top
# left takes half from itself and half from the patch diagonally below it. **How many pixels
# away does it look, on the mean?**

# %%
weights = torch.tensor([0.5, 0.0, 0.0, 0.5])
far_away = torch.tensor([0.0, 16.0, 16.0, (16**2 + 16**2) ** 0.5])
print(f"{(weights * far_away).sum():.1f} pixels")


# %% [markdown]
# The whole figure is that for every patch, head, block and photograph. One thing needs
# care: the class token isn't anywhere, so there's no distance to it. We leave out its row
# and its column, and scale what's left so that it sums to 1 again:


# %%
def attention_distance(maps, grid=14, patch_size=16):
    """Maps (b, heads, t, t), one per block -> pixels, (blocks, heads)."""
    places = torch.cartesian_prod(torch.arange(grid), torch.arange(grid))
    between = torch.cdist(places.double(), places.double()) * patch_size
    found = []
    for weights in maps:
        weights = weights[:, :, 1:, 1:]  # from patches to patches
        weights = weights / weights.sum(dim=-1, keepdim=True)
        found.append((weights * between).sum(dim=-1).mean(dim=(0, 2)))
    return torch.stack(found)


# %% tags=["nbval-check-output", "hide-cell"]
assert torch.allclose(attention_distance(maps).float(), far, atol=1e-3)
everywhere = [torch.full((1, 1, 197, 197), 1 / 197)]
assert abs(attention_distance(everywhere).item() - UNIFORM) < 0.01
print("checked: the package's distances, and 116.49 pixels if all are alike")

# %% [markdown]
# The line about the sum is easy to forget. Code that somebody from the paper's team [posted
# when they were asked for it](https://github.com/google-research/vision_transformer/issues/162)
# leaves it out, and so do its many copies. Nothing fails. But look at the first block:

# %% tags=["failure"]
forgot = interpret.attention_distance(maps, (14, 14), 16, prefix="drop")
to_class = maps[0][:, :, 1:, 0].mean(dim=(0, 2))
for head in range(3):
    print(
        f"head {head + 1}: {far[0, head]:3.0f} pixels, without the sum "
        f"{forgot[0, head]:2.0f}; {to_class[head]:.0%} to the class token"
    )

# %% [markdown]
# The third head gives most of its attention to the class token. What's left sums to a third, and so
# the head seems to look at hardly anything but itself. It's an important difference: heads
# that stay close to home are what one hopes to find in the first block, as in a convolution.
#
# DATA AND HYBRID TEXT

# %% tags=["hide-input"]
ROWS = {
    "600\ndigits": "600 digits",
    "6,000\ndigits": "6,000 digits",
    "60,000\ndigits": "rate 0.001, decay 0.1",
    "hybrid,\n60,000": "hybrid",
}
shown = {
    title: torch.tensor(record[name]["distance_per_seed"]).transpose(0, 1)
    for title, name in ROWS.items()
}
shown = {title: each.flatten(1) for title, each in shown.items()}
# figures.show(*inside.distances(shown, 14.4))

# %% [markdown]
# ## Which patches made the answer?
#
# Everybody's favourite picture of a Transformer is the one that shows what it looked at. How
# would you make it? The class token's attention in the last block is a first idea. But by
# then a token isn't its patch any more: it has been mixed with others in eleven blocks.
#
# So let's follow the mixing ([Abnar and Zuidema 2020](https://arxiv.org/abs/2005.00928)).
# Write down for each token what it's made of. At first each is made of its own patch
# alone. Then every block mixes once: attention says how much comes from where, and the
# residual stream keeps what was there. How much of each? We don't know, so rollout simply
# says half and half:


# %%
def rollout(maps):
    """Maps (b, heads, t, t), one per block -> what tokens are made of."""
    own = torch.eye(maps[0].shape[-1])
    made_of = own
    for weights in maps:
        mixed = 0.5 * own + 0.5 * weights.mean(dim=1)  # mean over the heads
        made_of = mixed @ made_of
    return made_of


of_the_answer = rollout(maps)[:, 0, 1:].view(-1, 14, 14)  # the class token's

# %% tags=["nbval-check-output", "hide-cell"]
same = interpret.attention_map(model, images)
assert torch.allclose(of_the_answer, same, atol=1e-6)
print("checked: the same as vitedu.interpret.attention_map")

# %% tags=["hide-input"]
with torch.no_grad():
    best = model(images).argmax(dim=-1).tolist()
answers = [model.class_names[each].split(",")[0] for each in best]
figures.show(*inside.looked_at(images / 2 + 0.5, of_the_answer, answers))

# %% [markdown]
# That's the paper's Figure 6 (and Figure 14, which has many more). ANSWERS TEXT
#
# It looks convincing. But is it *true*? A map that shows the object is what we'd draw
# ourselves, and that's exactly why it's easy to believe. So here's a test. If these patches made the
# answer, then the answer should fall apart without them. We take away the patches that a
# map calls most important, 10% of them, then more, and read off the probability of the
# answer.

# %% [markdown] tags=["predict"]
# Four orders compete, on a thousand photographs: rollout; the class token's attention in the last block
# alone; the *gradient*, which says how much the answer changes if you change a pixel a little; and a
# random order. **Which one hits the answer hardest?**
#
# * rollout
# * the last block's attention
# * the gradient
# * they're all about as good as random

# %% tags=["hide-input"]
seen = results.read("inside-photographs")["metrics"]
ORDERS = ("rollout", "last block's attention", "gradient", "at random")
curves = {order: seen[f"removal/{order}"] for order in ORDERS}
figures.show(*inside.removal(curves))

# %% [markdown]
# REMOVAL TEXT
#
# ## Four corners
#
# Back to the heads that look farther than everywhere. Which patches are they looking at? One
# thing is easy to measure: how long is each token, as a vector? Here are the lengths after
# a few blocks, for the photograph of the cat, and below them all of it in numbers:

# %%
tokens, lengths = model.embed(images).detach(), []
for block in model.blocks:
    tokens = block(tokens).detach()
    lengths.append(tokens.norm(dim=-1))  # (b, 197)
lengths = torch.stack(lengths)

# %% tags=["hide-input"]
after = {f"block {block}": lengths[block - 1, 1, 1:] for block in (6, 7, 8)}
figures.show(*inside.norms(after))

# %% tags=["hide-input"]
corners = torch.tensor([1, 14, 183, 196])  # rows of the tokens
others = torch.ones(197, dtype=torch.bool)
others[[0, 1, 14, 183, 196]] = False
long = {
    "the four corners": lengths[:, :, corners].mean(dim=(1, 2)).tolist(),
    "all others (median)": lengths[:, :, others].flatten(1).median(1).values,
}
shares = [x[:, :, 1:, corners].sum(-1).mean().item() for x in maps]
figures.show(*inside.growth(long, shares))

# %% [markdown]
# In block 8 four tokens explode: the four corners, in every photograph. They're more than thirty
# times as long as the others, and in the last blocks they take more than half
# of all attention. There's our riddle solved. The corners are as far away as a picture
# allows: 161 pixels on the mean, where everywhere is 116.
#
# But that's a strange answer. What could be so interesting in the corners of a
# cat photograph? There's a wall, and a bit of blanket.

# %% [markdown] tags=["predict"]
# Let's take these four tokens away before the first block, so that no token can look at them. For
# comparison, we take away four patches from the middle of the photograph instead, and
# look at the loss on the thousand photographs (it's SIZE to begin with). **What do you expect?**
#
# * the corners hardly matter, since there's only background
# * both hurt about the same: four patches are four patches
# * the corners hurt much more than the middle

# %% tags=["hide-input"]
CHANGES = {
    "four inner patches dropped": "four in the middle\ndropped",
    "corners dropped": "four corners\ndropped",
}


def costs(changes):
    """Draw what changes add to the loss."""
    rows = {words: seen[f"corners/{name}"] for name, words in changes.items()}
    figures.show(*inside.costs(rows))


costs(CHANGES)

# %% [markdown]
# Four patches of wall and blanket are worth many times as much as four from the middle, where the
# cat is. Unless they aren't about the wall and the blanket at all. To find out, we keep the tokens
# and change what they *show*: each corner patch gets the mean patch of all
# photographs, no picture at all, and only its position is left. And we give four tokens in the
# middle the corners' positions, and the corners theirs.

# %% tags=["hide-input"]
costs(
    {
        "corners dropped": "four corners\ndropped",
        "corners emptied": "the same, emptied",
        "positions swapped": "positions swapped\nwith the middle",
    }
)

# %% [markdown]
# EMPTY TEXT
#
# ### Out of the picture
#
# If all that these tokens need is a position, they don't need to be patches. So here's what we do.
# Four new tokens come in front, like a class token: they carry nothing but the
# mean patch, at the four corner positions. The real corner patches get the position of their
# neighbours, one step inwards, and become ordinary patches again.

# %%
changed = interpret.test_time_registers(model, images)
maps_after = look(changed)
far_after = interpret.attention_distance(maps_after, (14, 14), 16)

# %% tags=["hide-input"]
with torch.no_grad():
    before = model.blocks(model.embed(images)).norm(dim=-1)
    after = changed.blocks(changed.embed(images)).norm(dim=-1)
panels = {
    "cat": before[1, 1:],
    "cat,\ncorners moved out": after[1, 1:],
    "rocket,\ncorners moved out": after[4, 1:],
}
figures.show(*inside.norms(panels))

# %% tags=["hide-input"]
figures.show(
    *inside.distances(
        {"as it was": far, "corners moved out": far_after}, UNIFORM
    )
)

# %% tags=["hide-input"]
costs(
    {
        "corners dropped": "four corners\ndropped",
        "the same without the empty tokens": "corners inwards,\nnothing new",
        "corners moved out of the picture": "corners inwards,\nfour new tokens",
    }
)

# %% [markdown]
# END TEXT
