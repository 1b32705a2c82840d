/**
 * Reads the JSON schemas that clients send: writes them in the keywords that the library follows, gives values that it
 * would let through wrongly a body of our own, and refuses by name what no grammar can follow.
 */
import { SidaError } from '../errors.js';
import { escapePattern } from '../text/escape-pattern.js';
import { areApart, IMPLIED, isSchema, type Schema, VALUES } from './alternatives.js';
import { INTEGER, NUMBER, stricter } from './json-numbers.js';
import {
  countedPattern,
  jsonText,
  literal,
  nameText,
  type Rules,
  textOfLength,
  textOfPatterns,
} from './json-strings.js';
import { allOf, mergedSchema, ofName } from './merged-schemas.js';
import { LOGIC } from './negated-schemas.js';
import { multiplesWithin, stepOf } from './number-steps.js';
import { namedSchema, withPlaces } from './references.js';
import {
  BOUNDS,
  binding,
  CONSTANTS,
  countsOf,
  follows,
  impossible,
  isTooLong,
  KEYWORDS,
  listOf,
  NoValue,
  type Path,
  patternOf,
  refuse,
  shown,
  TEXT_KEYWORDS,
  typesOf,
} from './schema-keywords.js';
import { COUNTED_FORMATS, SHORT_FORMATS, STRING_FORMATS, UNFOLLOWED_FORMATS } from './string-formats.js';
import { automatonOf, NoText } from './text-automaton.js';
import { listOfUnique } from './unique-lists.js';

const MOST_CHARACTERS = 128 << 10;
const MOST_SCHEMAS = 2_000;
/** Schemas within each other, also by references: the library reads them recursively. */
const MOST_LEVELS = 48;
const MOST_CONTAINED = 100;
/** By which the most of them is above the least in the number that the writer of grammars gets. */
export const CONTAINED_UNIT = 1_000;
/** Patterns of names. There is a schema for each set of them. */
const MOST_PATTERNS = 4;
const MOST_NAME_STATES = 200;
/** First items of lists: each that may be left out takes a list of its own. */
const MOST_LEFT_OUT = 32;
/** Keywords beside which no other may stand, but `type` beside constants. */
const ALONE = ['$ref', 'enum', 'const', 'anyOf', 'oneOf'];
interface SchemaOptions {
  /** Whether objects have no other properties than those that the schema names, where it does not say. */
  closed: boolean;
  /** Whether all values must be objects. */
  objects?: boolean;
  /** Without the search for patterns that no name matches, which takes long. */
  quick?: boolean;
}

/** The schema as text. Throws invalid_request, which names the place within `param`. */
export function checkedSchema(schema: unknown, param: string, options: SchemaOptions): string {
  try {
    const own = withPlaces(schema);
    const text = JSON.stringify(own) ?? '';
    if (text.length > MOST_CHARACTERS)
      refuse([], `it has ${text.length} characters; the limit is ${MOST_CHARACTERS}`);
    readSchema(own, { ...options, quick: true });
    return text;
  } catch (error) {
    const message =
      error instanceof RangeError ? 'The JSON schema is nested too deep' : (error as Error).message;
    throw new SidaError({ code: 'invalid_request', message, param });
  }
}

export interface ReadSchema {
  /** For the library. */
  schema: Schema;
  /** EBNF of the values for which the schema has a number, their place in the list. Throws Errors with the reason. */
  bodies: (rules: Rules) => string[];
  /** Properties beside which there may be others. */
  names: readonly string[];
  /** Whether values of two alternatives may share a beginning and then differ. */
  alike: boolean;
}

/** Takes time in proportion to the schema; its bodies may take longer. Throws an Error with the reason. */
export function readSchema(
  schema: unknown,
  { closed, objects = false, quick = false }: SchemaOptions,
): ReadSchema {
  const reader = new SchemaReader(schema, closed, quick);
  const read = reader.read();
  if (objects && reader.leaves(read.schema).some(({ type }) => type !== 'object'))
    refuse([], 'it allows values that are no objects, but the arguments of a call are an object');
  return read;
}

const ANY = ['object', 'array', 'string', 'number', 'boolean', 'null'];
/** Stands for a schema that is still being read. */
const OPEN: Schema = {};

class SchemaReader {
  readonly #root: unknown;
  readonly #closed: boolean;
  readonly #quick: boolean;
  readonly #bodies: ((rules: Rules) => string)[] = [];
  readonly #names = new Set<string>();
  readonly #defs: { [name: string]: Schema } = {};
  /** Names among `#defs`. */
  readonly #references = new Map<unknown, string>();
  #schemas = 0;
  #alike = false;
  #levels = 0;

  constructor(root: unknown, closed: boolean, quick: boolean) {
    this.#root = root;
    this.#closed = closed;
    this.#quick = quick;
  }

  read(): ReadSchema {
    const schema = { ...this.#schema(this.#root, []), $defs: this.#defs };
    const bodies = (rules: Rules) => this.#bodies.map((body) => body(rules));
    return { schema, bodies, names: [...this.#names], alike: this.#alike };
  }

  /** What a read schema is a choice of: schemas of one type, lists of constants, and schemas of all types. */
  leaves(schema: Schema, seen = new Set<Schema>()): Schema[] {
    if (seen.has(schema)) return [];
    seen.add(schema);
    const choices =
      schema.$ref === undefined ? schema.anyOf : [this.#defs[String(schema.$ref).slice(8)] ?? OPEN];
    return choices === undefined
      ? [schema]
      : (choices as Schema[]).flatMap((each) => this.leaves(each, seen));
  }

  #schema(schema: unknown, path: Path): Schema {
    this.#schemas += 1;
    this.#levels += 1;
    if (this.#schemas > MOST_SCHEMAS) refuse([], `it has more than ${MOST_SCHEMAS} schemas`);
    if (this.#levels > MOST_LEVELS) refuse(path, 'it is nested too deep');
    const read = this.#read(schema, path);
    this.#levels -= 1;
    return read;
  }

  #read(schema: unknown, path: Path): Schema {
    if (schema === true) return {};
    if (schema === false) impossible(path, 'no value follows it');
    if (!isSchema(schema)) refuse(path, `expected a JSON schema, found ${shown(schema)}`);
    const { nullable, ...own } = binding(schema);
    if (nullable === true && own.not !== undefined)
      refuse([...path, 'nullable'], 'a grammar cannot follow "nullable" beside "not"');
    if (nullable === true) return { anyOf: [this.#schema(own, path), { type: 'null' }] };
    const alone = ALONE.find((keyword) => own[keyword] !== undefined);
    const beside = Object.keys(own).length > 1 && alone !== undefined && !CONSTANTS.includes(alone);
    if (own.allOf !== undefined || beside || LOGIC.some((keyword) => own[keyword] !== undefined)) {
      const merged = mergedSchema(own, (reference) => this.#named(reference, path), path);
      return this.#schema(merged, path);
    }
    if (alone === undefined) return this.#typed(own, path);
    const { [alone]: value, ...others } = own;
    const at = [...path, alone];
    if (alone === '$ref') return this.#reference(value, at);
    if (CONSTANTS.includes(alone))
      return this.#constants(alone === 'const' ? [value] : listOf(value, at), others, at);
    const choices = listOf(value, at);
    return alone === 'oneOf' ? this.#oneOf(choices, at) : this.#anyOf(choices, at);
  }

  #anyOf(choices: readonly unknown[], path: Path): Schema {
    this.#alike ||= this.#areAlike(choices, path);
    const anyOf = choices.flatMap(
      (each, at) => this.#possible(() => this.#schema(each, [...path, String(at)])) ?? [],
    );
    return anyOf.length > 0 ? { anyOf } : impossible(path, 'no value follows any of its schemas');
  }

  /** Whether two of them have parts that may begin alike. */
  #areAlike(choices: readonly unknown[], path: Path): boolean {
    const named = choices.map((each) =>
      isSchema(each) && each.$ref !== undefined ? this.#named(each.$ref, path) : each,
    );
    const wide = named.filter((each) => !isSchema(each) || !isScalar(each));
    const first = wide.map((each) => {
      const [property] = Object.entries(Object(isSchema(each) && each.properties));
      const must =
        isSchema(each) && property !== undefined && [each.required ?? []].flat().includes(property[0]);
      return must && isSchema(property[1]) ? property[1].const : undefined;
    });
    return wide.length > 1 && (first.includes(undefined) || new Set(first).size < first.length);
  }

  #oneOf(choices: readonly unknown[], path: Path): Schema {
    const read = this.#anyOf(choices, path);
    const schemas = read.anyOf as Schema[];
    const apart = () => areApart(schemas, (each) => this.leaves(each));
    // A schema that was left out may allow values that its reading excludes.
    if (schemas.length === choices.length && apart()) return read;
    const why =
      'its schemas must differ in type or in a constant, that of a required property; "anyOf" needs neither';
    // A reference to a schema that is still being read tells later.
    const check = () => (apart() ? '""' : refuse(path, why));
    const open = schemas.some((each) => this.leaves(each).some((leaf) => leaf === OPEN));
    if (open && schemas.length === choices.length) {
      this.#body(check, path);
      return read;
    }
    const alone = choices.map((each, at) => ({
      allOf: [each, ...choices.filter((_, other) => other !== at).map((not) => ({ not }))],
    }));
    try {
      return this.#anyOf(alone, path);
    } catch (error) {
      if (error instanceof NoValue) throw error;
      return refuse(path, why);
    }
  }

  /** Undefined if no value follows what is read. */
  #possible<T>(read: () => T): T | undefined {
    const [bodies, references, levels] = [this.#bodies.length, this.#references.size, this.#levels];
    try {
      return read();
    } catch (error) {
      if (!(error instanceof NoValue)) throw error;
      this.#bodies.length = bodies;
      for (const target of [...this.#references.keys()].slice(references)) this.#references.delete(target);
      this.#levels = levels;
      return undefined;
    }
  }

  #named(reference: unknown, path: Path): unknown {
    const found = namedSchema(reference, this.#root);
    if (isSchema(found) || typeof found === 'boolean') return found;
    return refuse(path, `${shown(reference)} names no schema; expected one such as "#/$defs/name"`);
  }

  #reference(value: unknown, path: Path): Schema {
    return this.#defined(this.#named(value, path), String(value).split('/').slice(1));
  }

  /** A reference to the schema, which is read once. */
  #defined(target: unknown, path: Path): Schema {
    const name = this.#references.get(target) ?? `d${this.#references.size}`;
    if (!this.#references.has(target)) {
      this.#references.set(target, name);
      this.#defs[name] = this.#schema(target, path);
    }
    return { $ref: `#/$defs/${name}` };
  }

  /** Constants that follow the other keywords. */
  #constants(values: readonly unknown[], others: Schema, path: Path): Schema {
    const kept = values.filter((value) => follows(value, others, path));
    if (kept.length === 0) impossible(path, 'none of its values follows what stands beside them');
    if (kept.some(isTooLong)) refuse(path, 'it has a whole number of more than 53 bits');
    const body = this.#body(() => kept.map((value) => literal(jsonText(value))).join(' | '), path);
    return { ...body, [VALUES]: kept, ...(kept.every(isSchema) && { type: 'object' }) };
  }

  /** A schema with values of our own. */
  #body(body: (rules: Rules) => string, path: Path): Schema {
    const named = (rules: Rules) => {
      try {
        return body(rules);
      } catch (error) {
        return refuse(path, (error as Error).message);
      }
    };
    return { const: this.#bodies.push(named) - 1 };
  }

  #typed(schema: Schema, path: Path): Schema {
    const ofTexts = STRING_FORMATS.has(schema.format) || UNFOLLOWED_FORMATS.has(schema.format);
    const implied = ['object', 'array', 'string', 'number'].filter(
      (type) => KEYWORDS[type]!.some((name) => schema[name] !== undefined) || (type === 'string' && ofTexts),
    );
    const names = implied.some((type) => type === 'object' || type === 'array');
    // Who describes properties or items means an object or a list. Other keywords bind values of their type alone.
    const all = names || implied.length === 0 ? implied : ANY;
    const types = schema.type === undefined ? all : typesOf(schema.type, [...path, 'type']);
    const allowed = ['type', 'format', ...types.flatMap((type) => KEYWORDS[type]!)];
    const other = Object.keys(schema).find((name) => !allowed.includes(name));
    const where = types.length > 0 ? `for the type ${types.join(' or ')}` : 'in a schema without a type';
    if (other !== undefined) refuse([...path, other], `a grammar cannot follow "${other}" ${where}`);
    const read = types.flatMap((type): Schema[] => {
      const own = () => [this.#ofType(type, schema, path)];
      return types.length === 1 ? own() : (this.#possible(own) ?? []);
    });
    if (read.length < Math.min(types.length, 1)) impossible(path, 'no value of its types follows it');
    if (names && schema.type === undefined)
      for (const leaf of read.flatMap((each) => this.leaves(each))) leaf[IMPLIED] = true;
    return read.length === 1 ? read[0]! : read.length === 0 ? {} : { anyOf: read };
  }

  #ofType(type: string, schema: Schema, path: Path): Schema {
    if (type === 'object') return this.#object(schema, path);
    if (type === 'array') return this.#array(schema, path);
    if (type === 'string') return this.#string(schema, path);
    return type === 'number' || type === 'integer' ? this.#number(type, schema, path) : { type };
  }

  #string(schema: Schema, path: Path): Schema {
    const { format } = schema;
    const pattern = schema.pattern && patternOf(schema.pattern, [...path, 'pattern']);
    const [least = 0, most] = countsOf(schema, 'minLength', 'maxLength', path);
    // Unknown formats are notes.
    if (UNFOLLOWED_FORMATS.has(format))
      refuse([...path, 'format'], `a grammar cannot follow ${shown(format)}`);
    const counted = pattern === undefined && least <= 1 ? COUNTED_FORMATS.get(format) : undefined;
    if (counted !== undefined && most !== undefined && most >= counted.room)
      return {
        type: 'string',
        ...this.#body((rules) => countedPattern(counted.pattern, { least, most }, rules), path),
      };
    const short = most === undefined ? undefined : SHORT_FORMATS.get(format)?.(most);
    const patterns = [pattern ?? [], short ?? STRING_FORMATS.get(format) ?? []].flat().map(String);
    if (patterns.length === 0 && least === 0 && most === undefined) return { type: 'string' };
    const at = patterns.length === 0 ? path : [...path, pattern === undefined ? 'format' : 'pattern'];
    const body = (rules: Rules) =>
      patterns.length === 0
        ? textOfLength({ least, most }, rules)
        : textOfPatterns(patterns, { least, most }, rules);
    return { type: 'string', ...this.#body(body, at) };
  }

  #number(type: string, schema: Schema, path: Path): Schema {
    const wrong = BOUNDS.find((name) => !['number', 'undefined'].includes(typeof schema[name]));
    if (wrong !== undefined) refuse([...path, wrong], `expected a number, found ${shown(schema[wrong])}`);
    if (BOUNDS.every((name) => schema[name] === undefined))
      return { type, ...this.#body(() => (type === 'integer' ? INTEGER : NUMBER), path) };
    const bounds = BOUNDS.map((name) => schema[name] as number | undefined);
    const [minimum, maximum, above, below, multiple = 1e-15] = bounds;
    const step = stepOf(multiple, type === 'integer');
    if (step === undefined)
      refuse([...path, 'multipleOf'], `expected a number above 0 of at most 15 decimals, found ${multiple}`);
    const [least, most] = [stricter(minimum, above, -Infinity), stricter(maximum, below, Infinity)];
    const body = (rules: Rules) => multiplesWithin(least, most, step, rules);
    return { type, ...this.#body(body, path) };
  }

  /** The library follows no "contains". It gets three items and how many, of which the writer of grammars makes it. */
  #containing(schema: Schema, path: Path): Schema {
    const { contains, minContains = 1, maxContains, items = true, minItems = 0, type: _, ...others } = schema;
    const other = KEYWORDS.array!.find((keyword) => others[keyword] !== undefined);
    if (other !== undefined) refuse([...path, other], `a grammar cannot follow "${other}" beside "contains"`);
    const least = Number(minContains);
    if (!Number.isInteger(least) || least < 1 || least > MOST_CONTAINED || Number(minItems) > least)
      refuse([...path, 'minContains'], `expected 1 to ${MOST_CONTAINED}, and no more in "minItems"`);
    const most = maxContains === undefined ? 0 : Number(maxContains);
    if (maxContains !== undefined && !(Number.isInteger(most) && most >= least && most <= MOST_CONTAINED))
      refuse([...path, 'maxContains'], `expected ${least} to ${MOST_CONTAINED}, found ${shown(maxContains)}`);
    const not = { allOf: [items, { not: contains }] };
    const any =
      most === 0 ? this.#defined(items, [...path, 'items']) : this.#defined(not, [...path, 'maxContains']);
    const own = this.#defined({ allOf: [items, contains] }, [...path, 'contains']);
    return {
      type: 'array',
      prefixItems: [any, own, any, { const: -least - most * CONTAINED_UNIT }],
      items: false,
      minItems: 4,
    };
  }

  #array(schema: Schema, path: Path): Schema {
    if (schema.contains !== undefined) return this.#containing(schema, path);
    // Older drafts name the first items and the others differently.
    const [first, others] = Array.isArray(schema.items)
      ? ['items', 'additionalItems']
      : ['prefixItems', 'items'];
    const [minItems = 0, maxItems] = countsOf(schema, 'minItems', 'maxItems', path);
    const given = schema[first!] === undefined ? [] : listOf(schema[first!], [...path, first!]);
    const own = given.slice(0, maxItems);
    const fixed = own.length;
    if (fixed - minItems > MOST_LEFT_OUT)
      refuse([...path, first!], `a grammar can leave out at most ${MOST_LEFT_OUT} of them`);
    const prefixItems = own.map((item, at) => {
      const where = [...path, first!, String(at)];
      return minItems < fixed ? this.#defined(item, where) : this.#schema(item, where);
    });
    const more = schema[others!] ?? schema.unevaluatedItems ?? (fixed === 0 || !this.#closed);
    const items = more !== false && fixed !== maxItems && this.#schema(more, [...path, others!]);
    if (items === false && minItems > fixed)
      refuse([...path, 'minItems'], `${minItems} items are more than the ${fixed} that it describes`);
    const unique = schema.uniqueItems === true;
    if (unique && fixed === 0 && items !== false && items[VALUES] !== undefined) {
      const values = items[VALUES].map(jsonText);
      return {
        type: 'array',
        ...this.#body((rules) => listOfUnique(values, minItems, maxItems, rules), path),
      };
    }
    const longest = items === false ? fixed : (maxItems ?? Number.POSITIVE_INFINITY);
    if (unique && longest > 1)
      refuse([...path, 'uniqueItems'], 'a grammar can follow it only for items of listed values');
    const most = items !== false && maxItems !== undefined && { maxItems };
    const whole = { type: 'array', ...(fixed > 0 && { prefixItems }), items, minItems, ...most };
    // The library writes all first items.
    const shorter = prefixItems.slice(minItems).map((_, at): Schema => {
      const kept = prefixItems.slice(0, minItems + at);
      return { type: 'array', ...(kept.length > 0 && { prefixItems: kept }), items: false, minItems };
    });
    return shorter.length === 0 ? whole : { anyOf: [...shorter, whole] };
  }

  #object(whole: Schema, path: Path): Schema {
    const schema = whole.propertyNames === undefined ? whole : this.#withNames(whole, path);
    if (schema.propertyNames !== undefined) {
      const { propertyNames, unevaluatedProperties = {}, additionalProperties: more } = schema;
      const names: [Schema, unknown] = [propertyNames as Schema, more ?? unevaluatedProperties];
      return this.#ofNames([names], schema, [...path, 'propertyNames']);
    }
    const { properties: given = {}, required: must = [], additionalProperties, patternProperties } = schema;
    if (!isSchema(given)) refuse([...path, 'properties'], `expected schemas by name, found ${shown(given)}`);
    if (patternProperties !== undefined) return this.#withPatterns(schema, path);
    const more =
      additionalProperties ??
      schema.unevaluatedProperties ??
      (schema.properties === undefined || !this.#closed);
    const required = [must].flat().map(String);
    const unnamed = more === false ? [] : required.filter((name) => !Object.hasOwn(given, name));
    const named = { ...given, ...Object.fromEntries(unnamed.map((name) => [name, more])) };
    const all = Object.keys(named);
    const missing = required.find((name) => !all.includes(name));
    if (missing !== undefined)
      impossible([...path, 'required'], `${shown(missing)} is not among the properties`);
    const read = all.flatMap((name): [string, Schema][] => {
      const where = [...path, 'properties', name];
      if (required.includes(name)) return [[nameText(name), this.#schema(named[name], where)]];
      const own = this.#possible(() => this.#schema(named[name], where));
      return own === undefined ? [] : [[nameText(name), own]];
    });
    const properties = Object.fromEntries(read);
    if (read.length === 0 && all.length > 0 && more !== false) {
      const others = `^(?!(?:${all.map(escapePattern).join('|')})$)`;
      return this.#ofNames([[{ pattern: others }, more]], schema, path);
    }
    const rest = () => this.#schema(more, [...path, 'additionalProperties']);
    const others = more !== false && (this.#possible(rest) ?? false);
    if (others !== false) for (const name of all) this.#names.add(name);
    const counts = this.#propertyCounts(schema, path, others === false ? read.length : undefined);
    return {
      type: 'object',
      properties,
      required: required.map(nameText),
      additionalProperties: others,
      ...counts,
    };
  }

  /** The names of "propertyNames" as properties, if it has a list. */
  #withNames({ propertyNames, ...schema }: Schema, path: Path): Schema {
    const at = [...path, 'propertyNames'];
    const {
      type = 'string',
      enum: listed,
      const: one,
      ...others
    } = isSchema(propertyNames) ? binding(propertyNames) : { type: propertyNames };
    const names = one === undefined ? listed : [one];
    const beside = ['properties', 'required', 'patternProperties'].some((name) => schema[name] !== undefined);
    const bound = Object.keys(others).every((name) => TEXT_KEYWORDS.includes(name));
    if (type === 'string' && names === undefined && bound && !beside)
      return { ...schema, propertyNames: others };
    if (type !== 'string' || Object.keys(others).length > 0 || !Array.isArray(names))
      refuse(at, 'a grammar can follow only a list of names, or bounds of a text where no name is given');
    const { properties, unevaluatedProperties = {}, additionalProperties = unevaluatedProperties } = schema;
    const given = isSchema(properties) ? properties : {};
    const own = names.filter((name) => Object.hasOwn(given, name) || additionalProperties !== false);
    const read = own.map((name) => [name, Object.hasOwn(given, name) ? given[name] : additionalProperties]);
    return { ...schema, properties: Object.fromEntries(read), additionalProperties: false };
  }

  /** An object with any number of properties. Names that match no pattern are left out, if nothing is said of them. */
  #withPatterns(schema: Schema, path: Path): Schema {
    const at = [...path, 'patternProperties'];
    const { properties, patternProperties, required = [], additionalProperties: more = false } = schema;
    if ([required].flat().length > 0) refuse(at, 'a grammar cannot follow it beside "required"');
    const patterns = Object.entries(patternProperties as Schema);
    for (const [pattern] of patterns) patternOf(pattern, at);
    if (patterns.length > MOST_PATTERNS) refuse(at, `a grammar can follow at most ${MOST_PATTERNS} patterns`);
    const names = Object.keys(Object(properties));
    const listed = names.map(escapePattern).join('|');
    const classes = names.map((name): [string, unknown] => [
      `^${escapePattern(name)}$`,
      allOf(ofName(schema, name)),
    ]);
    for (let set = more === false ? 1 : 0; set < 2 ** patterns.length; set += 1) {
      const matches = patterns.map(
        ([pattern], each) => `(?${(set >> each) & 1 ? '=' : '!'}[^]*(?:${pattern}))`,
      );
      const values = patterns.filter((_, each) => (set >> each) & 1).map(([, value]) => value);
      classes.push([
        `^${names.length > 0 ? `(?!(?:${listed})$)` : ''}${matches.join('')}`,
        set === 0 ? more : allOf(values),
      ]);
    }
    const found = classes.filter(([pattern]) => this.#quick || classes.length === 1 || hasTexts(pattern, at));
    const all = found.map(([pattern, value]): [Schema, unknown] => [{ pattern }, value]);
    return this.#ofNames(all, schema, at);
  }

  /** Properties by schemas of their names, which the library gets as the numbers of their bodies. */
  #ofNames(classes: readonly [names: Schema, value: unknown][], schema: Schema, path: Path): Schema {
    const read = classes.flatMap(([names, value]) => {
      const own = () => [[this.#string(names, path).const, this.#schema(value, path)] as const];
      return this.#possible(own) ?? [];
    });
    const counts = this.#propertyCounts({ ...schema, properties: {} }, path, undefined);
    const [[body, values] = []] = read;
    if (body === undefined) return { type: 'object', additionalProperties: values ?? false, ...counts };
    const patternProperties = Object.fromEntries(read.map(([own, each]) => [`N${own}`, each]));
    return { type: 'object', patternProperties, additionalProperties: false, ...counts };
  }

  /** Bounds of the number of properties, which the library follows. A name that is not listed may be there twice. */
  #propertyCounts(schema: Schema, path: Path, closed: number | undefined): Schema {
    const [least = 0, most] = countsOf(schema, 'minProperties', 'maxProperties', path);
    const named = closed ?? Object.keys(schema.properties ?? {}).length;
    const open = closed === undefined;
    const bound = least > 0 ? 'minProperties' : 'maxProperties';
    if ((least > 0 || most !== undefined) && open && (named > 0 || least > 1))
      refuse([...path, bound], `a grammar cannot follow "${bound}" where other names are allowed`);
    if (!open && least > named) refuse([...path, bound], `it describes only ${named} properties`);
    return { ...(least > 0 && { minProperties: least }), ...(most !== undefined && { maxProperties: most }) };
  }
}

/** Whether it has no parts. */
function isScalar({ type, enum: listed, const: only }: Schema): boolean {
  const types = [type ?? 'object'].flat();
  return (
    listed !== undefined || only !== undefined || types.every((each) => each !== 'object' && each !== 'array')
  );
}

function hasTexts(pattern: string, path: Path): boolean {
  try {
    return automatonOf(pattern, MOST_NAME_STATES).length > 0;
  } catch (error) {
    return !(error instanceof NoText) && refuse(path, (error as Error).message);
  }
}
