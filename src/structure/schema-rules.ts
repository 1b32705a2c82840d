/** JSON schemas as EBNF. The schemas must have passed `checkedSchema`. */
import { choice, literal, type Rules, repeated } from './ebnf.js';
import { COLON, COMMA, JsonRules, jsonText, otherName } from './json-rules.js';
import { integerRange, type NumberBounds, numberRange, wholeBounds } from './number-rules.js';
import { patternRule } from './pattern-rules.js';
import { resolvedReference, type Schema, typesOf } from './schema.js';
import { STRING_FORMATS } from './string-formats.js';
import { boundedRest, MARK } from './string-rules.js';

interface Member {
  /** Its name and value. */
  body: string;
  required: boolean;
}

/** A body that stands for a value of the schema. Closed objects have only the properties that it names. */
export function schemaRule(schema: unknown, closed: boolean, rules: Rules): string {
  return new SchemaRules(schema, closed, rules).body(schema);
}

class SchemaRules {
  readonly #root: unknown;
  readonly #closed: boolean;
  readonly #rules: Rules;
  readonly #json: JsonRules;
  readonly #references = new Map<unknown, string>();

  constructor(root: unknown, closed: boolean, rules: Rules) {
    this.#root = root;
    this.#closed = closed;
    this.#rules = rules;
    this.#json = new JsonRules(rules);
  }

  body(given: unknown): string {
    if (given === true) return this.#json.any;
    const schema = given as Schema;
    if (typeof schema.$ref === 'string') return this.#reference(schema.$ref);
    if (schema.const !== undefined) return literal(jsonText(schema.const));
    if (Array.isArray(schema.enum)) return choice(schema.enum.map((value) => literal(jsonText(value))));
    const branches = schema.anyOf ?? schema.oneOf ?? schema.allOf;
    if (Array.isArray(branches)) return choice(branches.map((branch) => this.#rule(branch)));
    const types = typesOf(schema);
    if (types === undefined) return this.#json.any;
    return choice(types.map((type) => this.#typed(type, schema)));
  }

  #rule(schema: unknown): string {
    return this.#rules.add(this.body(schema));
  }

  #reference(reference: string): string {
    const schema = resolvedReference(this.#root, reference);
    const known = this.#references.get(schema);
    if (known !== undefined) return known;
    const name = this.#rules.reserve();
    this.#references.set(schema, name);
    this.#rules.define(name, this.body(schema));
    return name;
  }

  #typed(type: string, schema: Schema): string {
    switch (type) {
      case 'string':
        return this.#string(schema);
      case 'integer':
        return this.#integer(schema as NumberBounds);
      case 'number':
        return this.#number(schema as NumberBounds);
      case 'boolean':
        return this.#json.boolean;
      case 'null':
        return this.#json.null;
      case 'array':
        return this.#array(schema);
      default:
        return this.#object(schema);
    }
  }

  #string({ pattern, format, minLength = 0, maxLength = null }: Schema): string {
    const given = pattern ?? STRING_FORMATS[String(format)];
    if (given !== undefined) return `${MARK} ${patternRule(given as string)} ${MARK}`;
    if (minLength === 0 && maxLength === null) return this.#json.string;
    return `${MARK} ${boundedRest(minLength as number, maxLength as number | null, this.#rules)}`;
  }

  #integer(bounds: NumberBounds): string {
    const { least, most } = wholeBounds(bounds);
    return least === null && most === null ? this.#json.integer : integerRange(least, most)!;
  }

  #number(bounds: NumberBounds): string {
    const bound = Object.values(wholeBounds(bounds)).some((value) => value !== null);
    return bound ? numberRange(bounds)! : this.#json.number;
  }

  #array(schema: Schema): string {
    const {
      minItems = 0,
      maxItems = null,
      prefixItems = [],
    } = schema as {
      minItems?: number;
      maxItems?: number | null;
      prefixItems?: unknown[];
    };
    const fixed = prefixItems.slice(0, maxItems ?? undefined).map((item) => this.#rule(item));
    const more = maxItems === null ? null : maxItems - fixed.length;
    const item = more === 0 ? undefined : this.#moreItems(schema);
    if (fixed.length === 0) {
      if (item === undefined) return '"[" "]"';
      const others = repeated(`${COMMA} ${item}`, Math.max(0, minItems - 1), more === null ? null : more - 1);
      return minItems > 0 ? `"[" ${item} ${others} "]"` : `"[" (${item} ${others})? "]"`;
    }
    let tail =
      item === undefined ? '""' : repeated(`${COMMA} ${item}`, Math.max(0, minItems - fixed.length), more);
    for (let at = fixed.length - 1; at >= 0; at -= 1) {
      const own = `${at === 0 ? '' : COMMA} ${fixed[at]} ${tail}`;
      tail = this.#rules.add(at >= minItems ? `(${own})?` : own);
    }
    return `"[" ${tail} "]"`;
  }

  /** Items behind those of `prefixItems`; undefined if there may be none. */
  #moreItems({ items, prefixItems }: Schema): string | undefined {
    if (items === false || (items === undefined && prefixItems !== undefined && this.#closed))
      return undefined;
    return this.#rule(items ?? true);
  }

  #object(schema: Schema): string {
    const properties = (schema.properties ?? {}) as Schema;
    const required = (schema.required ?? []) as string[];
    const names = Object.keys(properties);
    const members = names.map((name): Member => {
      const value = this.#rule(properties[name]);
      return { body: `${literal(`${JSON.stringify(name)}: `)} ${value}`, required: required.includes(name) };
    });
    const others = this.#others(schema, names);
    return `"{" ${this.#members(members, others)} "}"`;
  }

  /** A member that the schema does not name; undefined if there may be none. */
  #others({ additionalProperties: given }: Schema, names: readonly string[]): string | undefined {
    if (given === false || (given === undefined && this.#closed)) return undefined;
    return this.#rules.add(`${otherName(names, this.#rules)} ${COLON} ${this.#rule(given ?? true)}`);
  }

  /** All members in the order of the schema. `first` begins the object, and `next` goes on behind a member. */
  #members(members: readonly Member[], others: string | undefined): string {
    let next = others === undefined ? '""' : `(${COMMA} ${others})*`;
    let first = others === undefined ? '""' : `(${others} ${next})?`;
    for (const { body, required } of members.toReversed()) {
      const behind = this.#rules.add(next);
      const own = this.#rules.add(body);
      const begun = `${own} ${behind}`;
      first = required ? begun : choice([begun, this.#rules.add(first)]);
      next = required ? `${COMMA} ${begun}` : `(${COMMA} ${own})? ${behind}`;
    }
    return first;
  }
}
