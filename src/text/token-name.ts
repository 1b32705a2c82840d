import { isUtf8 } from 'node:buffer';
import { tokenText } from './chat/token-text.js';
import type { TokenTexts } from './detokenizer.js';
import { byteLevelBytes, byteOf } from './token-bytes.js';

/**
 * The token as completions name it: by its text with the space before a word, and as `bytes:\xe2\x80` where it is no
 * whole character. A token without a text has the name that the vocabulary gives it.
 */
export function tokenName(texts: Pick<TokenTexts, 'decode' | 'idToToken'>): (id: number) => string {
  const textOf = tokenText(texts);
  return (id) => {
    const text = textOf(id);
    if (text !== '' && !text.includes('\ufffd')) return text;
    const piece = texts.idToToken(id);
    if (text === '') return piece;
    const byte = byteOf(piece);
    const bytes = byte === undefined ? byteLevelBytes(piece) : [byte];
    return bytes === undefined || isUtf8(Uint8Array.from(bytes))
      ? text
      : `bytes:${bytes.map(shown).join('')}`;
  };
}

/** Printable characters of ASCII stand for themselves. */
function shown(byte: number): string {
  const character = String.fromCharCode(byte);
  return /[ -[\]-~]/.test(character) ? character : `\\x${byte.toString(16).padStart(2, '0')}`;
}
