/**
 * Writes test/fixtures/math-bits.txt: what this Node's Math.exp and Math.log give, bit for bit, and what a row of
 * logits comes to when they are summed in order.
 * native/test/core/portable_math_test.cc and native/test/ops/pick_tokens_test.cc read it.
 * The committed file is by Node 20; JavaScript leaves the last bit of both functions to the engine.
 *
 *   exp X Y          Y = Math.exp(X), both as the 16 hexadecimal digits of a double
 *   log X Y          Y = Math.log(X)
 *   row VOCAB SEED LEVELS BEST LOGSUM ID:LOGPROB …   of rowOf(VOCAB, SEED, LEVELS): the most likely token, log Σ exp
 *                    and the five most likely tokens
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const view = new DataView(new ArrayBuffer(8));

function hexOf(value) {
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, '0');
}

/** A generator that C++ repeats exactly: the high 24 bits of a 32-bit linear congruence. */
function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 8;
  };
}

/** Logits in [-20, 20), of `levels` different values. */
function rowOf(vocab, seed, levels) {
  const next = numbers(seed);
  return Float32Array.from({ length: vocab }, () => ((next() % levels) / levels) * 40 - 20);
}

/** Doubles of all magnitudes, of those that exp and log are called with, and around their special cases. */
function* arguments_() {
  yield* [0, -0, Infinity, -Infinity, NaN, 5e-324, -5e-324, Number.MAX_VALUE, 2.2250738585072014e-308];
  const next = numbers(1);
  const unit = () => (next() + next() / 2 ** 24) / 2 ** 24;
  for (let i = 0; i < 400; i++) {
    view.setUint32(0, (next() << 8) | (next() & 255));
    view.setUint32(4, (next() << 8) | (next() & 255));
    yield view.getFloat64(0);
  }
  for (const reach of [800, 40, 2]) for (let i = 0; i < 120; i++) yield (unit() * 2 - 1) * reach;
  const special = [
    1,
    Math.LN2 / 2,
    1.5 * Math.LN2,
    2 ** -28,
    707,
    708.4,
    709.78271289338397,
    745.1332191019411,
  ];
  for (const value of [...special, Math.SQRT2, Math.SQRT1_2, 1.38, 1.42, 2 ** -20]) {
    yield* [value, -value];
    for (const width of [2 ** -51, 2 ** -40, 2 ** -28, 2 ** -20]) {
      for (let i = 0; i < 3; i++) yield value * (1 + (unit() * 2 - 1) * width);
      yield -value * (1 + (unit() * 2 - 1) * width);
    }
  }
}

function rowLine(vocab, seed, levels) {
  const logits = rowOf(vocab, seed, levels);
  const order = [...logits.keys()].sort((a, b) => logits[b] - logits[a] || a - b);
  const max = logits[order[0]];
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - max);
  const logSum = max + Math.log(sum);
  const top = order.slice(0, 5).map((id) => `${id}:${hexOf(logits[id] - logSum)}`);
  return ['row', vocab, seed, levels, order[0], hexOf(logSum), ...top].join(' ');
}

const lines = [];
for (const x of arguments_()) {
  lines.push(`exp ${hexOf(x)} ${hexOf(Math.exp(x))}`);
  if (!(x < 0)) lines.push(`log ${hexOf(x)} ${hexOf(Math.log(x))}`);
}
lines.push(
  rowLine(5, 1, 1 << 24),
  rowLine(1000, 2, 1 << 24),
  rowLine(1000, 3, 7),
  rowLine(32128, 4, 1 << 24),
);
lines.push(rowLine(50304, 5, 1000), rowLine(151936, 6, 1 << 24), rowLine(151936, 7, 3));
writeFileSync(
  fileURLToPath(new URL('../test/fixtures/math-bits.txt', import.meta.url)),
  `${lines.join('\n')}\n`,
);
