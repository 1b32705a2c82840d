// Panels of random weights, as docs/pack-format.md describes them. Weights are uniform with a given standard deviation,
// those of bf16 and bf16c normal: how many exponents trained weights have depends on it.

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

function fillF32(random, panel, { k, columns, std }) {
  const values = randomFloats(random, k * columns, std);
  const target = new Float32Array(panel.buffer, panel.byteOffset, k * COLUMNS);
  for (let i = 0; i < k; i++) target.set(values.subarray(i * columns, (i + 1) * columns), i * COLUMNS);
}

const exponentOf = (number) => (number >>> 7) & 255;
const tables = new Map();

/** 65,536 bfloat16 numbers of a normal distribution, and below the exponents of most of them: 15 further ones. */
function normalNumbers(std) {
  const normal = (_, i) =>
    Math.sqrt(-2 * Math.log((i + 0.5) / 65_536)) * Math.cos(2 * Math.PI * ((i * 0.7548776662466927) % 1));
  if (!tables.has(std)) {
    const numbers = Uint16Array.from({ length: 65_536 }, (_, i) => bfloat16(std * normal(_, i)));
    const counts = new Array(256).fill(0);
    for (const number of numbers) counts[exponentOf(number)]++;
    const coded = (base) => counts.slice(base + 1, base + 16).reduce((sum, count) => sum + count);
    const base = counts.slice(0, 241).reduce((best, _, at) => (coded(at) > coded(best) ? at : best), 0);
    tables.set(std, { numbers, base });
  }
  return tables.get(std);
}

/** bf16 and bf16c, the same numbers. */
function fillNormal(random, panel, { k, columns, std, format: { dtype } }) {
  const words = new Uint32Array(Math.ceil((k * columns) / 2));
  random.fill(words);
  const draws = new Uint16Array(words.buffer);
  const { numbers, base } = normalNumbers(std);
  const store = dtype === 'bf16' ? storeBf16 : storeBf16c;
  store(panel, { k, columns, base }, (i, column) => numbers[draws[i * columns + column]]);
}

function storeBf16(panel, { k, columns }, numberAt) {
  const target = new Uint16Array(panel.buffer, panel.byteOffset, panel.byteLength / 2);
  for (let i = 0; i < k; i++) {
    for (let column = 0; column < columns; column++) {
      target[(i >> 1) * 2 * COLUMNS + column * 2 + (i & 1)] = numberAt(i, column);
    }
  }
}

function storeBf16c(panel, { k, columns, base }, numberAt) {
  const { starts, escapes } = codedOffsets(k);
  const startOf = new Uint16Array(panel.buffer, panel.byteOffset + starts, Math.ceil(k / 32) + 1);
  const escaped = new Uint32Array(panel.buffer, panel.byteOffset + escapes, 4 * Math.ceil(k / 32));
  let count = 0;
  for (let i = 0; i < k; i++) {
    const [eight, half] = [128 + (i >> 3) * 384, (i >> 2) & 1];
    if (i % 32 === 0) startOf[i / 32] = count;
    for (let column = 0; column < columns; column++) {
      const byte = (column >> 2) * 16 + ((i & 2) << 2) + (column & 3) * 2 + (i & 1);
      const number = numberAt(i, column);
      const code = exponentOf(number) - base;
      if (i < 4) panel[byte] = base;
      panel[eight + half * 128 + byte] = ((number >>> 8) & 0x80) | (number & 0x7f);
      if (code > 0 && code < 16) panel[eight + 256 + byte] |= code << (4 * half);
      else if (count === escaped.length) throw new Error(`${count} escapes have room`);
      else escaped[count++] = ((i * COLUMNS + column) << 8) | exponentOf(number);
    }
  }
  startOf[startOf.length - 1] = count;
}

function codedOffsets(k) {
  const [starts, groups] = [128 + 384 * Math.ceil(k / 8), Math.ceil(k / 32)];
  const escapes = starts + 4 * Math.floor((groups + 2) / 2);
  return { starts, escapes, end: 64 * Math.ceil((escapes + 16 * groups) / 64) };
}

export function panelBytes(k, { dtype, group = 32 }) {
  if (dtype === 'bf16c') return codedOffsets(k).end;
  if (dtype === 'f32') return 4 * COLUMNS * k;
  if (dtype === 'bf16') return 4 * COLUMNS * Math.ceil(k / 2);
  if (dtype === 'int8') return 4 * COLUMNS * Math.ceil(k / 4) + 8 * COLUMNS;
  return 4 * COLUMNS * Math.ceil(k / 8) + 2 * COLUMNS * Math.ceil(k / group);
}

/** A matrix of `n` outputs and `k` inputs in panels. */
export function randomMatrix(random, [n, k], format, std) {
  const stride = panelBytes(k, format);
  const fill = { f32: fillF32, bf16: fillNormal, bf16c: fillNormal, int8: fillInt8 }[format.dtype] ?? fillGroups;
  const bytes = new Uint8Array(Math.ceil(n / COLUMNS) * stride);
  for (let row = 0; row < n; row += COLUMNS) {
    const panel = bytes.subarray((row / COLUMNS) * stride, (row / COLUMNS + 1) * stride);
    fill(random, panel, { k, columns: Math.min(COLUMNS, n - row), std, format });
  }
  return bytes;
}
