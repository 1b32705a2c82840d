// `sida bench` end to end: a tiny run, what it keeps, and that it fails where answers differ.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { REPO } from '../../../../test/support/server-process.js';
import type { BenchFile } from '../../../src/report/bench-file.js';
import type { MeasurementResult } from '../../../src/runs/result.js';

const root = mkdtempSync(join(tmpdir(), 'sida-bench-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const out = join(root, 'results');

function bench(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const main = join(REPO, 'bench/dist/main.js');
  const common = ['--work', join(root, 'work'), '--out', out];
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [main, ...common, ...args],
      { cwd: REPO, maxBuffer: 1 << 26 },
      (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      },
    );
  });
}

const SYSTEMS = ['lru', 'none', 'layer-streaming', 'attention', 'replay', 'shuffled'];
const measurement = (system: string) => `switch-mini/sst2/20%/disk/${system}`;
const TINY = [
  ...['--quick', '--sentences', '6', '--rounds', '2', '--threads', '1'],
  ...SYSTEMS.flatMap((system) => ['--only', measurement(system)]),
];
const benchFile = (): BenchFile => JSON.parse(readFileSync(join(out, 'bench.json'), 'utf8'));
const RUNS = 2 * (SYSTEMS.length + 1);

describe('sida bench', () => {
  it('measures systems beside the resident one, whose bits all give', async () => {
    const { code, stdout, stderr } = await bench(...TINY);
    expect([code, stderr]).toEqual([0, expect.stringContaining(`${RUNS}/${RUNS} `)]);
    expect(stdout).toContain(join(out, 'report.md'));
    expect(stderr).toContain('the bundled validation set stands in');
    const file = benchFile();
    expect(file).toMatchObject({ rounds: 2, comparisons: RUNS, differing: [], skipped: [] });
    expect(file.measurements.map(({ name }) => name).sort()).toEqual(
      ['switch-mini/sst2/100%/disk/resident', ...SYSTEMS.map(measurement)].sort(),
    );
    expect(new Set(file.measurements.map(({ digest }) => digest)).size).toBe(1);
    for (const one of file.measurements) {
      expect(one.wallMsOfRounds, one.name).toHaveLength(2);
      expect(one.sentences).toBe(6);
      expect(one.peakBytes).toBeLessThanOrEqual(one.budgetBytes);
      expect(one.resident + one.prefetched + one.late + one.onDemand, one.name).toBe(one.needed);
      // From what its own device held after the warm-up, nothing could have moved less.
      expect(one.bytesMoved, one.name).toBeGreaterThanOrEqual(one.leastBytes!);
      expect(Math.min(one.wallMs, one.p50Ms, one.passSeconds, one.needed)).toBeGreaterThan(0);
    }
    const moved = (system: string) => file.measurements.find((one) => one.system === system)!.bytesMoved;
    // Whole layers move more than what is needed; wrong tables more than right ones.
    expect(moved('layer-streaming')).toBeGreaterThan(2 * moved('lru'));
    expect(moved('shuffled')).toBeGreaterThan(moved('replay'));
    expect(readFileSync(join(out, 'report.md'), 'utf8')).toContain(file.provenance.commit);
  });

  it('keeps finished runs and skips them', async () => {
    const { code, stderr } = await bench(...TINY);
    expect(code).toBe(0);
    expect(stderr.match(/kept from before/g)).toHaveLength(RUNS);
  });

  it('fails naming the run whose answers differ', async () => {
    const file = join(out, 'measurements', `${measurement('lru')}.json`);
    const kept = JSON.parse(readFileSync(file, 'utf8')) as MeasurementResult;
    kept.samples[1]!.digest = '0'.repeat(64);
    writeFileSync(file, JSON.stringify(kept));
    const { code, stderr } = await bench(...TINY);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`bit for bit, in ${measurement('lru')}`)]);
    expect(readFileSync(join(out, 'report.md'), 'utf8')).toContain('ANSWERS DIFFER');
  });
});
