/** Renders a conversation as the text that the model was trained on. */
import { SidaError } from '../../errors.js';
import { oneLine } from '../one-line.js';
import {
  BoundedInterpreter,
  Environment,
  type JinjaTemplate,
  type RenderBounds,
  Template,
} from './bounded-interpreter.js';
import type { GLOBAL_NAMES } from './template-files.js';

/** A conversation of a hundred turns with tools takes about fifty thousand steps, some tens of milliseconds. */
const BOUNDS: RenderBounds = { steps: 500_000, length: 4 << 20, total: 256 << 20, number: 1 << 24 };
/** Most numbers of a `range`. */
const MOST_RANGE = 1 << 16;

/** Reports a conversation that the template itself refuses, such as one with two user messages in a row. */
class Refused extends Error {}

/** The library renders dates, but does not export how. */
const DATE = new Template('{{ strftime_now(format) }}');

const GLOBALS: Record<(typeof GLOBAL_NAMES)[number], unknown> = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
  range: boundedRange,
  strftime_now: (format: unknown) => DATE.render({ format: String(format) }),
  raise_exception: (message: unknown) => {
    throw new Refused(String(message));
  },
};

export class ChatTemplate {
  readonly #template: JinjaTemplate;
  readonly #variables: Record<string, unknown>;
  readonly #bounds: RenderBounds;

  /** `variables` are those of the model, such as `bos_token`. Throws an Error for a text that is no template. */
  constructor(text: string, variables: Record<string, unknown>, bounds: RenderBounds = BOUNDS) {
    this.#template = new Template(text);
    this.#variables = variables;
    this.#bounds = bounds;
  }

  /** Throws invalid_request if the template refuses the conversation, and cannot_run if it cannot be rendered. */
  render(conversation: Record<string, unknown>): string {
    try {
      const environment = new Environment();
      const values = { ...GLOBALS, ...this.#variables, ...conversation };
      for (const [name, value] of Object.entries(values)) environment.set(name, value);
      const { value } = new BoundedInterpreter(environment, this.#bounds).run(this.#template.parsed);
      return String(value);
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

/** Python's `range`. */
function boundedRange(...bounds: unknown[]): number[] {
  const [start, stop, step] = bounds.length < 2 ? [0, bounds[0], 1] : [bounds[0], bounds[1], bounds[2] ?? 1];
  const [from, to, by] = [start, stop, step].map(Number) as [number, number, number];
  const count = Math.max(0, Math.ceil((to - from) / by));
  // Also where a bound is not a number, or the step is 0.
  if (!(count <= MOST_RANGE)) throw new Error(`a range has more than ${MOST_RANGE} numbers`);
  return Array.from({ length: count }, (_, at) => from + at * by);
}
