// Switches and sliders in chapters, `<div class="try" data-part="compass"></div>`:
// what a figure says in words, to be turned by hand. The network is in vit.js.
"use strict";

(() => {
  const { make, bars, percent, choice, newest, tell, onceLoaded, penOn,
    digitOn } = vitedu.station;

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

    function point(event) {
      patch = cellAt(event, canvas, told[name.value].grid);
      draw();
    }

    function step(event) {
      const move = ARROWS[event.key];
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

  // -------------------------------------- chapter 15: the corners by hand

  const CIVIDIS = [[0, 34, 78], [125, 124, 120], [254, 232, 56]];

  /** The colour of a share from 0 to 1, as the chapter's maps have it. */
  function colour(share) {
    const at = Math.min(1, Math.floor(2 * share));
    const mixed = CIVIDIS[at].map((low, i) =>
      low + (2 * share - at) * (CIVIDIS[at + 1][i] - low));
    return `rgb(${mixed.map(Math.round)})`;
  }

  function corners(place) {
    const told = JSON.parse(place.dataset.told);
    const [side, grid, cell] = [224, 14, 16];
    // the photograph, its map, and a row below for what has no place in it
    const canvas = make("canvas", { width: 2 * side + cell,
      height: side + 2 * cell, role: "img" });
    const changes = Object.fromEntries(told.changes.map(([name], i) => [i, name]));
    const [asked, change] = choice("The corners", changes, draw);
    const names = Object.keys(told.pictures);
    const [pictured, name] = choice("Photograph",
      Object.fromEntries(names.map((each) => [each, each])), show);
    const loss = make("p", { class: "try-head" });
    const words = make("p", { class: "try-said" });
    const answer = make("div");
    place.append(make("div", { class: "try-switch try-corners" }, canvas,
      make("div", { class: "try-controls" }, asked, pictured),
      make("div", { "aria-live": "polite" }, loss, words, answer)));
    const picture = new Image();
    picture.addEventListener("load", draw);

    function show() {
      picture.src = told.pictures[name.value];
    }

    function draw() {
      const [what, added, photographs] = told.changes[change.value];
      const { lengths, giants: [inside, outside], top } =
        photographs[names.indexOf(name.value)];
      const sizes = Uint8Array.from(atob(lengths), (x) => x.charCodeAt(0));
      const others = sizes.length - grid * grid;
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(picture, 0, 0, side, side);
      sizes.forEach((size, i) => {
        if (!size) return;
        const patch = i - others;
        const [row, column] = patch < 0
          ? [grid + 1, grid / 2 - others + 2 * i]
          : [Math.floor(patch / grid), patch % grid];
        pen.fillStyle = colour((size - 1) / 254);
        pen.fillRect(side + cell + column * cell, row * cell, cell, cell);
      });
      const where = `${inside} in the picture` +
        (others ? `, ${outside} among the registers` : "");
      canvas.setAttribute("aria-label",
        `${name.value} and how long its tokens are, corners ${what}`);
      loss.textContent = `Loss on a thousand photographs: ${added}`;
      words.textContent = `Giants in this one: ${where}. It says:`;
      answer.replaceChildren(bars(top.map(([name, share]) => ({ name, share }))));
    }
    show();
  }

  /** Where a canvas was pointed at, in cells: [row, column]. */
  function cellAt({ clientX, clientY }, canvas, [rows, columns]) {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const at = [((clientY - top) / height) * rows,
      ((clientX - left) / width) * columns];
    return at.map((x, i) =>
      Math.min([rows, columns][i] - 1, Math.max(0, Math.floor(x))));
  }

  const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1],
    ArrowRight: [0, 1] };

  /** `call` with each cell that a pointer comes to, pressed; the first too. */
  function dragged(canvas, grid, call) {
    let last = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      last = cellAt(event, canvas, grid);
      call(last, true);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (last === null) return;
      const now = cellAt(event, canvas, grid);
      if (String(now) !== String(last)) call(last = now, false);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, () => {
        last = null;
      });
    }
  }

  // ------------------------------------ chapter 16: which of six networks knows?

  const SIX = 6; // patches along a side of the picture

  /** What a network says of two cells, in tenths of "A is left of B"; of all
      pairs of cells in two columns, the first cell's pairs come first. */
  function tenthsOf(tenths, a, b) {
    const before = Math.max(0, Math.floor((b + SIX - 1 - (a % SIX)) / SIX));
    return Number(tenths[a * SIX * (SIX - 1) + b - before]);
  }

  function pairs(place) {
    const { tenths, glyphs } = JSON.parse(place.dataset.told);
    const side = 384;
    const colors = ["#2f6fb0", "#b8323a"];
    const at = [[0, 0], [0, 5]]; // row and column of A and of B
    let held = 0;
    const canvas = make("canvas", { width: side, height: side, tabindex: 0,
      role: "application", keydown: step });
    const [asked, moved] = choice("Arrow keys move", { 0: "A", 1: "B" },
      (value) => { held = Number(value); });
    const head = make("p", { class: "try-head" });
    const said = make("p", { class: "try-said", "aria-live": "polite" });
    const answers = make("ol", { class: "guesses try-six" });
    place.append(make("div", { class: "try-switch try-kin" }, canvas,
      make("div", {}, head, answers),
      make("div", { class: "try-controls" }, asked,
        make("button", { type: "button", click: mirror },
          "Both to the other half"), said)));
    dragged(canvas, [SIX, SIX], (cell, isFirst) => {
      if (isFirst) held = nearest(cell);
      moved.value = held;
      move(cell);
    });

    function nearest([row, column]) {
      const far = at.map(([r, c]) => (r - row) ** 2 + (c - column) ** 2);
      return far[0] <= far[1] ? 0 : 1;
    }

    function move(cell) {
      const isFree = String(cell) !== String(at[1 - held]);
      if (isFree && cell.every((x) => x >= 0 && x < SIX)) at[held] = cell;
      draw();
    }

    function step(event) {
      const by = ARROWS[event.key];
      if (!by) return;
      event.preventDefault();
      move(at[held].map((x, i) => x + by[i]));
    }

    function mirror() {
      for (const cell of at) cell[0] = SIX - 1 - cell[0];
      draw();
    }

    function draw() {
      const pen = canvas.getContext("2d");
      const cell = side / SIX;
      pen.fillStyle = "rgb(128, 128, 128)";
      pen.fillRect(0, 0, side, side);
      pen.setLineDash([4, 8]);
      Object.assign(pen, { strokeStyle: "white", lineWidth: 2 });
      pen.strokeRect(-9, side / 2, side + 18, side);
      pen.setLineDash([]);
      at.forEach(([row, column], k) => {
        const [x, y, dot] = [column * cell, row * cell, cell / 4];
        [...glyphs[k]].forEach((lit, i) => {
          pen.fillStyle = lit === "1" ? "rgb(192, 192, 192)" : "rgb(64, 64, 64)";
          pen.fillRect(x + (i % 4) * dot, y + Math.floor(i / 4) * dot, dot, dot);
        });
        Object.assign(pen, { strokeStyle: colors[k], lineWidth: 5 });
        pen.strokeRect(x + 2.5, y + 2.5, cell - 5, cell - 5);
        pen.fillStyle = colors[k];
        pen.fillRect(x, y, 22, 24);
        Object.assign(pen, { fillStyle: "white", font: "bold 18px sans-serif" });
        pen.fillText("AB"[k], x + 5, y + 18);
      });
      sayAll();
    }

    function sayAll() {
      const [a, b] = at.map(([row, column]) => row * SIX + column);
      const where = at.map(([row, column], k) =>
        `${"AB"[k]} in row ${row + 1}, column ${column + 1}`).join("; ");
      canvas.setAttribute("aria-label", where);
      if (a % SIX === b % SIX) {
        head.textContent = "Neither is further left.";
        said.textContent = `${where}.`;
        answers.replaceChildren();
        return;
      }
      const isLeft = a % SIX < b % SIX;
      head.textContent = `Is A left of B? ${isLeft ? "Yes" : "No"}. ` +
        "How sure each of them is of yes:";
      const right = [];
      answers.replaceChildren(...Object.entries(tenths).map(([name, all]) => {
        const tenth = tenthsOf(all, a, b);
        const isRight = tenth >= 5 === isLeft;
        if (isRight) right.push(name);
        const words = `${tenth >= 5 ? "yes" : "no"} ${isRight ? "✓" : "✗"}`;
        return make("li", { style: `--share: ${10 * tenth + 5}` },
          make("span", {}, name), " ", make("span", {}, words));
      }));
      said.textContent = `${where}. Right: ${right.join(", ") || "none"}.`;
    }
    draw();
  }

  vitedu.tenthsOf = tenthsOf;

  // --------------------------------- chapter 19: a picture from what is visible

  const COVER = [232, 176, 74]; // as in the chapter's figures

  function mask(place) {
    const [rows, size] = [7, 28];
    const count = rows * rows;
    const grid = [rows, rows];
    // the chapter's: two columns of a digit
    const hidden = Array.from({ length: count }, (_, i) =>
      i >= 42 || ![2, 3].includes(i % rows));
    let cursor = [0, 2];
    let covers = true; // what a pointer that is pressed does
    let model, reader, picture, pixels;
    const drawn = (words, more) => {
      const canvas = make("canvas",
        { width: 280, height: 280, role: "img", "aria-label": words, ...more });
      return [make("figure", {}, canvas, make("figcaption", {}, words)), canvas];
    };
    const [first, seen] = drawn("what it sees",
      { tabindex: 0, role: "application", keydown: press });
    const [second, whole] = drawn("completed");
    const [third, original] = drawn("as it is (write here)",
      { class: "try-pad" });
    let isSample = true; // the first stroke clears it
    const digits = Object.fromEntries([...Array(10).keys()].map((x) => [x, x]));
    const [asked, digit] = choice("Digit", digits, () => show());
    const said = make("p", { class: "try-said", "aria-live": "polite" },
      "Loading ...");
    const named = make("div");
    digit.value = 4;
    place.append(make("p", { class: "try-head" },
      "Cover and uncover patches on the left, write a digit on the right"),
    make("div", { class: "try-three" }, first, second, third),
    make("p", { class: "try-buttons" }, asked,
      make("button", { type: "button", click: shuffle },
        "Cover three quarters at random"),
      make("button", { type: "button", click: wipe },
        "Write another one")), said,
    make("p", { class: "try-head" }, "What chapter 5's classifier reads in it"),
    named);
    dragged(seen, grid, (cell, isFirst) => {
      const at = cell[0] * rows + cell[1];
      if (isFirst) covers = !hidden[at];
      cursor = cell;
      cover(at, covers);
    });

    penOn(original, () => isSample && wipe(), () => {
      const drawn = model && digitOn(original);
      if (!drawn) return; // a stroke's first point may leave no ink
      picture = drawn;
      pixels = vitedu.pictures.normalise(picture, model.preprocess);
      change();
    });

    function wipe() {
      const pen = original.getContext("2d");
      pen.fillStyle = "black";
      pen.fillRect(0, 0, original.width, original.height);
      isSample = false;
    }

    function cover(at, isCovered) {
      const isLast = hidden.filter((x) => !x).length === 1;
      if (isCovered && isLast && !hidden[at]) return; // one is left to see
      hidden[at] = isCovered;
      change();
    }

    function press(event) {
      const at = cursor[0] * rows + cursor[1];
      const by = ARROWS[event.key];
      if (!by && event.key !== " ") return;
      event.preventDefault();
      if (!by) return cover(at, !hidden[at]);
      cursor = cursor.map((x, i) =>
        Math.min(rows - 1, Math.max(0, x + by[i])));
      change();
    }

    function shuffle() {
      const order = hidden.map((_, i) => [Math.random(), i]).sort(
        ([one], [other]) => one - other);
      order.forEach(([, i], rank) => { hidden[i] = rank < 37; });
      change();
    }

    /** Levels (28 x 28), enlarged onto a canvas; no digit where covered. */
    function paint(canvas, levels, covered) {
      const pen = canvas.getContext("2d");
      const small = vitedu.pictures.canvasOf(
        { data: levels, width: size, height: size, channels: 1 });
      pen.imageSmoothingEnabled = false;
      pen.drawImage(small, 0, 0, canvas.width, canvas.height);
      const cell = canvas.width / rows;
      covered?.forEach((isHidden, i) => {
        if (!isHidden) return;
        pen.fillStyle = `rgb(${COVER.join(", ")})`;
        pen.fillRect((i % rows) * cell, Math.floor(i / rows) * cell, cell, cell);
      });
    }

    function change() {
      if (!model) return;
      paint(seen, picture.data, hidden);
      const pen = seen.getContext("2d");
      const cell = seen.width / rows;
      Object.assign(pen, { strokeStyle: "#3333ff", lineWidth: 3 });
      pen.strokeRect(cursor[1] * cell + 1.5, cursor[0] * cell + 1.5,
        cell - 3, cell - 3);
      const some = hidden.filter((x) => !x).length;
      seen.setAttribute("aria-label", `What it sees: ${some} of ${count} ` +
        `patches. Row ${cursor[0] + 1}, column ${cursor[1] + 1}: ` +
        `${hidden[cursor[0] * rows + cursor[1]] ? "covered" : "visible"}`);
      said.textContent = `It sees ${some} of ${count} patches` +
        (Math.abs(some - 12) > 4 ? "; it has learned with twelve." : ".");
      ask().catch(tell(said));
    }

    const ask = newest(async () => {
      const now = [...hidden];
      const { patches } = await model.complete(pixels, now);
      const levels = picture.data.map((level, i) => {
        const [y, x] = [Math.floor(i / size), i % size];
        const patch = Math.floor(y / 4) * rows + Math.floor(x / 4);
        const found = patches[16 * patch + 4 * (y % 4) + (x % 4)];
        return now[patch] ? 127.5 * (found + 1) : level; // it clips itself
      });
      paint(whole, levels);
      const read = { ...picture, data: levels };
      const { top } = await reader.classify(
        vitedu.pictures.normalise(read, reader.preprocess));
      named.replaceChildren(bars(top.slice(0, 3)));
      place.dataset.completed = now.map(Number).join("");
    });

    function show() {
      const bytes = Uint8ClampedArray.from(atob(vitedu.digits),
        (each) => each.charCodeAt(0));
      const area = size * size;
      const data = bytes.slice(area * digit.value, area * (+digit.value + 1));
      picture = { data, width: size, height: size, channels: 1 };
      pixels = vitedu.pictures.normalise(picture, model.preprocess);
      paint(original, data);
      isSample = true;
      change();
    }

    Promise.all([vitedu.load("mae-mnist"), vitedu.load("mnist-tiny"),
      vitedu.run("digits.js")]).then((loaded) => {
      [model, reader] = loaded;
      show();
    }).catch(tell(said));
  }

  const SWITCHES =
    { compass, parts, mixup, kin, sizes, corners, pairs, mask };
  for (const place of document.querySelectorAll(".try")) {
    SWITCHES[place.dataset.part]?.(place);
  }
})();
