// Anthropic's official client, unchanged, against this server.
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeChatModel, SLOW } from '../../support/chat-model.js';
import { expectFreed } from '../../support/freed.js';
import {
  ANSWER,
  FAIL,
  type ScriptedChat,
  startScriptedChat,
  THINK,
  WEATHER,
} from '../../support/scripted-chat.js';
import { ServerProcess } from '../../support/server-process.js';
import { TestServer } from '../../unit/server/test-server.js';

const KEY = 'sk-of-the-anthropic-test-0123456789abcdef';

const clientOf = (baseURL: string, apiKey = KEY) => new Anthropic({ baseURL, apiKey, maxRetries: 0 });

type Params = Anthropic.MessageCreateParamsNonStreaming;

describe('a running model', () => {
  const { model: directory, remove } = makeChatModel();
  let server: ServerProcess;
  let client: Anthropic;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', directory, ...SLOW]);
    client = clientOf(server.url);
  });
  afterAll(async () => {
    await server.stop();
    remove();
  });

  const request = (more: Partial<Params> = {}): Params => ({
    model: 'chat-tiny',
    max_tokens: 24,
    system: 'Be terse.',
    messages: [{ role: 'user', content: 'Hello!' }],
    ...more,
  });
  const textOf = ({ content }: Anthropic.Message) =>
    content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  const promptTokens = ({ usage }: Anthropic.Message) => usage.input_tokens + usage.cache_read_input_tokens!;

  it('answers, counts the tokens of the prompt, and streams the same', async () => {
    const whole = await client.messages.create(request());
    expect(whole).toMatchObject({ type: 'message', role: 'assistant', model: 'chat-tiny' });
    expect(whole.id).toMatch(/^msg_/);
    expect(whole._request_id).toMatch(/./);
    expect(textOf(whole).length).toBeGreaterThan(0);
    expect(whole.usage.output_tokens).toBeLessThanOrEqual(24);
    const { max_tokens: _, ...counted } = request();
    expect((await client.messages.countTokens(counted)).input_tokens).toBe(promptTokens(whole));

    const stream = client.messages.stream(request());
    let text = '';
    stream.on('text', (delta) => {
      text += delta;
    });
    const final = await stream.finalMessage();
    expect(text).toBe(textOf(whole));
    expect(final.content).toEqual(whole.content);
    expect([final.stop_reason, final.usage.output_tokens]).toEqual([
      whole.stop_reason,
      whole.usage.output_tokens,
    ]);
    expect(promptTokens(final)).toBe(promptTokens(whole));
  });

  it('sends the events of a stream in order', async () => {
    const types: string[] = [];
    const stream = await client.messages.create({ ...request(), stream: true });
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === 'message_start') expect(event.message.usage.input_tokens).toBeGreaterThan(20);
    }
    const deltas = types.filter((type) => type === 'content_block_delta');
    expect(deltas.length).toBeGreaterThan(1);
    // The client keeps pings to itself.
    expect(types).toEqual([
      'message_start',
      'content_block_start',
      ...deltas,
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
  });

  it('says which stop sequence ended the answer, and that its tokens did', async () => {
    const whole = await client.messages.create(request());
    const stop = textOf(whole).slice(3, 5);
    const stopped = await client.messages.create(request({ stop_sequences: ['\u0000', stop] }));
    expect(stopped).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: stop });
    expect(textOf(whole).startsWith(textOf(stopped) + stop)).toBe(true);
    const streamed = await client.messages.stream(request({ stop_sequences: [stop] })).finalMessage();
    expect(streamed).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: stop });
    const cut = await client.messages.create(request({ max_tokens: 3 }));
    expect(cut).toMatchObject({ stop_reason: 'max_tokens', stop_sequence: null });
    expect(cut.usage.output_tokens).toBe(3);
  });

  it('cuts an answer to what the context has left', async () => {
    const messages = [{ role: 'user' as const, content: 'a'.repeat(440) }];
    const stream = client.messages.stream(request({ max_tokens: 32_000, messages }));
    const { stop_reason, usage } = await stream.finalMessage();
    expect(stop_reason).toMatch(/end_turn|model_context_window_exceeded/);
    expect(usage.output_tokens).toBeLessThan(100);
  });

  it('takes the requests of Claude Code', async () => {
    const cache_control = { type: 'ephemeral' as const };
    const tools = Array.from({ length: 20 }, (_, at) => ({
      name: `Tool${at}`,
      description: 'd',
      input_schema: { type: 'object' as const, properties: {}, additionalProperties: false },
    }));
    // The tokenizer of bytes leaves no room for tools in this small context, which the count does not need.
    const body = {
      model: 'chat-tiny',
      system: [
        { type: 'text' as const, text: 'You are terse.', cache_control },
        { type: 'text' as const, text: 'Today is a day.', cache_control },
      ],
      messages: [
        { role: 'user' as const, content: [{ type: 'text' as const, text: 'Hello!', cache_control }] },
        {
          role: 'assistant' as const,
          content: [
            { type: 'thinking' as const, thinking: 'Hm.', signature: 's' },
            { type: 'text' as const, text: 'Hi.' },
          ],
        },
        {
          role: 'user' as const,
          content: [{ type: 'text' as const, text: `Go on${'.'.repeat(340)}`, cache_control }],
        },
      ],
    };
    const betas = ['claude-code-20250219', 'interleaved-thinking-2025-05-14'];
    const stream = client.beta.messages.stream({
      ...body,
      max_tokens: 32_000,
      metadata: { user_id: 'user_1_account__session_2' },
      thinking: { type: 'enabled', budget_tokens: 31_999 },
      betas,
    });
    const { content, stop_reason } = await stream.finalMessage();
    expect(content.length).toBeGreaterThan(0);
    expect(stop_reason).toMatch(/end_turn|model_context_window_exceeded/);
    const without = await client.beta.messages.countTokens({ ...body, betas });
    const counted = await client.beta.messages.countTokens({ ...body, tools, betas });
    expect(counted.input_tokens).toBeGreaterThan(without.input_tokens + 20 * 'Tool0'.length);
  });

  it('reports errors as its own', async () => {
    const unknown = await client.messages.create(request({ model: 'claude' })).catch((error) => error);
    expect(unknown).toBeInstanceOf(Anthropic.NotFoundError);
    expect(unknown).toMatchObject({ status: 404, type: 'not_found_error' });
    expect(unknown.error).toMatchObject({ type: 'error', request_id: unknown.requestID });
    expect(unknown.message).toContain('chat-tiny');
    const messages = [{ role: 'user' as const, content: 'a'.repeat(600) }];
    for (const ask of [
      () => client.messages.create(request({ messages })),
      () => client.messages.stream(request({ messages })).finalMessage(),
    ])
      await expect(ask()).rejects.toMatchObject({
        status: 400,
        message: expect.stringContaining('prompt is too long: '),
      });
  });

  it('stops a generation that is aborted', async () => {
    await expectFreed(server, async () => {
      const stream = client.messages.stream({ ...request({ max_tokens: 400 }), ...{ temperature: 1 } });
      stream.on('text', () => stream.abort());
      await expect(stream.done()).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
    });
  });
});

describe('a server with a key', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start({ apiKey: KEY });
  });
  afterAll(() => server.close());

  const request = {
    model: 'switch-mini',
    max_tokens: 5,
    messages: [{ role: 'user' as const, content: 'Hello!' }],
  };

  it('takes it in either header', async () => {
    const baseURL = `http://127.0.0.1:${server.running.port}`;
    const refused = clientOf(baseURL, 'sk-wrong').messages.create(request);
    await expect(refused).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
    for (const keys of [
      { apiKey: KEY, authToken: null },
      { apiKey: null, authToken: KEY },
    ]) {
      const client = new Anthropic({ baseURL, ...keys });
      expect((await client.messages.create(request)).content).toMatchObject([{ text: 'good' }]);
    }
  });
});

describe('a model that calls a tool', () => {
  let scripted: ScriptedChat;
  let client: Anthropic;
  beforeAll(async () => {
    scripted = await startScriptedChat();
    client = clientOf(scripted.url);
  });
  afterAll(() => scripted.close());

  const tools: Anthropic.Tool[] = [
    {
      name: 'get_weather',
      description: 'The weather of a city',
      input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  ];
  const request = (content: string, more: Partial<Params> = {}): Params => ({
    model: 'switch-mini',
    max_tokens: 100,
    messages: [{ role: 'user', content }],
    tools,
    ...more,
  });

  it.each([
    ['whole', (params: Params) => client.messages.create(params)],
    ['as streams', (params: Params) => client.messages.stream(params).finalMessage()],
  ])('gets the results in the next turn, %s', async (_how, ask) => {
    const first = await ask(request('Weather?'));
    expect(first.stop_reason).toBe('tool_use');
    expect(first.content).toEqual([
      expect.objectContaining({ type: 'text', text: expect.stringMatching(/^I look\.\n?$/) }),
      ...['Oslo', 'Rome'].map((city) => ({
        type: 'tool_use',
        id: expect.stringMatching(/^toolu_/),
        name: 'get_weather',
        input: { city },
      })),
    ]);
    const results = first.content.flatMap((block) =>
      block.type === 'tool_use'
        ? [
            {
              type: 'tool_result' as const,
              tool_use_id: block.id,
              content: [{ type: 'text' as const, text: WEATHER[(block.input as { city: string }).city]! }],
            },
          ]
        : [],
    );
    const { messages } = request('Weather?');
    const answers = { role: 'assistant' as const, content: first.content };
    const second = await ask(
      request('', { messages: [...messages, answers, { role: 'user', content: results }] }),
    );
    expect(second.stop_reason).toBe('end_turn');
    expect(second.content).toMatchObject([{ type: 'text', text: ANSWER }]);
    const given = scripted.conversations.at(-1)!.messages;
    expect(given.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool']);
    expect(given[1]!.tool_calls).toHaveLength(2);
  });

  it('gets them by the helper that runs tools', async () => {
    const runner = client.beta.messages.toolRunner({
      model: 'switch-mini',
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Weather?' }],
      tools: [
        {
          ...tools[0]!,
          run: (input: unknown) => WEATHER[(input as { city: string }).city]!,
          parse: (input: unknown) => input,
        },
      ],
    });
    const final = await runner;
    expect(final.content).toMatchObject([{ type: 'text', text: ANSWER }]);
  });

  it('calls once where only one call is allowed', async () => {
    const tool_choice = { type: 'auto' as const, disable_parallel_tool_use: true };
    for (const ask of [
      () => client.messages.create(request('Weather?', { tool_choice })),
      () => client.messages.stream(request('Weather?', { tool_choice })).finalMessage(),
    ]) {
      const { content } = await ask();
      expect(content.map(({ type }) => type)).toEqual(['text', 'tool_use']);
    }
  });

  it('has its reasoning as a block where thinking is enabled', async () => {
    const thinking = { type: 'enabled' as const, budget_tokens: 1024 };
    for (const ask of [
      (params: Params) => client.messages.create(params),
      (params: Params) => client.messages.stream(params).finalMessage(),
    ]) {
      const on = await ask(request(THINK, { thinking }));
      expect(on.content).toMatchObject([
        { type: 'thinking', thinking: 'Hm.' },
        { type: 'text', text: 'Done.' },
      ]);
      expect(scripted.conversations.at(-1)).toMatchObject({ enable_thinking: true });
      expect((await ask(request(THINK))).content).toMatchObject([{ type: 'text', text: 'Done.' }]);
      expect(scripted.conversations.at(-1)).toMatchObject({ enable_thinking: false });
    }
  });

  it('ends a stream with the error that ended it', async () => {
    const stream = client.messages.stream(request(FAIL));
    let text = '';
    stream.on('text', (delta) => {
      text += delta;
    });
    await expect(stream.finalMessage()).rejects.toMatchObject({
      type: 'overloaded_error',
      message: expect.stringContaining('The engine stopped'),
    });
    expect(text).toBe('Half');
  });
});
