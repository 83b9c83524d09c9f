// The trained networks of the page, by name, and what may be asked of them.
//
//   const model = await vitedu.load("mnist-tiny"); // or "ViT-Ti/16"
//   const { logits, top, maps } = await vitedu.classify(pixels);
//
// `pixels` is a Float32Array (c, h, w), preprocessed; `maps[l]` is block l's
// attention, a Float32Array (heads, t, t).
"use strict";

(() => {
  // Each network's scripts: the large one comes in parts.
  const FILES = { "mnist-tiny": ["mnist-tiny.js"],
    "mae-mnist": ["mae-mnist.js"], "ViT-Ti/16":
    Array.from({ length: 8 }, (_, part) => `vit-ti-16-${part + 1}.js`) };
  const among = (x, n) => Number.isInteger(x) && x >= 0 && x < n;
  const PARTS = ["plus signs", "norms", "attention", "MLPs"];
  // For each change what it is, and whether `x` is one for these sizes, beside
  // the others.
  const CHANGES = {
    order: ["the patches' numbers in another order", (x, { n }) =>
      x.length === n && new Set(x).size === n && x.every((i) => among(i, n))],
    positions: ["true or false", (x) => typeof x === "boolean"],
    drop: ["a list of blocks, from 0 on", (x, { depth }) =>
      Array.isArray(x) && x.every((l) => among(l, depth))],
    hide: ["a list of patches, from 0 on, but not of all", (x, { n }) =>
      Array.isArray(x) && x.every((i) => among(i, n)) && new Set(x).size < n],
    move: ["a list of up to 16 patches, from 0 on, with positions and no hide",
      (x, { n }, { hide, positions }) => Array.isArray(x) && x.length <= 16 &&
        x.every((i) => among(i, n)) && !hide && positions !== false],
    grey: ["true or false", (x) => typeof x === "boolean"],
    head: ["a head, from 0 on", (x, { num_heads }) => among(x, num_heads)],
    tokens: ["a block, from 0 on", (x, { depth }) => among(x, depth)],
    without: [`one of ${PARTS.join(", ")}`, (x) => PARTS.includes(x)],
  };
  const here = document.currentScript.src;
  const loading = new Map(); // name -> promise of a model
  const loaded = [];

  /** Run a script beside this one; it fails with a sentence. */
  function run(file) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      Object.assign(script, { src: new URL(file, here), onload: resolve });
      script.onerror = () =>
        reject(new Error(`${script.src} could not be loaded; try again`));
      document.head.append(script);
    });
  }

  async function open(name, told) {
    for (const [part, file] of FILES[name].entries()) {
      told(part / FILES[name].length);
      if (!vitedu.packed[name]?.data[part]) await run(file); // a second try
    }
    const packed = vitedu.packed[name];
    delete vitedu.packed[name]; // the worker has its own copy
    const ask = vitedu.employ(
      vitedu.network, vitedu.kernels, vitedu.faster);
    await ask({ packed });
    const { config, class_names: classNames, preprocess } = packed;
    const model = { name, config, classNames, preprocess };
    if (config.decoder_dim) return completing(model, ask);
    model.classify = async (pixels, changes = {}) => {
      check(model, pixels, changes);
      const found = await ask({ pixels, changes });
      return { ...found, top: top(found.logits, classNames) };
    };
    loaded.push(model);
    return model;
  }

  /** A masked autoencoder completes, and names nothing. */
  function completing(model, ask) {
    model.complete = (pixels, hidden) => {
      check(model, pixels, {});
      const { image_size: [h, w], patch_size: [p, q] } = model.config;
      if (hidden.length !== (h * w) / (p * q) || !hidden.includes(false)) {
        throw new RangeError("hidden has true or false for each patch, and " +
          "some are left to see");
      }
      return ask({ pixels, hidden });
    };
    return model;
  }

  const size = ({ in_channels, image_size: [h, w] }) => in_channels * h * w;

  function check({ name, config }, pixels, changes) {
    const shape = [config.in_channels, ...config.image_size].join(" x ");
    if (pixels.length !== size(config) || !pixels.every(Number.isFinite)) {
      throw new RangeError(`${name} wants ${shape} finite numbers`);
    }
    const { image_size: [h, w], patch_size: [p, q] } = config;
    for (const [change, value] of Object.entries(changes)) {
      const [words, isRight] = CHANGES[change] ?? [];
      if (!words) {
        const known = Object.keys(CHANGES).join(", ");
        throw new RangeError(`no change "${change}"; there are ${known}`);
      }
      const sizes = { ...config, n: (h * w) / (p * q) };
      if (value !== undefined && !isRight(value, sizes, changes)) {
        throw new RangeError(`${change} is ${words}, for ${name}`);
      }
    }
  }

  /** The five best classes: their index, name and share of 1. */
  function top(logits, classNames, count = 5) {
    const most = Math.max(...logits);
    const shares = Array.from(logits, (each) => Math.exp(each - most));
    const sum = shares.reduce((one, other) => one + other);
    const named = shares.map((share, index) => {
      return { index, name: classNames[index], share: share / sum };
    });
    return named.sort((a, b) => b.share - a.share).slice(0, count);
  }

  Object.assign(vitedu, {
    packed: {}, // where a file of weights leaves what it holds
    run,
    top,

    /** A trained network: name, config, classNames, preprocess, classify; or
        complete, for one that learned without labels.
        `told` hears which share of its files is there. */
    load(name, told = () => {}) {
      const known = Object.keys(FILES).join(", ");
      if (!Object.hasOwn(FILES, name)) return Promise.reject(new RangeError(
        `there is no network "${name}"; there are ${known}`));
      if (!loading.has(name)) loading.set(name, open(name, told));
      const promise = loading.get(name);
      promise.catch(() => loading.delete(name)); // so that one can try again
      return promise;
    },

    /** What the loaded network whose pictures have as many numbers says. */
    async classify(pixels, changes) {
      if (!(pixels instanceof Float32Array)) {
        throw new TypeError("pixels is a Float32Array (c, h, w), preprocessed");
      }
      const model = loaded.find(({ config }) => size(config) === pixels.length);
      const names = loaded.map(({ name }) => name).join(", ") || "none";
      if (!model) throw new RangeError(
        `no loaded network reads ${pixels.length} numbers (${names} loaded)`);
      return model.classify(pixels, changes);
    },
  });
})();
