// One engine in a process of its own: encodes sentences, decodes greedily, reports a digest of every number and the
// growth of resident memory. Started by budget-switch-base.mjs.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { EVICTION_POLICIES } from '../../../dist/inference/eviction/index.js';
import { openEngine } from '../../../dist/inference/open-engine.js';
import { planOnDemand } from '../../../dist/inference/residency-planner.js';
import { sst2Tokens } from '../../dist/support/sst2.js';

const { pack, budgetBytes, limits, sentences, steps, policy } = JSON.parse(process.argv[2]);
const memory = (key) =>
  Number(new RegExp(`${key}:\\s+(\\d+) kB`).exec(readFileSync('/proc/self/status', 'utf8'))[1]) * 1024;
const inputs = sst2Tokens(sentences).map((tokens) => tokens.subarray(0, limits.maxBatchTokens));

globalThis.gc?.();
writeFileSync('/proc/self/clear_refs', '5'); // the peak counts from here
const before = memory('VmRSS');
const started = performance.now();
const engine = openEngine({
  pack,
  memoryBudget: String(budgetBytes),
  hostBudget: '0',
  ...limits,
});
const opened = performance.now();
const digest = createHash('sha256');
const totals = { needed: 0, resident: 0, onDemand: 0, bytesMoved: 0, stallNs: 0, passNs: 0 };
/** What a server without a predictor plans. */
const plan = () => planOnDemand(engine.residency(), EVICTION_POLICIES[policy]);
const [encoder, decoder] = [Int32Array.of(1), Int32Array.of(2)];
const run = (batch) => {
  const result = engine.runBatch(batch, plan());
  for (const key of Object.keys(totals)) totals[key] += result.stats[key];
  return result;
};
for (const tokens of inputs) {
  const offsets = Int32Array.of(0, tokens.length);
  digest.update(run({ stack: 0, sequences: encoder, offsets, tokens, hiddenStates: true }).hiddenStates);
  let token = 0;
  for (let step = 0; step < steps; step++) {
    const { logits } = run({
      stack: 1,
      sequences: decoder,
      parents: encoder,
      offsets: Int32Array.of(0, 1),
      tokens: Int32Array.of(token),
      logitRows: Int32Array.of(0),
    });
    digest.update(logits);
    token = logits.reduce((best, value, id) => (value > logits[best] ? id : best), 0);
  }
  engine.releaseSequences(Int32Array.of(2, 1));
  engine.checkIntegrity();
}
const usage = engine.usage();
console.log(
  JSON.stringify({
    budgetBytes,
    slots: usage.slots,
    peakDeviceBytes: usage.peakBytes,
    rssGrowthBytes: memory('VmHWM') - before,
    digest: digest.digest('hex'),
    openMs: opened - started,
    runMs: performance.now() - opened,
    ...totals,
  }),
);
