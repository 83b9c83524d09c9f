# %% [markdown] tags=["links", "remove-cell"]
# [Open in Colab](COLAB) · [this page on the site](SITE) · about an hour · a quarter of a minute of computing on a laptop, no GPU needed

# %% tags=["setup", "remove-cell"]
import vitedu

# %% [markdown]
# # Looking inside
#
# You have a trained Vision Transformer, and it's right about most photographs. But what
# does it *do* in there? Let's begin by asking each of its heads a simple question: how far
# away do you look?

# %% tags=["nbval-ignore-output", "hide-input"]
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
_ = torch.manual_seed(0)
print(f"seed 0, cpu, torch {torch.__version__}")

# %% tags=["hide-input"]
import numpy as np

from vitedu import figures, interpret, results
from vitedu.data import photo
from vitedu.figures.chapters import inside

UNIFORM = 116.49  # pixels, of a head that looks everywhere equally
model = vitedu.load("ViT-Ti/16").requires_grad_(False)
square = photo("hopper").crop((0, 20, 512, 532)).resize((224, 224))
hopper = torch.tensor(np.array(square)).permute(2, 0, 1)[None] / 127.5 - 1
others = [photo(x) for x in ("cat", "coffee", "astronaut", "rocket")]
images = torch.cat([hopper, *[vitedu.preprocess(model, x) for x in others]])

# %%
with vitedu.record_attention(model) as maps:  # each block's weights
    model(images)  # the five photographs of this book, (5, 3, 224, 224)
far = interpret.attention_distance(maps, (14, 14), 16)  # grid, patch size

# %% tags=["hide-input"]
figures.show(*inside.distances({"five photographs": far}, UNIFORM))

# %% [markdown]
# Each dot is a head, three in each of twelve blocks. Its height says how far away a patch looks
# with this head, on average, in pixels. A head at zero would look at its own patch alone. A
# head that looks at all patches equally would be on the dashed line.
#
# The early blocks do what you'd expect: some heads stay close to home, others look far away.
# But in the last three blocks, every head is *above* the line. Each looks farther than a head
# that looks everywhere! **How can anybody look farther than everywhere?**
#
# Make a guess before you go on. Is there a mistake in our measure? Is it the class token,
# which sits nowhere? Or is there something out there that all of them look at?
#
# ## How far does a head look?
#
# Our first suspect is the measure, so let's build it. A head gives every patch a list of
# weights that sum to 1. The distance it looks is a weighted mean: each patch's distance, times
# its weight, all added up.
#
# Take a pencil. A picture has four patches, 2×2, each 16 pixels wide. The patch at the top
# left takes half from itself and half from the patch diagonally below it. How many pixels
# away does it look, on average?

# %%
weights = torch.tensor([0.5, 0.0, 0.0, 0.5])
far_away = torch.tensor([0.0, 16.0, 16.0, (16**2 + 16**2) ** 0.5])
print(f"{(weights * far_away).sum():.1f} pixels")


# %% [markdown]
# A dot in the figure is this mean for one head, averaged over all patches and photographs.
# One thing needs care: the class token isn't anywhere, so there's no distance to it. We
# leave out its row and its column, and scale what's left so that it sums to 1 again:


# %%
def attention_distance(maps, grid, patch_size):
    """Maps (b, heads, t, t), one per block -> pixels, (blocks, heads)."""
    places = torch.cartesian_prod(*map(torch.arange, grid))
    between = torch.cdist(places.double(), places.double()) * patch_size
    found = []
    for weights in maps:
        weights = weights[:, :, 1:, 1:]  # from patches to patches
        weights = weights / weights.sum(dim=-1, keepdim=True)  # sum to 1
        found.append((weights * between).sum(dim=-1).mean(dim=(0, 2)))
    return torch.stack(found)


# %% tags=["nbval-check-output", "hide-cell"]
mine = attention_distance(maps, (14, 14), 16)
assert torch.allclose(mine.float(), far, atol=1e-3)
everywhere = [torch.full((1, 1, 197, 197), 1 / 197)]
uniform = attention_distance(everywhere, (14, 14), 16)
assert abs(uniform.item() - UNIFORM) < 0.01
print("checked: the package's distances, and 116.49 pixels if all are equal")

# %% [markdown]
# That's the whole measure, and there's nothing wrong with it. ([Published
# code](#The-forgotten-line) leaves the scaling out, but that makes heads seem to look *nearer*,
# not farther.) The class token has an alibi, too: we left it out. So the riddle is in the
# network.
#
# ## Something out there

# %% [markdown] tags=["predict"]
# Suppose there's a place in the photograph that all patches like to look at. In block 11, they
# look about 150 pixels away on average. **Where would that place have to be?**
#
# * in the middle
# * in the middle of an edge
# * in a corner

# %% tags=["hide-input"]
places = torch.cartesian_prod(torch.arange(14), torch.arange(14)).double()
mean = 16 * torch.cdist(places, places).mean(dim=0).view(14, 14)
print("mean distance from a patch:")
print(f"the middle          {mean[6, 6]:4.0f} pixels")
print(f"middle of an edge   {mean[0, 6]:4.0f}")
print(f"a corner            {mean[0, 0]:4.0f}")

# %% [markdown]
# Of the three, only a corner is far enough away. And here's how much attention each patch
# really gets from all the others in block 11:

# %% tags=["hide-input"]
with torch.no_grad():
    best = model(images).argmax(dim=-1).tolist()
SHOWN = [0, 2, 3, 4]  # without the cat
answers = [model.class_names[best[i]].split(",")[0] for i in SHOWN]
CORNERS = torch.tensor([1, 14, 183, 196])  # rows of the tokens
given = [x[:, :, 1:, 1:] for x in maps]  # from patches to patches
given = [x / x.sum(dim=-1, keepdim=True) for x in given]
gets = given[10].mean(dim=(1, 2)).view(-1, 14, 14)
figures.show(
    *inside.looked_at(
        images[SHOWN] / 2 + 0.5,
        {"gets attention": gets[SHOWN]},
        answers,
        "the patches look: at its corners",
    )
)

# %% tags=["hide-input"]
share = given[10][..., CORNERS - 1].sum(dim=-1).mean().item()
rest = maps[10].clone()
rest[..., CORNERS] = 0
rest = interpret.attention_distance([rest], (14, 14), 16).mean().item()
only = torch.zeros(1, 1, 197, 197)
only[..., CORNERS] = 1  # a head that looks at the corners alone
away = interpret.attention_distance([only], (14, 14), 16).item()
print(f"{share:.0%} to the corners, {away:.0f} pixels away")
print(f"{1 - share:.0%} to the others, {rest:.0f} pixels away")

# %% [markdown]
# All four corners, in every photograph, even in the cat's, which isn't shown! Above each
# photograph is the model's answer: astronauts aren't among its thousand classes, hence the
# bobsled. Mix the two distances in these shares, and you get about 150 pixels, just where the dots of
# block 11 are. The riddle is solved.
#
# But what could be so interesting in the corners of a photograph?
#
# ## A single neuron
#
# The corners' tokens are odd in another way. Look how *long* they are, as vectors:

# %%
tokens, lengths = model.embed(images), []
for block in model.blocks:
    tokens = block(tokens)
    lengths.append(tokens.norm(dim=-1))  # (5, 197)

# %% tags=["hide-input"]
after = {f"coffee, block {n}": lengths[n - 1][2, 1:] for n in (6, 7, 8)}
figures.show(*inside.norms(after))

# %% tags=["hide-input"]
usual = torch.ones(197, dtype=torch.bool)
usual[0] = usual[CORNERS] = False
long = {
    "the four corners": [x[:, CORNERS].mean().item() for x in lengths],
    "the others (median)": [x[:, usual].median().item() for x in lengths],
}
shares = [x[..., CORNERS - 1].sum(dim=-1).mean().item() for x in given]
figures.show(*inside.growth(long, shares))

# %% [markdown]
# In block 8 they explode. From then on they're more than twenty times as long as a typical
# token, and a little later they get more than half of the patches' attention. Let's call them
# *giants*: tokens more than four times as long as the median token.
#
# Who makes them? A block has two halves, attention and MLP. In block 8 the corners are still
# short after the attention, so it's the MLP. For each token it first computes its 768 hidden
# *neurons*. Then each neuron adds a vector of its own to the token: the louder the neuron, the
# longer the vector. So how much does each neuron add to a corner?

# %%
x = model.embed(images)
for block in model.blocks[:7]:
    x = block(x)
block = model.blocks[7]  # block 8: they're counted from 0
x = x + block.attn(block.norm1(x))
neurons = block.mlp.act(block.mlp.fc1(block.norm2(x)))  # (5, 197, 768)
added = neurons * block.mlp.fc2.weight.norm(dim=0)

# %% tags=["hide-input"]
print(f"a corner after the attention: {x[:, CORNERS].norm(dim=-1).mean():.0f}")
print(f"and after the MLP: {lengths[7][:, CORNERS].mean():.0f}\n")
at_corners = added[:, CORNERS].mean(dim=(0, 1))
elsewhere = added[:, usual].abs().amax(dim=(0, 1))
print("added by:       in a corner   at most elsewhere")
for neuron in at_corners.topk(3).indices.tolist():
    told = f"{at_corners[neuron]:8.1f}{elsewhere[neuron]:16.1f}"
    print(f"neuron {neuron}    {told}")

# %% [markdown]
# A single neuron! On these photographs, neuron 417 says "I'm a corner", loudly, and is silent
# everywhere else.
#
# Does the network need it? We silenced it by setting its column in the second matrix to zero.
# We also dropped the four corner tokens before the first block, so that nobody could look at
# them, and, for comparison, four patches around the middle. On a thousand photographs, one for
# each class of ImageNet, the loss was 0.69 before. Here's what each change adds to it:

# %% tags=["hide-input"]
seen = results.read("inside-photographs")["metrics"]
seen |= results.read("inside-rollout")["metrics"]


def costs(**changes):
    """Draw what changes add to the loss; `_` is a line break."""
    rows = {}
    for words, name in changes.items():
        rows[words.replace("__", "\n").replace("_", " ")] = seen[name]
    figures.show(*inside.costs(rows))


costs(
    four_in_the_middle__dropped="corners/four inner patches dropped",
    four_corners__dropped="corners/corners dropped",
    neuron_417__silent="corners/the giants' neuron silent",
)

# %% [markdown]
# The middle is hardly missed. The corners cost 0.19, or [43 right answers in a
# thousand](#The-whole-table-of-the-corners). The neuron alone costs even more, and it's one
# column of one matrix! Whatever the corners are for, the network needs them.
#
# ## How does it know that it's a corner?
#
# The MLP sees one token at a time, and attention alone can't tell left from right. So neuron
# 417 can know a corner only by what the photograph shows there, or by its *position*: the
# vector that each of the 196 patches gets from a table ([chapter 4](04_vit.ipynb)). Could the
# position be enough?
#
# Let's give the network nothing else. We paint all 196 patches grey: each shows the *mean
# patch*, the average of our five photographs' patches.

# %% tags=["hide-input"]
embedded = model.embed(images)
blank = (embedded - model.pos_embed)[:, 1:].mean(dim=(0, 1), keepdim=True)
x = model.pos_embed + F.pad(blank.expand(1, 196, -1), (0, 0, 1, 0))
x[:, 0] = embedded[0, 0]  # the class token
for before in model.blocks[:7]:
    x = before(x)
x = x + block.attn(block.norm1(x))
alone = block.mlp.act(block.mlp.fc1(block.norm2(x)))[0, :, 417]
alone = alone * block.mlp.fc2.weight[:, 417].norm()
told = ", ".join(f"{each:.0f}" for each in alone[CORNERS])
print(f"neuron 417 adds to the corners: {told}")
print(f"and at most to any other patch: {abs(alone[usual]).max():.0f}")

# %% [markdown]
# It's enough! The positions alone give away all four corners, and no other patch. (What else is
# in that table? The network has made itself [graph paper](#Graph-paper).)
#
# But in a real photograph, does the network go by position?

# %% [markdown] tags=["predict"]
# Let's keep the photograph, but paint its four corners grey, so that only their positions are
# left. **How much of the 0.19 remains?**
#
# * nearly all: what's in the corners matters
# * about a quarter
# * nothing: what's in the corners doesn't matter

# %% tags=["hide-input"]
costs(
    four_corners__dropped="corners/corners dropped",
    painted_grey="corners/corners emptied",
    four_in_the__middle_grey="corners/four inner patches emptied",
    positions_swapped__with_the_middle="corners/positions swapped",
)
there = seen["corners/corners emptied"]["of_them_there"]
print(f"grey     {there:.1f} giants per photograph, in the corners")
there = seen["corners/positions swapped"]["of_them_there"]
print(f"swapped  {there:.1f} giants per photograph, in the middle")

# %% [markdown]
# About a quarter, and four grey patches in the middle cost about as much. What a corner shows
# does count a little, though: three in ten grey corners don't become giants.
#
# And the last bar? There, the corners and four patches in the middle have swapped their
# positions, but not their pictures. Now the giants are in the middle! So it's mostly the
# position that makes them.
#
# ## Nothing to give
#
# A giant isn't about its patch, then. So what do all the others want from it? Maybe it's their
# notepad: they write something about the photograph on it, and read it later. Then what a giant
# hands over, its *value*, would depend on the photograph. Let's look at the values in block 11:

# %%
x = model.embed(images)
for block in model.blocks[:10]:
    x = block(x)
block = model.blocks[10]  # block 11
q, k, v = block.attn.qkv(block.norm1(x)).chunk(3, dim=-1)

# %% tags=["hide-input"]
first, second = torch.triu_indices(5, 5, offset=1)  # pairs of photographs
pairs = F.cosine_similarity(v[first], v[second], dim=-1)
long_v = v.norm(dim=-1)
print("the value of            a corner   another patch")
print(
    f"its length            {long_v[:, CORNERS].mean():10.1f}"
    f"{long_v[:, usual].mean():16.1f}"
)
print(
    f"cosine between photos {pairs[:, CORNERS].mean():10.2f}"
    f"{pairs[:, usual].mean():16.2f}"
)

# %% tags=["hide-input"]
column = model.blocks[7].mlp.fc2.weight[:, 417]
loud = column.clone()
column.zero_()
with vitedu.record_attention(model) as silent:
    x = model.embed(images)
    for block in model.blocks[:11]:
        x, before = block(x), x
column.copy_(loud)
block = model.blocks[10]
short = block.attn.qkv(block.norm1(before)).chunk(3, dim=-1)[-1]
short = short.norm(dim=-1)[:, CORNERS].mean()
weights = silent[10][:, :, 1:, 1:]
silent_share = weights[..., CORNERS - 1].sum(dim=-1) / weights.sum(dim=-1)
print("with neuron 417 silent:")
print(f"a corner's value has length {short:.1f}")
print(
    f"corners get {silent_share.mean():.0%} of the attention, not {share:.0%}"
)

# %% [markdown]
# It doesn't look like a notepad. In this block, the longest tokens have the least to say! A
# giant's value is a tenth as long as another patch's, and nearly the same in every photograph.
# (The giant's own length doesn't help, since the block's norm removes it first.) If you look at
# a giant, you take home next to nothing.
#
# Perhaps that's the point. A head's weights have to sum to 1, even where nothing is worth
# looking at, so it needs somewhere to look that does no harm. (In language models such tokens
# are called *attention sinks*.) That may also be why silencing the neuron costs more than
# dropping the corners: the patches still look at the corners a lot, though we don't know why,
# and now they take something home.
#
# [Darcet et al. 2024](https://arxiv.org/abs/2309.16588) found tokens like these in large
# models, in background patches at no fixed place. They gave their models four extra tokens,
# *registers*, and trained them anew: the giants went there, and the attention maps became
# clean. Our model is small, and already trained. Can we still give it registers?
#
# ## Out of the picture
#
# If a giant needs hardly more than its position, it doesn't have to be a patch. So we copy
# the four corner tokens, positions and all, and put the copies next to the class token, as
# tokens that belong to no patch. The corner patches themselves get the position of their
# diagonal neighbour, one step inwards, and become patches like any other:

# %%
CORNERS = torch.tensor([1, 14, 183, 196])
NEAR = torch.tensor([16, 27, 170, 181])  # one step inwards
positions = model.pos_embed


def moved_out(images):
    """(b, 3, 224, 224) -> (b, 201, d): class token, registers, patches."""
    tokens = model.embed(images)
    registers = tokens[:, CORNERS]  # copies, as they were
    tokens[:, CORNERS] += positions[:, NEAR] - positions[:, CORNERS]
    return torch.cat([tokens[:, :1], registers, tokens[:, 1:]], dim=1)


with vitedu.record_attention(model) as maps_after:
    tokens_after = model.blocks(moved_out(images))

# %% tags=["nbval-check-output", "hide-cell"]
giants = tokens_after.norm(dim=-1) > 100
assert giants[:, 1:5].all() and not giants[:, 5:].any()
print("checked: every giant is outside of the picture")

# %% [markdown] tags=["predict"]
# Moving the corner patches inwards costs 0.18 if we add no copies, about as much as dropping
# them. Now we add the four copies, outside of the picture. **How much of the 0.18 remains?**
#
# * all of it: a token outside of the picture is no corner
# * about a quarter, as when we painted the corners grey
# * nothing that you could measure

# %% tags=["hide-input"]
costs(
    four_corners__dropped="corners/corners dropped",
    moved_inwards__without_registers="corners/corners moved inwards",
    four_grey__registers="corners/moved inwards, four empty tokens",
    four_copies="corners/moved inwards, four copies",
)

# %% [markdown]
# A thousand photographs can't tell the four copies from the real corners! Even four grey
# patches as registers, with nothing but the corners' positions, bring back most of what was
# lost. And where are the giants now?

# %% tags=["hide-input"]
norms = tokens_after.norm(dim=-1)[:, 1:]
panels = {"coffee, as it was": tokens.norm(dim=-1)[2, 1:]}
panels |= {"moved out": norms[2], "rocket, moved out": norms[4]}
figures.show(*inside.norms(panels))

# %% [markdown]
# All four are among the registers, drawn below the picture. Here are the distances again:

# %% tags=["hide-input"]
far_after = interpret.attention_distance(maps_after, (14, 14), 16)
both = {"as it was": far, "corners moved out": far_after}
figures.show(*inside.distances(both, UNIFORM))
kept = maps_after[10][:, :, 5:, 1:]  # from patches, without the class token
kept = (kept[..., :4].sum(dim=-1) / kept.sum(dim=-1)).mean()
print(f"in block 11, {kept:.0%} goes to the registers")

# %% [markdown]
# Hardly any head looks farther than everywhere now, because registers, like the class token,
# don't count towards the distance. But the heads do what they did before: in block 11, four
# fifths of the attention still goes to the giants. On the site you can do all of it by hand:

# %% tags=["remove-cell"]
INNER = torch.tensor([61, 66, 131, 136])  # four in the middle
whole, moved = model.embed(images), moved_out(images)
grey = (whole - positions)[:, 1:].mean(dim=(0, 1)) + positions[:, CORNERS]
painted, swapped, empty = whole.clone(), whole.clone(), moved.clone()
painted[:, CORNERS] = empty[:, 1:5] = grey
apart = positions[:, INNER] - positions[:, CORNERS]
swapped[:, CORNERS] += apart
swapped[:, INNER] -= apart


# %% tags=["remove-cell"]
def after_all(tokens):
    """How long tokens are, without the class token's; and the answers."""
    tokens = model.blocks(tokens)
    answers = model.forward_head(model.norm(tokens)).softmax(dim=-1)
    return tokens.norm(dim=-1)[:, 1:], answers


kept = usual | (torch.arange(197) == 0)  # usual has no corners, nor this
lengths, shares = after_all(whole[:, kept])
dropped = torch.full((5, 196), torch.nan)
dropped[:, usual[1:]] = lengths
found = {
    "as they are": after_all(whole),
    "dropped": (dropped, shares),
    "painted grey": after_all(painted),
    "swapped with the middle": after_all(swapped),
    "moved inwards": after_all(torch.cat([moved[:, :1], moved[:, 5:]], dim=1)),
    "moved inwards, grey registers": after_all(empty),
    "moved inwards, copies as registers": after_all(moved),
}

# %% tags=["remove-input"]
named = "as it is", "corners dropped", "corners emptied", "positions swapped"
named += "corners moved inwards", "moved inwards, four empty tokens"
named += ("moved inwards, four copies",)
rows = {x: seen[f"corners/{y}"] for x, y in zip(found, named, strict=True)}
names = "officer", "cat", "coffee", "astronaut", "rocket"
pictures = dict(zip(names, images / 2 + 0.5, strict=True))
inside.Corners(pictures, found, rows, model.class_names)

# %% [markdown]
# ## What did it look at?
#
# With the giants out of the way, we can ask what everybody wants to know: which patches made
# the answer? Three maps claim to show it. The simplest is the class token's attention in the
# last block. But by then every token is a mixture, so the paper uses *rollout*, which [follows
# the mixing](#Follow-the-mixing) from the first block on. The *gradient* asks how much the
# answer changes if you change a patch's pixels a little.
#
# Don't choose by looking: a map that shows the object is easy to believe. Test it. If the
# bright patches made the answer, it should fall apart without them. So we remove the patches
# that a map calls most important, a tenth at first, then more: no token may look at them. How
# probable does the model find its original answer now?

# %% [markdown] tags=["predict"]
# The three maps and a random order compete on the thousand photographs. (The corners always
# stay, because dropping them costs a lot by itself.) **Which order hurts the answer most?**
#
# * rollout
# * the class token's attention in the last block, a mean over its heads
# * the gradient, its size summed over each patch
# * they're all about as good as a random order

# %% tags=["hide-input"]
ORDERS = ("last block's attention", "rollout", "gradient", "at random")
curves = {name: seen[f"removal/{name}, corners kept"] for name in ORDERS}
figures.show(*inside.removal(curves))

# %% [markdown]
# The simplest map wins. The lower a curve, the more its patches mattered, and the class token's
# attention in the last block is lowest all along. In this test, following the mixing didn't
# make the map any truer. (We remove patches by blocking attention, which may favour a map of
# attention. We haven't tried another way.)
#
# So this is the map to draw, before and after the giants moved out (each on its own scale), and
# as light falling on the photograph:

# %% tags=["hide-input"]
before = maps[11][:, :, 0, 1:].mean(dim=1).view(-1, 14, 14)
cleared = maps_after[11][:, :, 0, 5:].mean(dim=1).view(-1, 14, 14)
figures.show(
    *inside.looked_at(
        images[SHOWN] / 2 + 0.5,
        {"before": before[SHOWN], "after": cleared[SHOWN]},
        answers,
        "the class token looks: before, at the corners; after, at the object",
        lit="it looked at",
    )
)

# %% tags=["nbval-check-output", "hide-cell"]
inner = usual[1:]
pairs = zip(before.flatten(1), cleared.flatten(1), strict=True)
same = [
    torch.corrcoef(torch.stack([one[inner], other[inner]]))[0, 1]
    for one, other in pairs
]
assert min(same) > 0.9
assert given[10][..., CORNERS - 1].sum(dim=-1).mean(dim=(1, 2)).min() > 0.7
print("checked: apart from the corners, both maps are nearly the same")

# %% [markdown]
# Before, the corners are as bright as anything, or brighter. After, with the rest nearly as it
# was, you see what the class token looked at: Hopper's cap, face and collar; the coffee and the
# spoon; the top of the rocket. For the astronaut it's her collar, but also the helmet and the
# right edge.
#
# Is that really where the answers came from? Take away the brightest quarter, or a random
# quarter (a mean of ten tries):

# %% tags=["hide-input"]
asked, order = images[SHOWN], cleared[SHOWN].flatten(1)
orders = [order, *(torch.rand(4, 196) for _ in range(10))]
found = []
for each in orders:
    each[:, CORNERS - 1] = -1  # the corners stay
    each = each.argsort(dim=1, descending=True)
    found.append(interpret.deletion_curve(model, asked, each, shares=(0, 0.25)))
rows = {
    "all": found[0][0],
    "these gone": found[0][1],
    "random": torch.stack(found[1:])[:, 1].mean(dim=0),
}
gone = order.argsort(dim=1, descending=True)[:, :49]
figures.show(*inside.removed(asked / 2 + 0.5, gone, answers, rows))

# %% [markdown]
# Each time the bright patches cost far more than random ones. (Here grey doesn't mean painted:
# no token may look at these patches.)
#
# Now try a photograph of your own. `vitedu explain photo.jpg --out page` puts its answers, maps,
# distances and removal test on a page.
#
# And on the way here, you've moved four giants out of the picture, in a network that was
# trained years ago. It hasn't noticed.
#
# ## What to take with you
#
# 1. If a number looks impossible, like "farther than everywhere", chase it. It led us to four
#    tokens and a single neuron that nobody had designed.
# 2. A beautiful map proves nothing. Take away what it shows, and see whether the answer
#    falls apart.
# 3. What you find inside a network comes from *its* training on *its* data. In other networks,
#    the giants sit somewhere else.
#
# **Five questions** ([answers](#Solutions))
#
# 1. How can a head look farther, on average, than one that looks everywhere?
# 2. The class token's column is gone. Why do you have to divide what's left by its sum?
# 3. How do we know that it's mostly the position, and not the picture, that makes a giant?
# 4. After the move, hardly any head is above the line. Why does that prove nothing by itself?
# 5. What does the removal test tell you about a map that looking at the map can't?
#
# How much do positions matter in the first place, and what if you build them differently?
# Which parts of the network could you leave out, and would anybody notice? **That's chapter
# 16.**
#
# ## Exercises
#
# ✎ Write `attention_distance` again from memory, and `position_similarity` from [the second
# reading](#Graph-paper). After `from vitedu import check`,
# `check.attention_distance(attention_distance)` tells you how closely yours agrees with ours,
# or what's likely to be wrong with it; so does
# `check.position_similarity(position_similarity)`.
#
# **1.** ★ A picture has 2×2 patches of 16 pixels. How far does a head look that looks
# everywhere equally? Why is it less than the distance to the neighbour?
#
# **2.** ★ In [rollout](#Follow-the-mixing), how much of a patch's token is still the patch
# itself after twelve blocks, if attention never looks at the patch itself? And how much of the
# class token is itself?
#
# **3.** ★★ Change [rollout](#Follow-the-mixing)'s two halves to 0 (for the token itself) and
# 1, and to 1 and 0. First say what you'll see in the maps.
#
# **4.** ★★ Take away the class token's row of positions, `positions[:, 0]`, and look at the
# lengths again. Will there still be giants? (`tokens = model.embed(images)` and then
# `tokens[:, 0] -= positions[:, 0]`.)
#
# **5.** ★★ Move only *one* corner out of the picture. What becomes of the other three, and
# what of the distance? Guess, then change `moved_out`.
#
# **6.** ★★★ Somebody shows you a rollout map on an X-ray that glows over the lung, as
# proof that the network reads the lung. Which three things would you ask for?
#
# ## Second reading
#
# ### The forgotten line
#
# In `attention_distance`, the line with `weights.sum` is easy to forget, and nothing fails
# without it. One of the authors later [posted
# code](https://github.com/google-research/vision_transformer/issues/162) for the figure
# that leaves it out, and so do the many copies of that code. What difference does that make
# for the third head of the first block?

# %% tags=["failure"]
# the package can do it without the line, too
forgot = interpret.attention_distance(maps, (14, 14), 16, prefix="drop")
to_class = maps[0][:, 2, 1:, 0].mean()
print(f"{to_class:.0%} of its attention goes to the class token")
print(f"{far[0, 2]:.0f} pixels, without the line {forgot[0, 2]:.0f}")

# %% [markdown]
# Only a third of its attention is left for patches, so without the line the distance
# shrinks to a third: less than half a patch. It does look near, at 24 pixels. But with 7
# you'd celebrate it as a convolution that the network has found by itself.
#
# The paper measures on 128 photographs. Here are the distances on 128 of ours, from the
# sample of ImageNet that this book measures on: scaled to a sum of 1, not scaled, and scaled
# but without what goes to the corners.

# %% tags=["hide-input"]
ways = {"renormalise": "scaled", "drop": "not scaled"}
ways |= {"without corners": "no corners"}
ways = {
    words: torch.tensor(seen[f"looks/{name}"]["by_layer"])
    for name, words in ways.items()
}
figures.show(*inside.distances(ways, UNIFORM))

# %% [markdown]
# Without the scaling the dots sink, most of all in the first block. Without the corners, no head
# looks farther than everywhere.
#
# ### What does the first layer look for?
#
# The paper's Figure 7 begins with the very first thing that happens to a patch:
# $\mathbf{E}$, 192 small pictures that it's compared with ([chapter 1](01_images.ipynb)).
# Many of them are nearly alike. So let's ask for the few pictures from which all 192 can be
# mixed best, the most important one first. They're called *principal components*. One line
# of linear algebra finds them, the singular value decomposition of $\mathbf{E}$ once its
# mean is subtracted:

# %%
E = model.patch_embed.proj.weight.flatten(1)  # (192, 768)
components = torch.linalg.svd(E - E.mean(0), full_matrices=False).Vh
components = components[:28].view(28, 3, 16, 16)

# %% tags=["hide-input"]
figures.show(*inside.filters(components))


# %% [markdown]
# Fine checks, spots, stripes, green against pink. From the second row on there's little
# that you could name, and nothing like an eye or a wheel: a patch is first described by
# its texture. (Which end of a component is bright means nothing. In the paper's figure, the
# components of ViT-L/32 are smoother. They look like the waves that JPEG builds its small
# squares from.)
#
# ### Graph paper
#
# Which rows of the table of positions are alike? The *cosine* of two vectors is 1 for the same
# direction, 0 at a right angle, −1 for opposite ones:


# %%
def position_similarity(pos_embed):
    """(1, 1 + n, d) -> (n, n): the cosine of every two positions."""
    rows = F.normalize(pos_embed[0, 1:], dim=-1)  # without the class token
    return rows @ rows.mT


# %% tags=["hide-input"]
alike = position_similarity(model.pos_embed)
alike = alike.view(14, 14, 14, 14)  # row, column, and another row, column
table = {"one patch": alike[4:5, 6:7], "every third patch": alike}
letters = {(4, 6): "A", (7, 8): "B", (12, 6): "C"}
figures.show(*inside.crosses(table, step=3, columns=2, marked=letters))
print(f"A and B, which is near:           {alike[4, 6, 7, 8]:5.2f}")
print(f"A and C, far in the same column:  {alike[4, 6, 12, 6]:5.2f}")

# %% tags=["nbval-check-output", "hide-cell"]
assert torch.allclose(alike, interpret.position_similarity(model), atol=1e-6)
print("checked: the same as vitedu.interpret.position_similarity")

# %% [markdown]
# On the left is A compared with all others. On the right, every third patch has such a map,
# drawn where the patch is. A is far more like C than like B, though B is nearer: each patch's
# row and column form the *cross* that you know from [chapter 4](04_vit.ipynb). The network has
# made itself graph paper.
#
# Does every table turn into that? Here are those of the two small networks in the package,
# beside the one you've just seen.

# %% tags=["hide-input"]
tables = {
    "digits\n(4×4 patches)": "mnist-tiny",
    "shapes\n(8×8 patches)": "shapes-small",
    "photographs\n(every fourth patch)": "ViT-Ti/16",
}
tables = {
    title: interpret.position_similarity(vitedu.load(name))
    for title, name in tables.items()
}
last = [*tables][-1]
shown = tables | {last: tables[last][::4, ::4]}
figures.show(*inside.crosses(shown))

# %% [markdown]
# No. The shapes' network mostly tells the border from the middle, and the digits' table shows
# hardly any order. In the paper's Figure 10, the table of ViT-L/16 also looks different after
# each of three training runs. How much of a cross is there? Take the mean cosine of two
# positions that share a row or a column, less that of two that share neither. The last four
# lines are a ViT of four blocks on MNIST, two epochs, a mean over three seeds.

# %% tags=["hide-input"]
record = results.read("inside-training")["metrics"]
print("row or column, less the others")
for title, similarity in tables.items():
    places = torch.cartesian_prod(*map(torch.arange, similarity.shape[:2]))
    apart = (places[:, None] - places).abs()
    other, line = apart.sum(dim=-1) > 0, (apart == 0).any(dim=-1)
    flat = similarity.flatten(2).flatten(0, 1)
    cross = flat[other & line].mean() - flat[other & ~line].mean()
    print(f"{title.split()[0]:24} {cross:.2f}")
for name, row in record.items():
    cross = sum(row["cross_per_seed"]) / len(row["cross_per_seed"])
    print(f"{name:24} {cross:.2f}  ({row['value']:.0f}% of new digits right)")

# %% tags=["hide-input"]
shown = {}
for name, row in record.items():
    similarity = torch.tensor(row["similarity_of_seed_0"])
    shown[name.replace(", ", "\n")] = similarity.view(7, 7, 7, 7)
figures.show(*inside.crosses(shown, columns=2))

# %% [markdown]
# Here are the tables of those four, each from its first seed. Reading nineteen digits out of
# twenty apparently doesn't take a map of the sheet.
#
# ### More digits, and a ResNet in front
#
# Do heads learn to look near, and does that take data? Raghu et al. (below) found so for
# large models: with less data, the first heads don't learn it. And the paper
# says that very local heads are rarer in a hybrid. We test both on MNIST's digits, and the first
# on drawn shapes, too. Photographs would take far too long.
#
# We trained ViTs of three blocks on 300, 3,000 and 55,000 digits, 600 steps each, and a
# hybrid: the same three blocks behind a small ResNet that also makes a grid of 7×7
# tokens. Each network has its own learning rate, chosen on other digits, and three seeds.
# A head that looks everywhere equally would be at 14.4 pixels here.

# %% tags=["hide-input"]
grown = results.read("inside-locality")["metrics"]
print("                    digits right (%)     distance (pixels)")
print("                  learned      new   block 1      2      3")
for name, row in sorted(grown.items(), key=lambda each: each[1]["value"]):
    found = torch.tensor(row["distance_per_seed"]).mean(dim=2)  # (seeds, 3)
    blocks = "   ".join(f"{x:.1f}" for x in found.mean(dim=0).tolist())
    learned = sum(row["train_per_seed"]) / len(row["train_per_seed"])
    print(f"{name:15} {learned:9.1f} {row['value']:8.1f}      {blocks}")
first = {
    name: torch.tensor(row["distance_per_seed"])[:, 0].mean(dim=1)
    for name, row in grown.items()
}
for name, by_seed in first.items():
    words = f"block 1, {name}:"
    print(f"{words:25} {by_seed.mean():.1f} ± {by_seed.std():.1f} over seeds")

# %% [markdown]
# Both show here on a small scale, though on digits the first is only a hint, just under three
# errors. From 300 digits the first block's heads look nearly everywhere; from ten times as many
# they look a pixel nearer, and a hundred and eighty times as many add nothing to that. Behind the
# ResNet they look everywhere equally, as far as the mean can tell, though the hybrid is the best
# of the four: perhaps whatever is local has been done before them.
#
# And the drawn shapes of [chapter 14](14_resnets.ipynb)? ViTs of two blocks saw 1,000, 10,000
# and 100,000 of them for 2,000 steps, three seeds each. Their grid has 8×8 tokens, and a head
# that looks everywhere equally would be at 33.1 pixels.

# %% tags=["hide-input"]
for name, row in results.read("inside-locality-shapes")["metrics"].items():
    found = torch.tensor(row["distance_per_seed"])[:, 0].mean(dim=1)
    nearest = torch.tensor(row["distance_per_seed"]).min()
    learned = sum(row["train_per_seed"]) / len(row["train_per_seed"])
    print(f"{name:12} shapes: learned {learned:5.1f}%  new {row['value']:.1f}%")
    print(f"{'':7}block 1: {found.mean():.1f} ± {found.std():.1f}", end=", ")
    print(f"the nearest head: {nearest:.1f} pixels")


# %% [markdown]
# It's the same picture: ten times as many shapes bring the first block a pixel nearer, and a
# hundred times as many add nothing to the block's mean. Apparently digits and shapes can be
# told apart without local heads, by networks as small as these. In ViT-Ti/16, which has
# learned from fourteen million photographs, you've seen heads that look only a patch and a half
# away, on average.
#
# ### Follow the mixing
#
# For rollout ([Abnar and Zuidema 2020](https://arxiv.org/abs/2005.00928)), write down for
# each token what it's made of. At first each is made of its own patch alone. Then every block
# mixes once: attention says how much comes from where, and the residual stream keeps what was
# there. How much of each? We don't know, so rollout simply says half and half:


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
mixed = {"rollout": of_the_answer[SHOWN]}
figures.show(*inside.looked_at(images[SHOWN] / 2 + 0.5, mixed, answers))

# %% [markdown]
# You can make out the face and the rocket, and the corners, of course. The paper's Figure 6
# looks like this, and Figure 14 has many more, only clearer: its model is fifty times as
# large.
#
# ### The whole table of the corners
#
# The loss is the mean cross-entropy of a thousand photographs, one per class of ImageNet.
# "More" is the difference to the model as it is, with its standard error by bootstrap: we
# draw a thousand of the photographs again and again, with repeats, and see how much the
# mean varies. *Emptied*, or *empty*, means painted grey, and the giants' neuron is number 417 of
# block 8; the next one is number 711, which adds the second most to a corner. (The network may
# have been trained on some of these photographs. They're the same ones in every row.)

# %% tags=["hide-input"]
print(f"{'':34}loss   right    more ± error   giants")
for name, row in seen.items():
    if name.startswith("corners/"):
        more, error = row["more"], row["error_of_more"]
        print(
            f"{name[8:]:33} {row['value']:.3f}   {row['right']}  "
            f"{more:+.3f} ± {error:.3f}   {row['giants_per_photograph']:.1f}"
        )

# %% [markdown]
# The package has the grey kind:
# `vitedu.interpret.test_time_registers(model, images)` finds the giants by their length,
# and gives you a model with registers. [Jiang et al.
# 2025](https://arxiv.org/abs/2506.08010) do the same for large models, where the giants
# aren't tied to a place, by moving the activations of a few neurons.
#
# ## Where this is in the paper
#
# | here | in the paper ([Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929)) |
# |---|---|
# | components of $\mathbf{E}$ | section 4.5, Figure 7 left |
# | how alike positions are | section 4.5, Figure 7 centre; Figure 10 |
# | distance of attention | section 4.5, Figure 7 right; Figure 11 |
# | rollout | section 4.5 and appendix D.8, Figures 6 and 14 |
#
# ### What differs
#
# * The paper looks into ViT-L/32 and ViT-L/16, with 16 heads in 24 blocks. Ours has 3
#   heads in 12.
# * The paper doesn't say whether its distances were scaled to a sum of 1. The code that was
#   posted later doesn't. And Figure 7 has no line for a head that looks everywhere.
# * Figure 11 sets a ViT-L/16 beside a hybrid, R50+L/16. The paper's text adds that very local
#   heads are rarer in hybrids, perhaps because their ResNet does that work already. Ours are
#   small ones, on digits, in the second reading.
# * The paper doesn't test its maps by taking patches away, and it doesn't look at the
#   lengths of tokens.
#
# ## Three readings
#
# * [Darcet et al. 2024](https://arxiv.org/abs/2309.16588) tell the story of the giants and
#   the registers, with beautiful maps.
# * [Raghu et al. 2021](https://arxiv.org/abs/2108.08810) ask how a ViT sees differently
#   from a ResNet. With less data to train on, its first heads don't learn to look near.
# * [Jain and Wallace 2019](https://arxiv.org/abs/1902.10186) disagree with the idea behind
#   such maps, in a paper called "Attention is not Explanation".
#
# ## Solutions
#
# <details><summary>Five questions</summary>
#
# 1. By looking at places that are far from nearly everybody. The corners are 161 pixels away
#    on average, and everywhere is only 116.
# 2. A mean needs weights that sum to 1. Without that, a head seems to look near if it gives
#    most of its attention to the class token.
# 3. Swap the positions, and the giants go where the positions go. Paint the corners grey, and
#    most of the giants are still there.
# 4. Registers aren't anywhere, so they don't count towards the distance. That the network
#    works as before, only the loss can tell.
# 5. Whether the answer depends on what's bright, more than on any other patches.
#
# </details>
#
# <details><summary>Solution 1</summary>
#
# From each patch the distances are 0, 16, 16 and 22.6, so the mean is 13.7 pixels. It's
# less than 16 because a quarter of the attention stays where it is.
#
# </details>
#
# <details><summary>Solution 2</summary>
#
# In each block half of it stays, and if attention never returns to it, $0.5^{12}$ is left,
# one part in four thousand. (A little comes back by way of the others.) The same holds for
# the class token. So rollout says that nearly everything in the answer has moved, which is
# a consequence of "half", and not a measurement.
#
# </details>
#
# <details><summary>Solution 3</summary>
#
# With 1 for the token itself, nothing is ever mixed in, and the class token's row is zero
# for all patches. With 0, each block keeps nothing, and you multiply twelve maps. You get
# another map for each photograph, with something in common with the first. So part of
# what you see in a rollout map comes from a "half" that nobody has measured.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
half = rollout(maps)[:, 0, 1:]
none = interpret.attention_rollout(maps, identity=0.0)[:, 0, 1:]
for image in range(5):
    pair = torch.stack([half[image], none[image]])
    print(f"correlation of both maps: {torch.corrcoef(pair)[0, 1]:.2f}")

# %% [markdown]
# <details><summary>Solution 4</summary>
#
# There are, the same four in all five photographs. The class
# token's position has nothing to do with them.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
tokens = model.embed(images)
tokens[:, 0] -= positions[:, 0]
found = model.blocks(tokens).norm(dim=-1) > 100
print(f"giants per photograph: {found[:, 1:].sum(dim=1).tolist()}")

# %% [markdown]
# <details><summary>Solution 5</summary>
#
# It works as well for one: the register becomes a giant, the other three stay in the
# picture, and there's none at the place it left. The distance hardly falls, because three
# corners are as far away as four.
#
# </details>

# %% tags=["hide-cell", "nbval-ignore-output"]
tokens = model.embed(images)
one, inwards = CORNERS[:1], NEAR[:1]
register = tokens[:, one]
tokens[:, one] += positions[:, inwards] - positions[:, one]
tokens = torch.cat([tokens[:, :1], register, tokens[:, 1:]], dim=1)
with vitedu.record_attention(model) as three_left:
    lengths = model.blocks(tokens).norm(dim=-1)
print("giants among registers:", (lengths[:, 1] > 100).tolist())
print("and in the picture:", (lengths[:, 2:] > 100).sum(dim=1).tolist())
last = interpret.attention_distance(three_left, (14, 14), 16)[-1]
print(f"last block: {last.mean():.0f} pixels")

# %% [markdown]
# <details><summary>Solution 6</summary>
#
# For example: (a) The removal test on many X-rays. Does the answer fall faster than if as
# many patches are removed at random, or by distance from the middle? Lungs are always in
# the middle. (b) The same map for a network with random weights, and for another question
# to the same network. If it still glows over the lung, it shows the picture and not the
# network. (c) A picture with the finding covered, or moved. The answer has to change, and
# the map has to follow.
#
# </details>
