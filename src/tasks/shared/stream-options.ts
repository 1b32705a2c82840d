/** `stream_options` of chats and completions. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { CompletionDelta, JobResult } from '../../protocol/engine-messages.js';

export const StreamOptions = z
  .object({
    include_usage: z.boolean().nullish().meta({
      description: 'Whether a last chunk without choices reports `usage`, which is null in the others',
    }),
    continuous_usage_stats: z.boolean().nullish().meta({
      description: 'With `include_usage`: whether every chunk reports what was used so far',
    }),
  })
  .nullish()
  .meta({ description: 'Only with `stream`' });

interface StreamRequest {
  stream?: boolean | null | undefined;
  stream_options?: z.infer<typeof StreamOptions>;
}

/** Which chunks of a stream report the usage. */
export type StreamUsage = 'none' | 'last' | 'every';

/** Throws invalid_request for options of no stream. */
export function streamUsageOf({ stream, stream_options: options }: StreamRequest): StreamUsage {
  if (options != null && stream !== true) {
    const message = `Expected "stream" to be true beside "stream_options", but got ${stream ?? 'nothing'}`;
    throw new SidaError({ code: 'invalid_request', message, param: 'stream_options' });
  }
  if (options?.include_usage !== true) return 'none';
  return options.continuous_usage_stats === true ? 'every' : 'last';
}

type UsedTokens = Pick<JobResult, 'promptTokens' | 'completionTokens'>;

/** Counts what a stream has used, as far as its chunks report it. */
export class UsageSoFar<Answer> {
  readonly #reported: StreamUsage;
  readonly #answer: (used: UsedTokens) => Answer;
  #prompt = 0;
  #completion = 0;

  /** `answer` converts counts into the `usage` of an answer. */
  constructor({ streamUsage = 'none' }: { streamUsage?: StreamUsage }, answer: (used: UsedTokens) => Answer) {
    this.#reported = streamUsage;
    this.#answer = answer;
  }

  add({ promptTokens = 0, tokenIds }: CompletionDelta): void {
    this.#prompt += promptTokens;
    this.#completion += tokenIds.length;
  }

  /** Of a chunk that is not the last. Clients know by null that a last one with the usage is still to come. */
  get field(): { usage?: Answer | null } {
    if (this.#reported === 'none') return {};
    if (this.#reported === 'last') return { usage: null };
    return { usage: this.#answer({ promptTokens: this.#prompt, completionTokens: this.#completion }) };
  }
}
