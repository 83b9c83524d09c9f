// The station "Learn": a small Vision Transformer learns digits on this page,
// or puzzles of the chapters, and everything that it learns is drawn. What it
// is made of is in learner.js.
"use strict";

(() => {
  const { make, choice, tick, tell, onceSeen, land, Scene, draw, look,
    linked, remember } = vitedu.station;
  const { OPTIONS, BATCH, about, checked, patchesOf, learner, modelOf, toFile,
    fromFile } = vitedu.learning;
  const LEARNING = "Learning ...";
  const CHUNK = [150, 2000]; // milliseconds between two looks at it
  const TASKS = { digits: "which digit is it?",
    twin: "what colour is my twin?",
    same: "same or different? On the patch grid",
    "same-off": "same or different? Anywhere",
    left: "is the first left of the second?",
    "left-above": "left, learned above, asked below" };
  const NEW = ["task", "patch", "width", "depth", "heads", "positions",
    "positionStd", "shuffled", "seed"]; // a change of these begins anew
  const whole = (x) => x.toLocaleString("en");

  /** What a link says after "#learn=", as settings, and what was wrong. */
  function fromLink(text) {
    const [settings, wrong] = [{}, []];
    for (const part of text.split("_").filter(Boolean)) {
      const [name, ...rest] = part.split("-");
      const words = rest.join("-");
      const value = name === "task" ? words : JSON.parse(
        /^(true|false|\d+(\.\d+)?)$/.test(words) ? words : "null");
      try {
        checked({ ...(settings.task && { task: settings.task }),
          [name]: value });
        settings[name] = value;
      } catch (error) {
        wrong.push(error.message);
      }
    }
    return [settings, wrong];
  }

  /** What differs from the usual settings, for a link. */
  function toLink(settings) {
    const usual = checked({ task: settings.task });
    usual.task = OPTIONS.task[0];
    return Object.keys(OPTIONS).filter((x) => settings[x] !== usual[x])
      .map((name) => `${name}-${settings[name]}`).join("_");
  }

  // --------------------------------------------------------------- drawings

  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name);

  /** A canvas as sharp as the screen, of so many of the page's pixels. */
  function sheet(canvas, height) {
    const width = canvas.parentElement.clientWidth;
    const scale = window.devicePixelRatio;
    [canvas.width, canvas.height] = [width * scale, height * scale];
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    return [pen, width];
  }

  /** Loss and accuracy over the steps: each from 0 up, on its own scale. */
  function chart(canvas, { losses, scores, planned, classes }) {
    const [HEIGHT, LEFT, BELOW, ABOVE] = [220, 8, 24, 24];
    const [pen, width] = sheet(canvas, HEIGHT);
    const end = Math.max(planned, losses.length, 1);
    const x = (step) => LEFT + (step / end) * (width - 2 * LEFT);
    const y = (share) => HEIGHT - BELOW - share * (HEIGHT - ABOVE - BELOW);
    pen.font = "13px sans-serif";
    pen.lineWidth = 1;
    pen.strokeStyle = colour("--pst-color-border");
    pen.fillStyle = colour("--pst-color-text-muted");
    pen.textAlign = "right";
    for (const share of [0, 0.5, 0.9, 1]) {
      pen.beginPath();
      pen.moveTo(LEFT, y(share));
      pen.lineTo(width - LEFT, y(share));
      pen.stroke();
      if (share) pen.fillText(`${100 * share}%`, width - LEFT, y(share) - 3);
    }
    pen.fillText(`${whole(end)} steps`, width - LEFT, HEIGHT - 6);
    const line = (points, ink, thick) => {
      pen.strokeStyle = ink;
      pen.lineWidth = thick;
      pen.beginPath();
      points.forEach(([step, share]) => pen.lineTo(x(step), y(share)));
      pen.stroke();
    };
    const bin = Math.max(1, Math.ceil(losses.length / 200)); // a mean of each
    const means = [];
    for (let i = 0; i + bin <= losses.length; i += bin) {
      const sum = losses.slice(i, i + bin).reduce((all, each) => all + each);
      means.push([i + bin / 2, Math.min(1, sum / bin / Math.log(classes))]);
    }
    line(means, colour("--pst-color-text-muted"), 1.5);
    line(scores.map(([step, score]) => [step, score / 100]),
      colour("--pst-color-primary"), 3);
  }

  /** Small pictures side by side: numbers of -1 to 1 as black to white, of
      three channels as colours. */
  function mosaic(canvas, pictures, side, columns) {
    const [gap, cell] = [1, side * Math.max(1, Math.floor(28 / side))];
    const rows = Math.ceil(pictures.length / columns);
    canvas.width = columns * (cell + 2 * gap);
    canvas.height = rows * (cell + 2 * gap);
    const pen = canvas.getContext("2d");
    pictures.forEach((numbers, at) => {
      const left = (at % columns) * (cell + 2 * gap) + gap;
      const top = Math.floor(at / columns) * (cell + 2 * gap) + gap;
      const one = cell / side;
      const byte = (value) =>
        Math.round(127.5 * (1 + Math.max(-1, Math.min(1, value))));
      const size = side * side;
      numbers.subarray(0, size).forEach((value, i) => {
        const colour = numbers.length > size
          ? [0, 1, 2].map((c) => byte(numbers[c * size + i]))
          : Array(3).fill(byte(value));
        pen.fillStyle = `rgb(${colour.join(" ")})`;
        pen.fillRect(left + (i % side) * one, top + Math.floor(i / side) * one,
          one, one);
      });
    });
  }

  /** The cosine of each patch's position vector with every other's. */
  function similarities(positions, width) {
    const rows = [];
    for (let at = width; at < positions.length; at += width) {
      rows.push(positions.subarray(at, at + width));
    }
    const dot = (a, b) => a.reduce((sum, each, k) => sum + each * b[k], 0);
    const lengths = rows.map((row) => Math.sqrt(dot(row, row)) || 1);
    return rows.map((one, i) => Float32Array.from(rows, (other, j) =>
      dot(one, other) / lengths[i] / lengths[j]));
  }

  vitedu.learning.similarities = similarities;

  // What the weights are called on the page, by the end of their names.
  const CALLED = { "patch_embed.proj.weight": "E", cls_token: "class token",
    pos_embed: "positions", "attn.qkv.weight": "queries, keys, values",
    "attn.proj.weight": "attention's output", "fc1.weight": "MLP, first",
    "fc2.weight": "MLP, second", "head.weight": "head" };

  /** How large the weights of each matrix are: the root of their mean square. */
  function sizesOf(weights) {
    return Object.entries(weights).flatMap(([name, values]) => {
      const end = Object.keys(CALLED).find((each) => name.endsWith(each));
      if (!end || !values.length) return [];
      const [, block] = name.match(/^blocks\.(\d+)/) ?? [];
      const sum = values.reduce((all, each) => all + each * each, 0);
      return [[(block ? `block ${Number(block) + 1}, ` : "") + CALLED[end],
        Math.sqrt(sum / values.length)]];
    });
  }

  /** E's rows, each scaled so that its largest number is 1 or -1. */
  function filters(numbers, size) {
    const rows = [];
    for (let at = 0; at < numbers.length; at += size) {
      const row = numbers.subarray(at, at + size);
      const most = Math.max(...row.map(Math.abs)) || 1;
      rows.push(row.map((each) => each / most));
    }
    return rows;
  }

  // ---------------------------------------------------------------- station

  async function learn(place) {
    const link = linked().learn;
    const [given, wrong] = fromLink(link ?? "");
    let settings;
    try {
      settings = checked(given);
    } catch { // each is right, but heads and width were never a pair
      settings = checked({});
    }
    const scene = Object.assign(new Scene(), { isLearner: true });
    const button = (words, click, more = {}) =>
      make("button", { type: "button", click, ...more }, words);
    const play = button("Play", () => (isPlaying ? pause() : start()),
      { class: "try-load" });
    const status = make("p", { class: "try-said", role: "status" });
    const numbers = make("p", { class: "try-head" });
    const empty = { role: "img", "aria-label": "empty until it learns" };
    const [curve, alike, embed] = [1, 2, 3].map(() => make("canvas", empty));
    const answers = make("div", { class: "try-ten" });
    const drawing = make("div");
    const map = make("div");
    const sizes = make("ol", { class: "guesses try-sizes" });
    const sizesFold = make("details", { toggle: drawSizes },
      make("summary", {}, "How large its weights are (and were at the start)"), sizes);
    const file = make("input", { type: "file", accept: ".safetensors",
      change: () => file.files[0] && open(file.files[0]).catch(tell(status)) });
    const controls = {};
    const key = make("span", { class: "loss" });
    const askTen = make("p", { class: "try-head" });
    const pad = make("div"); // what only digits have

    const NAMES = { task: "Learn", rate: "Learning rate", steps: "Steps",
      patch: "Patch size", width: "Width", depth: "Blocks", heads: "Heads",
      positionStd: "Positions begin at", seed: "Seed" };
    const SWITCHES = { positions: "positions", shuffled: "shuffled labels" };
    function control(name) {
      if (name in SWITCHES) {
        const [label, box] =
          tick(SWITCHES[name], () => change(name, box.checked));
        controls[name] = (value) => { box.checked = value; };
        return label;
      }
      if (name === "seed") {
        const input = make("input", { type: "number", min: 0, step: 1,
          change: () => change(name, Math.max(0, Math.round(input.value))) });
        controls[name] = (value) => { input.value = value; };
        return make("label", {}, NAMES[name], " ", input);
      }
      if (name === "task") {
        const [label, select] = choice(NAMES.task, TASKS,
          (value) => change(name, value));
        controls.task = (value) => { select.value = value; };
        label.className = "try-task";
        return label;
      }
      const values = [...OPTIONS[name]].sort((a, b) => a - b);
      const words = Object.fromEntries(values.map((x) => [`v${x}`,
        x < 1 ? `${x}` : whole(x)])); // an object would sort whole numbers
      const [label, select] = choice(NAMES[name], words,
        (value) => change(name, Number(value.slice(1))));
      controls[name] = (value) => {
        select.value = `v${value}`;
        if (name !== "patch") return;
        const fit = patchesOf(settings.task);
        for (const option of select.options) {
          const isRight = fit.includes(Number(option.value.slice(1)));
          option.hidden = option.disabled = !isRight;
        }
      };
      return label;
    }

    place.append(
      make("p", { class: "try-buttons" }, play,
        button("One step", () => train({ most: 1 }).catch(tell(status))),
        button("Start over", () => restart().catch(tell(status)))),
      make("div", { class: "try-settings" },
        ...[...Object.keys(NAMES), ...Object.keys(SWITCHES)].map(control)),
      status, numbers, make("div", { class: "try-curve" }, curve),
      make("p", { class: "try-key" }, make("span", { class: "held" },
        "held-out answers that are right"), " ", key),
      make("div", { class: "try-pair" },
        make("div", {}, make("p", { class: "try-head" },
          "Positions: how alike each patch's vector is to all others"), alike),
        make("div", {}, make("p", { class: "try-head" },
          "What E looks for in a patch, a picture for each number"), embed)),
      sizesFold,
      askTen, answers, make("p", { class: "try-head" },
        "Your network's map: point at a patch"), map, pad,
      make("p", { class: "try-buttons" },
        button("Save its weights", () => save().catch(tell(status))),
        make("label", {}, "or open some you saved: ", file)));

    pad.append(make("p", { class: "try-head" }, "Draw on your network"),
      drawing);

    let ask, model, isPlaying = false, isRunning = false;
    let ten = [], turn = 0, tenOf; // the ten that are shown, of which task
    let losses, scores, told, weights; // of the network as it is
    let begun; // how large its weights were at the beginning
    let drawn = 0; // milliseconds that the last look took

    // --------------------------------------------------- from the network

    /** A new network with these settings, or with these weights. */
    async function restart(saved) {
      pause();
      const { isFast, count } =
        await ask("start", { ...settings, batch: BATCH });
      if (saved) await ask("put", { weights: saved });
      [losses, scores, told, begun] = [[], [], { isDone: false }, null];
      model = modelOf(ask, settings);
      scene.seen = false; // its maps have other sizes
      for (const name in controls) controls[name](settings[name]);
      const { names, answers: each } = about(settings.task);
      key.textContent = `loss, as a share of ln ${names.length}: guessing is ` +
        "100%";
      pad.hidden = settings.task !== "digits";
      askTen.textContent = `Ten ${pad.hidden ? "pictures" : "digits"} that ` +
        `it doesn't learn from, and ${each > 1
          ? "how many of their patches are right" : "what it takes them for"}`;
      opened();
      if (tenOf !== settings.task) {
        await chooseTen();
        await put(ten[3].bytes);
      }
      await show();
      status.textContent = isFast ? `${whole(count)} weights, ` +
        `${saved ? "as you saved them" : "all at random"}.`
        : `${whole(count)} weights. This browser runs no WebAssembly with ` +
          "SIMD here, so they learn in plain JavaScript, a few times slower.";
    }

    function change(name, value) {
      settings = name === "task" // each has settings of its own
        ? checked({ task: value, seed: settings.seed })
        : { ...settings, [name]: value };
      remember({ learn: toLink(settings) });
      const done = NEW.includes(name) ? restart()
        : ask("change", { [name]: value }).then(() => {
          told.isDone = false;
          return show();
        });
      done.catch(tell(status));
    }

    async function train(how) {
      if (told.isDone) await again();
      told = await ask("train", how);
      losses.push(...told.losses);
      const begin = performance.now();
      await show();
      drawn = performance.now() - begin;
    }

    /** Another rise and fall of the rate, from where it is. */
    async function again() {
      await ask("change", { steps: settings.steps });
      told.isDone = false;
    }

    function pause() {
      isPlaying = false;
      play.textContent = "Play";
    }

    async function start() {
      isPlaying = true;
      play.textContent = "Pause";
      if (isRunning) return; // what was about to pause goes on
      isRunning = true;
      let end = "Paused.";
      try {
        while (isPlaying) {
          if (document.hidden) {
            status.textContent = "Paused while you look at another tab.";
            await new Promise((seen) => document.addEventListener(
              "visibilitychange", seen, { once: true }));
            continue;
          }
          if (status.textContent !== LEARNING) status.textContent = LEARNING;
          // drawing is to take a fifth of the time at most
          const [least, most] = CHUNK;
          const milliseconds = Math.min(most, Math.max(least, 4 * drawn));
          await train({ milliseconds });
          if (told.isDone) {
            end = "That was one rise and fall of the rate. Play again to go " +
              "on, or start over with other settings.";
            pause();
          }
        }
        if (status.textContent === LEARNING) status.textContent = end;
      } catch (error) {
        tell(status)(error);
      }
      isRunning = false;
      pause();
    }

    // --------------------------------------------------------- to the page

    function drawChart() {
      const rises = Math.ceil(losses.length / settings.steps) || 1;
      chart(curve, { losses, scores, planned: rises * settings.steps,
        classes: about(settings.task).names.length });
    }

    async function show() {
      const accuracy = await ask("accuracy");
      const { side: pixels, channels, answers: each } = about(settings.task);
      scores.push([losses.length, accuracy]);
      weights = Object.fromEntries((await ask("weights"))
        .map(([name, , values]) => [name, values]));
      begun ??= Object.fromEntries(sizesOf(weights));
      drawSizes();
      const { patch, width } = settings;
      const recent = losses.slice(-20);
      const loss = recent.reduce((all, x) => all + x, 0) / recent.length;
      numbers.textContent = `Step ${whole(losses.length)}: ` +
        `${accuracy.toFixed(1)}% of ${whole(500 * each)} held-out ` +
        `${pad.hidden ? "answers" : "digits"} are right` +
        (recent.length ? `, loss ${loss.toFixed(2)}.` : ".");
      curve.setAttribute("aria-label", `Loss and accuracy over the steps. ` +
        numbers.textContent);
      drawChart();
      const side = pixels / patch;
      const cosines = similarities(weights.pos_embed, width);
      mosaic(alike, cosines, side, side);
      alike.setAttribute("aria-label", settings.positions
        ? `${side} by ${side} maps of as many patches each: bright where ` +
          "two position vectors point the same way"
        : "no positions, so nothing is alike");
      mosaic(embed, filters(weights["patch_embed.proj.weight"],
        channels * patch ** 2), patch, 8);
      embed.setAttribute("aria-label",
        `${width} pictures of ${patch} by ${patch} weights`);
      if (scene.pixels?.length === channels * pixels ** 2) {
        await scene.show(model, scene.picture, scene.pixels);
      }
      await sayTen();
    }

    function drawSizes() {
      if (!sizesFold.open || !weights) return; // nothing is computed unseen
      const found = sizesOf(weights);
      const most = Math.max(...found.map(([, size]) => size));
      sizes.replaceChildren(...found.map(([name, size]) =>
        make("li", { style: `--share: ${(100 * size) / most}` },
          make("span", {}, name), " ", make("span", {},
            `${size.toFixed(3)} (${begun[name].toFixed(3)})`))));
    }

    const pixelsOf = (bytes) =>
      Float32Array.from(bytes, (each) => each / 127.5 - 1);
    let opened;
    const isOpen = new Promise((resolve) => { opened = resolve; });
    const onPad = draw(drawing, scene, () => isOpen.then(() => model));
    look(map, scene);

    /** A picture into the map, and onto the pad if it is a digit. */
    async function put(bytes) {
      if (!pad.hidden) return onPad.put(bytes);
      await scene.show(model, canvasOf(bytes), pixelsOf(bytes));
    }

    /** Bytes (c h w) as a canvas. */
    function canvasOf(bytes) {
      const { side, channels } = about(settings.task);
      const size = side * side;
      const data = bytes.map((_, i) =>
        bytes[(i % channels) * size + Math.floor(i / channels)]);
      return vitedu.pictures.canvasOf(
        { data, width: side, height: side, channels });
    }

    async function chooseTen() {
      tenOf = settings.task;
      ten = (await ask("ten", { turn })).map(({ bytes, truth }) => {
        const words = make("span");
        const each = button(canvasOf(bytes), () =>
          put(bytes).catch(tell(status)));
        each.append(words);
        return { bytes, truth, words, each };
      });
      answers.replaceChildren(...ten.map(({ each }) => each),
        button("Ten others", () => {
          turn++;
          chooseTen().catch(tell(status));
        }));
      await sayTen();
    }

    async function sayTen() {
      if (!ten.length) return;
      const { names, side } = about(settings.task);
      const images = ten.map(({ bytes }) => pixelsOf(bytes));
      const found = await ask("classify", { images });
      ten.forEach(({ truth, words, each }, i) => {
        const { said } = found[i];
        const right = truth.filter((label, k) => label === said[k]).length;
        const isRight = right === truth.length;
        const mark = isRight ? "✓" : "✗";
        words.textContent = truth.length > 1 ? `${right} of ${truth.length}`
          : `${names[said[0]]} ${mark}`;
        each.classList.toggle("wrong", !isRight);
        each.setAttribute("aria-label", truth.length > 1
          ? `A picture, ${right} of ${truth.length} patches right`
          : `${side === 28 ? "A" : "A picture,"} ${names[truth[0]]}, taken ` +
            `for ${side === 28 ? "a " : ""}${names[said[0]]}`);
      });
    }

    // -------------------------------------------------------------- files

    async function save() {
      const blob = toFile(settings, await ask("weights"));
      const address = URL.createObjectURL(blob);
      make("a", { href: address, download: "my-vit.safetensors" }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    }

    async function open(chosen) {
      const found = fromFile(await chosen.arrayBuffer());
      settings = { ...settings, ...found.settings, positions: true };
      remember({ learn: toLink(settings) });
      await restart(found.weights);
    }

    if (link) land(place);
    const ready = onceSeen(place).then(async () => {
      ask = await learner();
      await restart();
    });
    try {
      await ready;
      if (wrong.length) status.textContent = `The link: ${wrong.join("; ")}.`;
    } catch (error) {
      tell(status)(error);
    }
    new ResizeObserver(() => losses && drawChart())
      .observe(curve.parentElement);
    new MutationObserver(() => losses && drawChart())
      .observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  for (const place of document.querySelectorAll(".try[data-part=learn]")) {
    learn(place);
  }
})();
