// A Vision Transformer in the browser: equations (1) to (4) of the paper, with
// the names and in the order of chapters 1 to 4. No build step, no dependency.
//
// Arrays are row-major, and where a size isn't given it follows from the
// length. networks.js loads weights and asks; kernels.js puts all of this into a
// worker, and does three of the functions faster.
"use strict";

window.vitedu = {};
vitedu.network = function network(kernels, faster) {
  // ------------------------------------------- the weights, 16-bit floats

  // What each of the 65,536 is worth.
  const HALVES = Float32Array.from({ length: 1 << 16 }, (_, bits) => {
    const sign = bits >> 15 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = (bits & 1023) / 1024;
    if (exponent === 0) return sign * fraction * 2 ** -14;
    return sign * (1 + fraction) * 2 ** (exponent - 15);
  });

  /** Names, shapes and bytes -> nested: model.blocks[0].attn.qkv.weight. */
  function unpack({ tensors, data }) {
    const text = data.map(atob).join("");
    const quick = faster(kernels, text.length / 2);
    if (quick) ({ linear, attention, gelu } = quick);
    const model = {};
    let place = 0; // of the next byte
    for (const [name, shape] of tensors) {
      const size = shape.reduce((one, other) => one * other, 1);
      let tensor = new Float32Array(size);
      for (let i = 0; i < size; i++) {
        const low = text.charCodeAt(place++);
        tensor[i] = HALVES[low + 256 * text.charCodeAt(place++)];
      }
      const path = name.split(".");
      const isMatrix = shape.length > 1 && path.at(-1) === "weight";
      if (quick && isMatrix) tensor = quick.keep(tensor, size / shape[0]);
      let owner = model;
      for (const each of path.slice(0, -1)) owner = owner[each] ??= {};
      owner[path.at(-1)] = tensor;
    }
    return model;
  }

  // --------------------------------------------------------------- the maths

  /** Each row of a (m, c) with each row of b (n, c): a bᵀ, (m, n). */
  function product(a, b, c) {
    const m = a.length / c;
    const n = b.length / c;
    const y = new Float32Array(m * n);
    // In tiles of four by two, whose eight sums stay in registers. At the
    // edge a tile repeats the last row: it writes the same number again.
    for (let i = 0; i < m; i += 4) {
      const [i1, i2, i3] = [1, 2, 3].map((k) => Math.min(i + k, m - 1));
      for (let j = 0; j < n; j += 2) {
        const j1 = Math.min(j + 1, n - 1);
        let y00 = 0, y10 = 0, y20 = 0, y30 = 0;
        let y01 = 0, y11 = 0, y21 = 0, y31 = 0;
        for (let k = 0; k < c; k++) {
          const b0 = b[j * c + k], b1 = b[j1 * c + k];
          const a0 = a[i * c + k], a1 = a[i1 * c + k];
          const a2 = a[i2 * c + k], a3 = a[i3 * c + k];
          y00 += a0 * b0; y01 += a0 * b1;
          y10 += a1 * b0; y11 += a1 * b1;
          y20 += a2 * b0; y21 += a2 * b1;
          y30 += a3 * b0; y31 += a3 * b1;
        }
        y[i * n + j] = y00; y[i * n + j1] = y01;
        y[i1 * n + j] = y10; y[i1 * n + j1] = y11;
        y[i2 * n + j] = y20; y[i2 * n + j1] = y21;
        y[i3 * n + j] = y30; y[i3 * n + j1] = y31;
      }
    }
    return y;
  }

  /** x (t, c) -> x Wᵀ + b, (t, d), for W (d, c). */
  function linear(x, { weight, bias }) {
    const d = bias.length;
    const y = product(x, weight, weight.length / d);
    for (let i = 0; i < y.length; i++) y[i] += bias[i % d];
    return y;
  }

  /** Each row to mean 0 and deviation 1, then times weight plus bias. */
  function layerNorm(x, { weight, bias }, eps) {
    const d = weight.length;
    const y = new Float32Array(x.length);
    for (let i = 0; i < x.length; i += d) {
      let mean = 0, variance = 0;
      for (let k = 0; k < d; k++) mean += x[i + k];
      mean /= d;
      for (let k = 0; k < d; k++) variance += (x[i + k] - mean) ** 2;
      const scale = 1 / Math.sqrt(variance / d + eps);
      for (let k = 0; k < d; k++) {
        y[i + k] = (x[i + k] - mean) * scale * weight[k] + bias[k];
      }
    }
    return y;
  }

  /** Each row of scores (t, t) to positive shares that sum to 1, in place. */
  function softmax(scores, t) {
    for (let i = 0; i < scores.length; i += t) {
      let most = -Infinity, sum = 0;
      for (let k = i; k < i + t; k++) most = Math.max(most, scores[k]);
      for (let k = i; k < i + t; k++) {
        sum += scores[k] = Math.exp(scores[k] - most);
      }
      for (let k = i; k < i + t; k++) scores[k] /= sum;
    }
    return scores;
  }

  /** x Φ(x), in place, with the error function of Abramowitz and Stegun,
      7.1.26, which is right to 1.5e-7. */
  function gelu(x) {
    for (let i = 0; i < x.length; i++) {
      const z = Math.abs(x[i]) / Math.SQRT2;
      const t = 1 / (1 + 0.3275911 * z);
      const tail =
        t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 +
        t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-z * z);
      x[i] *= x[i] < 0 ? tail / 2 : 1 - tail / 2;
    }
    return x;
  }

  function add(x, y) {
    for (let i = 0; i < x.length; i++) x[i] += y[i];
  }

  // ------------------------------------------- chapter 1: images as words

  /** (c, h, w) -> (n, c*p*q): flat patches, row by row. */
  function patchify(pixels, { image_size, patch_size, in_channels }) {
    const [h, w] = image_size;
    const [p, q] = patch_size;
    const patches = new Float32Array(pixels.length);
    let place = 0;
    for (let top = 0; top < h; top += p) {
      for (let left = 0; left < w; left += q) {
        for (let c = 0; c < in_channels; c++) {
          for (let i = 0; i < p; i++) {
            const from = (c * h + top + i) * w + left;
            patches.set(pixels.subarray(from, from + q), place);
            place += q;
          }
        }
      }
    }
    return patches;
  }

  // ------------------------------------------------ chapter 2: attention

  /** Equations (6) and (7), for one head: values (t, hd), weights (t, t). */
  function attention(q, k, v, hd) {
    const t = q.length / hd;
    const scores = product(q, k, hd).map((each) => each / Math.sqrt(hd));
    const weights = softmax(scores, t);
    return [product(weights, transposed(v, hd), t), weights];
  }

  /** Equations (5) to (8): (t, d) -> (t, d), and the maps (heads, t, t).
      With `only`, the values of all other heads are zero. */
  function multiHeadAttention(x, { qkv, proj }, heads, only) {
    const d = proj.bias.length;
    const t = x.length / d;
    const hd = d / heads;
    const all = linear(x, qkv); // (t, 3 d): U_qkv
    const values = new Float32Array(t * d);
    const maps = new Float32Array(heads * t * t);
    for (let head = 0; head < heads; head++) {
      const [q, k, v] = [0, 1, 2].map((part) =>
        columns(all, 3 * d, part * d + head * hd, hd),
      );
      const [found, weights] = attention(q, k, v, hd);
      maps.set(weights, head * t * t);
      if (only !== undefined && only !== head) continue;
      for (let i = 0; i < t; i++) {
        values.set(found.subarray(i * hd, (i + 1) * hd), i * d + head * hd);
      }
    }
    return [linear(values, proj), maps]; // U_msa
  }

  /** From each row of x (t, width), the `count` numbers from `first` on. */
  function columns(x, width, first, count) {
    const y = new Float32Array((x.length / width) * count);
    for (let i = 0, from = first; from < x.length; i++, from += width) {
      y.set(x.subarray(from, from + count), i * count);
    }
    return y;
  }

  function transposed(x, width) {
    const t = x.length / width;
    return x.map((_, i) => x[(i % t) * width + Math.floor(i / t)]);
  }

  // ---------------------------------------------- chapter 3: the encoder

  const mlp = (x, { fc1, fc2 }) => linear(gelu(linear(x, fc1)), fc2);

  /** Equations (2) and (3): (t, d) -> (t, d), in place; its maps. */
  function encoderBlock(x, block, { num_heads, norm_eps }, changes) {
    const has = (part) => changes.without !== part;
    const norm = (by) => (has("norms") ? layerNorm(x, by, norm_eps) : x);
    const join = (y) => (has("plus signs") ? add(x, y) : x.set(y));
    const { attn, norm1, norm2 } = block;
    const [y, maps] =
      multiHeadAttention(norm(norm1), attn, num_heads, changes.head);
    if (has("attention")) join(y); // equation (2)
    if (has("MLPs")) join(mlp(norm(norm2), block.mlp)); // equation (3)
    return maps;
  }

  // ----------------------------------- chapter 4: the Vision Transformer

  /** Equations (1) to (4): pixels (c, h, w) -> logits, what the head read
      (d), every block's maps, and `after`, the head's logits after each.
      `changes`: see CHANGES. */
  function vit(pixels, model, config, changes) {
    const { proj } = model.patch_embed; // E
    const words = linear(patchify(pixels, config), proj); // (n, d)
    const d = config.embed_dim;
    let x = new Float32Array(model.pos_embed.length); // (n + 1, d)
    x.set(model.cls_token);
    for (let to = 0; to < words.length / d; to++) {
      const from = changes.order?.[to] ?? to;
      x.set(words.subarray(from * d, (from + 1) * d), (to + 1) * d);
    }
    if (changes.positions !== false) add(x, model.pos_embed); // equation (1)
    const hidden = new Set(changes.hide);
    x = x.filter((_, i) => !hidden.has(Math.floor(i / d) - 1)); // 0: class
    if (changes.move) x = movedOut(x, words, model, config, changes);
    const first = 1 + (changes.move?.length ?? 0); // of the patches' tokens
    const maps = [], after = [];
    let tokens, features;
    Object.values(model.blocks).forEach((block, l) => {
      const isLeftOut = changes.drop?.includes(l);
      maps.push(isLeftOut ? null : encoderBlock(x, block, config, changes));
      features = pooled(x, first, model, config, changes);
      after.push(linear(features, model.head));
      if (l === changes.tokens) tokens = x.slice(first * d);
    });
    return { logits: after.at(-1), maps, after, features, tokens };
  }

  /** Equation (4): tokens (t, d), of which the patches' begin at `first` ->
      what the head reads, (d). */
  function pooled(x, first, model, { embed_dim: d, pool, norm_eps }, changes) {
    const read = pool === "mean" ? x : x.subarray(0, d); // the class token
    const isBare = changes.without === "norms";
    const normed = isBare ? read : layerNorm(read, model.norm, norm_eps);
    if (pool !== "mean") return normed;
    const y = new Float32Array(d);
    const share = 1 / (x.length / d - first);
    for (let i = first * d; i < x.length; i++) y[i % d] += normed[i] * share;
    return y;
  }

  // ------------------------------ chapter 15: corners out of the picture

  /** Tokens (n + 1, d) with copies of some patches' between the class token and
      the patches. Each of those patches gets the position of its neighbour
      towards the middle. With `grey` the copies show the mean patch. */
  function movedOut(x, words, { pos_embed }, config, { move, grey }) {
    const { embed_dim: d, image_size: [h, w], patch_size: [p, q] } = config;
    const [rows, columns] = [h / p, w / q];
    const inwards = (at, count) =>
      at + Math.sign(Math.trunc((count - 1) / 2 - at));
    const y = new Float32Array(x.length + move.length * d);
    y.set(x.subarray(0, d));
    y.set(x.subarray(d), (1 + move.length) * d);
    move.forEach((patch, i) => {
      const near = inwards(Math.floor(patch / columns), rows) * columns +
        inwards(patch % columns, columns);
      for (let k = 0; k < d; k++) {
        const own = pos_embed[(patch + 1) * d + k];
        let word = x[(patch + 1) * d + k] - own;
        y[(1 + move.length + patch) * d + k] +=
          pos_embed[(near + 1) * d + k] - own;
        if (grey) {
          word = 0;
          for (let j = k; j < words.length; j += d) word += words[j];
          word /= words.length / d;
        }
        y[(1 + i) * d + k] = word + own;
      }
    });
    return y;
  }

  // -------------------------------- chapter 19: what hidden patches show

  /** Pixels (c, h, w), and for each patch whether it is hidden -> what the
      decoder has in each, (n, p*q*c). */
  function complete(pixels, model, config, hidden) {
    const { embed_dim: d, decoder_dim: wide, norm_eps: eps } = config;
    const words = linear(patchify(pixels, config), model.patch_embed.proj);
    add(words, model.pos_embed); // positions first, then patches are hidden
    const visible = [...hidden.keys()].filter((i) => !hidden[i]);
    const x = new Float32Array(visible.length * d);
    visible.forEach((from, to) =>
      x.set(words.subarray(from * d, (from + 1) * d), to * d));
    for (const block of Object.values(model.blocks)) {
      encoderBlock(x, block, config, {});
    }
    const z = linear(layerNorm(x, model.norm, eps), model.decoder_embed);
    const y = new Float32Array(hidden.length * wide);
    hidden.forEach((_, i) => y.set(model.mask_token, i * wide));
    visible.forEach((to, from) =>
      y.set(z.subarray(from * wide, (from + 1) * wide), to * wide));
    add(y, model.decoder_pos_embed);
    const sizes = { num_heads: config.decoder_heads, norm_eps: eps };
    for (const block of Object.values(model.decoder_blocks)) {
      encoderBlock(y, block, sizes, {});
    }
    return linear(layerNorm(y, model.decoder_norm, eps), model.decoder_pred);
  }

  // ---------------------------------------------------------- the worker

  let model, config;
  self.onmessage = ({ data: { id, packed, pixels, changes, hidden } }) => {
    const begin = performance.now();
    if (packed) [model, config] = [unpack(packed), packed.config];
    let found = {};
    if (hidden) found.patches = complete(pixels, model, config, hidden);
    else if (!packed) found = vit(pixels, model, config, changes);
    found.seconds = (performance.now() - begin) / 1000;
    self.postMessage({ id, found });
  };
};
