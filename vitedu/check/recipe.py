"""Chapter 6: mixup, and what weight decay leaves alone."""

from typing import Any

import torch
from torch import Tensor

from vitedu import plain
from vitedu.check.verdict import Wrong, answer, check_function, judged, kind

COUNT, SHARE = 6, 0.7
TOLERANCE = 1e-5


@judged
def mixup(theirs: Any) -> str:
    """Check `mixup(images, targets, share)`: images and targets, mixed.

    Any partner is right: the neighbour, or a random one.
    """
    check_function(theirs)
    # Each picture and each target names itself, so the rows of the results say
    # who is in them, and how much.
    own = torch.eye(COUNT)
    found = answer(theirs, (own.reshape(COUNT, 1, 1, COUNT), own, SHARE))
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise Wrong(f"return images and targets, not {kind(found)}")
    images, targets = found
    if images.numel() != COUNT**2 or targets.shape != (COUNT, COUNT):
        raise Wrong(
            f"shapes change: images of {(COUNT, 1, 1, COUNT)} come back as "
            f"{tuple(images.shape)}, targets of {(COUNT, COUNT)} as "
            f"{tuple(targets.shape)}"
        )
    images = images.reshape(COUNT, COUNT)
    check_rows("images", images)
    check_rows("targets", targets)
    if not torch.allclose(images, targets, atol=TOLERANCE):
        raise Wrong(
            "pictures and labels have different partners, so the labels name "
            "classes that aren't in the picture; use one order for both"
        )
    return "every picture and its label are mixed alike, with one partner each"


def check_rows(what: str, rows: Tensor) -> None:
    """Wrong if a row isn't `SHARE` of itself and the rest of one other."""
    own = rows.diagonal()
    others = rows - torch.diag(own)

    def close(x: Tensor, y: float) -> bool:
        return bool(((x - y).abs() < TOLERANCE).all())

    if close(own, 1) and close(others, 0):
        raise Wrong(f"the {what} aren't mixed at all")
    if not close(rows.sum(dim=1), 1):
        raise Wrong(
            f"the shares in the {what} add up to {rows.sum(dim=1)[0]:.2g}, not "
            "to 1; the partner gets 1 - share"
        )
    if close(own, 1 - SHARE):
        raise Wrong(
            f"the {what} keep 1 - share of themselves; share is what they keep"
        )
    if not close(own, SHARE) or not close(others.max(dim=1)[0], 1 - SHARE):
        raise Wrong(
            f"each of the {what} should be {SHARE:g} of itself and "
            f"{1 - SHARE:.1f} of one other; the first has "
            f"{[round(x, 2) for x in rows[0].tolist()]}"
        )


@judged
def decay_groups(theirs: Any) -> str:
    """Check `decay_groups(model, decay)`: kernels decay, nothing else does."""
    check_function(theirs)
    model = plain.ViT(8, 4, 3, 5, embed_dim=12, depth=1, num_heads=3, mlp_dim=8)
    groups = answer(theirs, (model, 0.05))
    if not isinstance(groups, list | tuple) or not all(
        isinstance(group, dict) and "params" in group for group in groups
    ):
        raise Wrong(
            "return a list of groups, each a dict with params and weight_decay"
        )
    decays: dict[int, list[float]] = {}
    for group in groups:
        if "weight_decay" not in group:
            raise Wrong(
                "a group without weight_decay gets the optimizer's own (0.01 "
                "in AdamW); say 0.0"
            )
        for weight in group["params"]:
            decays.setdefault(id(weight), []).append(group["weight_decay"])
    wrong: list[str] = []
    for name, weight in model.named_parameters():
        found = decays.get(id(weight), [])
        if not found:
            raise Wrong(f"{name} is in no group, so it would never be trained")
        if len(found) > 1:
            raise Wrong(f"{name} is in {len(found)} groups")
        is_kernel = weight.ndim in (2, 4)
        if is_kernel and not found[0]:
            raise Wrong(f"{name} is a kernel, and should decay")
        if is_kernel and found[0] != 0.05:
            raise Wrong(f"{name} decays by {found[0]}, and 0.05 was asked for")
        wrong += [name] if found[0] and not is_kernel else []
    if not wrong:
        return "kernels decay, and the rest, each once, doesn't"
    if set(wrong) == {"cls_token", "pos_embed"}:
        raise Wrong(
            "class token and positions decay, since they have three axes; go "
            "by the layers, nn.Linear and nn.Conv2d, and not by the axes"
        )
    if all(name.endswith("bias") for name in wrong):
        raise Wrong(f"biases decay, {wrong[0]} for one; only kernels should")
    if all("norm" in name for name in wrong):
        raise Wrong(
            f"norms decay, {wrong[0]} for one, and a smaller scale turns a "
            "whole block down"
        )
    raise Wrong(f"{wrong[0]} decays, and only kernels should")
