/** Runs a Jinja template within bounds. Templates come with models, which are untrusted. */
import * as jinja from '@huggingface/jinja';

/** A value of a template; `value` is a text, a number, a list or a map, for example. */
interface JinjaValue {
  value: unknown;
}

interface JinjaEnvironment {
  /** Takes texts, numbers, lists, objects and functions. */
  set(name: string, value: unknown): void;
}

/** A statement or an expression. */
interface JinjaNode {
  type: string;
}

interface JinjaInterpreter {
  /** Evaluates a node, and itself calls this method for the nodes within. */
  evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue;
  run(program: JinjaNode): JinjaValue;
}

export interface JinjaTemplate {
  parsed: JinjaNode;
  render(variables: Record<string, unknown>): string;
}

/** The parts of the library in use. Its own types do not resolve under `nodenext`. */
interface Library {
  Environment: new () => JinjaEnvironment;
  Interpreter: new (environment: JinjaEnvironment) => JinjaInterpreter;
  Template: new (text: string) => JinjaTemplate;
}

export const { Environment, Interpreter, Template } = jinja as unknown as Library;

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
