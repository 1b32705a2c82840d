// LangChain's ChatOpenAI, unchanged, against this server. It sends requests by OpenAI's client (openai-client.test.ts).
import { AIMessage, type AIMessageChunk, HumanMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ANSWER, FAIL, type ScriptedChat, startScriptedChat, WEATHER } from '../../support/scripted-chat.js';

const KEY = 'sk-of-the-test';

const settings = (model: string, baseURL: string) => ({
  model,
  apiKey: KEY,
  configuration: { baseURL },
  maxRetries: 0,
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
