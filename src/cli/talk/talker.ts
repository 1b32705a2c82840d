/** Answers conversations: a model in this process's charge, or a server's. */
import type { z } from 'zod';
import type { ChatAnswer, ChatChunk } from '../../tasks/chat/schema.js';
import type { Quote } from '../../tasks/shared/schema.js';
import type { Settings } from './settings.js';

export type Said = {
  role: 'system' | 'user' | 'assistant';
  content: string;
};

export interface Listener {
  /** Aborting ends the answer. */
  signal?: AbortSignal;
  onText(text: string): void;
  /** What the model writes before its answer. */
  onReasoning(text: string): void;
}

export interface Usage {
  promptTokens: number;
  /** Of these, tokens that the prefix cache had. */
  cachedTokens: number;
  completionTokens: number;
}

export interface Talker {
  readonly model: string;
  /** Undefined where it is not known. */
  readonly contextTokens: number | undefined;
  /** What the model advises, which applies where nothing is set. Null for none: greedy. Undefined as above. */
  readonly advice: Settings | null | undefined;
  /** Passes the answer on as it is generated. Rejects with SidaError; the code is `cancelled` after an abort. */
  answer(messages: readonly Said[], settings: Settings, listener: Listener): Promise<Usage>;
  /** The whole answer, in the form of the HTTP API. */
  whole(messages: readonly Said[], settings: Settings): Promise<ChatAnswer>;
  /** What the answer would cost. */
  quote(messages: readonly Said[], settings: Settings): Promise<z.infer<typeof Quote>>;
  close(): Promise<void>;
}

/** Passes a chunk's text on. */
export function tell({ choices: [choice] }: Pick<ChatChunk, 'choices'>, listener: Listener): void {
  const { content, reasoning_content: reasoning } = choice?.delta ?? {};
  if (reasoning) listener.onReasoning(reasoning);
  if (content) listener.onText(content);
}

export function usageOf(usage: NonNullable<ChatChunk['usage']>): Usage {
  return {
    promptTokens: usage.prompt_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    completionTokens: usage.completion_tokens,
  };
}
