/** Builds the message that answers a request, whole or as the events of a stream. */
import type { CompletionDelta } from '../../../protocol/engine-messages.js';
import type { ChatResult } from '../../../tasks/chat/job.js';
import { partId } from '../../../tasks/shared/part-ids.js';
import type { Answers } from '../../../tasks/task.js';
import type { ErrorAnswer } from '../../middleware/errors.js';
import { Blocks, type Event } from './blocks.js';
import { errorBody } from './error.js';
import type { MessageAnswer } from './schema.js';

interface MessageAbout {
  model: string;
  /** Id of the request. */
  id: string;
  createdMs: number;
  /** As the request asks. */
  maxTokens: number;
  /** Whether the client gets the reasoning. */
  thinking: boolean;
  /** Whether the client gets only the first call. */
  oneCall: boolean;
}

export class MessageAnswers implements Answers<ChatResult> {
  readonly #about: MessageAbout;
  /** Of a stream. */
  #blocks: Blocks;
  #opened = false;

  constructor(about: MessageAbout) {
    this.#about = about;
    this.#blocks = this.#newBlocks();
  }

  whole(result: ChatResult): MessageAnswer {
    const blocks = this.#newBlocks();
    for (const part of result.choices[0]!.parts) blocks.add(part);
    blocks.finish();
    return { ...this.#message(blocks), ...this.#stop(result, blocks), usage: usageOf(result) };
  }

  chunks({ parts = [], finishReason, promptTokens = 0 }: CompletionDelta): Event[] {
    const events = this.#opened ? [] : this.#opening(promptTokens);
    this.#opened = true;
    for (const part of parts) events.push(...this.#blocks.add(part));
    if (finishReason !== null) events.push(...this.#blocks.finish());
    return events;
  }

  closing(result: ChatResult): Event[] {
    return [
      { type: 'message_delta', delta: this.#stop(result, this.#blocks), usage: usageOf(result) },
      { type: 'message_stop' },
    ];
  }

  failed(error: ErrorAnswer['error']): Event[] {
    return [errorBody(error, this.#about.id)];
  }

  #opening(promptTokens: number): Event[] {
    const message = {
      ...this.#message(this.#newBlocks()),
      stop_reason: null,
      stop_sequence: null,
      usage: usageOf({ promptTokens, completionTokens: 0 }),
    };
    return [{ type: 'message_start', message }, { type: 'ping' }];
  }

  #message({ blocks }: Blocks): Omit<MessageAnswer, 'stop_reason' | 'stop_sequence' | 'usage'> {
    const id = partId('msg', this.#about);
    return { id, type: 'message', role: 'assistant', model: this.#about.model, content: blocks };
  }

  #stop(
    { choices, completionTokens }: ChatResult,
    { called }: Blocks,
  ): Pick<MessageAnswer, 'stop_reason' | 'stop_sequence'> {
    const { finishReason, stop } = choices[0]!;
    if (stop !== undefined) return { stop_reason: 'stop_sequence', stop_sequence: stop };
    if (finishReason === 'stop')
      return { stop_reason: called ? 'tool_use' : 'end_turn', stop_sequence: null };
    const full = completionTokens < this.#about.maxTokens;
    return { stop_reason: full ? 'model_context_window_exceeded' : 'max_tokens', stop_sequence: null };
  }

  #newBlocks(): Blocks {
    const { thinking, oneCall } = this.#about;
    return new Blocks({ thinking, oneCall, callId: (call) => partId('toolu', this.#about, call) });
  }
}

function usageOf({
  promptTokens,
  cachedTokens = 0,
  completionTokens,
  reasoningTokens = 0,
}: Pick<
  ChatResult,
  'promptTokens' | 'cachedTokens' | 'completionTokens' | 'reasoningTokens'
>): MessageAnswer['usage'] {
  return {
    input_tokens: promptTokens - cachedTokens,
    output_tokens: completionTokens,
    output_tokens_details: { thinking_tokens: reasoningTokens },
    cache_read_input_tokens: cachedTokens,
    cache_creation_input_tokens: 0,
  };
}
