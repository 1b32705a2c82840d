/** One running generation, and one decode step of several that are routed alike. */
import { SidaError } from '../errors.js';
import type { Foreknowledge } from './foreknowledge.js';
import type { GeneratedToken } from './messages.js';
import type { NativeSteps } from './native-steps.js';
import { assertFinite, greedy, logSumExp, mostLikely } from './sampler.js';

export interface Generation {
  item: number;
  job: number;
  context: number;
  sequence: number;
  /** KV pages of its context and sequence. */
  pages: number;
  /** Fed with the next step: the start token first. */
  nextToken: number;
  tokensLeft: number;
  logprobs: number | null;
  /** Experts that tables route its tokens to; 0: the model's routers do. */
  routingK: number;
}

export interface StepOutcome {
  tokens: GeneratedToken[];
  /** Those that gave their last token. */
  finished: Generation[];
  failed: { generation: Generation; error: SidaError }[];
}

/** One greedy step of every generation; those whose native step failed appear in none of the lists. */
export function decodeStep(
  generations: readonly Generation[],
  steps: NativeSteps,
  endToken: number,
  known: Foreknowledge,
): StepOutcome {
  const outcome: StepOutcome = { tokens: [], finished: [], failed: [] };
  const sequences = generations.map(({ job, sequence, context, nextToken }) => {
    return { job, sequence, context, tokens: [nextToken], rows: [0] };
  });
  steps.decode(sequences, known, (index, [logits]) => {
    const generation = generations[index]!;
    try {
      const token = nextToken(generation, logits!);
      outcome.tokens.push(token);
      generation.nextToken = token.id;
      generation.tokensLeft -= 1;
      if (token.id === endToken || generation.tokensLeft === 0) outcome.finished.push(generation);
    } catch (error) {
      outcome.failed.push({ generation, error: SidaError.from(error) });
    }
  });
  return outcome;
}

function nextToken({ item, logprobs }: Generation, logits: Float32Array): GeneratedToken {
  assertFinite(logits);
  const id = greedy(logits);
  if (logprobs === null) return { item, id };
  const logSum = logSumExp(logits);
  const top = mostLikely(logits, logprobs, logSum);
  return { item, id, logprobs: { logprob: logits[id]! - logSum, top } };
}
