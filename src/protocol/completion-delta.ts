import type { CompletionDelta } from './engine-messages.js';

/** Copies the delta, so that further deltas can be appended to the copy. */
export function openDelta(delta: CompletionDelta): CompletionDelta {
  const { tokenIds, logprobs } = delta;
  return { ...delta, tokenIds: [...tokenIds], logprobs: logprobs && [...logprobs] };
}

/** Appends the next delta of the same choice. */
export function appendDelta(
  to: CompletionDelta,
  { text, tokenIds, logprobs, finishReason }: CompletionDelta,
): void {
  to.text += text;
  to.tokenIds.push(...tokenIds);
  to.logprobs?.push(...(logprobs ?? []));
  to.finishReason = finishReason;
}
