// Ollama's official client, unchanged, against this server.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ChatResponse, type Message, Ollama, type Tool } from 'ollama';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeChatModel, SLOW } from '../../support/chat-model.js';
import { expectFreed } from '../../support/freed.js';
import { HubServer } from '../../support/hub-server.js';
import {
  ANSWER,
  FAIL,
  type ScriptedChat,
  startScriptedChat,
  THINK,
  WEATHER,
} from '../../support/scripted-chat.js';
import { ServerProcess } from '../../support/server-process.js';

const DURATIONS = ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration'] as const;

async function gathered<T extends object>(stream: AsyncIterable<T>): Promise<T[]> {
  const lines: T[] = [];
  for await (const line of stream) lines.push(line);
  return lines;
}

describe('a running model', () => {
  const { model: directory, remove } = makeChatModel();
  let server: ServerProcess;
  let client: Ollama;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', directory, ...SLOW]);
    client = new Ollama({ host: server.url });
  });
  afterAll(async () => {
    await server.stop();
    remove();
  });

  const options = { num_predict: 24, temperature: 1, top_p: 0.9, seed: 5, stop: ['\u0000'], num_ctx: 2048 };
  const request = { model: 'chat-tiny', messages: [{ role: 'user', content: 'Hello!' }], options };

  it('chats, and streams the same text with the same counts', async () => {
    const whole = await client.chat(request);
    expect(whole).toMatchObject({ model: 'chat-tiny', done: true });
    expect(whole.done_reason).toMatch(/stop|length/);
    expect(whole.message).toMatchObject({ role: 'assistant', content: expect.stringMatching(/./s) });
    expect(whole.prompt_eval_count).toBeGreaterThan(10);
    expect(whole.eval_count).toBeLessThanOrEqual(24);
    for (const name of DURATIONS) expect(Number.isSafeInteger(whole[name]), name).toBe(true);
    // In nanoseconds, both parts took some of the time.
    expect(Math.min(whole.prompt_eval_duration, whole.eval_duration)).toBeGreaterThan(1000);
    expect(whole.prompt_eval_duration + whole.eval_duration).toBeLessThan(whole.total_duration);
    expect(Date.parse(String(whole.created_at))).toBeGreaterThan(Date.now() - 600_000);

    const lines = await gathered(await client.chat({ ...request, stream: true }));
    expect(lines.length).toBeGreaterThan(2);
    expect(lines.map(({ message }) => message.content).join('')).toBe(whole.message.content);
    expect(lines.map(({ done }) => done)).toEqual(lines.map((_, at) => at === lines.length - 1));
    const { prompt_eval_count, eval_count, done_reason } = whole;
    expect(lines.at(-1)).toMatchObject({ prompt_eval_count, eval_count, done_reason });
  });

  it('generates from a prompt as from a message, and without a template', async () => {
    const { message } = await client.chat(request);
    const prompted = { model: 'chat-tiny:latest', prompt: 'Hello!', options };
    const whole = await client.generate(prompted);
    expect(whole).toMatchObject({ model: 'chat-tiny:latest', response: message.content, done: true });
    const lines = await gathered(await client.generate({ ...prompted, stream: true }));
    expect(lines.map(({ response }) => response).join('')).toBe(whole.response);
    const raw = await client.generate({ ...prompted, raw: true });
    expect(raw.prompt_eval_count).toBe('Hello!'.length);
    const unbound = await client.generate({ model: 'chat-tiny', prompt: 'a'.repeat(480), raw: true });
    expect(unbound.eval_count).toBeLessThanOrEqual(33);
  });

  it('answers in JSON that a schema describes', async () => {
    const schema = { type: 'object', properties: { kind: { enum: ['a', 'b'] } }, required: ['kind'] };
    const { message } = await client.chat({ ...request, format: schema });
    expect(['a', 'b']).toContain(JSON.parse(message.content).kind);
    const { response } = await client.generate({
      model: 'chat-tiny',
      prompt: 'Hello!',
      raw: true,
      format: schema,
      options,
    });
    expect(['a', 'b']).toContain(JSON.parse(response!).kind);
  });

  it('gives log-probabilities that belong to the text', async () => {
    const { logprobs, message } = await client.chat({ ...request, logprobs: true, top_logprobs: 2 });
    expect(logprobs!.map(({ token }) => token).join('')).toContain(message.content.slice(0, 3));
    expect(logprobs![0]!.top_logprobs).toHaveLength(2);
    const lines = await gathered(
      await client.chat({ ...request, logprobs: true, top_logprobs: 2, stream: true }),
    );
    expect(lines.flatMap((line) => line.logprobs ?? [])).toEqual(logprobs);
  });

  it('embeds texts to vectors of length 1', async () => {
    const input = ['Hello', 'a longer text'];
    const { embeddings, prompt_eval_count } = await client.embed({ model: 'chat-tiny', input });
    expect(embeddings.map((values) => values.length)).toEqual([64, 64]);
    for (const values of embeddings) expect(Math.hypot(...values)).toBeCloseTo(1, 6);
    expect(prompt_eval_count).toBe(input.join('').length);
    const one = await client.embed({ model: 'chat-tiny', input: 'Hello', truncate: true });
    expect(one.embeddings).toEqual([embeddings[0]]);
    const { embedding } = await client.embeddings({ model: 'chat-tiny', prompt: 'Hello' });
    const scale = embedding[0]! / embeddings[0]![0]!;
    for (const [at, value] of embedding.entries()) expect(value).toBeCloseTo(embeddings[0]![at]! * scale, 5);
  });

  it('tells its models, what runs, and its version', async () => {
    const { models } = await client.list();
    expect(models).toMatchObject([{ name: 'chat-tiny:latest', details: { family: 'olmoe' } }]);
    expect(models[0]!.size).toBeGreaterThan(1000);
    expect(models[0]!.digest).toMatch(/^[0-9a-f]{64}$/);
    const running = await client.ps();
    expect(running.models).toMatchObject([{ name: 'chat-tiny:latest', digest: models[0]!.digest }]);
    expect(Date.parse(String(running.models[0]!.expires_at))).toBeGreaterThan(Date.now());
    const shown = await client.show({ model: 'chat-tiny' });
    expect(shown.capabilities).toEqual(['completion', 'tools', 'thinking']);
    expect(shown.model_info).toMatchObject({
      'general.architecture': 'olmoe',
      'olmoe.context_length': 512,
      'olmoe.embedding_length': 64,
    });
    expect((await client.version()).version).toMatch(/^0\.\d+\.\d+$/);
  });

  it('loads a model without a prompt', async () => {
    const { done_reason } = await client.generate({ model: 'chat-tiny', prompt: '' });
    expect(done_reason).toBe('load');
  });

  it('reports errors with status and text', async () => {
    await expect(client.chat({ ...request, model: 'llama3' })).rejects.toMatchObject({
      name: 'ResponseError',
      status_code: 404,
      message: expect.stringContaining('"chat-tiny"'),
    });
    const images = [{ role: 'user', content: 'a', images: ['aGk='] }];
    await expect(client.chat({ ...request, messages: images })).rejects.toMatchObject({
      status_code: 400,
      message: expect.stringMatching(/messages\.0\.images.*takes no images/),
    });
    for (const wrong of [{ mirostat: 1 }, { tfs_z: 0.5 }, { repeat_last_n: 64, repeat_penalty: 1.1 }]) {
      const [name] = Object.keys(wrong);
      const refused = client.chat({ ...request, options: { ...options, ...wrong } });
      await expect(refused).rejects.toThrow(`options.${name}`);
    }
    const long = { ...request, messages: [{ role: 'user', content: 'a'.repeat(600) }] };
    await expect(client.chat(long)).rejects.toThrow(/maximum context length is 512/);
    await expect(client.chat({ ...long, stream: true })).rejects.toMatchObject({ status_code: 400 });
  });

  it('stops a generation that is aborted', async () => {
    await expectFreed(server, async () => {
      const more = { num_predict: 400, temperature: 2, seed: 1 };
      const stream = await client.chat({ ...request, options: more, stream: true });
      const read = async () => {
        for await (const _ of stream) stream.abort();
      };
      await expect(read()).rejects.toThrow(/abort/i);
    });
  });
});

describe('a model that calls a tool', () => {
  let scripted: ScriptedChat;
  let client: Ollama;
  beforeAll(async () => {
    scripted = await startScriptedChat();
    client = new Ollama({ host: scripted.url });
  });
  afterAll(() => scripted.close());

  const tools: Tool[] = [
    {
      type: 'function',
      function: {
        name: 'get_weather',
        description: 'The weather of a city',
        parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      },
    },
  ];
  const question: Message = { role: 'user', content: 'Weather?' };

  it.each([
    ['whole', (messages: Message[]) => client.chat({ model: 'switch-mini', messages, tools })],
    ['as a stream', streamed],
  ])('gets the results in the next turn, %s', async (_how, ask) => {
    const first = await ask([question]);
    expect(first.message.content.trim()).toBe('I look.');
    expect(first.message.tool_calls).toMatchObject([
      { function: { name: 'get_weather', arguments: { city: 'Oslo' } } },
      { function: { name: 'get_weather', arguments: { city: 'Rome' } } },
    ]);
    const results = first.message.tool_calls!.map((call) => ({
      role: 'tool',
      tool_name: call.function.name,
      content: WEATHER[call.function.arguments.city]!,
    }));
    const second = await ask([question, first.message, ...results]);
    expect(second.message).toMatchObject({ content: ANSWER });
    const given = scripted.conversations.at(-1)!.messages as unknown as {
      tool_calls?: { id: string }[];
      tool_call_id?: string;
    }[];
    // Ollama's own messages have no ids; templates need those that belong together.
    const ids = given[1]!.tool_calls!.map(({ id }) => id);
    expect(new Set(ids).size).toBe(2);
    expect(given.slice(2).map((message) => message.tool_call_id)).toEqual(ids);
  });

  it('has its reasoning apart, and turns it off and on by the template', async () => {
    const messages = [{ role: 'user', content: THINK }];
    for (const think of [true, 'high', undefined] as const) {
      const asked = { model: 'switch-mini', messages, ...(think !== undefined && { think }) };
      const { message } = await client.chat(asked);
      expect(message).toMatchObject({ thinking: 'Hm.', content: 'Done.' });
      const lines = await gathered(await client.chat({ ...asked, stream: true }));
      expect(lines.map((line) => line.message.thinking ?? '').join('')).toBe('Hm.');
      const given = scripted.conversations.at(-1) as object;
      expect((given as { enable_thinking?: boolean }).enable_thinking).toBe(
        think === undefined ? undefined : true,
      );
      if (think === 'high') expect(given).toMatchObject({ reasoning_effort: 'high' });
    }
    const off = await client.generate({ model: 'switch-mini', prompt: THINK, think: false });
    expect(off).toMatchObject({ response: 'Done.' });
    expect(off.thinking).toBeUndefined();
    expect(scripted.conversations.at(-1)).toMatchObject({ enable_thinking: false });
  });

  it('ends a stream with the error that ended it', async () => {
    let text = '';
    const read = async () => {
      const messages = [{ role: 'user', content: FAIL }];
      for await (const { message } of await client.chat({ model: 'switch-mini', messages, stream: true }))
        text += message.content;
    };
    await expect(read()).rejects.toThrow(/The engine stopped/);
    expect(text).toBe('Half');
  });

  async function streamed(messages: Message[]): Promise<ChatResponse> {
    const lines = await gathered(await client.chat({ model: 'switch-mini', messages, tools, stream: true }));
    const content = lines.map(({ message }) => message.content).join('');
    const tool_calls = lines.flatMap(({ message }) => message.tool_calls ?? []);
    return { ...lines.at(-1)!, message: { role: 'assistant', content, tool_calls } };
  }
});

describe('a server that pulls', () => {
  const { model: directory, remove } = makeChatModel();
  const cache = mkdtempSync(join(tmpdir(), 'sida-pull-'));
  const before = { ...process.env };
  let hub: HubServer;
  let scripted: ScriptedChat;
  beforeAll(async () => {
    hub = await HubServer.start();
    hub.publish('ORG/chat-tiny', directory, [
      'config.json',
      'model.safetensors',
      'tokenizer.json',
      'chat_template.jinja',
    ]);
    Object.assign(process.env, { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache });
    scripted = await startScriptedChat();
  });
  afterAll(async () => {
    process.env = before;
    await scripted.close();
    await hub.stop();
    rmSync(cache, { recursive: true });
    remove();
  });

  it('reports the progress in lines', async () => {
    const client = new Ollama({ host: scripted.url });
    const lines = await gathered(await client.pull({ model: 'hf.co/ORG/chat-tiny', stream: true }));
    expect(lines.at(-1)).toEqual({ status: 'success' });
    const progress = lines.filter(({ total }) => total !== undefined);
    expect(progress.at(-1)).toMatchObject({ status: 'pulling ORG/chat-tiny', digest: 'ORG/chat-tiny' });
    expect(progress.at(-1)!.completed).toBe(progress.at(-1)!.total);
    expect(await client.pull({ model: 'ORG/chat-tiny' })).toEqual({ status: 'success' });
  });

  it('ends a download when its client leaves, also while the hub is silent', async () => {
    const left = new AbortController();
    const ended = new Promise((resolve) => {
      hub.fault = ({ path }, response) => {
        if (!path.endsWith('config.json')) return false;
        response.once('close', resolve);
        left.abort();
        return true;
      };
    });
    hub.publish('ORG/silent', directory, ['config.json', 'model.safetensors', 'tokenizer.json']);
    const body = JSON.stringify({ model: 'ORG/silent' });
    const headers = { 'content-type': 'application/json' };
    const pulled = fetch(`${scripted.url}/api/pull`, { method: 'POST', headers, body, signal: left.signal });
    await expect(pulled.then((response) => response.text())).rejects.toThrow(/aborted/);
    await ended;
    hub.reset();
  });

  it('says what it cannot pull', async () => {
    const client = new Ollama({ host: scripted.url });
    await expect(client.pull({ model: 'llama3' })).rejects.toMatchObject({
      status_code: 400,
      message: expect.stringContaining('ORG/NAME'),
    });
    await expect(client.pull({ model: 'ORG/absent' })).rejects.toMatchObject({ status_code: 404 });
    process.env.HF_ENDPOINT = 'http://127.0.0.1:9';
    await expect(client.pull({ model: 'ORG/absent' })).rejects.toMatchObject({
      status_code: 502,
      message: expect.stringContaining('Cannot reach 127.0.0.1:9'),
    });
    process.env.HF_ENDPOINT = hub.url;
  });
});
