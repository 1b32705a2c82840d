// What `sida doctor MODEL` says of a model on this machine.
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { checkModel } from '../../../src/cli/doctor-model.js';
import { PLAN_OPTIONS, planModel } from '../../../src/cli/plan.js';
import { resolveOptions } from '../../../src/config/resolve.js';
import { formatBytes } from '../../../src/text/bytes.js';
import { REPO } from '../../support/sida-process.js';

const MODEL = join(REPO, 'models/olmoe-mini');
const FAST = 1e9;
const { plan } = await planModel(MODEL, resolveOptions(PLAN_OPTIONS, { flags: {}, env: {} }));

const doctor = (flags: object, rate = FAST) => checkModel(MODEL, { flags, env: {} }, rate);

it('says that every expert fits, and that the disk then does not matter', async () => {
  for (const flags of [{}, { memoryBudget: '100MiB' }]) {
    const checks = await doctor(flags, 1);
    expect(checks.map(({ name, result }) => [name, result])).toEqual([
      ['model', 'ok'],
      ['fits', 'ok'],
      ['speed', 'ok'],
    ]);
    expect(checks[1]!.found).toMatch(
      /^every expert, in [\d.]+ MiB of the [\d.]+ [MG]iB that are free less a margin$/,
    );
  }
});

it('computes what a token loads, and warns of a disk that is too slow for it', async () => {
  const slots = Math.floor((52 * 2 ** 20 - plan.fixed) / plan.slot);
  const loaded = plan.tokenDemand * (1 - slots / plan.experts);
  const [, fits, speed] = await doctor({ memoryBudget: '52MiB' });
  expect(fits!.found).toContain(`${slots} of ${plan.experts} experts at a time`);
  expect(fits!.hint).toMatch(/--memory-budget [\d.]+MiB$/);
  expect(speed).toMatchObject({ result: 'ok' });
  expect(speed!.found).toContain(
    `loads about ${formatBytes(loaded)} of them: ${((1e3 * loaded) / FAST).toFixed(1)} ms`,
  );
  const [, , slow] = await doctor({ memoryBudget: '52MiB' }, 1e6);
  expect(slow).toMatchObject({
    result: 'warn',
    hint: expect.stringMatching(/^A larger --memory-budget.*--pack-dir/),
  });
});

it('names no larger budget where the model takes all that is free', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sida-doctor-'));
  try {
    copyFileSync(join(REPO, 'bench/scripts/shapes/deepseek-v3.json'), join(folder, 'config.json'));
    const flags = { experts: 'int4', dense: 'int8', context: '64', maxBatchTokens: '16' };
    const checks = await checkModel(folder, { flags, env: {} }, FAST);
    expect(checks.map(({ hint }) => hint ?? '').join('\n')).not.toContain('A larger --memory-budget');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('fails below the smallest budget, and warns above what is free', async () => {
  const small = await doctor({ memoryBudget: '5MiB' });
  expect(small).toHaveLength(2);
  expect(small[1]).toMatchObject({
    result: 'fail',
    found: expect.stringContaining('the smallest that works is'),
  });
  const [, large] = await doctor({ memoryBudget: '100TiB' });
  expect(large).toMatchObject({ result: 'warn', hint: expect.stringMatching(/--memory-budget [\d.]+MiB$/) });
});

it('names int8 activations for quantized experts alone', async () => {
  const named = async (flags: object) =>
    (await doctor({ activations: 'f32', ...flags })).map(({ name }) => name);
  expect(await named({ experts: 'int8' })).toContain('activations');
  expect(await named({})).not.toContain('activations');
  expect(await named({ experts: 'int8', activations: 'int8' })).not.toContain('activations');
});

it('says why there is no model', async () => {
  const checks = await checkModel(join(REPO, 'none'), { flags: {}, env: {} }, FAST);
  expect(checks).toMatchObject([
    { name: 'model', result: 'fail', found: `${join(REPO, 'none')}: no such file or directory` },
  ]);
});
