// `sida bench dependency` on inputs of one length, with places swapped.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';
import type { DependencyReport } from '../../../src/studies/dependency.js';
import { LABORATORY, REPOSITORY } from '../../../src/support/paths.js';

const root = mkdtempSync(join(tmpdir(), 'sida-dependency-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function dependency(...args: string[]): Promise<string> {
  const data = ['--data', 'test/data/sst2-validation.jsonl', '--template', '{text}'];
  const all = ['dependency', 'models/switch-mini', ...data, '--pack-dir', join(root, 'packs'), ...args];
  const { stdout } = await promisify(execFile)(process.execPath, [LABORATORY, ...all], { cwd: REPOSITORY });
  return stdout;
}

const CUT = ['--length', '64', '--limit', '3', '--swaps', '--shares', '10%,50%', '--singles', '1'];

it('looks at inputs of one length, beside equation 2', async () => {
  const report: DependencyReport = JSON.parse(await dependency(...CUT, '--json'));
  expect(report).toMatchObject({ inputs: 3, tokens: 3 * 63 });
  for (const changes of [report.corruption, report.swaps!]) {
    expect(changes.map(({ probes }) => probes)).toEqual([3 * (63 - 6), 3 * (63 - 31)]);
    // One critical token of 62, of which 6 or 31 change.
    expect(changes[0]!.equation!.expected[0]).toBeCloseTo(6 / 62);
    expect(changes[1]!.equation!.expected[0]).toBeCloseTo(31 / 62);
  }
  const { again, anotherToken } = report.controls!;
  expect(again.changed).toEqual([0, 0]);
  for (const [layer, share] of report.swaps![1]!.changed.entries())
    expect(share).toBeLessThan(anotherToken.changed[layer]!);
});

it('prints both ways, the equation and the controls for a person', async () => {
  const text = await dependency(...CUT);
  expect(text).toContain('3 inputs, 189 tokens');
  for (const part of ['others replaced', 'others moved', 'c = 4, %', 'the same input again'])
    expect(text).toContain(part);
});
