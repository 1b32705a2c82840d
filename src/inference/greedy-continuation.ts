/** What a model goes on with by itself, a pass for each token: for tools that want the routing of every token. */
import type { Engine, RunResult } from '../native/addon-types.js';
import { lastStack } from '../model/model-shape.js';
import { tokenOf } from './pass-batch.js';

export interface ContinuationStep {
  /** The token that was fed. */
  token: number;
  /** With router logits. */
  run: RunResult;
}

export interface ContinuationStart {
  /** A new one, or one that the model has run over a prompt. */
  sequence: number;
  /** Of a new one: what it attends across to or continues; else NO_PARENT. */
  parent: number;
  /** Fed first: the start token, or the one picked after the prompt. */
  token: number;
}

/** Greedy steps until an end token or `most` of them; the caller releases the sequence. Throws nonfinite_output. */
export function continueGreedily(
  engine: Engine,
  { sequence, parent, token: first }: ContinuationStart,
  most: number,
): ContinuationStep[] {
  const { end } = engine.shape.tokens;
  const steps: ContinuationStep[] = [];
  for (let token = first; steps.length < most && !(steps.length > 0 && end.includes(token)); ) {
    const run = engine.runBatch(
      {
        stack: lastStack(engine.shape),
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
    token = tokenOf({ id: run.picked![0]!, logprob: run.pickedLogprobs![0]!, top: [] });
  }
  return steps;
}
