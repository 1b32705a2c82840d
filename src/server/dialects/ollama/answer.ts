/** Builds the answer of a chat or a generation, whole or as lines. */
import type { CompletionDelta } from '../../../protocol/engine-messages.js';
import type { ChatResult } from '../../../tasks/chat/job.js';
import { chatLogprobs } from '../../../tasks/chat/logprobs.js';
import type { CompleteResult } from '../../../tasks/complete/job.js';
import type { Answers } from '../../../tasks/task.js';
import type { AnswerPart } from '../../../text/chat/answer-parts.js';
import type { ErrorAnswer } from '../../middleware/errors.js';
import { argumentsObject } from '../arguments.js';
import { withParam } from '../error-text.js';
import { callId } from './messages.js';
import type { AnswerCall } from './schema.js';

type Result = ChatResult | CompleteResult;
type Logprobs = NonNullable<ReturnType<typeof chatLogprobs>>['content'];

interface LinesAbout {
  /** The name that the request gave the model. */
  model: string;
  /** Whether the client gets the reasoning. */
  thinking: boolean;
  logprobs: boolean;
  /** Times by `performance.now()`: of the request, and when its model was loaded. */
  startedMs: number;
  loadedMs: number;
  /** Writes what the model said in the shape of the route. */
  shape: (said: Said) => object;
}

/** What a line adds to the answer. */
export interface Said {
  content: string;
  thinking: string;
  calls: AnswerCall[];
}

export const inMessage = ({ content, thinking, calls }: Said) => ({
  message: {
    role: 'assistant',
    content,
    ...(thinking !== '' && { thinking }),
    ...(calls.length > 0 && { tool_calls: calls }),
  },
});

export const asResponse = ({ content, thinking }: Said) => ({
  response: content,
  ...(thinking !== '' && { thinking }),
});

export class LineAnswers implements Answers<Result> {
  readonly #about: LinesAbout;
  /** The call whose arguments arrive. Lines have whole calls. */
  #call: { name: string; json: string } | undefined;
  #calls = 0;
  /** Not yet sent: a token that adds no text waits for the next line. */
  #logprobs: Logprobs = [];

  constructor(about: LinesAbout) {
    this.#about = about;
  }

  whole(result: Result): object {
    const choice = result.choices[0]!;
    const said = this.#said('parts' in choice ? choice.parts : plainParts(choice.text), true);
    this.#keep(choice.logprobs);
    return { ...this.#line(said, true), ...this.#totals(result) };
  }

  chunks({ text, parts = plainParts(text), logprobs, finishReason }: CompletionDelta): object[] {
    const said = this.#said(parts, finishReason !== null);
    this.#keep(logprobs);
    const empty = said.content === '' && said.thinking === '' && said.calls.length === 0;
    return empty ? [] : [this.#line(said, false)];
  }

  closing(result: Result): object[] {
    const nothing = { content: '', thinking: '', calls: [] };
    return [{ ...this.#line(nothing, true), ...this.#totals(result) }];
  }

  failed(error: ErrorAnswer['error']): object[] {
    return [{ error: withParam(error) }];
  }

  #said(parts: readonly AnswerPart[], last: boolean): Said {
    const said: Said = { content: '', thinking: '', calls: [] };
    for (const part of parts) {
      if (part.kind === 'arguments') this.#call!.json += part.text;
      else this.#endCall(said);
      if (part.kind === 'content') said.content += part.text;
      else if (part.kind === 'call') this.#call = { name: part.name, json: '' };
      else if (part.kind === 'reasoning' && this.#about.thinking) said.thinking += part.text;
    }
    if (last) this.#endCall(said);
    return said;
  }

  #endCall({ calls }: Said): void {
    if (this.#call === undefined) return;
    const { name, json } = this.#call;
    const index = this.#calls++;
    calls.push({ id: callId(index), function: { index, name, arguments: argumentsObject(json) } });
    this.#call = undefined;
  }

  #keep(logprobs: CompletionDelta['logprobs']): void {
    if (this.#about.logprobs) this.#logprobs.push(...(chatLogprobs(logprobs)?.content ?? []));
  }

  #line(said: Said, done: boolean): object {
    const logprobs = this.#logprobs.splice(0);
    return {
      model: this.#about.model,
      created_at: new Date().toISOString(),
      ...this.#about.shape(said),
      done,
      ...(logprobs.length > 0 && { logprobs }),
    };
  }

  #totals({ choices, promptTokens, completionTokens, timing }: Result): object {
    const { startedMs, loadedMs } = this.#about;
    const { inferenceMs, promptMs = 0 } = timing;
    return {
      done_reason: choices[0]!.finishReason,
      total_duration: nanoseconds(performance.now() - startedMs),
      load_duration: nanoseconds(loadedMs - startedMs),
      prompt_eval_count: promptTokens,
      prompt_eval_duration: nanoseconds(promptMs),
      eval_count: completionTokens,
      eval_duration: nanoseconds(inferenceMs - promptMs),
    };
  }
}

/** The answer of a completion, which is not split. */
function plainParts(text: string): AnswerPart[] {
  return [{ kind: 'content', text }];
}

export function nanoseconds(ms: number): number {
  return Math.round(ms * 1e6);
}
