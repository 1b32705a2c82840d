// What sida says of a GPU, and the memory that it takes there: all within the budget, by the driver's own figures. The
// GPU is emulated (docs/cuda-kernels.md).
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../../src/native/addon.js';
import { buildEmulatedAddon } from '../../support/emulated-addon.js';
import { MINI } from '../../support/server-process.js';
import { ended, ownPacks, REPO } from '../../support/sida-process.js';

const MIB = 2 ** 20;
const { flags: packs, remove } = ownPacks();
let SIDA_ADDON: string;

// A build with CUDA has no emulation.
const { compiled } = loadAddon().cuda();

beforeAll(() => {
  if (compiled) return;
  SIDA_ADDON = buildEmulatedAddon();
}, 600_000);
afterAll(remove);

/** `sida` with a GPU of so many MiB, whose contexts take `context` MiB. */
function sida(args: string[], { memory = 4096, context = 100, devices = 1 } = {}) {
  const gpu = {
    SIDA_EMULATION_MEMORY: String(memory * MIB),
    SIDA_EMULATION_CONTEXT: String(context * MIB),
    SIDA_EMULATION_DEVICES: String(devices),
  };
  return ended(args, { env: { ...process.env, SIDA_ADDON, ...gpu } });
}

const plan = async (budget: string, gpu = {}, ...flags: string[]) => {
  const { stdout, stderr } = await sida(
    ['plan', MINI, '--device', 'cuda', '--memory-budget', budget, '--json', ...flags],
    gpu,
  );
  expect(stderr).toBe('');
  return JSON.parse(stdout);
};

describe.skipIf(compiled)('sida doctor', () => {
  it('says driver, compute capability, memory, context and the rate of the link', async () => {
    const { code, stdout } = await sida(['doctor', ...packs], { context: 300 });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^warn {2}CUDA +emulated: .*, compute capability 9\.0, driver emulated$/m);
    expect(stdout).toMatch(
      /^ok {4}GPU memory +4\.00 GiB of 4\.00 GiB free; the context of a process takes 300 MiB$/m,
    );
    expect(stdout).toMatch(/^ok {4}GPU link +[\d.]+ GB\/s from page-locked memory$/m);
    const { gpu } = JSON.parse((await sida(['doctor', '--json', ...packs], { context: 300 })).stdout);
    expect(gpu).toMatchObject({
      capability: '9.0',
      totalBytes: 4096 * MIB,
      freeBytes: 4096 * MIB,
      contextBytes: 300 * MIB,
      contextMeasured: true,
      copyRate: expect.any(Number),
    });
  });

  it('says what is missing without a GPU', async () => {
    const { stdout } = await sida(['doctor', ...packs], { devices: 0 });
    expect(stdout).toMatch(
      /^– {5}CUDA +built in, no device: there is no cuda device: no CUDA-capable device/m,
    );
    expect(stdout).not.toContain('GPU link');
  });
});

describe.skipIf(compiled)('sida plan --device cuda', () => {
  it('counts the context in steps of 32 MiB, and refuses a budget without room for it', async () => {
    const small = (await plan('50%', { context: 100 })).plan;
    const large = (await plan('50%', { context: 400 })).plan;
    expect(large.driver - small.driver).toBe((13 - 4) * 32 * MIB);
    expect(large.smallest - small.smallest).toBe(large.driver - small.driver);
    expect(small.fixed).toBe(small.driver + small.dense + small.routers + small.kvCache + small.workspace);
    const args = ['plan', MINI, '--device', 'cuda'];
    const { stdout } = await sida([...args, '--memory-budget', '200MiB'], { context: 400 });
    expect(stdout).toMatch(/^GPU driver +\d+ MiB +\d+ {2}a context of 400 MiB, measured$/m);
    expect(stdout).toMatch(/A budget of 200 MiB is too small, the smallest that works is 4\d\d MiB\./);
    const refused = ['serve', MINI, '--device', 'cuda', '--memory-budget', '200MiB', ...packs];
    const served = await sida(refused, { context: 400 });
    expect([served.code, served.stderr]).toEqual([
      2,
      expect.stringMatching(/200 MiB is too small, .*: \d+ MiB of the GPU's driver, .* of dense weights/),
    ]);
  });

  it('sets memory aside for each network of a predictor on the GPU', async () => {
    const { plan: without } = await plan('50%');
    const { plan: with_ } = await plan('50%', {}, '--predictor-device', 'cuda');
    expect(with_.driver - without.driver).toBe(2 * 32 * MIB);
    expect(with_.smallest - without.smallest).toBe(2 * 32 * MIB);
    const { code, stderr } = await sida(['plan', MINI, '--predictor-device', 'cuda']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('needs --device cuda')]);
  });

  it('takes the usual context where there is no GPU, and says so', async () => {
    const { stdout } = await sida(['plan', MINI, '--device', 'cuda'], { devices: 0 });
    expect(stdout).toMatch(/^GPU driver +5\d\d MiB +\d+ {2}a context of the usual size; none was measured$/m);
  });

  it('auto: what the GPU has free, less the margin, holds the context, too', async () => {
    const roomy = await plan('auto', { memory: 4096 });
    expect(roomy.freeBytes).toBe(4096 * MIB);
    expect(roomy.budget).toMatchObject({ bytes: roomy.plan.resident, slots: roomy.plan.experts });
    // 512 MiB stay free. What is left has room for a part of the experts.
    const memory = 512 + Math.ceil((roomy.plan.smallest + roomy.plan.expertBytes / 2) / MIB);
    const tight = await plan('auto', { memory });
    expect(tight.budget.bytes).toBe((memory - 512) * MIB);
    expect(tight.budget.slots).toBeGreaterThan(1);
    expect(tight.budget.slots).toBeLessThan(roomy.plan.experts);
  });
});

describe.skipIf(compiled)('sida ask on a GPU that is as large as its budget, to the byte', () => {
  it.each([
    ['cpu', 'lstm', ''],
    ['cuda', 'lstm', ''],
    ['cuda', 'attention', 'the CPU runs its attention network'],
  ])('answers with the predictor on %s, by %s', async (predictor, network, warning) => {
    const model = join(REPO, 'models', 'olmoe-mini');
    const device = ['--device', 'cuda', '--predictor-device', predictor];
    const planned = await sida(['plan', model, ...device, '--memory-budget', '30%', '--json']);
    const { plan: needed } = JSON.parse(planned.stdout);
    const bytes = Math.floor(needed.fixed + 0.3 * needed.expertBytes);
    const args = ['ask', model, 'a violin', '--max-tokens', '3', ...device, '--memory-budget', String(bytes)];
    args.push('--hash-function', network);
    const { code, stdout, stderr } = await sida([...args, ...packs], { memory: bytes / MIB });
    expect([code, stdout !== ''], stderr).toEqual([0, true]);
    if (warning === '') expect(stderr).not.toContain('predictor');
    else expect(stderr).toContain(warning);
  });
});
