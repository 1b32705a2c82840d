/**
 * A server whose model is a script. It calls a tool for two cities and answers with what the tool said. It thinks
 * before it answers `THINK`, and fails in the middle of its answer to `FAIL`.
 */
import { answerTo, type ScriptedRun } from '../unit/queue/scripted-engine.js';
import { TestServer } from '../unit/server/test-server.js';

export const THINK = 'Think!';
export const FAIL = 'Fail!';

const CALLS = ['Oslo', 'Rome']
  .map((city) => `<tool_call>\n{"name": "get_weather", "arguments": {"city": "${city}"}}\n</tool_call>`)
  .join('\n');

/** The answer when both results are there. */
export const ANSWER = 'Oslo: snow. Rome: sun.';
/** What the tool says, by city. */
export const WEATHER: Record<string, string> = { Oslo: 'Oslo: snow.', Rome: 'Rome: sun.' };

interface Given {
  messages: { role: string; content: string | null; tool_calls?: object[] }[];
  tools?: object[];
}

export interface ScriptedChat {
  url: string;
  /** That of clients of OpenAI's API. */
  baseURL: string;
  /** The conversations that the model was given. */
  conversations: Given[];
  close: () => Promise<void>;
}

export async function startScriptedChat(): Promise<ScriptedChat> {
  const server = await TestServer.start();
  const conversations: Given[] = [];
  server.engine.script = (run) => {
    const { request } = run;
    if (request.kind !== 'chat' && request.kind !== 'respond')
      throw new Error(`expected a conversation, got the task ${request.kind}`);
    const conversation = JSON.parse(request.conversation) as Given;
    conversations.push(conversation);
    answer(run, conversation);
  };
  const url = `http://127.0.0.1:${server.running.port}`;
  return {
    url,
    baseURL: `${url}/v1`,
    conversations,
    close: () => server.close(),
  };
}

function answer(run: ScriptedRun, { messages }: Given): void {
  const question = messages.findLast(({ role }) => role === 'user')!.content;
  const results = messages.filter(({ role }) => role === 'tool').map(({ content }) => content);
  if (question === THINK) writeText(run, '<think>Hm.</think>Done.');
  else if (question === FAIL) {
    for (const letter of 'Half') run.options.onDelta?.(delta(letter, null));
    // The answer has begun when its first delta is on its way.
    setTimeout(() => run.fail('engine_crashed'), 50);
  } else writeText(run, results.length === 0 ? `I look.\n${CALLS}` : results.join(' '));
}

/** Ends the run with the text, a letter at a time. */
export function writeText(run: ScriptedRun, text: string): void {
  const letters = [...text];
  for (const [at, letter] of letters.entries())
    run.options.onDelta?.(delta(letter, at === letters.length - 1 ? 'stop' : null));
  run.finish({ ...answerTo(run.request), choices: [delta(text, 'stop')] } as ReturnType<typeof answerTo>);
}

function delta<Finish extends 'stop' | null>(text: string, finishReason: Finish) {
  return { index: 0, text, tokenIds: [7], logprobs: null, finishReason };
}
