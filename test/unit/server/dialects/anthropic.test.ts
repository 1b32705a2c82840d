// /v1/messages, in front of a scripted engine.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { formOf } from '../../../../src/queue/redis/stored-job.js';
import type { ChatResult } from '../../../../src/tasks/chat/job.js';
import type { TaskJob } from '../../../../src/tasks/registry.js';
import { writeText } from '../../../support/scripted-chat.js';
import { storedAndRead } from '../../../support/stored.js';
import { answerTo, MODEL, type ScriptedRun } from '../../queue/scripted-engine.js';
import { type Answer, TestServer } from '../test-server.js';

type Job = Extract<TaskJob, { kind: 'chat' }>;

let server: TestServer;
let last: TaskJob;
beforeAll(async () => {
  server = await TestServer.start({ strict: 'off' });
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

const user = (content: unknown) => ({ role: 'user', content });
const text = (value: string, more: object = {}) => ({ type: 'text', text: value, ...more });
const ask = (more: object = {}) =>
  server.post('/v1/messages', { max_tokens: 50, messages: [user('hi')], ...more });
const conversation = () => JSON.parse((last as Job).conversation);
const tool = { name: 'f', description: 'd', input_schema: { type: 'object' } };

it("answers in Anthropic's shape", async () => {
  const { status, json, headers } = await ask({ model: 'switch-mini' });
  expect(status).toBe(200);
  expect(json).toEqual({
    id: expect.stringMatching(/^msg_[0-9a-f]{24}$/),
    type: 'message',
    role: 'assistant',
    model: 'switch-mini',
    content: [{ type: 'text', text: 'good', citations: null }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: {
      input_tokens: 9,
      output_tokens: 1,
      output_tokens_details: { thinking_tokens: 0 },
      cache_read_input_tokens: 0,
      cache_creation_input_tokens: 0,
    },
  });
  expect(headers['request-id']).toBe(headers['x-request-id']);
  expect(last).toMatchObject({ kind: 'chat', maxTokens: 50, cutToContext: true, tools: false });
});

it('tells the tokens of the prompt that the prefix cache had', async () => {
  does((run) => run.finish({ ...answerTo(run.request), promptTokens: 9, cachedTokens: 6 } as never));
  expect((await ask()).json.usage).toMatchObject({ input_tokens: 3, cache_read_input_tokens: 6 });
});

it('passes blocks on as messages', async () => {
  await ask({
    system: [text('Be terse.', { cache_control: { type: 'ephemeral' } }), text('Be kind.')],
    messages: [
      user([text('a'), text('b')]),
      user('c'),
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'x' },
          { type: 'redacted_thinking', data: 'x' },
          text('I look.'),
          { type: 'tool_use', id: 't1', name: 'f', input: { a: 1 } },
          { type: 'tool_use', id: 't2', name: 'f', input: {} },
        ],
      },
      user([
        { type: 'tool_result', tool_use_id: 't1', content: [text('4')] },
        { type: 'tool_result', tool_use_id: 't2', content: 'no', is_error: true },
        text('Go on.'),
      ]),
      { role: 'system', content: 'Be quick.' },
    ],
    tools: [tool],
  });
  const call = (id: string, args: string) => ({
    id,
    type: 'function',
    function: { name: 'f', arguments: args },
  });
  expect(conversation()).toMatchObject({
    messages: [
      { role: 'system', content: 'Be terse.\nBe kind.' },
      user('a\nb\nc'),
      {
        role: 'assistant',
        content: 'I look.',
        reasoning_content: 'hm',
        tool_calls: [call('t1', '{"a":1}'), call('t2', '{}')],
      },
      { role: 'tool', content: '4', tool_call_id: 't1' },
      { role: 'tool', content: 'Error:\nno', tool_call_id: 't2' },
      user('Go on.'),
      { role: 'system', content: 'Be quick.' },
    ],
    tools: [{ type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' } } }],
  });
});

it('passes settings on', async () => {
  await ask({
    temperature: 0.5,
    top_p: 0.9,
    top_k: 7,
    stop_sequences: ['x', 'y'],
    thinking: { type: 'adaptive' },
    output_config: { effort: 'max', format: { type: 'json_schema', schema: { type: 'object' } } },
  });
  expect(last).toMatchObject({
    sampling: { temperature: 0.5, topP: 0.9, topK: 7 },
    stop: ['x', 'y'],
    structure: { content: { schema: '{"type":"object"}' } },
  });
  expect(conversation()).toMatchObject({ reasoning_effort: 'high', enable_thinking: true });
});

it.each([
  [{ type: 'any' }, ['f', 'g']],
  [{ type: 'tool', name: 'g' }, ['g']],
  [{ type: 'auto' }, undefined],
  [undefined, undefined],
])('demands calls with the choice %j', async (tool_choice, names) => {
  await ask({ tools: [tool, { ...tool, name: 'g' }], tool_choice });
  expect((last as Job).structure?.calls?.map(({ name }) => name)).toEqual(names);
  expect((last as Job).tools).toBe(true);
});

it('offers no tools with the choice none', async () => {
  await ask({ tools: [tool], tool_choice: { type: 'none' } });
  expect([(last as Job).tools, conversation().tools]).toEqual([false, undefined]);
});

it('streams every event in order', async () => {
  const said =
    '<think>\nhm\n</think>\n\nWait.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>';
  does((run) => {
    run.options.onDelta?.({
      index: 0,
      text: '',
      tokenIds: [7],
      logprobs: null,
      finishReason: null,
      promptTokens: 9,
    });
    writeText(run, said);
  });
  const { text, headers } = await ask({ stream: true, tools: [tool], thinking: { type: 'enabled' } });
  expect(headers['content-type']).toMatch(/^text\/event-stream/);
  const events = text
    .trim()
    .split('\n\n')
    .map((event) => {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(event)!;
      const json = JSON.parse(data!);
      expect(json.type).toBe(name);
      return json;
    });
  const kinds = events.map(({ type, index, delta, content_block: block }) =>
    [type, index, delta?.type, block?.type].filter((part) => part !== undefined).join(' '),
  );
  expect(kinds.filter((kind, at) => kind !== kinds[at - 1])).toEqual([
    'message_start',
    'ping',
    'content_block_start 0 thinking',
    'content_block_delta 0 thinking_delta',
    'content_block_stop 0',
    'content_block_start 1 text',
    'content_block_delta 1 text_delta',
    'content_block_stop 1',
    'content_block_start 2 tool_use',
    'content_block_delta 2 input_json_delta',
    'content_block_stop 2',
    'message_delta',
    'message_stop',
  ]);
  expect(events[0].message).toMatchObject({ content: [], stop_reason: null, usage: { input_tokens: 9 } });
  const joined = (field: string) => events.map(({ delta }) => delta?.[field] ?? '').join('');
  expect([joined('thinking'), joined('text').trim(), joined('partial_json')]).toEqual([
    'hm',
    'Wait.',
    '{"a": 1}',
  ]);
  expect(kinds.filter((kind) => kind.endsWith('input_json_delta')).length).toBeGreaterThan(3);
  expect(events.at(-2)).toMatchObject({ delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 1 } });
});

it.each([
  ['length', undefined, 50, 'max_tokens'],
  ['length', undefined, 20, 'model_context_window_exceeded'],
  ['stop', 'x', 20, 'stop_sequence'],
  ['stop', undefined, 20, 'end_turn'],
] as const)('names the end %s, %s after %i tokens: %s', async (finishReason, stop, tokens, reason) => {
  does((run) => {
    const result = answerTo(run.request) as ChatResult;
    const choices = [{ ...result.choices[0]!, finishReason, ...(stop !== undefined && { stop }) }];
    run.finish({ ...result, choices, completionTokens: tokens });
  });
  const { json } = await ask({ stop_sequences: ['x'] });
  expect([json.stop_reason, json.stop_sequence]).toEqual([reason, stop ?? null]);
});

it('a call that was cut off has an empty input', async () => {
  does((run) => {
    writeText(run, '<tool_call>\n{"name": "f", "arguments": {"a": ', { finishReason: 'length' });
  });
  const { json } = await ask({ tools: [tool] });
  for (const block of json.content) if (block.type === 'tool_use') expect(block.input).toEqual({});
  expect(json.stop_reason).not.toBe('tool_use');
});

it('takes the long session of an agent', async () => {
  const turns = Array.from({ length: 300 }, (_, at) => [
    {
      role: 'assistant',
      content: [
        text('I look.'),
        { type: 'tool_use', id: `t${at}`, name: 'f', input: { path: '/a', offset: 1, limit: 2 } },
      ],
    },
    user([
      { type: 'tool_result', tool_use_id: `t${at}`, content: 'found', is_error: false },
      text('Go on.', { cache_control: { type: 'ephemeral' } }),
    ]),
  ]).flat();
  const tools = Array.from({ length: 100 }, (_, at) => ({ ...tool, name: `mcp__server__tool_${at}` }));
  const { status, text: said } = await ask({ messages: [user('hi'), ...turns], tools });
  expect(status, said).toBe(200);
  expect(conversation().messages).toHaveLength(1 + 3 * 300);
});

it.each<[string, string, () => Promise<Answer>]>([
  ['chat', 'chat', () => ask({ tools: [tool], stop_sequences: ['x'] })],
  ['count', 'tokenize', () => server.post('/v1/messages/count_tokens', { messages: [user('hi')] })],
])('the job of a %s is stored in Redis and read back', async (_, kind, send) => {
  expect((await send()).status).toBe(200);
  const result = answerTo(last);
  expect(last.kind).toBe(kind);
  expect(await storedAndRead(last, result)).toEqual({ request: last, form: formOf(last), result });
});

it('counts the tokens of the same conversation without running the model', async () => {
  const body = { system: 'Be terse.', messages: [user('hi')], tools: [tool] };
  await ask(body);
  const asked = conversation();
  does((run) => run.finish({ ...answerTo(run.request), promptTokens: 42 } as never));
  const { json } = await server.post('/v1/messages/count_tokens', body);
  expect(json).toEqual({ input_tokens: 42 });
  expect(last).toMatchObject({ kind: 'tokenize', inputs: [] });
  expect(JSON.parse((last as Extract<TaskJob, { kind: 'tokenize' }>).conversation!)).toEqual(asked);
});

describe('refuses', () => {
  it.each<[string, object, string, RegExp]>([
    ['no max_tokens', { max_tokens: undefined }, 'max_tokens', /missing/],
    ['a picture', { messages: [user([{ type: 'image', source: {} }])] }, 'messages.0.content.0', /"image"/],
    [
      'a picture in a result',
      {
        messages: [
          user([{ type: 'tool_result', tool_use_id: 'a', content: [text('a'), { type: 'image' }] }]),
        ],
      },
      'messages.0.content.0.content.1',
      /"image"/,
    ],
    ['a call of a user', { messages: [user([{ type: 'tool_use' }])] }, 'messages.0.content.0', /tool_use/],
    ['a text without text', { messages: [user([{ type: 'text' }])] }, 'messages.0.content.0.text', /a text/],
    ['a document in system', { system: [{ type: 'document' }] }, 'system.0', /"document"/],
    ['a tool that Anthropic runs', { tools: [{ type: 'web_search_20250305' }] }, 'tools.0.type', /custom/],
    ['servers of MCP', { mcp_servers: [{ type: 'url' }] }, 'mcp_servers', /MCP/],
    ['a container', { container: 'c' }, 'container', /containers/],
    ['a choice without tools', { tool_choice: { type: 'any' } }, 'tool_choice', /no tools/],
    ['an empty stop sequence', { stop_sequences: [''] }, 'stop_sequences.0', /not empty/],
    [
      'a schema that no grammar follows',
      { tools: [{ ...tool, input_schema: { not: {} } }], tool_choice: { type: 'any' } },
      'tools.0.parameters',
      /not/,
    ],
  ])('%s', async (_, body, param, message) => {
    const { status, json } = await ask(body);
    expect([status, json.type, json.error.type]).toEqual([400, 'error', 'invalid_request_error']);
    expect(json.error.message).toContain(param);
    expect(json.error.message).toMatch(message);
  });

  it('threads, in words that clients know', async () => {
    const { status, json } = await ask({ thread: { type: 'continue', previous_message_id: 'msg_1' } });
    expect(status).toBe(400);
    expect(json.error.details).toMatchObject({ error_code: 'thread_unsupported_request' });
  });

  it('names fields without effect', async () => {
    const { status, headers } = await ask({
      metadata: { user_id: 'u' },
      context_management: { edits: [] },
      dream: 1,
    });
    expect(status).toBe(200);
    expect(headers['x-ignored-fields']).toBe('metadata, context_management, dream');
  });
});

it.each([
  ['unauthorized', 401, 'authentication_error'],
  ['request_too_large', 413, 'request_too_large'],
  ['cannot_run', 422, 'invalid_request_error'],
  ['queue_full', 429, 'rate_limit_error'],
  ['nonfinite_output', 500, 'api_error'],
  ['engine_crashed', 503, 'overloaded_error'],
  ['deadline_exceeded', 504, 'timeout_error'],
] as const)('the error %s has its status and its type', async (code, status, type) => {
  does((run) => run.fail(code));
  const answer = await ask();
  expect([answer.status, answer.json]).toEqual([
    status,
    {
      type: 'error',
      error: { type, message: expect.any(String) },
      request_id: answer.headers['request-id'],
    },
  ]);
});

it('says that a prompt is too long in words that clients know', async () => {
  does((run) => run.fail('context_length_exceeded', { details: { tokens: 600, limit: 512 } }));
  expect((await ask()).json.error.message).toMatch(/^prompt is too long: 600 tokens > 512 maximum/);
});

it.each([
  ['GET', '/v1/messages', 405, 'invalid_request_error'],
  ['POST', '/v1/messages/batches', 404, 'not_found_error'],
])('%s %s has an error in its shape', async (method, path, status, type) => {
  const answer = await server.ask(path, { method });
  expect([answer.status, answer.json.error.type]).toEqual([status, type]);
});

it('writes the input of calls with its digits', async () => {
  const input = '{"id":9007199254740993,"10":1.0,"2":[12345678901234567890]}';
  does((run) => writeText(run, `<tool_call>{"name": "f", "arguments": ${input}}</tool_call>`));
  const answer = await ask({ tools: [tool] });
  expect(answer.text).toContain(`"input":${input}`);
});
