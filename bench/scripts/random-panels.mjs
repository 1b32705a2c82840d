// Panels of random weights, as docs/pack-format.md describes them. Weights are uniform with a given standard deviation.

const COLUMNS = 32;
const STEP_WORDS = COLUMNS;
/** Standard deviations of uniform codes: int8 from -127 to 127, int4 from -7 to 7, and e2m1 values doubled. */
const INT8_STD = Math.sqrt((255 ** 2 - 1) / 12);
const INT4_STD = Math.sqrt((15 ** 2 - 1) / 12);
const MXFP4_STD = Math.sqrt(34.25);

/** Random 32-bit words and numbers from a seed (xorshift32). */
export class RandomWords {
  #state;

  constructor(seed) {
    this.#state = Math.imul(seed, 0x9e3779b9) | 1;
    this.fill(new Uint32Array(16));
  }

  fill(words) {
    let state = this.#state;
    const { length } = words;
    for (let i = 0; i < length; i++) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      words[i] = state;
    }
    this.#state = state;
  }
}

const bfloat16 = (() => {
  const float = new Float32Array(1);
  const bits = new Uint32Array(float.buffer);
  return (value) => {
    float[0] = value;
    return bits[0] >>> 16;
  };
})();

const uniform = (word, std) => (word / 2 ** 31 - 1) * Math.sqrt(3) * std;

/** Values uniform around 0. */
export function randomFloats(random, count, std) {
  const words = new Uint32Array(count);
  random.fill(words);
  return Float32Array.from(words, (word) => uniform(word, std));
}

/** 256 scales of groups, as bfloat16: two powers of two around the wanted one, or from 3/4 to 5/4 of it. */
function groupScales(std, mxfp4) {
  const power = 2 ** Math.floor(Math.log2(std / MXFP4_STD));
  return Uint32Array.from({ length: 256 }, (_, i) =>
    bfloat16(mxfp4 ? power * (1 + (i & 1)) : (std / INT4_STD) * (0.75 + i / 512)),
  );
}

/** Nibbles of inputs that a group lacks, and of columns that the matrix lacks, stand for 0. */
function clearPadding(words, { begin, end, inputs, columns, zero }) {
  let kept = 0xffffffff;
  for (let j = inputs % 8; j > 0 && j < 8; j++) kept &= ~(0xf << (8 * (j % 4) + (j < 4 ? 0 : 4)));
  for (let i = begin; i < end; i++) {
    if ((i - begin) % STEP_WORDS >= columns) words[i] = zero;
    else if (i >= end - STEP_WORDS) words[i] = (words[i] & kept) | (zero & ~kept);
  }
}

function fillGroups(random, panel, { k, columns, std, format: { dtype, group = 32 } }) {
  const mxfp4 = dtype === 'mxfp4';
  const words = new Uint32Array(panel.buffer, panel.byteOffset, panel.byteLength / 4);
  random.fill(words);
  const table = groupScales(std, mxfp4);
  const zero = mxfp4 ? 0 : 0x88888888;
  let at = 0;
  for (let from = 0; from < k; from += group) {
    const inputs = Math.min(group, k - from);
    const [begin, end] = [at, at + Math.ceil(inputs / 8) * STEP_WORDS];
    // An int4 nibble of 0 would be the code -8, which no weight has.
    for (let i = begin; i < end && !mxfp4; i++) {
      const word = words[i];
      words[i] = word | (~(word | (word >>> 1) | (word >>> 2) | (word >>> 3)) & 0x11111111);
    }
    if (columns < COLUMNS || inputs % 8 > 0) clearPadding(words, { begin, end, inputs, columns, zero });
    at = end;
    // Two scales a word.
    for (const last = at + COLUMNS / 2; at < last; at++) {
      const draw = words[at];
      const column = 2 * (at - end);
      const low = column < columns ? table[draw & 255] : 0;
      words[at] = column + 1 < columns ? low | (table[(draw >>> 8) & 255] << 16) : low;
    }
  }
}

function fillInt8(random, panel, { k, columns, std }) {
  const steps = Math.ceil(k / 4);
  random.fill(new Uint32Array(panel.buffer, panel.byteOffset, steps * STEP_WORDS));
  const codes = new Int8Array(panel.buffer, panel.byteOffset, steps * 4 * COLUMNS);
  const scales = new Float32Array(panel.buffer, panel.byteOffset + codes.length, COLUMNS);
  const sums = new Int32Array(panel.buffer, scales.byteOffset + scales.byteLength, COLUMNS);
  scales.fill(std / INT8_STD, 0, columns);
  let at = 0;
  for (let step = 0; step < steps; step++) {
    for (let column = 0; column < COLUMNS; column++) {
      for (let j = 0; j < 4; j++, at++) {
        if (column >= columns || 4 * step + j >= k) codes[at] = 0;
        else if (codes[at] === -128) codes[at] = -127;
        sums[column] += codes[at];
      }
    }
  }
}

/** f32 and bf16: `lane` inputs in a word. */
function fillFloats(random, panel, { k, columns, std, format: { dtype } }) {
  const lane = dtype === 'f32' ? 1 : 2;
  const values = randomFloats(random, k * columns, std);
  const Store = lane === 1 ? Float32Array : Uint16Array;
  const target = new Store(panel.buffer, panel.byteOffset, panel.byteLength / Store.BYTES_PER_ELEMENT);
  for (let i = 0; i < k; i++) {
    for (let column = 0; column < columns; column++) {
      const value = values[i * columns + column];
      const at = Math.floor(i / lane) * COLUMNS * lane + column * lane + (i % lane);
      target[at] = lane === 1 ? value : bfloat16(value);
    }
  }
}

export function panelBytes(k, { dtype, group = 32 }) {
  if (dtype === 'f32') return 4 * COLUMNS * k;
  if (dtype === 'bf16') return 4 * COLUMNS * Math.ceil(k / 2);
  if (dtype === 'int8') return 4 * COLUMNS * Math.ceil(k / 4) + 8 * COLUMNS;
  return 4 * COLUMNS * Math.ceil(k / 8) + 2 * COLUMNS * Math.ceil(k / group);
}

/** A matrix of `n` outputs and `k` inputs in panels. */
export function randomMatrix(random, [n, k], format, std) {
  const stride = panelBytes(k, format);
  const fill = { f32: fillFloats, bf16: fillFloats, int8: fillInt8 }[format.dtype] ?? fillGroups;
  const bytes = new Uint8Array(Math.ceil(n / COLUMNS) * stride);
  for (let row = 0; row < n; row += COLUMNS) {
    const panel = bytes.subarray((row / COLUMNS) * stride, (row / COLUMNS + 1) * stride);
    fill(random, panel, { k, columns: Math.min(COLUMNS, n - row), std, format });
  }
  return bytes;
}
