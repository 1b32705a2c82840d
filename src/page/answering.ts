/** Streams one answer of the chat. */
import { events, Refused } from './api.js';
import { type Conversation, type ExpertCost, wireMessages } from './conversations.js';
import { drawn } from './markdown.js';

/** What an answer has so far. */
export interface Told {
  text: string;
  reasoning: string;
  tokens: number;
  promptTokens: number;
  cachedTokens: number;
  cut: boolean;
  firstSeconds: number;
  restSeconds: number;
  experts?: ExpertCost;
}

interface Chunk {
  error?: { message: string };
  choices: { delta: { content?: string; reasoning_content?: string }; finish_reason: string | null }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number };
  } | null;
  experts?: ExpertCost;
}

/** The request of a conversation. Its seed makes the same request give the same answer. */
export function bodyOf(
  model: string,
  conversation: Pick<Conversation, 'settings' | 'messages'>,
  seed: number,
) {
  const { system: _, ...sampling } = conversation.settings;
  return { model, messages: wireMessages(conversation), seed, ...sampling };
}

/**
 * Calls `onText` with what has come, now and then. Rejects with Refused for an error, and where the stream ends
 * before the answer does.
 */
export async function streamAnswer(
  body: ReturnType<typeof bodyOf>,
  {
    signal,
    withExperts,
    onText,
  }: { signal: AbortSignal; withExperts: boolean; onText: (told: Told) => void },
): Promise<Told> {
  const begin = performance.now();
  const told: Told = {
    ...{ text: '', reasoning: '', tokens: 0, promptTokens: 0, cachedTokens: 0, cut: false },
    ...{ firstSeconds: 0, restSeconds: 0 },
  };
  const request = {
    ...body,
    stream: true,
    stream_options: { include_usage: true },
    ...(withExperts && { include: ['experts'] }),
  };
  let first = 0;
  let ended = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const show = () => {
    timer = undefined;
    if (first > 0) told.restSeconds = (performance.now() - first) / 1000;
    onText({ ...told });
  };
  try {
    for await (const data of events('/v1/chat/completions', { method: 'POST', body: request, signal })) {
      if (data === '[DONE]') {
        ended = true;
        break;
      }
      const { error, choices, usage, experts } = JSON.parse(data) as Chunk;
      if (error) throw new Refused(500, error.message);
      for (const { delta, finish_reason: reason } of choices) {
        if (delta.content || delta.reasoning_content) {
          if (first === 0) {
            first = performance.now();
            told.firstSeconds = (first - begin) / 1000;
          }
          // Until the usage comes, a piece counts as a token.
          told.tokens += 1;
        }
        told.reasoning += delta.reasoning_content ?? '';
        told.text += delta.content ?? '';
        if (reason === 'length') told.cut = true;
      }
      if (usage) {
        told.tokens = usage.completion_tokens;
        told.promptTokens = usage.prompt_tokens;
        told.cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? 0;
      }
      if (experts) told.experts = experts;
      timer ??= setTimeout(show, Math.max(FRAME_MS, 4 * drawn.ms));
    }
    if (!ended) throw new Refused(500, 'The connection ended before the answer did.');
  } finally {
    if (timer !== undefined) {
      clearTimeout(timer);
      show();
    }
  }
  return told;
}

/** Least time between two views of an answer that grows. */
const FRAME_MS = 50;
