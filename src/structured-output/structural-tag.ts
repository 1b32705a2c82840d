/** Grammars as the structural tags that the library compiles. */
import type { GrammarFormat, StructuralTagFormat } from '@mlc-ai/web-xgrammar';
import { overlap } from '../text/stop-strings.js';
import { CONTROL_MARK, type Grammar } from './grammar.js';
import { INTEGER, NUMBER } from './json-numbers.js';
import {
  BARE_LETTERS,
  countsAll,
  escapedText,
  type LongTexts,
  literal,
  MARK,
  Rules,
  stringRules,
} from './json-strings.js';
import { NO_TEXT } from './long-texts.js';
import { CONTAINED_UNIT, readSchema } from './schema.js';

/** Writes a JSON schema as EBNF. */
export type SchemaWriter = (schema: string) => Promise<string>;

/** Throws an Error with the reason where no grammar can follow a schema. */
export async function structuralTag(
  grammar: Grammar,
  write: SchemaWriter,
  long: LongTexts,
): Promise<StructuralTagFormat> {
  switch (grammar.kind) {
    case 'text':
      return ebnf(`root ::= ${literal(grammar.text)}\n`);
    case 'until':
      return ebnf(textUntil(grammar.end, { not: grammar.not ?? '', any: anyText(long) }));
    case 'bare':
      return ebnf(bareText(grammar.schema, grammar.end, long));
    case 'pairs':
      return ebnf(pairsOf(grammar, anyText(long)));
    case 'json':
      return ebnf(await schemaEbnf(grammar, write, long));
    default: {
      const elements = await Promise.all(grammar.parts.map((part) => structuralTag(part, write, long)));
      return { type: grammar.kind === 'choice' ? 'or' : 'sequence', elements };
    }
  }
}

function ebnf(grammar: string): GrammarFormat {
  return { type: 'grammar', grammar };
}

/** A name that is given by the number of its body, as the library writes the pattern `N12`. */
const NAMES = /"\\"""N((?:" "\d)+)""\\""/g;

/** A list of an item, another one, the first again, and the bounds of how many others there are. */
const CONTAINS = /"\[" "" \((\w+) ", " (\w+) ", " \w+ ", " (\w+)\) "" "\]"/g;
const COUNT = /^(\w+) ::= "-(\d+)"$/gm;

/** The schema as EBNF: rules of the library, and ours. */
async function schemaEbnf(
  { schema, closed }: Grammar & { kind: 'json' },
  write: SchemaWriter,
  long: LongTexts,
): Promise<string> {
  const rules = new Rules(long);
  const read = readSchema(JSON.parse(schema), { closed });
  long.alike ||= read.alike;
  // In place of the library's.
  const replacing: Record<string, string> = {
    ...stringRules(long),
    basic_integer: INTEGER,
    basic_number: NUMBER,
  };
  const bodies = read.bodies(rules);
  const other = rules.add(otherName(read.names));
  const mended = (body: string) =>
    body
      .replace(CONTAINS, (whole, any: string, own: string, last: string) => {
        const count = counts.get(last);
        if (count === undefined) return whole;
        const [least, most] = [count % CONTAINED_UNIT, Math.floor(count / CONTAINED_UNIT)];
        const more = `((", " ${any})* ", " ${own}){${least - 1},${Math.max(most, least) - 1}}`;
        return `"[" (${any} ", ")* ${own} ${Math.max(most, least) === 1 ? '' : more} (", " ${any})* "]"`;
      })
      .replace(NAMES, (_, at: string) => rules.add(bodies[Number(at.replace(/\D/g, ''))]!))
      // Texts of JSON have their quotation marks inside of those of EBNF.
      .replace(/"(\d+)"/g, (_, at: string) => rules.add(bodies[Number(at)]!))
      // Names behind and before those that an object names.
      .replace(/(^\(", "|\|) basic_string ": "/g, `$1 ${other} ": "`);
  const ruleOf = (_line: string, name: string, body: string) => {
    if (replacing[name] !== undefined) return '';
    return `${name} ::= ${name.startsWith('basic_') ? body : mended(body)}`;
  };
  const written = await write(JSON.stringify(read.schema));
  const counts = new Map([...written.matchAll(COUNT)].map(([, name, least]) => [name!, Number(least)]));
  const text = written.replace(/^(\w+) ::= (.*)$/gm, ruleOf);
  const own = Object.entries(replacing).map(([name, body]) => `${name} ::= ${body}\n`);
  return text + own.join('') + rules.text;
}

/** Characters of ASCII that JSON writes without escapes. */
const PLAIN = Array.from({ length: 95 }, (_, at) => String.fromCharCode(0x20 + at)).filter(
  (letter) => letter !== '"' && letter !== '\\',
);

/** A name in quotation marks that is none of `names`: of ASCII and without escapes, so that it has one spelling. */
function otherName(names: readonly string[]): string {
  const restOf = (own: readonly string[], at: number): string => {
    const next = new Set(own.map((name) => name[at] ?? ''));
    const others = PLAIN.filter((letter) => !next.has(letter)).join('');
    const branches = PLAIN.filter((letter) => next.has(letter)).map((letter) => {
      const longer = own.filter((name) => name[at] === letter);
      return `${literal(letter)} (${restOf(longer, at + 1)})`;
    });
    return [...branches, ...(next.has('') ? [] : [MARK]), `[${escapedText(others)}] basic_other`].join(' | ');
  };
  return `${MARK} (${restOf(names, 0)})`;
}

/** Characters that no free text has: control tokens begin with one of them. */
const NEVER = '\\u0000-\\u0008';

interface Until {
  /** First rule. */
  name?: string;
  /** What follows `end`. */
  next?: string;
  not?: string;
  /** What else stands for a character. */
  any?: string;
}

function anyText(long: LongTexts): string {
  return countsAll(long) ? ` | ${NO_TEXT}` : '';
}

/**
 * Any text up to `end`, and `end`. Each rule stands for a number of characters of `end` that were just written. A
 * control token needs one rule, since no other text has its mark.
 */
function textUntil(end: string, { name = 'root', next = '""', not = '', any = '' }: Until = {}): string {
  const later = not === '' ? name : `${name}_0`;
  if (end.startsWith(CONTROL_MARK)) {
    const rule = `${later} ::= ([^${NEVER}]${any})* ${literal(end)} ${next}\n`;
    if (not === '') return rule;
    return `${name} ::= ${literal(end)} ${next} | [^${NEVER}${escapedText(not)}] ${later}\n${rule}`;
  }
  const own = [...new Set(end)];
  const ruleOf = (matched: number) =>
    matched === 0 ? later : matched === end.length ? next : `${name}_${matched}`;
  const alternatives = (matched: number, others: string) => {
    const begun = end.slice(0, matched);
    const following = own
      .filter((character) => !others.includes(character) || end.startsWith(character))
      .map((character) => `${literal(character)} ${ruleOf(overlap(begun + character, end))}`);
    return [...following, `([^${NEVER}${escapedText(own.join('') + others)}]${any}) ${later}`].join(' | ');
  };
  const rules = Array.from(end, (_, matched) => `${ruleOf(matched)} ::= ${alternatives(matched, '')}\n`);
  if (not !== '') rules.unshift(`${name} ::= ${alternatives(0, not)}\n`);
  return rules.join('');
}

function bareText(schema: string, end: string, long: LongTexts): string {
  const rules = new Rules(long, BARE_LETTERS);
  const [body] = readSchema(JSON.parse(schema), { closed: false }).bodies(rules);
  return `root ::= (${body}) ${literal(end)}\n${rules.text}`;
}

function pairsOf({ begin, middle, end }: Grammar & { kind: 'pairs' }, any: string): string {
  const root = `root ::= "" | ${literal(begin)} key\n`;
  return (
    root +
    textUntil(middle, { name: 'key', next: 'value', any }) +
    textUntil(end, { name: 'value', next: 'root', any })
  );
}
