/** Greedy continuation of a sequence, one native pass per token, for tools that record the routing of every step. */
import { SidaError } from '../errors.js';
import type { Engine, RunResult } from '../native/addon-types.js';

interface ContinuationStep {
  /** The token that was fed. */
  token: number;
  /** With router logits. */
  run: RunResult;
}

interface Continuation {
  /** Of the last stack. */
  sequence: number;
  /** NO_PARENT where the sequence is there already. */
  parent: number;
  /** Fed first: the start token, or the token picked after the prompt. */
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
 * Greedy steps of a sequence until an end token is picked, which is not fed, or `most` steps; the caller releases it.
 * Throws nonfinite_output.
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
