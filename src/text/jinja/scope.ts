/** Variables of a template, or of a loop or a macro within it. */
import type { Value } from './values.js';

export class Scope {
  readonly #values: Map<string, Value>;
  readonly #outer: Scope | undefined;

  constructor(values = new Map<string, Value>(), outer?: Scope) {
    this.#values = values;
    this.#outer = outer;
  }

  get(name: string): Value | undefined {
    const value = this.#values.get(name);
    return value === undefined ? this.#outer?.get(name) : value;
  }

  /** In this scope alone: what a loop sets is gone in the next round. */
  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }

  inner(): Scope {
    return new Scope(new Map(), this);
  }
}
