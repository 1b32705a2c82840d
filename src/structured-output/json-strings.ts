/**
 * Texts of JSON that a pattern or a length binds, as EBNF: the library's own rules let quotation marks, line ends and
 * control characters into a text.
 */
import { LONG_TEXT, NO_TEXT } from './long-texts.js';
import { automatonOf, isWithin, type Ranges, type State } from './text-automaton.js';

/** Most characters of the rules of a grammar. A schema can ask for much more text than it has itself. */
const MOST_TEXT = 16 << 20;

/** Characters that are counted together. */
const BLOCK = 100;

/** How a grammar is written that has long texts. */
export interface LongTexts {
  /** Whether it counts their characters; otherwise they have no bounds. */
  readonly counts: boolean;
  /** Whether there is one, and whether one has a lower bound that is long. */
  some: boolean;
  least: boolean;
  /** Whether values of two alternatives may share a beginning and then differ. */
  alike: boolean;
}

/** Long texts before a grammar is written. */
export function noLongTexts(): LongTexts {
  return { counts: false, some: false, least: false, alike: false };
}

/** Rules behind those of the library. */
export class Rules {
  readonly letters: Letters;
  readonly long: LongTexts;
  readonly #names = new Map<string, string>();
  readonly #linked: string[] = [];
  #length = 0;

  constructor(long: LongTexts = noLongTexts(), letters: Letters = JSON_LETTERS) {
    this.long = long;
    this.letters = letters;
  }

  /** The name of the rule with this body. */
  add(body: string): string {
    const known = this.#names.get(body);
    if (known !== undefined) return known;
    this.#counted(body);
    const name = `own_${this.#names.size}`;
    this.#names.set(body, name);
    return name;
  }

  /** Names for rules that refer to each other, until `give` gives their bodies. */
  take(count: number): string[] {
    const first = this.#linked.length;
    this.#linked.push(...Array<string>(count).fill(''));
    return Array.from({ length: count }, (_, at) => `own_s${first + at}`);
  }

  give(name: string, body: string): void {
    this.#linked[Number(name.slice('own_s'.length))] = this.#counted(body);
  }

  #counted(body: string): string {
    this.#length += body.length;
    if (this.#length > MOST_TEXT) throw new Error(`its grammar has more than ${MOST_TEXT} characters`);
    return body;
  }

  get text(): string {
    const linked = this.#linked.map((body, at) => `own_s${at} ::= ${body}\n`);
    return [...linked, ...[...this.#names].map(([body, name]) => `${name} ::= ${body}\n`)].join('');
  }
}

export const MARK = '"\\u0022"';
/** Halves of characters are none. */
export const ESCAPE =
  '[\\u0022\\u005c/bfnrt] | "u" ([0-9A-CEFa-cef] [0-9A-Fa-f]{3} | [Dd] [0-7] [0-9A-Fa-f]{2})';
const ASCII = '[\\u0020\\u0021\\u0023-\\u005b\\u005d-\\u007f]';

/** Rules that stand for those of the library or beside them. Its characters are not always those of UTF-8. */
export function stringRules(long: LongTexts) {
  const any = countsAll(long) ? ` | ${NO_TEXT}` : '';
  return {
    basic_escape: ESCAPE,
    basic_plain: [ASCII, ...utf8(0x80, 0xd7ff), ...utf8(0xe000, 0x10ffff)].join(' | ') + any,
    basic_string_sub: `${MARK} | basic_plain basic_string_sub | "\\u005c" basic_escape basic_string_sub`,
    /** The rest of a text of ASCII without escapes. */
    basic_other: `${MARK} | ${ASCII} basic_other`,
  };
}

/** Whether texts without bounds are counted, too: where texts are alike, all other tokens are tried. */
export function countsAll({ counts, alike }: LongTexts): boolean {
  return counts && alike;
}

/** How a text is written: in JSON, or without quotation marks and escapes. */
interface Letters {
  /** Before and after the text. */
  mark: string;
  /** Characters of ASCII that stand for themselves. */
  plain: RegExp;
  escaped: RegExp;
  /** All characters that a text may have, as a class of a pattern. */
  all: string;
}

const JSON_LETTERS: Letters = {
  mark: MARK,
  plain: /[ !#-[\]-\x7f]/,
  escaped: /[\b\t\n\f\r"\\]/,
  all: '[\\b\\t\\n\\f\\r -\\u{10ffff}]',
};

/** Texts between tags have no "<", with which a tag begins. */
export const BARE_LETTERS: Letters = {
  mark: '""',
  plain: /[\t\n -;=-~]/,
  escaped: /(?!)/,
  all: '[\\t\\n -;=-~\\u{80}-\\u{10ffff}]',
};

const MOST_PATTERN = 8_000;

function charactersWithin(ranges: Ranges, { plain, escaped: other }: Letters): string[] {
  const all = Array.from({ length: 0x80 }, (_, code) => String.fromCharCode(code));
  const ascii = all.filter((character) => isWithin(character.charCodeAt(0), ranges));
  const own = ascii.filter((character) => plain.test(character)).join('');
  const escapes = ascii.filter((character) => other.test(character)).map((each) => JSON.stringify(each)[2]!);
  const parts = own === '' ? [] : [`[${spansOf(own)}]`];
  if (escapes.length > 0) parts.push(`"\\u005c" [${spansOf(escapes.join(''))}]`);
  return [...parts, ...ranges.flatMap(([from, to]) => (to < 0x80 ? [] : utf8(Math.max(from, 0x80), to)))];
}

/** Characters of ASCII as the members of a class. The library takes a class of one member for a character. */
function spansOf(characters: string): string {
  const codes = Array.from(characters, (character) => character.charCodeAt(0)).sort(
    (one, other) => one - other,
  );
  const first = codes.filter((code) => !codes.includes(code - 1));
  const last = codes.filter((code) => !codes.includes(code + 1));
  return first.map((code, at) => `${escaped(code)}-${escaped(last[at]!)}`).join('');
}

interface Lengths {
  least: number;
  most: number | undefined;
}

/** A text of any characters. */
export function textOfLength({ least, most }: Lengths, rules: Rules): string {
  const { long } = rules;
  const [tooLong, tooMany] = [least > LONG_TEXT, (most ?? 0) > LONG_TEXT];
  if (!tooLong && !tooMany && !countsAll(long)) return textOfPatterns([], { least, most }, rules);
  long.least ||= tooLong;
  long.some ||= tooLong || tooMany;
  if (long.counts) return countedText({ least, most }, rules);
  const bounds = { least: tooLong ? 0 : least, most: tooMany ? undefined : most };
  return textOfPatterns([], bounds, rules);
}

/** A text of a pattern that may end behind any of its later characters. Its length is counted beside it. */
export function countedPattern(pattern: string, { least, most }: Lengths, rules: Rules): string {
  rules.long.some = true;
  if (rules.long.counts) return countedText({ least, most }, rules);
  return textOfPatterns([pattern], { least: 0, most: undefined }, rules);
}

/** A text of counted characters, most of them by blocks. Behind the last one it may have a byte that no text has. */
function countedText({ least, most }: Lengths, rules: Rules): string {
  const { letters } = rules;
  const [{ next }] = automatonOf(`^${letters.all}$`) as [State];
  const any = next.flatMap(({ ranges }) => charactersWithin(ranges, letters)).join(' | ');
  const character = rules.add(`${any} | ${NO_TEXT}`);
  const characters = (count: number) => Array<string>(count).fill(character).join(' ');
  const block = rules.add(characters(BLOCK));
  const [endless] = rules.take(1) as [string];
  rules.give(endless, `${letters.mark} | ${character} ${endless}`);
  const ends = [rules.add(`${letters.mark} | ${NO_TEXT}`)];
  while (ends.length < BLOCK) ends.push(rules.add(`${letters.mark} | ${character} ${ends.at(-1)}`));
  const within = (count: number): string =>
    ends[count] ?? rules.add(`${block} ${within(count - BLOCK)} | ${ends.at(-1)}`);
  const blocks = Array<string>(Math.floor(least / BLOCK)).fill(block);
  const begin = [letters.mark, ...blocks, characters(least % BLOCK)].join(' ');
  return `${begin} ${most === undefined ? endless : within(most - least)}`;
}

/** A text that matches all patterns and has a length within the bounds. Throws an Error with the reason if none can. */
export function textOfPatterns(patterns: readonly string[], { least, most }: Lengths, rules: Rules): string {
  for (const pattern of patterns) {
    if (pattern.length > MOST_PATTERN)
      throw new Error(`it has ${pattern.length} characters; the limit is ${MOST_PATTERN}`);
    // JavaScript's own parser finds what is no expression at all.
    new RegExp(pattern, 'u');
  }
  const { letters } = rules;
  const all = patterns.map((pattern) => `(?=[^]*(?:${pattern}))`).join('');
  const states = automatonOf(`^${all}${letters.all}{${least},${most ?? ''}}$`);
  const names: string[] = [];
  const bodyOf = ({ ends, next }: State) => {
    const longer = next.flatMap(({ ranges, state }) =>
      charactersWithin(ranges, letters).map((characters) => `${characters} ${names[state]}`),
    );
    // Nothing leads to a state without an end.
    return [...(ends ? [letters.mark] : []), ...longer].join(' | ') || '""';
  };
  // States of lengths are the same in all texts: their rules are shared.
  for (const [at, state] of [...states.entries()].reverse())
    if (state.next.every((each) => names[each.state] !== undefined)) names[at] = rules.add(bodyOf(state));
  const linked = states.map((_, at) => at).filter((at) => names[at] === undefined);
  const own = rules.take(linked.length);
  for (const [index, at] of linked.entries()) names[at] = own[index]!;
  for (const at of linked) rules.give(names[at]!, bodyOf(states[at]!));
  return `${letters.mark} ${names[0]}`;
}

/** Characters in bytes of UTF-8, for which xgrammar takes the members of a class. */
function utf8(from: number, to: number): string[] {
  const parts: string[] = [];
  for (let code = from; code <= to; ) {
    const bytes = [...Buffer.from(String.fromCodePoint(code))];
    const end = Math.min(to, [0, 0, 0x7ff, 0xffff, 0x10ffff][bytes.length]!);
    // The last bytes may have all values.
    let at = bytes.length - 1;
    let size = 1;
    for (; at > 0 && code % (64 * size) === 0 && code + 64 * size - 1 <= end; at -= 1) size *= 64;
    let next = code + size;
    while (next % (64 * size) !== 0 && next + size - 1 <= end) next += size;
    const last = bytes[at]! + (next - code) / size - 1;
    const spans = bytes.map((byte, index) =>
      index < at ? [byte, byte] : index > at ? [0x80, 0xbf] : [byte, last],
    );
    // The library takes a class of one member for a character.
    parts.push(
      spans.map(([low, high]) => `[${escaped(low!)}${low === high ? '' : '-'}${escaped(high!)}]`).join(' '),
    );
    code = next;
  }
  return parts;
}

export function literal(text: string): string {
  return `"${escapedText(text)}"`;
}

export function escapedText(text: string): string {
  return Array.from(text, (character) => escaped(character.codePointAt(0)!)).join('');
}

/** Letters and digits stand for themselves. Other characters are numbers, whose digits are always four or eight. */
function escaped(code: number): string {
  const character = String.fromCodePoint(code);
  if (/[A-Za-z0-9 _.,:]/.test(character)) return character;
  const digits = code.toString(16);
  return code <= 0xffff ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`;
}

/** A name as the library puts it into its EBNF: it writes names as they are. */
export function nameText(name: unknown): string {
  return escapedText(JSON.stringify(name).slice(1, -1));
}

/** A value as the grammars write it: on one line, with ", " and ": " between its parts. */
export function jsonText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonText).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, own]) => `${JSON.stringify(name)}: ${jsonText(own)}`);
  return `{${members.join(', ')}}`;
}
