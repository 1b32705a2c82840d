/** Characters of JSON's strings as EBNF. */
import {
  type CodeRange,
  characters,
  charactersBut,
  choice,
  LAST_ASCII,
  LAST_CODE,
  literal,
  type Rules,
  without,
} from './ebnf.js';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const FIRST_PLAIN = 0x20;
/** Half of a character each, which UTF-8 does not have. */
const SURROGATES: CodeRange = [0xd800, 0xdfff];
/** All characters that are not of ASCII. */
const BEYOND = without([[LAST_ASCII + 1, LAST_CODE]], [SURROGATES]);
/** Most of them that a class may name. */
const MOST_BEYOND = 64;
/** Quotation marks around a string. */
export const MARK = '"\\u0022"';
/** Characters that do not stand for themselves. */
export const NOT_PLAIN: readonly CodeRange[] = [
  [0, FIRST_PLAIN - 1],
  [QUOTE, QUOTE],
  [BACKSLASH, BACKSLASH],
];

/** A character that stands for itself. */
export const PLAIN = charactersBut(NOT_PLAIN);
const HEX = '[0-9a-fA-F]';
/** What stands for one character of its own, without halves of characters. */
const NUMBERED = `"u" ([0-9a-cA-CefEF] ${HEX}{3,3} | [dD] [0-7] ${HEX}{2,2})`;

const ESCAPE = `"\\u005c" ([\\u0022\\u005c\\u002fbfnrt] | ${NUMBERED})`;

/** A rule for the rest of a string, with its end. Recursion is what xgrammar follows fastest. */
export function stringRest(rules: Rules): string {
  const rest = rules.reserve();
  rules.define(rest, `${MARK} | ${PLAIN} ${rest} | ${ESCAPE} ${rest}`);
  return rest;
}

/** The rest of a string without escapes. */
export function plainRest(rules: Rules): string {
  const rest = rules.reserve();
  rules.define(rest, `${MARK} | ${PLAIN} ${rest}`);
  return rest;
}

/** The rest of a string of bounded length: a rule for each character. xgrammar follows repetitions more slowly. */
export function boundedRest(least: number, most: number | null, rules: Rules): string {
  let rest = most === null ? stringRest(rules) : rules.add(MARK);
  for (let at = (most ?? least) - 1; at >= 0; at -= 1) {
    const end = at >= least ? `${MARK} | ` : '';
    rest = rules.add(`${end}${PLAIN} ${rest} | ${ESCAPE} ${rest}`);
  }
  return rest;
}

/** One character, which may be written in any way. */
export const CHARACTER = `(${PLAIN} | ${ESCAPE})`;

const EVERY: readonly CodeRange[] = [[0, LAST_CODE]];

/** One of the characters, as a string holds it. Throws an Error with the reason if a grammar cannot name them. */
export function stringCharacter(ranges: readonly CodeRange[]): string {
  const [[first, last]] = ranges.length === 1 ? (ranges as [CodeRange]) : [[0, LAST_CODE]];
  // A pattern may have thousands of different letters.
  if (first === last && first > LAST_ASCII && !within(SURROGATES, first))
    return literal(String.fromCodePoint(first));
  const ascii = without(ranges, [...NOT_PLAIN, [LAST_ASCII + 1, LAST_CODE]]);
  const beyond = without(ranges, [[0, LAST_ASCII], SURROGATES]);
  const parts: string[] = [];
  if (without(BEYOND, beyond).length === 0) {
    parts.push(charactersBut(without([[0, LAST_ASCII]], ascii)));
  } else {
    if (ascii.length > 0) parts.push(characters(ascii));
    parts.push(...singly(beyond));
  }
  for (const code of [8, 9, 10, 12, 13, QUOTE, BACKSLASH]) {
    if (!ranges.some((range) => within(range, code))) continue;
    parts.push(literal(JSON.stringify(String.fromCodePoint(code)).slice(1, -1)));
  }
  if (parts.length === 0) throw new Error('it needs a character that no JSON has');
  return choice(parts);
}

function within([from, to]: CodeRange, code: number): boolean {
  return from <= code && code <= to;
}

function singly(ranges: readonly CodeRange[]): string[] {
  const count = ranges.reduce((sum, [from, to]) => sum + to - from + 1, 0);
  if (count > MOST_BEYOND)
    throw new Error(
      `at most ${MOST_BEYOND} characters beyond ASCII can be named, or all of them; found ${count}`,
    );
  return ranges.flatMap(([from, to]) =>
    Array.from({ length: to - from + 1 }, (_, at) => literal(String.fromCodePoint(from + at))),
  );
}

export function inverted(ranges: readonly CodeRange[]): CodeRange[] {
  return without(EVERY, ranges);
}
