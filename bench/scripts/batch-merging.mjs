// Do batches load less when inputs that wait are merged by the experts they share? Recorded routing runs through the
// expert store without weights, in batches by arrival and in batches that the oldest input begins and the inputs join
// that add the fewest experts. The routing is known before a batch is formed: no table can do better.
import { basename } from 'node:path';
import { loadAddon } from '../../dist/native/addon.js';
import { readMeta, readTrace } from '../../dist/trace/trace-file.js';
import { NOTHING_KNOWN } from '../dist/replay/replay.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { scriptOptions, writeResult } from '../dist/support/script.js';
import { mean } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/batch-merging.mjs --trace DIR [--batches 4,8] [--waiting 16,32,64] [--cache 10%,25%,50%]
  [--quick]
--trace: of sida trace, of a model with an encoder. The result is bench/results/batch-merging.json.
  sida trace models/switch-words --data models/switch-words/words/known-held-out.jsonl --template '{text}' --out T`;

const options = scriptOptions(HELP, {
  trace: undefined,
  batches: '4,8',
  waiting: '16,32,64',
  cache: '10%,25%,50%',
  quick: false,
});
if (options.trace === undefined) throw new Error('expected --trace DIR');
const list = (name) => options[name].split(',').map((each) => Number.parseFloat(each));

const { layers, experts, topK, top, model } = await readMeta(options.trace);
const depth = layers.filter((name) => name.startsWith('encoder.')).length;
/** Flat ids of the experts that each input needs. */
const inputs = [];
for await (const { stacks } of readTrace(options.trace)) {
  const [{ tokens, experts: ranked }] = stacks;
  const needed = new Set();
  for (let row = 0; row < depth * tokens.length; row += 1) {
    const first = Math.floor(row / tokens.length) * experts;
    for (let rank = 0; rank < topK; rank += 1) needed.add(first + ranked[row * top + rank]);
  }
  inputs.push(needed);
}

function countNew(input, needed) {
  let count = 0;
  for (const id of input) if (!needed.has(id)) count += 1;
  return count;
}

function* batchesOf(size, waiting, merged) {
  const queue = [];
  for (let next = 0; next < inputs.length || queue.length > 0; ) {
    while (queue.length < waiting && next < inputs.length) queue.push(inputs[next++]);
    const batch = [queue.shift()];
    const needed = new Set(batch[0]);
    while (batch.length < size && queue.length > 0) {
      const added = queue.map((input) => (merged ? countNew(input, needed) : 0));
      const [input] = queue.splice(added.indexOf(Math.min(...added)), 1);
      batch.push(input);
      for (const id of input) needed.add(id);
    }
    yield [...needed].sort((a, b) => a - b);
  }
}

function loadsOf(size, waiting, share, merged) {
  const all = depth * experts;
  const slots = Math.round((all * share) / 100);
  const store = new (loadAddon().WeightlessStore)({
    experts: all,
    layerExperts: experts,
    slots,
    loadsInFlight: 4,
  });
  let loads = 0;
  for (const needed of batchesOf(size, waiting, merged)) {
    store.startPass(NOTHING_KNOWN);
    for (let layer = 0; layer < depth; layer += 1) {
      const own = needed.filter((id) => Math.floor(id / experts) === layer);
      loads += store.visit(Uint32Array.from(own))?.demanded.length ?? 0;
    }
  }
  return loads / inputs.length;
}

const rows = list('batches').flatMap((batch) =>
  list('waiting').flatMap((waiting) =>
    list('cache').map((share) => {
      const [arrival, merged] = [false, true].map((each) => loadsOf(batch, waiting, share, each));
      const row = { batch, waiting, cache: `${share}%`, arrival, merged, ratio: merged / arrival };
      console.error(JSON.stringify(row));
      return row;
    }),
  ),
);
writeResult(
  'batch-merging',
  {
    question: 'Do batches load less when inputs that wait are merged by the experts they share?',
    ...scriptProvenance(),
    ...{ trace: basename(options.trace), model: model.name, inputs: inputs.length },
    ...{ expertsOfInput: mean(inputs.map(({ size }) => size)), rows },
  },
  options.quick,
);
