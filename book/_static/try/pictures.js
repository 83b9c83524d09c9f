// From a picture to the numbers that a network wants, as `vitedu.preprocess`
// does it: resized as Pillow resizes, the middle cut out, each channel scaled.
"use strict";

(() => {
  const MOST_SIDE = 4096; // of a picture that is read, in pixels
  const MOST_LONG = 4; // times as long as wide

  // How much a pixel counts at a distance, in pixels of the coarser picture.
  const FILTERS = {
    bilinear: { reach: 1, at: (x) => Math.max(0, 1 - Math.abs(x)) },
    bicubic: {
      reach: 2,
      at(x) {
        const a = -0.5;
        const z = Math.abs(x);
        if (z < 1) return ((a + 2) * z - (a + 3)) * z * z + 1;
        return z < 2 ? (((z - 5) * z + 8) * z - 4) * a : 0;
      },
    },
  };

  /** For each of `count` new pixels: the first old one that counts for it, and
      the weights from there on. They sum to 1. */
  function weightsFor(size, count, { reach, at }) {
    const step = size / count;
    const wide = Math.max(1, step);
    return Array.from({ length: count }, (_, i) => {
      const centre = (i + 0.5) * step;
      const first = Math.max(0, Math.floor(centre - reach * wide + 0.5));
      const end = Math.min(size, Math.floor(centre + reach * wide + 0.5));
      const weights = Array.from({ length: end - first }, (_, k) =>
        at((first + k - centre + 0.5) / wide),
      );
      const sum = weights.reduce((one, other) => one + other);
      return { first, weights: weights.map((each) => each / sum) };
    });
  }

  /** Bytes (h, w, c) -> bytes (height, width, c): first each row, then each
      column, both rounded. */
  function resize({ data, width: w, height: h, channels: c }, width, height,
                  interpolation) {
    const filter = FILTERS[interpolation];
    const rows = new Uint8ClampedArray(h * width * c); // it rounds and clips
    weightsFor(w, width, filter).forEach(({ first, weights }, x) => {
      for (let y = 0; y < h; y++) {
        for (let k = 0; k < c; k++) {
          let sum = 0;
          for (let i = 0; i < weights.length; i++) {
            sum += weights[i] * data[(y * w + first + i) * c + k];
          }
          rows[(y * width + x) * c + k] = sum;
        }
      }
    });
    const found = new Uint8ClampedArray(height * width * c);
    weightsFor(h, height, filter).forEach(({ first, weights }, y) => {
      for (let x = 0; x < width * c; x++) {
        let sum = 0;
        for (let i = 0; i < weights.length; i++) {
          sum += weights[i] * rows[(first + i) * width * c + x];
        }
        found[y * width * c + x] = sum;
      }
    });
    return { data: found, width, height, channels: c };
  }

  /** The middle of bytes (h, w, c), of these sides. Halves go to the even
      number, as in Python. */
  function centre({ data, width: w, height: h, channels: c }, width, height) {
    const even = (x) => (x % 1 === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));
    const left = even((w - width) / 2);
    const top = even((h - height) / 2);
    const found = new Uint8ClampedArray(height * width * c);
    for (let y = 0; y < height; y++) {
      const from = ((top + y) * w + left) * c;
      found.set(data.subarray(from, from + width * c), y * width * c);
    }
    return { data: found, width, height, channels: c };
  }

  /** Bytes (h, w, c) at the size that the network reads: the short side to
      size / crop, then the middle. */
  function cutOut(picture, { image_size, crop, interpolation }) {
    const [height, width] = image_size;
    const side = MOST_LONG * Math.min(picture.width, picture.height);
    if (crop !== null && Math.max(picture.width, picture.height) > side) {
      picture = centre(picture, Math.min(picture.width, side),
        Math.min(picture.height, side)); // the rest of a strip isn't read
    }
    if (crop === null) return resize(picture, width, height, interpolation);
    const short = Math.floor(width / crop); // of a square, as our networks are
    const { width: w, height: h } = picture;
    const long = Math.floor((short * Math.max(w, h)) / Math.min(w, h));
    const size = w <= h ? [short, long] : [long, short];
    return centre(resize(picture, ...size, interpolation), width, height);
  }

  /** Bytes (h, w, c) -> a Float32Array (c, h, w): (x / 255 - mean) / std. */
  function normalise({ data, channels: c }, { mean, std }) {
    const n = data.length / c;
    return Float32Array.from({ length: n * c }, (_, i) => {
      const k = Math.floor(i / n);
      return (data[(i % n) * c + k] / 255 - mean[k]) / std[k];
    });
  }

  /** What is at an address, or in a file, as bytes (h, w, 3). */
  async function read(source) {
    const image = new Image();
    const address =
      typeof source === "string" ? source : URL.createObjectURL(source);
    image.src = address;
    try {
      await image.decode();
    } catch {
      const name = source.name ?? "this picture";
      throw new Error(`your browser cannot read ${name} as a picture`);
    } finally {
      if (address !== source) URL.revokeObjectURL(address);
    }
    const { naturalWidth: w, naturalHeight: h } = image;
    const scale = Math.min(1, MOST_SIDE / Math.max(w, h));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(w * scale));
    canvas.height = Math.max(1, Math.round(h * scale));
    const context = canvas.getContext("2d");
    context.fillStyle = "white"; // under what is transparent
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const bytes = new Uint8ClampedArray((data.length / 4) * 3);
    for (let from = 0, to = 0; from < data.length; from += 4) {
      for (let k = 0; k < 3; k++) bytes[to++] = data[from + k];
    }
    return {
      data: bytes,
      width: canvas.width,
      height: canvas.height,
      channels: 3,
    };
  }

  /** Bytes (h, w, 1 or 3) as a canvas. */
  function canvasOf({ data, width, height, channels: c }) {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    const image = new ImageData(width, height);
    for (let i = 0; i < width * height; i++) {
      for (let k = 0; k < 3; k++) {
        image.data[4 * i + k] = data[c * i + (c === 1 ? 0 : k)];
      }
      image.data[4 * i + 3] = 255;
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  Object.assign(window.vitedu, {
    pictures: { read, resize, cutOut, normalise, canvasOf },
  });
})();
