"""Every hint of `vitedu.check` answers the mistake that it names.

The mistakes are made here as a reader makes them: in the text of a chapter's
own definition.
"""

import ast
import math
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vitedu import check, plain
from vitedu.check import verdict
from vitedu.evaluate import dense, fewshot
from vitedu.evaluate.scaling import fitted
from vitedu.model.mae import num_hidden
from vitedu.model.mpp import LEVELS

ROOT = Path(__file__).parents[2]
PLAIN = ROOT / "vitedu/plain.py"
IMAGENET = ROOT / "book/text/12_imagenet.py"
ABLATIONS = ROOT / "book/text/16_ablations.py"
INSIDE = ROOT / "book/text/15_inside.py"
DENSE = ROOT / "vitedu/evaluate/dense.py"
# where the definition stands that is checked
PLACES = {
    "patchify": (PLAIN, "patchify"),
    "patch_embedding": (PLAIN, "PatchEmbedding"),
    "attention": (PLAIN, "attention"),
    "multi_head_attention": (PLAIN, "MultiHeadAttention"),
    "layer_norm": (ROOT / "book/text/03_encoder.py", "layer_norm"),
    "mlp": (PLAIN, "MLP"),
    "encoder_block": (PLAIN, "EncoderBlock"),
    "vit": (PLAIN, "ViT"),
    "initialise": (PLAIN, "initialise"),
    "train_step": (PLAIN, "train_step"),
    "warmup_cosine": (PLAIN, "warmup_cosine"),
    "accuracy": (PLAIN, "accuracy"),
    "mixup": (ROOT / "book/text/06_recipe.py", "mixup"),
    "decay_groups": (ROOT / "book/text/06_recipe.py", "decay_groups"),
    "loss_scaler": (ROOT / "book/text/07_speed.py", "LossScaler"),
    "finetune_step": (ROOT / "book/text/11_transfer.py", "finetune_step"),
    "nearest_mean": (ROOT / "book/text/13_few_shot.py", "nearest_mean"),
    "least_squares": (ROOT / "vitedu/evaluate/fewshot.py", "least_squares"),
    "accumulated_step": (ROOT / "book/text/08_scale.py", "accumulated_step"),
    "all_reduce": (ROOT / "book/text/08_scale.py", "all_reduce"),
    "same_or_different": (ROOT / "book/text/17_bias.py", "same_or_different"),
    "shuffle": (ROOT / "book/text/17_bias.py", "shuffle"),
    "power_law": (ROOT / "book/text/18_scaling.py", "power_law"),
    "bootstrap": (ROOT / "book/text/18_scaling.py", "bootstrap"),
    "real_accuracy": (IMAGENET, "real_accuracy"),
    "attention_distance": (INSIDE, "attention_distance"),
    "position_similarity": (INSIDE, "position_similarity"),
    "table_2d": (ABLATIONS, "table_2d"),
    "relative_bias": (ABLATIONS, "relative_bias"),
    "axial": (ABLATIONS, "axial"),
    "ridge": (DENSE, "ridge"),
    "box_targets": (DENSE, "box_targets"),
    "suppress": (DENSE, "suppress"),
    "random_mask": (ROOT / "vitedu/model/mae.py", "random_mask"),
    "masked_error": (ROOT / "vitedu/model/mae.py", "masked_error"),
    "colour_classes": (ROOT / "vitedu/model/mpp.py", "colour_classes"),
}


def definition(name):
    """The text of a definition, with its decorators, and its name."""
    path, called = PLACES[name]
    text = path.read_text()
    for node in ast.parse(text).body:
        if getattr(node, "name", None) == called:
            first = min([node, *node.decorator_list], key=lambda x: x.lineno)
            lines = text.splitlines(keepends=True)
            return "".join(lines[first.lineno - 1 : node.end_lineno]), called
    raise LookupError(name)


def made(text, name):
    """What a definition's text defines, as in a notebook."""
    space = {
        **vars(plain),
        "torch": torch,
        "nn": nn,
        "F": F,
        "math": math,
        "rearrange": rearrange,
        "power_law": fitted,
        "whiten": fewshot.whiten,
        "FewShotClassifier": fewshot.FewShotClassifier,
        "Tensor": torch.Tensor,
        "box_iou": dense.box_iou,
        "num_hidden": num_hidden,
        "LEVELS": LEVELS,
    }
    if name == "all_reduce" and "def ring_round" not in text:
        source = PLACES["all_reduce"][0].read_text()
        start = source.index("def ring_round")
        text = source[start : source.index("def all_reduce")] + text
    exec(text, space)
    return space[PLACES[name][1]]


def test_every_check_is_tried_here():
    assert set(PLACES) == set(check.__all__) - {"Verdict"}


@pytest.mark.parametrize("name", PLACES)
def test_the_chapters_own_definition_is_right(name):
    text, _ = definition(name)
    answer = getattr(check, name)(made(text, name))
    assert answer.is_right, answer
    assert repr(answer).startswith("✓ ")


SPLIT = "b t (three heads hd) -> three b heads t hd"
SUM = """x = x + self.attn(self.norm1(x))  # equation (2)
        return x + self.mlp(self.norm2(x))"""
BODY = """    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SCORES = "q @ k.mT / math.sqrt(q.shape[-1])"
PROGRESS = "(step - warmup_steps) / (num_steps - warmup_steps)"
RETURN = "return correct / len(labels)"
SLICE = """        loss = F.cross_entropy(model(part), truth, reduction="sum")
        (loss / len(images)).backward()  # n, not the size of the slice
"""
PAIRS = "zip(images.split(size), labels.split(size))"
FIRST_BOX = "(near.amin(dim=2) > 0).int().argmax(dim=1)"
BY_DROPPED = """    order = [
        row
        for place, row in enumerate(order)
        if (overlap[row, order[:place]] <= most).all()
    ]
    return torch.stack(order)
"""
IF_RIGHT = "        if right\n"
NOISE = "noise = torch.rand(num_images, num_patches, generator=generator)"
RANKED = "return ranks < num_hidden(num_patches, share)"
# check, [what the chapter says, what the reader writes, ...], part of the hint
MISTAKES = [
    # chapter 1
    ("patchify", ["(p q c)", "(c p q)"], "colours come last"),
    ("patchify", ["-> b (gh gw)", "-> b (gw gh)"], "column by column; we read"),
    ("patchify", ["(p q c)", "(q p c)"], "mirrored at its diagonal"),
    (
        "patchify",
        ["(gh p) (gw q) ->", "(p gh) (q gw) ->"],
        "gh and p are swapped",
    ),
    ("patchify", ["-> b (gh gw)", "-> (b gh gw)"], "one long list"),
    ("patchify", ["-> b (gh gw)", "-> b gh gw"], "still in a grid"),
    ("patchify", ["(p q c)", "p q c"], "aren't flat yet"),
    (
        "patchify",
        [
            "return rearrange(",
            "return images.reshape(len(images), -1, p * p * images.shape[1])\n"
            "    return rearrange(",
        ],
        "stripes",
    ),
    (
        "patchify",
        [
            "return rear",
            "return F.unfold(images, p, stride=p)\n    return rear",
        ],
        "F.unfold",
    ),
    ("patch_embedding", [", stride=p", ""], "patches overlap"),
    (
        "patch_embedding",
        [
            'return rearrange(x, "b d gh gw -> b (gh gw) d")',
            "return x.flatten(2)",
        ],
        "(b, n, d)",
    ),
    (
        "patch_embedding",
        [
            'return rearrange(x, "b d gh gw -> b (gh gw) d")',
            "return x.reshape(len(x), -1, x.shape[1])",
        ],
        "reshape doesn't swap axes",
    ),
    ("patch_embedding", ["-> b (gh gw)", "-> b (gw gh)"], "column by column"),
    ("patch_embedding", ["-> b (gh gw) d", "-> b gh gw d"], "still in a grid"),
    (
        "patch_embedding",
        ['return rearrange(x, "b d gh gw -> b (gh gw) d")', "return x"],
        "still the convolution's result",
    ),
    ("patch_embedding", ["stride=p)", "stride=p, bias=False)"], "proj.bias"),
    (
        "patch_embedding",
        ["self.proj", "self.projection"],
        "so that real weights find their places",
    ),
    # chapter 2
    ("attention", ["softmax(dim=-1)", "softmax(dim=-2)"], "over the queries"),
    ("attention", [" / math.sqrt(q.shape[-1])", ""], "aren't divided by"),
    ("attention", ["math.sqrt(q.shape[-1])", "q.shape[-1]"], "says its root"),
    ("attention", ["q.shape[-1]", "q.shape[-2]"], "number of tokens"),
    ("attention", ["k.mT /", "k.mT *"], "you multiply by the root"),
    ("attention", ["q @ k.mT", "k @ q.mT"], "your keys ask"),
    (
        "attention",
        [
            SCORES,
            "q @ k.mT",
            "scores.softmax(dim=-1)",
            "scores.softmax(dim=-1) / math.sqrt(q.shape[-1])",
        ],
        "you divide after the softmax",
    ),
    ("attention", ["scores.softmax(dim=-1)", "scores"], "softmax is missing"),
    ("attention", ["v, weights", "v"], "return the weights as well"),
    ("attention", ["weights @ v, weights", "weights, weights @ v"], "order"),
    ("attention", ["v, weights", "v, scores"], "the scores before"),
    (
        "multi_head_attention",
        [
            SPLIT,
            "b t (three hd heads) -> three b heads t hd",
            "-> b t (heads hd)",
            "-> b t (hd heads)",
        ],
        "interleaved",
    ),
    (
        "multi_head_attention",
        [SPLIT, "b t (heads three hd) -> three b heads t hd"],
        "split by heads first",
    ),
    (
        "multi_head_attention",
        ["-> b t (heads hd)", "-> b t (hd heads)"],
        "joined as (hd heads)",
    ),
    (
        "multi_head_attention",
        [
            'rearrange(values, "b heads t hd -> b t (heads hd)")',
            "values.reshape(x.shape)",
        ],
        "without bringing them back",
    ),
    (
        "multi_head_attention",
        [
            "q, k, v = rearrange(self.qkv(x), parts, three=3, "
            "heads=self.num_heads)",
            "b, t, d = x.shape\n"
            "        q, k, v = self.qkv(x).reshape("
            "b, 3, self.num_heads, t, -1).unbind(1)",
        ],
        "splits the tokens",
    ),
    (
        "multi_head_attention",
        [
            "parts =",
            "x = x.transpose(0, 1)\n        parts =",
            "return self.proj(",
            "return (lambda y: self.proj(y).transpose(0, 1))(",
        ],
        "batch_first=True",
    ),
    (
        "multi_head_attention",
        [
            "attention(q, k, v)",
            "attention(q / math.sqrt(self.num_heads), k, v)",
        ],
        "root of embed_dim",
    ),
    (
        "multi_head_attention",
        ["attention(q, k, v)", "attention(q * math.sqrt(q.shape[-1]), k, v)"],
        "aren't divided by the root",
    ),
    (
        "multi_head_attention",
        [
            "values, _ = attention(q, k, v)",
            f"values = ({SCORES}).softmax(dim=-2) @ v",
        ],
        "over the queries",
    ),
    ("multi_head_attention", ["heads=self.num_heads", "heads=1"], "never used"),
    ("multi_head_attention", ["return self.proj(", "return ("], "last matrix"),
    ("multi_head_attention", ["q, k, v =", "k, q, v ="], "keys and queries"),
    ("multi_head_attention", ["q, k, v =", "v, k, q ="], "values and queries"),
    ("multi_head_attention", ["return self", "return x + self"], "chapter 3"),
    # chapter 3
    ("layer_norm", [".sqrt()", ""], "you divide by the variance"),
    (
        "layer_norm",
        [
            "(x - mean).square().mean(dim=-1, keepdim=True)",
            "x.var(dim=-1, keepdim=True)",
        ],
        "d - 1",
    ),
    (
        "layer_norm",
        ["(variance + eps).sqrt()", "(variance.sqrt() + eps)"],
        "under",
    ),
    ("layer_norm", ["variance + eps", "variance"], "eps is nowhere"),
    (
        "layer_norm",
        ["(x - mean).square()", "x.square()", "return (x - mean)", "return x"],
        "RMSNorm",
    ),
    ("layer_norm", ["dim=-1", "dim=-2"], "norm over the tokens"),
    ("layer_norm", ["dim=-1", "dim=(-2, -1)"], "all tokens of an image"),
    ("layer_norm", ["dim=-1", "dim=0"], "as BatchNorm does"),
    ("mlp", ["F.gelu", "F.relu"], "ReLU"),
    ("mlp", ["self.fc1(x))", "self.fc1(x), approximate='tanh')"], "by tanh"),
    ("mlp", ["F.gelu", "F.silu"], "SiLU"),
    ("mlp", ["F.gelu", ""], "the two are one matrix"),
    (
        "mlp",
        ["return self.fc2(", "return F.gelu(self.fc2)("],
        "raises TypeError",
    ),
    (
        "mlp",
        [
            "self.fc2(F.gelu(self.fc1(x)))",
            "F.gelu(self.fc2(F.gelu(self.fc1(x))))",
        ],
        "second GELU",
    ),
    ("mlp", ["return self", "return x + self"], "encoder block's"),
    (
        "encoder_block",
        [
            SUM,
            "x = self.norm1(x + self.attn(x))\n"
            "        return self.norm2(x + self.mlp(x))",
        ],
        "norms come after the sums",
    ),
    (
        "encoder_block",
        [
            SUM,
            "x = self.norm1(x)\n        x = x + self.attn(x)\n"
            "        x = self.norm2(x)\n        return x + self.mlp(x)",
        ],
        "add to the normed tokens",
    ),
    ("encoder_block", ["x = x + self", "x = self"], "around the attention"),
    ("encoder_block", ["return x + self", "return self"], "around the MLP"),
    (
        "encoder_block",
        ["x = x + self", "x = self", "return x + self", "return self"],
        "both sums",
    ),
    (
        "encoder_block",
        ["x = x + self", "y = x + self", "return x", "return y"],
        "before the attention",
    ),
    (
        "encoder_block",
        ["mlp(self.norm2", "mlp(self.norm1"],
        "norm1 stands in both",
    ),
    (
        "encoder_block",
        [
            "attn(self.norm1",
            "attn(self.norm2",
            "mlp(self.norm2",
            "mlp(self.norm1",
        ],
        "swapped",
    ),
    (
        "encoder_block",
        [
            SUM,
            "x = x + self.mlp(self.norm2(x))\n"
            "        return x + self.attn(self.norm1(x))",
        ],
        "the MLP comes first",
    ),
    (
        "encoder_block",
        ["attn(self.norm1(x))", "attn(x)"],
        "first norm is missing",
    ),
    (
        "encoder_block",
        ["mlp(self.norm2(x))", "mlp(x)"],
        "second norm is missing",
    ),
    ("encoder_block", [", eps=1e-6", ""], "eps of 1e-5"),
    ("encoder_block", ["x = x + self", "x += self"], "in place"),
    # chapter 4
    (
        "vit",
        ["[cls_token, x]", "[x, cls_token]", "[:, 0]", "[:, -1]"],
        "is the last one; the paper",
    ),
    ("vit", ["[cls_token, x]", "[x, cls_token]"], "you read the first"),
    (
        "vit",
        [
            "x = torch.cat([cls_token, x], dim=1) + self.pos_embed",
            "x = torch.cat([cls_token, x + self.pos_embed[:, 1:]], dim=1)",
        ],
        "to the patches only",
    ),
    ("vit", [" + self.pos_embed  #", "  #"], "never added"),
    ("vit", ["[:, 0]", ".mean(dim=1)"], "mean of all tokens"),
    ("vit", ["[:, 0]", "[:, 1:].mean(dim=1)"], "mean of the patches"),
    ("vit", ["[:, 0]", "[:, -1]"], "you read the last token"),
    ("vit", ["[:, 0]", "[:, 1]"], "you read the first patch"),
    ("vit", ["self.norm(x)[:, 0]", "x[:, 0]"], "last norm is missing"),
    (
        "vit",
        ["self.head(y)", "self.head(y).softmax(dim=-1)"],
        "softmax at the end",
    ),
    ("vit", ["self.norm(x)[:, 0]", "self.norm(x)"], "every token gets logits"),
    ("vit", ["x = self.blocks(x)", "x = x"], "never called"),
    (
        "vit",
        [
            "x = self.blocks(x)",
            "x = self.blocks[0](self.blocks[0](x))",
        ],
        "again and again",
    ),
    (
        "vit",
        ["x = self.blocks(x)", "x = self.blocks[0](self.blocks[1](x))"],
        "from the last to the first",
    ),
    ("vit", ["self.blocks(x)", "self.blocks[0](x)"], "only the first block"),
    (
        "vit",
        ["self.blocks = nn.Sequential(*blocks)", "self.blocks = blocks"],
        "plain list",
    ),
    ("vit", ["n + 1, d", "n, d"], "pos_embed has the shape"),
    (
        "initialise",
        [
            "nn.init.zeros_(model.head.weight)",
            "nn.init.normal_(model.head.weight)",
        ],
        "head.weight should be zero",
    ),
    (
        "initialise",
        ["nn.init.normal_(model.pos_embed, std=0.02)", "pass"],
        "pos_embed is left as it was",
    ),
    (
        "initialise",
        [
            "nn.init.normal_(model.pos_embed, std=0.02)",
            "nn.init.zeros_(model.pos_embed)",
        ],
        "pos_embed is all zeros",
    ),
    ("initialise", ["chunk(3 if", "chunk(1 if"], "three square matrices"),
    ("initialise", [" / 0.87962566103423978", ""], "cutting at two deviations"),
    (
        "initialise",
        [
            "nn.init.trunc_normal_(module.weight, 0, std, -2 * std, 2 * std)",
            "nn.init.normal_(module.weight, std=std * 0.8796)",
        ],
        "beyond two deviations",
    ),
    (
        "initialise",
        [
            "nn.init.xavier_uniform_(matrix)",
            "nn.init.kaiming_uniform_(matrix, a=5**0.5)",
        ],
        "PyTorch's default",
    ),
    ("initialise", ["1e-6 if", "0.01 if"], "mlp.fc1.bias has a spread"),
    # chapter 5
    (
        "train_step",
        ["    optimizer.zero_grad()\n", ""],
        "gradients of all batches",
    ),
    ("train_step", ["    optimizer.step()\n", ""], "the weights never move"),
    (
        "train_step",
        [
            BODY,
            "    loss.backward()\n    optimizer.zero_grad()\n"
            "    optimizer.step()\n",
        ],
        "the weights never move",
    ),
    (
        "train_step",
        [
            BODY,
            "    optimizer.step()\n    optimizer.zero_grad()\n"
            "    loss.backward()\n",
        ],
        "the batch before",
    ),
    (
        "train_step",
        ["model(images)", "model(images).softmax(-1)"],
        "not probabilities",
    ),
    (
        "train_step",
        ["labels)\n    opt", "labels, reduction='sum')\n    opt"],
        "take the mean",
    ),
    (
        "train_step",
        ["loss.detach()", "loss.detach() * len(images)"],
        "return their mean",
    ),
    ("train_step", ["loss = F", "loss = -F"], "uphill"),
    ("train_step", ["loss.detach()", "loss"], "still has its graph"),
    ("train_step", ["    return loss.detach()\n", ""], "it returns nothing"),
    ("warmup_cosine", [PROGRESS, "step / num_steps"], "starts at step 0"),
    (
        "warmup_cosine",
        [PROGRESS, "(step - warmup_steps) / num_steps"],
        "never comes down",
    ),
    (
        "warmup_cosine",
        [
            "(1 + math.cos(math.pi * progress)) / 2",
            "math.cos(math.pi / 2 * progress)",
        ],
        "quarter of a cosine",
    ),
    (
        "warmup_cosine",
        [
            "(1 + math.cos(math.pi * progress)) / 2",
            "math.cos(math.pi * progress)",
        ],
        "from 1 to -1",
    ),
    ("warmup_cosine", [")) / 2", "))"], "the half is missing"),
    (
        "warmup_cosine",
        ["(1 + math.cos(math.pi * progress)) / 2", "(1 - progress)"],
        "straight line",
    ),
    (
        "warmup_cosine",
        [
            "    return lr * (1 + math.cos(math.pi * progress)) / 2",
            "    return lr",
        ],
        "the rate stays",
    ),
    ("warmup_cosine", ["lr * step /", "lr * (step + 1) /"], "counts from 1"),
    (
        "warmup_cosine",
        ["return lr * step / warmup_steps", "return lr"],
        "warm-up is missing",
    ),
    ("warmup_cosine", ["math.pi *", "180 *"], "radians"),
    (
        "accuracy",
        [
            "(model(x).argmax(dim=-1) == y).sum().item()",
            "(model(x).argmax(dim=-1) == y).double().mean().item()",
            RETURN,
            "return correct / math.ceil(len(labels) / batch_size)",
        ],
        "mean of the batches",
    ),
    (
        "accuracy",
        [
            "correct = 0",
            "correct = 0\n    whole = len(labels) // batch_size * batch_size\n"
            "    images, labels = images[:whole], labels[:whole]",
        ],
        "is left out",
    ),
    (
        "accuracy",
        [
            "        correct +=",
            "        if len(y) < batch_size:\n            break\n"
            "        correct +=",
        ],
        "isn't counted, but you divide",
    ),
    ("accuracy", [RETURN, "return 100 * correct / len(labels)"], "percentage"),
    ("accuracy", [RETURN, "return correct"], "divide by the number of images"),
    ("accuracy", [RETURN, "return 1 - correct / len(labels)"], "wrong answers"),
    (
        "accuracy",
        ["correct +=", "correct =", "len(labels)\n", "len(y)\n"],
        "only the last batch",
    ),
    (
        "accuracy",
        [RETURN, "return correct / math.ceil(len(labels) / batch_size)"],
        "number of batches",
    ),
    # chapter 6
    (
        "mixup",
        ["share * targets + (1 - share) * targets.roll(1, 0)", "targets"],
        "the targets aren't mixed",
    ),
    (
        "mixup",
        [
            "share * targets + (1 - share) * targets",
            "(1 - share) * targets + share * targets",
        ],
        "the targets keep 1 - share",
    ),
    (
        "mixup",
        [
            "mixed, share * targets + (1 - share) * targets.roll(1, 0)",
            "mixed, share * targets + (1 - share) * targets.roll(-1, 0)",
        ],
        "different partners",
    ),
    ("mixup", ["(1 - share) * images", "images"], "add up to 1.7"),
    (
        "mixup",
        ["    mixed = share", "    images *= share\n    mixed = share"],
        "in place",
    ),
    (
        "decay_groups",
        [
            "[m.weight for m in model.modules() if isinstance(m, layers)]",
            "list(model.parameters())",
        ],
        "decays, and only kernels should",
    ),
    (
        "decay_groups",
        [
            "[m.weight for m in model.modules() if isinstance(m, layers)]",
            "[w for w in model.parameters() if w.ndim > 1]",
        ],
        "go by the layers",
    ),
    (
        "decay_groups",
        [
            "[m.weight for m in model.modules() if isinstance(m, layers)]",
            "[w for m in model.modules() if isinstance(m, layers) "
            "for w in m.parameters()]",
        ],
        "biases decay",
    ),
    (
        "decay_groups",
        [
            "layers = (nn.Linear, nn.Conv2d)",
            "layers = (nn.Linear, nn.Conv2d, nn.LayerNorm)",
        ],
        "norms decay",
    ),
    ("decay_groups", [" if id(w) not in known", ""], "is in 2 groups"),
    (
        "decay_groups",
        ['{"params": others, "weight_decay": 0.0},', ""],
        "is in no group",
    ),
    ("decay_groups", ['others, "weight_decay": 0.0', "others"], "AdamW"),
    (
        "decay_groups",
        [', "weight_decay": decay', ', "weight_decay": 0.0'],
        "should decay",
    ),
    # chapter 7
    (
        "loss_scaler",
        ["(loss * self.scale).backward()", "loss.backward()"],
        "multiply the loss",
    ),
    ("loss_scaler", ["gradient /= self.scale", "pass"], "eight times too long"),
    (
        "loss_scaler",
        ["            return  # the weights stay as they are\n", ""],
        "leave out the step",
    ),
    ("loss_scaler", ["self.scale / 2, 0", "self.scale, 0"], "should be halved"),
    (
        "loss_scaler",
        ["self.scale / 2, 0", "self.scale / 2, self.good_steps"],
        "still counted",
    ),
    ("loss_scaler", ["self.scale * 2, 0", "self.scale, 0"], "never grows"),
    (
        "loss_scaler",
        [
            "if self.good_steps == self.patience:",
            "if self.good_steps >= self.patience:",
            "self.scale * 2, 0",
            "self.scale * 2, self.good_steps",
        ],
        "doubles again at once",
    ),
    # chapter 11
    ("finetune_step", ["w.grad * shrink", "w.grad"], "isn't clipped"),
    (
        "finetune_step",
        ["w.grad * shrink", "w.grad * min(1.0, 1.0 / w.grad.norm().item())"],
        "by its own length",
    ),
    ("finetune_step", ["min(1.0, 1.0 / norm)", "1.0 / norm"], "made longer"),
    (
        "finetune_step",
        ["add_(g)", "add_(rate * g)", "sub_(rate * v)", "sub_(v)"],
        "rate is in the velocity",
    ),
    ("finetune_step", ["sub_(rate * v)", "sub_(rate * g)"], "aren't used"),
    ("finetune_step", ["sub_(rate * v)", "add_(rate * v)"], "uphill"),
    (
        "finetune_step",
        ["            w.grad = None\n", ""],
        "gradients are still there",
    ),
    ("finetune_step", ["return norm", "return norm * shrink"], "length before"),
    # chapter 13
    ("nearest_mean", ["argmin", "argmax"], "farthest mean"),
    (
        "nearest_mean",
        ["torch.cdist(xt, means).argmin", "(xt @ means.mT).argmax"],
        "largest product",
    ),
    (
        "nearest_mean",
        [
            "(torch.cdist(xt, means).argmin(dim=1)",
            "(y[torch.cdist(xt, x).argmin(dim=1)]",
        ],
        "nearest photograph",
    ),
    ("nearest_mean", [".item()", ".item() * 100"], "is a share"),
    (
        "nearest_mean",
        ["x[y == label]", "x[int(label) :: len(y.unique())]"],
        "mix the classes",
    ),
    (
        "least_squares",
        ["2.0 * F.one_hot(y).double() - 1.0", "F.one_hot(y).double()"],
        "1 and -1",
    ),
    ("least_squares", ["correction=0", "correction=1"], "by n - 1"),
    (
        "least_squares",
        [
            "x = whiten(x, mean, std)",
            "x = F.pad((x - mean) / std, (0, 1), value=1.0)",
        ],
        "has ones",
    ),
    (
        "least_squares",
        ["x = whiten(x, mean, std)", "x = whiten(x, 0 * mean, std)"],
        "isn't subtracted",
    ),
    ("least_squares", ["(values + l2)", "values"], "no effect"),
    (
        "least_squares",
        ["(vectors / (values + l2))", "(vectors / (values + l2)[:, None])"],
        "divide the rows",
    ),
    # chapter 8
    (
        "accumulated_step",
        [
            SLICE,
            "        loss = F.cross_entropy(model(part), truth)\n"
            "        (loss / math.ceil(len(images) / size)).backward()\n",
        ],
        "by the number of slices",
    ),
    (
        "accumulated_step",
        [SLICE, "        F.cross_entropy(model(part), truth).backward()\n"],
        "the mean losses",
    ),
    ("accumulated_step", ["(loss / len(images))", "loss"], "you add up sums"),
    (
        "accumulated_step",
        ["    optimizer.zero_grad()\n", ""],
        "of the last batch",
    ),
    (
        "accumulated_step",
        [
            SLICE,
            SLICE + "        optimizer.step()\n        optimizer.zero_grad()\n",
        ],
        "later slices see other weights",
    ),
    (
        "accumulated_step",
        [
            SLICE,
            "        F.cross_entropy(model(part), truth).backward()\n"
            "        optimizer.step()\n        optimizer.zero_grad()\n",
        ],
        "smaller batches",
    ),
    (
        "accumulated_step",
        [SLICE, "        optimizer.zero_grad()\n" + SLICE],
        "only the last slice",
    ),
    (
        "accumulated_step",
        [SLICE, "        if len(part) < size:\n            break\n" + SLICE],
        "shorter slice is left out",
    ),
    (
        "accumulated_step",
        [
            PAIRS,
            "zip(torch.cat([images, images[:1]]).split(size), "
            "torch.cat([labels, labels[:1]]).split(size))",
        ],
        "count twice",
    ),
    (
        "all_reduce",
        [
            "return [torch.cat(each) for each in chunks]",
            "return [torch.cat(each) / len(vectors) for each in chunks]",
        ],
        "that's the mean",
    ),
    ("all_reduce", ["2 * (len(vectors) - 1)", "0"], "come back as they were"),
    (
        "all_reduce",
        ["2 * (len(vectors) - 1)", "len(vectors) - 1"],
        "has a finished chunk",
    ),
    (
        "all_reduce",
        ["    return [torch.cat(each) for each in chunks]\n", ""],
        "return 2 vectors",
    ),
    # chapter 12
    ("real_accuracy", ["len(counted)", "len(logits)"], "out of both numbers"),
    (
        "real_accuracy",
        ["answer in right\n", "answer in right or not right\n", IF_RIGHT, ""],
        "counts as right here",
    ),
    ("real_accuracy", ["return sum", "return 100 * sum"], "in percent"),
    ("real_accuracy", [" / len(counted)", ""], "divide by how many"),
    ("real_accuracy", ["in right\n", "in right[:1]\n"], "only the first of"),
    ("real_accuracy", ["in right\n", "in right[-1:]\n"], "only the last of"),
    (
        "real_accuracy",
        [IF_RIGHT, "        if len(right) == 1\n"],
        "several right classes are left out",
    ),
    (
        "real_accuracy",
        ["len(counted)", "sum(map(len, right_classes))"],
        "a photograph counts once",
    ),
    (
        "real_accuracy",
        [
            "logits.argmax(dim=1)",
            "logits.topk(5).indices",
            "answer in right\n",
            "bool({*answer} & {*right})\n",
        ],
        "only the best answer counts",
    ),
    ("real_accuracy", ["argmax", "argmin"], "the least likely class"),
    # chapter 15
    (
        "attention_distance",
        ["weights = weights / weights.sum(dim=-1, keepdim=True)", "pass"],
        "no longer sum to 1",
    ),
    (
        "attention_distance",
        ["sum(dim=-1, keepdim=True)", "sum(dim=-2, keepdim=True)"],
        "the patch that asks is the row",
    ),
    (
        "attention_distance",
        ["weights[:, :, 1:, 1:]", "weights[:, :, :-1, :-1]"],
        "the class token is the first one",
    ),
    (
        "attention_distance",
        ["weights / weights.sum(dim=-1, keepdim=True)", "weights.softmax(-1)"],
        "their softmax already",
    ),
    ("attention_distance", [" * patch_size", ""], "multiply by patch_size"),
    (
        "attention_distance",
        ["places.double())", "places.double(), p=1)"],
        "add rows and columns",
    ),
    (
        "attention_distance",
        ["* between)", "* between * between)"],
        "the root is missing",
    ),
    ("attention_distance", ["dim=(0, 2)", "dim=(0, 1, 2)"], "keep them apart"),
    ("attention_distance", ["dim=(0, 2)", "dim=2"], "images are still apart"),
    (
        "position_similarity",
        ["F.normalize(pos_embed[0, 1:], dim=-1)", "pos_embed[0, 1:]"],
        "long vectors win",
    ),
    ("position_similarity", ["[0, 1:]", "[0]"], "no place in the picture"),
    ("position_similarity", ["[0, 1:]", "[0, :-1]"], "leave out the last row"),
    ("position_similarity", ["dim=-1", "dim=0"], "columns of the table"),
    (
        "position_similarity",
        ["pos_embed[0, 1:]", "pos_embed[0, 1:] - pos_embed[0, 1:].mean(0)"],
        "subtract the mean position",
    ),
    ("position_similarity", ["rows @ rows.mT", "rows.mT @ rows"], "(d, d)"),
    ("position_similarity", ["[0, 1:]", "[:, 1:]"], "batch axis"),
    # chapter 17
    ("same_or_different", ["first == second", "first != second"], "1 is for"),
    (
        "same_or_different",
        [
            "(first == second)",
            "((glyphs[first] > 0).sum((1, 2)) == "
            "(glyphs[second] > 0).sum((1, 2)))",
        ],
        "how many pixels are bright",
    ),
    (
        "same_or_different",
        ["(first == second)", "(cells[:, 0] == cells[:, 1])"],
        "compares the cells",
    ),
    ("same_or_different", ["n (r c) p q", "n (c r) p q"], "down the columns"),
    ("same_or_different", ["(r p) (c q)", "(r q) (c p)"], "at their diagonal"),
    ("same_or_different", ["glyphs[second]", "glyphs[first]"], "one twice"),
    (
        "shuffle",
        ["patches[:, order]", "patches[:, order.argsort()]"],
        "way back",
    ),
    (
        "shuffle",
        ["b c (r p) (s q) -> b (r s)", "b c (r p) (s q) -> b (s r)"],
        "no mistake that we know",
    ),
    ("shuffle", ["patches[:, order]", "patches"], "nothing has moved"),
    (
        "shuffle",
        [
            "    rows = images.shape[2] // patch_size\n",
            "    rows = images.shape[2] // patch_size\n"
            "    patches = patches.mT\n",
        ],
        "on the way back",
    ),
    (
        "shuffle",
        [
            "    cut =",
            "    images = images.mT\n    cut =",
            "images.shape[2] // patch_size\n    return rearrange("
            "patches[:, order], back, r=rows)",
            "images.shape[2] // patch_size\n    return rearrange("
            "patches[:, order], back, r=rows).mT",
        ],
        "down the columns",
    ),
    # chapter 18
    ("power_law", ["log_a.exp(), b", "log_a, b"], "still needs .exp()"),
    ("power_law", ["log_a.exp(), b", "b, log_a.exp()"], "a comes first"),
    (
        "power_law",
        ["compute.log(), errors.log()", "compute, errors", ".exp(), b", ", b"],
        "logarithm of both",
    ),
    (
        "power_law",
        ["errors.log()", "errors", "log_a.exp(), b", "log_a, b"],
        "the errors need one",
    ),
    (
        "power_law",
        [
            "(dx * y).sum(dim=-1) / dx.square().sum(dim=-1)",
            "(y - y.mean()).square().sum() / ((y - y.mean()) * x).sum()",
        ],
        "the error is what scatters",
    ),
    (
        "power_law",
        ["compute.log(), errors.log()", "compute.log10(), errors.log10()"],
        "10 ** level",
    ),
    (
        "power_law",
        ["x - x.mean(dim=-1, keepdim=True)", "x"],
        "line through zero",
    ),
    ("power_law", ["(dim=-1, keepdim=True)", "()", "(dim=-1)", "()"], "dim=-1"),
    (
        "bootstrap",
        [
            "    rows = torch.randint(n, (samples, n), generator=generator)\n",
            "    rows = torch.stack([torch.randperm(n) for _ in "
            "range(samples)])\n",
        ],
        "the same line",
    ),
    ("bootstrap", ["different > 2", "different > 0"], "one model only"),
    (
        "bootstrap",
        ["errors[rows]", "errors[rows[torch.randperm(len(rows))]]"],
        "stay together",
    ),
    ("bootstrap", ["(samples, n)", "(samples, 3 * n)"], "as many models"),
    ("bootstrap", [", generator=generator", ""], "use a generator"),
    ("bootstrap", ["(samples, n)", "(1, n)"], "each draw gives one b"),
    # chapter 20
    ("ridge", [" + l2 * torch.eye(x.shape[1])", ""], "penalty is missing"),
    ("ridge", [" * torch.eye(x.shape[1])", ""], "added to every number"),
    ("ridge", ["    x = F.pad(x, (0, 1), value=1.0)\n", ""], "no bias"),
    ("ridge", ["(0, 1)", "(1, 0)"], "the bias comes first"),
    (
        "ridge",
        [
            "= x.mT @ x +",
            "= x.mT @ x / len(x) +",
            "x.mT @ y",
            "x.mT @ y / len(x)",
        ],
        "don't average",
    ),
    ("box_targets", [".sqrt()", ""], "the root is missing"),
    (
        "box_targets",
        [".clamp(min=0)", "", ".sqrt()", ""],
        "two negative shares",
    ),
    (
        "box_targets",
        [
            "torch.cat([before, behind], dim=2)",
            "torch.stack([before, behind], dim=3).flatten(2)",
        ],
        "left, right, top",
    ),
    (
        "box_targets",
        ["cat([before, behind]", "cat([before, -behind]"],
        "are negative",
    ),
    (
        "box_targets",
        [
            "torch.arange(len(points)), best",
            f"torch.arange(len(points)), {FIRST_BOX}",
        ],
        "of the first",
    ),
    ("suppress", ["descending=True", "descending=False"], "lowest score"),
    (
        "suppress",
        ["return torch.stack(kept)", "return torch.stack(kept).sort().values"],
        "not the best first",
    ),
    (
        "suppress",
        ["return torch.stack(kept)", "return boxes[torch.stack(kept)]"],
        "not the boxes",
    ),
    (
        "suppress",
        ["overlap[best, order] <= most", "overlap[best, order] < 1"],
        "nothing is dropped",
    ),
    (
        "suppress",
        [
            "    while len(order)",
            f"{BY_DROPPED}    while len(order)",
        ],
        "that were dropped still drop",
    ),
    # chapter 16
    ("table_2d", ["[across, down]", "[down, across]"], "Y comes first"),
    (
        "table_2d",
        [
            "x.repeat(len(y), 1)",
            "x.repeat_interleave(len(y), dim=0)",
            "y.repeat_interleave(len(x), dim=0)",
            "y.repeat(len(x), 1)",
        ],
        "column by column",
    ),
    (
        "table_2d",
        ["torch.cat([across, down], dim=1)", "across + down"],
        "1 + 3 is the same",
    ),
    (
        "relative_bias",
        ["place[:, None] - place", "place - place[:, None]"],
        "turned round",
    ),
    ("relative_bias", [" / math.sqrt(hd)", ""], "root is missing"),
    (
        "relative_bias",
        ["place[:, None] - place", "(place[:, None] - place).abs()"],
        "without the sign",
    ),
    (
        "relative_bias",
        [
            "place[:, None] - place + t - 1",
            "(place[:, None] - place) % (2 * t - 1)",
        ],
        "from the table's end",
    ),
    ("axial", ["-> b (gh gw) d", "-> b (gw gh) d"], "column by column"),
    (
        "axial",
        [
            "(b gh) gw d -> (b gw) gh d",
            "(b gh) gw d -> (b gh) gw d",
            "(b gw) gh d -> b",
            "(b gh) gw d -> b",
            'd", gw=gw',
            'd", gh=gh',
        ],
        "along the rows",
    ),
    (
        "axial",
        [
            "row(rear",
            "column(rear",
            "rearrange(column(x)",
            "rearrange(row(x)",
        ],
        "swapped",
    ),
    (
        "axial",
        [
            "def axial(row, column",
            "def axial(column, row",
            "    gh, gw = grid",
            "    gw, gh = grid",
            "b (gh gw) d",
            "b (gw gh) d",
        ],
        "columns go first",
    ),
    (
        "axial",
        ["    gh, gw = grid\n", "    return column(row(x))\n"],
        "all patches at once",
    ),
    # chapter 19
    (
        "random_mask",
        ["return ranks <", "return ~(ranks <", "share)", "share))"],
        "marks what can be seen",
    ),
    ("random_mask", [RANKED, "return noise < share"], "a coin for each patch"),
    (
        "random_mask",
        [
            "(num_images, num_patches, gen",
            "(1, num_patches, gen",
            "return ranks",
            "return ranks.expand(num_images, -1)",
        ],
        "the same patches",
    ),
    (
        "random_mask",
        [RANKED, "return ranks < num_patches // 2"],
        "are hidden, and 75%",
    ),
    (
        "random_mask",
        ["return ranks <", "return 1.0 * (ranks <", "share)", "share))"],
        "compare with <",
    ),
    (
        "random_mask",
        ["    noise", "    torch.manual_seed(0)\n    noise"],
        "draw anew",
    ),
    (
        "random_mask",
        ["return ranks", "ranks = ranks[:-1]\n    return ranks"],
        "of shape (400, 20)",
    ),
    (
        "random_mask",
        [NOISE, f"{NOISE} + torch.arange(num_patches) / num_patches"],
        "far more often",
    ),
    (
        "masked_error",
        ["(errors * mask).sum(dim=1) / mask.sum(dim=1)", "errors.mean(dim=1)"],
        "over all patches",
    ),
    (
        "masked_error",
        ["(errors * mask)", "(errors * ~mask)", "/ mask", "/ (~mask)"],
        "that can be seen",
    ),
    ("masked_error", ["/ mask.sum(dim=1)", "/ mask.shape[1]"], "not by all n"),
    ("masked_error", [".square()", ".abs()"], "isn't squared"),
    ("masked_error", [".mean(dim=-1)", ".sum(dim=-1)"], "not their sum"),
    (
        "masked_error",
        [
            "/ mask.sum(dim=1)",
            "/ mask.sum(dim=1)).mean()",
            "return (",
            "return ((",
        ],
        "for each picture",
    ),
    ("colour_classes", ["LEVELS - 1)", "LEVELS)"], "no ninth level"),
    (
        "colour_classes",
        ["* LEVELS).long", "* LEVELS).round().long"],
        "don't round",
    ),
    (
        "colour_classes",
        ["(bins.shape[-1] - 1, -1, -1)", "(bins.shape[-1])"],
        "red is the first digit",
    ),
    (
        "colour_classes",
        ["places = LEVELS **", "places = 3 **"],
        "eight values each",
    ),
    (
        "colour_classes",
        ["(bins * places.to(bins.device)).sum(dim=-1)", "bins"],
        "those are the three levels",
    ),
    (
        "colour_classes",
        ["(pixels * LEVELS)", "((pixels + 1) / 2 * LEVELS)"],
        "between -1 and 1",
    ),
]


@pytest.mark.parametrize(
    ("name", "changes", "hint"),
    MISTAKES,
    ids=[f"{name}: {hint}" for name, _, hint in MISTAKES],
)
def test_a_mistake_is_named(name, changes, hint):
    text, _ = definition(name)
    for was, now in zip(changes[::2], changes[1::2], strict=True):
        assert was in text
        text = text.replace(was, now)
    answer = getattr(check, name)(made(text, name))
    assert not answer.is_right
    assert hint in answer.sentence
    assert repr(answer).startswith("✗ ")


def test_at_least_forty_mistakes_are_known():
    assert len({hint for _, _, hint in MISTAKES}) > 100


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("patchify", plain.ViT, "not the class ViT"),
        ("patchify", 3, "not an object of type int"),
        ("vit", plain.patchify, "not the function patchify"),
        ("mlp", plain.MLP(4, 4), "not an object of type MLP"),
        ("mlp", int, "int isn't an nn.Module"),
        ("loss_scaler", 3, "this checks a class"),
        ("attention", lambda q, k, v: None, "it should return 2 things"),
        ("patchify", lambda images, p: None, "is the return missing?"),
        ("patchify", lambda images, p: "patches", "got a str"),
        ("patchify", lambda images, p: images * torch.nan, "has the shape"),
        ("layer_norm", lambda x, eps: x * torch.nan, "NaN or infinity"),
        ("layer_norm", lambda x, eps: x - x.sum(), "depends on the others"),
        ("layer_norm", lambda x, eps: 2 * x, "no mistake that we know"),
        ("patchify", lambda images: images, "it raises TypeError"),
        ("mixup", lambda images, targets, share: images, "a Tensor"),
        ("decay_groups", lambda model, decay: None, "a list of groups"),
        ("bootstrap", lambda *case: None, "a and b, got nothing"),
    ],
)
def test_whatever_is_given_gets_one_sentence(name, given, sentence):
    answer = getattr(check, name)(given)
    assert not answer.is_right
    assert sentence in answer.sentence


def endless(images, patch_size):
    while True:
        time.sleep(0.01)


def test_what_never_ends_is_interrupted(monkeypatch):
    monkeypatch.setattr(verdict, "SECONDS", 1)
    answer = check.patchify(endless)
    assert "still running after 1 seconds" in answer.sentence


def test_outside_the_main_thread_nothing_is_interrupted():
    found = []
    thread = threading.Thread(
        target=lambda: found.append(check.patchify(plain.patchify))
    )
    thread.start()
    thread.join()
    assert found[0].is_right


def test_a_check_leaves_the_random_state_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    check.vit(plain.ViT)
    check.initialise(plain.initialise)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_answer_in_float32_is_right_too():
    answer = check.patchify(lambda x, p: plain.patchify(x.float(), p))
    assert answer.is_right
    assert "e-08" in answer.sentence


def test_any_partner_is_right_in_mixup():
    def shuffled(images, targets, share):
        order = torch.tensor([3, 4, 5, 0, 1, 2])
        return (
            share * images + (1 - share) * images[order],
            share * targets + (1 - share) * targets[order],
        )

    assert check.mixup(shuffled).is_right
