// One engine in a process of its own: the inference and the hash-building thread of `sida serve` with a fixed number of
// requests in flight, a new one for each that is answered. Started by batch-order.mjs; prints what it counted.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { HashBuilderLink } from '../dist/engine/hash-builder-link.js';
import { InferenceLink } from '../dist/engine/inference-link.js';
import { predictorChoice } from '../dist/engine/predictor-choice.js';
import { clockMs } from '../dist/inference/clock.js';
import { planScoring } from '../dist/inference/scoring.js';
import { BuilderStats } from '../dist/predictor/builder-stats.js';
import { createQueue } from '../dist/predictor/hash-table-queue.js';
import { ResidentFlag } from '../dist/predictor/resident-flag.js';
import { Tokenizer } from '../dist/tokenizer/tokenizer.js';

const { config, pack, fingerprint, order, requests, depth, warmUp } = JSON.parse(readFileSync(0, 'utf8'));
const fail = (error) => {
  console.error(error);
  process.exit(1);
};
const queue = createQueue(config.lookahead + 1);
const builderStats = new BuilderStats().buffer;
const resident = new ResidentFlag().buffer;
const predictor = predictorChoice(config);
const threads = { config, pack, fingerprint, predictor, builderStats, resident };
const inference = new InferenceLink({ ...threads, queue: queue.consumer });
inference.worker.on('error', fail);
const { shape, plan, usage } = await inference.opened.catch(fail);
const { maxBatchTokens, batchWaitMs: waitMs, maxPassedOver } = config;
const builder = new HashBuilderLink(
  {
    queue: queue.producer,
    batching: { order: order === 'arrival' ? order : 'overlap', maxBatchTokens, maxPassedOver, waitMs },
    predictor,
    model: shape,
    fingerprint,
    pack,
    stats: builderStats,
    resident,
  },
  order === 'shuffled' ? new URL('./batch-order-control.mjs', import.meta.url) : undefined,
);
builder.worker.on('error', fail);
const { name, warnings } = await builder.opened;
if (name !== 'lstm') fail(new Error(`no predictor: ${warnings.join('; ')}`));
builder.listen(({ type, message }) => type === 'warning' && fail(new Error(message)));

const { vocabSize, decoderStartTokenId, eosTokenId } = shape;
const tokenizer = new Tokenizer(readFileSync(`${pack}/tokenizer.json`), {
  vocabSize,
  maxInputBytes: 1 << 20,
});
const planOf = (labels) =>
  planScoring(
    labels.map((label) => tokenizer.encodePlain(label)),
    decoderStartTokenId,
    eosTokenId,
  );
const inputs = requests.map(({ text, labels }) => ({
  tokens: tokenizer.encode(text).slice(0, maxBatchTokens),
  work: { kind: 'score', plan: planOf(labels) },
}));

let onInference = () => {};
inference.listen((message) => {
  if (message.type === 'job-error') fail(message.error);
  onInference(message);
});

let nextItem = 0;
/** Scores and waits of each, in their order, and the counters after the last. */
function run(these) {
  const first = nextItem;
  const scores = [];
  const posted = [];
  const started = [];
  let answered = 0;
  const begin = performance.now();
  let wallMs = 0;
  const post = (count) => {
    const items = [];
    for (; items.length < count && nextItem - first < these.length; nextItem++) {
      posted.push(clockMs());
      items.push({ item: nextItem, job: nextItem, jobItems: 1, routingK: 0, ...these[nextItem - first] });
    }
    if (items.length === 0) return;
    builder.post({ type: 'add', items });
  };
  return new Promise((resolve) => {
    onInference = (message) => {
      if (message.type === 'done') {
        scores[message.item - first] = message.scores;
        started[message.item - first] = message.end.startedMs;
        answered += 1;
        if (answered === these.length) wallMs = performance.now() - begin;
        else post(1);
      } else if (message.type === 'counters' && wallMs > 0) {
        resolve({ scores, posted, started, wallMs, counters: message.counters });
      }
    };
    post(depth);
  });
}

const before = (await run(inputs.slice(0, warmUp))).counters;
const { scores, posted, started, wallMs, counters: after } = await run(inputs);
const delta = (name) => after[name] - before[name];
// Requests of one batch start at one time.
const batches = [...new Set(started)].sort((a, b) => a - b);
const waitedBatches = started.map(
  (at, i) => batches.filter((start) => start >= posted[i] && start < at).length,
);
const waitedMs = started.map((at, i) => at - posted[i]).sort((a, b) => a - b);
const tables = (name) => after.tables[name] - before.tables[name];
process.stdout.write(
  JSON.stringify({
    slots: usage.slots,
    experts: plan.experts,
    slotBytes: plan.slot,
    requests: inputs.length,
    tokens: inputs.reduce((sum, input) => sum + input.tokens.length, 0),
    digest: createHash('sha256').update(Float64Array.from(scores.flat())).digest('hex'),
    wallMs,
    batches: delta('batches'),
    expertsNeeded: delta('expertsNeeded'),
    expertsResident: delta('expertsResident'),
    bytesMoved: delta('bytesMoved'),
    stallSeconds: delta('stallSeconds'),
    passSeconds: delta('passSeconds'),
    hashSeconds: tables('seconds'),
    tablesReady: tables('ready'),
    passedOver: tables('passedOver'),
    overdue: tables('overdue'),
    worstWaitBatches: Math.max(...waitedBatches),
    worstWaitMs: waitedMs.at(-1),
    medianWaitMs: waitedMs[waitedMs.length >> 1],
    meanWaitMs: waitedMs.reduce((sum, ms) => sum + ms, 0) / waitedMs.length,
  }),
  () => process.exit(0),
);
