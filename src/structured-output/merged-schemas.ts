/** Merges schemas that a value must follow together: the schemas of "allOf", and the keywords beside it. */
import { isSchema, type Schema } from './alternatives.js';
import { withoutLogic } from './negated-schemas.js';
import {
  binding,
  follows,
  impossible,
  listOf,
  type Path,
  patternOf,
  refuse,
  shown,
  typesOf,
} from './schema-keywords.js';

const HIGHEST = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']);
const LOWEST = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']);
const CHOICES = ['anyOf', 'oneOf'] as const;
const OF_NAMES = ['properties', 'patternProperties', 'additionalProperties'];
const UNEVALUATED = ['unevaluatedProperties', 'unevaluatedItems'];

/** Parts of "allOf" within each other, also by references. */
const MOST_PARTS = 256;

/** `named` gives the schema of a reference. Throws an Error with the place where a grammar can follow no merge. */
export function mergedSchema(whole: Schema, named: (reference: unknown) => unknown, place: Path): unknown {
  const path = [...place, 'allOf'];
  let count = 0;
  // They hold beside all parts, and again beside each choice.
  const { unevaluatedProperties, unevaluatedItems, ...schema } = whole;
  const late = binding({ unevaluatedProperties, unevaluatedItems });
  const partsOf = (given: unknown): Schema[] => {
    count += 1;
    if (count > MOST_PARTS) refuse(path, `it has more than ${MOST_PARTS} parts`);
    if (given === true) return [];
    if (given === false) impossible(path, 'no value follows all of its parts');
    if (!isSchema(given)) refuse(path, 'every part must be a schema');
    const { $ref, allOf, const: only, ...own } = withoutLogic(binding(given), named, place);
    // Properties of "not" and of an "if" that does not hold are not evaluated.
    const reversed = ['not', 'if'].some((name) =>
      /"(?:properties|\$ref)"/.test(JSON.stringify(given[name] ?? '')),
    );
    if (reversed && Object.keys(late).length > 0)
      refuse(path, `a grammar cannot follow "${Object.keys(late)}" beside "not" or "if"`);
    const within = UNEVALUATED.find((name) => own[name] !== undefined);
    if (within !== undefined) refuse(path, `a grammar cannot follow "${within}" in a part`);
    const inner = allOf === undefined ? [] : listOf(allOf, path);
    const constant = only === undefined ? {} : { enum: [only] };
    return [own, constant, ...($ref === undefined ? [] : partsOf(named($ref))), ...inner.flatMap(partsOf)];
  };
  const parts = partsOf(schema).filter((part) => Object.keys(part).length > 0);
  if (parts.length > 1 && parts.some(({ nullable }) => nullable === true))
    refuse(path, 'a grammar cannot follow "nullable" in a part');
  const choices = parts.flatMap((part) =>
    CHOICES.flatMap((kind) => (part[kind] === undefined ? [] : [{ [kind]: part[kind] }])),
  );
  const plain = parts.map(({ anyOf: _, oneOf: __, ...part }) => part);
  const merged = plain.reduce<Schema>((one, other) => both(one, other, path), {});
  const [choice, ...others] = choices;
  if (choice === undefined) return { ...merged, ...late };
  const [[kind, list] = []] = Object.entries(choice);
  const beside = [merged, ...others].filter((each) => Object.keys({ ...each, ...late }).length > 0);
  if (beside.length === 0) return choice;
  return { [kind!]: listOf(list, path).map((each) => ({ allOf: [...beside, each], ...late })) };
}

function both(one: Schema, other: Schema, path: Path): Schema {
  if (Object.keys(one).length > 0) checkItems(one, other, path);
  const result = { ...one, ...withNames(one, other, path) };
  for (const [keyword, value] of Object.entries(other))
    if (!OF_NAMES.includes(keyword))
      result[keyword] =
        result[keyword] === undefined ? value : together(keyword, result[keyword], value, path);
  const { required = [], properties = {} } = result;
  const absent = [required].flat().find((name) => (properties as Schema)[String(name)] === false);
  if (absent !== undefined) impossible(path, `${shown(absent)} must be there and must not`);
  return result;
}

/** The properties of both, each with all that is said of its name. */
function withNames(one: Schema, other: Schema, path: Path): Schema {
  const all = [one, other];
  const patterns = mergedPatterns(one, other, path);
  const names = [...new Set(all.flatMap(({ properties }) => Object.keys(Object(properties))))];
  const properties = names.map((name) => [name, allOf(all.flatMap((each) => ofName(each, name)))]);
  const more = all.map(({ additionalProperties = true }) => additionalProperties);
  return {
    ...(all.some((each) => each.properties !== undefined) && { properties: Object.fromEntries(properties) }),
    ...(Object.keys(patterns).length > 0 && { patternProperties: patterns }),
    ...(more.some((each) => each !== true) && {
      additionalProperties: more.includes(false) ? false : allOf(more),
    }),
  };
}

/** Constants are compared with the others at once: a choice between kinds would have all combinations otherwise. */
export function allOf(schemas: readonly unknown[]): unknown {
  const [first = true, ...others] = schemas.filter((each) => each !== true);
  if (others.length === 0) return first;
  const [values] = [first, ...others]
    .flatMap((each) => (isSchema(each) ? [constantsOf(each)] : []))
    .filter(Array.isArray);
  try {
    const kept = values?.filter((value) => schemas.every((each) => follows(value, each, [])));
    if (kept !== undefined) return kept.length > 0 && { enum: kept };
  } catch {
    // What only the whole schema tells.
  }
  return { allOf: [first, ...others] };
}

function constantsOf({ enum: values, const: only }: Schema): unknown {
  return only === undefined ? values : [only];
}

/** What a schema says of a property. */
export function ofName(schema: Schema, name: string): unknown[] {
  const { properties, patternProperties, additionalProperties = true } = schema;
  const own = isSchema(properties) && Object.hasOwn(properties, name) ? [properties[name]] : [];
  const matching = Object.entries(Object(patternProperties)).filter(([pattern]) =>
    new RegExp(pattern, 'u').test(name),
  );
  const found = [...own, ...matching.map(([, each]) => each)];
  return found.length === 0 ? [additionalProperties] : found;
}

/** "additionalProperties" of one schema is followed for the names of patterns of the other only if it forbids them. */
function mergedPatterns(one: Schema, other: Schema, path: Path): Schema {
  const result: Schema = {};
  for (const [own, { patternProperties, additionalProperties: more = true }] of [
    [one, other],
    [other, one],
  ] as const)
    for (const [pattern, value] of Object.entries(Object(own.patternProperties))) {
      const second = Object(patternProperties)[pattern];
      if (second !== undefined) result[pattern] = allOf([value, second]);
      else if (more === true) result[pattern] = value;
      else if (more !== false || patternProperties !== undefined)
        refuse(
          path,
          'a grammar cannot follow "additionalProperties" beside "patternProperties" of another schema',
        );
    }
  return result;
}

/** Nor does what "items" says of the items behind the first ones. */
function checkItems(one: Schema, other: Schema, path: Path): void {
  const [first, second] = [one, other].map(({ prefixItems, items }) =>
    JSON.stringify(prefixItems ?? (Array.isArray(items) ? items : [])),
  );
  const more = [one, other].some(({ items, additionalItems }) => (items ?? additionalItems ?? true) !== true);
  if (more && first !== second)
    refuse(path, 'a grammar cannot follow "items" beside first items of another schema');
}

function together(keyword: string, one: unknown, other: unknown, path: Path): unknown {
  const at = [...path, keyword];
  if (JSON.stringify(one) === JSON.stringify(other)) return one;
  if (HIGHEST.has(keyword) || LOWEST.has(keyword)) {
    if (typeof one !== 'number' || typeof other !== 'number') refuse(at, 'expected numbers');
    return HIGHEST.has(keyword) ? Math.max(one, other) : Math.min(one, other);
  }
  if (keyword === 'type') return commonTypes(typesOf(one, at), typesOf(other, at), at);
  if (keyword === 'required') return [...new Set([one, other].flat())];
  if (keyword === 'pattern') {
    const [own, also] = [patternOf(one, at), patternOf(other, at)];
    return `^(?=[^]*(?:${own}))(?=[^]*(?:${also}))`;
  }
  if (keyword === 'items' && !Array.isArray(one) && !Array.isArray(other)) return { allOf: [one, other] };
  if (keyword === 'enum') {
    const texts = listOf(other, at).map((value) => JSON.stringify(value));
    const common = listOf(one, at).filter((value) => texts.includes(JSON.stringify(value)));
    return common.length > 0 ? common : impossible(at, 'they have no value in common');
  }
  return refuse(at, 'a grammar cannot follow two of them together');
}

function commonTypes(one: readonly string[], other: readonly string[], path: Path): string[] {
  const has = (types: readonly string[], type: string) =>
    types.includes(type) || (type === 'integer' && types.includes('number'));
  const common = [...new Set([...one, ...other])].filter((type) => has(one, type) && has(other, type));
  return common.length > 0 ? common : impossible(path, 'no value has all of these types');
}
