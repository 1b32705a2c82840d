// A pass whose layers take all their experts, as where whole layers are streamed.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../../dist/checkpoint/converter.js';
import { loadAddon } from '../../../dist/native/addon.js';
import type { Engine, NativeBatch } from '../../../dist/native/addon-types.js';
import { streamingPlan } from '../../src/systems/layer-streaming.js';

const root = mkdtempSync(join(tmpdir(), 'sida-whole-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const addon = loadAddon();
const { pack } = await convertCheckpoint({
  model: join(import.meta.dirname, '../../../test/fixtures/switch-tiny-untied'),
  out: join(root, 'pack'),
  experts: 'auto',
  dense: 'auto',
});
const limits = { maxBatchTokens: 16, kvTokens: 64, threads: 1 };
const plan = addon.planMemory({ pack }, limits);

function open(slots: number): Engine {
  const budgetBytes = plan.fixed + slots * plan.slot;
  return new addon.Engine({
    ...limits,
    pack,
    budgetBytes,
    hostBudgetBytes: 0,
    linkBandwidth: 0,
    linkLatency: 0,
  });
}

const one = Int32Array.of(1);
const BATCH: NativeBatch = {
  stack: 0,
  sequences: one,
  offsets: Int32Array.of(0, 5),
  tokens: Int32Array.of(7, 3, 9, 4, 1),
  hiddenStates: true,
};

describe('wholeLayers', () => {
  it.each([1, 3, plan.experts])(
    'takes every expert of a layer and changes no bit, with %i slots',
    (slots) => {
      const usual = open(plan.experts);
      const streaming = open(slots);
      const { experts, moeLayers } = streaming.shape;
      const streamed = streamingPlan(0, moeLayers.length, experts);
      try {
        const expected = usual.runBatch(BATCH, null);
        for (let round = 0; round < 3; round++) {
          const result = streaming.runBatch({ ...BATCH, wholeLayers: true }, streamed);
          expect(result.hiddenStates).toEqual(expected.hiddenStates);
          expect(result.dispatch).toEqual(expected.dispatch);
          expect(result.stats.needed).toBe(result.layers.length * experts);
          expect(expected.stats.needed).toBeLessThan(result.stats.needed);
          streaming.releaseSequences(one);
          streaming.checkIntegrity();
        }
      } finally {
        usual.close();
        streaming.close();
      }
    },
  );
});
