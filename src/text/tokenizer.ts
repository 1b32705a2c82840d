/** The model's tokenizer.json: text to token ids and back. */
import { Detokenizer, type TokenTexts } from './detokenizer.js';
import { checkTextBytes } from './text-bytes.js';
import { withinTime } from './time-bound.js';
import { type MarkedEncoder, openLibrary, type TokenizerLibrary } from './tokenizing/library.js';
import {
  checkIds,
  MOST_TOKEN_BYTES,
  piecesOf,
  readTokenizerFile,
  type TokenizerFile,
  unusable,
} from './tokenizing/tokenizer-file.js';

export interface TokenizerLimits {
  /** Rows of the model's embedding. Every id must be smaller. */
  vocabSize: number;
  /** Longest text to encode, in UTF-8 bytes. */
  maxInputBytes: number;
  /** Time to encode one text. Undefined where another thread watches this one. */
  textMs?: number;
}

/** Time for building the library's objects: it runs the normalizer's regular expressions on the added tokens. */
const OPEN_MS = 10_000;
/** Time for all sample texts. They take some milliseconds. */
const TRIAL_MS = 500;
/** Time for the texts of all tokens. A large vocabulary takes half a second. */
const VOCABULARY_MS = 5_000;
/** Most characters that a normalizer makes of one. Unicode's own normalizations make up to 18. */
const MOST_GROWTH = 32;

/**
 * Sample texts: words, spaces, punctuation, other scripts, a character that no vocabulary has, and long runs, on which
 * a regular expression that can backtrack for ever does so.
 */
const TRIAL = [
  '',
  'The film, the  film!',
  ' 1 + 1 = 2\n',
  'ÄÖ é \u0301 你好 🎬 \ud800',
  ...['a', 'A', 'ab', '1', ' ', 'a ', '\n', '.', 'é'].flatMap((unit) => [
    `${unit.repeat(48)}`,
    `${unit.repeat(48)}!`,
    `${unit.repeat(48)}z 0`,
  ]),
];

export class Tokenizer implements TokenTexts {
  readonly #library: TokenizerLibrary;
  readonly #texts: Detokenizer;
  readonly #maxInputBytes: number;
  readonly #textMs: number | undefined;

  /** `source` is a tokenizer.json, read or not. Throws checkpoint_invalid when it cannot serve this model. */
  constructor(source: Buffer | TokenizerFile, limits: TokenizerLimits) {
    const { vocabSize, maxInputBytes, textMs } = limits;
    this.#maxInputBytes = maxInputBytes;
    this.#textMs = textMs;
    const file = Buffer.isBuffer(source) ? readTokenizerFile(source) : source;
    checkIds(file, vocabSize);
    try {
      this.#library = withinTime(OPEN_MS, 'preparing it', () => openLibrary(file));
      this.#texts = new Detokenizer(file);
      withinTime(VOCABULARY_MS, 'decoding its vocabulary', () => this.#tryVocabulary(file));
      withinTime(TRIAL_MS, 'encoding sample texts', () => this.#tryOut(vocabSize));
    } catch (error) {
      throw unusable(error);
    }
  }

  /** Encodes sample texts, because the library accepts files that only fail when it encodes with them. */
  #tryOut(vocabSize: number): void {
    for (const text of TRIAL) {
      const ids: unknown[] = this.#library.encode(text, { add_special_tokens: true }).ids;
      const wrong = ids.find((id) => !(Number.isInteger(id) && Number(id) >= 0 && Number(id) < vocabSize));
      if (wrong !== undefined) throw new Error(`text becomes ${String(wrong)}, expected ids of the model`);
      this.decode(ids as number[], true);
    }
  }

  /** Normalizes and decodes every token, because a normalizer or a decoder may lengthen texts without bound. */
  #tryVocabulary(file: TokenizerFile): void {
    const normalize = this.#library.normalizer as ((text: string) => string) | null;
    const added = (file.added_tokens ?? []).map(({ content, id }): [string, number] => [content, id]);
    for (const [piece, id] of [...piecesOf(file), ...added]) {
      // A decoder may treat the last token in its own way.
      const decoded = this.decode([id, id], false).length;
      if (decoded > 2 * MOST_TOKEN_BYTES)
        throw new Error(`its decoder makes ${decoded} characters of token ${id}, twice`);
      const normalized = piece === '' ? 0 : (normalize?.(piece).length ?? 0);
      if (normalized > MOST_GROWTH * (piece.length + 1))
        throw new Error(
          `its normalizer makes ${normalized} characters of the ${piece.length} of token ${id}`,
        );
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

  /** Encodes texts in which a mark keeps what looks like one of the `controls` from being one. */
  markedEncoder(controls: ReadonlySet<string>): MarkedEncoder {
    return this.#library.marked_encoder(controls);
  }

  get languages(): ReadonlyMap<string, number> {
    return this.#texts.languages;
  }

  decode(ids: number[], skipSpecial: boolean): string {
    return this.#texts.decode(ids, skipSpecial);
  }

  idToToken(id: number): string {
    return this.#texts.idToToken(id);
  }

  #encode(text: string, specialTokens: boolean): number[] {
    checkTextBytes(Buffer.byteLength(text), this.#maxInputBytes);
    const encode = () => this.#library.encode(text, { add_special_tokens: specialTokens }).ids;
    return this.#textMs === undefined ? encode() : withinTime(this.#textMs, 'encoding a text', encode);
  }
}
