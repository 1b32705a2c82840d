// The tables that scripts make from bench/results/, which are in the repository.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { REPOSITORY } from '../../src/support/paths.js';

it('compares with a rule of the same look-ahead by its own bytes, and calls it no bound', async () => {
  const { replayTables } = await import(join(REPOSITORY, 'bench/scripts/replay/tables.mjs'));
  const lines: string[] = replayTables['replay-regret']().split('\n');
  const cells = (line: string) => line.split(' | ');
  const head = cells(lines[0]!);
  const [same, whole] = ['no bound', 'regret'].map((name) => head.findIndex((cell) => cell.includes(name)));
  expect([same, whole]).toEqual([6, 7]);
  const rows = lines.filter((line) => line.includes('Qwen3-30B-A3B | 50%')).map(cells);
  const planner = rows.find((row) => row[2] === 'true-tables' && row[3] === '16')!;
  const rule = rows.find((row) => row[2] === 'belady' && row[3] === '16')!;
  expect(rule[same!]).toBe('0.0 %');
  // Fewer MiB a token than the rule: below 0 here, and still above the bound.
  expect(planner[same!]).toBe('−4.8 %');
  expect(Number.parseFloat(planner[5]!)).toBeLessThan(Number.parseFloat(rule[5]!));
  expect(Number.parseFloat(planner[whole!]!)).toBeGreaterThan(0);
});
