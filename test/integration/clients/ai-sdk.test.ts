// Vercel's AI SDK with its provider for servers that follow OpenAI's API, unchanged, against this server.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embed, embedMany, generateText, stepCountIs, streamText, tool } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
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

const KEY = 'sk-of-the-test';

function providerOf(baseURL: string, apiKey = KEY) {
  return createOpenAICompatible({ name: 'sida', baseURL, apiKey, includeUsage: true });
}

describe('a running model', () => {
  const { model: directory, remove } = makeChatModel();
  let server: ServerProcess;
  let provider: ReturnType<typeof providerOf>;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', directory, ...SLOW]);
    provider = providerOf(`${server.url}/v1`);
  });
  afterAll(async () => {
    await server.stop();
    remove();
  });

  it('generates text, and streams the same text with the same usage', async () => {
    const request = {
      model: provider('chat-tiny'),
      system: 'Be terse.',
      prompt: 'Hello!',
      maxOutputTokens: 24,
      temperature: 1,
      topP: 0.9,
      seed: 5,
      stopSequences: ['\u0000'],
    };
    const whole = await generateText(request);
    expect(whole.finishReason).toMatch(/stop|length/);
    expect(whole.usage.inputTokens).toBeGreaterThan(20);
    expect(whole.usage.outputTokens).toBeLessThanOrEqual(24);
    const streamed = streamText(request);
    const parts: string[] = [];
    for await (const part of streamed.textStream) parts.push(part);
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.join('')).toBe(whole.text);
    const { inputTokens, outputTokens, totalTokens } = whole.usage;
    expect(await streamed.usage).toMatchObject({ inputTokens, outputTokens, totalTokens });
    expect(await streamed.finishReason).toBe(whole.finishReason);
    expect(whole.warnings ?? []).toEqual([]);
  });

  it('takes messages of several parts', async () => {
    const { text, response } = await generateText({
      model: provider('chat-tiny'),
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
        { role: 'assistant', content: [{ type: 'text', text: 'Yes?' }] },
        { role: 'user', content: 'Go on.' },
      ],
      maxOutputTokens: 4,
    });
    expect(text.length).toBeGreaterThan(0);
    expect(response.modelId).toBe('chat-tiny');
  });

  it('embeds one text and several', async () => {
    const model = provider.embeddingModel('chat-tiny');
    const values = ['Hello', 'a longer text'];
    const { embeddings, usage } = await embedMany({ model, values });
    expect(embeddings.map((numbers) => numbers.length)).toEqual([64, 64]);
    expect(usage.tokens).toBe(values.join('').length);
    expect((await embed({ model, value: values[0]! })).embedding).toEqual(embeddings[0]);
  });

  it('reports errors with the status and the message of the server', async () => {
    const wrong = await generateText({ model: provider('gpt-5'), prompt: 'a', maxRetries: 0 }).catch(
      (error: unknown) => error,
    );
    expect(APICallError.isInstance(wrong)).toBe(true);
    expect(wrong).toMatchObject({
      statusCode: 404,
      isRetryable: false,
      message: expect.stringContaining('chat-tiny'),
      data: { error: { code: 'model_not_found', type: 'invalid_request_error', param: 'model' } },
    });
    const long = { model: provider('chat-tiny'), prompt: 'a'.repeat(600), maxRetries: 0 };
    const overflow = { statusCode: 400, data: { error: { code: 'context_length_exceeded' } } };
    await expect(generateText(long)).rejects.toMatchObject(overflow);
    const errors: unknown[] = [];
    const stream = streamText({ ...long, onError: ({ error }) => void errors.push(error) });
    await stream.consumeStream();
    expect(errors).toMatchObject([overflow]);
  });

  it('stops a generation that is aborted', async () => {
    await expectFreed(server, async () => {
      const aborter = new AbortController();
      const stream = streamText({
        model: provider('chat-tiny'),
        prompt: 'Hello!',
        maxOutputTokens: 400,
        temperature: 2,
        seed: 1,
        abortSignal: aborter.signal,
      });
      const types = new Set<string>();
      for await (const { type } of stream.fullStream) {
        types.add(type);
        if (type === 'text-delta') aborter.abort();
      }
      expect(types).toContain('abort');
    });
  });
});

describe('a model that calls a tool', () => {
  let scripted: ScriptedChat;
  beforeAll(async () => {
    scripted = await startScriptedChat();
  });
  afterAll(() => scripted.close());

  const get_weather = tool({
    description: 'The weather of a city',
    inputSchema: z.object({ city: z.string() }),
    execute: ({ city }) => WEATHER[city]!,
  });
  const request = () => ({
    model: providerOf(scripted.baseURL)('switch-mini'),
    prompt: 'Weather?',
    tools: { get_weather },
    stopWhen: stepCountIs(3),
  });

  it('gets the results in the next step', async () => {
    const { text, steps } = await generateText(request());
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop']);
    expect(steps[0]!.toolCalls.map(({ input }) => input)).toEqual([{ city: 'Oslo' }, { city: 'Rome' }]);
    expect(steps[0]!.text).toBe('I look.');
    expect(text).toBe(ANSWER);
    const { messages, tools } = scripted.conversations.at(-1)!;
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool']);
    expect(tools).toHaveLength(1);
  });

  it('gets them in streams too', async () => {
    const stream = streamText(request());
    await stream.consumeStream();
    const steps = await stream.steps;
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop']);
    expect(steps[0]!.toolResults.map(({ output }) => output)).toEqual(Object.values(WEATHER));
    expect(await stream.text).toBe(ANSWER);
  });

  it('has its reasoning apart, whole and in streams', async () => {
    const think = { ...request(), prompt: THINK };
    const whole = await generateText(think);
    expect([whole.reasoningText, whole.text]).toEqual(['Hm.', 'Done.']);
    const stream = streamText(think);
    await stream.consumeStream();
    expect([await stream.reasoningText, await stream.text]).toEqual(['Hm.', 'Done.']);
  });

  it('ends a stream with the error that ended it', async () => {
    const errors: unknown[] = [];
    const stream = streamText({
      ...request(),
      prompt: FAIL,
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    });
    let text = '';
    for await (const part of stream.textStream) text += part;
    expect(text).toBe('Half');
    expect(errors).toMatchObject([
      { code: 'engine_crashed', message: expect.stringContaining('The engine stopped') },
    ]);
  });
});
