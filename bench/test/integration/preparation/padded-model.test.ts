// A padded model is made from its bundled checkpoint, packed, and removed again.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { loadAddon } from '../../../../dist/native/addon.js';
import { prepareModel, removeModel } from '../../../src/preparation/prepare.js';
import { type BenchModel, SWITCH_MINI } from '../../../src/scenarios/models.js';

const work = mkdtempSync(join(tmpdir(), 'sida-padded-model-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));

it('has a pack of larger experts, and leaves no checkpoint behind', async () => {
  const plain: BenchModel = {
    ...SWITCH_MINI,
    ...{ name: 'tiny', folder: '../test/fixtures/switch-tiny', dtype: 'f32' },
  };
  const padded: BenchModel = { ...plain, name: 'tiny-padded', expertBytes: '300kB' };
  const maker = { work, threads: 1, seed: 1, onStep: () => {} };
  const slot = ({ pack }: { pack: string }) =>
    loadAddon().planMemory({ pack }, { maxBatchTokens: 16, kvTokens: 64, threads: 1 }).slot;
  const [own, copy] = [await prepareModel(plain, maker), await prepareModel(padded, maker)];
  expect(slot(own)).toBeLessThan(200_000);
  expect(slot(copy)).toBeGreaterThanOrEqual(300_000);
  // Its predictor and its traces are those of the checkpoint.
  expect(copy.weights).toBe(own.weights);
  expect(copy.fingerprint).not.toBe(own.fingerprint);
  expect(existsSync(join(work, 'tiny-padded/checkpoint'))).toBe(false);
  for (const model of [plain, padded]) removeModel(model, work);
  // The pack of a bundled checkpoint is small, and stays.
  expect([plain, padded].map(({ name }) => existsSync(join(work, name, 'pack')))).toEqual([true, false]);
});
