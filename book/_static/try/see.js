// What the large network makes of photographs, beyond their names: its patches
// in colours, and classes of the reader's own from five photographs each.
"use strict";

(() => {
  const { make, choice, newest, tell, grid, onceLoaded, photo } =
    vitedu.station;
  const SIDE = 448; // of a picture on the page, in its own pixels
  const GIANT = 4; // times the median length: vitedu.interpret.giants

  // ------------------------- chapter 20: components, and what is like a patch

  const dot = (a, b) => a.reduce((sum, each, k) => sum + each * b[k], 0);
  const length = (a) => Math.sqrt(dot(a, a));
  const unit = (a) => {
    const by = length(a) || 1;
    return a.map((each) => each / by);
  };
  const less = (a, b) => a.map((each, k) => each - b[k]);

  /** Tokens (n, d) as rows of length 1 less their mean; giants are null. */
  function rowsOf(tokens, n) {
    const d = tokens.length / n;
    const rows = Array.from({ length: n }, (_, i) =>
      Float64Array.from(tokens.subarray(i * d, (i + 1) * d)));
    const lengths = rows.map(length);
    const median = [...lengths].sort((a, b) => a - b)[(n - 1) >> 1];
    const usual = rows.map((row, i) =>
      lengths[i] > GIANT * median ? null : unit(row));
    const kept = usual.filter(Boolean);
    const mean = new Float64Array(d).map((_, k) =>
      kept.reduce((sum, row) => sum + row[k], 0) / kept.length);
    return usual.map((row) => row && less(row, mean));
  }

  /** Three principal components of rows, by repeated multiplication: axes. */
  function principal(rows) {
    const kept = rows.filter(Boolean);
    const d = kept[0].length;
    const axes = [1, 2, 3].map((which) =>
      Float64Array.from({ length: d }, (_, k) => Math.sin(which * k + 1)));
    for (let round = 0; round < 60; round++) {
      axes.forEach((axis, at) => {
        const next = new Float64Array(d);
        for (const row of kept) {
          const share = dot(row, axis);
          row.forEach((each, k) => { next[k] += share * each; });
        }
        for (const before of axes.slice(0, at)) {
          const share = dot(next, before);
          before.forEach((each, k) => { next[k] -= share * each; });
        }
        axis.set(unit(next));
      });
    }
    return axes;
  }

  /** Patches as colours, (n) times [r, g, b] of 0 to 1: chapter 20's
      `components`. A component runs from its 2nd to its 98th percentile. */
  function colours(tokens, n) {
    const rows = rowsOf(tokens, n);
    const found = rows.map((row) => row && []);
    for (const axis of principal(rows)) {
      const values = rows.map((row) => row && dot(row, axis));
      const sorted = values.filter((x) => x !== null).sort((a, b) => a - b);
      const quantile = (share) => {
        const at = share * (sorted.length - 1);
        const [low, high] = [Math.floor(at), Math.ceil(at)];
        return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
      };
      const [low, high] = [quantile(0.02), quantile(0.98)];
      values.forEach((value, i) => found[i]?.push(
        Math.max(0, Math.min(1, (value - low) / (high - low)))));
    }
    return found.map((colour) => colour ?? [0.5, 0.5, 0.5]);
  }

  /** How similar all patches are to one of them: `vitedu.interpret.similar_to`;
      null for giants, and for all if the one is a giant. */
  function similar(tokens, n, patch) {
    const rows = rowsOf(tokens, n).map((row) => row && unit(row));
    const one = rows[patch];
    return rows.map((row) => row && one && dot(row, one));
  }

  Object.assign(vitedu, { colours, similar });

  function kinds(place, scene) {
    const canvas = make("canvas", { width: SIDE, height: SIDE, tabindex: 0,
      role: "application", click: point, keydown: step,
      pointermove: (event) => { // once somebody has asked for one
        if (event.pointerType === "mouse" && view.value === "similar") {
          point(event);
        }
      } });
    const VIEWS = { colours: "components",
      similar: "what is alike" };
    const [views, view] = choice("Show", VIEWS, draw);
    const said = make("output");
    const block = make("input", { type: "range", min: 1, step: 1,
      input: () => change() });
    const words = make("p", { class: "try-said", "aria-live": "polite" });
    place.append(make("div", { class: "try-look" }, canvas,
      make("div", { class: "try-controls" }, views,
        make("label", {}, "After block ", said, block))), words);
    const fold = place.closest("details"); // nothing is computed unseen
    fold.addEventListener("toggle", () => change());
    let patch, tokens;

    const change = newest(async () => {
      if (!scene.answer || !fold.open) return;
      said.textContent = `${block.value} of ${scene.model.config.depth}`;
      try {
        ({ tokens } = await scene.model.classify(
          scene.pixels, { tokens: block.value - 1 }));
        draw();
      } catch (error) {
        tell(words)(error);
      }
    });

    function point({ clientX, clientY }) {
      const box = canvas.getBoundingClientRect();
      const [rows, columns] = grid(scene.model);
      const at = (x, most) => Math.max(0, Math.min(most - 1, Math.floor(x)));
      const row = at(((clientY - box.top) / box.height) * rows, rows);
      const found = row * columns +
        at(((clientX - box.left) / box.width) * columns, columns);
      if (found === patch && view.value === "similar") return;
      patch = found;
      view.value = "similar";
      draw();
    }

    function step(event) {
      const [rows, columns] = grid(scene.model);
      const [row, column] = [Math.floor(patch / columns), patch % columns];
      const [y, x] = { ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
        ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      }[event.key] ?? [];
      if (y === undefined) return;
      event.preventDefault();
      if (y < 0 || y >= rows || x < 0 || x >= columns) return;
      patch = y * columns + x;
      view.value = "similar";
      draw();
    }

    function draw() {
      if (!tokens) return;
      const [rows, columns] = grid(scene.model);
      const n = rows * columns;
      const [wide, high] = [SIDE / columns, SIDE / rows];
      const isOne = view.value === "similar";
      const pen = canvas.getContext("2d");
      pen.drawImage(scene.picture, 0, 0, SIDE, SIDE);
      const cosines = isOne && similar(tokens, n, patch);
      const fills = isOne
        ? cosines.map((x) => `rgb(0 0 0 / ${0.85 * (1 - Math.max(0, x))})`)
        : colours(tokens, n).map((colour) =>
          `rgb(${colour.map((x) => Math.round(255 * x)).join(" ")} / 0.85)`);
      fills.forEach((fill, i) => {
        pen.fillStyle = fill;
        pen.fillRect((i % columns) * wide, Math.floor(i / columns) * high,
          wide, high);
      });
      const where = `row ${Math.floor(patch / columns) + 1}, ` +
        `column ${(patch % columns) + 1}`;
      if (isOne) {
        for (const [colour, width] of [["black", 5], ["white", 2]]) {
          Object.assign(pen, { strokeStyle: colour, lineWidth: width });
          pen.strokeRect((patch % columns) * wide,
            Math.floor(patch / columns) * high, wide, high);
        }
      }
      canvas.setAttribute("aria-label", isOne
        ? `How much each patch is like that in ${where}`
        : "The picture's patches, in the colours of three components");
      words.textContent = !isOne
        ? "Patches of one colour are alike to the network; which colour it " +
          "is says nothing. Click one to see what is like it."
        : cosines[patch] === null
          ? `The patch in ${where} is a giant: its token holds notes about ` +
            "the whole picture, and resembles no other."
          : `${cosines.filter((x) => x > 0.5).length} of ${n} patches have a ` +
            `cosine above 0.5 with the one in ${where}.`;
    }

    scene.onShown(() => {
      const [rows, columns] = grid(scene.model);
      if (patch === undefined) {
        patch = (rows >> 1) * columns + (columns >> 1);
        block.max = scene.model.config.depth;
        block.value = Math.round(0.6 * block.max);
      }
      tokens = null;
      change();
    });
  }

  // ------------------------------------------------- chapter 13: five shots

  const SHOTS = 5; // are enough; more do no harm
  const names = ["first thing", "second thing"];

  /** The reader's own classes: the mean of each one's features, and for a new
      photograph the nearest mean. */
  function shots(place) {
    const found = make("div", { hidden: true });
    onceLoaded(place, "Teach it two things of yours", (model) => {
      found.hidden = false;
      begin(model).catch(tell(found));
    });
    place.append(found);

    async function begin(model) {
      const said = make("p", { class: "try-said", role: "status" });
      const classes = make("div", { class: "try-shots" });
      const answer = make("div", { "aria-live": "polite" });
      const groups = []; // { name, features: [...] }
      const camera = film(said);

      /** A photograph's features (d), and the square that was read. */
      async function featuresOf(source) {
        const picture = source.data ? source
          : await vitedu.pictures.read(source);
        const cut = vitedu.pictures.cutOut(picture, model.preprocess);
        const { features } = await model.classify(
          vitedu.pictures.normalise(cut, model.preprocess));
        return { features: Float64Array.from(features),
          canvas: vitedu.pictures.canvasOf(cut) };
      }

      const picker = (words, take, more = {}) => {
        const input = make("input", { type: "file", accept: "image/*", ...more,
          change: () => {
            take([...input.files]).catch(tell(said));
            input.value = "";
          } });
        return make("label", {}, words, input);
      };
      const snap = (take) => make("button", { type: "button", click: () =>
        camera.shoot().then((shot) => shot && take([shot])).catch(tell(said)) },
      "Take one with the camera");

      function add(name) {
        const group = { name, features: [] };
        const input = make("input", { type: "text", value: name, maxlength: 40,
          "aria-label": "What it is", input: () => {
            group.name = input.value || name;
            decide();
          } });
        const pictures = make("div", { class: "try-ten" });
        const take = async (sources) => {
          said.textContent = "Looking ...";
          for (const source of sources) {
            const { features, canvas } = await featuresOf(source);
            canvas.setAttribute("role", "img");
            canvas.setAttribute("aria-label", `${group.name}, ` +
              `photograph ${group.features.length + 1}`);
            group.features.push(features);
            pictures.append(canvas);
          }
          said.textContent = "";
          decide();
        };
        groups.push(group);
        classes.append(make("div", {}, input, pictures,
          make("div", { class: "try-controls" },
            picker("Photographs ", take, { multiple: true }), snap(take))));
      }

      let asked; // the features of the photograph in question
      const question = make("div", { class: "try-ten" });
      async function ask([source]) {
        if (!source) return;
        said.textContent = "Looking ...";
        const { features, canvas } = await featuresOf(source);
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", "the photograph in question");
        question.replaceChildren(canvas);
        asked = features;
        said.textContent = "";
        decide();
      }

      /** The nearest of the means, and how much nearer than the next. */
      function decide() {
        const ready = groups.filter(({ features }) => features.length);
        const counts = groups.map(({ name, features }) =>
          `${features.length} of ${name}`).join(", ");
        if (ready.length < 2 || !asked) {
          answer.replaceChildren(ready.length < 2
            ? `So far ${counts}. Give it at least one of each, ${SHOTS} are ` +
              "better; then a new one."
            : `It has ${counts}. Now show it one that it hasn't seen.`);
          return;
        }
        const near = nearest(ready.map(({ features }) => features), asked);
        const [{ distance: least }] = near;
        answer.replaceChildren(
          make("ol", { class: "guesses" }, ...near.map(({ which, distance }) =>
            make("li", { style: `--share: ${100 * least / distance}` },
              make("span", {}, ready[which].name), " ",
              make("span", {}, distance === least ? "nearest"
                : `${(distance / least).toFixed(2)} times as far`)))),
          make("p", { class: "try-said" }, `From ${counts}.`));
      }

      names.forEach(add);
      found.append(make("p", { class: "try-buttons" },
        make("button", { type: "button", click: () => {
          add(`thing ${groups.length + 1}`);
          decide();
        } }, "Another thing")), classes, camera.place,
      make("p", { class: "try-head" }, "And what is this?"),
      make("div", { class: "try-controls" }, picker("A new photograph ", ask),
        snap(ask)), question, said, answer);
      decide();
    }
  }

  /** Classes by their photographs' features: which of them, and how far the
      mean of its features is; the nearest first. */
  function nearest(classes, features) {
    return classes.map((rows, which) => {
      const mean = features.map((_, k) =>
        rows.reduce((sum, row) => sum + row[k], 0) / rows.length);
      return { which, distance: length(less(mean, features)) };
    }).sort((a, b) => a.distance - b.distance);
  }

  vitedu.nearest = nearest;

  /** The camera, once somebody asks for it: a button that takes a picture. */
  function film(said) {
    const video = make("video", { playsinline: true, muted: true });
    const stop = make("button", { type: "button", click: end },
      "Switch the camera off");
    const place = make("div", { class: "try-film", hidden: true }, video, stop);
    let stream = null;

    function end() {
      stream?.getTracks().forEach((track) => track.stop());
      stream = null;
      place.hidden = true;
    }

    /** A picture (h, w, 3) as bytes; null at the first call, which starts. */
    async function shoot() {
      if (!stream) {
        try {
          stream = await navigator.mediaDevices.getUserMedia({
            video: { facingMode: "environment" } });
        } catch {
          throw new Error("the camera cannot be used here: your browser or " +
            "you refused it, or there is none; choose files instead");
        }
        video.srcObject = stream;
        place.hidden = false;
        await video.play();
        said.textContent = "The camera is on. Aim, then press the same " +
          "button again. Nothing leaves this page.";
        return null;
      }
      const { videoWidth: width, videoHeight: height } = video;
      const canvas = make("canvas", { width, height });
      const pen = canvas.getContext("2d");
      pen.drawImage(video, 0, 0);
      const { data } = pen.getImageData(0, 0, width, height);
      return { width, height, channels: 3,
        data: data.filter((_, i) => i % 4 < 3) };
    }
    return { place, shoot };
  }

  // ------------------------------------------------------------------ the page

  const part = document.querySelector(".try-kinds");
  if (part) kinds(part, photo);
  for (const place of document.querySelectorAll(".try[data-part=shots]")) {
    shots(place);
  }
})();
