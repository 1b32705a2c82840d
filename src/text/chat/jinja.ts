/** The parts of @huggingface/jinja in use. Its own types do not resolve under `nodenext`. */
import * as jinja from '@huggingface/jinja';

/** A value of a template; `value` is a text, a number, a list or a map, for example. */
export interface JinjaValue {
  value: unknown;
}

export interface JinjaEnvironment {
  /** Takes texts, numbers, lists, objects and functions. */
  set(name: string, value: unknown): void;
}

/** A statement or an expression. */
export interface JinjaNode {
  type: string;
}

export interface JinjaInterpreter {
  /** Evaluates a node, and itself calls this method for the nodes within. */
  evaluate(node: JinjaNode | undefined, environment: JinjaEnvironment): JinjaValue;
  run(program: JinjaNode): JinjaValue;
}

export interface JinjaTemplate {
  parsed: JinjaNode;
  render(variables: Record<string, unknown>): string;
}

interface Library {
  Environment: new () => JinjaEnvironment;
  Interpreter: new (environment: JinjaEnvironment) => JinjaInterpreter;
  Template: new (text: string) => JinjaTemplate;
}

export const { Environment, Interpreter, Template } = jinja as unknown as Library;
