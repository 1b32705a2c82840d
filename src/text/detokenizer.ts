/** Token ids to text. It holds the vocabulary of a tokenizer.json, and nothing that encoding needs. */
import { replaceByteLevelDecoder } from './tokenizing/byte-level-decoder.js';
import { CONFIG, Library, type TokenizerLibrary } from './tokenizing/library.js';
import { languageCodes, piecesOf, type TokenizerFile, unusable } from './tokenizing/tokenizer-file.js';

export interface TokenTexts {
  /** Ids of the tokens that name a language, such as `eng_Latn`; empty if the tokenizer has none. */
  readonly languages: ReadonlyMap<string, number>;
  decode(ids: number[], skipSpecial: boolean): string;
  /** The token's text in the vocabulary. An id without one (a padded embedding row) gives `<id>`. */
  idToToken(id: number): string;
}

export class Detokenizer implements TokenTexts {
  readonly languages: ReadonlyMap<string, number>;
  readonly #library: TokenizerLibrary;

  /** Throws checkpoint_invalid. */
  constructor(file: TokenizerFile) {
    this.languages = languageCodes(file);
    try {
      this.#library = openDecoder(file);
    } catch (error) {
      throw unusable(error);
    }
  }

  decode(ids: number[], skipSpecial: boolean): string {
    // The library throws on an empty list.
    return ids.length === 0 ? '' : this.#library.decode(ids, { skip_special_tokens: skipSpecial });
  }

  idToToken(id: number): string {
    return this.#library.id_to_token(id) ?? `<${id}>`;
  }
}

/** The library without normalizer, pre-tokenizer and merges. */
function openDecoder(file: TokenizerFile): TokenizerLibrary {
  const { model } = file;
  const pieces = piecesOf(file);
  const library = new Library(
    {
      ...file,
      normalizer: null,
      pre_tokenizer: null,
      post_processor: null,
      model: {
        type: 'BPE',
        vocab: {},
        merges: [],
        unk_token: Array.isArray(model.vocab) ? pieces[model.unk_id ?? -1]?.[0] : model.unk_token,
        ...('merges' in model && { end_of_word_suffix: model.end_of_word_suffix }),
      },
    },
    CONFIG,
  );
  replaceByteLevelDecoder(library.decoder);
  replaceMetaspaceDecoder(library.decoder);
  const special = new Set(library.special_tokens);
  // The library searches the whole list for each token.
  library.special_tokens.includes = (token) => special.has(token);
  // The library has put the added tokens there already.
  for (const [piece, id] of pieces) library.model.vocab[id] ??= piece;
  return library;
}

/** The library leaves the first space out whatever the decoder says. */
function replaceMetaspaceDecoder(decoder: TokenizerLibrary['decoder']): void {
  if (decoder === null) return;
  for (const each of decoder.decoders ?? []) replaceMetaspaceDecoder(each);
  const { type, prepend_scheme: prepends, replacement = '▁' } = decoder.config ?? {};
  if (type === 'Metaspace' && prepends === 'never')
    decoder.decode_chain = (tokens) => tokens.map((token) => token?.replaceAll(replacement, ' ') ?? '');
}
