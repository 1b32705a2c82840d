// One engine in a process of its own: runs a text in chunks and then token by token under one rule of eviction.
// Started by eviction.mjs.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { EVICTION_POLICIES } from '../../../dist/inference/eviction/index.js';
import { openEngine } from '../../../dist/inference/open-engine.js';
import { planPass } from '../../../dist/inference/pass-planner.js';
import { planOnDemand } from '../../../dist/inference/residency-planner.js';
import { EXPERT_UNUSED } from '../../../dist/native/engine-types.js';

const [{ pack, budget, rule, warmUp, threads, prompt, chunk, steps, ids, visits }] = await once(
  process,
  'message',
);
const engine = openEngine({
  ...{ pack, threads, memoryBudget: budget, hostBudget: '0' },
  ...{ maxBatchTokens: chunk, kvTokens: prompt + steps + 16 },
});
const { experts } = engine.shape;
const policy = EVICTION_POLICIES[rule === 'lru' || rule === 'lfu' ? rule : 'farthest-next-use'];

/** The visits of pass `at` as tables that are sure. */
function known(at) {
  return (visits[at] ?? []).map((ids, layer) => {
    const need = new Float32Array(experts);
    for (const id of ids) need[id - layer * experts] = 1;
    return { firstId: layer * experts, need };
  });
}

function planOf(at) {
  const residency = engine.residency();
  if (visits === undefined) return planOnDemand(residency, policy);
  return planPass({ own: known(at), behind: [] }, [known(at + 1)], { residency, policy });
}

const logitsOf = [];
const seen = [];
function run(tokens) {
  const started = performance.now();
  const plan = planOf(seen.length);
  const { logits, stats, found, layers } = engine.runBatch(
    {
      ...{ stack: 0, sequences: Int32Array.of(1) },
      ...{ offsets: Int32Array.of(0, tokens.length), tokens: Int32Array.from(tokens) },
      logitRows: Int32Array.of(tokens.length - 1),
    },
    plan,
  );
  const ms = performance.now() - started;
  logitsOf[seen.length] = createHash('sha256').update(logits).digest('hex');
  seen.push(
    Array.from(layers, (layer, at) =>
      Array.from({ length: experts }, (_, index) => index)
        .filter((index) => found[at * experts + index] !== EXPERT_UNUSED)
        .map((index) => layer * experts + index),
    ),
  );
  return { ms, ...stats };
}

function phaseOf(runs) {
  const sum = (name) => runs.reduce((total, each) => total + each[name], 0);
  return {
    ms: sum('ms'),
    bytes: sum('bytesMoved'),
    needed: sum('needed'),
    hits: sum('resident') + sum('prefetched'),
    stallShare: sum('stallNs') / sum('passNs'),
  };
}

function runText() {
  const chunks = [];
  for (let at = 0; at < prompt; at += chunk) chunks.push(run(ids.slice(at, Math.min(at + chunk, prompt))));
  const decoded = ids.slice(prompt).map((id) => run([id]));
  engine.releaseSequences(Int32Array.of(1));
  return { chunks, decoded };
}

if (warmUp) runText();
seen.length = 0;
const { chunks, decoded } = runText();
engine.checkIntegrity();
const { slots, disk } = engine.usage();
const { plan } = engine;
const result = {
  ...{ slots, slotBytes: plan.slot, experts: plan.experts, bytesPerSecond: disk[0]?.bytesPerSecond ?? 0 },
  prefill: phaseOf(chunks),
  decode: phaseOf(decoded),
  chunks: chunks.map(({ ms, needed }) => ({ ms, needed })),
  prefillPasses: chunks.length,
  logits: createHash('sha256').update(logitsOf.join()).digest('hex'),
  ...(visits === undefined && { visits: seen }),
};
engine.close();
process.send(result, () => process.disconnect());
