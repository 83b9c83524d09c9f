"""The page's arithmetic in WebAssembly is the readable one, only faster."""

import json
from itertools import product

import pytest
import torch

import vitedu
from vitedu.data import load_dataset, normalise, photo

pytestmark = pytest.mark.browser

PAGE = "book/try.html"
# Random numbers through one kernel, of each kind; the numbers that come out.
COMPUTE = """([kind, what, m, n, c]) => {
  const { M, take, isFast, product, softmax, gelu } =
    vitedu.kernels(20000, kind);
  const step = (n + 3) & ~3;
  const [a, b, start, y, slope] =
    [m * c, c * n, n, m * step, m * step].map(take);
  for (let i = 0; i < y; i++) M[i] = 3 * Math.sin(7 * i * i + i);
  if (what === "product") product(y, step, a, c, 1, b, n, start, m, n, c);
  if (what === "turned") product(y, step, a, 1, m, b, n, start, m, n, c);
  if (what === "softmax") {
    for (let i = 0; i < m * step; i++) M[y + i] = 9 * Math.sin(i * i);
    softmax(y, step, m, n);
  }
  if (what === "gelu") gelu(y, slope, a, m * c);
  const rows = Array.from({ length: m }, (_, i) =>
    [...M.subarray(y + i * step, y + i * step + n)]).flat();
  return [isFast, what === "gelu" ?
    [...M.subarray(y, y + m * c), ...M.subarray(slope, slope + m * c)] : rows];
}"""
# One picture through a network, by WebAssembly or without.
CLASSIFY = """async ([name, pixels, isFast]) => {
  if (!isFast) vitedu.faster = () => null;
  await vitedu.load(name);
  const { logits, maps, seconds } =
    await vitedu.classify(new Float32Array(JSON.parse(pixels)));
  return JSON.stringify([[...logits], [...maps.at(-1)], seconds]);
}"""


def test_every_kernel_computes_the_same(server, visit):
    opened = visit(server + PAGE)
    for what, size in product(
        ["product", "turned", "softmax", "gelu"],
        [(1, 4, 1), (17, 17, 8), (9, 10, 49), (6, 5, 31)],
    ):
        # a gelu that is as long as the room for it
        size = 3 * size[1:2] if what == "gelu" else size
        found = [
            opened.page.evaluate(COMPUTE, [kind, what, *size])
            for kind in ("float32", "slow", "float64")
        ]
        assert [isFast for isFast, _ in found] == [True, False, False]
        fast, slow, exact = (
            torch.tensor(numbers, dtype=torch.float64) for _, numbers in found
        )
        most = exact.abs().max()
        assert (fast - exact).abs().max() < 1e-5 * most
        assert (slow - exact).abs().max() < 1e-5 * most


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("mnist-tiny", "disk"),
        pytest.param("ViT-Ti/16", "server", marks=pytest.mark.slow),
    ],
)
def test_both_ways_give_the_same_answer(server, site, visit, name, where):
    model = vitedu.load(name)
    if name == "mnist-tiny":
        image = load_dataset("digits").test.images[:1].float()
        pixels = normalise(image, model.preprocess)
    else:
        pixels = vitedu.preprocess(model, photo("cat"))
    url = server + PAGE if where == "server" else (site / PAGE).as_uri()
    pixels = json.dumps(pixels.flatten().tolist())
    found = [
        json.loads(visit(url).page.evaluate(CLASSIFY, [name, pixels, isFast]))
        for isFast in (True, False)
    ]
    for one, other in list(zip(*found, strict=True))[:2]:
        one, other = torch.tensor(one), torch.tensor(other)
        assert (one - other).abs().max() < 1e-4 * other.abs().max()
    if name == "ViT-Ti/16":
        assert 2 * found[0][2] < found[1][2]  # it is worth it
