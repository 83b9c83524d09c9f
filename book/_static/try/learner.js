// A network that learns on this page, without the page around it: settings,
// digits, files of weights, and the call for the console.
//
//   const { accuracy, steps, losses } =
//     await vitedu.learn({ seconds: 30, seed: 0 });
"use strict";

(() => {
  // What a link or a call may set: the values, and the usual one first.
  const TASKS = vitedu.tasks();
  const OPTIONS = {
    task: ["digits", ...Object.keys(TASKS)],
    patch: [7, 4, 14, 2, 8], // of digits the first three, else what TASKS says
    width: [16, 32, 64],
    depth: [2, 1, 3, 4],
    heads: [2, 1, 4],
    positions: [true, false],
    positionStd: [0.02, 0.5], // of their first values: chapter 16
    shuffled: [false, true],
    rate: [0.01, 0.0001, 0.0003, 0.001, 0.003, 0.03, 0.1],
    steps: [3000, 300, 1000, 6000, 12000],
    seed: "a whole number from 0 on",
  };
  const BATCH = 128;
  const DIGITS = [...Array(10).keys()].map(String);
  const USUAL = { seed: 0 };
  for (const [name, values] of Object.entries(OPTIONS)) {
    if (Array.isArray(values)) [USUAL[name]] = values;
  }

  /** Settings with the usual ones filled in. RangeError: there is no such. */
  function checked(given) {
    for (const [name, value] of Object.entries(given)) {
      const values = OPTIONS[name];
      if (!values) {
        const known = Object.keys(OPTIONS).join(", ");
        throw new RangeError(`no setting "${name}"; there are ${known}`);
      }
      const isRight = Array.isArray(values) ? values.includes(value)
        : Number.isSafeInteger(value) && value >= 0;
      if (!isRight) {
        const words = Array.isArray(values)
          ? `one of ${[...values].sort((a, b) => a - b).join(", ")}` : values;
        throw new RangeError(`${name} is ${words}, not ${value}`);
      }
    }
    const task = given.task ?? USUAL.task;
    const patches = patchesOf(task);
    const found =
      { ...USUAL, patch: patches[0], ...TASKS[task]?.usual, ...given };
    if (!patches.includes(found.patch)) {
      throw new RangeError(`patch is one of ${patches.join(", ")} where the ` +
        `task is ${task}, not ${found.patch}`);
    }
    return found;
  }

  /** The sizes of patches that fit the pictures of a task; the usual first. */
  const patchesOf = (task) => TASKS[task]?.patches ?? [7, 4, 14];

  /** Sides, channels, class names and answers of a task. */
  const about = (task) => TASKS[task] ??
    { side: 28, channels: 1, names: DIGITS, answers: 1 };

  /** The package's digits: bytes, labels, how many are to learn from. */
  async function digitSet() {
    if (!vitedu.digitSet) await vitedu.run("digit-set.js");
    const { train, count, data } = vitedu.digitSet;
    const packed = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
    const stream = new Blob([packed]).stream()
      .pipeThrough(new DecompressionStream("deflate"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const images = bytes.subarray(0, 784 * count);
    return { images, labels: bytes.subarray(784 * count), train };
  }

  // ------------------------------------------------------- files of weights

  const preprocessOf = ({ side, channels }) => ({ crop: 1,
    image_size: [side, side], in_channels: channels, interpolation: "bilinear",
    mean: Array(channels).fill(0.5), std: Array(channels).fill(0.5) });

  /** A network's configuration, as the package writes it. */
  function configOf({ task, patch, width, depth, heads }) {
    const { side, channels, names } = about(task);
    return {
      block: { name: "Standard" }, class_token: true, depth, drop_path: 0,
      dropout: 0, embed_dim: width, gelu: "exact", image_size: [side, side],
      in_channels: channels, mlp_dim: 4 * width, norm_eps: 1e-6,
      num_classes: names.length, num_heads: heads, patch_size: [patch, patch],
      pool: "token", position: { at: "stem", name: "Learned1D" },
      pre_logits: null, stem: { name: "Patches" } };
  }

  /** A safetensors file that `vitedu.load` reads, as a Blob. */
  function toFile(settings, weights) {
    const { names, answers } = about(settings.task);
    if (answers > 1) throw new Error("this network answers for each patch, " +
      "and vitedu.load reads those that answer once");
    const content = { class_names: names, config: configOf(settings),
      preprocess: preprocessOf(about(settings.task)) };
    const header = { __metadata__: { vitedu: JSON.stringify(content) } };
    let place = 0;
    for (const [name, shape, { length }] of weights) {
      header[name] = { dtype: "F32", shape,
        data_offsets: [place, place += 4 * length] };
    }
    let text = JSON.stringify(header);
    text += " ".repeat(-text.length & 7); // the data begin at a multiple of 8
    const size = new BigUint64Array([BigInt(text.length)]);
    return new Blob([size, text, ...weights.map(([, , numbers]) => numbers)]);
  }

  /** Settings and weights in a file that `toFile` wrote. Error: in none. */
  function fromFile(bytes) {
    const wrong = new Error("this file holds no network that was saved here");
    try {
      const length = Number(new DataView(bytes).getBigUint64(0, true));
      const text = new TextDecoder().decode(new Uint8Array(bytes, 8, length));
      const { __metadata__: saved, ...tensors } = JSON.parse(text);
      const { config } = JSON.parse(saved.vitedu);
      const task = OPTIONS.task.find((each) =>
        about(each).side === config.image_size[0]);
      const settings = { task, patch: config.patch_size[0],
        width: config.embed_dim, depth: config.depth, heads: config.num_heads };
      checked(settings);
      const alike = JSON.stringify(configOf(settings));
      const same = Object.entries(JSON.parse(alike)).every(([name, value]) =>
        JSON.stringify(config[name]) === JSON.stringify(value));
      if (!same) throw wrong;
      const weights = Object.entries(tensors).map(
        ([name, { shape, data_offsets: [begin, end] }]) => {
          const part = bytes.slice(8 + length + begin, 8 + length + end);
          return [name, shape, new Float32Array(part)];
        });
      return { settings, weights };
    } catch {
      throw wrong;
    }
  }

  // ------------------------------------------------------------ the learner

  /** A worker with the digits, to be asked as teach.js says. */
  async function learner() {
    const { teacher, trainable, kernels, tasks } = vitedu;
    const ask = vitedu.employ(teacher, trainable, kernels, tasks);
    await ask({ call: "take", given: await digitSet() });
    return Object.assign((call, given) => ask({ call, given }),
      { stop: ask.stop });
  }

  /** A network as the stations know them, that `ask` answers for. */
  function modelOf(ask, settings) {
    const what = about(settings.task);
    const model = { name: "yours", config: configOf(settings),
      classNames: what.names, preprocess: preprocessOf(what) };
    model.classify = async (pixels) => {
      const [found] = await ask("classify", { images: [pixels] });
      return { ...found, top: vitedu.top(
        found.logits.subarray(0, what.names.length), what.names) };
    };
    return model;
  }

  /** Train for so many seconds (or steps), and say how well it does then. */
  async function learn({ seconds, ...given } = {}) {
    const settings = checked(given);
    if (seconds !== undefined && !(seconds > 0)) {
      throw new RangeError(`seconds is a number above 0, not ${seconds}`);
    }
    const ask = await learner();
    await ask("start", { ...settings, seconds, batch: BATCH });
    const losses = [];
    let told;
    do {
      told = await ask("train", { milliseconds: 500 });
      losses.push(...told.losses);
    } while (!told.isDone);
    const accuracy = await ask("accuracy");
    ask.stop();
    return { accuracy, steps: told.steps, losses };
  }

  Object.assign(vitedu, { learn, learning: { OPTIONS, BATCH, about, checked,
    patchesOf, learner, modelOf, toFile, fromFile } });
})();
