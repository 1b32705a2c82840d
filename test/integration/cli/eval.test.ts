// `sida eval` on the bundled model, with a small predictor that is trained here.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { withTables } from '../../support/predictor-files.js';
import { MINI, REPO, sst2 } from '../../support/server-process.js';
import { sidaSync } from '../../support/sida-process.js';

const root = mkdtempSync(join(tmpdir(), 'sida-eval-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (name: string) => join(root, name);
const TEMPLATE = 'sst2 sentence: {text}';
const PACKS = ['--pack-dir', at('packs'), '--threads', '1'];

function write(name: string, rows: object[]): string {
  writeFileSync(at(name), rows.map((row) => JSON.stringify(row)).join('\n'));
  return at(name);
}

beforeAll(() => {
  const data = write('train.jsonl', sst2().slice(0, 300));
  for (const args of [
    ['trace', MINI, '--data', data, '--template', TEMPLATE, '--out', at('trace'), '--top', '64', ...PACKS],
    [
      'train',
      at('trace'),
      '--out',
      at('p'),
      ...['--hidden', '16', '--lr', '1e-2', '--batch', '16', '--epochs', '3', '--threads', '1'],
    ],
  ]) {
    const { status, stderr } = sidaSync(...args);
    expect(status, stderr).toBe(0);
  }
});

const evalArgs = (...more: string[]) => ['eval', MINI, '--predictor', at('p'), ...PACKS, ...more];
const rows = () => sst2().slice(300, 340);
const TASK = ['--task', 'sst2'];

interface Report {
  predictor: { hashFunction: string; warnings: string[] };
  sources: {
    kind: string;
    inputs: number;
    layers: {
      layer: string;
      tokens: number;
      alpha: number;
      functions: Record<string, { hits: number[]; alphaError: number | null; unknown: number }>;
    }[];
    tableMs: Record<string, number>;
    labels: {
      exact: { accuracy: number };
      zeros: { accuracy: number };
      predicted: (Record<string, number> & { random: { accuracy: number } })[];
    } | null;
    perplexity: {
      exact: number;
      zeros: number;
      predicted: { perplexity: number; ratio: number; random: number }[];
    } | null;
  }[];
}

function report(...args: string[]): Report {
  const { status, stdout, stderr } = sidaSync(...args, '--json');
  expect(status, stderr).toBe(0);
  return JSON.parse(stdout);
}

/** An evaluation with the recorded routing as tables. */
const replayed = (...args: string[]): Promise<Report> =>
  withTables('replay', () => report('eval', MINI, ...PACKS, ...args));

describe('sida eval', () => {
  it('reports hits and fidelity on labels, as a table and as JSON', () => {
    const data = write('labelled.jsonl', rows());
    const { predictor, sources } = report(...evalArgs('--data', data, ...TASK));
    expect(predictor).toMatchObject({ hashFunction: 'lstm', warnings: [] });
    const { inputs, layers, tableMs, labels, perplexity } = sources[0]!;
    expect([sources.length, inputs, perplexity]).toEqual([1, 40, null]);
    expect(layers.map(({ layer }) => layer)).toEqual(['encoder.1', 'encoder.3', 'decoder.1', 'decoder.3']);
    // A network takes longer than looking tokens up.
    expect(tableMs.lstm).toBeGreaterThan(tableMs.token!);
    for (const { layer, tokens, alpha, functions } of layers) {
      expect(Object.keys(functions)).toEqual(['lstm', 'token']);
      expect(tokens).toBeGreaterThanOrEqual(40);
      expect(alpha).toBeGreaterThan(1 / 64);
      const { hits } = functions.token!;
      if (layer.startsWith('encoder')) expect(hits[0]).toBeGreaterThan(0.1);
      expect(hits).toEqual(hits.toSorted((a, b) => a - b));
    }
    expect(labels!.exact.accuracy).toBeGreaterThan(0.6);
    expect(labels!.predicted.map(({ k, unrouted }) => [k, unrouted])).toEqual([
      [1, 0],
      [3, 0],
    ]);
    const table = sidaSync(...evalArgs('--data', data, ...TASK, '--limit', '5'));
    expect(table.stdout).toMatch(/^encoder\.1 +\d+ +0\.\d+ +[\d.]+ \/ [\d.]+ \/ [\d.]+ +(0\.\d+|–)/m);
    expect(table.stdout).toMatch(
      /^labels, % +exact +predicted +random tables +experts of zeros +share of the way, %/m,
    );
    expect(table.stdout).toMatch(/^accuracy, k = 3( +[\d.]+){4} +/m);
    expect(table.stdout).toMatch(/^exact − experts of zeros over 5 inputs: .*95 % interval/m);
    expect(table.stderr).toContain('Evaluating: 100 % (5/5 inputs)');
  });

  it('loses nothing in predicted mode when the tables are the recorded routing', async () => {
    // The tables begin with the start token, like the trace's records of the decoder.
    const data = write('recorded.jsonl', sst2().slice(0, 20));
    const args = ['--predictor', at('trace'), '--data', data];
    const { layers, labels } = (await replayed(...args, ...TASK)).sources[0]!;
    for (const { functions } of layers) {
      expect(functions.replay).toMatchObject({ hits: [1, 1, 1], unknown: 0 });
      expect(functions.replay!.alphaError).toBeLessThan(1e-6);
    }
    expect(labels!.predicted[0]).toMatchObject({ k: 1, fidelity: 1, agreement: 1, unrouted: 0 });
    const continued = (await replayed(...args, '--template', TEMPLATE)).sources[0]!;
    expect(continued.kind).toBe('continuations');
    for (const { functions } of continued.layers) expect(functions.replay!.hits[0]).toBe(1);
  });

  it('counts inputs that the tables cannot route', async () => {
    const data = write('unknown.jsonl', sst2().slice(295, 305));
    const args = ['--predictor', at('trace'), '--data', data];
    const { layers, labels } = (await replayed(...args, ...TASK)).sources[0]!;
    const { tokens, functions } = layers[0]!;
    expect(functions.replay!.unknown).toBeGreaterThan(0);
    expect(functions.replay!.hits[0]).toBeCloseTo(1 - functions.replay!.unknown / tokens);
    expect(labels!.predicted[0]).toMatchObject({ unrouted: 5, agreement: 0.5 });
  });

  it('reports the perplexity of a text, and of data without labels', () => {
    writeFileSync(
      at('text.txt'),
      sst2()
        .slice(0, 60)
        .map(({ text }) => `${text}\n`)
        .join('\n'),
    );
    const text = report(...evalArgs('--text', at('text.txt'), '--routing-k', '1')).sources;
    const data = write(
      'plain.jsonl',
      sst2()
        .slice(0, 60)
        .map(({ text: own }) => ({ text: own })),
    );
    const sources = report(...evalArgs('--data', data, '--template', '{text}', '--routing-k', '1')).sources;
    expect(text.map(({ kind }) => kind)).toEqual(['corrupted']);
    expect(sources.map(({ kind }) => kind)).toEqual(['continuations', 'corrupted']);
    expect(sources[1]!.perplexity).toEqual(text[0]!.perplexity);
    const { exact, predicted } = text[0]!.perplexity!;
    expect(exact).toBeGreaterThan(10);
    expect(exact).toBeLessThan(2000);
    expect(predicted[0]!.ratio).toBeCloseTo(predicted[0]!.perplexity / exact);
    // Wrong experts and none at all are other models.
    for (const control of [predicted[0]!.random, text[0]!.perplexity!.zeros]) {
      expect(control).toBeGreaterThan(10);
      expect(control).not.toBeCloseTo(exact, 6);
    }
    expect(sources[0]!.labels).toBeNull();
  });

  it('refuses a model without a predictor', () => {
    const bare = at('bare');
    mkdirSync(bare);
    for (const file of ['config.json', 'model.safetensors', 'tokenizer.json', 'sida.json'])
      copyFileSync(join(MINI, file), join(bare, file));
    const data = write('bare.jsonl', sst2().slice(0, 2));
    const run = sidaSync('eval', bare, '--predictor', 'auto', '--data', data, ...TASK, ...PACKS);
    expect([run.status, run.stdout]).toEqual([1, '']);
    expect(run.stderr).toMatch(/name a directory of `sida train`/);
  });

  it.each([
    ['no such predictor', ['--predictor', at('none'), '--data', 'D', ...TASK], 1, /sida-predictor\.json/],
    ['nothing to read', [], 2, /give --data or --text/],
    [
      'a wrong k',
      ['--data', 'D', ...TASK, '--routing-k', '1,9'],
      2,
      /--routing-k to be at most 4, the experts that a table of this model names for a token, found 9/,
    ],
    [
      'a long input',
      ['--data', 'D', ...TASK, '--limit', '1', '--max-batch-tokens', '16'],
      1,
      /line 1 has \d+ tokens, the limit is 16/,
    ],
  ])('refuses %s', (_, args, code, message) => {
    const files: Record<string, string> = { D: write('right.jsonl', sst2().slice(0, 2)) };
    const run = sidaSync(...evalArgs(...args.map((arg) => files[arg] ?? arg)));
    expect([run.status, run.stdout]).toEqual([code, '']);
    expect(run.stderr).toMatch(message);
    expect(run.stderr).not.toMatch(/^\s+at /m);
  });

  it('refuses a predictor for a model of another shape', () => {
    const tiny = join(REPO, 'test/fixtures/switch-tiny-untied');
    const run = sidaSync('eval', tiny, '--predictor', at('p'), ...PACKS, '--text', at('text.txt'));
    expect(run.status).not.toBe(0);
    expect(run.stderr).toMatch(/made for \d+ (MoE layers|experts)/);
  });
});
