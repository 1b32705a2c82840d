// One engine in a process of its own classifies SST-2's validation set one sentence at a time. Started by sst2-budgets.mjs.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { EVICTION_POLICIES } from '../dist/inference/eviction/index.js';
import { planOnDemand } from '../dist/inference/residency-planner.js';
import { loadAddon } from '../dist/native/addon.js';
import { Tokenizer } from '../dist/tokenizer/tokenizer.js';

const { pack, budgetBytes, limits, policy } = JSON.parse(process.argv[2]);
const addon = loadAddon();
const engine = new addon.Engine({
  pack,
  budgetBytes,
  hostBudgetBytes: 0,
  linkBandwidth: 0,
  linkLatency: 0,
  ...limits,
});
const tokenizer = new Tokenizer(readFileSync('models/switch-mini/tokenizer.json', 'utf8'), {
  vocabSize: engine.shape.vocabSize,
  maxInputBytes: 1 << 20,
});
const labels = ['negative', 'positive'].map((label) => tokenizer.encodePlain(label)[0]);
const rows = readFileSync('test/data/sst2-validation.jsonl', 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));
const inputs = rows.map((row) => Int32Array.from(tokenizer.encode(`sst2 sentence: ${row.text}`)));
/** What a server without a predictor plans. */
const plan = () => planOnDemand(engine.residency(), EVICTION_POLICIES[policy]);
const digest = createHash('sha256');
const one = Int32Array.of(1);
const milliseconds = [];
let right = 0;
let moved = 0;
let needed = 0;
let found = 0;
let stalled = 0;
inputs.forEach((tokens, i) => {
  const started = performance.now();
  const encoded = engine.runBatch(
    { phase: 'encode', sequences: one, offsets: Int32Array.of(0, tokens.length), tokens },
    plan(),
  );
  const decoded = engine.runBatch(
    {
      phase: 'decode',
      sequences: one,
      contexts: one,
      offsets: Int32Array.of(0, 1),
      tokens: Int32Array.of(0),
      logitRows: Int32Array.of(0),
    },
    plan(),
  );
  // The first sentences fill an empty device.
  if (i >= 50) milliseconds.push(performance.now() - started);
  digest.update(decoded.logits);
  engine.releaseSequences(one);
  engine.releaseContexts(one);
  for (const { stats } of [encoded, decoded]) {
    moved += stats.bytesMoved;
    needed += stats.needed;
    found += stats.resident;
    stalled += stats.stallNs;
  }
  const [negative, positive] = labels.map((id) => decoded.logits[id]);
  right += Number(positive > negative) === rows[i].label;
});
engine.checkIntegrity();
milliseconds.sort((a, b) => a - b);
console.log(
  JSON.stringify({
    policy,
    budgetBytes,
    slots: engine.usage().slots,
    accuracy: right / rows.length,
    digest: digest.digest('hex'),
    p50Ms: milliseconds[milliseconds.length >> 1],
    p99Ms: milliseconds[Math.floor(milliseconds.length * 0.99)],
    bytesMoved: moved,
    needed,
    resident: found,
    stallMs: stalled / 1e6,
  }),
);
