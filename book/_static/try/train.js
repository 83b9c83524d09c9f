// A Vision Transformer that can learn: chapters 1 to 4 once more, forward and
// backward, for small pictures. teach.js is its training.
//
// All numbers stand in the one array M of kernels.js, and a tensor is where it
// begins there. Weights come first, with timm's names, then their gradients,
// and then two running means for AdamW, each `count` numbers further on.
"use strict";

/** A new network. Settings: patch, width, depth, heads, positions (whether it
    has any), positionStd (the deviation of these at the start, the paper's
    0.02), and batch, the most images at a time. `sizes`: the side of a picture
    and its channels, classes, and answers: one, by the class token, or one
    from each patch. `random` gives numbers from 0 to 1, and `kind` is
    kernels.js's. */
vitedu.trainable = function trainable(kernels, settings, sizes, random, kind) {
  const { side, channels, classes, answers } = sizes;
  const EPS = 1e-6; // of the norms
  const { patch: p, width: d, depth, heads, batch } = settings;
  const hd = d / heads;
  const t = (side / p) ** 2 + 1; // tokens
  const asked = answers === 1 ? 0 : 1; // the first token that is read
  const numbers = channels * p * p; // of a patch
  const tp = (t + 3) & ~3; // to the next four, for rows of maps

  // ------------------------------------------------------- room for all of it

  const shapes = { cls_token: [1, 1, d], pos_embed: [1, t, d] };
  const layer = (name, rows, ...columns) => {
    shapes[`${name}.weight`] = [rows, ...columns];
    shapes[`${name}.bias`] = [rows];
  };
  layer("patch_embed.proj", d, channels, p, p);
  for (let i = 0; i < depth; i++) {
    layer(`blocks.${i}.norm1`, d);
    layer(`blocks.${i}.attn.qkv`, 3 * d, d);
    layer(`blocks.${i}.attn.proj`, d, d);
    layer(`blocks.${i}.norm2`, d);
    layer(`blocks.${i}.mlp.fc1`, 4 * d, d);
    layer(`blocks.${i}.mlp.fc2`, d, 4 * d);
  }
  layer("norm", d);
  layer("head", classes, d);
  const sizeOf = (name) => shapes[name].reduce((x, y) => x * y, 1);

  const rows = batch * t; // of all tokens
  const maps = batch * heads * t * tp;
  const weights = Object.keys(shapes)
    .reduce((sum, name) => sum + sizeOf(name) + 3, 0);
  const { M, take, isFast, product, softmax, gelu } = kernels(5 * weights +
    depth * (rows * (17 * d + 3) + maps) + rows * (numbers + 14 * d) + maps +
    batch * answers * (5 * d + 2 * classes + 20) + hd * tp + 9999, kind);
  const [W, T] = [{}, {}]; // where a weight is, and where it is turned
  for (const name in shapes) W[name] = take(sizeOf(name));
  const count = take(0);
  take(3 * count);
  for (const name in shapes) {
    if (shapes[name].length > 1) T[name] = take(sizeOf(name));
  }
  const [zeros, one] = [take(4096), take(4)];
  M[one] = 1;
  const room = (parts) => Object.fromEntries(
    Object.entries(parts).map(([name, size]) => [name, take(size)]));
  // what the forward pass leaves to the backward one
  const blocks = Array.from({ length: depth }, () => room({
    norm1: rows * d, norm1_hat: rows * d, norm1_scale: rows,
    qkv: 3 * rows * d, maps, values: rows * d,
    norm2: rows * d, norm2_hat: rows * d, norm2_scale: rows,
    active: 4 * rows * d, slope: 4 * rows * d }));
  const read = batch * answers; // tokens
  const at = room({ patches: rows * numbers, x: rows * d, dx: rows * d,
    out: 4 * rows * d, dout: 4 * rows * d, dqkv: 3 * rows * d,
    dmap: t * tp, turned: hd * tp, read: read * d, dread: read * d,
    norm: read * d, norm_hat: read * d, norm_scale: read,
    logits: read * classes, dlogits: read * classes });

  // for each pixel, its place among an image's patches; the class token has a
  // row there too, of zeros
  const places = Array.from({ length: channels * side * side }, (_, i) => {
    const c = Math.floor(i / side / side);
    const [y, x] = [Math.floor(i / side) % side, i % side];
    const patch = Math.floor(y / p) * (side / p) + Math.floor(x / p);
    return (patch + 1) * numbers + (c * p + (y % p)) * p + (x % p);
  });

  /** Lay pixels of -1 to 1 (c h w) among the patches of the batch. */
  function setImage(image, pixels) {
    const from = at.patches + image * t * numbers;
    for (let i = 0; i < places.length; i++) M[from + places[i]] = pixels[i];
  }

  /** Each weight's first value, as chapter 4 gives it. */
  function initialise() {
    const fill = (name, draw) => {
      for (let i = 0; i < sizeOf(name); i++) M[W[name] + i] = draw();
    };
    const normal = (std) => std * Math.sqrt(-2 * Math.log(1 - random())) *
      Math.cos(2 * Math.PI * random());
    for (const name in shapes) {
      const [m, c] = shapes[name];
      if (name === "pos_embed" && settings.positions) {
        fill(name, () => normal(settings.positionStd ?? 0.02));
      } else if (name.startsWith("patch_embed") && c) {
        const std = 1 / Math.sqrt(numbers) / 0.87962566103423978;
        fill(name, () => { // cut at two deviations
          let draw = Infinity;
          while (Math.abs(draw) > 2 * std) draw = normal(std);
          return draw;
        });
      } else if (/mlp.*bias/.test(name)) {
        fill(name, () => normal(1e-6));
      } else if (name.includes("norm") && name.endsWith("weight")) {
        fill(name, () => 1);
      } else if (/(qkv|proj|fc.)\.weight/.test(name)) { // xavier; q, k, v apart
        const bound = Math.sqrt(6 / (c + (name.includes("qkv") ? d : m)));
        fill(name, () => bound * (2 * random() - 1));
      }
    }
  }

  // ------------------------------------------------- layers and their slopes

  function linear(y, x, name, rows) {
    const [m] = shapes[`${name}.bias`];
    const c = sizeOf(`${name}.weight`) / m;
    product(y, m, x, c, 1, T[`${name}.weight`], m, W[`${name}.bias`],
      rows, m, c);
  }

  /** dy -> dx, and the gradients of W and b: dx = dy W, dW = dyᵀ x. */
  function linearBack(dx, dy, x, name, rows) {
    const [weight, bias] = [W[`${name}.weight`], W[`${name}.bias`]];
    const [m] = shapes[`${name}.bias`];
    const c = sizeOf(`${name}.weight`) / m;
    if (dx !== null) product(dx, c, dy, m, 1, weight, c, zeros, rows, c, m);
    product(weight + count, c, dy, 1, m, x, c, zeros, m, c, rows);
    product(bias + count, m, one, 0, 0, dy, m, zeros, 1, m, rows);
  }

  function norm(kept, key, x, name, rows) {
    const [y, hat, scale] =
      [kept[key], kept[`${key}_hat`], kept[`${key}_scale`]];
    const [weight, bias] = [W[`${name}.weight`], W[`${name}.bias`]];
    for (let row = 0; row < rows; row++) {
      const from = row * d;
      let mean = 0, variance = 0;
      for (let k = from; k < from + d; k++) mean += M[x + k];
      mean /= d;
      for (let k = from; k < from + d; k++) variance += (M[x + k] - mean) ** 2;
      const factor = 1 / Math.sqrt(variance / d + EPS);
      M[scale + row] = factor;
      for (let k = 0; k < d; k++) {
        const value = (M[x + from + k] - mean) * factor;
        M[hat + from + k] = value;
        M[y + from + k] = value * M[weight + k] + M[bias + k];
      }
    }
  }

  /** dy -> what is added to dx, and the gradients of weight and bias. */
  function normBack(dx, dy, kept, key, name, rows) {
    const [hat, scale] = [kept[`${key}_hat`], kept[`${key}_scale`]];
    const weight = W[`${name}.weight`];
    const [dweight, dbias] = [weight + count, W[`${name}.bias`] + count];
    M.fill(0, dweight, dweight + d);
    M.fill(0, dbias, dbias + d);
    for (let row = 0; row < rows; row++) {
      const from = row * d;
      let mean = 0, slope = 0; // of dy times weight, and of that times hat
      for (let k = 0; k < d; k++) {
        const [each, value] = [M[dy + from + k], M[hat + from + k]];
        M[dbias + k] += each;
        M[dweight + k] += each * value;
        mean += each * M[weight + k];
        slope += each * M[weight + k] * value;
      }
      [mean, slope] = [mean / d, slope / d];
      for (let k = 0; k < d; k++) {
        M[dx + from + k] += M[scale + row] * (M[dy + from + k] *
          M[weight + k] - mean - M[hat + from + k] * slope);
      }
    }
  }

  /** Rows (t, hd), 3 d apart, to (hd, tp), times a factor. */
  function turn(x, factor) {
    for (let i = 0; i < t; i++) {
      for (let k = 0; k < hd; k++) {
        M[at.turned + k * tp + i] = factor * M[x + i * 3 * d + k];
      }
    }
  }

  /** For each image and head: where its q is (k and v stand d and 2 d
      further), its map, and its values. */
  function eachHead(many, { qkv, maps }, visit) {
    for (let image = 0; image < many; image++) {
      for (let head = 0; head < heads; head++) {
        const token = image * t;
        const map = (image * heads + head) * t * tp;
        visit(token * 3 * d + head * hd, map, token * d + head * hd);
      }
    }
  }

  function attention(kept, many) {
    const { qkv, maps, values } = kept;
    eachHead(many, kept, (q, map) => {
      turn(qkv + q + d, 1 / Math.sqrt(hd)); // k
      product(maps + map, tp, qkv + q, 3 * d, 1, at.turned, tp, zeros,
        t, t, hd);
    });
    softmax(maps, tp, many * heads * t, t);
    eachHead(many, kept, (q, map, out) => {
      product(values + out, d, maps + map, tp, 1, qkv + q + 2 * d, 3 * d,
        zeros, t, hd, t);
    });
  }

  function attentionBack(dqkv, dvalues, kept, many) {
    const { qkv, maps } = kept;
    const factor = 1 / Math.sqrt(hd);
    eachHead(many, kept, (q, map, out) => {
      const [weights, dmap] = [maps + map, at.dmap];
      product(dqkv + q + 2 * d, 3 * d, weights, 1, tp, dvalues + out, d, zeros,
        t, hd, t); // dv
      turn(qkv + q + 2 * d, 1); // v
      product(dmap, tp, dvalues + out, d, 1, at.turned, tp, zeros, t, t, hd);
      for (let i = 0; i < t * tp; i += tp) { // through the softmax
        let mean = 0;
        for (let j = i; j < i + t; j++) mean += M[weights + j] * M[dmap + j];
        for (let j = i; j < i + t; j++) {
          M[dmap + j] = factor * M[weights + j] * (M[dmap + j] - mean);
        }
      }
      product(dqkv + q, 3 * d, dmap, tp, 1, qkv + q + d, 3 * d, zeros,
        t, hd, t); // dq
      product(dqkv + q + d, 3 * d, dmap, 1, tp, qkv + q, 3 * d, zeros,
        t, hd, t); // dk
    });
  }

  function add(x, y, size) {
    for (let i = 0; i < size; i++) M[x + i] += M[y + i];
  }

  // -------------------------------------------------- the network and a step

  /** at.patches -> at.logits, for so many images. */
  function forward(many) {
    const rows = many * t;
    for (const name in T) { // W of (m, c) to (c, m)
      const [m] = shapes[name];
      const c = sizeOf(name) / m;
      for (let i = 0; i < m; i++) {
        for (let k = 0; k < c; k++) {
          M[T[name] + k * m + i] = M[W[name] + i * c + k];
        }
      }
    }
    linear(at.x, at.patches, "patch_embed.proj", rows);
    for (let row = 0; row < rows; row++) { // equation (1)
      const x = at.x + row * d;
      const token = row % t;
      if (token === 0) M.copyWithin(x, W.cls_token, W.cls_token + d);
      add(x, W.pos_embed + token * d, d);
    }
    blocks.forEach((kept, i) => {
      const name = `blocks.${i}`;
      norm(kept, "norm1", at.x, `${name}.norm1`, rows); // equation (2)
      linear(kept.qkv, kept.norm1, `${name}.attn.qkv`, rows);
      attention(kept, many);
      linear(at.out, kept.values, `${name}.attn.proj`, rows);
      add(at.x, at.out, rows * d);
      norm(kept, "norm2", at.x, `${name}.norm2`, rows); // equation (3)
      linear(at.out, kept.norm2, `${name}.mlp.fc1`, rows);
      gelu(kept.active, kept.slope, at.out, 4 * rows * d);
      linear(at.out, kept.active, `${name}.mlp.fc2`, rows);
      add(at.x, at.out, rows * d);
    });
    for (let image = 0; image < many; image++) { // equation (4)
      const token = at.x + (image * t + asked) * d;
      M.copyWithin(at.read + image * answers * d, token, token + answers * d);
    }
    norm(at, "norm", at.read, "norm", many * answers);
    linear(at.logits, at.norm, "head", many * answers);
  }

  /** The mean loss of all answers' labels, and its slope in at.dlogits. */
  function crossEntropy(truth) {
    let loss = 0;
    truth.forEach((label, answer) => {
      const row = M.subarray(at.logits + answer * classes,
        at.logits + (answer + 1) * classes);
      const most = Math.max(...row);
      const sum = row.reduce((all, each) => all + Math.exp(each - most), 0);
      loss += (Math.log(sum) + most - row[label]) / truth.length;
      row.forEach((each, k) => {
        const share = Math.exp(each - most) / sum;
        M[at.dlogits + answer * classes + k] =
          (share - (k === label)) / truth.length;
      });
    });
    return loss;
  }

  /** at.dlogits -> the gradient of every weight. */
  function backward(many) {
    const rows = many * t;
    const read = many * answers;
    linearBack(at.dout, at.dlogits, at.norm, "head", read);
    M.fill(0, at.dread, at.dread + read * d);
    normBack(at.dread, at.dout, at, "norm", "norm", read);
    M.fill(0, at.dx, at.dx + rows * d);
    for (let image = 0; image < many; image++) {
      const from = at.dread + image * answers * d;
      M.copyWithin(at.dx + (image * t + asked) * d, from, from + answers * d);
    }
    for (let i = blocks.length - 1; i >= 0; i--) {
      const [kept, name] = [blocks[i], `blocks.${i}`];
      linearBack(at.dout, at.dx, kept.active, `${name}.mlp.fc2`, rows);
      for (let k = 0; k < 4 * rows * d; k++) {
        M[at.dout + k] *= M[kept.slope + k];
      }
      linearBack(at.out, at.dout, kept.norm2, `${name}.mlp.fc1`, rows);
      normBack(at.dx, at.out, kept, "norm2", `${name}.norm2`, rows);
      linearBack(at.dout, at.dx, kept.values, `${name}.attn.proj`, rows);
      attentionBack(at.dqkv, at.dout, kept, many);
      linearBack(at.out, at.dqkv, kept.norm1, `${name}.attn.qkv`, rows);
      normBack(at.dx, at.out, kept, "norm1", `${name}.norm1`, rows);
    }
    // the class token's row of patches is 0, but its bias isn't one
    const [dcls, dpos] = [W.cls_token + count, W.pos_embed + count];
    linearBack(null, at.dx, at.patches, "patch_embed.proj", rows);
    product(dpos, t * d, one, 0, 0, at.dx, t * d, zeros, 1, t * d, many);
    M.copyWithin(dcls, dpos, dpos + d);
    const dbias = W["patch_embed.proj.bias"] + count;
    for (let k = 0; k < d; k++) M[dbias + k] -= M[dcls + k];
    if (!settings.positions) M.fill(0, dpos, dpos + t * d);
  }

  initialise();
  return { M, W, shapes, sizeOf, count, t, tp, blocks, at, isFast,
    setImage, forward, crossEntropy, backward };
};
