// The arithmetic that takes time, in WebAssembly where the browser has it,
// and the same in JavaScript; and the workers that it runs in. All that a
// worker needs is in the functions it gets: `employ(network, kernels, faster)`.
"use strict";

(() => {
  /** One long array M, and arithmetic on it. A tensor is the place in M where
      it begins, and `take(n)` gives room for n numbers; each begins at a
      multiple of four. `kind`: "float32" (as fast as the browser can), "slow"
      (by JavaScript alone), or "float64" (that too, to compare with). */
  function kernels(size, kind = "float32") {
    // kernels.wat, assembled by tools/wat.py
    const BYTES =
    "AGFzbQEAAAABMQZgC39/f39/f39/f39/AGACf38Bf2AFf39/f38Bf2ABewF7YAR/f39/AGAEf39/fwADBwYAAQIDBAUFAwEAAQclBAZtZW1vcnkCAAdwcm9kdWN0AAAHc29mdG1heAAEBGdlbHUABQrGCwbgBBcBfwF/AX8BfwF/AX8BfwF/AX8BfwF/AX8BewF7AXsBewF7AXsBewF7AXsBewF7IAhBAWshFiAJQQJ0IQkCQANAIAsgFkoNAUEAIQwDQCAMIAlBEGsQASENIAxBEGogCUEQaxABIQ4gAiADIAtBACAWEAIhECACIAMgC0EBIBYQAiERIAIgAyALQQIgFhACIRIgAiADIAtBAyAWEAIhEyAFIA1qIRQgBSAOaiEVIAcgDWr9AAQAIRogByAOav0ABAAhGyAaIRwgGyEdIBohHiAbIR8gGiEgIBshISAKIQ8DQCAU/QAEACEYIBX9AAQAIRkgEP0JAgAhFyAaIBcgGP3mAf3kASEaIBsgFyAZ/eYB/eQBIRsgEf0JAgAhFyAcIBcgGP3mAf3kASEcIB0gFyAZ/eYB/eQBIR0gEv0JAgAhFyAeIBcgGP3mAf3kASEeIB8gFyAZ/eYB/eQBIR8gE/0JAgAhFyAgIBcgGP3mAf3kASEgICEgFyAZ/eYB/eQBISEgECAEaiEQIBEgBGohESASIARqIRIgEyAEaiETIBQgBmohFCAVIAZqIRUgD0EBayIPDQALIAAgASALQQAgFhACIRAgACABIAtBASAWEAIhESAAIAEgC0ECIBYQAiESIAAgASALQQMgFhACIRMgECANaiAa/QsEACAQIA5qIBv9CwQAIBEgDWogHP0LBAAgESAOaiAd/QsEACASIA1qIB79CwQAIBIgDmogH/0LBAAgEyANaiAg/QsEACATIA5qICH9CwQAIAxBIGohDCAMIAlIDQALIAtBBGohCwwACwsLDAAgACABIAAgAUgbCxEAIAAgASACIANqIAQQAWxqC+kBAgF7AXsgAEMAAK7C/RP96QEhACAAQzuquD/9E/3mAf1qIQEgACABQwCAMT/9E/3mAf3lASEAIAAgAUODgF45/RP95gH95AEhAENhC7Y6/RMhAkOIiAg8/RMgAiAA/eYB/eQBIQJDq6oqPf0TIAIgAP3mAf3kASECQ6uqKj79EyACIAD95gH95AEhAkMAAAA//RMgAiAA/eYB/eQBIQJDAACAP/0TIAIgAP3mAf3kASECQwAAgD/9EyACIAD95gH95AEhAiAC/Qx/AAAAfwAAAH8AAAB/AAAAIAH9+AH9rgFBF/2rAf3mAQu8AgcBfwF/AXsBewF7AXsBfSADsv0TIQgDQCAAIANBAnRqIQVDyvJJ8f0TIQb9DAAAAAAAAIA/AAAAQAAAQEAhCSAAIQQDQCAEIAT9AAQAQ8rySfH9EyAJIAj9Q/1S/QsEACAGIAT9AAQA/ekBIQYgCUMAAIBA/RP95AEhCSAEQRBqIQQgBCAFSA0ACyAG/R8AIAb9HwGXIAb9HwIgBv0fA5eX/RMhBkMAAAAA/RMhByAAIQQDQCAEIAT9AAQAIAb95QEQA/0LBAAgByAE/QAEAP3kASEHIARBEGohBCAEIAVIDQALQwAAgD8gB/0fACAH/R8BkiAH/R8CIAf9HwOSkpUhCiAAIQQDQCAEIAT9AAQAIAr9E/3mAf0LBAAgBEEQaiEEIAQgBUgNAAsgACABaiEAIAJBAWsiAg0ACwuZAgQBewF7AXsBewNAIAL9AAQAIQRDAAAAv/0TIAQgBP3mAf3mARADIQVDAACAP/0TQwAAgD/9E0OIM20+/RMgBP3gAf3mAf3kAf3nASEGQyLcBz/9EyEHQ+MAOr/9EyAHIAb95gH95AEhB0Pj8DU//RMgByAG/eYB/eQBIQdDjqkRvv0TIAcgBv3mAf3kASEHQwZ5Aj79EyAHIAb95gH95AEhByAHIAb95gEgBf3mASEHIAdDAACAP/0TIAf95QEgBEMAAAAA/RP9Q/1SIQcgACAEIAf95gH9CwQAIAEgByAEIAX95gFDKkLMPv0T/eYB/eQB/QsEACACQRBqIQIgAEEQaiEAIAFBEGohASADQQRrIgNBAEoNAAsL";

    /** M and its arithmetic in WebAssembly; null where that is refused. */
    function compiled() {
      try {
        const text = atob(BYTES);
        const bytes = Uint8Array.from(text, (each) => each.charCodeAt(0));
        const module = new WebAssembly.Module(bytes);
        const own = new WebAssembly.Instance(module).exports;
        own.memory.grow(Math.ceil(size / 16384)); // pages of 64 kB
        const M = new Float32Array(own.memory.buffer);
        const narrow = written(M).product; // the other wants four columns
        return {
          M,
          isFast: true,
          product: (y, ys, a, as, ak, b, bs, start, m, n, c) => n < 4
            ? narrow(y, ys, a, as, ak, b, bs, start, m, n, c)
            : own.product(4 * y, 4 * ys, 4 * a, 4 * as, 4 * ak, 4 * b, 4 * bs,
              4 * start, m, n, c),
          softmax: (x, step, rows, n) => own.softmax(4 * x, 4 * step, rows, n),
          gelu: (y, slope, x, n) => own.gelu(4 * y, 4 * slope, 4 * x, n),
        };
      } catch {
        return null; // no SIMD, a policy against it, or no memory
      }
    }

    function written(M) {
      /** y[i, j] = start[j] + sum over k < c of a[i, k] b[k, j], i < m, j < n:
          `as` is from row to row of a, and `ak` from k to k. */
      function product(y, ys, a, as, ak, b, bs, start, m, n, c) {
        for (let i = 0; i < m; i++) {
          for (let j = 0; j < n; j++) M[y + i * ys + j] = M[start + j];
          for (let k = 0; k < c; k++) {
            const factor = M[a + i * as + k * ak];
            for (let j = 0; j < n; j++) {
              M[y + i * ys + j] += factor * M[b + k * bs + j];
            }
          }
        }
      }

      /** Each of `rows` rows of n numbers to shares that sum to 1, in place. */
      function softmax(x, step, rows, n) {
        for (let at = x; at < x + rows * step; at += step) {
          let most = -Infinity, sum = 0;
          for (let k = at; k < at + n; k++) most = Math.max(most, M[k]);
          for (let k = at; k < at + n; k++) {
            sum += M[k] = Math.exp(M[k] - most);
          }
          for (let k = at; k < at + n; k++) M[k] /= sum;
        }
      }

      /** erf, by the series of Abramowitz and Stegun, 7.1.6: no cancelling. */
      function erf(z) {
        if (Math.abs(z) > 6) return Math.sign(z);
        let sum = 0, term = z;
        for (let k = 1; Math.abs(term) > 1e-17 * Math.abs(sum); k++) {
          sum += term;
          term *= (2 * z * z) / (2 * k + 1);
        }
        return (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) * sum;
      }

      /** y = x Φ(x) and its slope, of n numbers. */
      function gelu(y, slope, x, n) {
        for (let i = 0; i < n; i++) {
          const v = M[x + i];
          const phi = (1 + erf(v / Math.SQRT2)) / 2;
          M[y + i] = v * phi;
          M[slope + i] =
            phi + (v * Math.exp((-v * v) / 2)) / Math.sqrt(2 * Math.PI);
        }
      }
      return { M, isFast: false, product, softmax, gelu };
    }

    const Kind = kind === "float64" ? Float64Array : Float32Array;
    const found = (kind === "float32" && compiled()) ||
      written(new Kind(size + 4));
    let taken = 0;
    const take = (n) => {
      const at = taken;
      taken += (n + 3) & ~3;
      return at;
    };
    return { ...found, take };
  }

  /** What vit.js computes by hand, faster: linear, attention and gelu, for
      arrays as there. `keep` lays a matrix (d, c) into the memory for good,
      turned to (c, d). Null where there is no WebAssembly. */
  function faster(kernels, size) {
    // of what goes in or out of a product: 197 tokens, and 16 that are moved
    const LARGEST = (197 + 16) * 768;
    const { M, isFast, take, product, softmax, gelu } =
      kernels(size + 8 * LARGEST);
    if (!isFast) return null;
    const [one, two, three, four] = [1, 2, 3, 4].map(() => take(LARGEST));
    const zeros = take(4096);

    function turned(x, rows, columns, to, step = rows) {
      for (let i = 0; i < rows; i++) {
        for (let j = 0; j < columns; j++) {
          M[to + j * step + i] = x[i * columns + j];
        }
      }
    }

    function keep(matrix, columns) {
      const at = take(matrix.length);
      turned(matrix, matrix.length / columns, columns, at);
      return M.subarray(at, at + matrix.length);
    }

    function linear(x, { weight, bias }) {
      const d = bias.length;
      const c = weight.length / d;
      const t = x.length / c;
      M.set(x, one);
      M.set(bias, two);
      const from = weight.byteOffset / 4;
      product(three, d, one, c, 1, from, d, two, t, d, c);
      return M.slice(three, three + t * d);
    }

    function attention(q, k, v, hd) {
      const t = q.length / hd;
      const step = (t + 3) & ~3;
      M.set(q.map((each) => each / Math.sqrt(hd)), one);
      turned(k, t, hd, two, step);
      product(three, step, one, hd, 1, two, step, zeros, t, t, hd);
      softmax(three, step, t, t);
      M.set(v, one);
      product(four, hd, three, step, 1, one, hd, zeros, t, hd, t);
      const weights = new Float32Array(t * t);
      for (let i = 0; i < t; i++) {
        const row = three + i * step;
        weights.set(M.subarray(row, row + t), i * t);
      }
      return [M.slice(four, four + t * hd), weights];
    }

    function activated(x) {
      M.set(x, one);
      gelu(one, two, one, x.length);
      x.set(M.subarray(one, one + x.length));
      return x;
    }
    return { keep, linear, attention, gelu: activated };
  }

  /** A worker that runs the first function with the others as arguments, as a
      function from message to answer. It is made from their text, because a
      page opened from disk may not load a worker's file. */
  function employ(main, ...others) {
    if (!window.Worker) {
      throw new Error("this browser has no web workers, where networks run");
    }
    const given = others.map(String).join(", ");
    const text = new Blob([`"use strict"; (${main})(${given})`]);
    const worker = new Worker(URL.createObjectURL(text));
    const waiting = new Map();
    let count = 0;
    worker.onmessage = ({ data }) => {
      waiting.get(data.id).resolve(data.found);
      waiting.delete(data.id);
    };
    worker.onerror = (event) => {
      event.preventDefault(); // it is told on the page
      const failure = new Error(/alloc|memory/i.test(event.message)
        ? "there is not enough memory for the network; close other tabs and " +
          "try again" : `the network stopped: ${event.message}`);
      for (const { reject } of waiting.values()) reject(failure);
      waiting.clear();
    };
    const ask = (message) =>
      new Promise((resolve, reject) => {
        waiting.set(++count, { resolve, reject });
        worker.postMessage({ ...message, id: count });
      });
    return Object.assign(ask, { stop: () => worker.terminate() });
  }

  Object.assign(window.vitedu, { kernels, faster, employ });
})();
