"""What an answer needs: patches taken away, and notes moved elsewhere.

`deletion_curve(model, images, order)` tests whether a map is true: the answer
should fall quickly if the patches it calls important are taken away first.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from vitedu.errors import UserError, counted
from vitedu.evaluate.classify import check_has_classes
from vitedu.interpret.rollout import as_vit
from vitedu.interpret.tokens import outlier_tokens
from vitedu.model import ViT
from vitedu.model.attention import attention_layers

SHARES = (0.0, 0.1, 0.25, 0.5, 0.75)  # of the patches


@torch.no_grad()
def deletion_curve(
    model: ViT,
    images: Tensor,
    order: Tensor,
    labels: Tensor | None = None,
    shares: Sequence[float] = SHARES,
) -> Tensor:
    """The probability of each answer with patches removed: (shares, b).

    `order` (b, n) are the patches' numbers, those to remove first in front:
    `map.flatten(1).argsort(descending=True)` for a map (b, gh, gw). `labels`
    (b,) are the classes that are asked for, by default the model's own answers.
    A removed patch is seen by no token, and takes no part in a mean.

    UserError: the model has no classes; and as from `without`.
    """
    model = as_vit(model)  # once, for all shares
    check_has_classes(model)
    if labels is None:
        labels = model(images).argmax(dim=-1)
    rows = []
    for share in shares:
        removed = torch.zeros_like(order, dtype=torch.bool)
        removed.scatter_(1, order[:, : round(share * order.shape[1])], True)
        probabilities = without(model, images, removed).softmax(dim=-1)
        rows.append(probabilities.gather(1, labels[:, None])[:, 0])
    return torch.stack(rows)


@torch.no_grad()
def without(model: ViT, images: Tensor, removed: Tensor) -> Tensor:
    """The logits (b, classes) of images from which patches are removed.

    `removed` (b, n) of bool, as many in each image. The same as if the tokens
    weren't there, whatever the positions.

    UserError: the blocks don't attend over all tokens at once, no patch is
    left, or the images lose different numbers of them.
    """
    model = as_vit(model)
    counts = {*removed.sum(dim=1).tolist()}
    if len(counts) > 1 or removed.shape[1] in counts:
        raise UserError(
            "every image has to lose the same number of patches, and keep one; "
            f"they lose {', '.join(map(str, sorted(counts)))} of "
            f"{removed.shape[1]}"
        )
    tokens = model.embed(images)
    with hidden(model, removed):
        tokens = model.blocks(tokens)
    if model.config.pool != "token":  # it reads patches, which are last
        kept = tokens[:, -removed.shape[1] :][~removed]
        tokens = kept.view(len(images), -1, tokens.shape[-1])
    return model.forward_head(model.norm(tokens))


@contextmanager
def hidden(model: ViT, removed: Tensor) -> Iterator[None]:
    layers = attention_layers(model.blocks, "removing patches")
    prefix = model.config.num_prefix_tokens
    mask = torch.zeros(len(removed), 1, 1, prefix + removed.shape[1])
    mask[:, 0, 0, prefix:].masked_fill_(removed.cpu(), -torch.inf)
    before = [layer.position_bias for layer in layers]
    try:
        for layer, bias in zip(layers, before, strict=True):
            layer.position_bias = Hide(bias, mask)
        yield
    finally:
        for layer, bias in zip(layers, before, strict=True):
            layer.position_bias = bias


class Hide(nn.Module):
    """A position's bias, and -inf for the keys that nobody may see."""

    def __init__(self, before: nn.Module | None, mask: Tensor) -> None:
        super().__init__()
        self.before = before
        self.mask = mask

    def forward(self, q: Tensor) -> Tensor:
        mask = self.mask.to(q)
        return mask if self.before is None else mask + self.before(q)


@torch.no_grad()
def test_time_registers(model: ViT, images: Tensor, block: int = -1) -> ViT:
    """A copy in which empty tokens take the part of the outliers.

    Patches that are giants in at least half of the images (`outlier_tokens`)
    get the position of a neighbour towards the middle. Their own positions go
    to as many tokens that carry nothing but the mean patch. In a ViT whose
    giants come from where they are, the giants move there. The copy is to look
    at, not to save.

    UserError: no patch is a giant, or positions aren't added at the stem.
    Source: registers, Darcet et al. 2024; without training, Jiang et al. 2025.
    """
    model = as_vit(model)
    config = model.config
    num_prefix = config.num_prefix_tokens
    empty = model.embed(torch.zeros_like(images[:1]))[:, num_prefix:]
    if not (empty - empty[:, :1]).any():
        raise UserError(
            f"{config.position} adds nothing to the patches, so their places "
            "cannot be exchanged; give a ViT with positions at the stem"
        )
    shares = outlier_tokens(model, images, block).float().mean(dim=0)
    found = (shares >= 0.5).nonzero().flatten().tolist()
    if not found:
        raise UserError(
            f"after block {block} no patch is a giant in half of the "
            f"{counted(len(images), 'image')}, so there is nothing to move"
        )
    near = [_inward(patch, model.patch_embed.grid, found) for patch in found]
    tokens = model.embed(images)[:, num_prefix:]
    mean = (tokens - empty).mean(dim=(0, 1))
    changed = copy.deepcopy(model)
    embed = changed.embed

    def with_registers(images: Tensor) -> Tensor:
        prefix, tokens = embed(images).tensor_split([num_prefix], dim=1)
        registers = (empty[:, found] + mean).expand(len(images), -1, -1)
        tokens[:, found] += empty[:, near] - empty[:, found]
        return torch.cat([prefix, registers, tokens], dim=1)

    changed.embed = with_registers  # type: ignore[method-assign]
    # they count as prefix tokens from now on
    registers = config.registers + len(found)
    changed.config = replace(config, registers=registers)
    return changed


def _inward(patch: int, grid: tuple[int, int], taken: list[int]) -> int:
    """The first patch on the way to the middle that isn't taken."""
    row, column = divmod(patch, grid[1])
    middle = (grid[0] - 1) / 2, (grid[1] - 1) / 2
    while row * grid[1] + column in taken:
        before = row, column
        row += (row + 0.5 < middle[0]) - (row - 0.5 > middle[0])
        column += (column + 0.5 < middle[1]) - (column - 0.5 > middle[1])
        if before == (row, column):
            break  # all the way is taken
    return row * grid[1] + column
