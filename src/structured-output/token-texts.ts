/** The bytes of every token, in the byte-level alphabet that xgrammar reads: one character for each byte. */

import { tokenText } from '../text/chat/shown-text.js';
import type { TokenTexts } from '../text/detokenizer.js';
import { BYTE_CHARACTERS, byteLevelBytes, byteOf } from '../text/token-name.js';
import type { TokenizerFile } from '../text/tokenizing/tokenizer-file.js';
import { piecesOf } from '../text/tokenizing/tokenizer-file.js';
import { CONTROL_MARK } from './grammar.js';

const encoder = new TextEncoder();

export interface VocabularyOptions {
  file: TokenizerFile;
  texts: Pick<TokenTexts, 'decode'>;
  vocabSize: number;
  /** The control tokens that a grammar may name: their texts by id. */
  controls: ReadonlyMap<number, string>;
}

/** (vocabSize). A token without a text, which no grammar allows, is empty: special tokens, and padded rows. */
export function grammarVocabulary({ file, texts, vocabSize, controls }: VocabularyOptions): string[] {
  const vocabulary = new Array<string>(vocabSize).fill('');
  const text = tokenText(texts);
  const plain = isByteLevel(file.decoder)
    ? (piece: string) => (byteLevelBytes(piece) === undefined ? inCharacters(encoder.encode(piece)) : piece)
    : (piece: string, id: number) => {
        const byte = byteOf(piece);
        return byte === undefined ? inCharacters(encoder.encode(text(id))) : BYTE_CHARACTERS[byte]!;
      };
  for (const [piece, id] of piecesOf(file)) vocabulary[id] = plain(piece, id);
  for (const { id, content, special } of file.added_tokens ?? []) {
    vocabulary[id] = special ? '' : inCharacters(encoder.encode(content));
  }
  // A token that begins like a control token would be taken for the beginning of one.
  const mark = inCharacters(encoder.encode(CONTROL_MARK));
  for (const [id, token] of vocabulary.entries()) if (token.includes(mark)) vocabulary[id] = '';
  for (const [id, control] of controls) vocabulary[id] = inCharacters(encoder.encode(CONTROL_MARK + control));
  return vocabulary;
}

function isByteLevel(decoder: unknown): boolean {
  if (typeof decoder !== 'object' || decoder === null) return false;
  const { type, decoders } = decoder as { type?: unknown; decoders?: unknown };
  return type === 'ByteLevel' || (Array.isArray(decoders) && decoders.some(isByteLevel));
}

function inCharacters(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => BYTE_CHARACTERS[byte]).join('');
}
