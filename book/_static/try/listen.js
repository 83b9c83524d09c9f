// The front page's first picture: point at a patch of Hopper, and see whom it
// listens to. tools/try_files.py computes it: a byte for each pair of patches,
// how much one takes from the other, of the most that it takes from any.
"use strict";

(() => {
  const { make, tell } = vitedu.station;
  const GRID = 14;
  const SIDE = 448;
  const START = 5 * GRID + 6; // beside an eye
  const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0],
    ArrowDown: [1, 0] };

  async function listen(place) {
    const canvas = make("canvas", { width: SIDE, height: SIDE, tabindex: 0,
      role: "application", pointerdown: point, pointermove: point,
      keydown: step });
    const words = make("p", { class: "try-said" }, "Point at a patch. The " +
      "ones that light up are those it listens to, in block 7 of 12.");
    const picture = new Image();
    let maps;
    let patch = START;
    try {
      if (!vitedu.hopper) await vitedu.run("hopper.js");
      maps = Uint8Array.from(atob(vitedu.hopper.maps),
        (each) => each.charCodeAt(0));
      picture.src = vitedu.hopper.picture;
      await picture.decode();
      place.replaceChildren(canvas, words);
      draw();
    } catch (error) {
      tell(place)(error);
    }

    function point({ clientX, clientY }) {
      const box = canvas.getBoundingClientRect();
      const at = (x) => Math.max(0, Math.min(GRID - 1, Math.floor(GRID * x)));
      const found = at((clientY - box.top) / box.height) * GRID +
        at((clientX - box.left) / box.width);
      if (found === patch) return;
      patch = found;
      draw();
    }

    function step(event) {
      const move = MOVES[event.key];
      if (!move) return;
      event.preventDefault();
      const row = Math.floor(patch / GRID) + move[0];
      const column = (patch % GRID) + move[1];
      if (Math.min(row, column) < 0 || Math.max(row, column) >= GRID) return;
      patch = row * GRID + column;
      draw();
    }

    function draw() {
      const pen = canvas.getContext("2d");
      const cell = SIDE / GRID;
      const corner = (i) => [(i % GRID) * cell, Math.floor(i / GRID) * cell];
      const shares = maps.subarray(patch * GRID ** 2, (patch + 1) * GRID ** 2);
      pen.drawImage(picture, 0, 0, SIDE, SIDE);
      shares.forEach((share, i) => {
        pen.fillStyle = `rgb(0 0 0 / ${0.8 * (1 - Math.sqrt(share / 255))})`;
        pen.fillRect(...corner(i), cell, cell);
      });
      for (const [ink, width] of [["white", 6], ["#1b9e77", 3]]) {
        pen.strokeStyle = ink;
        pen.lineWidth = width;
        pen.strokeRect(...corner(patch), cell, cell);
      }
      const [row, column] = [Math.floor(patch / GRID) + 1, (patch % GRID) + 1];
      const bright = shares.filter((share) => share > 127).length;
      canvas.setAttribute("aria-label", `Grace Hopper in 14 by 14 patches. ` +
        `The one in row ${row}, column ${column} listens most to ${bright} ` +
        `${bright === 1 ? "patch" : "patches"}. Arrow keys go to another.`);
    }
  }

  for (const place of document.querySelectorAll(".try[data-part=listen]")) {
    listen(place);
  }
})();
