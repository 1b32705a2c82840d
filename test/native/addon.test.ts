import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { addon, MINI, NO_TIERS, openEngine, packOf, passOf, REPO, root, thrown } from './fixture.js';

const limits = { maxBatchTokens: 256, kvTokens: 512, threads: 2 };
const pack = await packOf(MINI);
const open = (budgetBytes?: number) =>
  openEngine(pack, limits, 1, budgetBytes === undefined ? {} : { budgetBytes });

describe('loading', () => {
  it('fails with the paths, their faults and the command to run', () => {
    const broken = join(root, 'broken.node');
    writeFileSync(broken, 'not a library');
    for (const [path, found] of [
      ['/nowhere/sida.node', /no such file/],
      [broken, /broken\.node: .+/],
    ] as const) {
      const child = spawnSync(
        process.execPath,
        [
          '-e',
          `import('${REPO}/dist/native/addon.js').then(m => m.loadAddon()).catch(e => console.log(e.message))`,
        ],
        { env: { ...process.env, SIDA_ADDON: path }, encoding: 'utf8' },
      );
      expect(child.stdout).toMatch(/could not be loaded on linux-/);
      expect(child.stdout).toMatch(found);
      expect(child.stdout).toContain('npm run build:native');
    }
  });

  it('works in a worker thread', async () => {
    const worker = new Worker(
      `import('${REPO}/dist/native/addon.js').then(({ loadAddon }) =>
        require('node:worker_threads').parentPort.postMessage(loadAddon().cpuFeatures().isa))`,
      { eval: true },
    );
    expect(await new Promise((resolve) => worker.once('message', resolve))).toBe(addon.cpuFeatures().isa);
    await worker.terminate();
  });

  it('reports the absence of CUDA without an error', () => {
    const { devices, device, message } = addon.cuda();
    expect(message === '').toBe(devices > 0);
    expect(device === undefined).toBe(devices === 0);
  });

  it('refuses a missing device with the reason', ({ skip }) => {
    if (addon.cuda().devices > 0) skip('this machine has a CUDA device');
    expect(
      thrown(() => openEngine(pack, { ...limits, device: 'cuda' }, 1, { budgetBytes: 2 ** 30 })),
    ).toMatchObject({
      code: 'device_unavailable',
      message: expect.stringMatching(/no cuda device: ./),
    });
  });
});

describe('the budget', () => {
  it('is planned to the byte, and refused below the smallest workable one with the bytes needed', () => {
    const { smallest } = addon.planMemory({ pack }, limits);
    const error = thrown(() => open(smallest - 1));
    expect(error.code).toBe('budget_too_small');
    expect(error.details).toMatchObject({ needed_bytes: smallest });
    expect(error.message).toContain(String(smallest));
    const least = open(smallest);
    expect(least.usage().slots).toBe(1);
    expect(least.usage().peakBytes).toBeLessThanOrEqual(smallest);
    least.close();
    const engine = open();
    expect(engine.usage().usedBytes).toBe(engine.plan.resident);
    engine.close();
  });
});

describe('runBatch', () => {
  it('refuses malformed batches with the numbers and stays usable', () => {
    const engine = open();
    const run = (batch: object) => engine.runBatch(batch as never, null);
    expect(thrown(() => run(passOf([8000]))).message).toMatch(/token id 8000 .* vocabulary of 8000/);
    expect(thrown(() => run(passOf([-1]))).code).toBe('invalid_request');
    expect(thrown(() => run(passOf(Array(257).fill(5)))).message).toMatch(
      /257 tokens exceed the limit of 256/,
    );
    expect(thrown(() => run({ ...passOf([1, 2]), offsets: Int32Array.of(0, 3) })).message).toMatch(
      /2 tokens/,
    );
    expect(thrown(() => run({ ...passOf([1]), stack: 1, parents: Int32Array.of(9) })).message).toMatch(
      /no sequence 9, the parent of sequence 1/,
    );
    expect(thrown(() => run({ ...passOf([1]), stack: 1 })).message).toMatch(/sequence 1 needs a parent/);
    expect(thrown(() => run({ ...passOf([1]), stack: 2 })).message).toMatch(/stack 2 of 2/);
    const keys = new Float64Array(engine.plan.experts);
    const plan = { keys, keysAfter: keys, loads: new Uint32Array(), expendable: 0, newestFirst: false };
    const planned = (more: object) => thrown(() => engine.runBatch(passOf([1]), { ...plan, ...more }));
    expect(planned({ keys: keys.subarray(1) }).message).toMatch(/255 and 256 keys for 256 experts/);
    expect(planned({ loads: Uint32Array.of(256) }).message).toMatch(/expert 256 of 256/);
    expect(planned({ keys: new Float32Array(256) }).code).toBe('invalid_request');
    run(passOf([5, 6, 7]));
    expect(thrown(() => run(passOf([5, 6, 7]))).message).toMatch(/sequence 1 exists/);
    engine.checkIntegrity();
    engine.close();
    expect(thrown(() => engine.usage()).message).toMatch(/closed/);
  });
});

describe('misuse', () => {
  it('refuses arrays of another type or length, and invalid stacks and numbers', () => {
    const engine = open();
    const run = (batch: object) => thrown(() => engine.runBatch(batch as never, null));
    expect(run({ ...passOf([5]), tokens: Uint8Array.of(5) }).message).toMatch(/"tokens"/);
    expect(run({ ...passOf([5]), offsets: Float64Array.of(0, 1) }).code).toBe('invalid_request');
    expect(run({ ...passOf([5]), stack: 'zzz' }).message).toMatch(/"stack"/);
    const queries = { rows: Int32Array.of(0), tokens: Int32Array.of(1, 2) };
    expect(run({ ...passOf([5]), queries }).message).toMatch(/"tokens" to have 1 elements, found 2/);
    const picks = { rows: Int32Array.of(0) };
    expect(run({ ...passOf([5]), picks }).message).toMatch(/only the last stack has logits/);
    expect(thrown(() => engine.releaseSequences(new Uint8Array(3) as never)).code).toBe('invalid_request');
    for (const bytes of [Number.NaN, -1, undefined]) {
      expect(thrown(() => engine.setBudget(bytes as never)).message).toMatch(/bytes/);
    }
    engine.close();
    expect(() => open(Number.NaN)).toThrow(/budgetBytes/);
  });

  it('refuses experts that do not exist in a conversion', () => {
    const writer = new addon.PackWriter({
      checkpoint: MINI,
      out: root,
      experts: { dtype: 'bf16' },
      dense: { dtype: 'bf16' },
    });
    expect(thrown(() => writer.writeExperts(255, 257)).message).toMatch(/of 256/);
    expect(thrown(() => writer.writeExperts(-2, -1)).code).toBe('invalid_request');
    writer.close();
    expect(thrown(() => writer.writeExperts(0, 1)).message).toMatch(/closed/);
  });

  it('ends a process without a core dump while its engine loads experts', () => {
    const script = `import('${REPO}/dist/native/addon.js').then(({ loadAddon }) => {
      const addon = loadAddon();
      const limits = ${JSON.stringify(limits)};
      const { smallest } = addon.planMemory({ pack: '${pack}' }, limits);
      const engine = new addon.Engine({ pack: '${pack}', budgetBytes: smallest, ...${JSON.stringify(NO_TIERS)}, ...limits });
      const keys = Float64Array.from({ length: 256 }, (_, id) => id);
      const plan = { keys, keysAfter: keys, loads: Uint32Array.from(keys), expendable: 0, newestFirst: false };
      engine.runBatch({ stack: 0, sequences: Int32Array.of(1), offsets: Int32Array.of(0, 2), tokens: Int32Array.of(5, 6) }, plan);
      process.exit(3);
    })`;
    const child = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8' });
    expect([child.status, child.signal], child.stderr).toEqual([3, null]);
  });
});
