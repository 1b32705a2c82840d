// Demanded calls of a random model in several forms, over HTTP: whole, streamed, cut off, and sent back.
import { Ajv2020 } from 'ajv/dist/2020.js';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CALL_TEMPLATES } from '../../support/call-templates.js';
import { makeChatModel } from '../../support/chat-model.js';
import { ServerProcess } from '../../support/server-process.js';

const parameters = {
  type: 'object',
  properties: {
    city: { type: 'string', maxLength: 3 },
    days: { enum: [1, 2] },
    unit: { enum: ['c', 'f'] },
  },
  required: ['city', 'days'],
  additionalProperties: false,
};
const isValid = new Ajv2020().compile(parameters);
const user = { role: 'user' as const, content: 'Hi' };
type Call = OpenAI.ChatCompletionMessageFunctionToolCall;

describe.each(['coder', 'mistral_ids'] as const)('a model that writes calls in the form %s', (form) => {
  const { model: directory, remove } = makeChatModel(CALL_TEMPLATES[form]);
  let server: ServerProcess;
  let client: OpenAI;
  const request = {
    model: 'chat-tiny',
    messages: [user] as OpenAI.ChatCompletionMessageParam[],
    tools: [{ type: 'function' as const, function: { name: 'f', parameters } }],
    tool_choice: 'required' as const,
    temperature: 1,
    max_completion_tokens: 300,
  };
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', directory, '--memory-budget', '50%']);
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(async () => {
    await server.stop();
    remove();
  });

  it('calls with arguments that follow the schema, whole and in a stream', async () => {
    for (const seed of [1, 2, 3, 4]) {
      const { choices } = await client.chat.completions.create({ ...request, seed });
      const [{ message, finish_reason }] = choices as [OpenAI.ChatCompletion.Choice];
      const [call] = message.tool_calls as [Call];
      expect([finish_reason, message.content, call.function.name]).toEqual(['tool_calls', null, 'f']);
      expect(isValid(JSON.parse(call.function.arguments)), call.function.arguments).toBe(true);
      const streamed = { content: '', arguments: '' };
      for await (const { choices } of await client.chat.completions.create({
        ...request,
        seed,
        stream: true,
      })) {
        const delta = choices[0]?.delta;
        streamed.content += delta?.content ?? '';
        streamed.arguments += delta?.tool_calls?.[0]?.function?.arguments ?? '';
      }
      expect(streamed).toEqual({ content: '', arguments: call.function.arguments });
    }
  });

  it('shows no mark of a call that is cut off', async () => {
    const lengths = [1, 2, 9, 12, 20, 33, 50];
    for (const max_completion_tokens of lengths) {
      const { choices } = await client.chat.completions.create({
        ...request,
        seed: 1,
        max_completion_tokens,
      });
      expect(choices[0]!.message.content ?? '').toBe('');
    }
  });

  // The template of this family writes earlier calls only beside no content.
  it('takes its calls back', async () => {
    const { choices } = await client.chat.completions.create({ ...request, seed: 1 });
    const { message } = choices[0]!;
    const tool_call_id = message.tool_calls![0]!.id;
    const messages = [user, message, { role: 'tool' as const, tool_call_id, content: 'rain' }];
    const answer = await client.chat.completions.create({
      ...request,
      messages,
      tool_choice: 'none',
      max_completion_tokens: 2,
    });
    expect(answer.usage!.prompt_tokens).toBeGreaterThan('Hi'.length + 'rain'.length);
  });
});
