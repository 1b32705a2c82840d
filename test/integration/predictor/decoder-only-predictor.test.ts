// `sida trace`, `train` and `eval` with a decoder-only model whose routers choose four experts per token.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../../src/native/addon.js';
import { namedExperts } from '../../../src/predictor/hash-function.js';
import { type OpenedPredictor, openPredictor } from '../../../src/predictor/predictor-directory.js';
import { readMeta, readTrace } from '../../../src/trace/trace-file.js';
import { byteTokenizer } from '../../support/byte-tokenizer.js';
import { withTables } from '../../support/predictor-files.js';
import { REPO, sst2 } from '../../support/server-process.js';
import { outputOf } from '../../support/sida-process.js';

const root = mkdtempSync(join(tmpdir(), 'sida-decoder-only-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (name: string) => join(root, name);
const MODEL = at('olmoe-tiny');
const LAYERS = ['decoder.0', 'decoder.1', 'decoder.2'];
const PACKS = ['--pack-dir', at('packs'), '--threads', '1'];
const TEMPLATE = ['--template', '{text}'];
const END = 2;

beforeAll(() => {
  cpSync(join(REPO, 'test/fixtures/olmoe-tiny'), MODEL, { recursive: true });
  writeFileSync(join(MODEL, 'tokenizer.json'), JSON.stringify(byteTokenizer(END)));
  const rows = sst2()
    .slice(0, 120)
    .map(({ text }, i) => JSON.stringify({ text: text.slice(0, 24 + (i % 9)), label: 'ab'[i % 2] }));
  writeFileSync(at('data.jsonl'), rows.join('\n'));
  writeFileSync(
    at('text.txt'),
    sst2()
      .slice(200, 230)
      .map(({ text }) => text)
      .join('\n'),
  );
  outputOf(
    ...['trace', MODEL, '--data', at('data.jsonl'), ...TEMPLATE, '--out', at('trace'), ...PACKS],
    ...['--top', '3', '--max-new-tokens', '5'],
  );
  outputOf(
    ...['train', at('trace'), '--out', at('p'), '--hidden', '32', '--lr', '1e-2'],
    ...['--epochs', '10', '--batch', '16', '--threads', '1'],
  );
});

describe('a trace', () => {
  it('records prompts and continuations as one stack, with twice as many experts as the routers choose', async () => {
    expect(await readMeta(at('trace'))).toMatchObject({
      stacks: ['decoder'],
      layers: LAYERS,
      topK: 4,
      normalized: false,
      top: 8,
      complete: true,
    });
    let longer = 0;
    for await (const { input, stacks } of readTrace(at('trace'))) {
      const [{ tokens, experts, logits }] = stacks as [(typeof stacks)[number]];
      expect(stacks).toHaveLength(1);
      expect(tokens.length - input).toBeLessThanOrEqual(5);
      expect(tokens.includes(END)).toBe(false);
      expect([experts.length, logits.length]).toEqual([3 * tokens.length * 8, 3 * tokens.length * 8]);
      longer += Number(tokens.length > input);
    }
    expect(longer).toBeGreaterThan(60);
  });
});

describe('a predictor', () => {
  const manifest = () => JSON.parse(readFileSync(join(at('p'), 'sida-predictor.json'), 'utf8'));
  const open = (kind: 'lstm' | 'token'): Promise<OpenedPredictor> => {
    const addon = loadAddon();
    const { shape } = addon.inspectCheckpoint(MODEL);
    const embedding = () => new addon.TokenEmbedding({ checkpoint: MODEL });
    return openPredictor(at('p'), {
      model: shape,
      weights: manifest().model.weights,
      addon,
      embedding,
      kind,
    });
  };

  it('records its top-k and its recall@4 and recall@8', () => {
    expect(manifest()).toMatchObject({
      layers: LAYERS,
      topK: 4,
      networks: { lstm: { options: { top: 8, sharpness: 1 } } },
    });
    for (const layers of Object.values<{ hits: number[] }[]>(manifest().heldOut)) {
      expect(layers).toHaveLength(3);
      for (const { hits } of layers) {
        expect(hits).toHaveLength(2);
        // Random experts would reach a quarter and a half.
        expect(hits[0]).toBeGreaterThan(0.3);
        expect(hits[1]).toBeGreaterThan(0.55);
      }
    }
  });

  it.each(['lstm', 'token'] as const)(
    'predicts 8 experts whose chances sum to at most 4: %s',
    async (kind) => {
      const { function: hash } = await open(kind);
      const input = {
        tokens: Int32Array.from({ length: 30 }, (_, i) => 96 + i),
        offsets: Int32Array.of(0, 30),
      };
      const named = namedExperts(90, 8);
      expect(hash.fill(0, input, named)).toBe(true);
      const { experts, alpha, chance } = named;
      let most = 0;
      for (let row = 0; row < 720; row += 8) {
        expect(new Set(experts.subarray(row, row + 8)).size).toBe(8);
        const sum = (of: Float32Array) =>
          of.subarray(row, row + 8).reduce((total, value) => total + value, 0);
        expect(sum(alpha)).toBeLessThanOrEqual(1 + 1e-4);
        expect(sum(chance)).toBeLessThanOrEqual(4 + 1e-4);
        most = Math.max(most, sum(chance));
      }
      expect(most).toBeGreaterThan(2);
      expect(chance.every((value) => value >= 0 && value <= 1)).toBe(true);
      hash.close();
    },
  );

  it('predicts the same when stepping from a prompt as for the whole sequence', async () => {
    const { function: hash } = await open('lstm');
    const tokens = Int32Array.of(100, 110, 120, 130, 140);
    const whole = namedExperts(3 * 5, 8);
    hash.fill(0, { tokens, offsets: Int32Array.of(0, 5) }, whole);
    const stepper = hash.stepper()!;
    stepper.begin(7, tokens.slice(0, 3), new Int32Array());
    // Its last token of the prompt was fed in a step.
    stepper.begin(8, tokens.slice(0, 2), tokens.slice(2, 3));
    const behind = {
      tokens: tokens.slice(3),
      offsets: Int32Array.of(0, 2),
      contextTokens: tokens.slice(0, 3),
      contextOffsets: Int32Array.of(0, 3),
    };
    const labels = namedExperts(3 * 2, 8);
    hash.fill(0, behind, labels);
    for (const [row, t] of [3, 4].entries()) {
      const [step, other] = [namedExperts(3, 8), namedExperts(3, 8)];
      expect(stepper.step(Int32Array.of(7), tokens.slice(t, t + 1), step)).toBe(true);
      expect(stepper.step(Int32Array.of(8), tokens.slice(t, t + 1), other)).toBe(true);
      expect(other.experts).toEqual(step.experts);
      for (const layer of [0, 1, 2]) {
        const named = whole.experts.subarray((layer * 5 + t) * 8, (layer * 5 + t + 1) * 8);
        expect(step.experts.subarray(layer * 8, (layer + 1) * 8)).toEqual(named);
        const at = (layer * 2 + row) * 8;
        expect(labels.experts.subarray(at, at + 8)).toEqual(named);
      }
    }
    hash.close();
  });
});

describe('sida eval', () => {
  const report = (...args: string[]) =>
    JSON.parse(outputOf('eval', MODEL, ...PACKS, ...args, '--json')).sources;

  it('measures the perplexity of a text in windows, with 4 and 8 experts per token', () => {
    const [source] = report('--predictor', at('p'), '--text', at('text.txt'));
    expect(source).toMatchObject({ kind: 'text', hitNames: ['recall@4', 'recall@8'], labels: null });
    const { perplexity, tokens, inputs } = source;
    expect(perplexity.tokens).toBe(tokens.decoder - inputs);
    expect(perplexity.exact).toBeGreaterThan(1);
    expect(perplexity.predicted.map(({ k, unrouted }: Record<string, number>) => [k, unrouted])).toEqual([
      [4, 0],
      [8, 0],
    ]);
    const table = outputOf(
      'eval',
      MODEL,
      ...PACKS,
      '--predictor',
      at('p'),
      '--text',
      at('text.txt'),
      '--limit',
      '9',
    );
    expect(table).toMatch(/^hits, recall@4 \/ recall@8, % /m);
    expect(table).toMatch(/^decoder\.1 +\d+ +0\.\d+ +[\d.]+ \/ [\d.]+ +0\.\d+/m);
  });

  it('is exact in predicted mode with recorded routing, and finds all of it', async () => {
    const args = ['--predictor', at('trace'), '--data', at('data.jsonl'), ...TEMPLATE];
    const [continued] = await withTables('replay', () =>
      report(...args, '--max-new-tokens', '5', '--limit', '30'),
    );
    expect(continued.kind).toBe('continuations');
    for (const { functions } of continued.layers) {
      expect(functions.replay).toMatchObject({ hits: [1, 1], unknown: 0 });
      // The trace holds half of the experts, so α is estimated.
      expect(functions.replay.alphaError).toBeLessThan(0.01);
    }
    // Each label has one token, so the prompt's last row scores both.
    const [labelled] = await withTables('replay', () =>
      report(...args, '--labels', 'a,b', '--routing-k', '4'),
    );
    expect(labelled.labels.predicted[0]).toMatchObject({ k: 4, fidelity: 1, agreement: 1, unrouted: 0 });
  });

  it('scores labels of several tokens after the prompt they share', () => {
    const args = [
      '--predictor',
      at('p'),
      '--hash-function',
      'token',
      '--data',
      at('data.jsonl'),
      ...TEMPLATE,
    ];
    writeFileSync(
      at('longer.jsonl'),
      readFileSync(at('data.jsonl'), 'utf8')
        .replaceAll('"a"', '"good film"')
        .replaceAll('"b"', '"good book"'),
    );
    args[5] = at('longer.jsonl');
    const [source] = report(...args, '--labels', 'good film,good book', '--limit', '20');
    expect(source.labels.exact.accuracy).toBeGreaterThanOrEqual(0);
    expect(source.labels.predicted.map(({ unrouted }: { unrouted: number }) => unrouted)).toEqual([0, 0]);
    // Tokens of the prompts, and all but the last token of each label. Shared first tokens are fed once per label.
    const fed = source.tokens.decoder;
    expect(fed).toBeGreaterThan(20 * (24 + 16));
  });
});
