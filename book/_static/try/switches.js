// Switches and sliders in chapters, `<div class="try" data-part="compass"></div>`:
// what a figure says in words, to be turned by hand. The network is in vit.js.
"use strict";

(() => {
  const { make, bars, percent, choice, newest, tell, onceLoaded } =
    vitedu.station;

  /** A slider with its words and its value in words. */
  function slider(words, range, said, changed) {
    const value = make("output");
    const input = make("input", { type: "range", ...range, input: () => {
      value.textContent = said(Number(input.value));
      changed();
    } });
    value.textContent = said(Number(input.value));
    return [make("label", {}, `${words} `, value, input), input];
  }

  // ------------------------------------ chapter 2: a dictionary of the winds

  const WINDS = { north: [0, 1, 4], east: [1, 0, 10], south: [0, -1, 22],
    west: [-1, 0, 14] }; // the key, and the value in degrees

  /** Shares and answer for a query of this length, towards these degrees. */
  function askWinds(degrees, length) {
    const turn = (degrees * Math.PI) / 180;
    const powers = Object.values(WINDS).map(([x, y]) =>
      Math.exp(length * (x * Math.sin(turn) + y * Math.cos(turn))));
    const sum = powers.reduce((one, other) => one + other);
    const shares = powers.map((power) => power / sum);
    const values = Object.values(WINDS).map(([, , value]) => value);
    const answer = shares.reduce((all, share, i) => all + share * values[i], 0);
    return { shares, answer };
  }

  function compass(place) {
    const [turn, degrees] = slider("Direction",
      { min: 0, max: 360, step: 0.1, value: 26.6 }, // the page's query
      (value) => `${Math.round(value)}° from the north`, draw);
    const [reach, power] = slider("Length",
      { min: 0, max: 4, step: 0.05, value: 0 }, // its logarithm
      (value) => `${Math.exp(value).toFixed(1)}`, draw);
    const arrow = "M0 8 L0 -62 M-9 -48 L0 -64 L9 -48";
    const dial = new DOMParser().parseFromString(
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-90 -90 180 180"
        aria-hidden="true"><circle r="68"/><text y="-74">N</text>
        <text x="80" y="5">E</text><text y="86">S</text>
        <text x="-80" y="5">W</text><path d="${arrow}"/></svg>`,
      "image/svg+xml").documentElement;
    const said = make("p", { class: "try-head", "aria-live": "polite" });
    const meters = make("div");
    place.append(make("div", { class: "try-switch" }, dial,
      make("div", { class: "try-controls" }, turn, reach),
      make("div", {}, said, meters)));

    function draw() {
      const { shares, answer } =
        askWinds(Number(degrees.value), Math.exp(power.value));
      dial.querySelector("path").setAttribute("transform",
        `rotate(${degrees.value}) scale(${0.4 + 0.15 * power.value})`);
      said.textContent = `The answer: ${answer.toFixed(2)} °C`;
      meters.replaceChildren(bars(Object.keys(WINDS).map((name, i) =>
        ({ name, share: shares[i] }))));
    }
    draw();
  }

  vitedu.askWinds = askWinds;

  // ------------------------------------------- chapter 3: one part taken out

  const TAKEN = { "": "nothing", "plus signs": "the plus signs",
    norms: "the norms", attention: "attention", MLPs: "the MLPs" };
  // Hopper is cut tighter on the page, so her numbers would differ
  const NAMED = { cat: "the cat", coffee: "the coffee",
    astronaut: "the astronaut", rocket: "the rocket" };

  /** A photograph as the network's numbers, and as a picture. */
  async function read(name, { preprocess }) {
    const picture = await vitedu.pictures.read(vitedu.photos[name]);
    const cut = vitedu.pictures.cutOut(picture, preprocess);
    return { canvas: vitedu.pictures.canvasOf(cut),
      pixels: vitedu.pictures.normalise(cut, preprocess) };
  }

  function parts(place) {
    const found = make("div", { class: "try-switch", hidden: true });
    onceLoaded(place, "Take the parts out yourself", (model) => {
      const [asked, name] = choice("Show it", NAMED, () => change());
      const [taken, without] =
        choice("Take out of every block", TAKEN, () => change());
      const answer = make("div", { "aria-live": "polite" });
      const picture = make("div");
      found.append(picture, make("div", { class: "try-controls" }, asked, taken),
        make("div", {}, make("p", { class: "try-head" }, "What it says"), answer));

      const change = () => ask().catch(tell(answer));
      const ask = newest(async () => {
        answer.setAttribute("aria-busy", "true");
        const { canvas, pixels } = await read(name.value, model);
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", NAMED[name.value]);
        picture.replaceChildren(canvas);
        const changes = without.value ? { without: without.value } : {};
        const { top } = await model.classify(pixels, changes);
        answer.replaceChildren(bars(top.slice(0, 3)));
        answer.removeAttribute("aria-busy");
      });
      found.hidden = false;
      change();
    });
    place.append(found);
  }

  // ---------------------------------------------- chapter 6: a share of mixup

  function mixup(place) {
    const found = make("div", { class: "try-switch", hidden: true });
    onceLoaded(place, "Mix them yourself", async (model) => {
      const [one, other] = await Promise.all(
        ["cat", "coffee"].map((name) => read(name, model)));
      const { width, height } = one.canvas;
      const canvas = make("canvas", { width, height, role: "img" });
      const [control, share] = slider("Share of the cat",
        { min: 0, max: 100, value: 70 }, (value) => `${value}%`, change);
      const answer = make("div", { "aria-live": "polite" });
      found.append(canvas, make("div", { class: "try-controls" }, control),
        make("div", {}, make("p", { class: "try-head" }, "What it says"), answer));

      function change() {
        const cat = share.value / 100;
        const pen = canvas.getContext("2d");
        pen.globalAlpha = 1;
        pen.drawImage(other.canvas, 0, 0);
        pen.globalAlpha = cat;
        pen.drawImage(one.canvas, 0, 0);
        canvas.setAttribute("aria-label",
          `${percent(cat)} a cat, and the rest a cup of coffee`);
        ask(cat).catch(tell(answer));
      }
      const ask = newest(async (cat) => {
        answer.setAttribute("aria-busy", "true");
        const pixels = one.pixels.map((each, i) =>
          cat * each + (1 - cat) * other.pixels[i]);
        const { top } = await model.classify(pixels);
        answer.replaceChildren(bars(top.slice(0, 3)));
        answer.removeAttribute("aria-busy");
      });
      found.hidden = false;
      change();
    });
    place.append(found);
  }

  // --------------------------------------------- chapter 20: a patch's kin

  /** Bytes of a text in base64, as numbers from -128 to 127. */
  function signed(text) {
    const bytes = atob(text);
    return Int8Array.from(bytes, (letter) => letter.charCodeAt(0));
  }

  /** The cosine of each patch with one of them, from the page's numbers. */
  function kinOf({ grid: [rows, columns], tokens }, patch) {
    const numbers = signed(tokens);
    const size = numbers.length / (rows * columns);
    const row = (i) => numbers.subarray(i * size, (i + 1) * size);
    const dot = (a, b) => a.reduce((sum, each, k) => sum + each * b[k], 0);
    const mine = row(patch);
    const length = Math.sqrt(dot(mine, mine));
    return Array.from({ length: rows * columns }, (_, i) =>
      dot(mine, row(i)) / length / Math.sqrt(dot(row(i), row(i))));
  }

  function kin(place) {
    const told = JSON.parse(place.dataset.told);
    const side = 512;
    const canvas = make("canvas", { width: side, height: side, tabindex: 0,
      role: "application", click: point, keydown: step });
    const names = Object.fromEntries(Object.keys(told).map((x) => [x, x]));
    const [asked, name] = choice("Photograph", names, show);
    const words = make("p", { class: "try-said", "aria-live": "polite" });
    place.append(make("div", { class: "try-switch try-kin" }, canvas,
      make("div", { class: "try-controls" }, asked),
      make("div", {}, make("p", { class: "try-head" },
        "Click a patch, or move with the arrow keys"), words)));
    const picture = new Image();
    picture.addEventListener("load", draw);
    let patch = null; // row, column

    function show() {
      const [rows, columns] = told[name.value].grid;
      patch ??= [Math.floor(rows / 2), Math.floor(columns / 2)];
      picture.src = `data:image/jpeg;base64,${told[name.value].picture}`;
    }

    function point({ clientX, clientY }) {
      const { left, top, width, height } = canvas.getBoundingClientRect();
      const [rows, columns] = told[name.value].grid;
      patch = [Math.floor(((clientY - top) / height) * rows),
        Math.floor(((clientX - left) / width) * columns)];
      draw();
    }

    function step(event) {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1],
        ArrowRight: [0, 1] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      patch = patch.map((at, i) =>
        Math.min(told[name.value].grid[i] - 1, Math.max(0, at + move[i])));
      draw();
    }

    function draw() {
      const [rows, columns] = told[name.value].grid;
      const cosines = kinOf(told[name.value], patch[0] * columns + patch[1]);
      const pen = canvas.getContext("2d");
      const [wide, high] = [side / columns, side / rows];
      pen.drawImage(picture, 0, 0, side, side);
      cosines.forEach((cosine, i) => {
        pen.fillStyle = `rgba(0, 0, 0, ${0.85 * (1 - Math.max(0, cosine))})`;
        pen.fillRect((i % columns) * wide, Math.floor(i / columns) * high,
          wide, high);
      });
      const frame = [patch[1] * wide, patch[0] * high, wide, high];
      for (const [color, width] of [["black", 5], ["white", 2]]) {
        pen.strokeStyle = color;
        pen.lineWidth = width;
        pen.strokeRect(...frame);
      }
      const near = cosines.filter((cosine) => cosine > 0.5).length;
      const where = `Row ${patch[0]}, column ${patch[1]}`;
      canvas.setAttribute("aria-label", `${name.value}. ${where}`);
      words.textContent = `${where}: ${near} of ${rows * columns} patches ` +
        "have a cosine above 0.5.";
    }
    show();
  }

  // ------------------------------------- chapter 10: one photograph, any size

  function sizes(place) {
    const told = JSON.parse(place.dataset.told);
    const sides = Object.keys(told.answers).map(Number);
    const most = 384;
    const canvas = make("canvas", { width: most, height: most, role: "img" });
    const words = make("p", { class: "try-said", "aria-live": "polite" });
    const head = make("p", { class: "try-head" });
    const [label, input] = slider("Side of the image:", { min: sides[0],
      max: sides[sides.length - 1], step: 32, value: 224 },
      (side) => `${side} pixels`, draw);
    place.append(make("div", { class: "try-switch try-kin" }, canvas,
      make("div", { class: "try-controls" }, label), make("div", {}, head,
        words)));
    const picture = new Image();
    picture.addEventListener("load", draw);
    picture.src = `data:image/jpeg;base64,${told.picture}`;

    function draw() {
      const rows = Number(input.value) / 16;
      const pen = canvas.getContext("2d");
      pen.drawImage(picture, 0, 0, most, most);
      pen.strokeStyle = "#5b9bd5";
      for (let i = 1; i < rows; i += 1) {
        const edge = Math.round((i * most) / rows) + 0.5;
        pen.strokeRect(edge, -1, most, most + 2);
        pen.strokeRect(-1, edge, most + 2, most);
      }
      const [best, ...others] = told.answers[input.value].map(
        ([name, share]) => `${name} ${share}%`);
      canvas.setAttribute("aria-label", `The photograph in ${rows} rows of ` +
        "patches");
      head.textContent = best;
      words.textContent = `then ${others.join(", ")}. ${rows * rows} patches`;
    }
    draw();
  }

  vitedu.kinOf = kinOf;

  const SWITCHES = { compass, parts, mixup, kin, sizes };
  for (const place of document.querySelectorAll(".try")) {
    SWITCHES[place.dataset.part]?.(place);
  }
})();
