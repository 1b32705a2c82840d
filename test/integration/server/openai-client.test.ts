// The official client of OpenAI's API, unchanged, against this server.
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeChatModel, SLOW } from '../../support/chat-model.js';
import { expectFreed } from '../../support/freed.js';
import { ANSWER, FAIL, startScriptedChat, WEATHER, writeText } from '../../support/scripted-chat.js';
import { ServerProcess } from '../../support/server-process.js';
import { TestServer } from '../../unit/server/test-server.js';

const messages = [{ role: 'user' as const, content: 'Hello!' }];
const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tools = [{ type: 'function' as const, function: { name: 'get_weather', parameters } }];

describe('a running model', () => {
  const { model: directory, remove } = makeChatModel();
  const model = 'chat-tiny';
  let server: ServerProcess;
  let client: OpenAI;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', directory, ...SLOW]);
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(async () => {
    await server.stop();
    remove();
  });

  it('lists models', async () => {
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).toEqual([model]);
    expect(await client.models.retrieve(model)).toMatchObject({ id: model, object: 'model' });
  });

  it('chats, with tools, log-probabilities and choices', async () => {
    const request = {
      model,
      messages,
      tools,
      max_completion_tokens: 12,
      n: 2,
      logprobs: true,
      top_logprobs: 3,
    };
    const answer = await client.chat.completions.create({ ...request, temperature: 0.9, seed: 3 });
    expect(answer.choices).toHaveLength(2);
    const [{ message, finish_reason, logprobs }] = answer.choices as [OpenAI.ChatCompletion.Choice];
    expect(message.role).toBe('assistant');
    expect(['stop', 'length']).toContain(finish_reason);
    expect(logprobs!.content![0]!.top_logprobs).toHaveLength(3);
    expect(answer.usage!.prompt_tokens).toBeGreaterThan(20);
    expect(answer.usage!.completion_tokens).toBeLessThanOrEqual(24);
  });

  it('streams the text that it answers whole', async () => {
    const request = { model, messages, max_completion_tokens: 24, seed: 5, temperature: 1 };
    const whole = await client.chat.completions.create(request);
    const stream = await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      usage = chunk.usage ?? usage;
    }
    expect(text).toBe(whole.choices[0]!.message.content);
    // The second request finds the first's pages.
    expect({ ...usage, prompt_tokens_details: null }).toEqual({
      ...whole.usage,
      prompt_tokens_details: null,
    });
  });

  it('completes a prompt', async () => {
    const request = {
      model,
      prompt: ['Hello', 'Good day'],
      max_tokens: 4,
      n: 2,
      logprobs: 2,
      temperature: 1,
      seed: 2,
    };
    const { choices, usage } = await client.completions.create(request);
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    expect(choices[0]!.finish_reason).toMatch(/stop|length/);
    expect(Object.keys(choices[0]!.logprobs!.top_logprobs![0]!).length).toBeGreaterThanOrEqual(2);
    const streamed = ['', '', '', ''];
    let last: OpenAI.Completion | undefined;
    for await (const chunk of await client.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    })) {
      for (const { index, text } of chunk.choices) streamed[index] += text;
      last = chunk;
    }
    expect(streamed).toEqual(choices.map(({ text }) => text));
    expect(last!.choices).toEqual([]);
    expect({ ...last!.usage, prompt_tokens_details: null }).toEqual({
      ...usage,
      prompt_tokens_details: null,
    });
  });

  it('ends a text before a stop string, whole and as a stream', async () => {
    const request = { model, messages, max_completion_tokens: 24, temperature: 1, seed: 5 };
    const [free] = (await client.chat.completions.create(request)).choices;
    const content = free!.message.content!;
    const stop = content.slice(4, 6);
    const [choice] = (await client.chat.completions.create({ ...request, stop })).choices;
    expect(choice).toMatchObject({
      finish_reason: 'stop',
      message: { content: content.slice(0, content.indexOf(stop)) },
    });
    const streamed = await client.chat.completions.stream({ ...request, stop: [stop] }).finalChatCompletion();
    expect(streamed.choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: choice!.message.content },
    });
  });

  it('streams several choices with their log-probabilities, and the usage last and only if asked', async () => {
    const request = { model, messages, max_completion_tokens: 8, n: 3, temperature: 1, seed: 7 };
    const asked = { ...request, logprobs: true, top_logprobs: 2 };
    const whole = await client.chat.completions.create(asked);
    const texts = ['', '', ''];
    const tokens = [0, 0, 0];
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
      chunks.push(chunk);
      for (const { index, delta, logprobs } of chunk.choices) {
        texts[index] += delta.content ?? '';
        tokens[index]! += logprobs?.content?.length ?? 0;
      }
    }
    expect(texts).toEqual(whole.choices.map(({ message }) => message.content));
    expect(tokens).toEqual(whole.choices.map(({ logprobs }) => logprobs!.content!.length));
    expect(chunks.filter(({ usage }) => usage != null)).toEqual([]);
    const counted: OpenAI.ChatCompletionChunk[] = [];
    const options = { stream: true as const, stream_options: { include_usage: true } };
    for await (const chunk of await client.chat.completions.create({ ...request, ...options }))
      counted.push(chunk);
    expect(counted.slice(0, -1).filter(({ usage }) => usage != null)).toEqual([]);
    expect(counted.at(-1)).toMatchObject({
      choices: [],
      usage: { completion_tokens: whole.usage!.completion_tokens, total_tokens: whole.usage!.total_tokens },
    });
  });

  it('embeds texts, the same alone as together, in both encodings', async () => {
    const input = ['Hello', 'a much longer text, of which each byte is a token'];
    const both = await client.embeddings.create({ model, input });
    expect(both.data.map(({ embedding }) => embedding.length)).toEqual([64, 64]);
    for (const [at, text] of input.entries()) {
      const alone = await client.embeddings.create({ model, input: text, encoding_format: 'float' });
      expect(alone.data[0]!.embedding).toEqual(both.data[at]!.embedding);
      const base64 = await client.embeddings.create({ model, input: text, encoding_format: 'base64' });
      const bytes = Buffer.from(base64.data[0]!.embedding as unknown as string, 'base64');
      expect([...new Float32Array(new Uint8Array(bytes).buffer)]).toEqual(both.data[at]!.embedding);
    }
    expect(both.usage.prompt_tokens).toBe(input.join('').length);
  });

  it('responds, whole and as a stream', async () => {
    const request = {
      model,
      input: 'Hello!',
      instructions: 'Be terse.',
      max_output_tokens: 12,
      store: false,
    };
    const whole = await client.responses.create(request);
    expect(whole.status).toMatch(/completed|incomplete/);
    const stream = await client.responses.create({ ...request, stream: true });
    let text = '';
    let last: OpenAI.Responses.Response | undefined;
    for await (const event of stream) {
      if (event.type === 'response.output_text.delta') text += event.delta;
      if (event.type === 'response.completed' || event.type === 'response.incomplete') last = event.response;
    }
    expect(text).toBe(whole.output_text);
    expect({ ...last!.usage, input_tokens_details: null }).toEqual({
      ...whole.usage,
      input_tokens_details: null,
    });
  });

  it('reports errors as the classes of the client', async () => {
    const ask = (more: object) => client.chat.completions.create({ model, messages, ...more });
    await expect(ask({ messages: [] })).rejects.toThrow(OpenAI.BadRequestError);
    await expect(ask({ model: 'gpt-5' })).rejects.toThrow(OpenAI.NotFoundError);
    await expect(client.models.retrieve('gpt-5')).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    await expect(ask({ temperature: 9 })).rejects.toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      param: 'temperature',
      requestID: expect.stringMatching(/./),
    });
    await expect(
      client.responses.create({ model, input: 'a', previous_response_id: 'x' }),
    ).rejects.toMatchObject({
      status: 400,
      param: 'previous_response_id',
    });
  });

  it('refuses what is longer than the context with 400 and the numbers, whole and as a stream', async () => {
    const long = 'a'.repeat(400);
    const chat = { model, messages: [{ role: 'user' as const, content: long }], max_completion_tokens: 200 };
    const text = { model, prompt: long, max_tokens: 200 };
    const response = { model, input: long, max_output_tokens: 200 };
    const more = [
      () => client.chat.completions.create(chat),
      () => client.chat.completions.create({ ...chat, stream: true }),
      () => client.completions.create(text),
      () => client.completions.create({ ...text, stream: true }),
      () => client.responses.create(response),
      () => client.responses.create({ ...response, stream: true }),
      () => client.embeddings.create({ model, input: 'a'.repeat(600) }),
      () => client.embeddings.create({ model, input: Array(600).fill(70) }),
    ];
    const errors = await Promise.all(more.map((ask) => ask().catch((error: unknown) => error)));
    for (const error of errors as InstanceType<typeof OpenAI.BadRequestError>[]) {
      expect(error).toBeInstanceOf(OpenAI.BadRequestError);
      expect(error.error).toMatchObject({
        type: 'invalid_request_error',
        code: 'context_length_exceeded',
        message: expect.stringMatching(/has [46]\d\d tokens.*maximum context length is 512 tokens$/),
        details: { tokens: expect.any(Number), limit: 512 },
      });
    }
    expect((errors as { param: string }[]).map(({ param }) => param)).toEqual([
      'messages',
      'messages',
      'prompt',
      'prompt',
      'input',
      'input',
      'input',
      'input',
    ]);
    await expect(
      client.responses.create({ model, input: 'a', max_output_tokens: 600 }),
    ).rejects.toMatchObject({ status: 400, code: 'context_length_exceeded', param: 'max_output_tokens' });
  });

  it.each([
    [
      'a chat',
      (signal: AbortSignal) => client.chat.completions.create({ ...endless(), messages }, { signal }),
    ],
    [
      'a chat of three choices',
      (signal: AbortSignal) => client.chat.completions.create({ ...endless(), messages, n: 3 }, { signal }),
    ],
    [
      'a response',
      (signal: AbortSignal) =>
        client.responses.create({ model, input: 'Hello!', temperature: 2, stream: true }, { signal }),
    ],
    [
      'a completion',
      (signal: AbortSignal) => {
        const { max_completion_tokens: max_tokens, ...rest } = endless();
        return client.completions.create({ ...rest, max_tokens, prompt: 'Hello!' }, { signal });
      },
    ],
  ])('ends a generation whose stream is aborted: %s', async (_what, ask) => {
    await expectFreed(server, async () => {
      const aborter = new AbortController();
      for await (const _ of (await ask(aborter.signal)) as AsyncIterable<unknown>) aborter.abort();
    });
  });

  it('ends a generation whose request is aborted before its answer', async () => {
    await expectFreed(server, async () => {
      const aborter = new AbortController();
      const answer = client.chat.completions.create(
        { ...endless(), messages, stream: false },
        { signal: aborter.signal },
      );
      const refused = expect(answer).rejects.toThrow(OpenAI.APIUserAbortError);
      await server.until(async () => /^sida_active_sequences 1$/m.test((await server.get('/metrics')).body));
      aborter.abort();
      await refused;
    });
  });

  /** A generation that takes much longer than its abort. */
  function endless() {
    return { model, max_completion_tokens: 480, stream: true as const, temperature: 2, seed: 1 };
  }
});

describe('a model that calls a tool', () => {
  const TEXT = 'I look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
  let server: TestServer;
  let client: OpenAI;
  beforeAll(async () => {
    server = await TestServer.start();
    client = new OpenAI({ baseURL: `http://127.0.0.1:${server.running.port}/v1`, apiKey: 'none' });
    server.engine.script = (run) => writeText(run, TEXT);
  });
  afterAll(() => server.close());

  it('is understood by the helpers of the client, whole and as a stream', async () => {
    const request = { model: 'switch-mini', messages, tools };
    const whole = await client.chat.completions.create(request);
    const streamed = await client.chat.completions.stream(request).finalChatCompletion();
    for (const { choices } of [whole, streamed]) {
      expect(choices[0]).toMatchObject({ finish_reason: 'tool_calls', message: { content: 'I look.' } });
      const [call] = choices[0]!.message.tool_calls!;
      expect(call).toMatchObject({ type: 'function', function: { name: 'get_weather' } });
      expect(JSON.parse((call as { function: { arguments: string } }).function.arguments)).toEqual({
        city: 'Oslo',
      });
    }
  });

  it('is understood by those of responses', async () => {
    const request = {
      model: 'switch-mini',
      input: 'Weather?',
      tools: [{ type: 'function' as const, name: 'get_weather', parameters, strict: false }],
    };
    const whole = await client.responses.create(request);
    const streamed = await client.responses.stream(request).finalResponse();
    for (const { output } of [whole, streamed]) {
      expect(output.map(({ type }) => type)).toEqual(['message', 'function_call']);
      expect(output[1]).toMatchObject({ name: 'get_weather', arguments: '{"city": "Oslo"}' });
    }
  });

  it('is run by the helper of the client, in several steps', async () => {
    const scripted = await startScriptedChat();
    try {
      const own = new OpenAI({ baseURL: scripted.baseURL, apiKey: 'none' });
      const runnable = {
        type: 'function' as const,
        function: {
          name: 'get_weather',
          description: 'The weather of a city',
          parameters,
          parse: JSON.parse,
          function: ({ city }: { city: string }) => WEATHER[city]!,
        },
      };
      const request = { model: 'switch-mini', messages, tools: [runnable] };
      expect(await own.chat.completions.runTools(request).finalContent()).toBe(ANSWER);
      expect(await own.chat.completions.runTools({ ...request, stream: true }).finalContent()).toBe(ANSWER);
      expect(scripted.conversations.map(({ messages: given }) => given.map(({ role }) => role))).toEqual([
        ['user'],
        ['user', 'assistant', 'tool', 'tool'],
        ['user'],
        ['user', 'assistant', 'tool', 'tool'],
      ]);
    } finally {
      await scripted.close();
    }
  });
});

it('ends a stream with the error that ended it', async () => {
  const scripted = await startScriptedChat();
  try {
    const client = new OpenAI({ baseURL: scripted.baseURL, apiKey: 'none', maxRetries: 0 });
    const asked = { model: 'switch-mini', stream: true as const };
    let text = '';
    const chat = async () => {
      const stream = await client.chat.completions.create({
        ...asked,
        messages: [{ role: 'user', content: FAIL }],
      });
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
    };
    await expect(chat()).rejects.toMatchObject({
      code: 'engine_crashed',
      message: expect.stringContaining('The engine stopped'),
    });
    expect(text).toBe('Half');
    const types: string[] = [];
    let failed: OpenAI.Responses.Response | undefined;
    const respond = async () => {
      for await (const event of await client.responses.create({ ...asked, input: FAIL })) {
        types.push(event.type);
        if (event.type === 'response.failed') failed = event.response;
      }
    };
    await expect(respond()).rejects.toMatchObject({
      code: 'engine_crashed',
      message: expect.stringContaining('The engine stopped'),
    });
    expect(types).toContain('response.output_text.delta');
    expect(types.at(-1)).toBe('response.failed');
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'engine_crashed' } });
  } finally {
    await scripted.close();
  }
});

it('reports a wrong key as the class of the client', async () => {
  const apiKey = 'sk-of-the-client-test-0123456789';
  const server = await TestServer.start({ apiKey });
  try {
    const ask = (key: string) =>
      new OpenAI({ baseURL: `http://127.0.0.1:${server.running.port}/v1`, apiKey: key }).models.list();
    await expect(ask('sk-wrong')).rejects.toThrow(OpenAI.AuthenticationError);
    await expect(ask('sk-wrong')).rejects.toMatchObject({ status: 401, code: 'unauthorized' });
    expect((await ask(apiKey)).data).toHaveLength(1);
  } finally {
    await server.close();
  }
});
