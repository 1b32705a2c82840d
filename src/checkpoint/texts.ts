/** The files of a model beside its weights. They are read once, so that what was hashed is what is used. */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { type ErrorCode, SidaError } from '../errors.js';
import { readModelFile } from '../files/model-file.js';
import { formatBytes, formatLeast } from '../text/bytes.js';

const MIB = 1024 ** 2;

/** Most bytes of each file. The largest published vocabularies, of 262,000 tokens, have files of 33 MB. */
const MOST_BYTES = {
  'config.json': 8 * MIB,
  'generation_config.json': 8 * MIB,
  'tokenizer.json': 48 * MIB,
  'tokenizer_config.json': 8 * MIB,
  'chat_template.jinja': 8 * MIB,
  'sida.json': 8 * MIB,
} as const;

export type TextName = keyof typeof MOST_BYTES;
export const TEXT_NAMES = Object.keys(MOST_BYTES) as TextName[];

/** The bytes of those files that the model has. */
export type Texts = ReadonlyMap<TextName, Buffer>;

/** Throws checkpoint_invalid for a file that is too large, no regular file, or a link out of the directory. */
export function readTexts(directory: string): Texts {
  const texts = new Map<TextName, Buffer>();
  for (const name of TEXT_NAMES) {
    const bytes = readText(directory, name, 'checkpoint_invalid');
    if (bytes !== undefined) texts.set(name, bytes);
  }
  return texts;
}

export function readText(directory: string, name: TextName, code: ErrorCode): Buffer | undefined {
  // Threads read the vocabulary, so a copy for them is not needed.
  const shared = name === 'tokenizer.json';
  return readModelFile(directory, name, { code, mostBytes: MOST_BYTES[name], shared });
}

/** Throws checkpoint_invalid when a text that was made from the file `path` would be larger than such a file may be. */
export function checkTextSize(path: string, name: TextName, bytes: number): void {
  const most = MOST_BYTES[name];
  if (bytes <= most) return;
  const message = `${path}: its ${name} would have ${formatLeast(bytes)}, expected at most ${formatBytes(most)}`;
  throw new SidaError({ code: 'checkpoint_invalid', message });
}

/** Writes and syncs the files. Returns what a manifest says of them. */
export async function writeTexts(
  directory: string,
  texts: Texts,
): Promise<{ name: TextName; bytes: number; sha256: string }[]> {
  const files = [];
  for (const [name, bytes] of texts) {
    const file = await open(join(directory, name), 'w');
    try {
      await file.writeFile(bytes);
      await file.sync();
    } finally {
      await file.close();
    }
    files.push({ name, bytes: bytes.length, sha256: sha256Of(bytes) });
  }
  return files;
}

export function isTextName(name: string): name is TextName {
  return Object.hasOwn(MOST_BYTES, name);
}

export function sha256Of(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}
