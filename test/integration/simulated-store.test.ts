// The simulated store of `sida eval` against the real one: the bundled model's own passes through both.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preparePack } from '../../src/checkpoint/prepare-pack.js';
import { readTokenizer } from '../../src/engine/model-directory.js';
import type { EvaluationInput } from '../../src/evaluation/input-passes.js';
import { type RunPart, runExact } from '../../src/evaluation/model-runner.js';
import { type ReplayBatch, type ReplayPass, replay, simulated } from '../../src/evaluation/replay.js';
import { dataSource } from '../../src/evaluation/sources.js';
import { StoreSimulation } from '../../src/evaluation/store-simulation.js';
import { batchOf, fillTable } from '../../src/evaluation/tables.js';
import { EVICTION_POLICIES } from '../../src/inference/eviction/index.js';
import { loadAddon } from '../../src/native/addon.js';
import type { Engine, NativeBatch, ResidencyPlan } from '../../src/native/addon-types.js';
import type { ExpectedVisit } from '../../src/predictor/expected-visits.js';
import { routingShape } from '../../src/predictor/hash-function.js';
import { openPredictor } from '../../src/predictor/predictor-directory.js';
import type { EvictionPolicyName } from '../../src/protocol/engine-messages.js';
import { makePredictor, type PredictorFiles } from './predictor-files.js';
import { MINI, sst2 } from './server-process.js';

let files: PredictorFiles;
beforeAll(() => {
  files = makePredictor(sst2().slice(0, 300));
});
afterAll(() => files.remove());

const LIMITS = { maxBatchTokens: 512, kvTokens: 1200, threads: 1 };

async function openEngine(slots: number): Promise<Engine> {
  const addon = loadAddon();
  const { pack } = await preparePack({ model: MINI, packDir: join(files.root, 'packs'), experts: 'auto' });
  const plan = addon.planMemory({ pack }, LIMITS);
  const budgetBytes = plan.fixed + slots * plan.slot;
  const rest = { hostBudgetBytes: 0, linkBandwidth: 0, linkLatency: 0, readDepth: 4 };
  return new addon.Engine({ pack, budgetBytes, ...rest, ...LIMITS });
}

/** The pass as the native engine takes it. */
interface RealPass extends ReplayPass {
  batch: NativeBatch;
}

/** Inputs with their tables, as batches for both stores. */
async function batchesOf(kind: 'labels' | 'continuations'): Promise<ReplayBatch<RealPass>[]> {
  const engine = await openEngine(256);
  const { shape } = engine;
  const tokenizer = (await readTokenizer(MINI, { vocabSize: shape.vocabSize, maxInputBytes: 1 << 20 }))!;
  const lines = sst2()
    .slice(300, 420)
    .map(({ text }, i) => ({ line: i + 1, text: `sst2 sentence: ${text}` }));
  const work = kind === 'labels' ? { labels: ['negative', 'positive'] } : { maxNewTokens: 3 };
  const { inputs } = dataSource('lines', lines, work, { shape, tokenizer, maxBatchTokens: 512 });
  const opened = await openPredictor(files.predictor, {
    model: shape,
    fingerprint: '',
    kind: 'token',
    addon: loadAddon(),
    embedding: () => new (loadAddon().TokenEmbedding)({ checkpoint: MINI }),
  });
  const routing = routingShape(shape);
  const batches = inputs.map((input, i) => {
    const exact = runExact(engine, input);
    const tables = exact.parts.map((part) => fillTable(opened.function, routing, part.stack, part.input));
    const { passes, forecast } = batchOf(exact, tables, routing);
    const native = nativeBatches(input, exact.parts[1]!, i + 1);
    expect(native).toHaveLength(passes.length);
    return { forecast, passes: passes.map((pass, p) => ({ ...pass, batch: native[p]! })) };
  });
  engine.close();
  return batches;
}

/** The same batches with tables that tell the truth, so that nearly all of the loads are planned. */
function forecast(batches: ReplayBatch<RealPass>[]): ReplayBatch<RealPass>[] {
  return batches.map(({ passes }) => {
    const own = passes.map((pass) => trueVisits(pass));
    const told = passes.map((pass, i) => ({
      ...pass,
      own: own[i]!,
      behind: own.slice(i + 1).flat(),
    }));
    return { passes: told, forecast: own.flat() };
  });
}

function trueVisits({ own, visits }: RealPass): ExpectedVisit[] {
  return own.map(({ firstId, need }, layer) => {
    const needed = new Float32Array(need.length);
    for (const id of visits[layer]!) needed[id - firstId] = 1;
    return { firstId, need: needed };
  });
}

/** `id` names the input's sequence, and counted below 0 that of its decoder. */
function nativeBatches({ tokens, work }: EvaluationInput, decoder: RunPart, id: number): NativeBatch[] {
  const offsets = (n: number) => Int32Array.of(0, n);
  const decode = (part: Int32Array): NativeBatch => ({
    stack: 1,
    sequences: Int32Array.of(-id),
    parents: Int32Array.of(id),
    offsets: offsets(part.length),
    tokens: part,
  });
  const { tokens: fed } = decoder.input;
  return [
    { stack: 0, sequences: Int32Array.of(id), offsets: offsets(tokens.length), tokens },
    ...(work.kind === 'score' ? [decode(fed)] : Array.from(fed, (t) => decode(Int32Array.of(t)))),
  ];
}

describe('the simulated store', () => {
  let labels: ReplayBatch<RealPass>[];
  beforeAll(async () => {
    labels = await batchesOf('labels');
  });

  async function loadsOf(
    batches: ReplayBatch<RealPass>[],
    slots: number,
    policy: EvictionPolicyName,
    lookahead: number | null,
  ) {
    const rule = { policy: EVICTION_POLICIES[policy], lookahead };
    const engine = await openEngine(slots);
    let bytes = 0;
    const prefetches = { begun: 0, cancelled: 0, unnamed: 0 };
    const real = {
      residency: () => engine.residency(),
      run({ batch }: RealPass, plan: ResidencyPlan | null) {
        const { stats } = engine.runBatch(batch, plan);
        bytes += stats.bytesMoved;
        prefetches.begun += stats.prefetchesBegun;
        prefetches.cancelled += stats.prefetchesCancelled;
        prefetches.unnamed += stats.onDemand;
        const before = Math.abs(batch.sequences[0]!) - 1;
        engine.releaseSequences(Int32Array.of(before, -before));
      },
    };
    replay(batches, real, rule);
    engine.checkIntegrity();
    const { slot } = engine.plan;
    engine.close();
    const store = new StoreSimulation(256, slots);
    replay(batches, simulated(store), rule);
    return { real: bytes / slot, simulated: store.loads, prefetches };
  }

  it.each(['lru', 'fifo', 'lfu', 'lifo'] as const)(
    'loads with %s exactly what the real one loads',
    async (policy) => {
      for (const slots of [1, 7, 32, 64, 128]) {
        const { real, simulated: loads } = await loadsOf(labels, slots, policy, null);
        expect(loads, `${slots} slots`).toBe(real);
      }
    },
  );

  // Transfers take the real one time, and how long a layer waits for a better victim is a matter of the disk's depth. How far that carries at other budgets: docs/evaluation.md. With fifo at 128 slots
  // two real runs differ by more than 3 %, as the order of loads decides there.
  it.each([
    ['fifo', 0, [64]],
    ['farthest-next-use', 1, [64, 128]],
    ['farthest-next-use', 4, [64, 128]],
  ] as const)('with tables loads as much: %s, look-ahead %i', async (policy, lookahead, all) => {
    for (const slots of all) {
      const { real, simulated: loads } = await loadsOf(labels, slots, policy, lookahead);
      expect(Math.abs(loads / real - 1), `${slots} slots: ${loads} of ${real}`).toBeLessThan(0.02);
    }
  });

  it('follows a generation step by step', async () => {
    const continuations = await batchesOf('continuations');
    expect(continuations.some(({ passes }) => passes.length > 2)).toBe(true);
    const reactive = await loadsOf(continuations, 64, 'lfu', null);
    expect(reactive.simulated).toBe(reactive.real);
    const { real, simulated: loads } = await loadsOf(continuations, 64, 'farthest-next-use', 2);
    expect(Math.abs(loads / real - 1), `${loads} of ${real}`).toBeLessThan(0.02);
  });

  it.each([32, 64, 128])(
    'follows true tables with %i slots, none of whose prefetches is taken back',
    async (slots) => {
      const {
        real,
        simulated: loads,
        prefetches,
      } = await loadsOf(forecast(labels), slots, 'farthest-next-use', 2);
      expect(Math.abs(loads / real - 1), `${loads} of ${real}`).toBeLessThan(0.03);
      expect(prefetches.begun).toBeGreaterThan(real / 4);
      expect(prefetches).toMatchObject({ cancelled: 0, unnamed: 0 });
    },
  );
});
