// One engine in a process of its own: encodes sentences and decodes a token after each, with tables that know what
// every pass will need, or with none. Started by disk-tier.mjs.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { EVICTION_POLICIES } from '../../../dist/inference/eviction/index.js';
import { openEngine } from '../../../dist/inference/open-engine.js';
import { planResidency } from '../../../dist/inference/residency-planner.js';
import { NO_EXPERT } from '../../../dist/native/engine-types.js';
import { sst2Tokens } from '../../dist/support/sst2.js';

/** Passes that a plan sees: those of four sentences. */
const LOOKAHEAD = 8;
const WARM_UP = 4;

const { pack, budgetBytes, limits, sentences, reads, trace } = JSON.parse(readFileSync(0, 'utf8'));
const opening = performance.now();
const engine = openEngine({
  pack,
  memoryBudget: String(budgetBytes),
  hostBudget: '0',
  ...limits,
  ...reads,
});
const openMs = performance.now() - opening;
const inputs = sst2Tokens(sentences + WARM_UP, 'sst2 sentence: {text}');
const [encoder, decoder] = [Int32Array.of(1), Int32Array.of(2)];
const passes = inputs.flatMap((tokens) => [
  { stack: 0, sequences: encoder, offsets: Int32Array.of(0, tokens.length), tokens },
  {
    stack: 1,
    sequences: decoder,
    parents: encoder,
    offsets: Int32Array.of(0, 1),
    tokens: Int32Array.of(0),
    logitRows: Int32Array.of(0),
  },
]);

const experts = engine.shape.experts;
/** `trace`: of each pass, of each layer, [number of the layer, experts]. */
const visits = trace?.map((layers) =>
  layers.map(([layer, needed]) => {
    const need = new Float32Array(experts);
    for (const index of needed) need[index] = 1;
    return { firstId: layer * experts, need };
  }),
);
const planner = EVICTION_POLICIES['farthest-next-use'];
function plan(pass) {
  const ahead = visits ? visits.slice(pass, pass + LOOKAHEAD) : [];
  const length = (count) => ahead.slice(0, count).reduce((sum, layers) => sum + layers.length, 0);
  return planResidency({
    visits: ahead.flat(),
    passVisits: length(1),
    batchVisits: length(pass % 2 === 0 ? 2 : 1),
    prefetchVisits: length(2),
    residency: engine.residency(),
    policy: visits ? planner : EVICTION_POLICIES.lru,
  });
}

const digest = createHash('sha256');
const totals = {
  needed: 0,
  prefetched: 0,
  late: 0,
  onDemand: 0,
  bytesMoved: 0,
  stallNs: 0,
  passNs: 0,
  diskReads: 0,
  diskBytes: 0,
  overtakes: 0,
};
const seen = [];
let began = 0;
passes.forEach((batch, i) => {
  if (i === 2 * WARM_UP) began = performance.now();
  const { layers, dispatch, logits, stats } = engine.runBatch(batch, plan(i));
  if (logits) digest.update(logits);
  if (i >= 2 * WARM_UP) for (const key of Object.keys(totals)) totals[key] += stats[key];
  if (!trace) {
    const tokens = batch.tokens.length;
    seen.push(
      Array.from(layers, (layer, at) => {
        const needed = new Set(dispatch.subarray(at * tokens, (at + 1) * tokens));
        needed.delete(NO_EXPERT);
        return [layer, [...needed]];
      }),
    );
  }
  if (batch.stack === 1) engine.releaseSequences(Int32Array.of(2, 1));
});
const wallMs = performance.now() - began;
engine.checkIntegrity();
const { slots, disk } = engine.usage();
const result = { slots, disk, openMs, wallMs, ...totals, digest: digest.digest('hex') };
process.stdout.write(JSON.stringify(trace ? result : { ...result, trace: seen }));
