// The sentences of predictor-process.mjs by whole-layer streaming, in a process of its own; prints the same figures.
// Passes follow each other at once, with no threads or queues between them. Started by predictor-systems.mjs.
import { readFileSync } from 'node:fs';
import { DirectEngine } from './direct-engine.mjs';
import { LayerStreaming } from './layer-streaming.mjs';
import { inBatches, report, scoringInputs } from './system-process.mjs';

const { config, pack, texts, labels, warmUp, batch = 1 } = JSON.parse(readFileSync(0, 'utf8'));
const direct = new DirectEngine(config, pack, (engine, nativeBatch, firstLayer) =>
  engine.runBatch(nativeBatch, streaming.start(), streaming.onRouted(firstLayer)),
);
const { engine } = direct;
const streaming = new LayerStreaming(engine);
const { work, inputs } = scoringInputs({ pack, shape: engine.shape, texts, labels });

function run(batches) {
  direct.reset();
  streaming.waitMs = 0;
  const milliseconds = [];
  const begin = performance.now();
  const scores = batches.flatMap((sentences) => {
    const started = performance.now();
    const found = direct.classify(sentences, work.plan).flat();
    milliseconds.push(performance.now() - started);
    return found;
  });
  return { scores, milliseconds, wallMs: performance.now() - begin };
}

const warmUpInputs = Array.from({ length: warmUp }, (_, i) => inputs[i % inputs.length]);
run(inBatches(warmUpInputs, batch));
const measured = run(inBatches(inputs, batch));
engine.checkIntegrity();
const { totals } = direct;
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
