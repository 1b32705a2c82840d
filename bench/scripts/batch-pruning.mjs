// What does it save that finished sequences leave the batch ("batch pruning")? switch-mini decodes batches of
// SST-2 sentences, each with an output of the sentence's own tokens, as a translation has about its length. With
// pruning a sequence leaves when its output ends; without, it is fed padding until the longest output of its batch has
// ended. Both ways feed the same outputs and name the same number of candidates in each row; with a batch of one they
// do the same. Every batch size decodes the same sentences, in the order of the data. The processor's time is what the
// process used on all cores, which other work on the machine hardly changes.
import { join } from 'node:path';
import { openEngine } from '../../dist/inference/open-engine.js';
import { MINI_DIRECTORY } from '../dist/support/paths.js';
import { sida } from '../dist/support/processes.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, scratchDirectory, writeResult } from '../dist/support/script.js';
import { sst2Texts, tokenizerOf } from '../dist/support/sst2.js';
import { medians } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/batch-pruning.mjs [--batch 1,2,4,8,16,32] [--sentences 128] [--beams 1,4]
  [--budgets 100%,25%] [--rounds 3] [--threads 2] [--quick (--sentences 64 --rounds 1)]
The result is bench/results/batch-pruning.json.`;

const { batch: sizes, beams: widths, budgets, sentences: count, rounds, threads, quick } = optionsOf(HELP);
const [batches, beamCounts] = [sizes, widths].map((list) => list.split(',').map(Number));

const [ENCODER, DECODER] = [0, 1];
const tokenizer = tokenizerOf(MINI_DIRECTORY);
const sentences = sst2Texts(count).map((text) => tokenizer.encode(text));

/** Decodes one batch and returns what its decoder passes cost. */
function decode(engine, group, beams, pruned) {
  const prompts = Int32Array.from(group, (_, i) => i);
  const offsets = [0];
  for (const ids of group) offsets.push(offsets.at(-1) + ids.length);
  const prompt = { stack: ENCODER, sequences: prompts, offsets: Int32Array.from(offsets) };
  engine.runBatch({ ...prompt, tokens: Int32Array.from(group.flat()) }, null);
  const longest = Math.max(...group.map(({ length }) => length));
  const sequenceOf = (i, beam) => beams * i + beam + 1_000;
  const begun = process.cpuUsage();
  const started = performance.now();
  let [rows, bytes] = [0, 0];
  for (let step = 0; step < longest; step++) {
    const sequences = [];
    const tokens = [];
    const parents = [];
    for (const [i, ids] of group.entries()) {
      if (pruned && step >= ids.length) continue;
      for (let beam = 0; beam < beams; beam++) {
        sequences.push(sequenceOf(i, beam));
        parents.push(i);
        // The decoder is fed the start token, the output, and padding once that has ended; both are token 0.
        tokens.push(step === 0 ? 0 : (ids[step - 1] ?? 0));
      }
    }
    const { stats } = engine.runBatch(
      {
        stack: DECODER,
        sequences: Int32Array.from(sequences),
        parents: Int32Array.from(parents),
        offsets: Int32Array.from({ length: tokens.length + 1 }, (_, row) => row),
        tokens: Int32Array.from(tokens),
        picks: {
          rows: Int32Array.from(tokens.keys()),
          ...(beams > 1 && { top: new Int32Array(tokens.length).fill(2 * beams) }),
        },
      },
      null,
    );
    rows += tokens.length;
    bytes += stats.bytesMoved;
    if (!pruned) continue;
    const ended = group.flatMap(({ length }, i) =>
      length === step + 1 ? Array.from({ length: beams }, (_, beam) => sequenceOf(i, beam)) : [],
    );
    if (ended.length > 0) engine.releaseSequences(Int32Array.from(ended));
  }
  const all = group.flatMap((_, i) => Array.from({ length: beams }, (_, beam) => sequenceOf(i, beam)));
  engine.releaseSequences(Int32Array.from([...all, ...prompts]));
  const { user, system } = process.cpuUsage(begun);
  const [cpuMs, wallMs] = [(user + system) / 1000, performance.now() - started];
  return { cpuMs, wallMs, rows, bytes };
}

/** Every sentence once, in batches; what decoding them costs together. */
function decodeAll(engine, batch, beams, pruned) {
  const sum = { cpuMs: 0, wallMs: 0, rows: 0, bytes: 0 };
  for (let at = 0; at < sentences.length; at += batch) {
    const cost = decode(engine, sentences.slice(at, at + batch), beams, pruned);
    for (const name of Object.keys(sum)) sum[name] += cost[name];
  }
  return sum;
}

const pack = join(scratchDirectory(), 'pack');
await sida(['convert', MINI_DIRECTORY, '--out', pack]);
const outputTokens = sentences.reduce((sum, { length }) => sum + length, 0);
const runs = [];
for (const budget of budgets.split(',')) {
  for (const beams of beamCounts) {
    const kvTokens = Math.max(...batches) * (1 + beams) * 96;
    const limits = { maxBatchTokens: 4096, kvTokens, threads };
    const engine = openEngine({ ...limits, pack, memoryBudget: budget, hostBudget: '0' });
    const measured = batches.map((batch) => ({ batch, pruned: [], whole: [] }));
    decodeAll(engine, Math.max(...batches), beams, true);
    for (let round = 0; round < rounds; round++) {
      for (const own of measured) {
        // What runs second finds warmer caches.
        const ways = round % 2 === 0 ? ['pruned', 'whole'] : ['whole', 'pruned'];
        for (const way of ways) own[way].push(decodeAll(engine, own.batch, beams, way === 'pruned'));
      }
    }
    engine.close();
    for (const { batch, ...ways } of measured) {
      const [pruned, whole] = [medians(ways.pruned), medians(ways.whole)];
      runs.push({ budget, beams, batch, outputTokens, pruned, whole });
      const times = (whole.cpuMs / pruned.cpuMs).toFixed(2);
      console.error(`${budget}, ${beams} beams, batch ${batch}: ${times} times the throughput`);
    }
  }
}
const result = {
  question: 'What does it save that finished sequences leave the batch?',
  ...scriptProvenance(),
  threads,
  inputs: sentences.length,
  rounds,
  model: 'switch-mini',
  control: 'batch 1, where both ways do the same',
  runs,
};
writeResult('batch-pruning', result, quick);
