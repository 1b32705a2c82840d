/**
 * Puts marks into the texts of a conversation. The marks stay there while a template renders and rewrites the texts,
 * so that only control tokens of the template itself have none.
 */
import { Dict, type Value } from '../jinja/values.js';

/** What is marked of a text. */
export interface Marking {
  /** Finds the characters that have marks before and after them. */
  marked: RegExp;
  /** Finds texts that are left as they are, in a group. */
  kept: RegExp | undefined;
}

/** Every character but white space, which templates strip and split at. */
export const CHARACTERS = /\S+/gu;

/** Brackets and the like. Templates also look for names such as `/no_think`, which have none of them. */
const SIGN = String.raw`[^\p{L}\p{N}\p{M}\s_/.,:!?'-]`;

/** Finds the signs of control tokens, and of tokens without a sign the first letter, in any case. */
export function signsOf(tokens: Iterable<string>): RegExp {
  const sign = new RegExp(SIGN, 'u');
  const letters = [...tokens].filter((token) => !sign.test(token)).map(([first]) => first!);
  const cases = letters.flatMap((letter) => [letter, letter.toLowerCase(), letter.toUpperCase()]);
  return new RegExp(`(?:${[SIGN, ...cases.map(escaped)].join('|')})+`, 'gu');
}

/** Finds the tokens, the longest first: one may be the beginning of another. */
export function wholeTokens(tokens: Iterable<string>): RegExp | undefined {
  const sorted = [...tokens].sort((a, b) => b.length - a.length).map(escaped);
  return sorted.length === 0 ? undefined : new RegExp(`(${sorted.join('|')})`, 'u');
}

export function markedText(text: string, mark: string, { marked, kept }: Marking): string {
  const parts = kept === undefined ? [text] : text.split(kept);
  const withMarks = (part: string) =>
    part.replace(marked, (characters) => mark + [...characters].join(mark) + mark);
  return parts.map((part, at) => (at % 2 === 0 ? withMarks(part) : part)).join('');
}

export interface Rewrite {
  text: (text: string) => string;
  key: (key: string) => string;
}

/** Rewrites the texts and the keys of a value of JSON. */
export function rewritten(value: Value, rewrite: Rewrite): Value {
  if (typeof value === 'string') return rewrite.text(value);
  if (Array.isArray(value)) return value.map((each) => rewritten(each, rewrite));
  if (!(value instanceof Dict)) return value;
  return new Dict(
    value.entries().map(([key, each]) => [rewrite.key(key as string), rewritten(each, rewrite)]),
  );
}

const NAME = /\.\s*(\w+)|'([\w-]*)'|"([\w-]*)"/g;

/** Names that a template may compare a text or a key with: what it has in quotes or behind a dot. */
export function namesIn(template: string): Set<string> {
  return new Set([...template.matchAll(NAME)].flatMap((match) => match.slice(1).filter((name) => name)));
}

/** The words of tokens, such as `im_end` of `<|im_end|>`. */
export function wordsOf(tokens: Iterable<string>): Set<string> {
  return new Set([...tokens].flatMap((token) => token.match(/[\p{L}\p{N}_]+/gu) ?? []));
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}

const FIRST_MARK = 0xe000;
const LAST_MARK = 0xf8ff;

/** A private character that is in none of the texts. Reads each of them once, however many such characters it has. */
export function unusedMark(texts: readonly string[]): string | undefined {
  const used = new Uint8Array(LAST_MARK - FIRST_MARK + 1);
  for (const text of texts) {
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code >= FIRST_MARK && code <= LAST_MARK) used[code - FIRST_MARK] = 1;
    }
  }
  const free = used.indexOf(0);
  return free < 0 ? undefined : String.fromCharCode(FIRST_MARK + free);
}
