/**
 * What a request is charged in tokens: what it brings and what it may make. Texts are tokenized in the engine process,
 * after admission, so a text is reserved by its bytes and settled by the tokens it had.
 */
import type { JobRequest, JobResult } from '../../protocol/engine-messages.js';

export interface TokenCost {
  /** Token ids that were sent, and the most that may be generated. */
  known: number;
  /** Of texts. */
  estimated: number;
}

/** Below the 2.4 to 4.5 of plain texts: a reservation is rather too large, and shrinks to the truth. */
const BYTES_PER_TOKEN = 2;

export function costOf(request: JobRequest): TokenCost {
  switch (request.kind) {
    case 'tokenize':
      return { known: 0, estimated: textTokens(request.inputs) };
    case 'classify':
      return { known: 0, estimated: textTokens(request.inputs) + labelTokens(request) };
    case 'complete': {
      const texts = request.prompts.filter((prompt) => typeof prompt === 'string');
      const ids = request.prompts.filter((prompt) => typeof prompt !== 'string');
      const sent = ids.reduce((sum, prompt) => sum + prompt.length, 0);
      const made = request.maxTokens * request.prompts.length * (request.choices ?? 1);
      return { known: sent + made, estimated: textTokens(texts) };
    }
  }
}

export function tokensUsed(request: JobRequest, { promptTokens, completionTokens }: JobResult): number {
  return promptTokens + (request.kind === 'classify' ? labelTokens(request) : completionTokens);
}

/** Every label is run against every input; an answer does not count these tokens, so their estimate stands. */
function labelTokens({ inputs, labels }: Extract<JobRequest, { kind: 'classify' }>): number {
  return inputs.length * textTokens(labels);
}

function textTokens(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN), 0);
}
