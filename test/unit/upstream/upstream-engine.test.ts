// The engine of --upstream against a server that fails in every way that such servers do.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { TaskJob } from '../../../src/tasks/registry.js';
import type { AnswerPart } from '../../../src/text/chat/answer-parts.js';
import { CONTINUED } from '../../../src/text/chat/template-files.js';
import { UpstreamEngine } from '../../../src/upstream/upstream-engine.js';
import { eventually } from '../../support/eventually.js';

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const chunk = (text: string, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, text, finish_reason }] })}\n\n`;
const STREAM = { 'content-type': 'text/event-stream' };
const whole: Answer = (response) => {
  response.writeHead(200, STREAM).end(`${chunk('a ')}${chunk('b', 'stop')}data: [DONE]\n\n`);
};
const refusing =
  (status: number, headers = {}): Answer =>
  (response) =>
    void response.writeHead(status, headers).end('{"error":{"message":"no room"}}');

/** Answers to the next requests, in order; then `whole`. */
let answers: Answer[] = [];
let asked = 0;
let models: Answer;
const server = createServer((request, response) => {
  if (request.url === '/v1/models') return models(response, request);
  request.resume().on('end', () => {
    asked += 1;
    (answers.shift() ?? whole)(response, request);
  });
});
let engine: UpstreamEngine;

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
beforeEach(async () => {
  [answers, asked] = [[], 0];
  models = (response) => void response.end('{"data":[{"id":"m"}]}');
  await engine?.close();
  engine = new UpstreamEngine({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/`,
    model: 'm',
  });
  engine.start();
  await eventually(() => engine.state.phase === 'ready', 'the server');
});
afterAll(async () => {
  await engine.close();
  server.closeAllConnections();
  server.close();
});

const JOB: TaskJob = {
  kind: 'complete',
  prompts: ['x'],
  maxTokens: 8,
  stop: [],
  logprobs: null,
  stream: true,
};
const CHAT = {
  kind: 'chat',
  conversation: JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }] }),
  maxTokens: 8,
  stop: [],
  logprobs: null,
  stream: true,
  answer: { kind: 'tags', reasoning: true, toolCalls: true },
  tools: true,
};
/** A text, or the parts of a conversation's answer. */
type Said = { text: string } | { text?: string; parts: AnswerPart[] };
function said(choice: Said): string {
  if (!('parts' in choice)) return choice.text;
  const texts = choice.parts.map((part) => {
    if (part.kind === 'call') return `${part.name}:`;
    return part.kind === 'reasoning' ? `(${part.text})` : part.text;
  });
  return texts.join('|');
}
const calling = (call: object) => ({
  choices: [{ finish_reason: null, index: 0, delta: { tool_calls: [call] } }],
});
const run = (request: TaskJob = JOB, abort = new AbortController()) => {
  const texts: string[] = [];
  const onDelta = (delta: Said) => void texts.push(said(delta));
  return { texts, abort, result: engine.run('1', request, { signal: abort.signal, onDelta }) };
};
const textOf = (result: unknown) => said((result as { choices: Said[] }).choices[0]!);

it('asks again while the server has no room', async () => {
  answers = [refusing(429, { 'retry-after': '0.01' }), refusing(503, { 'retry-after': '0.01' })];
  const { result, texts } = run();
  expect([textOf(await result), texts]).toEqual(['a b', ['a ', 'b']]);
  expect(asked).toBe(3);
});

it('does not ask again when the job has ended meanwhile', async () => {
  answers = [refusing(429, { 'retry-after': '5' })];
  const { result, abort } = run();
  await eventually(() => asked === 1, 'the request');
  abort.abort();
  await expect(result).rejects.toMatchObject({ code: 'cancelled' });
  expect(asked).toBe(1);
});

it.each([
  [400, 'invalid_request'],
  [422, 'invalid_request'],
  [401, 'internal'],
  [500, 'internal'],
])('passes on a refusal with %i', async (status, code) => {
  answers = [refusing(status)];
  await expect(run().result).rejects.toMatchObject({ code, message: expect.stringContaining('no room') });
});

const CRASHES: [string, Answer][] = [
  [
    'the connection breaks in a stream',
    (response) => {
      response.writeHead(200, STREAM).write(chunk('a '));
      setTimeout(() => response.destroy(), 20);
    },
  ],
  [
    'the stream ends before the answer does',
    (response) => void response.writeHead(200, STREAM).end(chunk('a ')),
  ],
  ['the connection breaks before an answer', (response) => void response.destroy()],
];
it.each(CRASHES)('counts as crashed when %s, and works again', async (_, answer) => {
  answers = [answer];
  await expect(run().result).rejects.toMatchObject({ code: 'engine_crashed' });
  await eventually(() => engine.state.phase === 'ready', 'the server');
  expect(textOf(await run().result)).toBe('a b');
});

const streaming =
  (...chunks: string[]): Answer =>
  (response) =>
    void response.writeHead(200, STREAM).end(chunks.map((data) => `data: ${data}\n\n`).join(''));

it.each([
  ['an error', '{"error":null,"choices":[{"index":0,"text":"a b","finish_reason":"stop"}]}'],
  ['a delta', '{"choices":[{"index":0,"delta":null,"text":"a b","finish_reason":"stop"}]}'],
  ['choices', '{"choices":null,"usage":null}', '{"choices":[{"text":"a b","finish_reason":"stop"}]}'],
])('reads null for %s', async (_, ...chunks) => {
  answers = [streaming(...chunks, '[DONE]')];
  expect(textOf(await run().result)).toBe('a b');
});

const content = (text: string) => ({ choices: [{ index: 0, delta: { content: text } }] });
const thought = (text: string) => ({ choices: [{ index: 0, delta: { reasoning_content: text } }] });
const END = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
const CALL = '<tool_call>{"name": "look", "arguments": {}}</tool_call>';
it.each([
  ['with null for calls', [{ choices: [{ index: 0, delta: { content: 'a b', tool_calls: null } }] }], 'a b'],
  ['that it splits', [thought('h'), thought('m'), content('a '), content('b')], '(hm)|a b'],
  [
    'that it does not split',
    [content('<think>h'), content('m</think>a b'), content(CALL)],
    '(hm)|a b|look:|{}',
  ],
  [
    'with line breaks beside reasoning',
    [thought('hm'), content('\n\n'), content('a b'), content(' c')],
    '(hm)|a b c',
  ],
  [
    'with calls that have one number and own ids',
    [
      calling({ index: 0, id: 'a', function: { name: 'look', arguments: '{}' } }),
      calling({ index: 0, id: 'b', function: { name: 'see', arguments: '{}' } }),
    ],
    'look:|{}|see:|{}',
  ],
  [
    'with a name that each piece of a call repeats',
    [
      calling({ index: 0, id: 'a', function: { name: 'see', arguments: '{' } }),
      calling({ index: 0, id: 'a', function: { name: 'see', arguments: '}' } }),
    ],
    'see:|{}',
  ],
  [
    'with white space before a call',
    [thought('hm'), content('\n\n'), calling({ index: 0, function: { name: 'see', arguments: '{}' } })],
    '(hm)|see:|{}',
  ],
  [
    'with content before a call',
    [content('a '), calling({ index: 0, function: { name: 'see', arguments: '{}' } })],
    'a|see:|{}',
  ],
  [
    'with calls that it splits after one that it does not',
    [
      content(CALL),
      calling({ index: 0, function: { name: 'see', arguments: '{' } }),
      calling({ function: { arguments: '}' } }),
    ],
    'look:|{}|see:|{}',
  ],
  [
    'with arguments of no call',
    [calling({ index: 0, function: { arguments: '{}' } }), content('a b')],
    'a b',
  ],
])('reads an answer of another server %s', async (_, chunks, expected) => {
  answers = [streaming(...[...chunks, END].map((each) => JSON.stringify(each)), '[DONE]')];
  const { result, texts } = run(CHAT as unknown as TaskJob);
  expect(textOf(await result)).toBe(expected);
  const read = (text: string) => text.replaceAll(/[(|)]/g, '');
  expect(read(texts.join(''))).toBe(read(expected));
});

it.each(['{"choi', '{"choices":7}'])('fails a job, and not the engine, for a chunk like %s', async (data) => {
  answers = [streaming(data, '[DONE]')];
  await expect(run().result).rejects.toMatchObject({
    code: 'internal',
    message: expect.stringContaining(data),
  });
  expect([engine.state.phase, engine.restarts]).toEqual(['ready', 0]);
});

it.each(['text/html', 'application/json'])('fails a job, and not the engine, for %s', async (type) => {
  answers = [(response) => void response.writeHead(200, { 'content-type': type }).end('{"choices":[]}')];
  await expect(run().result).rejects.toMatchObject({
    code: 'internal',
    message: expect.stringContaining(type),
  });
  expect([engine.state.phase, engine.restarts]).toEqual(['ready', 0]);
});

it('counts the tokens of an only choice once', async () => {
  const usage = { prompt_tokens: 5, completion_tokens: 2 };
  const last = JSON.stringify({ choices: [{ index: 0, text: 'a', finish_reason: 'stop' }], usage });
  answers = [streaming(last, JSON.stringify({ choices: [], usage }), '[DONE]')];
  expect(await run().result).toMatchObject({ promptTokens: 5, completionTokens: 2 });
});

// fetch looks at its limits about once a second.
it('waits for a slow server longer than fetch would', async () => {
  const name = Symbol.for('undici.globalDispatcher.1');
  const dispatchers = globalThis as unknown as Record<symbol, object>;
  const usual = dispatchers[name]!;
  const Agent = usual.constructor as new (options: object) => object;
  dispatchers[name] = new Agent({ headersTimeout: 50, bodyTimeout: 50 });
  try {
    answers = [
      async (response) => {
        await delay(1_500);
        response.writeHead(200, STREAM).write(chunk('a '));
        await delay(1_500);
        response.end(`${chunk('b', 'stop')}data: [DONE]\n\n`);
      },
    ];
    expect(textOf(await run().result)).toBe('a b');
  } finally {
    dispatchers[name] = usual;
  }
});

it('fails a job whose stream holds an error', async () => {
  answers = [
    (response) => void response.writeHead(200, STREAM).end('data: {"error":{"message":"oops"}}\n\n'),
  ];
  await expect(run().result).rejects.toMatchObject({
    code: 'internal',
    message: expect.stringContaining('oops'),
  });
});

/** What llama.cpp 0.5.0 sends, without the fields that are not read. */
const LLAMA_CPP: [string, object, unknown[], object][] = [
  [
    'completions of two prompts',
    { ...JOB, prompts: ['A violin is', 'A cat is'] },
    [
      null,
      { choices: [{ text: ' a', index: 0, logprobs: null, finish_reason: null }] },
      { choices: [{ text: ' a', index: 1, logprobs: null, finish_reason: null }] },
      {
        choices: [{ text: '', index: 0, logprobs: null, finish_reason: 'length' }],
        usage: { completion_tokens: 1, prompt_tokens: 6, total_tokens: 7 },
      },
      {
        choices: [{ text: '', index: 1, logprobs: null, finish_reason: 'length' }],
        usage: { completion_tokens: 1, prompt_tokens: 3, total_tokens: 4 },
      },
    ],
    { texts: [' a', ' a'], reasons: ['length', 'length'], promptTokens: 9, completionTokens: 2 },
  ],
  [
    'two choices of a chat',
    { ...CHAT, choices: 2 },
    [
      { choices: [{ finish_reason: null, index: 1, delta: { role: 'assistant', content: null } }] },
      { choices: [{ finish_reason: null, index: 1, delta: { content: 'sw' } }] },
      { choices: [{ finish_reason: null, index: 0, delta: { role: 'assistant', content: null } }] },
      { choices: [{ finish_reason: 'stop', index: 1, delta: {} }] },
      { choices: [], usage: { completion_tokens: 2, prompt_tokens: 5, total_tokens: 7 } },
      { choices: [{ finish_reason: null, index: 0, delta: { content: 'it' } }] },
      { choices: [{ finish_reason: 'stop', index: 0, delta: {} }] },
      { choices: [], usage: { completion_tokens: 3, prompt_tokens: 5, total_tokens: 8 } },
    ],
    { texts: ['it', 'sw'], reasons: ['stop', 'stop'], promptTokens: 5, completionTokens: 5 },
  ],
  [
    'two calls of tools',
    CHAT,
    [
      { choices: [{ finish_reason: null, index: 0, delta: { role: 'assistant', content: null } }] },
      calling({ index: 0, id: 'ZI3B', type: 'function', function: { name: 'look', arguments: '{' } }),
      calling({ index: 0, function: { arguments: '}' } }),
      calling({ index: 1, id: 'x9Qp', type: 'function', function: { name: 'see', arguments: '{' } }),
      calling({ index: 1, function: { arguments: '}' } }),
      { choices: [{ finish_reason: 'tool_calls', index: 0, delta: {} }] },
    ],
    {
      texts: ['look:|{}|see:|{}'],
      reasons: ['stop'],
      promptTokens: 0,
      completionTokens: 0,
    },
  ],
];
it.each(LLAMA_CPP)('reads %s of llama.cpp', async (_, request, chunks, expected) => {
  const events = [...chunks.map((each) => JSON.stringify(each)), '[DONE]'];
  answers = [
    (response) =>
      void response.writeHead(200, STREAM).end(events.map((data) => `data: ${data}\n\n`).join('')),
  ];
  const { choices, promptTokens, completionTokens } = (await run(request as TaskJob).result) as unknown as {
    choices: (Said & { finishReason: string })[];
    promptTokens: number;
    completionTokens: number;
  };
  const texts = choices.map(said);
  const reasons = choices.map(({ finishReason }) => finishReason);
  expect({ texts, reasons, promptTokens, completionTokens }).toEqual(expected);
});

it.each([
  '{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_ctx":1024}}',
  '{"error":{"code":"context_length_exceeded","message":"too long","type":"invalid_request_error"}}',
])('says that a request is longer than the context: %s', async (body) => {
  answers = [(response) => void response.writeHead(400).end(body)];
  await expect(run().result).rejects.toMatchObject({
    code: 'context_length_exceeded',
    message: expect.stringContaining('too long'),
  });
});

it('begins each answer with its prompt itself', async () => {
  const { result, texts } = run({ ...JOB, echo: true } as TaskJob);
  expect([textOf(await result), texts]).toEqual(['xa b', ['xa ', 'b']]);
});

it.each([
  [{ ...JOB, echo: true, maxTokens: 0 }, 'max_tokens'],
  [{ ...JOB, logprobs: 1 }, 'logprobs'],
  [{ ...JOB, showTokenIds: true }, 'return_token_ids'],
  [{ ...JOB, prompts: [[1, 2]] }, 'prompt'],
  [{ kind: 'classify', inputs: ['x'], labels: ['a', 'b'] }, undefined],
  [{ kind: 'embed', inputs: ['x'] }, undefined],
] as [TaskJob, string | undefined][])(
  'refuses what the server cannot do by name: %#',
  async (request, param) => {
    await expect(run(request).result).rejects.toMatchObject({ code: 'cannot_run', param });
    expect(asked).toBe(0);
  },
);

it('has the name that it is given', async () => {
  const other = new UpstreamEngine({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    model: 'm',
    alias: 'org/n',
  });
  other.start();
  await eventually(() => other.state.phase === 'ready', 'the server');
  expect(other.model?.name).toBe('org/n');
  await other.close();
});

it('fails when the server refuses its key', async () => {
  models = refusing(401);
  const other = new UpstreamEngine({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    model: 'm',
  });
  other.start();
  await eventually(() => other.state.phase === 'failed', 'the refusal');
  expect(other.state.detail).toMatch(/refused the request \(401\)/);
});

/** The body of the request that a job becomes. */
async function bodyOf(job: object): Promise<Record<string, unknown>> {
  const bodies: string[] = [];
  server.once('request', (request: IncomingMessage) =>
    request.on('data', (data) => bodies.push(String(data))),
  );
  await run(job as TaskJob).result;
  return JSON.parse(bodies.join(''));
}

it('says that an answer continues the last message', async () => {
  const conversation = {
    messages: [{ role: 'assistant', content: 'One,' }],
    add_generation_prompt: false,
    [CONTINUED]: true,
  };
  const body = await bodyOf({ ...CHAT, conversation: JSON.stringify(conversation) });
  expect(body).toMatchObject({ add_generation_prompt: false, continue_final_message: true });
  expect(body.chat_template_kwargs).toBeUndefined();
});

it('offers only the tool that must be called, since llama.cpp takes no choice by name', async () => {
  const tool = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });
  const conversation = { messages: [{ role: 'user', content: 'Hi' }], tools: [tool('look'), tool('see')] };
  const chat = { ...CHAT, conversation: JSON.stringify(conversation) };
  const structure = { calls: [{ name: 'see', schema: '{}', closed: true }] };
  expect(await bodyOf({ ...chat, structure })).toMatchObject({
    tools: [tool('see')],
    tool_choice: 'required',
  });
  const free = await bodyOf(chat);
  expect([free.tools, free.tool_choice]).toEqual([conversation.tools, undefined]);
});

it('asks for a repetition penalty by the names of both vLLM and llama.cpp', async () => {
  const adjustments = { presence: 0, frequency: 0, repetition: 1.5, biases: [] };
  const expected = { repetition_penalty: 1.5, repeat_penalty: 1.5 };
  expect(await bodyOf({ ...JOB, adjustments })).toMatchObject(expected);
});
