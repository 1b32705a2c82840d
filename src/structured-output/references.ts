/** References of JSON schemas by URIs and anchors, written as those by places: `#/$defs/name`. */
import { isSchema, type Schema } from './alternatives.js';

/** Keywords with schemas by name, with lists of schemas or a schema. Others hold values. */
const BY_NAME = [
  '$defs',
  'definitions',
  'properties',
  'patternProperties',
  'dependentSchemas',
  'dependencies',
];
const INNER = [
  ...['items', 'prefixItems', 'additionalItems', 'unevaluatedItems', 'contains', 'additionalProperties'],
  ...['unevaluatedProperties', 'propertyNames', 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else'],
];
const ROOT = 'schema:///';

/** The schema at a place. Undefined if there is none. */
export function namedSchema(reference: unknown, root: unknown): unknown {
  // A percent sign that encodes nothing stands for itself.
  const own = String(reference).replace(/%(?![\da-f]{2})/gi, '%25');
  const [first, ...names] = decoded(own).split('/');
  let found = first === '#' ? root : undefined;
  for (const part of names) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
    found = Object.hasOwn(Object(found), name) ? (found as Schema)[name] : undefined;
  }
  return found;
}

/** Empty for bytes that are no text. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

/** A copy in which references by URIs and anchors name the places of their schemas, where there is one. */
export function withPlaces(root: unknown): unknown {
  if (!/"\$(?:id|anchor|dynamicAnchor)"/.test(JSON.stringify(root) ?? '')) return root;
  const places = new Map<string, string>([[ROOT, '#']]);
  changed(root, ROOT, '#', (schema, base, place) => {
    if (schema.$id !== undefined) places.set(base, place);
    for (const anchor of [schema.$anchor, schema.$dynamicAnchor])
      if (anchor !== undefined) places.set(`${base}#${anchor}`, place);
    return schema;
  });
  return changed(root, ROOT, '#', (schema, base, _place, outer) => {
    const { $ref: given } = schema;
    if (typeof given !== 'string') return schema;
    // Drafts do not agree on the base of a reference beside an identifier.
    const [place, other] = [base, outer].map((each) => placeOf(given, each, places));
    const $ref = place === other ? place : resolved(given, base);
    return { ...schema, $ref: $ref ?? given };
  });
}

function placeOf(reference: string, base: string, places: ReadonlyMap<string, string>): string | undefined {
  const uri = resolved(reference, base);
  const [whole = '', fragment = ''] = uri?.split('#') ?? [];
  if (fragment !== '' && !fragment.startsWith('/')) return places.get(`${whole}#${fragment}`);
  const place = places.get(whole);
  return place === undefined ? undefined : place + fragment;
}

/**
 * Calls `change` with each schema, its base URI, its place and the base URI around it. Returns a copy with the schemas
 * that it returns.
 */
function changed(
  schema: unknown,
  base: string,
  place: string,
  change: (schema: Schema, base: string, place: string, outer: string) => Schema,
): unknown {
  if (!isSchema(schema)) return schema;
  const own = typeof schema.$id === 'string' ? (resolved(schema.$id, base)?.replace(/#$/, '') ?? base) : base;
  const next = (value: unknown, path: string) => changed(value, own, path, change);
  const all = (values: object, path: string) =>
    Object.fromEntries(
      Object.entries(values).map(([name, value]) => [name, next(value, `${path}/${escapedName(name)}`)]),
    );
  const inner = Object.entries(change(schema, own, place, base)).map(([keyword, value]) => {
    const path = `${place}/${escapedName(keyword)}`;
    if (BY_NAME.includes(keyword) && isSchema(value)) return [keyword, all(value, path)];
    if (!INNER.includes(keyword)) return [keyword, value];
    return [keyword, Array.isArray(value) ? Object.values(all(value, path)) : next(value, path)];
  });
  return Object.fromEntries(inner);
}

function escapedName(name: string): string {
  return encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'));
}

function resolved(reference: string, base: string): string | undefined {
  return URL.canParse(reference, base) ? new URL(reference, base).href : undefined;
}
