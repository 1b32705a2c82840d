// One engine in a process of its own: the inference and the hash-building thread of `sida serve`, fed with batches of
// one sentence each, the queue between them always full. Started by predictor-systems.mjs; prints what it counted.
import { readFileSync } from 'node:fs';
import { HashBuilderLink } from '../dist/engine/hash-builder-link.js';
import { InferenceLink } from '../dist/engine/inference-link.js';
import { predictorChoice } from '../dist/engine/predictor-choice.js';
import { planScoring } from '../dist/inference/scoring.js';
import { BuilderStats } from '../dist/predictor/builder-stats.js';
import { createQueue } from '../dist/predictor/hash-table-queue.js';
import { ResidentFlag } from '../dist/predictor/resident-flag.js';
import { Tokenizer } from '../dist/tokenizer/tokenizer.js';

const { config, pack, fingerprint, texts, labels, warmUp } = JSON.parse(readFileSync(0, 'utf8'));

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
const builder = new HashBuilderLink({
  queue: queue.producer,
  // No two sentences fit a batch.
  batching: { order: 'arrival', maxBatchTokens: 1, maxPassedOver: 1, waitMs: 0 },
  predictor,
  model: shape,
  fingerprint,
  pack,
  stats: builderStats,
  resident,
});
builder.worker.on('error', fail);

const { vocabSize, decoderStartTokenId, eosTokenId } = shape;
const tokenizer = new Tokenizer(readFileSync(`${pack}/tokenizer.json`, 'utf8'), {
  vocabSize,
  maxInputBytes: 1 << 20,
});
const labelIds = labels.map((label) => tokenizer.encodePlain(label));
const work = { kind: 'score', plan: planScoring(labelIds, decoderStartTokenId, eosTokenId) };
const inputs = texts.map((text) => tokenizer.encode(text));

let nextItem = 0;
const send = (sentences) =>
  builder.post({
    type: 'add',
    items: sentences.map((tokens) => {
      const item = nextItem++;
      return { item, job: item, jobItems: 1, routingK: 0, work, tokens };
    }),
  });

let onInference = () => {};
inference.listen((message) => {
  if (message.type === 'job-error') fail(message.error);
  onInference(message);
});

const { name, warnings } = await builder.opened;
builder.listen(({ type, message }) => type === 'warning' && warnings.push(message));

/** Scores, milliseconds of service and counters after the last, for sentences that run one after the other. */
function run(sentences) {
  const scores = [];
  const milliseconds = [];
  const begin = performance.now();
  let wallMs = 0;
  return new Promise((resolve) => {
    onInference = (message) => {
      if (message.type === 'done') {
        scores.push(...message.scores);
        milliseconds.push(message.end.endedMs - message.end.startedMs);
        if (milliseconds.length === sentences.length) wallMs = performance.now() - begin;
      } else if (message.type === 'counters' && wallMs > 0) {
        resolve({ scores, milliseconds, wallMs, counters: message.counters });
      }
    };
    send(sentences);
  });
}

const before = (await run(Array.from({ length: warmUp }, (_, i) => inputs[i % inputs.length]))).counters;
const { scores, milliseconds, wallMs, counters: after } = await run(inputs);
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
const serviceMs = milliseconds.reduce((sum, ms) => sum + ms, 0);
milliseconds.sort((a, b) => a - b);
const quantile = (q) => milliseconds[Math.min(milliseconds.length - 1, Math.floor(milliseconds.length * q))];
process.stdout.write(
  JSON.stringify({
    hashFunction: name,
    warnings,
    slots: usage.slots,
    experts: plan.experts,
    slotBytes: plan.slot,
    budgetBytes: usage.budgetBytes,
    peakBytes: after.usage.peakBytes,
    sentences: inputs.length,
    wallMs,
    betweenPassesMs: wallMs - serviceMs,
    passP50Ms: quantile(0.5),
    passP95Ms: quantile(0.95),
    ...counters,
    tables: difference(after.tables, before.tables),
    scores: Buffer.from(Float64Array.from(scores).buffer).toString('base64'),
  }),
  () => process.exit(0),
);
