// The ablation of the predictor on a few sentences: its rows, and what a second start leaves alone.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { REPOSITORY } from '../../src/support/paths.js';

const root = mkdtempSync(join(tmpdir(), 'sida-ablation-'));
const RESULT = join(REPOSITORY, 'build/bench-quick/ablation-switch-mini.json');
afterAll(() => {
  rmSync(root, { recursive: true, force: true });
  rmSync(RESULT, { force: true });
});
const at = (name: string) => join(root, name);

function node(...args: string[]): { status: number | null; stderr: string } {
  return spawnSync(process.execPath, args, { cwd: REPOSITORY, encoding: 'utf8' });
}

function trace(name: string, from: number, to: number): void {
  const lines = readFileSync(join(REPOSITORY, 'test/data/sst2-validation.jsonl'), 'utf8').split('\n');
  writeFileSync(at(`${name}.jsonl`), lines.slice(from, to).join('\n'));
  const { status, stderr } = node(
    ...['dist/cli/main.js', 'trace', 'models/switch-mini', '--data', at(`${name}.jsonl`), '--top', '64'],
    ...['--template', 'sst2 sentence: {text}', '--out', at(name), '--pack-dir', at('packs')],
  );
  expect(status, stderr).toBe(0);
}

function ablation(...more: string[]) {
  const data = ['--trace', at('train'), '--held-out', at('held')];
  const script = 'bench/scripts/predictor/ablation.mjs';
  return node(script, ...data, '--epochs', '1', '--threads', '1', '--quick', ...more);
}

it('writes a row for a variant and for the token table, and continues with the rows that are missing', () => {
  rmSync(RESULT, { force: true });
  trace('train', 0, 80);
  trace('held', 80, 110);
  const result = () => JSON.parse(readFileSync(RESULT, 'utf8'));
  const rows = () => result().rows;
  expect(ablation('--only', 'KD (all experts, λ = 0)')).toMatchObject({ status: 0 });
  const [kd, token] = rows();
  expect(result().heldOut.inputs).toBe(30);
  const ofLayers: number[] = kd.layers.map(({ tokens }: { tokens: number }) => tokens);
  // Two layers of the encoder and two of the decoder, whose tokens are counted once a stack.
  expect(2 * result().heldOut.tokens).toBe(ofLayers.reduce((sum, own) => sum + own, 0));
  expect(kd).toMatchObject({
    ...{ name: 'KD (all experts, λ = 0)', network: 'lstm', steps: 4 },
    options: { top: 64, lambda: 0, layers: 2, attentionWeights: 'sparsemax' },
  });
  expect(token).toMatchObject({ name: 'token', network: 'token' });
  for (const row of [kd, token]) {
    expect(row.layers).toHaveLength(4);
    expect(row.last).toBeGreaterThan(row.first);
    // The mean probability of the best of 64 experts.
    expect(row.alpha).toBeGreaterThan(1 / 64);
    expect(Math.min(row.tableMs, row.parameters, row.alphaError)).toBeGreaterThan(0);
  }
  expect(kd.tableMs).toBeGreaterThan(token.tableMs);

  const again = ablation('--only', 'attention');
  expect(again.status, again.stderr).toBe(0);
  expect(rows().slice(0, 2)).toEqual([kd, token]);
  expect(rows()[2]).toMatchObject({ name: 'attention', network: 'attention', options: { blocks: 2 } });

  expect(ablation('--only', 'lstm: TKD + λ·CE, seed 2')).toMatchObject({ status: 0 });
  expect(ablation('--only', 'lstm: TKD + λ·CE')).toMatchObject({ status: 0 });
  const [second, first] = rows().slice(3);
  expect([second.flags, second.steps]).toEqual(['--seed 2', first.steps]);
  expect(second.alphaError).not.toBe(first.alphaError);

  const other = ablation('--only', 'one layer', '--seed', '2');
  expect([other.status, other.stderr]).toEqual([1, expect.stringContaining('made under other conditions')]);
});
