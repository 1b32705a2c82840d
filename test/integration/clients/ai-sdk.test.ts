// Vercel's AI SDK with its provider for servers that follow OpenAI's API, unchanged, against this server.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  ANSWER,
  FAIL,
  type ScriptedChat,
  startScriptedChat,
  THINK,
  WEATHER,
} from '../../support/scripted-chat.js';

const KEY = 'sk-of-the-test';

function providerOf(baseURL: string, apiKey = KEY) {
  return createOpenAICompatible({ name: 'sida', baseURL, apiKey, includeUsage: true });
}

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
