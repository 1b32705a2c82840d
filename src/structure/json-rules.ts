/** Values of JSON as EBNF: on one line, with ", " and ": " between their parts. */
import { charactersBut, choice, literal, type Rules } from './ebnf.js';
import { INTEGER, NUMBER } from './number-rules.js';
import { MARK, NOT_PLAIN, PLAIN, plainRest, stringRest } from './string-rules.js';

export const COMMA = '", "';
export const COLON = '": "';

/** Rules of values that nothing binds; one set for a grammar. */
export class JsonRules {
  readonly rules: Rules;
  #any: string | undefined;
  #string: string | undefined;

  constructor(rules: Rules) {
    this.rules = rules;
  }

  readonly integer = INTEGER;
  readonly number = NUMBER;
  readonly boolean = '("true" | "false")';
  readonly null = '"null"';

  get string(): string {
    this.#string ??= this.rules.add(`${MARK} ${stringRest(this.rules)}`);
    return this.#string;
  }

  get any(): string {
    if (this.#any !== undefined) return this.#any;
    const any = this.rules.reserve();
    this.#any = any;
    const object = this.rules.add(objectOf(this.string, any));
    const array = this.rules.add(`"[" (${any} (${COMMA} ${any})*)? "]"`);
    this.rules.define(any, choice([this.string, this.number, this.boolean, this.null, object, array]));
    return any;
  }
}

function objectOf(name: string, value: string): string {
  const member = `${name} ${COLON} ${value}`;
  return `"{" (${member} (${COMMA} ${member})*)? "}"`;
}

/** A value as the grammars write it. */
export function jsonText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonText).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, own]) => `${JSON.stringify(name)}: ${jsonText(own)}`);
  return `{${members.join(', ')}}`;
}

/** A name in quotation marks that is none of `names`. It has no escapes, so that no name can be written otherwise. */
export function otherName(names: readonly string[], rules: Rules): string {
  const rest = plainRest(rules);
  /** `own` are the names that begin with the same `length` characters, which are written already. */
  const nodeOf = (own: readonly string[], length: number): string => {
    const whole = own.some((name) => name.length === length);
    const longer = own.filter((name) => name.length > length);
    if (longer.length === 0) return whole ? `${PLAIN} ${rest}` : rest;
    const byNext = new Map<string, string[]>();
    for (const name of longer) {
      const those = byNext.get(name[length]!);
      if (those === undefined) byNext.set(name[length]!, [name]);
      else those.push(name);
    }
    const branches = [...byNext].map(
      ([next, those]) => `${literal(next)} ${rules.add(nodeOf(those, length + 1))}`,
    );
    if (!whole) branches.push(MARK);
    const codes = [...byNext.keys()].map((next) => [next.charCodeAt(0), next.charCodeAt(0)] as const);
    return choice([...branches, `${charactersBut([...NOT_PLAIN, ...codes])} ${rest}`]);
  };
  return `${MARK} ${rules.add(nodeOf(names.filter(isPlain), 0))}`;
}

/** Whether JSON writes the name without escapes. */
function isPlain(name: string): boolean {
  return JSON.stringify(name) === `"${name}"`;
}
