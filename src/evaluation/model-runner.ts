/** Runs inputs through a model in exact mode, to record where its routers send every token, and in predicted mode. */

import {
  type Engine,
  type ModelShape,
  type NativeRouting,
  NO_PARENT,
  type RunResult,
} from '../native/addon-types.js';
import { embedsOnly } from '../native/model-shape.js';
import type { HashInput } from '../predictor/hash-function.js';
import type { TrueRouting } from '../predictor/hit-counts.js';
import type { ScoringTarget } from '../protocol/item-work.js';
import { assertFiniteLogprobs, passBatch } from '../scheduler/pass-batch.js';
import { LabelScores } from '../scheduler/scoring.js';
import { continueGreedily, pickedBy } from '../trace/greedy-continuation.js';
import { RouterRanking } from '../trace/router-ranking.js';
import {
  type EvaluationInput,
  type InputPass,
  inputBehind,
  labelsOf,
  PROMPT,
  passesOf,
} from './input-passes.js';

/** The tokens of an input that one table covers: those of a pass, or those of a continuation. */
export interface RunPart {
  stack: number;
  input: HashInput;
  routing: TrueRouting;
}

export interface ExactRun {
  /** Log-probabilities of the labels, or of the text. Null for a continuation. */
  scores: number[] | null;
  parts: RunPart[];
}

export function runExact(engine: Engine, input: EvaluationInput): ExactRun {
  const { tokens, work } = input;
  const crosses = engine.shape.stacks.length > 1;
  const continues = work.kind === 'continue' && !embedsOnly(engine.shape);
  const passes = passesOf(input, crosses);
  const scores = new LabelScores(labelsOf(work));
  // A decoder-only model picks the first token of its continuation in the pass over the input.
  const picks = continues && !crosses && { rows: Int32Array.of(tokens.length - 1) };
  try {
    const runs = passes.map(({ stack, sequences, targets }) => {
      const batch = { ...passBatch(stack, sequences), ...(picks && { picks }), routerLogits: true };
      const run = engine.runBatch(batch, null);
      take(scores, targets, run);
      return run;
    });
    const parts = passes.map(({ stack, input: own }, i) => partOf(engine, stack, own, [runs[i]!]));
    if (work.kind !== 'continue') return { scores: scores.sums(), parts };
    if (!continues) return { scores: null, parts };
    return { scores: null, parts: [...parts, ...continued(engine, tokens, runs[0]!, work.maxNewTokens)] };
  } finally {
    release(engine, passes);
  }
}

/** Scores the labels, or the text, with a routing of each part instead of the routers. */
export function runRouted(
  engine: Engine,
  input: EvaluationInput,
  routings: readonly NativeRouting[],
): number[] {
  const passes = passesOf(input, engine.shape.stacks.length > 1);
  const scores = new LabelScores(labelsOf(input.work));
  try {
    passes.forEach(({ stack, sequences, targets }, i) => {
      const batch = { ...passBatch(stack, sequences), routing: routings[i]! };
      take(scores, targets, engine.runBatch(batch, null));
    });
    return scores.sums();
  } finally {
    release(engine, passes);
  }
}

function take(scores: LabelScores, targets: readonly ScoringTarget[], { queryLogprobs }: RunResult): void {
  if (queryLogprobs === undefined) return;
  assertFiniteLogprobs(queryLogprobs);
  targets.forEach((target, i) => {
    scores.set(target, queryLogprobs[i]!);
  });
}

/** Continues an input greedily. Returns one part, or none when the model ends at once. */
function continued(engine: Engine, prompt: Int32Array, first: RunResult, most: number): RunPart[] {
  const { stacks, tokens: special } = engine.shape;
  const alone = stacks.length === 1;
  const begin = alone
    ? { sequence: PROMPT, parent: NO_PARENT, token: pickedBy(first) }
    : { sequence: PROMPT + 1, parent: PROMPT, token: special.start! };
  const ended = alone && special.end.includes(begin.token);
  const steps = continueGreedily(engine, begin, ended ? 0 : most);
  if (steps.length === 0) return [];
  const input = inputBehind([steps.map(({ token }) => token)], prompt);
  const runs = steps.map(({ run }) => run);
  return [partOf(engine, stacks.length - 1, input, runs)];
}

/** Releases the sequences of one input. */
function release(engine: Engine, passes: readonly InputPass[]): void {
  const labels = passes[1]?.sequences.length ?? 1;
  engine.releaseSequences(Int32Array.from({ length: 1 + labels }, (_, i) => PROMPT + i));
}

/** `runs` are the passes of the part in order. Each has the same number of tokens. */
function partOf({ shape }: Engine, stack: number, input: HashInput, runs: readonly RunResult[]): RunPart {
  const tokens = input.tokens.length / runs.length;
  return { stack, input, routing: joined(runs.map((run) => trueRouting(run, tokens, shape))) };
}

/** The routers' choices in a pass that ran with router logits. */
export function trueRouting(
  run: RunResult,
  tokens: number,
  { topK, normalized, ...shape }: ModelShape,
): TrueRouting & { layers: number } {
  const layers = run.layers.length;
  const rows = layers * tokens;
  const ranking = new RouterRanking(run, shape);
  const routing = { experts: new Uint16Array(rows * topK), alpha: new Float32Array(rows * topK) };
  for (let row = 0; row < rows; row++) {
    const best = ranking.rank(row).slice(0, topK);
    const { logits } = ranking;
    const logSum = logSumOf(normalized ? best.map((e) => logits[e]!) : logits);
    best.forEach((e, i) => {
      routing.experts[row * topK + i] = e;
      routing.alpha[row * topK + i] = Math.exp(logits[e]! - logSum);
    });
  }
  return { ...routing, layers };
}

function logSumOf(logits: ArrayLike<number>): number {
  let most = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < logits.length; i++) most = Math.max(most, logits[i]!);
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i]! - most);
  return most + Math.log(sum);
}

/** Joins passes of equal size along the token axis. */
function joined(passes: readonly (TrueRouting & { layers: number })[]): TrueRouting {
  const [first] = passes;
  if (passes.length === 1) return first!;
  const entries = first!.experts.length / first!.layers;
  const whole = {
    experts: new Uint16Array(first!.experts.length * passes.length),
    alpha: new Float32Array(first!.experts.length * passes.length),
  };
  passes.forEach((pass, p) => {
    for (let layer = 0; layer < pass.layers; layer++) {
      const [from, to] = [layer * entries, (layer * passes.length + p) * entries];
      whole.experts.set(pass.experts.subarray(from, from + entries), to);
      whole.alpha.set(pass.alpha.subarray(from, from + entries), to);
    }
  });
  return whole;
}
