// An encoder alone: it embeds, refuses everything else, and is predicted by tables of whole inputs.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { oracleFixture } from '../../support/oracle-fixture.js';
import { metricsOf, REPO, ServerProcess } from '../../support/server-process.js';
import { outputOf, sidaSync } from '../../support/sida-process.js';

const root = mkdtempSync(join(tmpdir(), 'sida-encoder-only-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (name: string) => join(root, name);
const MODEL = oracleFixture('nomic-bert-tiny');
const PACKS = ['--pack-dir', at('packs'), '--threads', '1'];
const WORDS = [
  'the',
  'film',
  'was',
  'fine',
  'search',
  'query',
  'document',
  'a',
  'word90',
  'word91',
  'word92',
];
const textOf = (line: number) =>
  Array.from(
    { length: 3 + (line % 9) },
    (_, i) => WORDS[(line * 5 + i * (1 + (line % 4))) % WORDS.length],
  ).join(' ');

const INPUT = [textOf(3), textOf(7), textOf(11)];

/** Without a predictor. */
let plain: unknown;

async function embeddings(server: ServerProcess) {
  const { status, body } = await server.post('/v1/embeddings', { input: INPUT, include: ['experts'] });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.data;
}

it('says what it can do, and refuses everything that needs a decoder', async () => {
  const server = await ServerProcess.start(['--model', MODEL, '--memory-budget', '40%', ...PACKS]);
  const listed = (await server.get('/v1/models')).body.data[0];
  expect(listed).toMatchObject({
    kind: 'encoder-only',
    chat: false,
    languages: [],
    moe_layers: ['encoder.1', 'encoder.3'],
  });
  const shown = await server.post('/api/show', { model: listed.id });
  expect(shown.body.capabilities).toEqual(['embedding']);
  const messages = [{ role: 'user', content: 'x' }];
  for (const [path, body] of [
    ['/v1/completions', { prompt: 'x' }],
    ['/v1/chat/completions', { messages }],
    ['/v1/responses', { input: 'x' }],
    ['/v1/classify', { template: '{text}', labels: ['a', 'b'], input: 'x' }],
    ['/v1/translate', { input: 'x', source: 'a', target: 'b' }],
  ] as const) {
    const { status, body: answer } = await server.post(path, body);
    expect(status, path).toBe(422);
    expect(answer.error).toMatchObject({
      code: 'cannot_run',
      message: expect.stringContaining('embeds only'),
    });
  }
  const { model } = JSON.parse(readFileSync(join(MODEL, 'tokenizer.json'), 'utf8'));
  const word = model.vocab.findIndex(([piece]: [string]) => piece === '▁film');
  const tokens = await server.post('/v1/tokenize', { input: 'film' });
  expect(tokens.body.data[0].ids).toEqual([0, word, 2]);
  plain = await embeddings(server);
  await server.stop();
});

beforeAll(() => {
  const lines = Array.from({ length: 160 }, (_, line) =>
    JSON.stringify({ text: textOf(line), label: 'ab'[line % 2] }),
  );
  writeFileSync(at('train.jsonl'), lines.slice(0, 140).join('\n'));
  writeFileSync(at('test.jsonl'), lines.slice(140).join('\n'));
  outputOf(
    ...['trace', MODEL, '--data', at('train.jsonl'), '--template', '{text}', '--out', at('trace'), ...PACKS],
  );
  outputOf(
    ...['train', at('trace'), '--out', at('p'), '--hidden', '32', '--lr', '1e-2', '--epochs', '8'],
    ...['--batch', '16', '--threads', '1'],
  );
});

describe('a predictor of an encoder alone', () => {
  it('names experts of whole inputs better than chance, and eval refuses what needs logits', () => {
    const report = JSON.parse(
      outputOf(
        ...['eval', MODEL, '--predictor', at('p'), '--data', at('test.jsonl'), '--template', '{text}'],
        ...['--json', ...PACKS],
      ),
    );
    const { layers, perplexity, labels } = report.sources[0];
    expect([perplexity, labels, layers.map(({ layer }: { layer: string }) => layer)]).toEqual([
      ...[null, null, ['encoder.1', 'encoder.3']],
    ]);
    // Of 8 experts, the 2 that it names first.
    for (const { tokens, functions } of layers) {
      expect(tokens).toBeGreaterThan(50);
      expect(functions.lstm.hits[0]).toBeGreaterThan(0.4);
    }
    for (const asked of [
      ['--text', at('test.jsonl')],
      ['--data', at('test.jsonl'), '--template', '{text}', '--labels', 'a,b'],
    ]) {
      const { status, stderr } = sidaSync('eval', MODEL, '--predictor', at('p'), ...asked, ...PACKS);
      expect(status).not.toBe(0);
      expect(stderr).toContain('embeds only');
    }
  });

  it('serves: experts come before their layers need them, and answers stay the same', async () => {
    const server = await ServerProcess.start([
      ...['--model', MODEL, '--memory-budget', '40%', '--predictor', at('p'), ...PACKS],
    ]);
    const exact = await embeddings(server);
    expect(exact).toEqual(plain);
    const input = INPUT;
    const predicted = await server.post('/v1/embeddings', { input, routing: 'predicted', routing_k: 2 });
    expect(predicted.status, JSON.stringify(predicted.body)).toBe(200);
    expect(predicted.body.data).not.toEqual(exact);
    // A table that is late on a busy machine counts nothing.
    await server.until(async () => {
      await server.post('/v1/embeddings', { input });
      return (await metricsOf(server))('sida_predictor_routings_total') > 0;
    });
    await server.stop();
  });
});

it('a GGUF file embeds texts by its own tokenizer', async () => {
  const file = join(REPO, 'test/fixtures/gguf/nomic_bert.gguf.br');
  writeFileSync(at('nomic.gguf'), brotliDecompressSync(readFileSync(file)));
  const server = await ServerProcess.start(['--model', at('nomic.gguf'), ...PACKS]);
  const { data } = (await server.post('/v1/tokenize', { input: 'the film was fine' })).body;
  expect(data[0].tokens).toEqual(['<s>', '▁the', '▁film', '▁was', '▁fine', '</s>']);
  const { body } = await server.post('/v1/embeddings', { input: ['the film was fine', data[0].ids] });
  expect(body.data[0].embedding).toHaveLength(32);
  expect(body.data[0].embedding).toEqual(body.data[1].embedding);
  await server.stop();
});
