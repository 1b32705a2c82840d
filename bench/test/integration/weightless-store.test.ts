// Compares the weightless store, on which replays run, with the engine's store.
// Both run the bundled model's own passes.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { preparePack } from '../../../dist/checkpoint/prepare-pack.js';
import type { EvaluationInput } from '../../../dist/evaluation/input-passes.js';
import { type RunPart, runExact } from '../../../dist/evaluation/model-runner.js';
import { dataSource } from '../../../dist/evaluation/sources.js';
import { loadAddon } from '../../../dist/native/addon.js';
import type {
  Engine,
  EvictionPolicyName,
  NativeBatch,
  PassNeeds,
  Residency,
} from '../../../dist/native/addon-types.js';
import { Tokenizer } from '../../../dist/text/tokenizer.js';
import { MINI, sst2 } from '../../../test/support/server-process.js';
import { tabled } from '../../src/replay/policies.js';
import { type ReplayBatch, type ReplayPass, type ReplayStore, replay } from '../../src/replay/replay.js';
import { WatchedStore } from '../../src/replay/watched-store.js';

const packDir = mkdtempSync(join(tmpdir(), 'sida-packs-'));
afterAll(() => rmSync(packDir, { recursive: true, force: true }));

const LIMITS = { maxBatchTokens: 512, kvTokens: 1200, threads: 1 };

/** Experts of the bundled model. */
const EXPERTS = 256;
const LAYER_EXPERTS = 64;

async function openEngine(
  slots: number,
  readDepth = 4,
  policy: EvictionPolicyName = 'farthest-next-use',
): Promise<Engine> {
  const addon = loadAddon();
  const { pack } = await preparePack({ model: MINI, packDir, experts: 'auto' });
  const plan = addon.planMemory({ pack }, LIMITS);
  const budgetBytes = plan.fixed + slots * plan.slot;
  const rest = { hostBudgetBytes: 0, linkBandwidth: 0, linkLatency: 0, readDepth, policy };
  return new addon.Engine({ pack, budgetBytes, ...rest, ...LIMITS });
}

/** A pass with the batch that the native engine runs. */
interface RealPass extends ReplayPass {
  batch: NativeBatch;
}

/** Inputs as batches for both stores, without tables. */
async function batchesOf(kind: 'labels' | 'continuations'): Promise<ReplayBatch<RealPass>[]> {
  const engine = await openEngine(EXPERTS);
  const { shape } = engine;
  const tokenizer = new Tokenizer(readFileSync(join(MINI, 'tokenizer.json')), {
    vocabSize: shape.vocabSize,
    maxInputBytes: 1 << 20,
  });
  const lines = sst2()
    .slice(300, 420)
    .map(({ text }, i) => ({ line: i + 1, text: `sst2 sentence: ${text}` }));
  const work = kind === 'labels' ? { labels: ['negative', 'positive'] } : { maxNewTokens: 3 };
  const { inputs } = dataSource('lines', lines, work, { shape, tokenizer, maxBatchTokens: 512 });
  const batches = inputs.map((input, i) => {
    const { parts } = runExact(engine, input);
    const needs = parts.flatMap(({ passes }) => passes.map(({ needed }) => needed));
    const native = nativeBatches(input, parts[1]!, i + 1);
    expect(native).toHaveLength(needs.length);
    const passes = needs.map((visits, p) => ({ visits, own: [], behind: [], batch: native[p]! }));
    return { forecast: [], passes };
  });
  engine.close();
  return batches;
}

/** The same batches with tables of the true routing, so that nearly all loads are planned. */
function forecast(batches: ReplayBatch<RealPass>[]): ReplayBatch<RealPass>[] {
  return tabled({ batches, experts: LAYER_EXPERTS }, true);
}

/** `id` is the sequence of the input, and `-id` that of its decoder. */
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

/** The engine as a store that replays can use. It counts loads and prefetches. */
async function openReal(slots: number, readDepth?: number, policy?: EvictionPolicyName) {
  const engine = await openEngine(slots, readDepth, policy);
  let bytes = 0;
  const prefetches = { begun: 0, cancelled: 0, unnamed: 0 };
  const store: ReplayStore<RealPass> = {
    run({ batch }, needs) {
      const { stats } = engine.runBatch(batch, needs);
      bytes += stats.bytesMoved;
      prefetches.begun += stats.prefetchesBegun;
      prefetches.cancelled += stats.prefetchesCancelled;
      prefetches.unnamed += stats.onDemand;
      const before = Math.abs(batch.sequences[0]!) - 1;
      engine.releaseSequences(Int32Array.of(before, -before));
    },
  };
  const close = () => {
    engine.checkIntegrity();
    const { slot } = engine.plan;
    engine.close();
    return { loads: bytes / slot, prefetches };
  };
  return { store, residency: () => engine.residency(), close };
}

function openWeightless(slots: number, policy?: EvictionPolicyName) {
  let loads = 0;
  const load = () => {
    loads += 1;
  };
  const store = new WatchedStore<RealPass>(
    { experts: EXPERTS, layerExperts: LAYER_EXPERTS, slots, ...(policy && { policy }) },
    { load },
  );
  return { store, loads: () => loads };
}

describe('the store without weights', () => {
  let labels: ReplayBatch<RealPass>[];
  let continuations: ReplayBatch<RealPass>[];
  beforeAll(async () => {
    labels = await batchesOf('labels');
    continuations = await batchesOf('continuations');
  });

  /** Runs both stores, and compares them after every pass. */
  async function compareOnDemand(
    batches: ReplayBatch<RealPass>[],
    slots: number,
    policy: EvictionPolicyName,
  ): Promise<void> {
    // A single reader finishes loads in the order in which they begin. With more readers, chance decides which of a
    // layer's experts arrives first, and thus which is evicted first if the layer needs more experts than fit.
    const real = await openReal(slots, 1, policy);
    const weightless = openWeightless(slots, policy);
    const held: [Residency, Residency][] = [];
    const both: ReplayStore<RealPass> = {
      run(pass: RealPass, needs: PassNeeds) {
        real.store.run(pass, needs);
        weightless.store.run(pass, needs);
        held.push([weightless.store.residency(), real.residency()]);
      },
    };
    replay(batches, both, null);
    const differs = held.findIndex(([one, other]) => !isDeepStrictEqual(one, other));
    expect(differs, `first pass of ${held.length} after which they differ, ${slots} slots`).toBe(-1);
    expect(weightless.loads()).toBe(real.close().loads);
  }

  it.each(['lru', 'fifo', 'lfu'] as const)(
    'holds and loads the same experts as the engine with %s, pass by pass',
    async (policy) => {
      for (const slots of [1, 7, 32, 64, 128]) await compareOnDemand(labels, slots, policy);
      await compareOnDemand(continuations, 64, policy);
    },
  );

  async function runBoth(batches: ReplayBatch<RealPass>[], slots: number, lookahead: number) {
    const real = await openReal(slots);
    const weightless = openWeightless(slots);
    replay(batches, real.store, lookahead);
    replay(batches, weightless.store, lookahead);
    const { loads, prefetches } = real.close();
    return { real: loads, weightless: weightless.loads(), prefetches };
  }

  // The engine's transfers take time, and evictions depend on the loads that have completed by then.
  it('follows a generation step by step', async () => {
    expect(continuations.some(({ passes }) => passes.length > 2)).toBe(true);
    const { real, weightless } = await runBoth(forecast(continuations), 64, 2);
    expect(Math.abs(weightless / real - 1), `${weightless} of ${real}`).toBeLessThan(0.02);
  });

  it.each([32, 64, 128])(
    'follows true tables with %i slots, and none of the prefetches is cancelled',
    async (slots) => {
      const { real, weightless, prefetches } = await runBoth(forecast(labels), slots, 2);
      expect(Math.abs(weightless / real - 1), `${weightless} of ${real}`).toBeLessThan(0.03);
      expect(prefetches.begun).toBeGreaterThan(real / 4);
      expect(prefetches).toMatchObject({ cancelled: 0, unnamed: 0 });
    },
  );
});
