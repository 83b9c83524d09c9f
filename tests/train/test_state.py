"""A run before its first step: initial weights, activations, compilation."""

import shutil
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig
from vitedu.train.config import TrainConfig
from vitedu.train.start import build_model, build_state, num_copies
from vitedu.train.step import train_step

CPU = torch.device("cpu")
TINY = ViTConfig(
    image_size=8,
    patch_size=4,
    in_channels=1,
    num_classes=3,
    embed_dim=16,
    depth=2,
    num_heads=2,
    mlp_dim=32,
)
# torch.compile imports parts of torch that warn of themselves
compiles = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def config(**fields):
    given = {
        "recipe": "test",
        "tier": "cpu",
        "model": TINY,
        "dataset": "digits",
        "steps": 2,
        "optimizer": "sgd",
        "schedule": "constant",
        "lr": 0.1,
    }
    return TrainConfig(**(given | fields))


def build(**fields):
    """A state whose every weight has been drawn, so that all of them matter."""
    state = build_state(config(**fields), range(8), CPU)
    torch.manual_seed(0)
    for weight in state.model.parameters():
        nn.init.normal_(weight, std=0.3)
    return state


def drawn_batch(num_images=4):
    torch.manual_seed(1)
    return torch.randn(num_images, 1, 8, 8), torch.arange(num_images) % 3


def after_steps(state, seed=2, steps=2):
    """The weights after steps on one batch."""
    for step in range(steps):
        batch = drawn_batch()
        torch.manual_seed(seed + step)  # of dropout
        train_step(state, batch)
    return {
        name: each.clone() for name, each in state.model.state_dict().items()
    }


def test_weights_are_the_seeds():
    first, again, other = (build_model(config(seed=s)) for s in (1, 1, 2))
    weights = [model.patch_embed.proj.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_building_draws_nothing_from_the_callers_generator():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    build_state(config(), range(8), CPU)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_bias_of_the_head_begins_with_what_is_asked():
    model = build_model(config(head_bias=-6.9))
    assert torch.equal(model.head.bias, torch.full((3,), -6.9))
    assert not build_model(config()).head.bias.any()
    weights = [build_model(config(head_bias=bias)) for bias in (0.0, -6.9)]
    for model in weights:
        nn.init.zeros_(model.head.bias)
    assert_close(
        weights[1].state_dict(), weights[0].state_dict(), rtol=0, atol=0
    )


@pytest.mark.parametrize(
    "size", [{"depth": 4000, "mlp_dim": 10**5}, {"embed_dim": 4_000_000}]
)
def test_a_model_that_does_not_fit_into_memory_is_not_built(size):
    # gigabytes in any machine's memory, and minutes
    with pytest.raises(UserError, match=r"training this model needs .* of mem"):
        build(model=replace(TINY, **{"embed_dim": 4096, **size}))


def test_training_holds_the_weights_several_times():
    copies = [
        num_copies(config(optimizer=name, ema=ema))
        for name, ema in (("sgd", None), ("adamw", None), ("adamw", 0.9))
    ]
    assert copies == [3, 4, 5]


def test_nothing_is_noted_where_all_is_done_as_asked():
    assert build().notes == []


@pytest.mark.parametrize("micro_batch_size", [None, 3])
def test_checkpointed_blocks_give_the_same_steps(micro_batch_size):
    random = replace(TINY, dropout=0.3, drop_path=0.5)
    plain, less = (
        after_steps(
            build(
                model=random,
                micro_batch_size=micro_batch_size,
                activation_checkpointing=checkpointed,
            )
        )
        for checkpointed in (False, True)
    )
    # the same operations on the same numbers
    assert_close(less, plain, rtol=0, atol=0)


@pytest.mark.parametrize("attention", ["auto", "flash", "math"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_what_is_computed_again_is_computed_alike(precision, attention):
    # with another kernel than in the forward pass, autograd would refuse it
    plain, less = (
        after_steps(
            build(
                precision=precision,
                attention=attention,
                activation_checkpointing=checkpointed,
            )
        )
        for checkpointed in (False, True)
    )
    assert_close(less, plain, rtol=0, atol=0)


def test_checkpointing_keeps_the_names_of_the_weights():
    plain, less = ViT(TINY), ViT(TINY)
    less.set_grad_checkpointing()
    assert list(less.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in less.named_modules()] == [
        name for name, _ in plain.named_modules()
    ]


def test_checkpointed_blocks_keep_their_input_alone(bytes_saved_for_backward):
    deep, images = replace(TINY, depth=4), drawn_batch()[0]
    kept = {}
    for checkpointed in (False, True):
        model = build_model(config(model=deep))
        if checkpointed:
            model.set_grad_checkpointing()
        kept[checkpointed] = bytes_saved_for_backward(model, images)
    block = 4 * 5 * 16 * 4  # images, tokens, numbers, bytes
    # plain: about 20 times its input; behind the blocks both keep the same
    assert kept[True] < kept[False] - 4 * 10 * block
    assert kept[True] > 4 * block


def test_without_gradients_nothing_is_computed_twice():
    model, calls = ViT(TINY), []
    model.set_grad_checkpointing()
    for block in model.blocks:
        block.mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        model(drawn_batch()[0])
    assert len(calls) == 2
    model(drawn_batch()[0]).sum().backward()
    assert len(calls) == 2 + 4


def refuse(*_, **__):
    raise RuntimeError("no compiler here\nand a page of trace")


def test_without_a_compiler_a_sentence_says_so_and_training_goes_on(
    monkeypatch,
):
    monkeypatch.setattr(torch, "compile", refuse)
    state = build(compile=True)
    assert state.notes == [
        "compile=true has no effect, torch.compile fails here (no compiler "
        "here); training goes on uncompiled"
    ]
    assert state.model._compiled_call_impl is None
    assert_close(after_steps(state), after_steps(build()), rtol=0, atol=0)


@pytest.mark.slow
@compiles
def test_a_compiler_that_is_not_there_is_noticed():
    from torch._inductor import config as inductor

    torch._dynamo.reset()
    with inductor.patch({"cpp.cxx": ("no-such-compiler",)}):
        (note,) = build(compile=True).notes
    assert "no-such-compiler" in note
    assert "\n" not in note


@pytest.mark.slow
@compiles
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_a_compiled_model_takes_the_same_steps():
    torch._dynamo.reset()
    fields = {
        "model": replace(TINY, depth=1),
        "precision": "bf16",
        "activation_checkpointing": True,
    }
    plain, compiled = build(**fields), build(**fields, compile=True)
    assert compiled.notes == []
    # bfloat16 keeps 8 bits, and fused kernels round less often: measured 3e-5
    assert_close(after_steps(compiled), after_steps(plain), rtol=0, atol=1e-3)
