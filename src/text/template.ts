/** Renders templates such as `category of: {text}`. A field is a name in braces. Other braces are literal. */
import { SidaError } from '../errors.js';

type TemplateInput = string | Record<string, string>;

const FIELD = /\{([A-Za-z_]\w*)\}/g;

/** A template that is read once and then rendered for many inputs. */
export class Template {
  readonly fields: readonly string[];
  /** How often fields stand in the template. */
  readonly uses: number;
  /** Texts and, between each two of them, the name of a field. */
  readonly #parts: readonly string[];
  /** How often each field stands in the template. */
  readonly #uses = new Map<string, number>();
  /** UTF-8 bytes beside the fields. */
  readonly #ownBytes: number;

  constructor(text: string) {
    this.#parts = text.split(FIELD);
    this.uses = (this.#parts.length - 1) / 2;
    let named = 0;
    for (let at = 1; at < this.#parts.length; at += 2) {
      const field = this.#parts[at]!;
      this.#uses.set(field, (this.#uses.get(field) ?? 0) + 1);
      named += field.length + '{}'.length;
    }
    this.fields = [...this.#uses.keys()];
    this.#ownBytes = Buffer.byteLength(text) - named;
  }

  /** The value of each field. A plain text fills the only field. Throws invalid_request with `param`. */
  values(input: TemplateInput, param: string): Record<string, string> {
    const values = typeof input === 'string' ? this.#single(input, param) : input;
    const given = Object.keys(values);
    const missing = this.fields.filter((field) => !Object.hasOwn(values, field));
    const unknown = given.filter((field) => !this.#uses.has(field));
    if (missing.length === 0 && unknown.length === 0) return values;
    const fault =
      missing.length > 0 ? `The input lacks ${list(missing)}` : `The template has no field ${list(unknown)}`;
    const both = `the input gives ${list(given) || 'no fields'}, the template needs ${list(this.fields) || 'none'}`;
    throw invalid(`${fault}: ${both}`, param);
  }

  /** UTF-8 bytes of the rendered text, counted without rendering it. */
  bytes(values: Record<string, string>): number {
    return this.fields.reduce(
      (sum, field) => sum + this.#uses.get(field)! * Buffer.byteLength(values[field]!),
      this.#ownBytes,
    );
  }

  render(values: Record<string, string>): string {
    return this.#parts.map((part, at) => (at % 2 === 0 ? part : values[part]!)).join('');
  }

  #single(text: string, param: string): Record<string, string> {
    if (this.fields.length === 1) return { [this.fields[0]!]: text };
    throw invalid(
      `The input is one text: the template needs an object with the fields ${list(this.fields)}`,
      param,
    );
  }
}

/** Names of fields for a message: the first eight, each cut after 64 characters. */
function list(fields: readonly string[]): string {
  const shown = fields.slice(0, 8).map((field) => JSON.stringify(field.slice(0, 64)));
  const more = fields.length - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}

function invalid(message: string, param: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param });
}
