/** What a job brings to the engine. Texts are tokenized there, so theirs is an estimate. */
import type { JobRequest } from '../protocol/engine-messages.js';

/** Of plain texts: 2.4 to 4.5. */
const BYTES_PER_TOKEN = 3;

/** Tokens of a job's inputs, 1 at least for each. */
export function inputTokens(request: JobRequest): number {
  if (request.kind === 'tokenize') return 1;
  const inputs = request.kind === 'classify' ? request.inputs : request.prompts;
  return inputs.reduce((sum, input) => sum + Math.max(1, tokensOf(input)), 0);
}

function tokensOf(input: string | readonly number[]): number {
  return typeof input === 'string' ? Math.ceil(Buffer.byteLength(input) / BYTES_PER_TOKEN) : input.length;
}
