// `sida bench placement` as a process, on the routing of twelve sentences by the bundled model.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type PlacementReport, STRATEGIES } from '../../../src/placement/compare-placements.js';

const REPO = join(import.meta.dirname, '..', '..', '..', '..');
const SAMPLE = join(REPO, 'test', 'fixtures', 'route-trace', 'switch-mini.csv');
const folder = mkdtempSync(join(tmpdir(), 'sida-placement-'));
afterAll(() => rmSync(folder, { recursive: true }));

function place(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const main = join(REPO, 'bench', 'dist', 'main.js');
    execFile(process.execPath, [main, 'placement', ...args], (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

describe('sida bench placement', () => {
  it('helps with examples', async () => {
    expect(await place('--help')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Examples:\n  sida bench placement'),
    });
  });

  it('prints a row for each strategy and number of devices, and draws a chart', async () => {
    const { code, stdout } = await place(SAMPLE, '--devices', '2,4', '--svg', folder);
    expect(code).toBe(0);
    expect(stdout).toContain(
      '4 layers of 64 experts; placed by the first 18 recorded batches, measured on the 18',
    );
    for (const strategy of STRATEGIES) {
      expect(stdout.match(new RegExp(`^ +[24]  ${strategy} `, 'gm'))).toHaveLength(2);
    }
    const chart = readFileSync(join(folder, 'placement.svg'), 'utf8');
    for (const words of [...STRATEGIES, 'average max load', 'times an even share', 'switch-mini']) {
      expect(chart).toContain(words);
    }
  });

  it('tells in JSON of every layer, and joins turns into batches', async () => {
    const report = async (...more: string[]): Promise<PlacementReport> =>
      JSON.parse((await place(SAMPLE, '--json', '--devices', '8', ...more)).stdout);
    const [recorded, joined] = await Promise.all([report(), report('--batch-tokens', '4')]);
    expect([recorded.batchTokens, joined.batchTokens]).toEqual([1, 4]);
    // Six sentences with two steps each.
    expect([recorded.joined, joined.joined]).toEqual([
      { least: 6, most: 12 },
      { least: 3, most: 6 },
    ]);
    for (const { layers, maxLoad, averageMaxLoad } of joined.strategies) {
      expect(layers).toHaveLength(4);
      expect(maxLoad).toBe(Math.max(...layers.map((layer) => layer.maxLoad)));
      expect(averageMaxLoad).toBeGreaterThanOrEqual(1 / 8);
    }
    // Of a single token one device gets all; four spread.
    const greedy = ({ strategies }: PlacementReport) => strategies[1]!.averageMaxLoad;
    expect(greedy(joined)).toBeLessThan(greedy(recorded));
  });

  it.each([
    [['--devices', '0'], 'Expected --devices to be whole numbers from 1'],
    [['--learn', '100%'], 'Expected --learn to be a share below 100%'],
    [['--learn', 'half'], 'found "half"'],
    [['--batch-tokens', 'x'], 'Expected --batch-tokens'],
    [['--limit', '1'], 'Expected --limit'],
  ])('exits 2 on %j', async (args, message) => {
    expect(await place(SAMPLE, ...args)).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining(message),
    });
  });

  it('exits 1 where the trace cannot answer', async () => {
    expect(await place(SAMPLE, '--devices', '65')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('65 devices cannot share the 64 experts of a layer'),
    });
    expect(await place(SAMPLE, '--batch-tokens', '100000')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('lower --batch-tokens'),
    });
  });
});
