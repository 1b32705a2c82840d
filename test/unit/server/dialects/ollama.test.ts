// /api/…, in front of a scripted engine.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { formOf } from '../../../../src/queue/redis/stored-job.js';
import { keptMs } from '../../../../src/server/dialects/ollama/keep-alive.js';
import { LIMITS } from '../../../../src/server/limits.js';
import type { TaskJob } from '../../../../src/tasks/registry.js';
import { writeText } from '../../../support/scripted-chat.js';
import { storedAndRead } from '../../../support/stored.js';
import { answerTo, MODEL, type ScriptedRun } from '../../queue/scripted-engine.js';
import { TestServer } from '../test-server.js';

type Job = Extract<TaskJob, { kind: 'chat' }>;

let server: TestServer;
let last: TaskJob;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());
beforeEach(() => {
  server.engine.model = MODEL;
  does((run) => writeText(run, 'good'));
});

function does(script: (run: ScriptedRun) => void): void {
  server.engine.script = (run) => {
    last = run.request;
    script(run);
  };
}

const chat = (more: object = {}) =>
  server.post('/api/chat', { messages: [{ role: 'user', content: 'hi' }], ...more });
const generate = (more: object = {}) => server.post('/api/generate', { prompt: 'hi', ...more });
const conversation = () => JSON.parse((last as Job).conversation);
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } };
const TOTALS = {
  done: true,
  done_reason: 'stop',
  total_duration: expect.any(Number),
  load_duration: expect.any(Number),
  prompt_eval_count: 9,
  prompt_eval_duration: 500_000,
  eval_count: 1,
  eval_duration: 1_500_000,
};

/** The scripted run takes 2 ms, of which the prompt takes half a millisecond. */
function timed(run: ScriptedRun): void {
  const result = answerTo(run.request);
  run.finish({ ...result, timing: { ...result.timing, promptMs: 0.5 } } as typeof result);
}

it("answers in Ollama's shape, with durations in nanoseconds", async () => {
  does(timed);
  const { status, json } = await chat({ stream: false });
  expect(status).toBe(200);
  expect(json).toEqual({
    model: 'switch-mini',
    created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    message: { role: 'assistant', content: 'good' },
    ...TOTALS,
  });
  const { response, ...others } = (await generate({ stream: false, model: 'switch-mini:latest' })).json;
  expect(response).toBe('good');
  expect(others).toMatchObject({ model: 'switch-mini:latest', ...TOTALS });
});

it('escapes what ends a line for readers in Python', async () => {
  does((run) => writeText(run, 'a\u2028b\u0085c\u2029d'));
  const { text } = await chat();
  expect(text).not.toMatch(/[\u0085\u2028\u2029]/);
  const said = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).message.content);
  expect(said.join('')).toBe('a\u2028b\u0085c\u2029d');
});

it('streams lines of JSON unless the request says otherwise', async () => {
  const { text, headers } = await chat();
  expect(headers['content-type']).toBe('application/x-ndjson');
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.map(({ message, done }) => [message.content, done])).toEqual([
    ...[...'good'].map((letter) => [letter, false]),
    ['', true],
  ]);
});

it('keeps a quiet stream open by spaces that JSON allows', async () => {
  const beat = LIMITS.streamBeatMs;
  Object.assign(LIMITS, { streamBeatMs: 20 });
  try {
    does((run) => void setTimeout(() => writeText(run, 'good'), 150));
    const { text } = await chat();
    expect(text).toMatch(/^ {2,}\{/);
    for (const line of text.trimEnd().split('\n')) JSON.parse(line);
  } finally {
    Object.assign(LIMITS, { streamBeatMs: beat });
  }
});

it('sends calls whole', async () => {
  const call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>';
  does((run) => writeText(run, `Wait.\n${call}\n${call}`));
  const { text } = await chat({ tools: [tool] });
  const calls = text
    .trimEnd()
    .split('\n')
    .flatMap((line) => JSON.parse(line).message.tool_calls ?? []);
  expect(calls).toEqual(
    [0, 1].map((index) => ({
      id: `call0000${index}`,
      function: { index, name: 'f', arguments: { a: 1 } },
    })),
  );
});

it('passes options on', async () => {
  const schema = { type: 'object' };
  const options = {
    temperature: 0.5,
    top_p: 0.9,
    top_k: 7,
    min_p: 0.1,
    seed: 3,
    num_predict: 5,
    stop: 'x',
    repeat_penalty: 1.1,
    presence_penalty: 0.5,
    num_ctx: 8192,
    num_gpu: 99,
    mirostat: 0,
  };
  await chat({ options, format: schema, think: 'low' });
  expect(last).toMatchObject({
    maxTokens: 5,
    cutToContext: true,
    sampling: { temperature: 0.5, topP: 0.9, topK: 7, minP: 0.1, seed: 3 },
    adjustments: { repetition: 1.1, presence: 0.5 },
    stop: ['x'],
    structure: { content: { schema: '{"type":"object"}' } },
  });
  expect(conversation()).toMatchObject({ reasoning_effort: 'low', enable_thinking: true });
  await chat({ options: { num_predict: -1, seed: -1, temperature: 1 }, format: 'json' });
  expect(last).toMatchObject({ maxTokens: null, sampling: { seed: expect.any(Number) } });
  expect((last as Job).sampling!.seed).toBeGreaterThanOrEqual(0);
  expect((last as Job).structure).toBeDefined();
});

it('gives a prompt to the template with its system, or raw to the model', async () => {
  await generate({ system: 'Be terse.' });
  expect(conversation().messages).toEqual([
    { role: 'system', content: 'Be terse.' },
    { role: 'user', content: 'hi' },
  ]);
  await generate({ raw: true, options: { stop: ['a', 'b', 'c', 'd', 'e'], num_predict: 99_999 } });
  const raw = { kind: 'complete', prompts: ['hi'], maxTokens: 3072, cutToContext: true };
  expect(last).toMatchObject({ ...raw, stop: ['a', 'b', 'c', 'd', 'e'] });
  server.engine.model = { ...MODEL, chat: null };
  await generate();
  expect(last).toMatchObject(raw);
  expect((await generate({ system: 'a' })).status).toBe(400);
});

it('a raw job is stored in Redis and read back', async () => {
  await generate({ raw: true, stream: false });
  const result = answerTo(last);
  expect(last).toMatchObject({ kind: 'complete', cutToContext: true });
  expect(await storedAndRead(last, result)).toEqual({ request: last, form: formOf(last), result });
});

it('gives each result the id of its call', async () => {
  const called = (...names: string[]) => ({
    role: 'assistant',
    content: '',
    tool_calls: names.map((name) => ({ function: { name, arguments: {} } })),
  });
  const result = (tool_name?: string) => ({ role: 'tool', content: 'r', ...(tool_name && { tool_name }) });
  const first = [called('f', 'g', 'f'), result('g'), result('f'), result()];
  await chat({ messages: [...first, called('f'), result('h'), result('f')] });
  const ids = conversation().messages.map((message: { tool_call_id?: string }) => message.tool_call_id);
  const [zero, one, two, three] = ['call00000', 'call00001', 'call00002', 'call00003'];
  expect(ids).toEqual([undefined, one, zero, two, undefined, three, undefined]);
});

it.each<[string, () => Promise<{ status: number; json: { error: string } }>, RegExp]>([
  ['an unknown option', () => chat({ options: { temprature: 1 } }), /options.temprature.*"temperature"/],
  ['mirostat', () => chat({ options: { mirostat: 2 } }), /options.mirostat/],
  [
    'a window of penalties',
    () => chat({ options: { repeat_last_n: 64, repeat_penalty: 1.1 } }),
    /all tokens/,
  ],
  ['pictures', () => generate({ images: ['aGk='] }), /images.*takes no images/],
  ['a suffix', () => generate({ suffix: 'b' }), /suffix/],
  ['a template', () => generate({ template: '{{ .Prompt }}' }), /template/],
  ['a context', () => generate({ context: [1, 2] }), /context/],
  ['a wrong duration', () => chat({ keep_alive: 'soon' }), /keep_alive.*5m/],
  ['a wrong role', () => chat({ messages: [{ role: 'robot', content: 'a' }] }), /messages.0.role/],
  ['an insecure hub', () => server.post('/api/pull', { model: 'a/b', insecure: true }), /certificate/],
  ['a pull of nothing', () => server.post('/api/pull', {}), /"model" is missing/],
])('refuses %s', async (_, ask, message) => {
  const { status, json } = await ask();
  expect([status, json.error]).toEqual([400, expect.stringMatching(message)]);
});

it('takes a window of penalties where there are none', async () => {
  expect((await chat({ options: { repeat_last_n: 64, repeat_penalty: 1 } })).status).toBe(200);
});

it.each([
  ['GET', '/api/chat', 405],
  ['POST', '/api/create', 404],
  ['POST', '/api/show', 404, { model: 'llama3' }],
])('%s %s has an error in its shape', async (method, path, status, body?: object) => {
  const answer = await server.ask(path, { method, body });
  expect(answer.status).toBe(status);
  expect(answer.json).toEqual({ error: expect.any(String) });
});

describe('several models', () => {
  let several: TestServer;
  beforeAll(async () => {
    several = await TestServer.start({}, ['one', 'two:q4', 'three:latest']);
  });
  afterAll(() => several.close());

  it('are listed with a tag each, and found with and without it', async () => {
    const { json } = await several.ask('/api/tags');
    const names = json.models.map(({ name }: { name: string }) => name);
    expect(names).toEqual(['one:latest', 'two:q4', 'three:latest']);
    for (const [at, name] of [...names, 'one'].entries()) {
      const messages = [{ role: 'user', content: 'a' }];
      const answer = await several.post('/api/chat', { model: name, messages, stream: false });
      expect([name, answer.status, answer.json.model]).toEqual([name, 200, name]);
      expect(several.engines[at % 3]!.started.length).toBeGreaterThan(0);
    }
    expect((await several.post('/api/show', { name: 'two:latest' })).status).toBe(404);
  });
});

it.each<[string | number | null | undefined, number | undefined]>([
  [null, undefined],
  [undefined, undefined],
  [0, 0],
  ['0', 0],
  [30, 30_000],
  ['5m', 300_000],
  ['1h30m', 5_400_000],
  ['250ms', 250],
  ['1.5s', 1_500],
  [-1, Number.POSITIVE_INFINITY],
  ['-1m', Number.POSITIVE_INFINITY],
])('keep_alive of %j is %j ms', (given, ms) => {
  expect(keptMs(given)).toBe(ms);
});

it('writes the arguments of calls with their digits', async () => {
  const args = '{"id":9007199254740993,"10":1.0,"2":[12345678901234567890]}';
  const answer = `<tool_call>{"name": "f", "arguments": ${args}}</tool_call>`;
  for (const stream of [true, false]) {
    does((run) => writeText(run, answer));
    expect((await chat({ stream, tools: [tool] })).text).toContain(`"arguments":${args}`);
  }
});
