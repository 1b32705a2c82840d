/** Log-probabilities in the shape of OpenAI's chat completions. */
import type { TokenLogprobs } from '../../protocol/engine-messages.js';
import { bytesOfName } from '../../text/token-name.js';
import { finiteLogprob } from '../shared/logprobs.js';
import type { ChatLogprobs } from './schema.js';

export function chatLogprobs(logprobs: readonly TokenLogprobs[] | null): ChatLogprobs | null {
  if (logprobs === null) return null;
  const content = logprobs.map(({ top, ...own }) => ({ ...named(own), top_logprobs: top.map(named) }));
  return { content, refusal: null };
}

function named({ token, logprob }: { token: string; logprob: number | null }) {
  const bytes = bytesOfName(token);
  const text = bytes === null ? token : Buffer.from(bytes).toString();
  return { token: text, logprob: finiteLogprob(logprob), bytes };
}
