// What shows when a model is opened to serve. `directory` is a pack of the tiny checkpoint, with a tokenizer.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Case, Harm } from './judge.js';

// biome-ignore lint/suspicious/noExplicitAny: files of many shapes, edited
type Json = any;

const changed =
  (file: string, change: (bytes: Buffer) => Buffer | string): Harm =>
  (directory) =>
    writeFileSync(join(directory, file), change(readFileSync(join(directory, file))));
const edited = (file: string, change: (json: Json) => void) =>
  changed(file, (bytes) => {
    const json = JSON.parse(bytes.toString());
    change(json);
    return JSON.stringify(json);
  });

/** Writes a file of the pack, and its hash into the manifest. */
function replace(directory: string, file: string, text: string): void {
  writeFileSync(join(directory, file), text);
  const sha256 = createHash('sha256').update(text).digest('hex');
  edited('manifest.json', ({ files }) => {
    const entry = files.find(({ name }: Json) => name === file);
    Object.assign(entry, { bytes: Buffer.byteLength(text), sha256 });
  })(directory);
}

/** A tokenizer of the vocabulary's size. */
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

const file = 'tokenizer.json';
const tokenizer =
  (change: object | string): Harm =>
  (directory) =>
    replace(
      directory,
      file,
      typeof change === 'string' ? change : JSON.stringify({ ...TOKENIZER, ...change }),
    );
const added = (id: number) => tokenizer({ added_tokens: [{ id, content: '<x>', special: true }] });
const DEEP = 1_000_000;
const deep = () => '{"type":"Sequence","normalizers":['.repeat(DEEP) + ']}'.repeat(DEEP);
const nested: Harm = (directory) =>
  tokenizer(
    JSON.stringify({ ...TOKENIZER, normalizer: 0 }).replace('"normalizer":0', `"normalizer":${deep()}`),
  )(directory);
const replacing = (Regex: string) => ({ type: 'Replace', pattern: { Regex }, content: 'x' });
const normalizer = (Regex: string) => tokenizer({ normalizer: replacing(Regex) });
const splitting = { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated' };
const swapped = (bytes: Buffer) =>
  bytes.toString().replace(/"[ab]"/g, (piece) => (piece === '"a"' ? '"b"' : '"a"'));
const manifest = (change: (json: Json) => void) => edited('manifest.json', change);
const flipped = (bytes: Buffer) => {
  bytes[5000]! ^= 1;
  return bytes;
};
const otherConfig: Harm = (directory) => {
  const text = readFileSync(join(directory, 'config.json'), 'utf8');
  replace(directory, 'config.json', JSON.stringify({ ...JSON.parse(text), d_ff: 16 }));
};
const HASH = ['sha256', 'expected', 'found'];
const LONG = 'x'.repeat(1_000_000);
const SLOW = [file, 'cannot be used', 'took longer than'];

// biome-ignore format: a table
export const SERVED: Case[] = [
  ['a sound tokenizer', () => undefined],
  ['an id beyond the embedding rows', added(10), file, '<x>', 'id 10', '10 embedding rows'],
  ['an id of two tokens', added(4), file, 'the id 4 to two tokens'],
  ['a million normalizers in one another', nested, file, 'cannot be used'],
  ['a normalizer that backtracks for ever', normalizer('(a+)+$'), ...SLOW],
  ['one that backtracks at words', normalizer('(\\w+\\s?)+$'), ...SLOW],
  ['one that backtracks at blanks', normalizer('(\\s+)+\\S\\d$'), ...SLOW],
  ['a pre-tokenizer that backtracks', tokenizer({ pre_tokenizer: { type: 'Sequence', pretokenizers: [splitting] } }), ...SLOW],
  ['a regular expression in a decoder', tokenizer({ decoder: replacing('a') }), file, 'cannot be used', 'its decoder has a regular expression'],
  ['a decoder that lengthens texts', tokenizer({ decoder: { ...replacing('a'), pattern: { String: '' }, content: LONG } }), file, 'its decoder replaces a text by a longer one'],
  ['a normalizer that lengthens texts', tokenizer({ normalizer: { ...replacing('a'), pattern: { String: 'a' }, content: LONG } }), file, 'its normalizer makes'],
  ['an added token of 20,000 letters', tokenizer({ added_tokens: [{ id: 9, content: LONG.slice(0, 20_000), special: true }] }), file, 'token 9 has 20000 bytes', 'the limit is 1024'],
  ['a token of a million bytes', tokenizer({ model: { ...TOKENIZER.model, vocab: TOKENIZER.model.vocab.with(9, [LONG, -2]) } }), file, 'token 9 has 1000000 bytes', 'the limit is 1024'],
  ['another vocabulary under the same hash', changed(file, swapped), file, ...HASH],
  ['a bit flipped in the data', changed('experts.sida', flipped), 'experts.sida', ...HASH],
  ['weights whose bytes are swapped', changed('dense.sida', (bytes) => bytes.swap32()), 'dense.sida', ...HASH],
  ['a hash that was edited', manifest(({ files }) => Object.assign(files[0], { sha256: 'a'.repeat(64) })), 'sha256', `expected ${'a'.repeat(64)}`, 'found'],
  ['the config of another model', otherConfig, 'manifest.json', 'expected', 'found'],
  ['a pack of another version', manifest((json) => Object.assign(json, { version: 2 })), 'manifest.json', 'version', 'expected 3', 'found 2'],
  ['a pack of something else', manifest((json) => Object.assign(json, { format: 'zip' })), 'manifest.json', 'format'],
  ['a manifest of 200 MB', manifest((json) => Object.assign(json, { more: 'x'.repeat(200e6) })), 'manifest.json', 'at most 8.00 MiB', 'found 19'],
  ['a manifest with a million files', manifest((json) => Object.assign(json, { files: Array(1e6).fill({}) })), 'manifest.json'],
];
