/**
 * Puts marks into the texts of a conversation. The marks stay there while a template renders and rewrites the texts,
 * so that only control tokens of the template itself have none.
 */
import { escapePattern } from '../escape-pattern.js';
import { Dict, type Value } from '../jinja/values.js';

/** Every character but white space, which templates strip and split at. */
export const CHARACTERS = /\S+/gu;

/** Brackets and the like. Templates also look for names such as `/no_think`, which have none of them. */
const SIGN = String.raw`[^\p{L}\p{N}\p{M}\s_/.,:!?'-]`;

/** Finds the signs of control tokens, and of tokens without a sign the first letter, in any case. */
export function signsOf(tokens: Iterable<string>): RegExp {
  const sign = new RegExp(SIGN, 'u');
  const letters = [...tokens].filter((token) => !sign.test(token)).map(([first]) => first!);
  const cases = letters.flatMap((letter) => [letter, letter.toLowerCase(), letter.toUpperCase()]);
  return new RegExp(`(?:${[SIGN, ...cases.map(escapePattern)].join('|')})+`, 'gu');
}

/** Finds the texts, in a group, the longest first: one may be the beginning of another. */
export function wholeTexts(texts: readonly string[]): RegExp | undefined {
  const sorted = texts.toSorted((a, b) => b.length - a.length).map(escapePattern);
  return sorted.length === 0 ? undefined : new RegExp(`(${sorted.join('|')})`, 'u');
}

/** Puts marks before and after each character that `at` finds. */
export function markedText(text: string, at: RegExp, mark: string): string {
  return text.replace(at, (characters) => mark + [...characters].join(mark) + mark);
}

/** Rewrites what is between the texts that `kept` finds. Tokens among them stand there twice. */
export function between(
  text: string,
  kept: RegExp | undefined,
  tokens: ReadonlySet<string>,
  rewrite: (text: string) => string,
): string {
  if (kept === undefined) return rewrite(text);
  const whole = (part: string) => (tokens.has(part) ? part + part : part);
  return text
    .split(kept)
    .map((part, at) => (at % 2 === 0 ? rewrite(part) : whole(part)))
    .join('');
}

/**
 * The text of `plain`, with the marks that `marked` has, and with marks in tokens that stand in `marked` twice: those
 * were in the texts of users, others are the template's. Undefined if the texts differ in anything else.
 */
export function undoubled(
  marked: string,
  plain: string,
  mark: string,
  tokens: ReadonlySet<string>,
): string | undefined {
  const parts = tokens.size === 0 ? [marked] : marked.split(wholeTexts([...tokens])!);
  let text = '';
  let at = 0;
  for (let i = 0; i < parts.length; i += 1) {
    const part = parts[i]!;
    const own = part.replaceAll(mark, '');
    if (i % 2 === 0) {
      if (!plain.startsWith(own, at)) return undefined;
      text += part;
      at += own.length;
      continue;
    }
    let found = 1;
    for (; parts[i + 1] === '' && parts[i + 2] === part; i += 2) found += 1;
    let expected = 0;
    while (expected < found && plain.startsWith(part, at + expected * part.length)) expected += 1;
    // A template that splits at the first of two leaves the second. Where one of its own stands beside one of a user,
    // nobody knows which is which.
    if (expected > 0 && found !== expected && found !== 2 * expected) return undefined;
    text += (found === expected ? part : markedText(part, CHARACTERS, mark)).repeat(expected);
    at += expected * part.length;
  }
  return at === plain.length ? text : undefined;
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

const BLOCK = /\{[{%][\s\S]*?[}%]\}/g;
const QUOTED = /'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"/gs;

/** What a template may look for in a text: words in quotes, without signs of control tokens. */
export function literalsIn(template: string): string[] {
  const quoted = [...template.matchAll(BLOCK)].flatMap(([block]) =>
    [...block.matchAll(QUOTED)].map(([, single, double]) => single ?? double!),
  );
  const sign = new RegExp(SIGN, 'u');
  return [...new Set(quoted)].filter((text) => /[\p{L}\p{N}]{2}/u.test(text) && !sign.test(text));
}

const WORD = String.raw`[\p{L}\p{N}_]`;
const PARTS = [new RegExp(`${WORD}+`, 'gu'), new RegExp(`${WORD}.*${WORD}`, 'gsu')];

/** The words of tokens, and what their brackets enclose, such as `im_end` of `<|im_end|>`. */
export function wordsOf(tokens: Iterable<string>): Set<string> {
  return new Set([...tokens].flatMap((token) => PARTS.flatMap((part) => token.match(part) ?? [])));
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
