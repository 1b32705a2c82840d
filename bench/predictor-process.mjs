// One engine in a process of its own: the inference and the hash-building thread of `sida serve`, fed with batches of
// one sentence each (or of `batch`), the queue between them always full. Started by predictor-systems.mjs; prints what
// it counted.
import { readFileSync } from 'node:fs';
import { HashBuilderLink } from '../dist/engine/hash-builder-link.js';
import { InferenceLink } from '../dist/engine/inference-link.js';
import { predictorChoice } from '../dist/engine/predictor-choice.js';
import { BuilderStats } from '../dist/predictor/builder-stats.js';
import { createQueue } from '../dist/predictor/hash-table-queue.js';
import { ResidentFlag } from '../dist/predictor/resident-flag.js';
import { inBatches, report, scoringInputs } from './system-process.mjs';

const { config, pack, fingerprint, texts, labels, warmUp, batch = 1 } = JSON.parse(readFileSync(0, 'utf8'));

const queue = createQueue(config.lookahead + 1);
const builderStats = new BuilderStats().buffer;
const resident = new ResidentFlag().buffer;
const predictor = predictorChoice(config);
const fail = (error) => {
  console.error(error);
  process.exit(1);
};

const inference = new InferenceLink({
  config,
  pack,
  fingerprint,
  predictor,
  queue: queue.consumer,
  builderStats,
  resident,
});
inference.worker.on('error', fail);
const { shape, plan, usage } = await inference.opened.catch(fail);
const builder = new HashBuilderLink(
  {
    queue: queue.producer,
    predictor,
    model: shape,
    fingerprint,
    pack,
    stats: builderStats,
    resident,
  },
  new URL('../dist/bench/job-batches-thread.js', import.meta.url),
);
builder.worker.on('error', fail);

const { work, inputs } = scoringInputs({ pack, shape, texts, labels });

let nextJob = 0;
let nextItem = 0;
/** A batch is one job of as many items. */
function send(sentences) {
  const job = nextJob++;
  const items = sentences.map((tokens) => {
    return { item: nextItem++, job, jobItems: sentences.length, routingK: 0, work, tokens };
  });
  builder.post({ type: 'add', items });
}

let onInference = () => {};
inference.listen((message) => {
  if (message.type === 'job-error') fail(message.error);
  onInference(message);
});

const { name, warnings } = await builder.opened;
builder.listen(({ type, message }) => type === 'warning' && warnings.push(message));

/** Scores, milliseconds of service and counters after the last, for batches that run one after the other. */
function run(batches) {
  const scores = [];
  const milliseconds = [];
  const begin = performance.now();
  let wallMs = 0;
  return new Promise((resolve) => {
    onInference = (message) => {
      if (message.type === 'done') {
        scores.push(...message.scores);
        if (message.end) milliseconds.push(message.end.endedMs - message.end.startedMs);
        if (milliseconds.length === batches.length) wallMs = performance.now() - begin;
      } else if (message.type === 'counters' && wallMs > 0) {
        resolve({ scores, milliseconds, wallMs, counters: message.counters });
      }
    };
    for (const sentences of batches) send(sentences);
  });
}

const warmUpInputs = Array.from({ length: warmUp }, (_, i) => inputs[i % inputs.length]);
const before = (await run(inBatches(warmUpInputs, batch))).counters;
const { scores, milliseconds, wallMs, counters: after } = await run(inBatches(inputs, batch));
const difference = (a, b) =>
  Object.fromEntries(
    Object.entries(a).flatMap(([key, value]) => (typeof value === 'number' ? [[key, value - b[key]]] : [])),
  );
const {
  tablesQueued: _queued,
  activeSequences: _active,
  rssBytes: _rss,
  // They hold the pause between warm-up and measurement.
  idleWaits: _waits,
  idleSeconds: _idle,
  ...counters
} = difference(after, before);
report({
  hashFunction: name,
  warnings,
  plan,
  usage: { ...usage, peakBytes: after.usage.peakBytes },
  sentences: inputs.length,
  scores,
  milliseconds,
  wallMs,
  counters: { ...counters, tables: difference(after.tables, before.tables) },
});
