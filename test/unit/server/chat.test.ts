// /v1/chat/completions and /v1/responses, in front of a scripted engine.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { formOf } from '../../../src/queue/redis/stored-job.js';
import type { TaskJob } from '../../../src/tasks/registry.js';
import { writeText } from '../../support/scripted-chat.js';
import { storedAndRead } from '../../support/stored.js';
import { answerTo, MODEL } from '../queue/scripted-engine.js';
import { TestServer } from './test-server.js';

type ChatLike = Extract<TaskJob, { kind: 'chat' | 'respond' }>;

let server: TestServer;
let last: ChatLike;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());
beforeEach(() => {
  server.engine.model = MODEL;
  says('good');
});

/** The engine answers with the text, in deltas of the given pieces. */
function says(text: string, { pieces = [text], finishReason = 'stop' as 'stop' | 'length' } = {}): void {
  server.engine.script = (run) => {
    last = run.request as ChatLike;
    writeText(run, text, { pieces, finishReason });
  };
}

const conversation = () => JSON.parse(last.conversation);
const user = (content: unknown) => ({ role: 'user', content });
const chat = (more: object = {}) => server.post('/v1/chat/completions', { messages: [user('hi')], ...more });
const respond = (more: object = {}) => server.post('/v1/responses', { input: 'hi', ...more });
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' }, description: 'd' } };
const CALL =
  '<think>\nhm\n</think>\n\nWait.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>';

/** The JSON of a stream's events; `[DONE]` as text. */
function events(text: string): (Record<string, unknown> | string)[] {
  const lines = text.split('\n').filter((line) => line.startsWith('data: '));
  return lines.map((line) => (line === 'data: [DONE]' ? '[DONE]' : JSON.parse(line.slice(6))));
}

describe('a chat', () => {
  it('has the shape of OpenAI', async () => {
    const { status, json } = await chat();
    expect(status).toBe(200);
    expect(json).toEqual({
      id: expect.stringMatching(/^chatcmpl-/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'switch-mini',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'good', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 9,
        completion_tokens: 1,
        total_tokens: 10,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      },
    });
    expect(conversation()).toEqual({ add_generation_prompt: true, messages: [user('hi')] });
    expect(last).toMatchObject({ maxTokens: null, tools: false, stop: [], logprobs: null });
  });

  it('counts the bytes of the conversation', async () => {
    await chat({ messages: [user('é 漢 🎬')] });
    expect(last.conversationBytes).toBe(Buffer.byteLength(last.conversation));
    expect(last.conversationBytes).toBeGreaterThan(last.conversation.length);
  });

  it('passes messages on as templates expect them', async () => {
    const calls = [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }];
    const messages = [
      { role: 'developer', content: 'Be terse.' },
      user([
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ]),
      { role: 'assistant', content: null, reasoning_content: 'hm', tool_calls: calls },
      { role: 'tool', tool_call_id: 'c1', content: '4' },
    ];
    await chat({ messages });
    const { messages: found } = conversation();
    expect(found).toEqual([
      { role: 'system', content: 'Be terse.' },
      user('a\nb'),
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'hm',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
      },
      { role: 'tool', content: '4', tool_call_id: 'c1' },
    ]);
  });

  it('passes on settings, tools in the order of their keys, and variables of the template', async () => {
    await chat({
      tools: [tool],
      tool_choice: 'auto',
      max_completion_tokens: 5,
      max_tokens: 9,
      stop: 'x',
      temperature: 0.5,
      seed: 3,
      n: 2,
      logprobs: true,
      top_logprobs: 2,
      reasoning_effort: 'low',
      chat_template_kwargs: { enable_thinking: false },
    });
    expect(last).toMatchObject({ maxTokens: 5, maxTokensField: 'max_completion_tokens', stop: ['x'] });
    expect(last).toMatchObject({ choices: 2, logprobs: 2, tools: true });
    expect(last.sampling).toMatchObject({ temperature: 0.5, seed: 3 });
    expect(conversation()).toMatchObject({ reasoning_effort: 'low', enable_thinking: false });
    expect(JSON.stringify(conversation().tools)).toBe(JSON.stringify([tool]));
  });

  it('samples as the model advises where the request does not say, and tells it', async () => {
    const sampling = { temperature: 0.6, topP: 0.95, topK: 20, minP: 0, repetitionPenalty: 1.05 };
    server.engine.model = { ...MODEL, sampling };
    await chat();
    expect(last.sampling).toEqual({
      temperature: 0.6,
      topP: 0.95,
      topK: 20,
      minP: 0,
      seed: expect.any(Number),
    });
    expect(last.adjustments).toMatchObject({ repetition: 1.05 });
    await chat({ top_p: 0.5, temperature: 1, repetition_penalty: 1 });
    expect(last.sampling).toMatchObject({ temperature: 1, topP: 0.5, topK: 20 });
    expect(last.adjustments).toBeUndefined();
    await chat({ temperature: 0 });
    expect(last.sampling).toBeUndefined();
    expect((await respond()).json).toMatchObject({ temperature: 0.6, top_p: 0.95 });
    const told = { temperature: 0.6, top_p: 0.95, top_k: 20, min_p: 0, repetition_penalty: 1.05 };
    expect((await server.ask('/v1/models/switch-mini')).json.sampling).toEqual(told);
    server.engine.model = MODEL;
    expect((await server.ask('/v1/models/switch-mini')).json.sampling).toBeNull();
  });

  it('offers no tools with the choice "none"', async () => {
    says(CALL);
    const { json } = await chat({ tools: [tool], tool_choice: 'none' });
    expect(conversation().tools).toBeUndefined();
    expect(json.choices[0].message.content).toContain('<tool_call>');
  });

  it('splits reasoning, content and calls', async () => {
    says(CALL);
    const { json } = await chat({ tools: [tool] });
    expect(json.choices[0]).toMatchObject({
      message: {
        content: 'Wait.',
        reasoning_content: 'hm',
        tool_calls: [
          {
            id: expect.stringMatching(/^call_[0-9a-f]{24}$/),
            type: 'function',
            function: { name: 'f', arguments: '{"a": 1}' },
          },
        ],
      },
      finish_reason: 'tool_calls',
    });
    says('<tool_call>{"name": "f", "arguments": {}}</tool_call>');
    expect((await chat({ tools: [tool] })).json.choices[0].message.content).toBeNull();
  });

  it('streams the parts as they come, and the usage on request', async () => {
    says(CALL, { pieces: [...CALL] });
    const { text } = await chat({ tools: [tool], stream: true, stream_options: { include_usage: true } });
    const chunks = events(text);
    expect(chunks.pop()).toBe('[DONE]');
    expect(chunks.pop()).toMatchObject({ choices: [], usage: { total_tokens: 10 } });
    expect(new Set(chunks.map((chunk) => (chunk as { usage?: null }).usage))).toEqual(new Set([null]));
    const choices = chunks.map(
      (chunk) => (chunk as { choices: [{ delta: never; finish_reason: string }] }).choices[0],
    );
    const deltas = choices.map(({ delta }) => delta) as {
      role?: string;
      content?: string;
      reasoning_content?: string;
      tool_calls?: { index: number; id?: string; function: { name?: string; arguments: string } }[];
    }[];
    expect(deltas[0]).toEqual({ role: 'assistant', content: '' });
    expect(deltas.map(({ content = '' }) => content).join('')).toBe('Wait.');
    expect(deltas.map(({ reasoning_content = '' }) => reasoning_content).join('')).toBe('hm');
    const calls = deltas.flatMap(({ tool_calls = [] }) => tool_calls);
    expect(calls.filter(({ id }) => id !== undefined)).toHaveLength(1);
    expect(calls.map((call) => call.function.arguments).join('')).toBe('{"a": 1}');
    expect(calls.length).toBeGreaterThan(3);
    expect(choices.at(-1)).toMatchObject({ delta: {}, finish_reason: 'tool_calls' });
  });

  it('gives log-probabilities of all tokens, with their bytes', async () => {
    server.engine.script = (run) => {
      const top = [{ id: 7, token: 'é', logprob: -0.5 }];
      writeText(run, 'é', { logprobs: [{ ...top[0]!, offset: 0, top }] });
    };
    const { json } = await chat({ logprobs: true, top_logprobs: 1 });
    const token = { token: 'é', logprob: -0.5, bytes: [0xc3, 0xa9] };
    expect(json.choices[0].logprobs).toEqual({
      content: [{ ...token, top_logprobs: [token] }],
      refusal: null,
    });
  });

  it('reports the usage so far with every chunk on request', async () => {
    says('Hello', { pieces: ['He', 'll', 'o'] });
    const options = { include_usage: true, continuous_usage_stats: true };
    const { text } = await chat({ stream: true, stream_options: options });
    const chunks = events(text).slice(0, -1) as { usage: { completion_tokens: number } }[];
    const counts = chunks.map(({ usage }) => usage.completion_tokens);
    expect(counts.slice(0, -1)).toEqual([...counts.slice(0, -1)].sort((a, b) => a - b));
    expect(counts.slice(0, -1).at(-1)).toBe(3);
  });

  it('takes what old clients write for no call', async () => {
    expect((await chat({ function_call: 'none' })).status).toBe(200);
  });

  it('takes the calls of functions that came before calls of tools', async () => {
    const call = { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } };
    const messages = [{ role: 'user', content: 'a' }, call, { role: 'function', name: 'f', content: '1' }];
    expect((await chat({ messages })).status).toBe(200);
    const { messages: given } = conversation();
    expect(given[1].tool_calls).toEqual([{ type: 'function', function: { name: 'f', arguments: '{}' } }]);
    expect(given[2]).toEqual({ role: 'tool', name: 'f', content: '1' });
  });

  it.each([
    ['of no call', [{ role: 'tool', content: 'x', tool_call_id: 'call_1' }]],
    ['of no call, without an id', [{ role: 'tool', content: 'x' }]],
    [
      'of another call',
      [
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'a', function: { name: 'f', arguments: '{}' } }],
        },
        { role: 'tool', content: 'x', tool_call_id: 'b' },
      ],
    ],
  ])('refuses the result %s', async (_, behind) => {
    const messages = [{ role: 'user', content: 'a' }, ...behind];
    const { status, json } = await chat({ messages });
    expect([status, json.error?.param]).toEqual([400, `messages.${messages.length - 1}.content`]);
  });

  it('keeps the digits and the order of tools and of arguments', async () => {
    const parameters = '{"b":1.0,"10":12345678901234567890,"2":{"default":1e-7}}';
    const args = JSON.stringify('{"id": 1234567890123456789}');
    await server.post(
      '/v1/chat/completions',
      `{"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"function":{"name":"f",` +
        `"arguments":${args}}}]}],"tools":[{"type":"function","function":{"name":"f","parameters":${parameters}}}]}`,
    );
    expect(last.conversation).toContain(parameters);
    expect(last.conversation).toContain(args);
  });

  it('says so where the template refuses a system message', async () => {
    const { chat: format } = MODEL;
    server.engine.model = { ...MODEL, chat: { ...format!, systemMessages: 'nowhere' } };
    const messages = [{ role: 'system', content: 'Be terse.' }, user('hi')];
    for (const stream of [false, true]) {
      const { headers } = await chat({ messages, stream });
      expect(headers['x-warnings']).toMatch(/refuses a system message/);
      expect(conversation().messages).toEqual([user('Be terse.\nhi')]);
    }
    expect((await chat()).headers['x-warnings']).toBeUndefined();
  });

  it('continues the last message of the assistant', async () => {
    const begun = { role: 'assistant', content: 'One,' };
    await chat({ messages: [user('Count.'), begun] });
    expect(conversation()).toMatchObject({ add_generation_prompt: false, continue_final_message: true });
    await chat({ messages: [user('Count.'), begun, user('b')] });
    expect(conversation()).toEqual({
      add_generation_prompt: true,
      messages: [user('Count.'), begun, user('b')],
    });
  });

  it('names what it ignores', async () => {
    const { headers } = await chat({ user: 'u', parallel_tool_calls: false, dream: 1 });
    expect(headers['x-ignored-fields']).toBe('user, parallel_tool_calls, dream');
  });

  it.each<[string, object, string]>([
    ['no messages', { messages: [] }, 'messages'],
    ['an unknown role', { messages: [{ role: 'robot', content: 'a' }] }, 'messages.0.role'],
    ['a user without content', { messages: [{ role: 'user' }] }, 'messages.0.content'],
    [
      'a picture',
      { messages: [user([{ type: 'image_url', image_url: { url: 'x' } }])] },
      'messages.0.content.0',
    ],
    ['a tool of another type', { tools: [{ type: 'web_search' }] }, 'tools.0.type'],
    ['a call of no tool', { tool_choice: 'required' }, 'tool_choice'],
    [
      'a call of an unknown tool',
      { tools: [tool], tool_choice: { type: 'function', function: { name: 'nothing' } } },
      'tool_choice',
    ],
    ['a penalty above 2', { presence_penalty: 2.5 }, 'presence_penalty'],
    ['a bias above 100', { logit_bias: { 5: 101 } }, 'logit_bias.5'],
    ['a bias of no token', { logit_bias: { 99999999: 1 } }, 'logit_bias'],
    [
      'a choice of several tools',
      { tools: [tool], tool_choice: { type: 'allowed_tools', tools: [] } },
      'tool_choice',
    ],
    ['an unknown format', { response_format: { type: 'xml' } }, 'response_format.type'],
    [
      'a schema that no grammar follows',
      { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { not: {} } } } },
      'response_format',
    ],
    [
      'parameters that are no object',
      {
        tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'string' } } }],
        tool_choice: 'required',
      },
      'tools.0.function.parameters',
    ],
    [
      'a name that no call can have',
      { tools: [tool, { type: 'function', function: { name: 'a b!' } }] },
      'tools.1.function.name',
    ],
    [
      'a name of 65 letters',
      { tools: [{ type: 'function', function: { name: 'a'.repeat(65) } }] },
      'tools.0.function.name',
    ],
    ['a call of a function', { function_call: 'auto' }, 'function_call'],
    ['top_logprobs alone', { top_logprobs: 3 }, 'top_logprobs'],
    ...['messages', 'range', 'raise_exception', 'strftime_now', 'true', 'pad_token', 'namespace'].map(
      (name): [string, object, string] => [
        `${name} among the variables`,
        { chat_template_kwargs: { enable_thinking: false, [name]: [] } },
        `chat_template_kwargs.${name}`,
      ],
    ),
  ])('refuses %s', async (_, body, param) => {
    const { status, json } = await chat(body);
    expect([status, json.error.param]).toEqual([400, param]);
  });

  it('tells how many of its tokens are reasoning, also as a response', async () => {
    server.engine.script = (run) => run.finish({ ...answerTo(run.request), reasoningTokens: 4 } as never);
    const { json } = await chat();
    expect(json.usage.completion_tokens_details).toEqual({ reasoning_tokens: 4 });
    expect((await respond()).json.usage.output_tokens_details).toEqual({ reasoning_tokens: 4 });
  });

  it('streams chunks without a usage unless the request asks for it', async () => {
    const { text } = await chat({ stream: true });
    expect(text).not.toContain('usage');
  });

  it('is refused by a model without a template', async () => {
    server.engine.model = { ...MODEL, chat: null };
    const { status, json } = await chat();
    expect([status, json.error.message]).toEqual([400, expect.stringMatching(/no chat template/)]);
  });

  it('is kept as a job', async () => {
    const { status, json } = await server.post('/v1/jobs', { type: 'chat', messages: [user('a')] });
    expect(status).toBe(202);
    await expect
      .poll(async () => (await server.ask(`/v1/jobs/${json.id}`)).json)
      .toMatchObject({
        status: 'completed',
        answer: { object: 'chat.completion', id: `chatcmpl-${json.id}` },
      });
  });
});

it.each([
  ['a chat', () => chat({ tools: [tool], temperature: 1, n: 2, logprobs: true, return_token_ids: true })],
  [
    'a response',
    () => respond({ tools: [{ type: 'function', name: 'f' }], instructions: 'a', temperature: 1 }),
  ],
])('%s is stored in Redis and read back', async (_, ask) => {
  const { json } = await ask();
  expect(json.error ?? null).toBeNull();
  const result = answerTo(last);
  expect(await storedAndRead(last, result)).toEqual({ request: last, form: formOf(last), result });
});

const WRONG = { name: 'g', parameters: { properties: { a: { not: { type: 'integer' } } } } };
const demand = (tools: object[]) => ({ tools, tool_choice: 'required' });

it.each([
  [
    'a chat',
    'tools.1.function.parameters',
    () => chat(demand([tool, { type: 'function', function: WRONG }])),
  ],
  [
    'a response',
    'tools.2.parameters',
    () =>
      respond(
        demand([{ type: 'web_search' }, { type: 'function', name: 'f' }, { type: 'function', ...WRONG }]),
      ),
  ],
  [
    'a chat that names a tool',
    'tools.1.function.parameters',
    () =>
      chat({
        tools: [tool, { type: 'function', function: WRONG }],
        tool_choice: { type: 'function', function: { name: 'g' } },
      }),
  ],
])('%s says which tool has a schema that no grammar follows, and where', async (_, param, ask) => {
  const { status, json } = await ask();
  expect([status, json.error.param]).toEqual([400, param]);
  expect(json.error.message).toMatch(/^The JSON schema at properties\.a\.not cannot be used/);
});

describe('a response', () => {
  it('has the shape of OpenAI', async () => {
    const { status, json } = await respond({ instructions: 'Be terse.', max_output_tokens: 5, store: true });
    expect(status).toBe(200);
    expect(json).toMatchObject({
      id: expect.stringMatching(/^resp_/),
      object: 'response',
      status: 'completed',
      error: null,
      incomplete_details: null,
      instructions: 'Be terse.',
      max_output_tokens: 5,
      store: false,
      previous_response_id: null,
      output: [
        {
          type: 'message',
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', text: 'good', annotations: [] }],
        },
      ],
      usage: {
        input_tokens: 9,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 1,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 10,
      },
    });
    expect(conversation().messages).toEqual([{ role: 'system', content: 'Be terse.' }, user('hi')]);
  });

  it('takes the items of an earlier turn, and joins those of one message', async () => {
    const input = [
      { role: 'user', content: [{ type: 'input_text', text: 'hi' }] },
      { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'hm' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Wait.' }] },
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"a":1}' },
      { type: 'function_call', call_id: 'c2', name: 'g', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: '4' },
      { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: '5' }] },
    ];
    await respond({ input });
    const call = (id: string, name: string, args: string) => {
      return { id, type: 'function', function: { name, arguments: args } };
    };
    expect(conversation().messages).toEqual([
      user('hi'),
      {
        role: 'assistant',
        content: 'Wait.',
        reasoning_content: 'hm',
        tool_calls: [call('c1', 'f', '{"a":1}'), call('c2', 'g', '{}')],
      },
      { role: 'tool', content: '4', tool_call_id: 'c1' },
      { role: 'tool', content: '5', tool_call_id: 'c2' },
    ]);
  });

  it.each<[string, object]>([
    ['reasoning', { content: [{ type: 'reasoning_text', text: 'thinking' }] }],
    ['a summary', { summary: [{ type: 'summary_text', text: 'thinking' }] }],
    ['encrypted reasoning', { summary: [], encrypted_content: 'x' }],
  ])('leaves out %s that no answer follows', async (_, own) => {
    const reasoning = { type: 'reasoning', id: 'rs_1', ...own };
    const input = [user('a'), reasoning, user('b'), reasoning];
    expect((await respond({ input })).status).toBe(200);
    expect(conversation().messages).toEqual([user('a'), user('b')]);
    expect((await respond({ input: [reasoning] })).status).toBe(200);
    expect(conversation().messages).toMatchObject([{ role: 'assistant', content: '' }]);
  });

  it('gives each message and each call the reasoning before it, also a summary', async () => {
    const thought = (text: string) => ({ type: 'reasoning', summary: [{ text }], content: [] });
    const call = { type: 'function_call', name: 'f', arguments: '{}' };
    const said = { role: 'assistant', content: 'b' };
    await respond({ input: [user('a'), thought('1'), call, thought('2'), thought('3'), said, call] });
    const calls = [{ type: 'function', function: { name: 'f', arguments: '{}' } }];
    expect(conversation().messages).toEqual([
      user('a'),
      { role: 'assistant', content: null, reasoning_content: '1', tool_calls: calls },
      { role: 'assistant', content: 'b', reasoning_content: '23', tool_calls: calls },
    ]);
  });

  it('offers functions to the model, and no other tools', async () => {
    says(CALL);
    const own = { type: 'function', name: 'f', description: 'd', parameters: { type: 'object' } };
    const { json } = await respond({ tools: [own, { type: 'web_search' }], parallel_tool_calls: true });
    expect(conversation().tools).toEqual([
      { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' } } },
    ]);
    expect(json.tools).toEqual([own]);
    expect(json.output).toMatchObject([
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'hm' }] },
      { type: 'message', content: [{ text: 'Wait.' }] },
      { type: 'function_call', name: 'f', arguments: '{"a": 1}', call_id: expect.stringMatching(/^call_/) },
    ]);
  });

  it('streams events that are named by their type and numbered, and ends with the whole response', async () => {
    says(CALL, { pieces: [...CALL] });
    const { text } = await respond({ tools: [{ type: 'function', name: 'f' }], stream: true });
    const found = events(text) as ({ type: string; sequence_number: number } & Record<string, never>)[];
    expect(found.map(({ sequence_number }) => sequence_number)).toEqual(found.map((_, i) => i));
    const names = [...text.matchAll(/^event: (.*)$/gm)].map(([, name]) => name);
    expect(names).toEqual(found.map(({ type }) => type));
    expect(names.filter((name, i) => name !== names[i - 1])).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.reasoning_text.delta',
      'response.reasoning_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
      'response.completed',
    ]);
    const done = found.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item);
    const { output } = found.at(-1)!.response as unknown as { output: unknown[] };
    expect(done).toEqual(output);
    expect(output).toHaveLength(3);
    expect(text).not.toContain('[DONE]');
  });

  it('is incomplete at its limit', async () => {
    says('goo', { finishReason: 'length' });
    const { json } = await respond();
    expect(json).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'incomplete' }],
    });
    const { text } = await respond({ stream: true });
    expect(events(text).at(-1)).toMatchObject({ type: 'response.incomplete' });
  });

  it.each<[string, object, string]>([
    ['an earlier response', { previous_response_id: 'resp_1' }, 'previous_response_id'],
    ['the background', { background: true }, 'background'],
    [
      'a format that no grammar follows',
      { text: { format: { type: 'json_schema', name: 'x', schema: { not: {} } } } },
      'text.format',
    ],
    ['an unknown item', { input: [{ type: 'item_reference', id: 'x' }] }, 'input.0'],
    ['a call without a name', { input: [{ type: 'function_call', arguments: '{}' }] }, 'input.0.name'],
  ])('refuses %s', async (_, body, param) => {
    const { status, json } = await respond(body);
    expect([status, json.error.param]).toEqual([400, param]);
  });
});
