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

/** A filter is a name, or a call of a name with arguments. A called function is any expression. */
interface JinjaCall extends JinjaNode {
  callee: JinjaNode & { value?: string; object?: JinjaNode; property?: JinjaNode & { value?: string } };
  args: JinjaNode[];
}

interface JinjaInterpreter {
  /** Evaluates a node, and itself calls this method for the nodes within. */
  evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue;
  run(program: JinjaNode): JinjaValue;
  applyFilter(operand: JinjaValue, filter: JinjaNode, environment: JinjaEnvironment): JinjaValue;
  evaluateCallExpression(call: JinjaCall, environment: JinjaEnvironment): JinjaValue;
  evaluateArguments(
    args: readonly JinjaNode[],
    environment: JinjaEnvironment,
  ): [positional: JinjaValue[], named: ReadonlyMap<string, JinjaValue>];
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
  /** Largest whole number that a template computes. */
  number: number;
}

/** Widest indentation of a line, in characters or levels of JSON. */
const MOST_INDENT = 32;
/** A text that may get this many times longer than the bound is not made. A shorter one is made, and then refused. */
const GROWTH = 8;

export class BoundedInterpreter extends Interpreter {
  readonly #bounds: RenderBounds;
  #steps = 0;
  #total = 0;
  /** Values that the next evaluation of a node gives again. */
  readonly #known = new Map<JinjaNode | undefined, JinjaValue>();

  constructor(environment: JinjaEnvironment, bounds: RenderBounds) {
    super(environment);
    this.#bounds = bounds;
  }

  override evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue {
    const known = this.#known.get(node);
    if (known !== undefined) {
      this.#known.delete(node);
      return known;
    }
    this.#steps += 1;
    if (this.#steps > this.#bounds.steps) throw new Error(`it takes more than ${this.#bounds.steps} steps`);
    const result = super.evaluate(node, environment);
    this.#check(result, node?.type);
    return result;
  }

  /** Filters are checked before they run: the library makes their texts in one step. */
  override applyFilter(operand: JinjaValue, filter: JinjaNode, environment: JinjaEnvironment): JinjaValue {
    const { callee, args = [] } = filter as JinjaCall;
    const name = filter.type === 'CallExpression' ? callee.value : undefined;
    if (name === 'indent' || name === 'tojson' || name === 'join' || name === 'replace') {
      const [positional, named] = this.evaluateArguments(args, environment);
      const values = [...positional, ...named.values()].map(({ value }) => value);
      if (name === 'indent' || name === 'tojson') this.#checkIndents(values);
      else this.#checkGrowth(operand, name === 'join' ? ['', ...values] : values);
    }
    return super.applyFilter(operand, filter, environment);
  }

  override evaluateCallExpression(call: JinjaCall, environment: JinjaEnvironment): JinjaValue {
    const { object, property } = call.callee;
    if (object !== undefined && property?.value === 'replace') {
      const operand = this.evaluate(object, environment);
      const [positional] = this.evaluateArguments(call.args, environment);
      const values = positional.map(({ value }) => value);
      this.#checkGrowth(operand, values);
      this.#known.set(object, operand);
    }
    return super.evaluateCallExpression(call, environment);
  }

  #checkIndents(values: readonly unknown[]): void {
    for (const each of values) {
      if (typeof each === 'number' && each > MOST_INDENT)
        throw new Error(`it indents by ${each}, the limit is ${MOST_INDENT}`);
    }
  }

  /** `by` may be as often in the result as `old` fits into the text, or as the list has items. */
  #checkGrowth({ value }: JinjaValue, [old, by]: readonly unknown[]): void {
    if (typeof old !== 'string' || typeof by !== 'string') return;
    if (typeof value !== 'string' && !Array.isArray(value)) return;
    const places = value.length / Math.max(1, old.length) + 1;
    const { length } = this.#bounds;
    if (places * by.length > GROWTH * length) throw new Error(`it makes a text longer than ${length}`);
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
