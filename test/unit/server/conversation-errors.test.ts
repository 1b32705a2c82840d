// What /v1/chat/completions and /v1/responses refuse, by the field and the words of the error.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { MODEL } from '../queue/scripted-engine.js';
import { TestServer } from './test-server.js';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());
beforeEach(() => {
  server.engine.model = MODEL;
  server.engine.script = (run) => run.finish();
});

type Refused = [what: string, body: object, param: string, message: string];

async function refused(path: string, body: object) {
  const { status, json } = await server.post(path, body);
  return [status, json.error?.param, json.error?.message];
}

const CHAT = { messages: [{ role: 'user', content: 'hi' }] };
/** A message with calls of these arguments. */
const called = (...args: string[]) => ({
  messages: [
    { role: 'assistant', tool_calls: args.map((each) => ({ function: { name: 'f', arguments: each } })) },
  ],
});
const nested = (levels: number) => `${'{"a":'.repeat(levels)}0${'}'.repeat(levels)}`;

it.each<Refused>([
  [
    'a tool without a name',
    { tools: [{ type: 'function', function: {} }] },
    'tools.0.function.name',
    'The field "tools.0.function.name" is missing',
  ],
  [
    'a tool without a function',
    { tools: [{ type: 'function' }] },
    'tools.0.function',
    'The field "tools.0.function" is missing',
  ],
  [
    'deep arguments',
    called('{}', nested(33)),
    'messages.0.tool_calls.1.function.arguments',
    'The field "messages.0.tool_calls.1.function.arguments" is wrong. Expected JSON of at most 32 levels',
  ],
  [
    'deep arguments behind a key that stands twice',
    called(`{"a":1,"a":${nested(33)}}`),
    'messages.0.tool_calls.0.function.arguments',
    'The field "messages.0.tool_calls.0.function.arguments" is wrong. Expected JSON of at most 32 levels',
  ],
  [
    'arguments of many fields',
    called(JSON.stringify(Object.fromEntries(Array.from({ length: 8_193 }, (_, at) => [at, 0])))),
    'messages.0.tool_calls.0.function.arguments',
    'The field "messages.0.tool_calls.0.function.arguments" is wrong. Expected JSON of at most 8192 fields',
  ],
  [
    'too many parts in a message',
    {
      messages: [
        { role: 'user', content: Array.from({ length: 1_025 }, () => ({ type: 'text', text: '' })) },
      ],
    },
    'messages.0.content',
    'The field "messages.0.content" is wrong. Expected a text or a list of at most 1024 parts',
  ],
  [
    'a bias of no token id',
    { logit_bias: { abc: 1 } },
    'logit_bias.abc',
    'The field "logit_bias.abc" is wrong. Expected a token id as the name, but got "abc"',
  ],
  [
    'options of no stream',
    { stream_options: { include_usage: true } },
    'stream_options',
    'Expected "stream" to be true beside "stream_options", but got nothing',
  ],
  [
    'a format without a name',
    { response_format: { type: 'json_schema', json_schema: { schema: {} } } },
    'response_format.json_schema.name',
    'The field "response_format.json_schema.name" is missing',
  ],
  [
    'an unknown effort',
    { reasoning_effort: 'huge' },
    'reasoning_effort',
    'The field "reasoning_effort" is wrong. Expected "none", "minimal", "low", "medium", "high" or "xhigh", but got "huge"',
  ],
])('a chat with %s is refused', async (_, body, param, message) => {
  expect(await refused('/v1/chat/completions', { ...CHAT, ...body })).toEqual([400, param, message]);
});

it.each([
  ['a key that stands twice', '{"a":1,"a":2}'],
  ['as many levels as are allowed', nested(32)],
  ['a list, which stays a text,', '['.repeat(100_000)],
  ['no object', '"a"'],
  ['no JSON', 'no JSON'],
  ['nothing', ''],
])('a chat with calls whose arguments are %s is taken', async (_, args) => {
  const { status, text } = await server.post('/v1/chat/completions', called(args));
  expect(status, text).toBe(200);
});

const forced = (tool: object) => ({ tools: [{ type: 'function', ...tool }], tool_choice: 'required' });

it.each<Refused>([
  [
    'a tool without a name',
    forced({ parameters: {} }),
    'tools.0.name',
    'The field "tools.0.name" is missing',
  ],
  [
    'a tool with an empty name after a tool of another type',
    { tools: [{ type: 'web_search' }, { type: 'function', name: '' }] },
    'tools.1.name',
    'The field "tools.1.name" is wrong. Expected a text that is not empty',
  ],
  [
    'parameters that are a text',
    forced({ name: 'f', parameters: 'a' }),
    'tools.0.parameters',
    'The field "tools.0.parameters" is wrong. Expected an object, but got "a"',
  ],
  [
    'a format without a name',
    { text: { format: { type: 'json_schema', schema: {} } } },
    'text.format.name',
    'The field "text.format.name" is missing',
  ],
  [
    'an unknown effort',
    { reasoning: { effort: 'huge' } },
    'reasoning.effort',
    'The field "reasoning.effort" is wrong. Expected "none", "minimal", "low", "medium", "high" or "xhigh", but got "huge"',
  ],
])('a response with %s is refused', async (_, body, param, message) => {
  expect(await refused('/v1/responses', { input: 'hi', ...body })).toEqual([400, param, message]);
});

const user = (content: unknown) => ({ role: 'user', content });
const CALL = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' };
/** Items that become one message. */
const MERGED = [{ type: 'reasoning', summary: [] }, { role: 'assistant', content: 'a' }, CALL, CALL];

it.each<[what: string, body: object, param: string]>([
  ['an image', { input: [user([{ type: 'input_image' }])] }, 'input.0.content.0'],
  ['a part without a text', { input: [user([{ type: 'input_text' }])] }, 'input.0.content.0.text'],
  ['no content', { input: [user(null)] }, 'input.0.content'],
  [
    'an image after items of one message',
    { input: [...MERGED, user([{ type: 'input_image' }])] },
    'input.4.content.0',
  ],
  ['an unknown role', { input: [user('a'), { role: 'robot', content: 'a' }] }, 'input.1.role'],
  ['a call without arguments', { input: [{ ...CALL, arguments: 5 }] }, 'input.0.arguments'],
  ['deep arguments', { input: [user('a'), { ...CALL, arguments: nested(33) }] }, 'input.1.arguments'],
  [
    'too much reasoning',
    { input: [{ type: 'reasoning', content: Array.from({ length: 1_025 }, () => ({ text: '' })) }] },
    'input.0.content',
  ],
  ['no output', { input: [CALL, { type: 'function_call_output', call_id: 'c' }] }, 'input.1.output'],
  [
    'an image as output',
    { input: [CALL, { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image' }] }] },
    'input.1.output.0',
  ],
  ['reasoning without a text', { input: [{ type: 'reasoning', content: [{}] }] }, 'input.0.content.0.text'],
  ['long instructions', { instructions: 'a'.repeat(70_000) }, 'instructions'],
  ['a long text', { input: 'a'.repeat(70_000) }, 'input'],
])('a response with %s is refused by the field of the client', async (_, body, param) => {
  const [status, found] = await refused('/v1/responses', { input: 'hi', ...body });
  expect(status).toBeGreaterThanOrEqual(400);
  expect(status).toBeLessThan(500);
  expect(found).toBe(param);
});

it('a completion with options of no stream is refused', async () => {
  const body = { prompt: 'a', stream: false, stream_options: { include_usage: true } };
  const message = 'Expected "stream" to be true beside "stream_options", but got false';
  expect(await refused('/v1/completions', body)).toEqual([400, 'stream_options', message]);
});
