"""grad-cam: where a class was seen."""

from tests.clients.marks import client

pytestmark = client("pytorch_grad_cam")


def grid(tokens):
    """(b, t, d) -> (b, d, 14, 14), without the class token."""
    return tokens[:, 1:].mT.unflatten(2, (14, 14))


def test_the_map_of_a_cat_is_bright_where_the_cat_is(model, cat_on_the_left):
    from pytorch_grad_cam import GradCAM
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    images, cat = cat_on_the_left
    layers = [model.blocks[-1].norm1]
    with GradCAM(model, layers, reshape_transform=grid) as method:
        (found,) = method(images, [ClassifierOutputTarget(cat)])
    assert found.shape == (224, 224)
    left, right = found[:, :112].mean(), found[:, 112:].mean()
    assert left > 5 * right  # 19 times when this was written
