// What the servers of a start have said: whether their tokens are those of the trace, and what the answers took.
import { fewestLoads } from '../../../dist/evaluation/fewest-loads.js';
import { intervalOf } from '../../../dist/evaluation/paired-difference.js';
import { median } from '../../dist/support/statistics.js';

/** Throws unless the answers have the tokens that the model gave while it was traced, with every expert in memory. */
export function checkTokens(name, answers, records) {
  answers.forEach(({ ids }, i) => {
    // The model does not read the token that ends an answer, so the trace lacks it.
    const { answer } = records[i];
    const same = ids.length > 0 && ids.slice(0, -1).every((id, at) => id === answer[at]);
    const whole = ids.length - 1 === answer.length || ids.at(-1) === answer[ids.length - 1];
    if (same && whole) return;
    throw new Error(`${name}: answer ${i} is ${ids.join(' ')}, and ${answer.join(' ')} with every expert`);
  });
}

/** Throws unless all servers gave the same tokens, the last ones included. */
export function checkSame(names, answers) {
  const [first, ...others] = answers.map((own) => own.map(({ ids }) => ids.join(' ')).join('\n'));
  const other = others.findIndex((own) => own !== first);
  if (other >= 0) throw new Error(`${names[other + 1]} gives other tokens than ${names[0]}`);
}

/**
 * The flat ids of the experts that each layer of each pass needs: the pass of the prompt, then one for each of the
 * first `read` tokens of the answer. The record's experts are (layers, tokens, top), of which the first topK ran.
 */
export function visitsOf({ prompt, answer, experts }, read, { layers, experts: ofLayer, topK, top }) {
  const rows = prompt.length + answer.length;
  const pass = (from, to) =>
    Array.from({ length: layers }, (_, layer) => {
      const ids = new Set();
      for (let row = from; row < to; row += 1) {
        const at = (layer * rows + row) * top;
        for (const expert of experts.subarray(at, at + topK)) ids.add(layer * ofLayer + expert);
      }
      return [...ids].sort((a, b) => a - b);
    });
  const passes = [pass(0, prompt.length)];
  for (let row = prompt.length; row < prompt.length + read; row += 1) passes.push(pass(row, row + 1));
  return passes.flat();
}

/** What Belady's rule loads for `visits` when it has also run those of the warm-up before. */
export function beladyLoads(warmUp, visits, experts, slots) {
  let loads = 0;
  const onLoad = (_, visit) => {
    if (visit >= warmUp.length) loads += 1;
  };
  fewestLoads([...warmUp, ...visits], experts, slots, { onLoad });
  return loads;
}

/** `decodeMs`: from the first token of each answer to its last; `decoded` counts the tokens that came meanwhile. */
export function timesOf(answers) {
  const sum = (of) => answers.reduce((total, answer) => total + of(answer), 0);
  return {
    tokens: sum(({ ids }) => ids.length),
    decoded: sum(({ ids, first }) => ids.length - first),
    decodeMs: sum(({ firstMs, lastMs }) => lastMs - firstMs),
    wholeMs: sum(({ lastMs }) => lastMs),
    firstMs: sum(({ firstMs }) => firstMs) / answers.length,
  };
}

/** The speed of `own` over that of `other`, from their times for the same tokens, by starts, with its 95 % interval. */
export function timesAsFast(own, other) {
  const { mean, low, high } = intervalOf(own.map((ms, start) => Math.log(other[start] / ms)));
  return { mean: Math.exp(mean), low: Math.exp(low), high: Math.exp(high) };
}

const COUNTED = ['passes', 'seconds', 'stallSeconds', 'needed', 'resident', 'prefetched', 'late', 'onDemand'];
COUNTED.push('foreseen', 'wasted', 'bytes', 'belady', 'tokens', 'decoded');

/** A row for each system. `starts`: of each start the figures of every system, by its name. */
export function rowsOf(names, starts) {
  return names.map((system) => {
    const own = starts.map((figures) => figures[system]);
    const over = (other, key) => {
      if (other === system) return null;
      const times = (name) => starts.map((figures) => figures[name][key]);
      return timesAsFast(times(system), times(other));
    };
    const sums = COUNTED.map((key) => [key, own.reduce((sum, figures) => sum + figures[key], 0)]);
    const speeds = (tokens, ms) => own.map((figures) => (1000 * figures[tokens]) / figures[ms]);
    return {
      system,
      slots: own[0].slots,
      perSecond: speeds('decoded', 'decodeMs'),
      overNone: over('none', 'decodeMs'),
      overLru: over('lru', 'decodeMs'),
      overResident: over('resident', 'decodeMs'),
      firstMs: median(own.map(({ firstMs }) => firstMs)),
      wholePerSecond: speeds('tokens', 'wholeMs'),
      wholeOverNone: over('none', 'wholeMs'),
      ...Object.fromEntries(sums),
      governors: own.map(({ governor }) => governor),
    };
  });
}
