import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readLabelled } from '../../../src/evaluation/labelled-data.js';

const root = mkdtempSync(join(tmpdir(), 'sida-labelled-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const file = join(root, 'data.jsonl');
const labels = ['false', 'true'];

function read(rows: object[], more: { limit?: number; labels?: string[] } = { labels }) {
  writeFileSync(file, rows.map((row) => JSON.stringify(row)).join('\n\n'));
  return readLabelled({ file, template: 'is: {text}', ...more });
}

describe('labelled data', () => {
  it('accepts a label as its name, its index or a boolean', async () => {
    const values = ['true', 1, true, 'false', 0, false];
    const lines = await read(values.map((label) => ({ text: 'a', label })));
    expect(lines.map(({ label }) => label)).toEqual([1, 1, 1, 0, 0, 0]);
    expect(lines[2]).toEqual({ line: 5, text: 'is: a', label: 1 });
  });

  it('needs no label field without labels, and stops at the limit', async () => {
    const lines = await read([{ text: 'a' }, { text: 'b' }, { text: 'c', label: 7 }], { limit: 2 });
    expect(lines).toEqual([
      { line: 1, text: 'is: a' },
      { line: 3, text: 'is: b' },
    ]);
  });

  it.each([
    [{ text: 'b' }, 'line 3 has no field "label": expected a label from 0 to 1, or one of false, true'],
    [{ text: 'b', label: 2 }, 'line 3: expected a label from 0 to 1, or one of false, true, found 2'],
    [{ text: 'b', label: 'maybe' }, 'found "maybe"'],
    [{ text: 'b', label: null }, 'found null'],
  ])('names the line of an unknown label: %j', async (row, message) => {
    await expect(read([{ text: 'a', label: 0 }, row])).rejects.toThrow(message);
  });

  it('refuses a file without lines', async () => {
    await expect(read([])).rejects.toThrow('holds no lines');
  });
});
