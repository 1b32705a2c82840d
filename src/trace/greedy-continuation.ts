/** Greedy continuation of a sequence, one native pass per token, for tools that record the routing of every step. */
import { SidaError } from '../errors.js';
import type { Engine, RunResult } from '../native/addon-types.js';

interface ContinuationStep {
  /** The token that the step read. */
  token: number;
  /** The result of the step's pass, with router logits. */
  run: RunResult;
}

interface Continuation {
  /** Sequence number in the last stack. */
  sequence: number;
  /** Parent sequence. NO_PARENT when the sequence exists already. */
  parent: number;
  /** The first token to read: the start token, or the token picked after the prompt. */
  token: number;
}

/** The only pick of a pass. Throws nonfinite_output. */
export function pickedBy({ picked }: RunResult): number {
  const token = picked![0]!;
  if (token >= 0) return token;
  throw new SidaError({
    code: 'nonfinite_output',
    message: `The model's output is not finite: the logit of token ${-1 - token}`,
  });
}

/**
 * Runs greedy steps of a sequence until it picks an end token, which it does not read, or for `most` steps. The
 * caller releases the sequence. Throws nonfinite_output.
 */
export function continueGreedily(
  engine: Engine,
  { sequence, parent, token: first }: Continuation,
  most: number,
): ContinuationStep[] {
  const { stacks, tokens } = engine.shape;
  const steps: ContinuationStep[] = [];
  for (let token = first; steps.length < most; ) {
    const run = engine.runBatch(
      {
        stack: stacks.length - 1,
        sequences: Int32Array.of(sequence),
        parents: Int32Array.of(parent),
        offsets: Int32Array.of(0, 1),
        tokens: Int32Array.of(token),
        picks: { rows: Int32Array.of(0) },
        routerLogits: true,
      },
      null,
    );
    steps.push({ token, run });
    token = pickedBy(run);
    if (tokens.end.includes(token)) break;
  }
  return steps;
}
