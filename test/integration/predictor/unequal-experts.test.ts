// PR-MoE, from checkpoint to answer: a model whose layers have 2, 8 and 4 experts is traced, predicted and served.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../../src/native/addon.js';
import { NO_EXPERT } from '../../../src/native/addon-types.js';
import { namedExperts } from '../../../src/predictor/hash-function.js';
import { openPredictor } from '../../../src/predictor/predictor-directory.js';
import { readMeta, readTrace } from '../../../src/trace/trace-file.js';
import { metricsOf, ServerProcess, sst2 } from '../../support/server-process.js';
import { outputOf } from '../../support/sida-process.js';
import { writeUnequal } from '../../support/tiny-checkpoint.js';

const root = mkdtempSync(join(tmpdir(), 'sida-unequal-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (name: string) => join(root, name);
const PACKS = ['--pack-dir', at('packs')];
const COUNTS = [2, 8, 4];

const texts = sst2()
  .slice(0, 200)
  .map(({ text }, i) => text.slice(0, 20 + (i % 9)));

beforeAll(() => {
  writeUnequal(at('model'));
  writeFileSync(at('data.jsonl'), texts.map((text) => JSON.stringify({ text })).join('\n'));
  outputOf(
    ...['trace', at('model'), '--data', at('data.jsonl'), '--template', '{text}', '--out', at('trace')],
    ...[...PACKS, '--threads', '1', '--max-new-tokens', '5'],
  );
  outputOf(
    ...['train', at('trace'), '--out', at('p'), '--hidden', '32', '--lr', '1e-2'],
    ...['--epochs', '10', '--batch', '16', '--threads', '1'],
  );
}, 120_000);

it('has a trace that says so, and names only experts that each layer has', async () => {
  expect(await readMeta(at('trace'))).toMatchObject({ experts: 8, layerExperts: COUNTS, topK: 1, top: 2 });
  for await (const { stacks } of readTrace(at('trace'))) {
    const [encoder, decoder] = stacks;
    const own = [...Array(2).keys()].map((l) => {
      const entries = encoder!.experts.length / 2;
      return Math.max(...encoder!.experts.subarray(l * entries, (l + 1) * entries));
    });
    own.push(Math.max(...decoder!.experts));
    own.forEach((most, layer) => {
      expect(most).toBeLessThan(COUNTS[layer]!);
    });
    expect([...encoder!.logits, ...decoder!.logits].every(Number.isFinite)).toBe(true);
  }
});

describe.each(['lstm', 'token'] as const)('the predictor %s', (kind) => {
  it('names only experts that each layer has, with chances that sum to 1', async () => {
    const addon = loadAddon();
    const manifest = JSON.parse(readFileSync(join(at('p'), 'sida-predictor.json'), 'utf8'));
    const { function: hash } = await openPredictor(at('p'), {
      ...{ model: addon.inspectCheckpoint(at('model')).shape, weights: manifest.model.weights, addon, kind },
      embedding: () => new addon.TokenEmbedding({ checkpoint: at('model') }),
    });
    const [tokens, k] = [30, 8];
    const input = {
      tokens: Int32Array.from({ length: tokens }, (_, i) => 130 + i),
      offsets: Int32Array.of(0, tokens),
    };
    const named = namedExperts(2 * tokens, k);
    expect(hash.fill(0, input, named)).toBe(true);
    for (let row = 0; row < 2 * tokens; row++) {
      const count = COUNTS[Math.floor(row / tokens)]!;
      const part = { from: row * k, to: (row + 1) * k };
      const experts = [...named.experts.subarray(part.from, part.to)];
      expect(experts.slice(0, count).sort((a, b) => a - b)).toEqual([...Array(count).keys()]);
      expect(experts.slice(count).every((expert) => expert === NO_EXPERT)).toBe(true);
      for (const values of [named.alpha, named.chance]) {
        const own = [...values.subarray(part.from, part.to)];
        expect(own.slice(count).every((value) => value === 0)).toBe(true);
        expect(own.reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 3);
      }
    }
    hash.close();
  });
});

it.each([
  ['exact', []],
  ['predicted', ['--routing', 'predicted']],
])('answers with the same bits at three budgets, with tables, and %s routing', async (_, flags) => {
  const expected: unknown[] = [];
  const predictor = ['--predictor', at('p'), '--max-batch-tokens', '64', '--threads', '1'];
  const server = await ServerProcess.start([
    ...['--model', at('model'), ...predictor, ...flags, '--memory-budget', '100%'],
  ]);
  for (const budget of ['100%', '50%', 'smallest']) {
    await server.setBudget(budget);
    const answers = [];
    for (const prompt of texts.slice(0, 12)) {
      const { status, body } = await server.post('/v1/completions', { prompt, max_tokens: 6, logprobs: 2 });
      expect(status, JSON.stringify(body)).toBe(200);
      answers.push(body.choices);
    }
    if (expected.length === 0) expected.push(...answers);
    expect(answers).toEqual(expected);
    const { layers } = (await server.get('/admin/experts')).body;
    expect(layers.map(({ experts }: { experts: unknown[] }) => experts.length)).toEqual(COUNTS);
    expect((await server.get('/v1/models')).body.data[0].experts_per_layer).toEqual(COUNTS);
    const tables = (await metricsOf(server))('sida_hash_tables_total{state="ready"}');
    if (budget !== '100%') expect(tables).toBeGreaterThan(0);
  }
  expect(await server.stop()).toBe(0);
});

it('is planned and packed with the number of experts of each layer', () => {
  const plan = outputOf('plan', at('model'));
  expect(plan).toContain('3 of them MoE with 2 to 8 experts, 1 for a token');
  expect(plan).toMatch(/^experts encoder\.1 .* 2 experts$/m);
  expect(plan).toMatch(/^experts encoder\.3 .* 8 experts$/m);
  outputOf('convert', at('model'), '--out', at('pack'));
  const { experts } = JSON.parse(readFileSync(join(at('pack'), 'manifest.json'), 'utf8'));
  expect(experts.experts_per_layer).toEqual(COUNTS);
  expect(outputOf('plan', at('pack'))).toMatch(/^experts decoder\.1 .* 4 experts$/m);
});
