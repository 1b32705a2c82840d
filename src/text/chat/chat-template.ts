/** Renders a conversation as the text that the model was trained on. */
import { SidaError } from '../../errors.js';
import type { RenderBounds } from '../jinja/budget.js';
import { Refused } from '../jinja/globals.js';
import { Template } from '../jinja/template.js';
import { Dict, fromJs, type Value } from '../jinja/values.js';
import { oneLine } from '../one-line.js';

/** A conversation of a hundred turns with tools takes about fifty thousand steps, some tens of milliseconds. */
const BOUNDS: RenderBounds = { steps: 500_000, length: 4 << 20, total: 64 << 20 };

/** Variables that transformers sets, to none where a conversation has no such thing. */
const ABSENT: readonly [string, Value][] = [
  ['tools', null],
  ['documents', null],
  ['add_generation_prompt', false],
];

export class ChatTemplate {
  readonly #template: Template;
  readonly #variables: readonly [string, Value][];
  readonly #bounds: RenderBounds;

  /** `variables` are those of the model, such as `bos_token`. Throws an Error for a text that is no template. */
  constructor(text: string, variables: Record<string, unknown>, bounds: RenderBounds = BOUNDS) {
    this.#template = new Template(text);
    this.#variables = (fromJs(variables) as Dict).entries() as [string, Value][];
    this.#bounds = bounds;
  }

  /**
   * `conversation` has variables by name, as values of JSON or of templates. Throws invalid_request if the template
   * refuses the conversation, and cannot_run if it cannot be rendered.
   */
  render(conversation: Dict | Record<string, unknown>): string {
    try {
      const given = conversation instanceof Dict ? conversation : (fromJs(conversation) as Dict);
      const values = new Dict([...ABSENT, ...this.#variables, ...given.entries()]);
      return this.#template.render(values, this.#bounds);
    } catch (error) {
      throw refusal(error as Error);
    }
  }
}

function refusal(error: Error): SidaError {
  const reason = oneLine(error.message);
  return error instanceof Refused
    ? new SidaError({
        code: 'invalid_request',
        message: `The model's chat template refuses the messages: ${reason}`,
        param: 'messages',
      })
    : new SidaError({
        code: 'cannot_run',
        message: `The model's chat template cannot render the messages: ${reason}`,
        param: 'messages',
      });
}
