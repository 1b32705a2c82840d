/** Renders templates such as `sst2 sentence: {text}`. A field is a name in braces. Other braces are literal. */
import { SidaError } from '../errors.js';

type TemplateInput = string | Record<string, string>;

const FIELD = /\{([A-Za-z_]\w*)\}/g;

export function templateFields(template: string): string[] {
  return [...new Set([...template.matchAll(FIELD)].map((match) => match[1]!))];
}

/**
 * Fills the template's `fields` from `input`. A plain text fills the only field. Throws invalid_request, whose
 * `param` is the name of the input.
 */
export function renderTemplate(
  template: string,
  fields: readonly string[],
  input: TemplateInput,
  param: string,
): string {
  const values = typeof input === 'string' ? fillSingle(fields, input, param) : input;
  for (const field of fields) {
    if (!Object.hasOwn(values, field)) {
      throw invalid(`The template field "${field}" is missing; its fields are ${fields.join(', ')}`, param);
    }
  }
  const unknown = Object.keys(values).find((key) => !fields.includes(key));
  if (unknown !== undefined) {
    const shown = JSON.stringify(unknown.slice(0, 100));
    throw invalid(`The template has no field ${shown}; its fields are ${fields.join(', ')}`, param);
  }
  return template.replace(FIELD, (_, field: string) => values[field]!);
}

function fillSingle(fields: readonly string[], text: string, param: string): Record<string, string> {
  if (fields.length === 1) return { [fields[0]!]: text };
  throw invalid(`Expected an object with the template fields ${fields.join(', ')}, but got a text`, param);
}

function invalid(message: string, param: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param });
}
