/** A template of Jinja, which means what Python's Jinja2 makes of it as transformers sets that up. */
import { Budget, type RenderBounds } from './budget.js';
import { globals } from './globals.js';
import type { Block } from './nodes.js';
import { parse } from './parser.js';
import { Renderer } from './renderer.js';
import { Scope } from './scope.js';
import { Dict, fromJs, type Value } from './values.js';

export class Template {
  readonly #body: Block;

  /** Throws an Error for a text that is no template. */
  constructor(text: string) {
    this.#body = parse(text);
  }

  /** `variables` are values of JSON or of templates. Throws `Refused` if the template says so, else an Error. */
  render(variables: Dict | Record<string, unknown>, bounds: RenderBounds): string {
    const budget = new Budget(bounds);
    const scope = new Scope(new Map<string, Value>(globals(budget)));
    const given = variables instanceof Dict ? variables : (fromJs(variables) as Dict);
    for (const [name, value] of given.entries()) scope.set(String(name), value);
    return new Renderer(budget).render(this.#body, scope);
  }
}
