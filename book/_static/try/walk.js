// The station "Walk": a patch of Hopper on its way through one head, scrubbed
// by hand or played. The numbers are those of tools/try_files.py's `walk`.
"use strict";

(() => {
  const { make, onceSeen, tell } = vitedu.station;
  const [GRID, SIDE, WIDTH, HEIGHT] = [14, 320, 720, 400];
  const STAGES = 8;
  const TURN = 2500; // milliseconds a stage, when it plays
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name);
  const mix = (from, to, share) => from + share * (to - from);
  const said = (x) => (x < 0 ? "\u2212" : "") + Math.abs(x).toFixed(2);
  const some = (numbers) => `${numbers.slice(0, 4).map(said).join(", ")}, ...`;
  const where = (i) => `row ${Math.floor(i / GRID) + 1}, ` +
    `column ${(i % GRID) + 1}`;

  /** Numbers from x on as bars, up if positive, down if negative. */
  function bars(pen, numbers, [x, y, width, height], ink, most) {
    const each = width / numbers.length;
    const largest = most ?? Math.max(...numbers.map(Math.abs));
    pen.fillStyle = ink;
    numbers.forEach((value, i) => {
      const tall = (value / largest) * (height / 2);
      pen.fillRect(x + i * each, y + height / 2 - Math.max(0, tall),
        Math.max(1, each - 0.5), Math.abs(tall));
    });
    pen.fillStyle = colour("--pst-color-border");
    pen.fillRect(x, y + height / 2, width, 1);
  }

  /** What is said at each stage. */
  function sentences({ patch, block, head, pixels, word, position, query,
    scores, shares, most, answer }) {
    const [first] = most;
    return [
      "A photograph, as the network reads it: 224 by 224 pixels.",
      "It is cut into 196 patches of 16 by 16 pixels.",
      `We follow one of them, ${where(patch)}, a piece of her forehead. ` +
        `To the network it is 768 numbers: ${some(pixels)}`,
      `E turns them into a word, 192 numbers: ${some(word)}`,
      `A vector for its place is added: ${some(position)} Now the word knows ` +
        "where it stands.",
      `In block ${block}, head ${head}, the patch asks a question, its ` +
        `query: ${some(query)} The query times the key of another patch, ` +
        `divided by 8, is a score. The best is ${said(scores[first + 1])}, of the patch ` +
        `in ${where(first)}. Three of the 196 keys are drawn.`,
      "Softmax turns all scores into shares that sum to 1. That patch gets " +
        `${(100 * shares[first + 1]).toFixed(1)}%, and equal shares would be ` +
        "0.5%.",
      "Each patch hands over its value, as much of it as its share; three " +
        `are drawn. The sum of all is the answer: ${some(answer)}`,
    ];
  }

  async function walk(place) {
    const status = make("p", { class: "try-said", "aria-live": "polite" });
    await onceSeen(place);
    try {
      if (!vitedu.hopper) await vitedu.run("hopper.js");
      if (!vitedu.walk) await vitedu.run("walk-numbers.js");
    } catch (error) {
      place.append(status);
      return tell(status)(error);
    }
    const told = vitedu.walk;
    const sum = told.scores.reduce((all, x) => all + Math.exp(x), 0);
    told.shares = told.scores.map((x) => Math.exp(x) / sum);
    const words = sentences(told);
    const picture = new Image();
    picture.src = vitedu.hopper.picture;
    await picture.decode();

    const canvas = make("canvas", { width: 2 * WIDTH, height: 2 * HEIGHT,
      role: "img" });
    const scrub = make("input", { type: "range", min: 0, max: STAGES - 1,
      step: 0.01, value: 0, "aria-label": "How far along", input: () => {
        stop();
        draw();
      } });
    const step = (by) => () => {
      stop();
      scrub.value = Math.max(0, Math.min(STAGES - 1,
        Math.round(Number(scrub.value)) + by));
      draw();
    };
    const button = (text, click) =>
      make("button", { type: "button", click }, text);
    const play = button("Play", () => (isPlaying ? stop() : start()));
    const isQuiet = matchMedia("(prefers-reduced-motion: reduce)").matches;
    place.append(canvas, scrub, make("p", { class: "try-buttons" },
      button("Back", step(-1)), button("Next", step(1)), isQuiet ? "" : play),
    status);
    let isPlaying = false;

    function stop() {
      isPlaying = false;
      play.textContent = "Play";
    }

    function start() {
      isPlaying = true;
      play.textContent = "Pause";
      let last;
      if (Number(scrub.value) >= STAGES - 1) scrub.value = 0;
      requestAnimationFrame(function frame(now) {
        if (!isPlaying) return;
        scrub.value = Number(scrub.value) + (now - (last ?? now)) / TURN;
        last = now;
        draw();
        if (Number(scrub.value) >= STAGES - 1) return stop();
        requestAnimationFrame(frame);
      });
    }

    /** How far something that begins and ends at stages has come: 0 to 1. */
    const part = (from, to) =>
      Math.max(0, Math.min(1, (scrub.value - from) / (to - from)));

    function draw() {
      const pen = canvas.getContext("2d");
      pen.setTransform(2, 0, 0, 2, 0, 0);
      pen.clearRect(0, 0, WIDTH, HEIGHT);
      grid(pen);
      const right = [SIDE + 80, 30, WIDTH - SIDE - 90, 90];
      if (part(2, 3)) drawWord(pen, right);
      if (part(4, 5)) drawAsked(pen, right);
      const now = words[Math.round(Number(scrub.value))];
      if (status.textContent !== now) status.textContent = now;
      canvas.setAttribute("aria-label", now);
    }

    /** The photograph, its patches, and the map over them. */
    function grid(pen) {
      const gap = 4 * part(0, 1);
      const [cut, cell] = [SIDE / GRID, (SIDE + 4 * GRID - gap * GRID) / GRID];
      const { scores, shares, patch } = told;
      const [low, high] = [Math.min(...scores.slice(1)),
        Math.max(...scores.slice(1))];
      const largest = Math.max(...shares.slice(1));
      for (let i = 0; i < GRID * GRID; i++) {
        const [row, column] = [Math.floor(i / GRID), i % GRID];
        const [x, y] = [column, row].map((at) => at * (cell + gap));
        pen.globalAlpha = i === patch ? 1 : 1 - 0.75 * part(1, 2) *
          (1 - part(4, 5));
        pen.drawImage(picture, column * cut, row * cut, cut, cut, x, y,
          cell, cell);
        pen.globalAlpha = 1;
        const dark = mix(1 - (scores[i + 1] - low) / (high - low),
          1 - shares[i + 1] / largest, part(5, 6));
        pen.fillStyle = `rgb(0 0 0 / ${0.85 * dark * part(4, 5)})`;
        pen.fillRect(x, y, cell, cell);
      }
      if (!part(1, 2)) return;
      const lit = [[told.patch, "white"]];
      if (part(6, 7)) lit.push(...told.most.map((i) => [i, "#1b9e77"]));
      for (const [i, ink] of lit) {
        pen.strokeStyle = ink;
        pen.lineWidth = 3;
        pen.strokeRect((i % GRID) * (cell + gap),
          Math.floor(i / GRID) * (cell + gap), cell, cell);
      }
    }

    /** The patch, its word, and the place that is added. */
    function drawWord(pen, [x, y, width, height]) {
      const fade = part(2, 3) * (1 - part(4, 5));
      if (!fade) return;
      const { patch, word, position } = told;
      const cut = SIDE / GRID;
      pen.globalAlpha = fade;
      pen.imageSmoothingEnabled = false;
      pen.drawImage(picture, (patch % GRID) * cut,
        Math.floor(patch / GRID) * cut, cut, cut, x, y, height, height);
      pen.imageSmoothingEnabled = true;
      const added = part(3, 4);
      const now = word.map((each, i) => each + added * position[i]);
      const largest = Math.max(...word.map(Math.abs));
      bars(pen, now, [x, y + 110, width, 110], "#2f6fb0", largest);
      if (added) {
        pen.globalAlpha = fade * added;
        bars(pen, position, [x, y + 230, width, 110], "#b35a00", largest);
      }
      pen.globalAlpha = 1;
    }

    /** The question, the three that answer loudest, and their sum. */
    function drawAsked(pen, [x, y, width, height]) {
      const { query, keys, values, shares, most, answer } = told;
      pen.globalAlpha = part(4, 5);
      const handed = part(6, 7);
      const rows = handed ? values : keys;
      const largest = Math.max(...rows.flat().map(Math.abs));
      bars(pen, handed ? answer : query, [x, y - 20, width, height], "#1b9e77");
      most.forEach((i, at) => {
        const tall =
          handed ? mix(1, shares[i + 1] / shares[most[0] + 1], handed) : 1;
        const top = y + 90 + at * 90;
        bars(pen, rows[at].map((each) => each * tall), [x, top, width, 80],
          colour("--pst-color-text-muted"), largest);
      });
      pen.globalAlpha = 1;
    }
    draw();
  }

  for (const place of document.querySelectorAll(".try[data-part=walk]")) {
    walk(place);
  }
})();
