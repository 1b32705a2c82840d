import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SidaEngine } from '../../src/library.js';
import { REPO } from '../support/server-process.js';

const { openEngine }: typeof import('../../src/library.js') = await import(
  join(REPO, 'bundle/library/index.js')
);

const MODEL = join(REPO, 'models/olmoe-mini');
const messages = [{ role: 'user' as const, content: 'What kind of thing is a violin?' }];
const ANSWER = 'violin is a kind of bowed stringed instrument.';

test('the example of docs/library.md runs as it stands', async () => {
  const [, example] = /```js\n([\s\S]*?)```/.exec(readFileSync(join(REPO, 'docs/library.md'), 'utf8'))!;
  const args = ['--input-type=module', '--eval', example!];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: REPO });
  const lines = stdout.trim().split('\n');
  expect(lines[0]).toBe(ANSWER);
  expect(lines.at(-2)).toMatch(new RegExp(`^${ANSWER} Again, within \\d+ bytes\\.$`));
  expect(lines.at(-1)).toBe('2 embeddings of 192 numbers');
});

test('a wrong option is refused by its name before anything is loaded', async () => {
  const wrong = { budget: 3 } as object;
  await expect(openEngine(MODEL, wrong)).rejects.toThrow('There is no option "budget" of an engine');
  await expect(openEngine(MODEL, { threads: 0 })).rejects.toThrow('--threads');
});

test('a model that is not there is refused', async () => {
  await expect(openEngine('models/nothing')).rejects.toMatchObject({ code: 'checkpoint_invalid' });
});

test('a budget that is too small is refused with the smallest one', async () => {
  await expect(openEngine(MODEL, { memoryBudget: '1MiB' })).rejects.toThrow(/MiB/);
});

let engine: SidaEngine;
beforeAll(async () => {
  engine = await openEngine(MODEL);
});
afterAll(() => engine.close());

async function textOf(chunks: AsyncIterable<{ choices: { delta: { content?: string | undefined } }[] }>) {
  let text = '';
  for await (const { choices } of chunks) text += choices[0]?.delta.content ?? '';
  return text;
}

test('a stream has the text of the whole answer, and its usage at the end', async () => {
  const whole = await engine.chat({ messages });
  expect(whole.choices[0]!.message.content).toBe(ANSWER);
  expect(await textOf(engine.generate({ messages }))).toBe(ANSWER);
  let last: object | undefined;
  for await (const chunk of engine.generate({ messages })) last = chunk;
  expect(last).toMatchObject({ usage: { completion_tokens: whole.usage.completion_tokens } });
});

test('a slow reader loses nothing', async () => {
  let text = '';
  for await (const { choices } of engine.generate({ messages })) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    text += choices[0]?.delta.content ?? '';
  }
  expect(text).toBe(ANSWER);
});

test('leaving the loop, or the signal, ends a generation', async () => {
  for await (const _ of engine.generate({ messages })) break;
  const abort = new AbortController();
  const chunks = engine.generate({ messages }, { signal: abort.signal });
  await chunks.next();
  abort.abort();
  await expect(textOf(chunks)).rejects.toMatchObject({ code: 'cancelled' });
  await expect(engine.chat({ messages }, { signal: abort.signal })).rejects.toMatchObject({
    code: 'cancelled',
  });
});

test('a request that is wrong rejects with the field', async () => {
  await expect(engine.chat({ messages: [] })).rejects.toMatchObject({
    code: 'invalid_request',
    param: 'messages',
  });
  await expect(engine.generate({ messages: [] }).next()).rejects.toMatchObject({ code: 'invalid_request' });
  const unknown = { messages, bogus: 1 } as Parameters<typeof engine.chat>[0];
  await expect(engine.chat(unknown)).rejects.toThrow(/^Unknown field "bogus"/);
});

test('an answer keeps its bits under another budget', async () => {
  const { budgetBytes } = await engine.setBudget('50%');
  expect(budgetBytes).toBeLessThan(engine.model.usage.budgetBytes);
  expect(await textOf(engine.generate({ messages }))).toBe(ANSWER);
  await expect(engine.setBudget('1KiB')).rejects.toThrow();
});
