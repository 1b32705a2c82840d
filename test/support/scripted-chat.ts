/**
 * A server whose model is a script. It calls a tool for two cities and answers with what the tool said. It thinks
 * before it answers `THINK`, and fails in the middle of its answer to `FAIL`.
 */
import type { TokenLogprobs } from '../../src/protocol/engine-messages.js';
import type { TaskJob } from '../../src/tasks/registry.js';
import { answerParser } from '../../src/text/chat/answer-parser.js';
import { type AnswerPart, appendParts } from '../../src/text/chat/answer-parts.js';
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
    for (const text of 'Half')
      run.options.onDelta?.({ ...TOKEN, text: '', parts: [{ kind: 'content', text }] });
    // The answer has begun when its first delta is on its way.
    setTimeout(() => run.fail('engine_crashed'), 50);
  } else writeText(run, results.length === 0 ? `I look.\n${CALLS}` : results.join(' '));
}

interface Written {
  /** Texts of the tokens. Default: a letter each. */
  pieces?: readonly string[];
  finishReason?: 'stop' | 'length';
  logprobs?: TokenLogprobs[] | null;
}

const TOKEN = { index: 0, tokenIds: [7], logprobs: null, finishReason: null };

/** Ends the run with the text, which an engine splits if it answers a conversation. */
export function writeText(run: ScriptedRun, text: string, written: Written = {}): void {
  const { pieces = [...text], finishReason = 'stop', logprobs = null } = written;
  const request = run.request as TaskJob;
  const parser = 'answer' in request ? answerParser(request.answer, request.tools) : undefined;
  const parts: AnswerPart[] = [];
  for (const [at, piece] of pieces.entries()) {
    const last = at === pieces.length - 1;
    const delta = { ...TOKEN, logprobs, finishReason: last ? finishReason : null };
    const found = parser && [...parser.push(piece), ...(last ? parser.finish() : [])];
    appendParts(parts, found ?? []);
    if ('stream' in request && request.stream)
      run.options.onDelta?.({ ...delta, ...(found ? { text: '', parts: found } : { text: piece }) });
  }
  const choice = { ...TOKEN, logprobs, finishReason, ...(parser ? { parts } : { text }) };
  run.finish({ ...answerTo(run.request), choices: [choice] } as ReturnType<typeof answerTo>);
}
