/**
 * Arguments of calls in forms that write them as pairs of a key and a value. A value that is a text stands without
 * quotation marks; others are JSON.
 */
import type { PairMarks } from '../text/chat/call-forms.js';
import { isSchema, type Schema } from './alternatives.js';
import { choice, type Grammar, NOTHING, sequence, text } from './grammar.js';
import { namedSchema } from './references.js';
import { binding, KEYWORDS, TEXT_KEYWORDS } from './schema-keywords.js';
import { STRING_FORMATS } from './string-formats.js';

interface Pairs {
  schema: string;
  closed: boolean;
  marks: PairMarks;
  /** A text of the template with its control tokens marked. */
  marked: (text: string) => string;
}

const NO_OBJECT = 'they are no object with named properties';

/** Throws an Error with the reason where the form cannot write the arguments. */
export function pairsGrammar({ schema, closed, marks, marked }: Pairs): Grammar {
  const root = JSON.parse(schema) as Schema;
  const writer = new PairsWriter(root, closed, marks, marked);
  const all = objects(root, root, new Set());
  if (all.length === 0) throw new Error(NO_OBJECT);
  return choice(all.map((each) => writer.object(each)));
}

/** The objects that the arguments may be, each of them once. */
function objects(schema: unknown, root: Schema, seen: Set<Schema>): Schema[] {
  if (!isSchema(schema)) throw new Error(NO_OBJECT);
  if (seen.has(schema)) return [];
  seen.add(schema);
  const { $ref, anyOf, oneOf, allOf, enum: values, const: only } = schema;
  if ($ref !== undefined) return objects(namedSchema($ref, root), root, seen);
  const choices = anyOf ?? oneOf ?? (Array.isArray(allOf) && allOf.length === 1 ? allOf : undefined);
  if (Array.isArray(choices)) return choices.flatMap((each) => objects(each, root, seen));
  if (allOf === undefined && values === undefined && only === undefined) return [schema];
  throw new Error(NO_OBJECT);
}

class PairsWriter {
  readonly #root: Schema;
  readonly #closed: boolean;
  readonly #marks: PairMarks;
  readonly #marked: (text: string) => string;
  /** The mark behind a value, and what stands behind the mark. */
  readonly #end: string;
  readonly #behind: string;

  constructor(root: Schema, closed: boolean, marks: PairMarks, marked: (text: string) => string) {
    this.#root = root;
    this.#closed = closed;
    this.#marks = marks;
    this.#marked = marked;
    this.#end = marked(marks.valueEnd.trimEnd());
    this.#behind = marks.valueEnd.slice(marks.valueEnd.trimEnd().length);
  }

  object(schema: Schema): Grammar {
    const { properties, required = [], additionalProperties: more, type: _, ...others } = binding(schema);
    const [other] = Object.keys(others);
    if (other !== undefined) throw new Error(`a grammar of pairs cannot follow "${other}"`);
    const named = isSchema(properties) ? Object.entries(properties) : [];
    const must = new Set([required].flat());
    const unnamed = [...must].find((name) => !Object.hasOwn(Object(properties), String(name)));
    if (unnamed !== undefined) throw new Error(`${JSON.stringify(unnamed)} is not among the properties`);
    const { keyBegin, keyEnd, valueBegin } = this.#marks;
    if (named.length === 0 && (more ?? (properties === undefined || !this.#closed)) === true) {
      const [begin, middle] = [this.#marked(keyBegin), this.#marked(keyEnd + valueBegin)];
      return { kind: 'pairs', begin, middle, end: this.#end + this.#behind };
    }
    const pairs = named.map(([name, schema]) => {
      if (!isSchema(schema) && schema !== true) throw new Error(`${JSON.stringify(name)} has no schema`);
      if (/[<>\n]/.test(name))
        throw new Error(`the name ${JSON.stringify(name)} has "<", ">" or a line break`);
      const head = text(this.#marked(keyBegin + name + keyEnd + valueBegin));
      const pair = sequence(head, this.#value(schema), text(this.#behind));
      return must.has(name) ? pair : choice([pair, NOTHING]);
    });
    return pairs.length === 0 ? NOTHING : sequence(...pairs);
  }

  /** A value, and the mark behind it. */
  #value(schema: unknown): Grammar {
    const { texts, others } = this.#split(schema, new Set());
    // Of values that are no texts, a text has to differ in its first character.
    const first = others.flatMap((other) => FIRST[String(other.type)] ?? Object.values(FIRST)).join('');
    const free = texts.map((each): Grammar => {
      if (each.kind === 'text') return text(each.text + this.#end);
      const end = this.#end;
      if (each.kind === 'bound') return { kind: 'bare', schema: each.schema, end };
      return { kind: 'until', end, ...(first !== '' && { not: ` \t\n${first}` }) };
    });
    const json = others.map((other) => {
      const own = JSON.stringify({ ...other, $defs: this.#root.$defs, definitions: this.#root.definitions });
      return sequence({ kind: 'json', schema: own, closed: this.#closed }, text(this.#end));
    });
    return choice([...free, ...json]);
  }

  /** A schema that was seen adds nothing. */
  #split(schema: unknown, seen: Set<Schema>): Split {
    const parts: Split = { texts: [], others: [] };
    if (!isSchema(schema)) return { ...parts, texts: [{ kind: 'any' }] };
    if (seen.has(schema)) return parts;
    seen.add(schema);
    const { $ref, const: only, enum: values, anyOf, oneOf, allOf, nullable, ...own } = schema;
    const either = (all: readonly unknown[]) => {
      const split = all.map((each) => this.#split(each, seen));
      return { texts: split.flatMap(({ texts }) => texts), others: split.flatMap(({ others }) => others) };
    };
    if (nullable === true) return either([{ ...schema, nullable: false }, { type: 'null' }]);
    if ($ref !== undefined) return either([namedSchema($ref, this.#root)]);
    const constants = only === undefined ? values : [only];
    if (Array.isArray(constants)) {
      const others = constants.filter((each) => typeof each !== 'string');
      if (others.length > 0) parts.others.push({ enum: others });
      const texts = constants.filter((each) => typeof each === 'string');
      return { ...parts, texts: texts.map((each) => ({ kind: 'text', text: each })) };
    }
    const choices = anyOf ?? oneOf ?? (Array.isArray(allOf) && allOf.length === 1 ? allOf : undefined);
    if (Array.isArray(choices)) return either(choices);
    const merges = [allOf, own.not, own.if].some((each) => each !== undefined);
    if (merges) return { ...parts, others: [schema] };
    return this.#typed(own);
  }

  #typed(schema: Schema): Split {
    const parts: Split = { texts: [], others: [] };
    const bound = TEXT_KEYWORDS.filter((keyword) => schema[keyword] !== undefined);
    const implied = IMPLIED.find((type) => KEYWORDS[type]!.some((each) => schema[each] !== undefined));
    const own = implied ?? (bound.length > 0 ? 'string' : undefined);
    const types = schema.type === undefined ? [own ?? []].flat() : [schema.type].flat();
    if (types.length === 0) parts.texts.push({ kind: 'any' });
    for (const type of types) {
      if (type !== 'string') {
        const rest = Object.entries(schema).filter(([keyword]) => !TEXT_KEYWORDS.includes(keyword));
        parts.others.push({ ...Object.fromEntries(rest), type });
      } else if (bound.every((keyword) => keyword === 'format' && !STRING_FORMATS.has(schema.format)))
        parts.texts.push({ kind: 'any' });
      else {
        const own = Object.fromEntries(bound.map((keyword) => [keyword, schema[keyword]]));
        parts.texts.push({ kind: 'bound', schema: JSON.stringify({ type, ...own }) });
      }
    }
    return parts;
  }
}

/** The texts and the other values that a schema allows. */
interface Split {
  texts: ({ kind: 'any' } | { kind: 'text'; text: string } | { kind: 'bound'; schema: string })[];
  others: Schema[];
}

/** Types of schemas that name none, by their keywords. */
const IMPLIED = ['object', 'array', 'number'];

/** First characters of values, by their type. Any text is a value of the others. */
const FIRST: Record<string, string> = {
  null: '',
  boolean: '',
  number: '-0123456789',
  integer: '-0123456789',
  array: '[',
  object: '{',
};
