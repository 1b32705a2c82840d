// Items 32, 42 and 43: what shows when a model is opened to serve. `directory` is a pack of the tiny checkpoint, with
// a tokenizer.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CheckpointCase } from './case.js';

// biome-ignore lint/suspicious/noExplicitAny: files of many shapes, edited
type Json = any;

const edit = (file: string, change: (json: Json) => void) => (directory: string) => {
  const path = join(directory, file);
  const json = JSON.parse(readFileSync(path, 'utf8'));
  change(json);
  writeFileSync(path, JSON.stringify(json));
};

/** A tokenizer of the vocabulary's size; its hash in the manifest is that of the file. */
export function writeTokenizer(directory: string, tokenizer: object | string): void {
  const text = typeof tokenizer === 'string' ? tokenizer : JSON.stringify(tokenizer);
  writeFileSync(join(directory, 'tokenizer.json'), text);
  const sha256 = createHash('sha256').update(text).digest('hex');
  edit('manifest.json', ({ files }) => {
    const file = files.find(({ name }: Json) => name === 'tokenizer.json');
    Object.assign(file, { bytes: Buffer.byteLength(text), sha256 });
  })(directory);
}

export const TOKENIZER = {
  version: '1.0',
  added_tokens: [],
  normalizer: { type: 'Lowercase' },
  post_processor: null,
  pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
  decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
  model: {
    type: 'Unigram',
    unk_id: 2,
    vocab: ['<pad>', '</s>', '<unk>', '▁', 'a', 'b', 'c', 'd', 'e', 'f'].map((piece) => [piece, -2]),
  },
};

const tokenizer = (what: string, change: object | string, ...says: string[]): CheckpointCase => ({
  item: 42,
  what,
  harm: (directory) =>
    writeTokenizer(directory, typeof change === 'string' ? change : { ...TOKENIZER, ...change }),
  says: ['tokenizer.json', ...says],
});

const added = (id: number, content: string) => ({ id, content, special: true });
const DEEP = 1_000_000;
const deepList = '{"type":"Sequence","normalizers":['.repeat(DEEP) + ']}'.repeat(DEEP);

/** Swaps the bytes of every 32-bit number. */
function swapBytes(path: string): void {
  writeFileSync(path, readFileSync(path).swap32());
}

const manifest = (what: string, change: (json: Json) => void, ...says: string[]): CheckpointCase => ({
  item: 43,
  what,
  harm: edit('manifest.json', change),
  says: ['manifest.json', ...says],
});

export const SERVED_CASES: CheckpointCase[] = [
  { item: 42, what: 'a sound tokenizer', harm: () => undefined },
  {
    item: 32,
    what: 'a bit flipped in the data',
    harm: (directory) => {
      const path = join(directory, 'experts.sida');
      const bytes = readFileSync(path);
      bytes[5000]! ^= 1;
      writeFileSync(path, bytes);
    },
    says: ['experts.sida', 'sha256', 'expected', 'found'],
  },
  tokenizer(
    'an id beyond the embedding rows',
    { added_tokens: [added(10, '<x>')] },
    '<x>',
    'id 10',
    '10 embedding rows',
  ),
  tokenizer('an id of two tokens', { added_tokens: [added(4, '<x>')] }, 'the id 4 to two tokens'),
  tokenizer(
    'a million normalizers in one another',
    JSON.stringify({ ...TOKENIZER, normalizer: 0 }).replace('"normalizer":0', `"normalizer":${deepList}`),
    'cannot be used',
  ),
  tokenizer(
    'a regular expression that backtracks for ever',
    { normalizer: { type: 'Replace', pattern: { Regex: '(a+)+$' }, content: '' } },
    'cannot be used',
    'took longer than',
  ),
  tokenizer(
    'a regular expression in a decoder',
    { decoder: { type: 'Replace', pattern: { Regex: 'a' }, content: '' } },
    'cannot be used',
    'its decoder has a regular expression',
  ),
  {
    item: 42,
    what: 'another vocabulary under the same hash',
    harm: (directory) => {
      const path = join(directory, 'tokenizer.json');
      const text = readFileSync(path, 'utf8');
      writeFileSync(
        path,
        text.replace(/"[ab]"/g, (piece) => (piece === '"a"' ? '"b"' : '"a"')),
      );
    },
    says: ['tokenizer.json', 'sha256', 'expected', 'found'],
  },
  manifest(
    'a pack of another version',
    (json) => Object.assign(json, { version: 2 }),
    'version',
    'expected 3',
    'found 2',
  ),
  manifest('a pack of something else', (json) => Object.assign(json, { format: 'zip' }), 'format'),
  manifest(
    'a manifest of 200 MB',
    (json) => Object.assign(json, { more: 'x'.repeat(200e6) }),
    'at most 8388608 bytes',
    'found 200',
  ),
  {
    item: 43,
    what: 'a hash that was edited',
    harm: edit('manifest.json', ({ files }) => Object.assign(files[0], { sha256: 'a'.repeat(64) })),
    says: ['sha256', `expected ${'a'.repeat(64)}`, 'found'],
  },
  {
    item: 43,
    what: 'the config of another model',
    harm: (directory) => {
      edit('config.json', (json) => Object.assign(json, { d_ff: 16 }))(directory);
      const text = readFileSync(join(directory, 'config.json'));
      const sha256 = createHash('sha256').update(text).digest('hex');
      edit('manifest.json', ({ files }) => {
        const file = files.find(({ name }: Json) => name === 'config.json');
        Object.assign(file, { bytes: text.length, sha256 });
      })(directory);
    },
    says: ['manifest.json', 'expected', 'found'],
  },
  {
    item: 43,
    what: 'weights whose bytes are swapped',
    harm: (directory) => swapBytes(join(directory, 'dense.sida')),
    says: ['dense.sida', 'sha256', 'expected', 'found'],
  },
];
