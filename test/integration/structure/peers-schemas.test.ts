// Schemas and formats of the tests of other projects, and of what zod, Pydantic and OpenAI's client write.
import { readFileSync, rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { checkedSchema } from '../../../src/structure/schema.js';
import { compiledSource } from '../../support/compiled-source.js';
import { allowedOf, bytesOf, END, type GrammarRun, grammarRun } from '../../support/grammar-run.js';

interface Case {
  id: string;
  schema: object;
  /** Values that the grammar must allow, and others that it must not. */
  valid?: unknown[];
  invalid?: unknown[];
}

let dist: string;
let run: GrammarRun;
beforeAll(async () => {
  dist = compiledSource();
  run = await grammarRun(dist);
});
afterAll(async () => {
  await run.threads.close();
  rmSync(dist, { recursive: true, force: true });
});

/** As the grammars write it: on one line, with ", " and ": " between its parts. */
function jsonText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonText).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, own]) => `${JSON.stringify(name)}: ${jsonText(own)}`);
  return `{${members.join(', ')}}`;
}

async function allows(schema: string, value: unknown): Promise<boolean> {
  const matcher = await run.open({ kind: 'json', schema, closed: false });
  const ids = [...bytesOf(jsonText(value)), END];
  const fits = ids.every((id) => {
    const allowed = allowedOf(matcher).includes(id);
    if (allowed && id !== END) matcher.take(id);
    return allowed;
  });
  run.matchers.endItem(0);
  return fits;
}

/** What is wrong with a case; undefined if nothing. */
async function faultOf({ schema, valid = [], invalid = [] }: Case): Promise<string | undefined> {
  try {
    const text = checkedSchema(schema, 'x', { closed: false });
    for (const value of valid) if (!(await allows(text, value))) return `not writable: ${jsonText(value)}`;
    for (const value of invalid) if (await allows(text, value)) return `writable: ${jsonText(value)}`;
    return undefined;
  } catch (error) {
    return `refused: ${(error as Error).message}`;
  }
}

/** Cases that do not pass, with the reason why that is right. */
const ARGUED: Record<string, string> = {
  'schema: pydantic set': 'no grammar can tell that free texts differ, and it is refused by name',
};

it.each(['schemas.jsonl', 'formats.jsonl'])('%s pass, or are argued by name', async (file) => {
  const url = new URL(`../../data/schemas/${file}`, import.meta.url);
  const cases = readFileSync(url, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Case);
  const faults: Record<string, string> = {};
  for (const each of cases) {
    const fault = await faultOf(each);
    if (fault !== undefined) faults[each.id] = fault;
  }
  const argued = Object.keys(ARGUED).filter((id) => cases.some((each) => each.id === id));
  expect(Object.keys(faults).sort(), JSON.stringify(faults, null, 1)).toEqual(argued.sort());
});
