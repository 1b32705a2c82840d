// GGUF files of trained SentencePiece models give the ids that SentencePiece gives (test/fixtures/tokenizers/gguf).
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { ggufTexts } from '../../../../src/checkpoint/gguf/gguf-texts.js';
import { readTasks } from '../../../../src/checkpoint/tasks.js';
import { loadAddon } from '../../../../src/native/addon.js';
import { Tokenizer } from '../../../../src/text/tokenizer.js';

const fixtures = new URL('../../../fixtures/tokenizers/gguf/', import.meta.url);
const unpacked = (name: string) => brotliDecompressSync(readFileSync(new URL(`${name}.br`, fixtures)));

const directory = mkdtempSync(join(tmpdir(), 'sida-gguf-'));
afterAll(() => rmSync(directory, { recursive: true }));
const tasks = { sst2: { template: 'sst2: {text}', labels: ['bad', 'good'] } };
writeFileSync(join(directory, 'sida.json'), JSON.stringify({ tasks }));

describe.each([
  'bpe',
  'bpe-no-prefix',
  'bpe-nfkc',
  'unigram',
  'unigram-lower-case-bytes',
  'unigram-as-it-is',
  'unigram-no-prefix',
])('%s', (name) => {
  const file = join(directory, `${name}.gguf`);
  writeFileSync(file, unpacked(`${name}.gguf`));
  const { metadata } = loadAddon().readGguf(file);
  const scores = metadata['tokenizer.ggml.scores'] as Float32Array;
  const sum = (ids: number[]) => ids.reduce((total, id) => total + scores[id]!, 0);
  const texts = ggufTexts(file, metadata);
  const tokenizer = new Tokenizer(texts.get('tokenizer.json')!, { vocabSize: 1500, maxInputBytes: 1 << 20 });
  const cases: { text: string; ids: number[] }[] = unpacked(`${name}.jsonl`)
    .toString()
    .split('\n')
    .map((line) => JSON.parse(line));

  it('encodes as SentencePiece', () => {
    for (const { text, ids } of cases) {
      const found = tokenizer.encodePlain(text);
      // SentencePiece adds scores of Unigram in f32, which decides between sums that are the same.
      const tied = name.startsWith('unigram') && Math.abs(sum(found) - sum(ids)) < 1e-4;
      if (!tied) expect(found, JSON.stringify(text)).toEqual(ids);
    }
  });

  it('finds the tasks beside the file', () => {
    expect(JSON.parse(texts.get('sida.json')!.toString())).toEqual({ tasks });
    expect(readTasks(file)).toEqual(tasks);
  });

  it('writes both chat templates', () => {
    expect(texts.get('chat_template.jinja')!.toString()).toBe('{{ messages[0].content }}');
    expect(JSON.parse(texts.get('tokenizer_config.json')!.toString()).chat_template).toHaveLength(2);
  });
});
