/** Whether no value can follow two of some schemas, as far as their types and constants tell. */
import { isSchema, type Schema } from './schema.js';

/** What tells a schema from others. Types and values are numbers, which are compared faster than texts. */
interface Facts {
  types: ReadonlySet<number> | undefined;
  values: ReadonlySet<number> | undefined;
  /** The values of each required property that has a list of them. */
  properties: ReadonlyMap<string, ReadonlySet<number>>;
}

export class Disjoint {
  readonly #facts = new Map<Schema, Facts>();
  /** Numbers of types and of values that are no lists or objects. */
  readonly #numbers = new Map<unknown, number>();
  /** Those of lists and objects, by their JSON. */
  readonly #numbersOfJson = new Map<string, number>();

  /** `compared` is told how many values and properties each comparison of two schemas takes, at least 1. */
  every(schemas: readonly unknown[], compared: (count: number) => void): boolean {
    if (schemas.length < 2) return true;
    if (!schemas.every(isSchema)) return false;
    const facts = schemas.map((schema) => this.#factsOf(schema));
    const types = facts.map((each) => each.types);
    const values = facts.map((each) => each.values);
    if (this.#noneTwice(types, compared) || this.#noneTwice(values, compared)) return true;
    return facts.every((a, at) => facts.slice(at + 1).every((b) => differ(a, b, compared)));
  }

  /** Whether no number is in two of the sets. In proportion to them, where pairs would take their square. */
  #noneTwice(sets: readonly Facts['values'][], compared: (count: number) => void): boolean {
    const seen = new Uint8Array(this.#size);
    // Clearing it is work, too.
    compared(this.#size >> 6);
    for (const numbers of sets) {
      if (numbers === undefined) return false;
      compared(numbers.size);
      for (const number of numbers) {
        if (seen[number] === 1) return false;
        seen[number] = 1;
      }
    }
    return true;
  }

  /** Many lists may refer to the same schema. */
  #factsOf(schema: Schema): Facts {
    const known = this.#facts.get(schema);
    if (known !== undefined) return known;
    const values = valuesOf(schema);
    const types = typesOf(schema, values);
    const facts = {
      types: types && this.#numbered(types),
      values: values && this.#numbered(values),
      properties: new Map(
        requiredValues(schema).map(([name, own]): [string, Set<number>] => [name, this.#numbered(own)]),
      ),
    };
    this.#facts.set(schema, facts);
    return facts;
  }

  get #size(): number {
    return this.#numbers.size + this.#numbersOfJson.size;
  }

  #numbered(values: readonly unknown[]): Set<number> {
    const numbers = new Set<number>();
    for (const value of values) {
      if (typeof value === 'object' && value !== null) {
        numbers.add(this.#numberOf(this.#numbersOfJson, JSON.stringify(value)));
      } else numbers.add(this.#numberOf(this.#numbers, value));
    }
    return numbers;
  }

  #numberOf<T>(numbers: Map<T, number>, key: T): number {
    const known = numbers.get(key);
    if (known !== undefined) return known;
    const next = this.#size;
    numbers.set(key, next);
    return next;
  }
}

function differ(a: Facts, b: Facts, compared: (count: number) => void): boolean {
  let count = 1;
  const noneShared = (own: ReadonlySet<number> | undefined, other: ReadonlySet<number> | undefined) => {
    if (own === undefined || other === undefined) return false;
    const [few, many] = own.size <= other.size ? [own, other] : [other, own];
    for (const each of few) {
      count += 1;
      if (many.has(each)) return false;
    }
    return true;
  };
  /** A property that both require, with other constants in each. */
  const differInProperty = () => {
    for (const [name, values] of a.properties) {
      count += 1;
      if (noneShared(values, b.properties.get(name))) return true;
    }
    return false;
  };
  const found = noneShared(a.types, b.types) || noneShared(a.values, b.values) || differInProperty();
  compared(count);
  return found;
}

function requiredValues({ required, properties }: Schema): [name: string, values: readonly unknown[]][] {
  const found: [string, readonly unknown[]][] = [];
  if (!Array.isArray(required) || !isSchema(properties)) return found;
  for (const name of new Set(required)) {
    const schema = properties[name];
    const values = isSchema(schema) ? valuesOf(schema) : undefined;
    if (values !== undefined) found.push([name, values]);
  }
  return found;
}

function typesOf(schema: Schema, values: readonly unknown[] | undefined): readonly unknown[] | undefined {
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  if (types.includes(undefined)) return values?.map(typeOfJson);
  return types.includes('number') ? [...types, 'integer'] : types;
}

function typeOfJson(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function valuesOf({ const: only, enum: values }: Schema): readonly unknown[] | undefined {
  if (only !== undefined) return [only];
  return Array.isArray(values) ? values : undefined;
}
