/** What a model goes on with by itself, a native step for each token: for tools that want the routing of every step. */
import type { Engine, RunResult } from '../native/addon-types.js';
import { assertFinite, greedy } from './sampler.js';

export interface ContinuationStep {
  /** The token that was fed; the first is the start token. */
  token: number;
  /** With router logits. */
  run: RunResult;
}

/**
 * Greedy steps of a new sequence 1 before context 1, until the end token or `most` steps; the caller releases both.
 * Throws nonfinite_output.
 */
export function continueGreedily(engine: Engine, most: number): ContinuationStep[] {
  const { decoderStartTokenId, eosTokenId } = engine.shape;
  const one = Int32Array.of(1);
  const steps: ContinuationStep[] = [];
  for (let token = decoderStartTokenId; steps.length < most; ) {
    const run = engine.runBatch(
      {
        phase: 'decode',
        sequences: one,
        contexts: one,
        offsets: Int32Array.of(0, 1),
        tokens: Int32Array.of(token),
        logitRows: Int32Array.of(0),
        routerLogits: true,
      },
      null,
    );
    steps.push({ token, run });
    assertFinite(run.logits!);
    token = greedy(run.logits!);
    if (token === eosTokenId) break;
  }
  return steps;
}
