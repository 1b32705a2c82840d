// `sida bench replay` as a process, on the routing of twelve sentences by the bundled model.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { ReplayReport } from '../../../src/replay/compare.js';

const REPO = join(import.meta.dirname, '..', '..', '..', '..');
const SAMPLE = join(REPO, 'test', 'fixtures', 'route-trace', 'switch-mini.csv');
const folder = mkdtempSync(join(tmpdir(), 'sida-replay-'));
afterAll(() => rmSync(folder, { recursive: true }));

function replay(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const main = join(REPO, 'bench', 'dist', 'main.js');
    execFile(process.execPath, [main, 'replay', ...args], (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

describe('sida bench replay', () => {
  it('helps with examples, and so does its group', async () => {
    expect(await replay('--help')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Examples:\n  sida bench replay'),
    });
  });

  it('prints a table for each cache size, and draws charts', async () => {
    const charts = join(folder, 'charts');
    const { code, stdout, stderr } = await replay(
      SAMPLE,
      ...['--cache', '10%,64', '--lookahead', '4', '--policies', 'lru,fifo,true-tables,belady'],
      ...['--svg', charts],
    );
    expect([code, stderr]).toEqual([0, expect.stringContaining('Counting bytes: 100 % (10/10 replays)')]);
    expect(stdout).toContain('4 layers of 64 experts, 32.0 MiB; one cache for all layers');
    expect(stdout).toContain('prefill: 378 tokens in 12 passes that need 416 experts');
    expect(stdout.match(/^cache .*$/gm)!.map((line) => line.slice(0, 21))).toEqual([
      'cache 10%: 26 of 256 ',
      'cache 64: 64 of 256  ',
    ]);
    for (const name of ['fifo', 'lru', 'true-tables', 'belady']) {
      expect(stdout.match(new RegExp(`^${name} `, 'gm'))).toHaveLength(name === 'belady' ? 4 : 2);
    }
    const [miss, bytes] = ['miss-rate', 'bytes'].map((name) =>
      readFileSync(join(charts, `${name}.svg`), 'utf8'),
    );
    for (const words of [
      'cache, % of all experts',
      'moved, % of the experts needed',
      'Belady (floor)',
      'lru',
    ]) {
      expect(miss).toContain(words);
    }
    for (const words of ['look-ahead, batches', 'MiB a token', 'true-tables', 'simulated', 'cache 10%']) {
      expect(bytes).toContain(words);
    }
  });

  it('counts in JSON what the table shows, for a cache of each layer and the first batches too', async () => {
    const report = async (...more: string[]): Promise<ReplayReport> =>
      JSON.parse((await replay(SAMPLE, '--json', '--cache', '25%', '--lookahead', '1', ...more)).stdout);
    const [shared, own] = await Promise.all([report(), report('--per-layer')]);
    expect([shared.scope, own.scope, shared.batches]).toEqual(['shared', 'per-layer', 36]);
    const misses = ({ caches }: ReplayReport) => caches[0]!.policies.map(({ all }) => all.misses);
    expect(misses(own)).not.toEqual(misses(shared));
    for (const { all, prefill, decode } of shared.caches[0]!.policies) {
      expect(all.bytes).toBe((all.misses + all.prefetches) * 131_072);
      expect(all.bytesPerToken).toBeCloseTo(all.bytes / 402);
      expect(prefill.needs + decode.needs).toBe(464);
    }
    expect(await report('--limit', '3')).toMatchObject({ batches: 3, phases: { prefill: { passes: 1 } } });
  });

  it.each([
    [['--cache', '0'], '--cache to be shares such as 10% or 1 to 256 experts, found "0"'],
    [['--cache', '257'], 'found "257"'],
    [['--cache', '3', '--per-layer'], '4 to 256 experts, one a layer at least, found "3"'],
    [['--shared', '--per-layer'], 'Expected --shared or --per-layer, found both'],
    [['--policies', 'lru,mru'], 'found "mru"'],
    [['--lookahead', '-1'], 'Expected --lookahead to be whole numbers from 0 to 64'],
    [['--learn', '2'], 'Expected --learn to be a share'],
    [['--limit', '0'], 'Expected --limit'],
    [['--expert-bytes', '0'], 'Expected --expert-bytes to be a size'],
  ])('exits 2 on %j', async (args, message) => {
    expect(await replay(SAMPLE, ...args)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining(message),
    });
  });

  it('exits 1 on a malformed trace with file, line and column', async () => {
    const broken = join(folder, 'broken.csv');
    writeFileSync(broken, readFileSync(SAMPLE, 'utf8').replace('\n0,0,3,0,0,5,', '\n0,0,3,0,0,five,'));
    expect(await replay(broken)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(
        `sida: ${broken}, line 11, column expert: expected a whole number, found "five"\n`,
      ),
    });
    const { code, stderr } = await replay(join(REPO, 'models'));
    expect([code, stderr]).toEqual([1, expect.stringContaining('models is no trace')]);
  });
});
