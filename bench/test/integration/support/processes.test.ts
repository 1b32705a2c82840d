import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { LineProcess } from '../../../src/support/line-process.js';
import { run } from '../../../src/support/processes.js';
import { scriptProvenance } from '../../../src/support/provenance.js';

const node = (code: string) => ['-e', code];

describe('a program that is run', () => {
  it('gives its standard output, and reads its input', async () => {
    const echo = 'process.stdin.pipe(process.stdout)';
    expect(await run(process.execPath, node(echo), { input: 'as given' })).toBe('as given');
  });

  it('fails with its exit code and the end of its standard error', async () => {
    const code = "console.error('no such trace'); process.exitCode = 3";
    await expect(run(process.execPath, node(code))).rejects.toMatchObject({
      code: 'cannot_run',
      message: expect.stringMatching(/ended with 3: no such trace$/),
    });
  });
});

describe('a process of lines', () => {
  const doubling = `
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      if (line === '0') process.exit(7);
      console.log(2 * JSON.parse(line));
    });`;

  it('answers questions one by one, and ends when it is closed', async () => {
    const lines = new LineProcess('doubling', process.execPath, node(doubling));
    expect(await lines.ask(21)).toBe(42);
    expect(await lines.ask(4)).toBe(8);
    await lines.close();
    await lines.close();
  });

  it('names itself where it ends in the place of an answer', async () => {
    const lines = new LineProcess('doubling', process.execPath, node(doubling));
    await expect(lines.ask(0)).rejects.toThrow(/^doubling ended with/);
    await lines.close();
  });
});

it('a result names its command without folders, and the commit, machine and instruction set it was made with', () => {
  const before = process.argv;
  process.argv = [
    'node',
    `${import.meta.dirname}/../../../scripts/kernels/kernels.mjs`,
    '--out',
    '/home/me/out',
  ];
  try {
    const { cpuFlags, ...made } = scriptProvenance();
    const flags = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : '';
    expect(cpuFlags?.includes('avx2') ?? false).toBe(/^flags.* avx2 /m.test(flags));
    expect(made).toEqual({
      command: 'node bench/scripts/kernels/kernels.mjs --out out',
      commit: expect.stringMatching(/^([0-9a-f]{7,}(\+changes)?|unknown)$/),
      machine: expect.stringMatching(/, \d+ cores, [\d.]+ [KMGT]iB$/),
      isa: expect.stringMatching(/^(avx|scalar)/),
      node: process.version,
    });
  } finally {
    process.argv = before;
  }
});
