// The worker that trains: chapter 5. It holds the digits (or draws the pictures
// of tasks.js) and a network of train.js, and does one thing at a time for
// learn.js, which asks:
//
//   const { teacher, trainable, kernels, tasks } = vitedu;
//   const ask = vitedu.employ(teacher, trainable, kernels, tasks);
//   const { losses } = await ask({ call: "train", given: { most: 100 } });
"use strict";

vitedu.teacher = function teacher(trainable, kernels, tasks) {
  const SIZE = 28 * 28;
  const HELD = 500; // pictures that it doesn't learn from
  const SECRET = 2 ** 30; // and the seed that they follow from
  const DIGITS = { side: 28, channels: 1, classes: 10, answers: 1 };
  const drawn = tasks();
  const SHIFT = 2; // pixels, each way
  const WARMUP = 0.1; // of the steps
  const [BETA1, BETA2, TINY, DECAY] = [0.9, 0.999, 1e-8, 0.01]; // AdamW's
  let digits; // { images, labels, train: how many of them to learn from }
  let settings, network, random, labels, order;
  let task, held; // what is drawn, null for digits; [{ bytes, pixels, truth }]
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

  /** A drawn picture, as `held` has them. */
  function draw(by, stream) {
    const { picture, truth } = by(stream);
    const pixels = new Float32Array(picture); // from() is far slower
    for (let i = 0; i < pixels.length; i++) pixels[i] = pixels[i] / 127.5 - 1;
    return { bytes: picture, truth, pixels };
  }

  /** What it doesn't learn from. */
  function heldOut() {
    if (task) {
      const stream = numbers(SECRET);
      return Array.from({ length: HELD }, () =>
        draw(task.held ?? task.draw, stream));
    }
    const { images, labels: all, train } = digits;
    return Array.from({ length: all.length - train }, (_, i) => {
      const at = train + i;
      return { pixels: pixelsOf(at), truth: [all[at]],
        bytes: images.slice(at * SIZE, (at + 1) * SIZE) };
    });
  }

  /** All logits of a picture of the batch: (answers * classes,). */
  const logitsOf = (image) => {
    const size = network.sizes.answers * network.sizes.classes;
    const from = network.at.logits + size * image;
    return network.M.slice(from, from + size);
  };

  /** The classes that it answers for a picture of the batch, (answers,). */
  function saidOf(image) {
    const { answers, classes } = network.sizes;
    const logits = logitsOf(image);
    return Array.from({ length: answers }, (_, i) => {
      const row = logits.subarray(i * classes, (i + 1) * classes);
      return row.indexOf(Math.max(...row));
    });
  }

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

  /** One update from images and all their labels; the mean loss before it. */
  function trainStep(images, truth, rate) {
    images.forEach((pixels, i) => network.setImage(i, pixels));
    network.forward(images.length);
    const loss = network.crossEntropy(truth);
    network.backward(images.length);
    update(rate);
    return loss;
  }

  /** The next images of the epoch, each moved at random; or drawn ones. */
  function nextBatch() {
    const { batch } = settings;
    if (task) {
      const found = Array.from({ length: batch }, () =>
        draw(task.draw, random));
      const truth = found.flatMap((each) => each.truth);
      const any = () => Math.floor(random() * task.names.length);
      return [found.map(({ pixels }) => pixels),
        settings.shuffled ? truth.map(any) : truth];
    }
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

    /** Begin anew. Settings: those of `trainable`, and task, rate, seed, steps
        or seconds, shuffled (whether the labels are), and kind (of kernels). */
    start({ kind, ...given }) {
      settings = given;
      task = drawn[settings.task] ?? null;
      const sizes = task ? { ...task, classes: task.names.length } : DIGITS;
      random = numbers(settings.seed);
      network = trainable(kernels, settings, sizes, random, kind);
      network.sizes = sizes;
      [steps, updates, spent, order] = [0, 0, 0, []];
      held = task || digits ? heldOut() : [];
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

    /** The percentage of the answers to held-out pictures that are right. */
    accuracy() {
      let right = 0, all = 0;
      for (let from = 0; from < held.length; from += settings.batch) {
        const some = held.slice(from, from + settings.batch);
        some.forEach(({ pixels }, i) => network.setImage(i, pixels));
        network.forward(some.length);
        some.forEach(({ truth }, i) => {
          const said = saidOf(i);
          right += truth.filter((each, k) => each === said[k]).length;
          all += truth.length;
        });
      }
      return (100 * right) / all;
    },

    /** Logits and maps of pictures (c h w) of -1 to 1. */
    classify({ images }) {
      const { M, t, tp, blocks } = network;
      const { heads } = settings;
      images.forEach((pixels, i) => network.setImage(i, pixels));
      network.forward(images.length);
      return images.map((_, image) => ({
        logits: logitsOf(image),
        said: saidOf(image),
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

    /** Ten held-out pictures, of digits one of each: { bytes, truth }, with
        others in each turn. */
    ten({ turn }) {
      return [...Array(10).keys()].map((which) => {
        const of = task ? held : held.filter(({ truth }) => truth[0] === which);
        const at = task ? 10 * turn + which : turn;
        const { bytes, truth } = of[at % of.length];
        return { bytes, truth };
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
