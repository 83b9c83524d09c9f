"""What is between tokens and head: pools, and pre-logits behind each.

Attention pooling and per-token logits against the authors' outputs where
VITEDU_GOLDEN is set, against timm and against equations written out everywhere.
"""

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn
from torch.testing import assert_close

from vitedu.compat import import_timm
from vitedu.errors import UserError
from vitedu.model import ViT, ViTConfig, record_attention
from vitedu.model.pool import AttentionPool, KeyValue, Pool, build_pool

TINY = ViTConfig(
    image_size=(8, 12),
    patch_size=4,
    num_classes=5,
    embed_dim=32,
    depth=2,
    num_heads=4,
    mlp_dim=96,
)
POOLS = ("token", "mean", "map", "none")
# float64, at most 96 terms per sum in another order: measured below 1e-14
EXACT = {"rtol": 0, "atol": 1e-12}


def fill_randomly(module):
    """No zeros and ones left from initial values: every tensor matters."""
    torch.manual_seed(0)
    for weight in module.parameters():
        nn.init.normal_(weight, std=0.3)


def random_pool(**fields):
    pool = AttentionPool(32, 4, 96, 7, **fields).double()
    fill_randomly(pool)
    return pool


def random_model(**fields):
    model = ViT(replace(TINY, **fields)).double().eval()
    fill_randomly(model)
    return model


def random_images(b=2):
    torch.manual_seed(1)
    return torch.randn(b, 3, 8, 12, dtype=torch.float64)


def random_tokens(t=7):
    torch.manual_seed(1)
    return torch.randn(2, t, 32, dtype=torch.float64)


def pool_by_equations(tokens, weights, num_heads, norm_eps, approximate):
    """The head written out, head by head, from the tensors of a state_dict."""
    d = tokens.shape[-1]

    def dense(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    q = dense(weights["latent"][0], "q").split(d // num_heads, dim=-1)
    k, v = dense(tokens, "kv").split(d, dim=-1)
    answers = []
    for head, (keys, values) in enumerate(
        zip(
            k.split(d // num_heads, dim=-1),
            v.split(d // num_heads, dim=-1),
            strict=True,
        )
    ):
        scores = q[head] @ keys.mT / math.sqrt(d // num_heads)  # (b, 1, t)
        answers.append((scores.softmax(-1) @ values)[:, 0])
    x = dense(torch.cat(answers, dim=-1), "proj")
    scale, shift = weights["norm.weight"], weights["norm.bias"]
    hidden = dense(F.layer_norm(x, (d,), scale, shift, norm_eps), "mlp.fc1")
    return x + dense(F.gelu(hidden, approximate=approximate), "mlp.fc2")


@pytest.mark.parametrize("gelu", ["exact", "tanh"])
@pytest.mark.parametrize("norm_eps", [1e-6, 1e-2])
def test_attention_pooling_equals_its_equations(gelu, norm_eps):
    pool = random_pool(gelu=gelu, norm_eps=norm_eps)
    approximate = {"exact": "none", "tanh": "tanh"}[gelu]
    want = pool_by_equations(
        random_tokens(), pool.state_dict(), 4, norm_eps, approximate
    )
    assert_close(pool(random_tokens()), want, **EXACT)


@pytest.mark.parametrize("gelu", ["exact", "tanh"])
def test_attention_pooling_equals_timms_under_the_same_keys(gelu):
    import_timm()
    from timm.layers import AttentionPoolLatent

    pool = random_pool(gelu=gelu)
    approximate = {"exact": "none", "tanh": "tanh"}[gelu]
    theirs = AttentionPoolLatent(
        32,
        num_heads=4,
        mlp_ratio=3,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
        act_layer=partial(nn.GELU, approximate=approximate),
    ).double()
    theirs.load_state_dict(pool.state_dict(), strict=True)
    assert_close(pool(random_tokens()), theirs(random_tokens()), **EXACT)


@pytest.mark.parametrize("class_token", [True, False])
def test_a_network_with_attention_pooling_equals_timms(class_token):
    import_timm()
    from timm.models.vision_transformer import VisionTransformer

    ours = random_model(pool="map", class_token=class_token)
    theirs = VisionTransformer(
        img_size=(8, 12),
        patch_size=4,
        num_classes=5,
        embed_dim=32,
        depth=2,
        num_heads=4,
        mlp_ratio=3,
        global_pool="map",
        class_token=class_token,
    ).double()
    renamed = {
        key.replace("pool.", "attn_pool."): value
        for key, value in ours.state_dict().items()
    }
    theirs.eval().load_state_dict(renamed, strict=True)
    # logits are about 10: 1e-12 of them
    assert_close(
        ours(random_images()), theirs(random_images()), rtol=0, atol=1e-11
    )


def test_attention_pooling_asks_every_patch_and_leaves_the_class_token_out():
    pool, tokens = random_pool(), random_tokens(t=1 + 7).requires_grad_()
    pool(tokens).sum().backward()
    seen = tokens.grad.abs().amax(-1)
    assert (seen[:, 1:] > 1e-6).all()
    assert not seen[:, 0].any()


def test_attention_pooling_does_not_see_the_order_of_tokens():
    pool, order = random_pool(), [3, 0, 6, 1, 5, 2, 4]
    assert_close(
        pool(random_tokens()[:, order]), pool(random_tokens()), **EXACT
    )


def test_attention_pooling_keeps_images_apart():
    pool, tokens = random_pool(), random_tokens()
    assert_close(pool(tokens)[:1], pool(tokens[:1]), **EXACT)


def test_attention_pooling_does_not_add_the_probe():
    pool = random_pool()
    for layer in (pool.proj, pool.mlp.fc2):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    assert not pool(random_tokens()).any()


def test_attention_pooling_takes_the_fields_of_the_configuration():
    config = replace(TINY, pool="map", gelu="tanh", norm_eps=1e-3, dropout=0.5)
    pool = build_pool(config)
    assert pool.num_heads == 4
    assert pool.mlp.fc1.out_features == 96
    assert pool.mlp.act.approximate == "tanh"
    assert pool.norm.eps == 1e-3


def test_attention_pooling_has_no_dropout():
    pool = build_pool(replace(TINY, pool="map", dropout=0.5)).double()
    fill_randomly(pool)
    tokens = random_tokens()
    assert torch.equal(pool.train()(tokens), pool.eval()(tokens))


def test_attention_pooling_refuses_a_width_that_does_not_divide():
    with pytest.raises(
        ValueError, match="embed_dim=32 does not divide into 5 heads"
    ):
        AttentionPool(32, 5, 96, 7)


def test_attention_pooling_has_a_known_number_of_weights():
    d, m = 32, 96
    pool = AttentionPool(d, 4, m, 7)
    # probe; q, k, v and their output; norm; MLP
    want = d + 4 * (d * d + d) + 2 * d + (2 * d * m + m + d)
    assert sum(weight.numel() for weight in pool.parameters()) == want


def test_record_attention_leaves_the_pool_out():
    model = random_model(pool="map")
    with record_attention(model) as maps:
        recorded = model(random_images())
    assert [tuple(weights.shape) for weights in maps] == [(2, 4, 7, 7)] * 2
    # the fused kernel sums in another order; logits are about 10
    assert_close(recorded, model(random_images()), rtol=0, atol=1e-11)


@pytest.fixture(scope="module")
def initial():
    torch.manual_seed(0)
    config = ViTConfig(image_size=32, embed_dim=192, depth=1, num_heads=3)
    return ViT(replace(config, mlp_dim=768, pool="map")).requires_grad_(False)


def assert_uniform(weight, bound, rel):
    assert weight.abs().max() <= bound * (1 + 1e-6)  # float32
    assert weight.abs().max() > 0.95 * bound
    assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=rel)


def test_the_probe_is_xavier_uniform_as_a_matrix_of_one_row(initial):
    # of 192 draws the deviation's own error is 3.2%: 16% is 5 times that; that
    # none is above 0.95 of the bound has probability 5e-5
    assert_uniform(initial.pool.latent, math.sqrt(6 / 193), rel=0.16)


@pytest.mark.parametrize("half", [0, 1])
def test_k_and_v_of_the_pool_are_xavier_uniform_each_on_its_own(initial, half):
    # of 36,864 uniform draws the deviation's own error is 0.23%: 1.5% is 6
    # times that. One (2d, d) matrix would have a bound sqrt(1.5) smaller.
    matrix = initial.pool.kv.weight.chunk(2)[half]
    assert_uniform(matrix, math.sqrt(3 / 192), rel=0.015)


@pytest.mark.parametrize("name", ["q", "proj"])
def test_q_and_output_of_the_pool_are_xavier_uniform(initial, name):
    matrix = initial.pool.get_submodule(name).weight
    assert_uniform(matrix, math.sqrt(3 / 192), rel=0.015)


@pytest.mark.parametrize("name", ["q", "kv", "proj"])
def test_attention_biases_of_the_pool_are_zero(initial, name):
    assert not initial.pool.get_submodule(name).bias.any()


@pytest.mark.parametrize("name", ["fc1", "fc2"])
def test_the_mlp_of_the_pool_starts_as_in_a_block(initial, name):
    layer = initial.pool.mlp.get_submodule(name)
    assert_uniform(layer.weight, math.sqrt(6 / (192 + 768)), rel=0.015)
    # of 192 draws: 5 times the deviation's own error is 26%
    assert layer.bias.std() == pytest.approx(1e-6, rel=0.26)


def test_a_pool_built_without_numbers_gets_them_from_reset_parameters():
    with torch.device("meta"):
        pool = AttentionPool(32, 4, 96, 7)
    pool = pool.to_empty(device="cpu")
    with torch.no_grad():
        for weight in (pool.latent, pool.kv.weight, pool.kv.bias):
            weight.fill_(math.nan)
    torch.manual_seed(0)
    pool.reset_parameters()
    torch.manual_seed(0)
    want = AttentionPool(32, 4, 96, 7)
    for name in ("latent", "kv.weight", "kv.bias"):
        assert pool.get_parameter(name).isfinite().all(), name
    assert 0 < pool.latent.abs().max() <= math.sqrt(6 / 33)
    assert pool.kv.weight.shape == want.kv.weight.shape


def test_k_and_v_in_one_product_are_a_dense_layer():
    layer, dense = KeyValue(32).double(), nn.Linear(32, 64).double()
    fill_randomly(layer)
    dense.load_state_dict(layer.state_dict(), strict=True)
    assert torch.equal(layer(random_tokens()), dense(random_tokens()))


@pytest.mark.parametrize("kind", ["token", "mean"])
def test_the_pools_of_the_book_hold_no_weights(kind):
    pool = build_pool(replace(TINY, pool=kind))
    assert type(pool) is Pool
    assert not list(pool.parameters())


@pytest.mark.parametrize("pre_logits", [None, 8, 32, 50])
@pytest.mark.parametrize("pool", POOLS)
def test_pre_logits_of_any_width_stand_behind_every_pool(pool, pre_logits):
    model = random_model(pool=pool, pre_logits=pre_logits)
    tokens = model.forward_features(random_images())
    y = model.pool(tokens)
    if pre_logits:
        fc = model.pre_logits.fc
        assert fc.out_features == pre_logits
        y = torch.tanh(y @ fc.weight.T + fc.bias)
    want = y @ model.head.weight.T + model.head.bias
    rows = (2, 7) if pool == "none" else (2,)
    assert want.shape == (*rows, 5)
    # the product is one kernel with the bias; logits are about 10
    assert_close(model(random_images()), want, rtol=0, atol=1e-11)


@pytest.mark.parametrize("class_token", [True, False])
def test_without_a_pool_every_token_has_logits(class_token):
    model = random_model(pool="none", class_token=class_token)
    tokens = model.forward_features(random_images())
    logits = model(random_images())
    assert logits.shape == (2, 6 + class_token, 5)
    for token in range(logits.shape[1]):
        one_by_one = model.head(tokens[:, token])
        assert_close(logits[:, token], one_by_one, rtol=0, atol=1e-11)


@pytest.mark.parametrize("pool", POOLS)
def test_without_classes_every_pool_gives_features(pool):
    model = random_model(pool=pool, num_classes=0)
    tokens = model.forward_features(random_images())
    assert torch.equal(model(random_images()), model.pool(tokens))


@pytest.mark.parametrize("pool", ["map", "none"])
def test_a_new_head_leaves_the_pool_as_it_is(pool):
    model = random_model(pool=pool, pre_logits=8)
    before = {
        key: value.clone() for key, value in model.pool.state_dict().items()
    }
    model.reset_classifier(3)
    after = model.pool.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert model.config.pool == pool
    assert model(random_images()).shape[-1] == 3


@pytest.mark.parametrize("pool", ["map", "none"])
def test_every_tensor_moves_the_logits(pool):
    model = random_model(pool=pool, pre_logits=8)
    model(random_images()).square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.abs().max() > 0, name


@pytest.mark.parametrize("class_token", [True, False])
@pytest.mark.parametrize("pool", ["mean", "map", "none"])
def test_json_and_back_is_the_same_pool(pool, class_token):
    config = replace(TINY, pool=pool, class_token=class_token)
    text = json.dumps(config.to_json())
    assert ViTConfig.from_json(json.loads(text)) == config


@pytest.mark.parametrize(
    ("theirs", "ours"), [("gap", "mean"), ("avg", "mean"), ("tok", "token")]
)
def test_a_name_from_other_code_is_answered_with_ours(theirs, ours):
    with pytest.raises(
        UserError, match=f"pool='{theirs}' is not known; did you mean '{ours}'"
    ):
        replace(TINY, pool=theirs)


@pytest.fixture
def arrays(golden):
    """The function of a file's name: its tensors, named without the prefix."""

    def read(name):
        with np.load(golden / name) as file:
            return {
                key.removeprefix("params/img/"): torch.from_numpy(file[key])
                for key in file.files
            }

    return read


def dense(arrays, name, outputs=1):
    """A dense layer's weight (out, in), bias; `outputs` axes come out of it."""
    kernel, bias = arrays[f"{name}/kernel"], arrays[f"{name}/bias"]
    matrix = kernel.reshape(kernel.shape[:-outputs].numel(), -1)
    return matrix.T, bias.flatten()


def put(state, key, weight_and_bias):
    state[f"{key}.weight"], state[f"{key}.bias"] = weight_and_bias


def put_block(state, ours, arrays, theirs, attention, norms, mlp):
    """q, k, v, output, MLP and the norm before it, of a block or the pool."""
    qkv = [
        dense(arrays, f"{theirs}/{attention}/{each}", outputs=2)
        for each in ("query", "key", "value")
    ]
    if ours == "pool":
        put(state, "pool.q", qkv.pop(0))
        joined = "pool.kv"
    else:
        joined = f"{ours}.attn.qkv"
    put(state, joined, [torch.cat(each) for each in zip(*qkv, strict=True)])
    out = "pool.proj" if ours == "pool" else f"{ours}.attn.proj"
    put(state, out, dense(arrays, f"{theirs}/{attention}/out"))
    for key, norm in norms.items():
        scale = arrays[f"{theirs}/{norm}/scale"]
        put(state, f"{ours}.{key}", (scale, arrays[f"{theirs}/{norm}/bias"]))
    for layer in (0, 1):
        put(
            state,
            f"{ours}.mlp.fc{layer + 1}",
            dense(arrays, f"{theirs}/{mlp}/Dense_{layer}"),
        )


def put_head(state, arrays):
    """The attention pool, pre-logits and head: whatever of them is there."""
    if "MAPHead_0/probe" in arrays:
        state["pool.latent"] = arrays["MAPHead_0/probe"]
        put_block(
            state,
            "pool",
            arrays,
            "MAPHead_0",
            "MultiHeadDotProductAttention_0",
            {"norm": "LayerNorm_0"},
            "MlpBlock_0",
        )
    if "pre_logits/kernel" in arrays:
        put(state, "pre_logits.fc", dense(arrays, "pre_logits"))
    put(state, "head", dense(arrays, "head"))


def authors_model(arrays, case, attention, norm2, mlp, **fields):
    """A case's network in float64, its blocks' parts being named as given."""
    theirs = arrays(f"{case}.weights.npz")
    config = ViTConfig(
        embed_dim=32, depth=2, mlp_dim=64, patch_size=8, gelu="tanh", **fields
    )
    state = {}
    kernel = rearrange(theirs["embedding/kernel"], "p q c d -> d c p q")
    put(state, "patch_embed.proj", (kernel, theirs["embedding/bias"]))
    if "cls" in theirs:
        state["cls_token"] = theirs["cls"]
    (positions,) = [key for key in theirs if key.endswith("pos_embedding")]
    state["pos_embed"] = theirs[positions]
    for index in range(2):
        put_block(
            state,
            f"blocks.{index}",
            theirs,
            f"Transformer/encoderblock_{index}",
            attention,
            {"norm1": "LayerNorm_0", "norm2": norm2},
            mlp,
        )
    norm = "Transformer/encoder_norm"
    put(state, "norm", (theirs[f"{norm}/scale"], theirs[f"{norm}/bias"]))
    put_head(state, theirs)
    model = ViT(config).double().eval()
    model.load_state_dict(state, strict=True)
    numbers = sum(array.numel() for array in theirs.values())
    assert sum(weight.numel() for weight in model.parameters()) == numbers
    return model


def outputs(arrays, case):
    io = arrays(f"{case}.io.npz")
    return io, rearrange(io["images"], "b h w c -> b c h w").double()


# The authors' MLP of attention pooling stays float32 also in their float64 run,
# so 2e-6 behind it; 1e-10 elsewhere.
THEIR_FLOAT32 = {"rtol": 0, "atol": 2e-6}
THEIR_FLOAT64 = {"rtol": 0, "atol": 1e-10}


def test_attention_pooling_is_big_visions(arrays):
    model = authors_model(
        arrays,
        "h3_bv_map_learn",
        "MultiHeadDotProductAttention_0",
        "LayerNorm_1",
        "MlpBlock_0",
        image_size=(24, 32),
        num_heads=4,
        num_classes=7,
        class_token=False,
        pool="map",
    )
    io, images = outputs(arrays, "h3_bv_map_learn")
    tokens = model.forward_features(images)
    assert_close(tokens, io["encoded_f64"], **THEIR_FLOAT64)
    pooled = model.pool(tokens)
    assert_close(pooled, io["features_f64"], **THEIR_FLOAT32)
    # stored in float32, the case's own tolerance
    assert_close(pooled.float(), io["head_input"], rtol=0, atol=1e-5)
    assert_close(model(images), io["logits_f64"], **THEIR_FLOAT32)


def test_attention_pooling_with_pre_logits_is_big_visions(arrays):
    case = "h5_bv_map_sincos_rep_scan"
    theirs, (io, _) = arrays(f"{case}.weights.npz"), outputs(arrays, case)
    model = ViT(
        ViTConfig(
            image_size=32,
            patch_size=8,
            num_classes=7,
            embed_dim=32,
            depth=1,  # the head alone is compared
            num_heads=2,
            mlp_dim=64,
            class_token=False,
            pool="map",
            pre_logits=20,
            gelu="tanh",
        )
    ).double()
    state = model.state_dict()
    put_head(state, theirs)
    model.load_state_dict(state, strict=True)
    tokens = io["encoded_f64"]
    pooled = model.pool(tokens)
    # stored in float32, the case's own tolerance
    assert_close(pooled.float(), io["head_input"], rtol=0, atol=1e-5)
    features = model.pre_logits(pooled)
    assert_close(features, io["features_f64"], **THEIR_FLOAT32)
    assert_close(model.forward_head(tokens), io["logits_f64"], **THEIR_FLOAT32)


def test_logits_of_every_token_are_the_authors(arrays):
    model = authors_model(
        arrays,
        "c2_vit_token_unpooled_rep",
        "MultiHeadDotProductAttention_1",
        "LayerNorm_2",
        "MlpBlock_3",
        image_size=(16, 24),
        num_heads=2,
        num_classes=10,
        pool="none",
        pre_logits=32,
    )
    io, images = outputs(arrays, "c2_vit_token_unpooled_rep")
    tokens = model.forward_features(images)
    assert_close(tokens, io["encoded_f64"], **THEIR_FLOAT64)
    features = model.pre_logits(model.pool(tokens))
    assert_close(features, io["features_f64"], **THEIR_FLOAT64)
    assert_close(model(images), io["logits_f64"], **THEIR_FLOAT64)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("probe", lambda pool: pool.latent),
        (
            "MultiHeadDotProductAttention_0/query/kernel",
            lambda pool: pool.q.weight,
        ),
        (
            "MultiHeadDotProductAttention_0/key/kernel",
            lambda pool: pool.kv.weight[:192],
        ),
        (
            "MultiHeadDotProductAttention_0/value/kernel",
            lambda pool: pool.kv.weight[192:],
        ),
        (
            "MultiHeadDotProductAttention_0/out/kernel",
            lambda pool: pool.proj.weight,
        ),
        ("MlpBlock_0/Dense_0/kernel", lambda pool: pool.mlp.fc1.weight),
        ("MlpBlock_0/Dense_1/kernel", lambda pool: pool.mlp.fc2.weight),
    ],
)
def test_each_tensor_of_the_pool_spreads_as_big_visions(
    golden, initial, theirs, ours
):
    measured = json.loads((golden / "init.json").read_text())["measured"]["bv"]
    measured, weight = measured[f"MAPHead_0/{theirs}"], ours(initial.pool)
    assert weight.numel() == math.prod(measured["shape"])
    # two samples of n uniform draws: their deviations differ by 0.6 / sqrt(n)
    room = 4 / math.sqrt(weight.numel())
    assert weight.std().item() == pytest.approx(measured["std"], rel=room)
    # the largest of n draws is below (1 - 10 / n) of the bound with probability
    # e^-10
    room = 0.01 + 10 / weight.numel()
    assert weight.abs().max().item() == pytest.approx(
        measured["absmax"], rel=room
    )
