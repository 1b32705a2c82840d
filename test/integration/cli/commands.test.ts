// Runs the built command line as a process and checks its output and exit code.
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { isKey } from '../../../src/access/api-key.js';
import { MOST_KEYS, parseKeyFile } from '../../../src/access/key-file.js';
import { ended, REPO } from '../../support/sida-process.js';

const MINI = join(REPO, 'models', 'switch-mini');
const folder = mkdtempSync(join(tmpdir(), 'sida-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

const sida = (...args: string[]) => ended(args);

describe('sida', () => {
  it('prints its version, and help with examples', async () => {
    expect(await sida('--version')).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
      stderr: '',
    });
    const { code, stdout } = await sida('serve', '--help');
    expect([code, stdout]).toEqual([0, expect.stringContaining('Examples:\n  sida serve')]);
    const { stdout: version } = await sida('--version');
    for (const spelling of ['version', '-v']) expect((await sida(spelling)).stdout).toBe(version);
  });

  it.each([
    [['help', 'serv'], "unknown command 'serv'", 'serve'],
    [['serve', '--keys', 'x'], "unknown option '--keys'", '--api-keys'],
  ])('suggests what was meant by %j', async (args, fault, meant) => {
    const { stderr } = await sida(...args);
    expect(stderr.split('\n').slice(0, 2)).toEqual([`error: ${fault}`, `(Did you mean ${meant}?)`]);
  });

  it.each([
    [
      ['--share', '3/2'],
      'Expected the "--share" option to be a number and a count of shares, up to 64, such as 1/2',
    ],
    [
      ['--share', '1/2', '--listen', '0.0.0.0:0'],
      'there is no key: set SIDA_PEER_KEY here and on the servers',
    ],
    [['--share', '1/2', '--memory-budget', '64KiB'], 'bytes that this share needs'],
  ])('experts %j is refused with what is right', async (flags, message) => {
    const { code, stderr } = await sida('experts', MINI, ...flags, '--pack-dir', join(folder, 'packs'));
    expect(code, stderr).toBe(2);
    expect(stderr).toContain(message);
  });

  it('experts refuses a share without experts', async () => {
    const model = join(REPO, 'models/olmoe-mini');
    const { code, stderr } = await sida(
      'experts',
      model,
      '--share',
      '64/64',
      '--pack-dir',
      join(folder, 'packs'),
    );
    expect([code, stderr]).toEqual([1, expect.stringContaining('share 64/64 of olmoe-mini has none of its')]);
  });

  it.each([
    [['serve', MINI, '--port', '0', '--pack-dir', join(folder, 'no-packs')]],
    [['ask', join(REPO, 'models/olmoe-mini'), 'Hello', '--pack-dir', join(folder, 'no-packs')]],
  ])('tells the smallest budget that works, before the model is read: %j', async (args) => {
    const { code, stdout, stderr } = await sida(...args, '--memory-budget', '5MiB');
    expect(code).toBe(2);
    const message = /A budget of 5\.00 MiB is too small, the smallest that works is ([\d.]+ MiB)/;
    const [, smallest] = message.exec(stdout + stderr)!;
    expect(stderr).not.toContain('Checking files');
    expect(existsSync(join(folder, 'no-packs'))).toBe(false);
    const planned = await sida('plan', args[1]!, '--memory-budget', smallest!, '--json');
    expect(JSON.parse(planned.stdout).budget.fits).toBe(true);
  });

  it('ends where the system takes no directories', async () => {
    const lost = await sida('doctor', '--pack-dir', '/proc/none');
    expect([lost.code, lost.stdout]).toEqual([1, expect.stringContaining('/proc takes no directories')]);
    const served = await sida('serve', MINI, '--port', '0', '--pack-dir', '/proc/none/packs');
    expect([served.code, served.stderr]).toEqual([
      1,
      expect.stringContaining('sida: /proc/none: cannot be made: /proc takes no directories'),
    ]);
  });

  it.each([
    [['bogus']],
    [['serve', '--model', MINI, '--api-keys', join(folder, 'none')]],
    [['ask', MINI, '']],
    [['serve', '--model', MINI, '--port', 'x']],
    [['worker', '--model', MINI]],
    [['convert', MINI, '--out', 'x', '--experts', 'int8', '--group', '64']],
    [['eval', MINI]],
    [['bench', '--bogus']],
  ])('exits 2 on wrong usage: %j', async (args) => {
    const { code, stdout, stderr } = await sida(...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect(stderr.length).toBeGreaterThan(20);
  });

  it.each([[['serve', '--port', '0', '--model']], [['convert', '--out', join(folder, 'none')]]])(
    'exits 4 on a bad checkpoint: %j',
    async (args) => {
      writeFileSync(join(folder, 'config.json'), '{"model_type":"switch_transformers","d_model":"wide"}');
      const { code, stderr } = await sida(...args, folder);
      expect(code).toBe(4);
      expect(stderr).toMatch(new RegExp(`^sida: ${folder}.*expected`, 'm'));
      expect(existsSync(join(folder, 'none'))).toBe(false);
    },
  );

  it('says that a file is no GGUF file', async () => {
    const file = join(folder, 'notes.gguf');
    writeFileSync(file, '# notes, and more of them than a header has bytes');
    const { code, stderr } = await sida('plan', file);
    expect([code, stderr]).toEqual([
      4,
      expect.stringMatching(/first bytes: expected "GGUF", found .*not a GGUF file/),
    ]);
  });

  it('exits 1 when its port is taken', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as { port: number };
    const { code, stderr } = await sida('serve', '--model', MINI, '--port', String(port));
    other.close();
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining(`127.0.0.1:${port}: another program listens there`),
    ]);
  });
});

describe('sida plan', () => {
  it('accounts for every byte', async () => {
    const { code, stdout } = await sida('plan', MINI, '--memory-budget', '25%', '--json');
    expect(code).toBe(0);
    const { plan, budget, layers } = JSON.parse(stdout);
    expect(plan.fixed).toBe(plan.dense + plan.routers + plan.kvCache + plan.workspace);
    expect(plan.smallest).toBe(plan.fixed + plan.slot);
    expect(plan.resident).toBe(plan.fixed + plan.experts * plan.slot);
    expect(layers).toEqual(['encoder.1', 'encoder.3', 'decoder.1', 'decoder.3']);
    expect(budget).toEqual({ bytes: expect.any(Number), fits: true, slots: 64 });
  });

  it('takes what the machine has, and says what a request may have', async () => {
    const { stdout } = await sida('plan', join(REPO, 'models', 'olmoe-mini'), '--json');
    const { budget, plan, contextTokens, kvTokens, kv, activations, freeBytes } = JSON.parse(stdout);
    expect(budget).toEqual({ bytes: plan.resident, fits: true, slots: plan.experts });
    expect([contextTokens, kvTokens, kv, activations]).toEqual([1024, 3072, 'bf16', 'f32']);
    const quantized = await sida('plan', MINI, '--experts', 'int8', '--memory-budget', '500GiB');
    expect(quantized.stdout).toMatch(/^workspace .* activations int8$/m);
    expect(quantized.stdout).toMatch(
      /^A budget of 500 GiB is more than the .* that this machine has free\.$/m,
    );
    expect(freeBytes).toBeGreaterThan(plan.resident);
  });

  it('estimates tokens a second from measured rates, and names a command', async () => {
    const args = [join(REPO, 'models', 'olmoe-mini'), '--memory-budget', '45MiB', '--pack-dir', folder];
    const { measured, estimate, plan, budget } = JSON.parse(
      (await sida('plan', ...args, '--measure', '--json')).stdout,
    );
    const compute = 0.4 + (1e3 * (plan.tokenDense + plan.tokenDemand)) / measured.weights;
    const load = (1e3 * plan.tokenDemand * (1 - budget.slots / plan.experts)) / measured.disk;
    expect(estimate).toEqual({
      tokensPerSecond: expect.closeTo(1e3 / (compute + load)),
      mostTokensPerSecond: expect.closeTo(1e3 / compute),
      bound: compute >= load ? 'memory' : 'disk',
      computeMs: expect.closeTo(compute),
      loadMs: expect.closeTo(load),
      mostSpeedup: expect.closeTo((compute + load) / Math.max(compute, load)),
    });
    // Of the embeddings a token reads one row, unless they are the head.
    expect(plan.tokenDense).toBeLessThan(plan.dense + plan.routers);
    const { stdout } = await sida('plan', ...args, '--measure');
    expect(stdout).toMatch(
      /^Measured: [\d.]+ GB\/s of weights in memory, [\d.]+ GB\/s from the disk of packs\.$/m,
    );
    expect(stdout).toMatch(
      /^Estimate for one request: [\d.]+ tokens\/s where routing is even, up to [\d.]+ where tokens repeat/m,
    );
    expect(stdout).toMatch(/^Prediction could make it at most [12]\.\d\d times as fast, if every load/m);
    const all = await sida('plan', args[0]!, '--memory-budget', '100%', '--measure', '--pack-dir', folder);
    expect(all.stdout).toMatch(/^Estimate for one request: [\d.]+ tokens\/s where routing is even\.$/m);
    expect(all.stdout).not.toContain('Prediction could');
    expect(stdout).toContain(`Serve it: sida serve ${args[0]} --memory-budget 45MiB --pack-dir ${folder}\n`);
  });

  it('says how many slots a budget has', async () => {
    expect((await sida('plan', MINI, '--memory-budget', '25%')).stdout).toMatch(
      /A budget of 25%, .* has 64 slots for 256 experts\./,
    );
    expect((await sida('plan', MINI, '--memory-budget', '1MiB')).stdout).toMatch(
      /A budget of 1\.00 MiB is too small, the smallest that works is [\d.]+ MiB\./,
    );
  });
});

describe('sida plan --experts', () => {
  it('shows the bytes and slots of each element type', async () => {
    const { stdout } = await sida('plan', MINI, '--experts', 'int8', '--memory-budget', '25MiB');
    expect(stdout).toMatch(/^one slot +68\.0 KiB +69632 {2}one expert, int8$/m);
    const rows = ['f32', 'bf16', 'int8', 'int4 --group 64'].map((type) => {
      const row = new RegExp(`^--experts ${type} +(.*)$`, 'm').exec(stdout);
      return row![1]!.split(/ {2,}/);
    });
    expect(rows.map(([expert]) => expert)).toEqual(['256 KiB', '128 KiB', '68.0 KiB', '36.0 KiB']);
    const slots = rows.map((row) => Number(row[4]));
    expect(slots).toEqual([...slots].sort((a, b) => a - b));
    expect(new Set(slots).size).toBe(4);
    expect(rows[2]!.at(-1)).toBe('as planned above');
  });

  it('prints the same as JSON, with the requested groups', async () => {
    const planned = await sida(
      'plan',
      MINI,
      '--experts',
      'int4',
      '--group',
      '128',
      '--dense',
      'int8',
      '--json',
    );
    const { plan, formats, choices, budget } = JSON.parse(planned.stdout);
    expect(formats).toEqual({ experts: { dtype: 'int4', group: 128 }, dense: { dtype: 'int8' } });
    expect(choices.map(({ experts }: { experts: object }) => experts)).toEqual([
      { dtype: 'f32' },
      { dtype: 'bf16' },
      { dtype: 'bf16c' },
      { dtype: 'int8' },
      { dtype: 'int4', group: 128 },
      { dtype: 'mxfp4' },
      { dtype: 'q8_0' },
      { dtype: 'q4_0' },
    ]);
    expect(choices[4]).toMatchObject({ plan, slots: budget.slots });
  });
});

describe('sida plan --routing predicted', () => {
  it('leaves the routers off the device and plans for more experts per token', async () => {
    const planned = async (...flags: string[]) =>
      JSON.parse((await sida('plan', MINI, '--max-batch-tokens', '256', '--json', ...flags)).stdout).plan;
    const exact = await planned();
    const predicted = await planned('--routing', 'predicted', '--routing-k', '3');
    expect(exact.routers).toBeGreaterThan(0);
    expect(predicted.routers).toBe(0);
    expect(predicted.dense).toBe(Math.ceil(exact.dense / 4096) * 4096);
    expect(predicted.workspace).toBeGreaterThan(exact.workspace);
  });

  it.each(['65'])('refuses a --routing-k of %s', async (k) => {
    const { code, stderr } = await sida('plan', MINI, '--routing-k', k);
    expect([code, stderr]).toEqual([2, expect.stringContaining('whole number from 1 to 64')]);
  });
});

describe('sida convert', () => {
  it('packs a checkpoint, and the pack has the same plan', async () => {
    const out = join(folder, 'pack');
    const { code, stdout, stderr } = await sida('convert', MINI, '--out', out, '--verify');
    const errors = 'largest error, relative to the largest weight of its scale: experts none; dense none';
    expect([code, stdout]).toEqual([0, `${out} (verified)\n${errors}\n`]);
    expect(stderr).toMatch(/Packing experts: 100 % \(256\/256 experts\)/);
    const [packed, checkpoint] = await Promise.all([
      sida('plan', out, '--json'),
      sida('plan', MINI, '--json'),
    ]);
    const { choices, freeBytes, ...planned } = JSON.parse(checkpoint.stdout);
    const own = { shape: null, choices: [], freeBytes: expect.any(Number) };
    // A pack's plan is made from its layout, which does not contain the model's shape.
    expect(JSON.parse(packed.stdout)).toEqual({ ...planned, ...own });
    expect(freeBytes).toBeGreaterThan(0);
    expect(choices).toHaveLength(8);
    expect(planned.shape).toMatchObject({ family: 'switch_transformers', experts: 64, topK: 1 });
  });

  it('quantizes, compares with the checkpoint and reports the largest errors', async () => {
    const out = join(folder, 'pack-int4');
    const flags = ['--experts', 'int4', '--group', '32', '--dense', 'int8'];
    const { code, stdout, stderr } = await sida('convert', MINI, '--out', out, ...flags, '--verify');
    const half = (bound: string) => `\\d\\.\\d+ % of at most ${bound.replace('.', '\\.')} %`;
    const parts = `experts ${half('7.20')}; dense ${half('0.394')}`;
    expect([code, stdout]).toEqual([0, expect.stringMatching(new RegExp(`: ${parts}\n$`))]);
    expect(stderr).toMatch(/Comparing experts: 100 % \(256\/256 experts\)/);
  });
});

describe('sida doctor', () => {
  it('checks everything, each with a result', async () => {
    const { code, stdout } = await sida('doctor', '--json', '--pack-dir', join(folder, 'packs'));
    const { checks } = JSON.parse(stdout) as { checks: { name: string; result: string }[] };
    // On a machine with a GPU there are more of it.
    expect(checks.map(({ name }) => name).filter((name) => !name.startsWith('GPU'))).toEqual([
      'Node',
      'native addon',
      'CPU',
      'CUDA',
      'memory',
      'disk',
      'Redis',
    ]);
    for (const { result } of checks) expect(['ok', 'warn', '–']).toContain(result);
    expect(checks.at(-1)).toMatchObject({ result: '–', found: expect.stringContaining('not used') });
    expect(code).toBe(0);
  });

  it('judges a model, too', async () => {
    const args = ['doctor', MINI, '--memory-budget', '30MiB', '--pack-dir', join(folder, 'packs')];
    const { code, stdout } = await sida(...args);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^ok {4}fits +\d+ of 256 experts at a time, in 30\.0 MiB of .* are free less a margin$/m,
    );
    expect(stdout).toMatch(/^ok {4}speed +a token needs .* and loads about .* at \d+ MB\/s/m);
  });

  it('fails with a hint when the pack directory cannot be written', async () => {
    const packDir = join(MINI, 'config.json', 'packs');
    const { code, stdout } = await sida('doctor', '--pack-dir', packDir);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^fail {2}disk .*\n +→ Make .* writable/m);
  });
});

describe('sida key new', () => {
  it('prints a key once, with the line that admits it', async () => {
    const { code, stdout, stderr } = await sida(
      'key',
      'new',
      '--name',
      'ci',
      '--scopes',
      'infer,metrics',
      '--json',
    );
    expect([code, stderr]).toEqual([0, '']);
    const { key, line } = JSON.parse(stdout);
    const [stored] = parseKeyFile(line);
    expect(stored).toMatchObject({ name: 'ci', scopes: ['infer', 'metrics'] });
    expect(isKey(key, stored!.hash)).toBe(true);
    expect(line).not.toContain(key);
    const text = (await sida('key', 'new', '--name', 'ci')).stdout;
    expect(text).toMatch(/\n {2}sida_[\w-]{43}\n[^\n]+\n {2}ci infer sha256:[0-9a-f]{32}:[0-9a-f]{64}\n$/);
  });

  it('adds no line that would make the file unusable, and follows no link', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sida-key-'));
    try {
      const file = join(folder, 'keys');
      const add = (name: string, to = file) => sida('key', 'new', '--name', name, '--file', to);
      expect((await add('ci')).code).toBe(0);
      const one = readFileSync(file, 'utf8');
      expect(await add('ci')).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(/"ci" is there twice/),
      });
      expect(readFileSync(file, 'utf8')).toBe(one);
      const full = Array.from({ length: MOST_KEYS }, (_, i) => one.replace('ci', `k${i}`)).join('');
      writeFileSync(file, full);
      expect(await add('more')).toMatchObject({ code: 2, stderr: expect.stringMatching(/the most is 256/) });
      expect(readFileSync(file, 'utf8')).toBe(full);
      const link = join(folder, 'link');
      symlinkSync(file, link);
      expect(await add('ci', link)).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/a symbolic link/),
      });
      const shared = join(folder, 'shared');
      writeFileSync(shared, '', { mode: 0o644 });
      expect((await add('ci', shared)).stderr).toMatch(/only its owner may read/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.each([
    [['key', 'new', '--name', 'anyone'], /has a meaning of its own/],
    [['key', 'new', '--name', 'ci', '--scopes', 'root'], /out of infer, admin, metrics/],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await sida(...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(message);
  });
});
