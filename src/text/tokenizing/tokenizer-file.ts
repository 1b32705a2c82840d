/** Reads a tokenizer.json and refuses one that cannot serve the model. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import { oneLine, parseJson } from '../one-line.js';

const tokenId = z.number().int().nonnegative();

/** The parts of the file that contain ids. In a vocabulary list, the id is the index and the number is a score. */
const fileSchema = z.looseObject({
  added_tokens: z
    .array(z.looseObject({ id: tokenId, content: z.string(), special: z.boolean().nullish() }))
    .nullish(),
  model: z.looseObject({
    vocab: z.union([z.array(z.tuple([z.string(), z.number()])), z.record(z.string(), tokenId)]),
    unk_id: tokenId.nullish(),
  }),
});

export type TokenizerFile = z.infer<typeof fileSchema>;

/** Throws checkpoint_invalid. */
export function readTokenizerFile(json: Buffer): TokenizerFile {
  try {
    const file = parseJson(json, fileSchema);
    checkTokenBytes(file);
    checkDecoder(file.decoder);
    return file;
  } catch (error) {
    throw unusable(error);
  }
}

/** Of bytes that readTokenizerFile() has read on another thread: to check a large file again takes half a second. */
export function parseCheckedFile(json: Buffer): TokenizerFile {
  return JSON.parse(json.toString('utf8')) as TokenizerFile;
}

/** Most bytes of one token's text. The longest ones of published vocabularies have 256. */
export const MOST_TOKEN_BYTES = 1024;

/** A request may have many ids, so the bytes of a token multiply. */
function checkTokenBytes(file: TokenizerFile): void {
  const added = (file.added_tokens ?? []).map(({ content, id }) => [content, id] as const);
  for (const [token, id] of [...piecesOf(file), ...added]) {
    const bytes = Buffer.byteLength(token);
    if (bytes > MOST_TOKEN_BYTES)
      throw new Error(`token ${id} has ${bytes} bytes, the limit is ${MOST_TOKEN_BYTES}`);
  }
}

/** Generated ids are decoded on the thread that passes messages, so a decoder may not take long or lengthen texts. */
function checkDecoder(decoder: unknown): void {
  if (typeof decoder !== 'object' || decoder === null) return;
  const { pattern, content, decoders } = decoder as Record<string, unknown>;
  if (typeof pattern === 'object' && pattern !== null) {
    if ('Regex' in pattern) throw new Error('its decoder has a regular expression, expected texts');
    const { String: found } = pattern as { String?: unknown };
    if (String(content ?? '').length > String(found ?? '').length)
      throw new Error('its decoder replaces a text by a longer one');
  }
  if (Array.isArray(decoders)) decoders.forEach(checkDecoder);
}

/** The vocabulary's tokens with their ids. */
export function piecesOf({ model: { vocab } }: TokenizerFile): [token: string, id: number][] {
  return Array.isArray(vocab) ? vocab.map(([piece], id) => [piece, id]) : Object.entries(vocab);
}

/** A language and its script, as NLLB writes them: `eng_Latn`. */
const LANGUAGE_CODE = /^[a-z]{3}_[A-Z][a-z]{3}$/;

/** The special tokens that are language codes, with their ids. */
export function languageCodes({ added_tokens }: TokenizerFile): Map<string, number> {
  const codes = (added_tokens ?? []).filter(({ content, special }) => special && LANGUAGE_CODE.test(content));
  return new Map(codes.map(({ content, id }) => [content, id]));
}

/** Throws checkpoint_invalid unless every id has an embedding row and belongs to one token. */
export function checkIds(file: TokenizerFile, vocabSize: number): void {
  const { added_tokens, model } = file;
  const pieces = piecesOf(file);
  const added = (added_tokens ?? []).map(({ content, id }): [string, number] => [content, id]);
  const unknown: [string, number][] = typeof model.unk_id === 'number' ? [['(unknown)', model.unk_id]] : [];
  const highest = [...pieces, ...added, ...unknown].find(([, id]) => id >= vocabSize);
  if (highest !== undefined) {
    const [token, id] = highest;
    throw new SidaError({
      code: 'checkpoint_invalid',
      message: `tokenizer.json gives token ${shown(token)} the id ${id}, the model has ${vocabSize} embedding rows`,
      details: { id, vocab_size: vocabSize },
    });
  }
  const owners = new Map<number, string>();
  for (const [token, id] of [...pieces, ...added]) {
    const owner = owners.get(id);
    if (owner !== undefined && owner !== token) {
      throw new SidaError({
        code: 'checkpoint_invalid',
        message: `tokenizer.json gives the id ${id} to two tokens, ${shown(owner)} and ${shown(token)}`,
        details: { id },
      });
    }
    owners.set(id, token);
  }
}

export function unusable(error: unknown): SidaError {
  if (error instanceof SidaError) return error;
  const reason = oneLine(error instanceof Error ? error.message : String(error));
  const message = `tokenizer.json cannot be used: ${reason}`;
  return new SidaError({ code: 'checkpoint_invalid', message }, { cause: error });
}

function shown(token: string): string {
  return oneLine(JSON.stringify(token), 64);
}
