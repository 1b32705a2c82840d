/** Reads inputs from a JSON-lines file. Each line is a row whose fields fill a template. */
import { SidaError } from '../errors.js';
import { readTextFile } from '../files/text-file.js';
import { Template } from '../text/template.js';

export interface DataSource {
  file: string;
  template: string;
  /**
   * Maps a field to another JSON-lines file in which its value is a key. The rows of that file hold the same field
   * and `text`. The text replaces the key.
   */
  joins?: Record<string, string>;
}

type Row = Record<string, unknown>;

function invalid(message: string): SidaError {
  return new SidaError({ code: 'invalid_request', message });
}

/** Rows with their line numbers, from 1, without blank lines. Throws invalid_request for a line that is no object. */
export async function readRows(file: string): Promise<{ line: number; row: Row }[]> {
  const content = readTextFile(file, 'invalid_request');
  const rows: { line: number; row: Row }[] = [];
  // Editors on Windows begin files with a byte order mark.
  content
    .replace(/^\uFEFF/, '')
    .split('\n')
    .forEach((text, i) => {
      if (text.trim() === '') return;
      let row: unknown;
      try {
        row = JSON.parse(text);
      } catch (error) {
        throw invalid(`${file}, line ${i + 1}: ${(error as Error).message}`);
      }
      if (typeof row !== 'object' || row === null || Array.isArray(row)) {
        throw invalid(`${file}, line ${i + 1}: expected a JSON object, found ${text.slice(0, 40)}`);
      }
      rows.push({ line: i + 1, row: row as Row });
    });
  return rows;
}

async function readTexts(file: string, field: string): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const { line, row } of await readRows(file)) {
    const { [field]: key, text } = row;
    if (key === undefined || typeof text !== 'string') {
      throw invalid(`${file}, line ${line}: expected the fields "${field}" and "text" to join on`);
    }
    if (texts.has(String(key))) {
      throw invalid(`${file}, line ${line}: the ${field} ${JSON.stringify(key)} is there twice`);
    }
    texts.set(String(key), text);
  }
  return texts;
}

/** The inputs in the order of the lines. Throws invalid_request, which names the line and its fault. */
export async function readInputs({ file, template: text, joins = {} }: DataSource): Promise<string[]> {
  const template = new Template(text);
  const { fields } = template;
  if (fields.length === 0) {
    throw invalid(
      `The template ${JSON.stringify(text)} has no field: name one in braces, such as 'category of: {text}'`,
    );
  }
  const joined = new Map<string, Map<string, string>>();
  for (const [field, other] of Object.entries(joins)) {
    if (!fields.includes(field)) {
      throw invalid(`The template has no field "${field}" to join; its fields are ${fields.join(', ')}`);
    }
    joined.set(field, await readTexts(other, field));
  }
  const rows = await readRows(file);
  if (rows.length === 0) throw invalid(`${file} holds no lines`);
  return rows.map(({ line, row }) => {
    const values: Record<string, string> = {};
    for (const field of fields) {
      if (row[field] === undefined) continue;
      if (typeof row[field] === 'object') {
        const found = JSON.stringify(row[field]).slice(0, 40);
        throw invalid(`${file}, line ${line}: expected the field "${field}" to be a text, found ${found}`);
      }
      const key = String(row[field]);
      const value = joined.has(field) ? joined.get(field)!.get(key) : key;
      if (value === undefined) {
        throw invalid(`${file}, line ${line}: ${joins[field]} has no ${field} ${JSON.stringify(row[field])}`);
      }
      values[field] = value;
    }
    try {
      return template.render(template.values(values, 'template'));
    } catch (error) {
      throw invalid(`${file}, line ${line}: ${(error as Error).message}`);
    }
  });
}
