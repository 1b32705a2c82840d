/** The model's tokenizer.json: text to token ids and back. */
import { Tokenizer as JsTokenizer } from '@huggingface/tokenizers';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { oneLine, parseJson } from './one-line.js';

/** The part of @huggingface/tokenizers in use. The library's own types do not resolve under `nodenext`. */
interface TokenizerLibrary {
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] };
  decode(ids: number[], options: { skip_special_tokens: boolean }): string;
  id_to_token(id: number): string | undefined;
}

const Library = JsTokenizer as unknown as new (tokenizer: object, config: object) => TokenizerLibrary;

export interface TokenizerLimits {
  /** Rows of the model's embedding. Every id must be smaller. */
  vocabSize: number;
  /** Longest text to encode, in UTF-8 bytes. */
  maxInputBytes: number;
}

/** Sample texts: words, spaces, punctuation, other scripts, and a character that no vocabulary has. */
const TRIAL = ['', 'The film, the  film!', ' 1 + 1 = 2\n', 'ÄÖ é \u0301 你好 🎬 \ud800'];

export class Tokenizer {
  readonly #library: TokenizerLibrary;
  readonly #maxInputBytes: number;

  /** `json` is a tokenizer.json. Throws checkpoint_invalid when it cannot serve this model. */
  constructor(json: Buffer, limits: TokenizerLimits) {
    this.#maxInputBytes = limits.maxInputBytes;
    const file = parseTokenizer(json);
    checkIds(file, limits.vocabSize);
    this.#library = openLibrary(file);
    this.#tryOut(limits.vocabSize);
  }

  /** Encodes sample texts, because the library accepts files that only fail when it encodes with them. */
  #tryOut(vocabSize: number): void {
    try {
      for (const text of TRIAL) {
        const ids: unknown[] = this.#library.encode(text, { add_special_tokens: true }).ids;
        const wrong = ids.find((id) => !(Number.isInteger(id) && Number(id) >= 0 && Number(id) < vocabSize));
        if (wrong !== undefined) throw new Error(`text becomes ${String(wrong)}, expected ids of the model`);
        if (ids.length > 0) this.decode(ids as number[], true);
      }
    } catch (error) {
      throw unusable(error);
    }
  }

  /** Ids of the text with the model's special tokens, such as the final `</s>` of T5 and Switch. */
  encode(text: string): number[] {
    return this.#encode(text, true);
  }

  /** Ids of the text without special tokens. */
  encodePlain(text: string): number[] {
    return this.#encode(text, false);
  }

  decode(ids: number[], skipSpecial: boolean): string {
    // The library throws on an empty list.
    return ids.length === 0 ? '' : this.#library.decode(ids, { skip_special_tokens: skipSpecial });
  }

  /** The token's text in the vocabulary. An id without one (a padded embedding row) gives `<id>`. */
  idToToken(id: number): string {
    return this.#library.id_to_token(id) ?? `<${id}>`;
  }

  #encode(text: string, specialTokens: boolean): number[] {
    // Check the length before tokenizing, because its time grows with the text.
    const bytes = Buffer.byteLength(text);
    if (bytes > this.#maxInputBytes) {
      throw new SidaError({
        code: 'request_too_large',
        message: `The text has ${bytes} bytes, the limit is ${this.#maxInputBytes}`,
        details: { bytes, limit: this.#maxInputBytes },
      });
    }
    return this.#library.encode(text, { add_special_tokens: specialTokens }).ids;
  }
}

const tokenId = z.number().int().nonnegative();

/** The parts of the file that contain ids. In a vocabulary list, the id is the index and the number is a score. */
const fileSchema = z.looseObject({
  added_tokens: z.array(z.looseObject({ id: tokenId, content: z.string() })).nullish(),
  model: z.looseObject({
    vocab: z.union([z.array(z.tuple([z.string(), z.number()])), z.record(z.string(), tokenId)]),
    unk_id: tokenId.nullish(),
  }),
});

type TokenizerFile = z.infer<typeof fileSchema>;

function parseTokenizer(json: Buffer): TokenizerFile {
  try {
    return parseJson(json, fileSchema);
  } catch (error) {
    throw unusable(error);
  }
}

/** Throws checkpoint_invalid unless every id has an embedding row and belongs to one token. */
function checkIds({ added_tokens, model: { vocab, unk_id } }: TokenizerFile, vocabSize: number): void {
  const pieces: [string, number][] = Array.isArray(vocab)
    ? vocab.map(([piece], id) => [piece, id])
    : Object.entries(vocab);
  const added = (added_tokens ?? []).map(({ content, id }): [string, number] => [content, id]);
  const unknown: [string, number][] = typeof unk_id === 'number' ? [['(unknown)', unk_id]] : [];
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

function openLibrary(file: TokenizerFile): TokenizerLibrary {
  try {
    // By default, decode removes the space in " ." and " ,", unlike the reference implementation.
    return new Library(file, { clean_up_tokenization_spaces: false });
  } catch (error) {
    throw unusable(error);
  }
}

function unusable(error: unknown): SidaError {
  const reason = oneLine(error instanceof Error ? error.message : String(error));
  const message = `tokenizer.json cannot be used: ${reason}`;
  return new SidaError({ code: 'checkpoint_invalid', message }, { cause: error });
}

function shown(token: string): string {
  return oneLine(JSON.stringify(token), 64);
}
