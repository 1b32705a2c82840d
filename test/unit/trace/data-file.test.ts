import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readInputs } from '../../../src/trace/data-file.js';

const root = mkdtempSync(join(tmpdir(), 'sida-data-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let files = 0;
function file(...rows: unknown[]): string {
  const path = join(root, `${files++}.jsonl`);
  writeFileSync(path, rows.map((row) => (typeof row === 'string' ? row : JSON.stringify(row))).join('\n'));
  return path;
}

const template = 'q: {question} p: {passage}';
const passages = file({ passage: 7, text: 'seven' }, { passage: 8, text: 'eight' });

describe('a data file', () => {
  it('has one input per line, without blank lines', async () => {
    const data = file({ text: 'a', label: 1 }, '', { text: 'b' });
    expect(await readInputs({ file: data, template: '<{text}>' })).toEqual(['<a>', '<b>']);
  });

  it('may begin with a byte order mark', async () => {
    expect(await readInputs({ file: file('\uFEFF{"text":"a"}'), template: '<{text}>' })).toEqual(['<a>']);
  });

  it('needs a line, and a template with a field', async () => {
    await expect(readInputs({ file: file(), template: '<{text}>' })).rejects.toThrow(/holds no lines/);
    await expect(readInputs({ file: file({ text: 'a' }), template: '<text>' })).rejects.toThrow(
      /"<text>" has no field/,
    );
  });

  it('joins a field with the text of another file', async () => {
    const data = file({ passage: 8, question: 'x' }, { passage: 7, question: 'y' });
    expect(await readInputs({ file: data, template, joins: { passage: passages } })).toEqual([
      'q: x p: eight',
      'q: y p: seven',
    ]);
  });

  it.each([
    [
      [
        { passage: 7, question: 'x' },
        { passage: 9, question: 'y' },
      ],
      /line 2: .*has no passage 9/,
    ],
    [[{ passage: 7 }], /line 1: .*question/],
    [['', '{"passage":'], /line 2: /],
    [['[1]'], /line 1: expected a JSON object/],
    [[{ passage: 7, question: ['x'] }], /line 1: expected the field "question" to be a text, found \["x"\]/],
    [[{ passage: 7, question: null }], /line 1: expected the field "question" to be a text, found null/],
  ])('names the line at fault: %j', async (rows, message) => {
    await expect(readInputs({ file: file(...rows), template, joins: { passage: passages } })).rejects.toThrow(
      message,
    );
  });

  it('refuses a join without a field in the template, and missing or duplicate keys', async () => {
    const data = file({ passage: 7, question: 'x' });
    const read = (other: string, field = 'passage') =>
      readInputs({ file: data, template, joins: { [field]: other } });
    await expect(read(passages, 'label')).rejects.toThrow(
      /no field "label" to join; its fields are question, passage/,
    );
    await expect(read(file({ passage: 7, text: 'a' }, { passage: 7, text: 'b' }))).rejects.toThrow(
      /line 2: .*7 is there twice/,
    );
    await expect(read(file({ passage: 7 }))).rejects.toThrow(
      /line 1: expected the fields "passage" and "text"/,
    );
    await expect(read(join(root, 'none.jsonl'))).rejects.toThrow(/none\.jsonl: no such file/);
  });
});
