import { isUtf8 } from 'node:buffer';
import { tokenText } from './chat/shown-text.js';
import type { TokenTexts } from './detokenizer.js';

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

/** As chats keep it: by its text, or as completions name it where it is a part of a character. */
export function shownToken(texts: Pick<TokenTexts, 'decode' | 'idToToken'>): (id: number) => string {
  const [textOf, nameOf] = [tokenText(texts), tokenName(texts)];
  return (id) => {
    const text = textOf(id);
    return text.includes('\ufffd') ? nameOf(id) : text;
  };
}

const PART = /^bytes:(?=.*\\x)((?:\\x[\da-f]{2}|[ -[\]-~])+)$/;

/** The bytes of a token by its name. Null for a part of a character whose bytes the name has not. */
export function bytesOfName(name: string): number[] | null {
  const part = PART.exec(name)?.[1];
  if (part === undefined) return name.includes('\ufffd') ? null : [...Buffer.from(name)];
  return (part.match(/\\x..|./g) ?? []).map((each) =>
    each.length > 1 ? Number.parseInt(each.slice(2), 16) : each.charCodeAt(0),
  );
}

/** Printable characters of ASCII stand for themselves. */
function shown(byte: number): string {
  const character = String.fromCharCode(byte);
  return /[ -[\]-~]/.test(character) ? character : `\\x${byte.toString(16).padStart(2, '0')}`;
}

const BYTE_TOKEN = /^<0x([0-9A-F]{2})>$/;

/** The characters of GPT-2's byte-level vocabularies, by byte. */
export const BYTE_CHARACTERS: readonly string[] = byteCharacters();
const BYTES = new Map(BYTE_CHARACTERS.map((character, byte) => [character, byte]));

/** Of a token that stands for one byte, such as `<0x0A>`. Undefined for others. */
export function byteOf(piece: string): number | undefined {
  const digits = BYTE_TOKEN.exec(piece)?.[1];
  return digits === undefined ? undefined : Number.parseInt(digits, 16);
}

/** Of a token of a byte-level vocabulary. Undefined where a character of it stands for no byte. */
export function byteLevelBytes(piece: string): number[] | undefined {
  const bytes = Array.from(piece, (character) => BYTES.get(character));
  return bytes.every((byte) => byte !== undefined) ? bytes : undefined;
}

/** Printable bytes stand for themselves, and the others for characters from U+0100 on. */
function byteCharacters(): string[] {
  const printable = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let others = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : others++));
}
