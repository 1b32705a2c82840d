/** Merges schemas that a value must follow together: the schemas of "allOf", and the keywords beside it. */
import { isSchema, type Schema } from './alternatives.js';
import { binding, KEYWORDS, listOf, type Path, refuse, typesOf } from './schema-keywords.js';

const HIGHEST = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']);
const LOWEST = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']);
const CHOICES = ['anyOf', 'oneOf'] as const;

const UNEVALUATED = ['unevaluatedProperties', 'unevaluatedItems'];

/** Parts of "allOf" within each other, also by references. */
const MOST_PARTS = 256;

/** `named` gives the schema of a reference. Throws an Error with the place where a grammar can follow no merge. */
export function mergedSchema(whole: Schema, named: (reference: unknown) => unknown, path: Path): unknown {
  let count = 0;
  // They hold beside all parts, and again beside each choice.
  const { unevaluatedProperties, unevaluatedItems, ...schema } = whole;
  const late = binding({ unevaluatedProperties, unevaluatedItems });
  const partsOf = (given: unknown): Schema[] => {
    count += 1;
    if (count > MOST_PARTS) refuse(path, `it has more than ${MOST_PARTS} parts`);
    if (given === true) return [];
    if (!isSchema(given)) refuse(path, 'every part must be a schema');
    const { $ref, allOf, ...own } = binding(given);
    const within = UNEVALUATED.find((name) => own[name] !== undefined);
    if (within !== undefined) refuse(path, `a grammar cannot follow "${within}" in a part`);
    const inner = allOf === undefined ? [] : listOf(allOf, path);
    return [own, ...($ref === undefined ? [] : partsOf(named($ref))), ...inner.flatMap(partsOf)];
  };
  const parts = partsOf(schema).filter((part) => Object.keys(part).length > 0);
  if (parts.length > 1 && parts.some(({ nullable }) => nullable === true))
    refuse(path, 'a grammar cannot follow "nullable" in a part');
  const choices = parts.flatMap((part) => CHOICES.filter((name) => part[name] !== undefined));
  const merged = parts.reduce<Schema>((one, other) => both(one, other, path), {});
  const [choice] = choices;
  if (choice === undefined) return { ...merged, ...late };
  if (choices.length > 1) refuse(path, `a grammar cannot follow several of ${CHOICES.join(', ')} together`);
  const { [choice]: list, ...others } = merged;
  if (Object.keys({ ...others, ...late }).length === 0) return merged;
  return { [choice]: listOf(list, path).map((each) => ({ allOf: [others, each], ...late })) };
}

function both(one: Schema, other: Schema, path: Path): Schema {
  checkNames(one, other, path);
  checkNames(other, one, path);
  if (Object.keys(one).length > 0) checkItems(one, other, path);
  const result = { ...one };
  for (const [keyword, value] of Object.entries(other))
    result[keyword] = result[keyword] === undefined ? value : together(keyword, result[keyword], value, path);
  return result;
}

/** Refuses "additionalProperties" where the other schema has properties of its own: it would forbid them. */
function checkNames(one: Schema, other: Schema, path: Path): void {
  const { additionalProperties: more = true } = one;
  if (more === true) return;
  const names = Object.keys(Object(one.properties));
  const own = Object.keys(Object(other.properties)).every((name) => names.includes(name));
  const patterns = [one, other].map((each) => JSON.stringify(each.patternProperties ?? {}));
  if (!own || (patterns[1] !== '{}' && patterns[0] !== patterns[1]))
    refuse(path, 'a grammar cannot follow "additionalProperties" beside properties of another schema');
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
  if (keyword === 'properties' && isSchema(one) && isSchema(other)) {
    const shared = Object.keys(other).filter((name) => Object.hasOwn(one, name));
    const merged = shared.map((name) => [name, { allOf: [one[name], other[name]] }]);
    return { ...one, ...other, ...Object.fromEntries(merged) };
  }
  if (keyword === 'items' && !Array.isArray(one) && !Array.isArray(other)) return { allOf: [one, other] };
  if (keyword === 'enum') {
    const texts = listOf(other, at).map((value) => JSON.stringify(value));
    return listOf(one, at).filter((value) => texts.includes(JSON.stringify(value)));
  }
  return refuse(at, 'a grammar cannot follow two of them together');
}

function commonTypes(one: readonly string[], other: readonly string[], path: Path): string[] {
  const has = (types: readonly string[], type: string) =>
    types.includes(type) || (type === 'integer' && types.includes('number'));
  const common = [...new Set([...one, ...other])].filter((type) => has(one, type) && has(other, type));
  return common.length > 0 ? common : refuse(path, 'no value has all of these types');
}

/** The schema with the branch that "if" decides for all values. */
export function decided({ if: condition, then, else: otherwise, ...schema }: Schema): Schema {
  return { allOf: [schema, (condition === true ? then : otherwise) ?? {}] };
}

/** The schema with its types in place of "not". */
export function withoutNot({ not, ...schema }: Schema, path: Path): Schema {
  const at = [...path, 'not'];
  const inner = isSchema(not) ? binding(not) : {};
  const [keyword, other] = Object.keys(inner);
  if (other === undefined && keyword === 'not') return { allOf: [schema, inner.not] };
  const none = keyword === 'type' ? typesOf(inner.type, at) : [];
  if (other !== undefined || none.length === 0 || (none.includes('integer') && !none.includes('number')))
    refuse(at, 'a grammar can follow it only for types');
  const types = Object.keys(KEYWORDS).filter((type) => type !== 'integer' && !none.includes(type));
  return { allOf: [schema, { type: types }] };
}
