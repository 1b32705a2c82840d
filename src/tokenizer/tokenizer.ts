/** The model's tokenizer.json: text to token ids and back. */
import { Tokenizer as JsTokenizer } from '@huggingface/tokenizers';
import { SidaError } from '../errors.js';

/** What is used of @huggingface/tokenizers, whose own types do not resolve under `nodenext`. */
interface TokenizerLibrary {
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] };
  decode(ids: number[], options: { skip_special_tokens: boolean }): string;
  id_to_token(id: number): string | undefined;
  /** By piece; ids without a piece are gathered under undefined. */
  get_vocab(withAddedTokens: boolean): Map<string | undefined, number>;
}

const Library = JsTokenizer as unknown as new (tokenizer: object, config: object) => TokenizerLibrary;

export interface TokenizerLimits {
  /** Rows of the model's embedding: every id must be below. */
  vocabSize: number;
  /** Longest text taken, in UTF-8 bytes. */
  maxInputBytes: number;
}

export class Tokenizer {
  readonly #library: TokenizerLibrary;
  readonly #maxInputBytes: number;

  /** `json` is the text of tokenizer.json. Throws checkpoint_invalid when it cannot serve this model. */
  constructor(json: string, limits: TokenizerLimits) {
    this.#maxInputBytes = limits.maxInputBytes;
    this.#library = openLibrary(json);
    for (const id of this.#library.get_vocab(true).values()) {
      if (id < limits.vocabSize) continue;
      const token = this.idToToken(id).slice(0, 64);
      throw new SidaError({
        code: 'checkpoint_invalid',
        message: `tokenizer.json gives token ${JSON.stringify(token)} the id ${id}, the model has ${limits.vocabSize} embedding rows`,
        details: { id, vocab_size: limits.vocabSize },
      });
    }
  }

  /** Ids with the special tokens of the model: T5 and Switch end in `</s>`. */
  encode(text: string): number[] {
    return this.#encode(text, true);
  }

  /** Ids of the text alone. */
  encodePlain(text: string): number[] {
    return this.#encode(text, false);
  }

  decode(ids: number[], skipSpecial: boolean): string {
    // The library throws on an empty list.
    return ids.length === 0 ? '' : this.#library.decode(ids, { skip_special_tokens: skipSpecial });
  }

  /** The vocabulary's piece of an id; an id without one (a padded embedding row) reads `<id>`. */
  idToToken(id: number): string {
    return this.#library.id_to_token(id) ?? `<${id}>`;
  }

  #encode(text: string, specialTokens: boolean): number[] {
    // Bytes are counted before any tokenizing: its time grows with the text.
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

function openLibrary(json: string): TokenizerLibrary {
  try {
    // Without the option decode glues " ." and " ," to the word before, unlike the reference.
    return new Library(JSON.parse(json) as object, { clean_up_tokenization_spaces: false });
  } catch (error) {
    const message = `tokenizer.json cannot be used: ${error instanceof Error ? error.message : String(error)}`;
    throw new SidaError({ code: 'checkpoint_invalid', message }, { cause: error });
  }
}
