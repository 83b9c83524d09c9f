// The page "Try it": its stations, and the small ones in chapters. Each is an
// element `<div class="try" data-part="look" data-photo="cat"></div>`; the
// network is in vit.js, and pictures become numbers in pictures.js.
"use strict";

(() => {
  const BIG = "ViT-Ti/16";
  const MEGABYTES = 15; // of its scripts
  const UNSURE = 0.1; // below this share, a best class is only a guess
  const PHOTOS = {
    hopper: "Grace Hopper in naval uniform",
    cat: "a cat",
    coffee: "a cup of coffee",
    astronaut: "an astronaut",
    rocket: "a rocket on its pad",
  };
  const VIEWS = {
    patch: "a patch",
    token: "the class token",
    answer: "the whole answer",
  };
  const SIDE = 448; // of a picture on the page, in its own pixels
  const LIT = "#1b9e77"; // attention's colour in the book, on photographs
  const here = document.currentScript.src;

  // ------------------------------------------------------------- small parts

  /** An element: attributes as in HTML, functions as listeners. */
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(name, value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  function percent(share) {
    if (share < 0.001) return "under 0.1%";
    if (share < 0.0995) return `${(100 * share).toFixed(1)}%`;
    return share > 0.99 ? "over 99%" : `${Math.round(100 * share)}%`;
  }

  /** The best classes, as bars. */
  function bars(top) {
    return make("ol", { class: "guesses" }, ...top.map(({ name, share }) =>
      make("li", { style: `--share: ${100 * share}` },
        make("span", {}, name), " ", make("span", {}, percent(share)))));
  }

  function choice(words, options, changed) {
    const select = make("select", { change: () => changed(select.value) },
      ...Object.entries(options).map(([value, text]) =>
        make("option", { value }, text)));
    return [make("label", {}, words, " ", select), select];
  }

  function tick(words, changed) {
    const box = make("input", { type: "checkbox", change: changed });
    return [make("label", {}, box, " ", words), box];
  }

  /** Rows and columns of the patches that a model cuts. */
  function grid({ config: { image_size: [h, w], patch_size: [p, q] } }) {
    return [h / p, w / q];
  }

  /** `work`, of which only the newest call waits while one is under way. */
  function newest(work) {
    let isBusy = false;
    let next = null;
    return async (...given) => {
      next = given;
      if (isBusy) return;
      isBusy = true;
      try {
        while (next) {
          const now = next;
          next = null;
          await work(...now);
        }
      } finally {
        isBusy = false;
      }
    };
  }

  /** Until a part of the page is about to be seen: what it needs is large. */
  const onceSeen = (place) => new Promise((resolve) => {
    const watch = new IntersectionObserver(([{ isIntersecting }]) => {
      if (!isIntersecting) return;
      watch.disconnect();
      resolve();
    }, { rootMargin: "300px" });
    watch.observe(place);
  });

  /** Go to a station that a link means, and stay there while those above it
      grow, until the reader moves. */
  function land(place) {
    const go = () => place.scrollIntoView({ behavior: "instant" });
    const watch = new ResizeObserver(go); // which also goes at once
    watch.observe(document.body);
    for (const sign of ["wheel", "touchstart", "pointerdown", "keydown"]) {
      addEventListener(sign, () => watch.disconnect(), { once: true });
    }
  }

  /** Say what went wrong, where it is read. */
  const tell = (place) => (error) => {
    place.textContent = error.message;
  };

  /** A picture, its numbers and what the network says: parts listen to it. */
  class Scene extends EventTarget {
    show = newest(async (model, picture, pixels) => {
      const answer = await model.classify(pixels);
      Object.assign(this, { model, picture, pixels, answer });
      this.dispatchEvent(new Event("shown"));
    });

    onShown(listener) {
      this.addEventListener("shown", listener);
      if (this.answer) listener();
    }
  }

  // -------------------------------------------------------------- attention

  /** How much of each token reaches the answer, as vitedu.attention_map: half
      of a token is what it was, half is what attention mixes in. */
  function rollout({ maps }, { config: { num_heads: heads, pool } }) {
    const t = Math.sqrt(maps[0].length / heads);
    let row = new Float64Array(t);
    if (pool === "mean") row.fill(1 / (t - 1), 1);
    else row[0] = 1;
    for (const map of [...maps].reverse()) {
      const next = row.map((each) => each / 2);
      for (let i = 0; i < t; i++) {
        for (let at = i * t; at < heads * t * t; at += t * t) {
          for (let j = 0; j < t; j++) {
            next[j] += (row[i] * map[at + j]) / heads / 2;
          }
        }
      }
      row = next;
    }
    return row;
  }

  vitedu.rollout = rollout;

  /** What a token takes from each, in a block: of one head, or the mean. */
  function taken(map, heads, t, token, head) {
    const among = head === "all" ? [...Array(heads).keys()] : [Number(head)];
    return Float64Array.from({ length: t }, (_, j) => {
      let sum = 0;
      for (const each of among) sum += map[(each * t + token) * t + j];
      return sum / among.length;
    });
  }

  /** The places of the largest shares. */
  const strongest = (places, shares, count) =>
    [...places].sort((i, j) => shares[j] - shares[i]).slice(0, count);

  /** The station "Look": where attention goes, over the picture. */
  function look(place, scene, wanted = {}, changed = () => {}) {
    const canvas = make("canvas", {
      width: SIDE,
      height: SIDE,
      tabindex: 0,
      role: "application",
      "aria-label": "The picture in patches. Arrow keys go to another patch.",
    });
    const words = make("p", { class: "try-said", "aria-live": "polite" });
    const state = { patch: 0, view: "patch", layer: 0, head: "all" };
    const layer = make("input", { type: "range", min: 1, step: 1,
      input: () => set({ layer: layer.value - 1 }) });
    const layerWords = make("span");
    const [views, view] = choice("Ask", VIEWS, (value) => set({ view: value }));
    const [heads, head] = choice("Head", {}, (value) => set({ head: value }));
    place.append(
      make("div", { class: "try-look" }, canvas,
        make("div", { class: "try-controls" }, views,
          make("label", {}, "Block ", layerWords, layer), heads,
          make("p", { class: "try-scale" }, "takes little ", make("span"),
            " much"))),
      words);

    function set(news) {
      Object.assign(state, news);
      draw();
      changed({ ...state, layer: state.layer + 1,
        head: state.head === "all" ? "all" : Number(state.head) + 1 });
    }

    function point(event) {
      const box = canvas.getBoundingClientRect();
      const [rows, columns] = grid(scene.model);
      const at = (x, most) => Math.max(0, Math.min(most - 1, Math.floor(x)));
      const row = at(((event.clientY - box.top) / box.height) * rows, rows);
      const column =
        at(((event.clientX - box.left) / box.width) * columns, columns);
      const patch = row * columns + column;
      if (patch !== state.patch || state.view !== "patch") {
        view.value = "patch";
        set({ patch, view: "patch" });
      }
    }

    function step(event) {
      const [rows, columns] = grid(scene.model);
      const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1],
        ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      if (!(event.key in moves)) return;
      event.preventDefault();
      const [down, right] = moves[event.key];
      const row = Math.floor(state.patch / columns) + down;
      const column = (state.patch % columns) + right;
      if (row < 0 || row >= rows || column < 0 || column >= columns) return;
      view.value = "patch";
      set({ patch: row * columns + column, view: "patch" });
    }
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse") point(event); // a finger scrolls
    });
    canvas.addEventListener("keydown", step);

    function draw() {
      if (!scene.answer) return;
      const { config } = scene.model;
      const [rows, columns] = grid(scene.model);
      const n = rows * columns;
      const token = state.view === "token" ? 0 : state.patch + 1;
      const all = state.view === "answer"
        ? rollout(scene.answer, scene.model)
        : taken(scene.answer.maps[state.layer], config.num_heads, n + 1,
                token, state.head);
      const shares = all.slice(1); // of the patches
      layer.disabled = head.disabled = state.view === "answer";
      layerWords.textContent = `${state.layer + 1} of ${config.depth}`;
      layer.value = state.layer + 1;
      head.value = state.head;
      paint(shares, rows, columns);
      words.textContent = said(all, columns);
    }

    function paint(shares, rows, columns) {
      const pen = canvas.getContext("2d");
      const [h, w] = [SIDE / rows, SIDE / columns];
      const [least, most] = [Math.min(...shares), Math.max(...shares)];
      const bright = shares.map((share) => (share - least) / (most - least));
      pen.imageSmoothingEnabled = scene.picture.width >= SIDE / 2;
      pen.drawImage(scene.picture, 0, 0, SIDE, SIDE);
      shares.forEach((_, i) => {
        const [x, y] = [(i % columns) * w, Math.floor(i / columns) * h];
        pen.fillStyle = `rgb(0 0 0 / ${0.8 * (1 - bright[i])})`;
        pen.fillRect(x, y, w, h);
        pen.strokeStyle = "rgb(128 128 128 / 0.35)";
        pen.strokeRect(x, y, w, h);
      });
      if (state.view !== "patch") return;
      const middle = (i) =>
        [((i % columns) + 0.5) * w, (Math.floor(i / columns) + 0.5) * h];
      pen.strokeStyle = pen.fillStyle = LIT;
      for (const i of strongest(shares.keys(), shares, 3)) {
        pen.lineWidth = 1 + 5 * bright[i];
        pen.beginPath();
        pen.moveTo(...middle(i));
        pen.lineTo(...middle(state.patch));
        pen.stroke();
        pen.beginPath();
        pen.arc(...middle(i), 4 + 3 * bright[i], 0, 7);
        pen.fill();
      }
      const [x, y] = middle(state.patch);
      for (const [colour, width] of [["white", 6], [LIT, 3]]) {
        pen.strokeStyle = colour;
        pen.lineWidth = width;
        pen.strokeRect(x - w / 2, y - h / 2, w, h);
      }
      pen.lineWidth = 1;
    }

    function said(all, columns) {
      const named = (i) => {
        if (i === 0) return "the class token";
        const row = Math.floor((i - 1) / columns) + 1;
        return `row ${row}, column ${((i - 1) % columns) + 1}`;
      };
      const asks = state.view === "token" ? 0 : state.patch + 1;
      const list = (tokens, count) => strongest(tokens, all, count)
        .map((i) => {
          const isItself = state.view !== "answer" && i === asks;
          return `${isItself ? "itself" : named(i)} (${percent(all[i])})`;
        }).join("; ");
      if (state.view === "answer") {
        const equal = percent(1 / (all.length - 1));
        const largest = list([...all.keys()].slice(1), 3);
        return "The largest shares of the answer come from the patches in " +
          `${largest}. Equal shares would be ${equal}.`;
      }
      const who = asks ? `The patch in ${named(asks)}` : "The class token";
      const tokens = [...all.keys()];
      const isNamed = !asks || strongest(tokens, all, 4).includes(0);
      return `${who} takes most from ${list(tokens, 4)}.` +
        (isNamed ? "" : ` The class token gives ${percent(all[0])}.`);
    }

    scene.onShown(() => {
      const { config } = scene.model;
      const [rows, columns] = grid(scene.model);
      layer.max = config.depth;
      head.replaceChildren(
        make("option", { value: "all" }, "the mean of all"),
        ...[...Array(config.num_heads).keys()].map((i) =>
          make("option", { value: i }, `${i + 1}`)));
      // the mean of the patches is read, so nobody asks the class token
      view.querySelector("[value=token]").hidden = config.pool === "mean";
      const fits = (x, most) => Number.isInteger(x) && x >= 0 && x < most;
      if (!scene.seen) {
        scene.seen = true;
        const [l, h, p] = [wanted.layer - 1, wanted.head - 1, +wanted.patch];
        state.layer = fits(l, config.depth) ? l : config.depth >> 1;
        state.head = fits(h, config.num_heads) ? `${h}` : "all";
        state.patch = fits(p, rows * columns)
          ? p : (rows >> 1) * columns + (columns >> 1);
        if (wanted.view in VIEWS) state.view = view.value = wanted.view;
      }
      draw();
    });
  }

  // ------------------------------------------------------------------- break

  /** A random order. */
  function shuffled(n) {
    const order = [...Array(n).keys()];
    for (let i = n - 1; i > 0; i--) {
      const j = Math.floor(Math.random() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }

  const FOUR = { "": "no patch", corners: "the four corners",
    middle: "four in the middle" };
  const TAKEN = { hide: "leave them out", move: "move them out of the picture",
    grey: "move them out, painted grey" };

  /** Four patches by their numbers, as chapter 15 takes them; or none. */
  function four(which, rows, columns) {
    const [y, x] = which === "corners" ? [0, 0]
      : [rows, columns].map((count) => Math.floor(count / 3));
    return which === "" ? [] : [y, rows - 1 - y].flatMap((row) =>
      [x, columns - 1 - x].map((column) => row * columns + column));
  }

  /** The station "Break": the answer before and after a change. */
  function breakIt(place, scene) {
    const [shuffle, isShuffled] = tick("shuffle the patches", reorder);
    const again = make("button", { type: "button", click: reorder },
      "Shuffle again");
    const [without, isWithout] = tick("take the positions away", change);
    const [patches, which] = choice("take", FOUR, change);
    const [takes, how] = choice("and", TAKEN, change);
    const [heads, head] = choice("in each block, keep", {}, change);
    const blocks = make("fieldset", { class: "try-blocks" });
    const before = make("div");
    const after = make("div", { "aria-live": "polite" });
    const canvas = make("canvas", { width: 224, height: 224, role: "img",
      "aria-label": "nothing read yet" });
    place.append(
      make("div", { class: "try-break" },
        make("div", { class: "try-controls" },
          shuffle, again, without, patches, takes, heads, blocks),
        make("div", {}, make("p", { class: "try-head" }, "What it reads"),
          canvas),
        make("div", {}, make("p", { class: "try-head" }, "Before"), before),
        make("div", {}, make("p", { class: "try-head" }, "After"), after)));
    let order;

    function reorder() {
      if (!scene.answer) return;
      const [rows, columns] = grid(scene.model);
      order = isShuffled.checked ? shuffled(rows * columns) : undefined;
      change();
    }

    const folded = place.closest("details"); // nothing is computed unseen
    folded?.addEventListener("toggle", change);

    function change() {
      again.disabled = !isShuffled.checked;
      how.disabled = which.value === "";
      // nothing moves where there are no positions
      for (const option of [...how.options].slice(1)) {
        option.disabled = isWithout.checked;
      }
      if (isWithout.checked) how.value = "hide";
      if (!scene.answer || folded?.open === false) return;
      paint(...grid(scene.model));
      after.setAttribute("aria-busy", "true");
      ask().catch(tell(after));
    }

    const ask = newest(async () => {
      const [rows, columns] = grid(scene.model);
      const changes = { order, positions: !isWithout.checked,
        drop: [...blocks.querySelectorAll(":checked")].map((x) => +x.value) };
      if (which.value) {
        changes[how.value === "hide" ? "hide" : "move"] =
          four(which.value, rows, columns);
        changes.grey = how.value === "grey";
      }
      if (head.value !== "") changes.head = Number(head.value);
      const { top } = await scene.model.classify(scene.pixels, changes);
      after.replaceChildren(bars(top.slice(0, 3)));
      after.removeAttribute("aria-busy");
    });

    function paint(rows, columns) {
      const pen = canvas.getContext("2d");
      const [h, w] = [224 / rows, 224 / columns];
      const [ph, pw] = [scene.picture.height / rows,
        scene.picture.width / columns];
      const taken = four(which.value, rows, columns);
      const isGone = how.value === "hide";
      canvas.height = taken.length && !isGone ? 224 + 24 : 224; // clears it too
      pen.imageSmoothingEnabled = false;
      const put = (from, ...box) => pen.drawImage(scene.picture,
        (from % columns) * pw, Math.floor(from / columns) * ph, pw, ph, ...box);
      for (let to = 0; to < rows * columns; to++) {
        if (isGone && taken.includes(to)) continue;
        put(order?.[to] ?? to,
          (to % columns) * w, Math.floor(to / columns) * h, w, h);
      }
      taken.forEach((to, i) => { // outside, below it
        const box = [68 + 24 * i, 224 + 8, 16, 16];
        pen.fillStyle = "grey";
        if (how.value === "grey") pen.fillRect(...box);
        else if (!isGone) put(order?.[to] ?? to, ...box);
      });
      canvas.setAttribute("aria-label", (order
        ? "the patches in a random order" : "the picture as it is") +
        (taken.length ? `; of ${FOUR[which.value]}: ${TAKEN[how.value]}` : ""));
    }

    scene.onShown(() => {
      const { depth, num_heads: count } = scene.model.config;
      if (head.options.length !== count + 1) { // another network
        head.replaceChildren(make("option", { value: "" }, "all heads"),
          ...[...Array(count).keys()].map((i) =>
            make("option", { value: i }, `only head ${i + 1}`)));
        blocks.replaceChildren(make("legend", {}, "leave out blocks"),
          ...[...Array(depth).keys()].map((l) => make("label", {},
            make("input", { type: "checkbox", value: l, change }),
            ` ${l + 1}`)));
      }
      before.replaceChildren(bars(scene.answer.top.slice(0, 3)));
      change();
    });
  }

  // -------------------------------------------------------------------- draw

  /** A pen on a pad: `begun` before each stroke, `moved` after each point. */
  function penOn(canvas, begun, moved) {
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    let last = null; // where the pen is, while it is down

    function point({ clientX, clientY }) {
      const box = canvas.getBoundingClientRect();
      return [((clientX - box.left) / box.width) * canvas.width,
        ((clientY - box.top) / box.height) * canvas.height];
    }

    function stroke(event) {
      if (last === null) return;
      const to = point(event);
      Object.assign(pen, { strokeStyle: "white", lineWidth: 24,
        lineCap: "round", lineJoin: "round" });
      pen.beginPath();
      pen.moveTo(...last);
      pen.lineTo(...to);
      pen.stroke();
      last = to;
      moved();
    }
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      begun();
      canvas.setPointerCapture(event.pointerId);
      last = point(event);
      stroke(event);
    });
    canvas.addEventListener("pointermove", stroke);
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, () => {
        last = null;
      });
    }
  }

  /** What is on a square pad as MNIST has it: the ink to 20 pixels, its centre
      of mass in the middle of 28; null of an empty one. */
  function digitOn(canvas) {
    const { width: size } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, size, size);
    const ink = data.filter((_, i) => i % 4 === 0);
    let [x0, y0, x1, y1] = [size, size, -1, -1];
    ink.forEach((each, i) => {
      if (each === 0) return;
      const [x, y] = [i % size, Math.floor(i / size)];
      [x0, x1] = [Math.min(x0, x), Math.max(x1, x)];
      [y0, y1] = [Math.min(y0, y), Math.max(y1, y)];
    });
    if (x1 < 0) return null;
    const [w, h] = [x1 - x0 + 1, y1 - y0 + 1];
    const cut = new Uint8ClampedArray(w * h);
    for (let y = 0; y < h; y++) {
      const from = (y0 + y) * size + x0;
      cut.set(ink.subarray(from, from + w), y * w);
    }
    const scale = 20 / Math.max(w, h);
    const [nw, nh] = [w, h].map((x) => Math.max(1, Math.round(x * scale)));
    const small = vitedu.pictures.resize(
      { data: cut, width: w, height: h, channels: 1 }, nw, nh, "bilinear");
    let [sum, sx, sy] = [0, 0, 0];
    small.data.forEach((each, i) => {
      sum += each;
      sx += each * (i % nw);
      sy += each * Math.floor(i / nw);
    });
    const inside = (x, most) => Math.max(0, Math.min(28 - most, x));
    const left = inside(Math.round(13.5 - sx / sum), nw);
    const top = inside(Math.round(13.5 - sy / sum), nh);
    const data28 = new Uint8ClampedArray(28 * 28);
    for (let y = 0; y < nh; y++) {
      data28.set(small.data.subarray(y * nw, (y + 1) * nw),
        (top + y) * 28 + left);
    }
    return { data: data28, width: 28, height: 28, channels: 1 };
  }

  /** The station "Draw": a digit of yours, and ten bars that move. It gives
      two ways to another digit: the class's sample, and pixels as bytes. */
  function draw(place, scene, load = () => vitedu.load("mnist-tiny")) {
    const size = 280;
    const canvas = make("canvas", { width: size, height: size, role: "img",
      class: "try-pad", "aria-label": "Draw a digit here" });
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const patches = make("canvas", { width: 168, height: 168, role: "img",
      "aria-label": "The digit as the network reads it, in patches" });
    const meters = [...Array(10).keys()].map((digit) => {
      const bar = make("span", { class: "try-bar" });
      return { bar, row: make("li", {}, `${digit} `, bar) };
    });
    const words = make("p", { class: "try-said" });
    const spoken = make("p", { class: "visually-hidden", role: "status" });
    const ink = patches.getContext("2d");
    const examples = [...Array(10).keys()].map((digit) =>
      make("button", { type: "button", "aria-label": `An example of ${digit}`,
        click: () => example(digit) }, `${digit}`));
    place.append(
      make("div", { class: "try-draw" }, canvas,
        make("div", { class: "try-answer" }, words, spoken,
          make("ol", { class: "try-meters", "aria-hidden": "true" },
            ...meters.map(({ row }) => row)))),
      make("p", { class: "try-buttons" },
        make("button", { type: "button", click: clear }, "Clear"),
        scene.isLearner ? "" : " or use a sample: ",
        ...(scene.isLearner ? [] : examples)),
      make("p", { class: "try-head" }, "What it reads, row by row"), patches);

    let isEmpty = true;
    let isSample = false; // the first stroke clears it
    let saying;

    function wipe() {
      pen.fillStyle = "black";
      pen.fillRect(0, 0, size, size);
      isEmpty = true;
      isSample = false;
    }

    function clear() {
      wipe();
      const data = new Uint8ClampedArray(28 * 28);
      show({ data, width: 28, height: 28, channels: 1 }).catch(tell(words));
    }

    penOn(canvas, () => {
      if (isSample) wipe();
    }, () => {
      isEmpty = false;
      const digit = digitOn(canvas);
      if (digit) show(digit).catch(tell(words));
    });

    async function show(digit) {
      const model = await load();
      await scene.show(model, vitedu.pictures.canvasOf(digit),
        vitedu.pictures.normalise(digit, model.preprocess));
    }

    async function example(digit) {
      const bytes = Uint8Array.from(atob(vitedu.digits),
        (each) => each.charCodeAt(0));
      await put(bytes.subarray(784 * digit, 784 * (digit + 1)));
    }

    async function put(data) {
      const picture = { data, width: 28, height: 28, channels: 1 };
      pen.imageSmoothingEnabled = isEmpty = false;
      isSample = true;
      pen.drawImage(vitedu.pictures.canvasOf(picture), 0, 0, size, size);
      await show(picture).catch(tell(words));
    }

    scene.onShown(() => {
      if (scene.model.classNames.length !== meters.length) return; // a puzzle
      for (const { name, share } of vitedu.top(scene.answer.logits,
        scene.model.classNames, 10)) {
        const { bar, row } = meters[Number(name)];
        bar.style.setProperty("--share", 100 * share);
        row.classList.toggle("most", name === scene.answer.top[0].name);
      }
      const [{ name, share }] = scene.answer.top;
      const it = `${name === "8" ? "an" : "a"} ${name} (${percent(share)})`;
      words.textContent = isEmpty
        ? `An empty sheet, it says, is ${it}. It has no word for "nothing".`
        : `It reads ${it}.`;
      clearTimeout(saying); // a screen reader says it once the pen rests
      saying = setTimeout(() => {
        spoken.textContent = words.textContent;
      }, 500);
      ink.clearRect(0, 0, patches.width, patches.height);
      const [side] = grid(scene.model);
      const [cut, cell] = [28 / side, 168 / side];
      for (let i = 0; i < side * side; i++) {
        const [x, y] = [i % side, Math.floor(i / side)];
        ink.imageSmoothingEnabled = false;
        ink.drawImage(scene.picture, cut * x, cut * y, cut, cut,
          cell * x + 2, cell * y + 2, cell - 4, cell - 4);
      }
    });
    wipe();
    return { example, put };
  }

  // -------------------------------------------------------------- photograph

  /** A button that loads the large network and says how large; then `ready`.
      It gives what a click does. */
  function onceLoaded(place, words, ready) {
    place.tabIndex = -1; // for the focus, once the button is gone
    const said = make("p", { class: "try-said", role: "status" });
    const button = make("button", { type: "button", class: "try-load",
      click: load }, `${words} (${MEGABYTES} MB)`);
    place.append(button, said);
    document.addEventListener("try-loaded", () => {
      button.textContent = words; // and nothing is fetched a second time
    });

    async function load() {
      if (button.disabled) return;
      button.disabled = true;
      const share = make("progress", { max: 1, value: 0 });
      said.replaceChildren(`Loading ${MEGABYTES} MB `, share);
      try {
        const [model] = await Promise.all([
          vitedu.load(BIG, (there) => { share.value = there; }),
          vitedu.photos ?? vitedu.run("photos.js")]);
        document.dispatchEvent(new Event("try-loaded"));
        said.remove();
        button.remove();
        place.focus({ preventScroll: true });
        ready(model);
      } catch (error) {
        tell(said)(error);
        button.disabled = false;
      }
    }
    return load;
  }

  /** The middle of a picture, at an address or in a file, into the scene. */
  async function showPhoto(scene, model, source) {
    const picture = await vitedu.pictures.read(source);
    const cut = vitedu.pictures.cutOut(picture, model.preprocess);
    await scene.show(model, vitedu.pictures.canvasOf(cut),
      vitedu.pictures.normalise(cut, model.preprocess));
  }

  /** What the head says after each block. */
  function thoughts(place, scene) {
    const rows = make("tbody");
    place.append(make("table", { class: "try-after table" },
      make("thead", {}, make("tr", {}, make("th", {}, "after block"),
        make("th", {}, "it would say"), make("th", {}, "how sure"))), rows));
    scene.onShown(() => {
      const { answer, model } = scene;
      rows.replaceChildren(...answer.after.map((logits, l) => {
        const [{ name, share }] = vitedu.top(logits, model.classNames, 1);
        return make("tr", {}, make("td", {}, `${l + 1}`),
          make("td", {}, name),
          make("td", {}, percent(share) + (share < UNSURE ? ", a guess" : "")));
      }));
    });
  }

  /** The station "Photograph": the large network, on the book's photographs
      and on yours. */
  function photograph(place, scene, wanted, changed) {
    const said = make("p", { class: "try-said", role: "status" });
    const answer = make("div", { "aria-live": "polite" });
    let model = null; // until it is loaded
    let source = null; // a name of the book's, or a file
    const choices = Object.entries(PHOTOS).map(([name, words]) =>
      make("label", {},
        make("input", { type: "radio", name: "try-photo", value: name,
          change: () => pick(name) }),
        make("img", { src: new URL(`${name}.jpg`, here), alt: words,
          width: 56, height: 56 })));
    const file = make("input", { type: "file", accept: "image/*",
      change: () => file.files[0] && pick(file.files[0]) });
    const box = make("div", { class: "try-drop" },
      make("fieldset", { class: "try-photos" },
        make("legend", {}, "One of the book's photographs"), ...choices),
      make("label", {},
        "or drop one of yours here, or choose it; it never leaves this page: ",
        file));
    place.addEventListener("dragover", (event) => {
      event.preventDefault();
      box.classList.add("over");
    });
    place.addEventListener("dragleave", () => box.classList.remove("over"));
    place.addEventListener("drop", (event) => {
      event.preventDefault();
      box.classList.remove("over");
      const [dropped] = event.dataTransfer.files;
      if (!dropped) return;
      file.value = "";
      pick(dropped);
    });
    const found = make("div", { class: "try-found", hidden: true });
    const load = make("div");
    place.append(box, load, said, found);

    /** What a reader chooses also loads the network. */
    function pick(one) {
      choose(one);
      if (!model) fetchNetwork();
    }

    function choose(one) {
      source = one;
      for (const { firstChild: button } of choices) {
        button.checked = button.value === one;
      }
      if (model) show();
    }

    const show = newest(async () => {
      const isBooks = typeof source === "string";
      said.textContent = "Looking ...";
      found.setAttribute("aria-busy", "true");
      try {
        const from = isBooks ? vitedu.photos[source] : source;
        await showPhoto(scene, model, from);
        said.textContent = "";
        changed({ photo: isBooks ? source : undefined });
      } catch (error) {
        tell(said)(error);
      }
      found.removeAttribute("aria-busy");
    });

    const fetchNetwork = onceLoaded(load, "Load the network", (ready) => {
      model = ready;
      found.hidden = false;
      show();
    });
    function followLink() {
      const { photo: name } = wanted;
      const isOurs = Object.hasOwn(PHOTOS, name);
      if (name !== undefined) {
        land(place);
        said.textContent = isOurs
          ? `The link is to ${PHOTOS[name]}; load the network to see it.`
          : `There is no photograph "${name}"; there are ` +
            `${Object.keys(PHOTOS).join(", ")}.`;
      }
      choose(isOurs ? name : "hopper");
    }
    addEventListener("hashchange", () => { // another link, on this page
      if (!("photo" in linked())) return;
      Object.assign(wanted, linked());
      scene.seen = false;
      followLink();
    });
    scene.onShown(() => {
      const { top } = scene.answer;
      answer.replaceChildren(bars(top), top[0].share < UNSURE
        ? make("p", { class: "try-said" }, "It isn't sure: even the best of a " +
          "thousand names is only a guess.") : "");
    });
    const parts = [1, 2, 3, 4].map(() => make("div"));
    const open = (words, part) =>
      make("details", {}, make("summary", {}, words), part);
    found.append(answer, parts[0],
      open("What would it say after each block?", parts[1]),
      open("What do its patches have in common?", parts[3]),
      open("Break it", parts[2]));
    parts[3].className = "try-kinds"; // filled by see.js
    look(parts[0], scene, wanted, changed);
    thoughts(parts[1], scene);
    breakIt(parts[2], scene);
    followLink();
  }

  // ------------------------------------------------------- the parts of a page

  // The state that a link reproduces: #photo=cat&layer=9&head=2
  const linked = () =>
    Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const state = linked();
  let writing, known = location.hash;
  addEventListener("hashchange", () => { known = location.hash; });

  function remember(news) {
    Object.assign(state, news);
    clearTimeout(writing); // browsers refuse a hundred in a row
    writing = setTimeout(() => {
      if (location.hash !== known) return; // a link that is being followed
      const kept = Object.entries(state)
        .filter(([, value]) => value !== undefined);
      history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
      known = location.hash;
    }, 300);
  }

  const digit = new Scene();
  const photo = new Scene();
  const PARTS = {
    draw(place) {
      const { example } = draw(place, digit);
      vitedu.run("digits.js").then(() => example(3)).catch(tell(place));
    },
    look: (place) =>
      place.dataset.photo ? small(place) : look(place, digit),
    break: (place) => breakIt(place, digit),
    photograph: (place) => photograph(place, photo, state, remember),
  };

  /** "Look" in a chapter: one photograph, once somebody asks for it. */
  function small(place) {
    const scene = new Scene();
    const { photo: name, ...wanted } = place.dataset;
    const found = make("div", { hidden: true });
    onceLoaded(place, "Point at the patches yourself", (model) => {
      found.hidden = false;
      showPhoto(scene, model, vitedu.photos[name]).catch(tell(found));
    });
    place.append(found);
    look(found, scene, wanted);
  }

  document.head.append(make("link", { rel: "stylesheet",
    href: new URL("try.css", here) }));
  for (const place of document.querySelectorAll(".try")) {
    PARTS[place.dataset.part]?.(place); // the others are in switches.js
  }
  vitedu.station = { make, bars, percent, choice, tick, newest, tell, grid,
    onceSeen, onceLoaded, land, showPhoto, Scene, draw, look, linked, remember,
    photo, penOn, digitOn };
})();
