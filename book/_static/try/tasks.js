// What the network of this page can learn beside digits: drawn puzzles of the
// chapters, as `vitedu.data.glyphs` has them. They are drawn while it learns,
// so that no picture comes twice. Runs in the worker and on the page.
"use strict";

vitedu.tasks = function tasks() {
  const SIDE = 4; // of a glyph
  // 16 glyphs of 4 x 4 pixels, a bit each, from the upper left
  const GLYPHS = [29396, 43899, 56329, 6734, 57440, 19079, 13267, 24210, 33441,
    29638, 28329, 6721, 49203, 44203, 54736, 37490];
  const [NOISE, DARK, BRIGHT] = [12, 64, 192]; // grey levels
  const below = (random, end) => Math.floor(random() * end);

  // ------------------------------------------- chapters 16 and 17: two glyphs

  function ground(random, side) {
    return Uint8Array.from({ length: side * side }, () =>
      128 + below(random, 2 * NOISE + 1) - NOISE);
  }

  function stamp(picture, side, glyph, [row, column]) {
    for (let i = 0; i < SIDE * SIDE; i++) {
      const at = (row + (i >> 2)) * side + column + (i & 3);
      picture[at] += ((GLYPHS[glyph] >> i) & 1 ? BRIGHT : DARK) - 128;
    }
  }

  /** Upper left corners of two glyphs that don't touch, on 16 x 16 pixels. */
  function corners(random, onGrid) {
    if (onGrid) {
      const first = below(random, 16);
      const second = (first + 1 + below(random, 15)) % 16;
      return [first, second].map((cell) => [SIDE * (cell >> 2),
        SIDE * (cell & 3)]);
    }
    const half = 8, room = half - SIDE + 1;
    let found = [[below(random, room), below(random, 16 - SIDE + 1)],
      [half + below(random, room), below(random, 16 - SIDE + 1)]];
    if (below(random, 2)) found = found.map(([row, column]) => [column, row]);
    return below(random, 2) ? found.reverse() : found;
  }

  const same = (onGrid) => (random) => {
    const label = below(random, 2);
    const first = below(random, 16);
    const second = label ? first : (first + 1 + below(random, 15)) % 16;
    const picture = ground(random, 16);
    corners(random, onGrid).forEach((corner, i) =>
      stamp(picture, 16, i ? second : first, corner));
    return { picture, truth: [label] };
  };

  /** Glyphs 0 and 1 on 24 x 24 pixels, in some of its six rows of patches. */
  const left = (from, count) => (random) => {
    const label = below(random, 2);
    const one = below(random, 5);
    const other = one + 1 + below(random, 5 - one);
    const picture = ground(random, 24);
    const columns = label ? [one, other] : [other, one];
    columns.forEach((column, glyph) => stamp(picture, 24, glyph,
      [SIDE * (from + below(random, count)), SIDE * column]));
    return { picture, truth: [label] };
  };

  // ----------------------------------------------- chapter 2: where's my twin?

  const TWINS = [ // 6 x 6 pixels each, row after row
    "..##...#..#.#....##....#.#..#...##..",
    ".#..#..#..#.######.#..#.######.#..#.",
    "#######....##....##....##....#######",
    "#....#.#..#...##....##...#..#.#....#",
    "..##....##..############..##....##..",
    "#####.....#....#....#....#....#####.",
    "....##...##...##...##...##....#.....",
    "######..##....##....##....##....##.."];
  const COLOURS = [[230, 60, 60], [40, 170, 70], [70, 100, 240], [240, 190, 30],
    [170, 70, 200], [40, 190, 200]];

  function twin(random) {
    const order = [...Array(16).keys()];
    for (let i = 15; i > 0; i--) {
      const j = below(random, i + 1);
      [order[i], order[j]] = [order[j], order[i]];
    }
    const first = Array.from({ length: 8 }, () => below(random, 6));
    const colours = [...first,
      ...first.map((each) => (each + 1 + below(random, 5)) % 6)];
    const picture = new Uint8Array(3 * 32 * 32);
    order.forEach((which, place) => {
      const [top, left] = [8 * (place >> 2) + 1, 8 * (place & 3) + 1];
      [...TWINS[which % 8]].forEach((pixel, i) => {
        if (pixel !== "#") return;
        const at = (top + Math.floor(i / 6)) * 32 + left + (i % 6);
        COLOURS[colours[which]].forEach((each, c) => {
          picture[c * 1024 + at] = each;
        });
      });
    });
    return { picture, truth: order.map((which) => colours[(which + 8) % 16]) };
  }

  // side: in pixels; patches: sizes, the usual one first; held: how those are
  // drawn that it doesn't learn from, if otherwise; answers: of each picture;
  // usual: settings that take about half a minute
  const usual = { width: 32, rate: 0.003, steps: 1000 };
  const two = { channels: 1, answers: 1, usual };
  const sizes = { side: 16, patches: [4, 2, 8], names: ["different", "same"] };
  const halves = { side: 24, patches: [4, 2, 8], names: ["right", "left"],
    usual: { ...usual, positionStd: 0.5, steps: 500 } };
  return {
    same: { ...two, ...sizes, draw: same(true) },
    "same-off": { ...two, ...sizes, draw: same(false) },
    left: { ...two, ...halves, draw: left(0, 6) },
    "left-above": { ...two, ...halves, draw: left(0, 3), held: left(3, 3) },
    twin: { side: 32, channels: 3, patches: [8], answers: 16, draw: twin,
      usual,
      names: ["red", "green", "blue", "yellow", "purple", "turquoise"] },
  };
};
