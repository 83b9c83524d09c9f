"""The tokens behind some of the blocks, against timm on the same weights."""

import pytest
from torch.testing import assert_close

from tests.tiny import TIMM_TINY, random_images, random_model
from vitedu.compat import import_timm


def ours_and_theirs(**fields):
    """A ViT of each, float64, with the same weights; and two images."""
    import_timm()
    from timm.models.vision_transformer import VisionTransformer

    ours = random_model(depth=4, **fields)
    theirs = VisionTransformer(
        **TIMM_TINY,
        depth=4,
        class_token=ours.config.class_token,
        global_pool="token" if ours.config.class_token else "avg",
        fc_norm=False,
    )
    theirs.double().eval().load_state_dict(ours.state_dict())
    return ours, theirs, random_images()


def assert_same(got, want):
    assert type(got) is type(want) and len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        if isinstance(other, tuple):
            assert_same(one, other)
        else:
            assert one.is_contiguous() == other.is_contiguous()
            # float64, sums in another order, numbers up to 10: measured 1e-14
            assert_close(one, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("fields", [{}, {"class_token": False, "pool": "mean"}])
@pytest.mark.parametrize("reshape", [False, True])
def test_prefix_tokens_equal_timms(reshape, fields):
    ours, theirs, images = ours_and_theirs(**fields)
    got, want = (
        model.get_intermediate_layers(
            images, 2, reshape=reshape, return_prefix_tokens=not fields
        )
        for model in (ours, theirs)
    )
    assert_same(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3, 4, [0, 2], (3, 1), [-1, 0], range(2)])
@pytest.mark.parametrize("reshape", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_layers_equal_timms(n, reshape, norm):
    ours, theirs, images = ours_and_theirs()
    got, want = (
        model.get_intermediate_layers(images, n, reshape=reshape, norm=norm)
        for model in (ours, theirs)
    )
    assert_same(got, want)


@pytest.mark.parametrize("fields", [{}, {"class_token": False, "pool": "mean"}])
@pytest.mark.parametrize("output_fmt", ["NCHW", "NLC"])
@pytest.mark.parametrize("indices", [None, 2, [0, -1]])
def test_forward_intermediates_are_timms(indices, output_fmt, fields):
    ours, theirs, images = ours_and_theirs(**fields)
    for norm in (False, True):
        options = {"norm": norm, "output_fmt": output_fmt}
        (got, layers), (want, others) = (
            model.forward_intermediates(images, indices, **options)
            for model in (ours, theirs)
        )
        assert_same([got], [want])
        assert_same(layers, others)
        options["return_prefix_tokens"] = not fields
        options["intermediates_only"] = True
        assert_same(
            ours.forward_intermediates(images, indices, **options),
            theirs.forward_intermediates(images, indices, **options),
        )


def test_another_form_of_the_layers_is_an_error():
    ours, _, images = ours_and_theirs()
    with pytest.raises(ValueError, match="NCHW or NLC, not 'NHWC'"):
        ours.forward_intermediates(images, output_fmt="NHWC")


def test_blocks_behind_the_last_wanted_one_do_not_run():
    ours, _, images = ours_and_theirs()
    ours.blocks[2].register_forward_pre_hook(lambda *_: pytest.fail("it ran"))
    assert len(ours.get_intermediate_layers(images, [0, 1])) == 2


@pytest.mark.parametrize("n", [0, 5, -1, [], [4], [-5]])
def test_a_block_that_is_not_there_is_an_error(n):
    ours, _, images = ours_and_theirs()
    with pytest.raises(ValueError, match="none or too many of 4 blocks"):
        ours.get_intermediate_layers(images, n)
