// The worker that trains: chapter 5. It holds the digits and a network of
// train.js, and does one thing at a time for learn.js, which asks:
//
//   const { teacher, trainable, kernels } = vitedu;
//   const ask = vitedu.employ(teacher, trainable, kernels);
//   const { losses } = await ask({ call: "train", given: { most: 100 } });
"use strict";

vitedu.teacher = function teacher(trainable, kernels) {
  const SIZE = 28 * 28;
  const SHIFT = 2; // pixels, each way
  const WARMUP = 0.1; // of the steps
  const [BETA1, BETA2, TINY, DECAY] = [0.9, 0.999, 1e-8, 0.01]; // AdamW's
  let digits; // { images, labels, train: how many of them to learn from }
  let settings, network, random, labels, order;
  let steps, updates, spent; // of this rise and fall, of all, milliseconds

  // ------------------------------------------------------------- small parts

  /** Numbers from 0 to 1 that follow from a seed (mulberry32). */
  function numbers(seed) {
    let state = seed | 0;
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let x = Math.imul(state ^ (state >>> 15), 1 | state);
      x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
      return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
    };
  }

  function shuffle(list) {
    for (let i = list.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [list[i], list[j]] = [list[j], list[i]];
    }
    return list;
  }

  /** A digit as numbers from -1 to 1, moved by so many pixels. */
  function pixelsOf(index, right = 0, down = 0) {
    const pixels = new Float32Array(SIZE).fill(-1);
    for (let i = 0; i < SIZE; i++) {
      const [y, x] = [Math.floor(i / 28) - down, (i % 28) - right];
      if (y < 0 || y >= 28 || x < 0 || x >= 28) continue;
      pixels[i] = digits.images[index * SIZE + y * 28 + x] / 127.5 - 1;
    }
    return pixels;
  }

  const logitsOf = (image) => {
    const from = network.at.logits + 10 * image;
    return network.M.slice(from, from + 10);
  };
  const largest = (row) => row.indexOf(Math.max(...row));

  // ----------------------------------------------------------------- one step

  /** The rate after a share of the steps: a line up, a cosine down. */
  function warmupCosine(share) {
    if (share < WARMUP) return settings.rate * share / WARMUP;
    const progress = Math.min(1, (share - WARMUP) / (1 - WARMUP));
    return settings.rate * (1 + Math.cos(Math.PI * progress)) / 2;
  }

  /** AdamW, as PyTorch has it: chapter 5's four lines, for every weight. */
  function update(rate) {
    const { M, W, sizeOf, count } = network;
    updates++;
    const [scale1, scale2] = [1 - BETA1 ** updates, 1 - BETA2 ** updates];
    for (const name in W) {
      for (let w = W[name]; w < W[name] + sizeOf(name); w++) {
        const [g, m, v] = [w + count, w + 2 * count, w + 3 * count];
        M[m] = BETA1 * M[m] + (1 - BETA1) * M[g];
        M[v] = BETA2 * M[v] + (1 - BETA2) * M[g] * M[g];
        M[w] *= 1 - rate * DECAY;
        M[w] -= rate * (M[m] / scale1) / (Math.sqrt(M[v] / scale2) + TINY);
      }
    }
  }

  /** One update from images and labels; their mean loss before it. */
  function trainStep(images, truth, rate) {
    images.forEach((pixels, i) => network.setImage(i, pixels));
    network.forward(images.length);
    const loss = network.crossEntropy(truth);
    network.backward(images.length);
    update(rate);
    return loss;
  }

  /** The next images of the epoch, each moved at random. */
  function nextBatch() {
    const { batch } = settings;
    if (order.length < batch) order = shuffle([...Array(digits.train).keys()]);
    const chosen = order.splice(0, batch);
    const move = () => Math.floor(random() * (2 * SHIFT + 1)) - SHIFT;
    const images = chosen.map((index) => pixelsOf(index, move(), move()));
    return [images, chosen.map((index) => labels[index])];
  }

  // -------------------------------------------------------- what is asked for

  const calls = {
    /** Take the digits: bytes, labels, and how many are to learn from. */
    take(given) {
      digits = given;
    },

    /** Begin anew. Settings: those of `trainable`, and rate, seed, steps or
        seconds, shuffled (whether the labels are), and kind (of kernels). */
    start({ kind, ...given }) {
      settings = given;
      random = numbers(settings.seed);
      network = trainable(kernels, settings, random, kind);
      [steps, updates, spent, order] = [0, 0, 0, []];
      if (digits) {
        labels = Array.from(digits.labels.slice(0, digits.train));
        if (settings.shuffled) shuffle(labels);
      }
      const { W, sizeOf, isFast } = network;
      const count = Object.keys(W).reduce((sum, name) => sum + sizeOf(name), 0);
      return { count, isFast };
    },

    /** Another rate, or another rise and fall of it. */
    change(news) {
      if ("steps" in news || "seconds" in news) [steps, spent] = [0, 0];
      Object.assign(settings, news);
    },

    /** Train so long, or so many steps, but not beyond the settings' end. */
    train({ milliseconds = Infinity, most = Infinity }) {
      const losses = [];
      let seconds = 0;
      const share = () => settings.seconds
        ? (spent / 1000 + seconds) / settings.seconds : steps / settings.steps;
      const begin = performance.now();
      while (losses.length < most && 1000 * seconds < milliseconds &&
        share() < 1) {
        losses.push(trainStep(...nextBatch(), warmupCosine(share())));
        steps++;
        seconds = (performance.now() - begin) / 1000;
      }
      spent += 1000 * seconds;
      return { losses, steps, isDone: share() >= 1, share: share(),
        rate: warmupCosine(share()), seconds: spent / 1000 };
    },

    /** The percentage of the held-out digits that it gets right. */
    accuracy() {
      let right = 0;
      const all = digits.labels.length;
      for (let from = digits.train; from < all; from += settings.batch) {
        const many = Math.min(settings.batch, all - from);
        for (let i = 0; i < many; i++) network.setImage(i, pixelsOf(from + i));
        network.forward(many);
        for (let i = 0; i < many; i++) {
          right += largest(logitsOf(i)) === digits.labels[from + i];
        }
      }
      return (100 * right) / (all - digits.train);
    },

    /** Logits and maps of pictures (784,) of -1 to 1. */
    classify({ images }) {
      const { M, t, tp, blocks } = network;
      const { heads } = settings;
      images.forEach((pixels, i) => network.setImage(i, pixels));
      network.forward(images.length);
      return images.map((_, image) => ({
        logits: logitsOf(image),
        maps: blocks.map(({ maps }) => {
          const found = new Float32Array(heads * t * t);
          for (let row = 0; row < heads * t; row++) {
            const from = maps + (image * heads * t + row) * tp;
            found.set(M.subarray(from, from + t), row * t);
          }
          return found;
        }),
      }));
    },

    /** A held-out digit of each class, as bytes: another ten for each turn. */
    ten({ turn }) {
      return [...Array(10).keys()].map((digit) => {
        const of = [];
        for (let i = digits.train; i < digits.labels.length; i++) {
          if (digits.labels[i] === digit) of.push(i);
        }
        const index = of[turn % of.length];
        return digits.images.slice(index * SIZE, (index + 1) * SIZE);
      });
    },

    /** All weights, or their gradients: [name, shape, numbers]. */
    weights({ gradients = false } = {}) {
      const { M, W, shapes, sizeOf, count } = network;
      return Object.keys(W).map((name) => {
        const from = W[name] + (gradients ? count : 0);
        return [name, shapes[name], M.slice(from, from + sizeOf(name))];
      });
    },

    /** Put weights of the same names in the place of its own. */
    put({ weights }) {
      for (const [name, , numbers] of weights) {
        network.M.set(numbers, network.W[name]);
      }
    },

    /** One step on given images and labels, without the schedule. */
    step: ({ images, truth, rate }) => trainStep(images, truth, rate),
  };

  self.onmessage = ({ data: { id, call, given } }) => {
    self.postMessage({ id, found: calls[call](given) });
  };
};
