// LangChain's ChatOpenAI, unchanged, against this server. It sends requests by OpenAI's client (openai-client.test.ts).
import { AIMessage, type AIMessageChunk, HumanMessage, SystemMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { makeChatModel } from '../../support/chat-model.js';
import { ANSWER, FAIL, type ScriptedChat, startScriptedChat, WEATHER } from '../../support/scripted-chat.js';
import { ServerProcess } from '../../support/server-process.js';

const KEY = 'sk-of-the-test';

const settings = (model: string, baseURL: string) => ({
  model,
  apiKey: KEY,
  configuration: { baseURL },
  maxRetries: 0,
});

describe('a running model', () => {
  const { model: directory, remove } = makeChatModel();
  let server: ServerProcess;
  const chat = (more: ConstructorParameters<typeof ChatOpenAI>[0] = {}) =>
    new ChatOpenAI({ ...settings('chat-tiny', `${server.url}/v1`), maxTokens: 24, ...more });
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', directory]);
  });
  afterAll(async () => {
    await server.stop();
    remove();
  });

  it('answers, and streams the same text with the same usage', async () => {
    const model = chat({ temperature: 1, topP: 0.9, stop: ['\u0000'], modelKwargs: { seed: 5 } });
    const messages = [new SystemMessage('Be terse.'), new HumanMessage('Hello!')];
    const whole: AIMessageChunk = await model.invoke(messages);
    expect(whole.response_metadata.finish_reason).toMatch(/stop|length/);
    const { input_tokens, output_tokens, total_tokens } = whole.usage_metadata!;
    expect(input_tokens).toBeGreaterThan(20);
    expect(output_tokens).toBeLessThanOrEqual(24);
    let streamed: AIMessageChunk | undefined;
    for await (const chunk of await model.stream(messages)) streamed = streamed?.concat(chunk) ?? chunk;
    expect(whole.text.length).toBeGreaterThan(0);
    expect(streamed!.text).toBe(whole.text);
    expect(streamed!.usage_metadata).toMatchObject({ input_tokens, output_tokens, total_tokens });
    expect(streamed!.response_metadata.finish_reason).toBe(whole.response_metadata.finish_reason);
  });

  it('answers through the API of responses', async () => {
    const model = chat({ useResponsesApi: true });
    const whole = await model.invoke('Hello!');
    expect(whole.text).toBe((await chat().invoke('Hello!')).text);
    expect(whole.text.length).toBeGreaterThan(0);
    let text = '';
    for await (const chunk of await model.stream('Hello!')) text += chunk.text;
    expect(text).toBe(whole.text);
  });

  it('reports errors with the status and the code of the server', async () => {
    await expect(chat({ model: 'gpt-5' }).invoke('a')).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    for (const ask of [(text: string) => chat().invoke(text), (text: string) => chat().stream(text)]) {
      await expect(ask('a'.repeat(600))).rejects.toMatchObject({ name: 'ContextOverflowError' });
    }
  });
});

describe('a model that calls a tool', () => {
  let scripted: ScriptedChat;
  beforeAll(async () => {
    scripted = await startScriptedChat();
  });
  afterAll(() => scripted.close());

  const getWeather = tool(({ city }) => WEATHER[city]!, {
    name: 'get_weather',
    description: 'The weather of a city',
    schema: z.object({ city: z.string() }),
  });

  it.each([
    [
      'whole',
      (model: ReturnType<typeof bound>, messages: Parameters<typeof model.invoke>[0]) =>
        model.invoke(messages),
    ],
    ['as streams', streamed],
  ])('gets the results in the next turn, %s', async (_how, ask) => {
    const model = bound();
    const question = new HumanMessage('Weather?');
    const first = await ask(model, [question]);
    expect(first.text).toBe('I look.');
    expect(first.tool_calls!.map(({ name, args }) => [name, args])).toEqual([
      ['get_weather', { city: 'Oslo' }],
      ['get_weather', { city: 'Rome' }],
    ]);
    const results = await Promise.all(first.tool_calls!.map((call) => getWeather.invoke(call)));
    const said = new AIMessage({ content: first.text, tool_calls: first.tool_calls! });
    const second = await ask(model, [question, said, ...results]);
    expect(second.text).toBe(ANSWER);
    expect(second.tool_calls).toEqual([]);
  });

  it('gets them through the API of responses too', async () => {
    const model = bound({ useResponsesApi: true });
    const question = new HumanMessage('Weather?');
    const first = await model.invoke([question]);
    expect(first.tool_calls!.map(({ args }) => args)).toEqual([{ city: 'Oslo' }, { city: 'Rome' }]);
    const results = await Promise.all(first.tool_calls!.map((call) => getWeather.invoke(call)));
    expect((await model.invoke([question, first, ...results])).text).toBe(ANSWER);
    const { messages } = scripted.conversations.at(-1)!;
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool']);
  });

  it.each([false, true])(
    'ends a stream with the error that ended it, responses: %s',
    async (useResponsesApi) => {
      let text = '';
      const read = async () => {
        for await (const chunk of await bound({ useResponsesApi }).stream(FAIL)) text += chunk.text;
      };
      await expect(read()).rejects.toThrow(/The engine stopped/);
      expect(text).toBe('Half');
    },
  );

  function bound(more: ConstructorParameters<typeof ChatOpenAI>[0] = {}) {
    return new ChatOpenAI({ ...settings('switch-mini', scripted.baseURL), ...more }).bindTools([getWeather]);
  }

  async function streamed(
    model: ReturnType<typeof bound>,
    messages: Parameters<typeof model.invoke>[0],
  ): Promise<AIMessageChunk> {
    let message: AIMessageChunk | undefined;
    for await (const chunk of await model.stream(messages)) message = message?.concat(chunk) ?? chunk;
    return message!;
  }
});
