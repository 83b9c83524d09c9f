"""captum: how much every pixel adds to a logit."""

import torch

from tests.clients.marks import client

pytestmark = client("captum")


def test_integrated_gradients_find_the_cat_and_add_up(model, cat_on_the_left):
    from captum.attr import IntegratedGradients

    images, cat = cat_on_the_left
    method = IntegratedGradients(model)
    found, gap = method.attribute(
        images,
        target=cat,
        n_steps=32,
        internal_batch_size=8,
        return_convergence_delta=True,
    )
    left, right = found.abs()[..., :112].mean(), found.abs()[..., 112:].mean()
    assert left > 10 * right
    # completeness: the attributions add up to the logit's rise above that of
    # the baseline, but for the error of 32 steps (0.20 of 12.1 when this was
    # written)
    with torch.no_grad():
        logits = model(torch.cat([images, torch.zeros_like(images)]))
    rise = (logits[0] - logits[1])[cat]
    assert abs(found.sum() - rise) < 0.05 * rise
    assert abs(gap.item()) < 0.05 * rise


def test_a_layer_is_found_by_its_module(model, cat_on_the_left):
    from captum.attr import LayerGradientXActivation

    images, cat = cat_on_the_left
    method = LayerGradientXActivation(model, model.blocks[-1].norm1)
    tokens = method.attribute(images, target=cat).sum(-1)[0, 1:]
    rows = tokens.abs().unflatten(0, (14, 14))
    assert rows[:, :7].mean() > rows[:, 7:].mean()
