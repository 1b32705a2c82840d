/** Runs a Jinja template within bounds. Templates come with models, which are untrusted. */
import { Interpreter, type JinjaEnvironment, type JinjaNode, type JinjaValue } from './jinja.js';

export interface RenderBounds {
  /** Statements and expressions to evaluate, all repetitions counted. */
  steps: number;
  /** Length of a text or a list, and of the result. */
  length: number;
  /** Length of all texts and lists that are computed, which bounds the memory that they take. */
  total: number;
  /** Largest whole number that a template computes. Some of its filters make texts as long as a number says. */
  number: number;
}

export class BoundedInterpreter extends Interpreter {
  readonly #bounds: RenderBounds;
  #steps = 0;
  #total = 0;

  constructor(environment: JinjaEnvironment, bounds: RenderBounds) {
    super(environment);
    this.#bounds = bounds;
  }

  override evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue {
    this.#steps += 1;
    if (this.#steps > this.#bounds.steps) throw new Error(`it takes more than ${this.#bounds.steps} steps`);
    const result = super.evaluate(node, environment);
    this.#check(result, node?.type);
    return result;
  }

  #check({ value }: JinjaValue, from: string | undefined): void {
    const { length, total, number } = this.#bounds;
    const given = from === 'Identifier' || from === 'MemberExpression';
    if (typeof value === 'string' || Array.isArray(value)) {
      if (value.length > length) throw new Error(`it makes a text or a list longer than ${length}`);
      if (!given) this.#total += value.length;
      if (this.#total > total) throw new Error(`it makes texts and lists longer than ${total} together`);
    }
    if (typeof value === 'number' && Math.abs(value) > number && !given)
      throw new Error(`it computes a number above ${number}`);
  }
}
