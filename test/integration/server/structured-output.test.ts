// Answers that a schema or a tool binds, of a random model: whatever it draws must follow them.
import { Ajv2020 } from 'ajv/dist/2020.js';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeChatModel } from '../../support/chat-model.js';
import { ServerProcess } from '../../support/server-process.js';

const messages = [{ role: 'user' as const, content: 'Hello!' }];
const schema = {
  type: 'object',
  properties: {
    kind: { enum: ['animal', 'plant'] },
    count: { type: 'integer', minimum: -5, maximum: 120 },
    tags: { type: 'array', items: { type: 'string', maxLength: 4 }, maxItems: 3 },
    note: { type: ['string', 'null'], maxLength: 6 },
  },
  required: ['kind', 'count', 'tags'],
  additionalProperties: false,
};
const format = { type: 'json_schema' as const, json_schema: { name: 'thing', strict: true, schema } };
const parameters = {
  type: 'object',
  properties: { a: { type: 'string', maxLength: 3 }, b: { enum: [1, 2] } },
  required: ['a', 'b'],
};
const tools = ['f', 'g'].map((name) => ({ type: 'function' as const, function: { name, parameters } }));
/** The context of the model is short. */
const max_completion_tokens = 100;

const ajv = new Ajv2020({ strict: false });
const isThing = ajv.compile(schema);
const isArguments = ajv.compile({ ...parameters, additionalProperties: false });

function expectThing(text: string | null): void {
  expect(isThing(JSON.parse(text!)), `${text} ${JSON.stringify(isThing.errors)}`).toBe(true);
}

describe('structured output', () => {
  const { model: directory, remove } = makeChatModel();
  let server: ServerProcess;
  let client: OpenAI;
  const model = 'chat-tiny';
  const base = { model, messages, max_completion_tokens: 400 };
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', directory, '--memory-budget', '50%']);
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(async () => {
    await server.stop();
    remove();
  });

  it('follows the schema at every temperature, in each of several choices', async () => {
    for (const temperature of [0, 1, 2]) {
      const request = {
        ...base,
        response_format: format,
        temperature,
        seed: 7,
        n: temperature === 0 ? 1 : 4,
      };
      const { choices } = await client.chat.completions.create(request);
      for (const { message, finish_reason } of choices) {
        expect(finish_reason).toBe('stop');
        expectThing(message.content);
      }
      if (temperature > 0)
        expect(new Set(choices.map(({ message }) => message.content)).size).toBeGreaterThan(1);
    }
  });

  it('gives the same text alone, among others, and in a stream', async () => {
    const ask = async (seed: number, response_format?: typeof format) => {
      const request = { ...base, temperature: 1, seed, max_completion_tokens: 200 };
      const answer = await client.chat.completions.create({
        ...request,
        ...(response_format && { response_format }),
      });
      return answer.choices[0]!.message.content;
    };
    const alone = await ask(11, format);
    const free = await ask(12);
    const together = await Promise.all([ask(11, format), ask(12), ask(13, format), ask(14), ask(11, format)]);
    expect([together[0], together[4]]).toEqual([alone, alone]);
    expect(together[1]).toBe(free);
    const stream = await client.chat.completions.create({
      ...base,
      max_completion_tokens: 200,
      temperature: 1,
      seed: 11,
      response_format: format,
      stream: true,
    });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).toBe(alone);
    expectThing(text);
  });

  it.each(['required' as const, { type: 'function' as const, function: { name: 'g' } }])(
    'calls a tool: %j',
    async (tool_choice) => {
      for (const temperature of [0, 1]) {
        const request = { ...base, max_completion_tokens, tools, tool_choice, temperature, seed: 3 };
        const { choices } = await client.chat.completions.create(request);
        const [{ message, finish_reason }] = choices as [OpenAI.ChatCompletion.Choice];
        expect(finish_reason).toBe('tool_calls');
        expect(message.tool_calls).toHaveLength(1);
        const [call] = message.tool_calls as OpenAI.ChatCompletionMessageFunctionToolCall[];
        expect(['f', 'g']).toContain(call!.function.name);
        if (tool_choice !== 'required') expect(call!.function.name).toBe('g');
        expect(isArguments(JSON.parse(call!.function.arguments))).toBe(true);
      }
    },
  );

  it('streams a forced call', async () => {
    const request = {
      ...base,
      tools,
      tool_choice: 'required' as const,
      seed: 3,
      temperature: 1,
      max_completion_tokens,
    };
    const whole = await client.chat.completions.create(request);
    const stream = await client.chat.completions.create({ ...request, stream: true });
    let text = '';
    for await (const chunk of stream)
      text += chunk.choices[0]?.delta.tool_calls?.[0]?.function?.arguments ?? '';
    const [call] = whole.choices[0]!.message.tool_calls as OpenAI.ChatCompletionMessageFunctionToolCall[];
    expect(text).toBe(call!.function.arguments);
  });

  it('ends in the middle where max_tokens ends it', async () => {
    const request = { ...base, response_format: format, max_completion_tokens: 3 };
    const { choices } = await client.chat.completions.create(request);
    expect(choices[0]).toMatchObject({ finish_reason: 'length', message: { content: '{"k' } });
  });

  it('binds responses and completions', async () => {
    const response = await client.responses.create({
      model,
      input: 'Hello!',
      temperature: 1,
      max_output_tokens: 400,
      text: { format: { type: 'json_schema', name: 'thing', schema } },
    });
    expectThing(response.output_text);
    const { body } = await server.post('/v1/completions', {
      prompt: ['a', 'b'],
      max_tokens: 400,
      temperature: 1,
      response_format: format,
    });
    for (const { text } of body.choices) expectThing(text);
  });

  it('answers json_object with an object', async () => {
    const request = {
      ...base,
      response_format: { type: 'json_object' as const },
      temperature: 1,
      n: 4,
      seed: 5,
    };
    const { choices } = await client.chat.completions.create(request);
    for (const { message, finish_reason } of choices) {
      if (finish_reason === 'length') expect(message.content).toMatch(/^\{/);
      else expect(typeof JSON.parse(message.content!)).toBe('object');
    }
  });

  it('gives the same texts after inputs gave up their pages', async () => {
    const limits = ['--memory-budget', '1%', '--max-batch-tokens', '64', '--kv-tokens', '384'];
    const crowded = await ServerProcess.start(['--model', directory, ...limits]);
    try {
      const ask = async (of: ServerProcess, seed: number) => {
        const sampled = { temperature: 1, seed, max_completion_tokens: 200 };
        const request = { model, messages, response_format: format, ...sampled };
        const { status, body } = await of.post('/v1/chat/completions', request);
        expect(status, JSON.stringify(body)).toBe(200);
        return body.choices[0] as { message: { content: string }; finish_reason: string };
      };
      const seeds = [...Array(16).keys()];
      const alone = [];
      for (const seed of seeds) alone.push(await ask(server, seed));
      const together = await Promise.all(seeds.map((seed) => ask(crowded, seed)));
      expect(together).toEqual(alone);
      for (const { message, finish_reason } of together) {
        if (finish_reason === 'stop') expectThing(message.content);
      }
      const { body } = await crowded.get('/metrics');
      expect(Number(/^sida_preemptions_total (\S+)$/m.exec(body)![1])).toBeGreaterThan(0);
    } finally {
      await crowded.stop();
    }
  });

  it('counts the threads of its grammars, and their memory', async () => {
    await client.chat.completions.create({ ...base, response_format: format });
    const metric = async (name: string) =>
      Number(new RegExp(`^${name} (\\S+)$`, 'm').exec((await server.get('/metrics')).body)?.[1]);
    await expect.poll(() => metric('sida_grammar_bytes')).toBeGreaterThan(1 << 20);
    expect(await metric('sida_grammar_threads')).toBeGreaterThanOrEqual(1);
  });

  it.each<[string, object, RegExp]>([
    ['a keyword that it cannot follow', { type: 'array', uniqueItems: true }, /uniqueItems/],
    ['a schema that is none', { type: 'thing' }, /expected one of string, number/],
    ['a reference to nothing', { $ref: '#/$defs/x' }, /names no schema/],
    [
      'a circle',
      { $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' },
      /no token of the model begins such an answer/,
    ],
  ])('refuses %s with the reason', async (_, wrong, reason) => {
    const request = {
      ...base,
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema: wrong } },
    };
    const { status, body } = await server.post('/v1/chat/completions', request);
    expect([status, body.error.param]).toEqual([400, 'response_format']);
    expect(body.error.message).toMatch(reason);
  });
});
