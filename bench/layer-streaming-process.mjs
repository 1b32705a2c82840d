// The sentences of predictor-process.mjs by whole-layer streaming, in a process of its own; prints the same figures.
// Passes follow each other at once, with no threads or queues between them. Started by predictor-systems.mjs.
import { readFileSync } from 'node:fs';
import { budgetBytes, hostBudgetBytes } from '../dist/engine/budget.js';
import { scoreLabels } from '../dist/inference/label-scoring.js';
import { loadAddon } from '../dist/native/addon.js';
import { LayerStreaming } from './layer-streaming.mjs';
import { inBatches, report, scoringInputs } from './system-process.mjs';

const { config, pack, texts, labels, warmUp, batch: batchSize = 1 } = JSON.parse(readFileSync(0, 'utf8'));
const addon = loadAddon();
const { maxBatchTokens, kvTokens, threads } = config;
const limits = { maxBatchTokens, kvTokens, threads };
const planned = addon.planMemory({ pack }, limits);
const engine = new addon.Engine({
  pack,
  budgetBytes: budgetBytes(config.memoryBudget, planned),
  hostBudgetBytes: hostBudgetBytes(config.hostBudget, planned),
  linkBandwidth: config.linkBandwidth,
  linkLatency: config.linkLatencyMs / 1000,
  ...limits,
});
const { shape } = engine;
const { work, inputs } = scoringInputs({ pack, shape, texts, labels });
const encoderLayers = shape.moeLayers.filter((layer) => layer.startsWith('encoder.')).length;
const streaming = new LayerStreaming(engine);

let totals;
function reset() {
  totals = {
    needed: 0,
    resident: 0,
    prefetched: 0,
    late: 0,
    onDemand: 0,
    bytesMoved: 0,
    stallNs: 0,
    passNs: 0,
  };
  streaming.waitMs = 0;
}

function pass(batch, firstLayer) {
  const result = engine.runBatch(batch, streaming.start(), streaming.onRouted(firstLayer));
  for (const key of Object.keys(totals)) totals[key] += result.stats[key];
  return result;
}

function offsetsOf(lists) {
  const offsets = new Int32Array(lists.length + 1);
  lists.forEach(({ length }, i) => {
    offsets[i + 1] = offsets[i] + length;
  });
  return offsets;
}

let nextId = 0;
/** What scoreLabels asks of the engine's steps. */
const steps = {
  newId: () => ++nextId,
  decode(sequences, _known, take) {
    const offsets = offsetsOf(sequences.map(({ tokens }) => tokens));
    const { logits } = pass(
      {
        phase: 'decode',
        sequences: Int32Array.from(sequences, ({ sequence }) => sequence),
        contexts: Int32Array.from(sequences, ({ context }) => context),
        offsets,
        tokens: Int32Array.from(sequences.flatMap(({ tokens }) => Array.from(tokens))),
        logitRows: Int32Array.from(sequences.flatMap(({ rows }, i) => rows.map((row) => offsets[i] + row))),
      },
      encoderLayers,
    );
    let row = 0;
    sequences.forEach(({ rows }, i) => {
      take(i, rows.map((_, j) => logits.subarray((row + j) * shape.vocabSize, (row + j + 1) * shape.vocabSize))); // biome-ignore format: one line
      row += rows.length;
    });
  },
};

function runBatch(sentences) {
  const contexts = sentences.map(() => steps.newId());
  pass(
    {
      phase: 'encode',
      sequences: Int32Array.from(contexts),
      offsets: offsetsOf(sentences),
      tokens: Int32Array.from(sentences.flatMap((tokens) => Array.from(tokens))),
    },
    0,
  );
  const items = contexts.map((context, i) => ({ item: i, job: 0, context, plan: work.plan }));
  const { scored, failed, sequences } = scoreLabels(items, steps, null);
  if (failed.length > 0) throw failed[0].error;
  engine.releaseSequences(Int32Array.from(sequences));
  engine.releaseContexts(Int32Array.from(contexts));
  return scored.flatMap(({ scores }) => scores);
}

function run(batches) {
  reset();
  const milliseconds = [];
  const begin = performance.now();
  const scores = batches.flatMap((sentences) => {
    const started = performance.now();
    const found = runBatch(sentences);
    milliseconds.push(performance.now() - started);
    return found;
  });
  return { scores, milliseconds, wallMs: performance.now() - begin };
}

run(inBatches(Array.from({ length: warmUp }, (_, i) => inputs[i % inputs.length]), batchSize)); // biome-ignore format: one line
const measured = run(inBatches(inputs, batchSize));
engine.checkIntegrity();
report({
  hashFunction: null,
  warnings: [],
  plan: engine.plan,
  usage: engine.usage(),
  sentences: inputs.length,
  ...measured,
  counters: {
    expertsNeeded: totals.needed,
    expertsResident: totals.resident,
    expertsPrefetched: totals.prefetched,
    expertsLate: totals.late,
    expertsOnDemand: totals.onDemand,
    bytesMoved: totals.bytesMoved,
    stallSeconds: totals.stallNs / 1e9 + streaming.waitMs / 1000,
    passSeconds: totals.passNs / 1e9,
    tables: { seconds: 0 },
  },
});
