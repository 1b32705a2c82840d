/** Runs inputs through a model: in exact mode, to see where its routers send every token, and in predicted mode. */
import { routingOf } from '../inference/foreknowledge.js';
import { continueGreedily } from '../inference/greedy-continuation.js';
import { assertFinite, greedy, logSumExp } from '../inference/sampler.js';
import { LabelScores, type ScoringPlan } from '../inference/scoring.js';
import type { Engine, NativeBatch, PredictorInput, RunResult } from '../native/addon-types.js';
import type { Side } from '../predictor/hash-function.js';
import type { HashTable } from '../predictor/hash-table.js';

export interface EvaluationInput {
  /** Of the file, from 1. */
  line: number;
  tokens: Int32Array;
  work: { kind: 'score'; plan: ScoringPlan } | { kind: 'continue'; maxNewTokens: number };
}

/** Where the routers sent the tokens of one stack, (layers, tokens) each. */
export interface TrueRouting {
  /** The expert with the largest logit, capacity aside. */
  routed: Uint16Array;
  /** Its probability among all experts of the layer: the true α. */
  alpha: Float32Array;
}

export interface TruePass {
  side: Side;
  tokens: number;
  /** Flat ids that each MoE layer of the pass ran, ascending. */
  needed: number[][];
  /** Expert of each token, NO_EXPERT over capacity; (layers, tokens). */
  dispatch: Uint16Array;
}

export interface ExactRun {
  /** Log-probabilities of the plan's labels; null for a continuation. */
  scores: number[] | null;
  /** Tokens of both stacks as hash functions take them. */
  inputs: Record<Side, PredictorInput>;
  routing: Record<Side, TrueRouting>;
  passes: TruePass[];
}

const CONTEXT = 1;
const ONE = Int32Array.of(1);

/** Frees what the runs of one input hold. */
function release(engine: Engine, sequences: number): void {
  engine.releaseSequences(Int32Array.from({ length: sequences }, (_, i) => i + 1));
  engine.releaseContexts(ONE);
}

function encodeBatch(tokens: Int32Array): NativeBatch {
  return { phase: 'encode', sequences: ONE, offsets: Int32Array.of(0, tokens.length), tokens };
}

/**
 * All decoder inputs of a plan in one step, for each of the contexts 1, 2, …; logits come context by context.
 */
export function scoreBatch({ inputs }: ScoringPlan, contexts = 1): NativeBatch {
  const all = Array.from({ length: contexts }, () => inputs).flat();
  const offsets = new Int32Array(all.length + 1);
  all.forEach(({ tokens }, i) => {
    offsets[i + 1] = offsets[i]! + tokens.length;
  });
  return {
    phase: 'decode',
    sequences: Int32Array.from(all, (_, i) => i + 1),
    contexts: Int32Array.from(all, (_, i) => CONTEXT + Math.floor(i / inputs.length)),
    offsets,
    tokens: Int32Array.from(all.flatMap(({ tokens }) => tokens)),
    logitRows: Int32Array.from(
      all.flatMap(({ rows }, i) => rows.map(({ position }) => offsets[i]! + position)),
    ),
  };
}

export function scoresOf({ labels, inputs }: ScoringPlan, logits: Float32Array, vocab: number): number[] {
  const scores = new LabelScores(labels);
  inputs
    .flatMap(({ rows }) => rows)
    .forEach(({ targets }, i) => {
      const row = logits.subarray(i * vocab, (i + 1) * vocab);
      assertFinite(row);
      const logSum = logSumExp(row);
      for (const target of targets) scores.set(target, row[target.token]! - logSum);
    });
  return scores.sums();
}

export function runExact(engine: Engine, { tokens, work }: EvaluationInput): ExactRun {
  const { experts, vocabSize } = engine.shape;
  const sequences = work.kind === 'score' ? work.plan.inputs.length : 1;
  try {
    const encoded = engine.runBatch({ ...encodeBatch(tokens), routerLogits: true }, null);
    const encoder = { tokens, offsets: Int32Array.of(0, tokens.length) };
    const routing = { encoder: trueRouting(encoded, tokens.length, experts) };
    const passes = [passOf('encoder', encoded, tokens.length, experts)];
    if (work.kind === 'continue') {
      const steps = continueGreedily(engine, work.maxNewTokens);
      const continuation = Int32Array.from(steps, ({ token }) => token);
      const own = { tokens: continuation, offsets: Int32Array.of(0, continuation.length) };
      const decoder = withContext(own, tokens);
      passes.push(...steps.map(({ run }) => passOf('decoder', run, 1, experts)));
      const joined = joinSteps(steps.map(({ run }) => trueRouting(run, 1, experts)));
      return { scores: null, inputs: { encoder, decoder }, routing: { ...routing, decoder: joined }, passes };
    }
    const batch = scoreBatch(work.plan);
    const scored = engine.runBatch({ ...batch, routerLogits: true }, null);
    passes.push(passOf('decoder', scored, batch.tokens.length, experts));
    return {
      scores: scoresOf(work.plan, scored.logits!, vocabSize),
      inputs: { encoder, decoder: withContext(batch, tokens) },
      routing: { ...routing, decoder: trueRouting(scored, batch.tokens.length, experts) },
      passes,
    };
  } finally {
    release(engine, sequences);
  }
}

/** Scores the labels with the first `k` entries of the tables in the routers' place. */
export function runPredicted(
  engine: Engine,
  tokens: Int32Array,
  plan: ScoringPlan,
  tables: Record<Side, HashTable>,
  k: number,
): number[] {
  const routing = (table: HashTable) => {
    const rows = Int32Array.from({ length: table.tokens }, (_, t) => t);
    return { routing: routingOf({ table, rows }, k) };
  };
  try {
    engine.runBatch({ ...encodeBatch(tokens), ...routing(tables.encoder) }, null);
    const scored = engine.runBatch({ ...scoreBatch(plan), ...routing(tables.decoder) }, null);
    return scoresOf(plan, scored.logits!, engine.shape.vocabSize);
  } finally {
    release(engine, plan.inputs.length);
  }
}

/** Every decoder sequence stands before the same encoder tokens. */
function withContext(
  { tokens, offsets }: Pick<PredictorInput, 'tokens' | 'offsets'>,
  context: Int32Array,
): PredictorInput {
  const sequences = offsets.length - 1;
  const contextTokens = new Int32Array(sequences * context.length);
  for (let i = 0; i < sequences; i++) contextTokens.set(context, i * context.length);
  const contextOffsets = Int32Array.from({ length: sequences + 1 }, (_, i) => i * context.length);
  return { tokens, offsets, contextTokens, contextOffsets };
}

function trueRouting({ layers, routerLogits }: RunResult, tokens: number, experts: number): TrueRouting {
  const rows = layers.length * tokens;
  const routing = { routed: new Uint16Array(rows), alpha: new Float32Array(rows) };
  for (let row = 0; row < rows; row++) {
    const logits = routerLogits!.subarray(row * experts, (row + 1) * experts);
    const best = greedy(logits);
    routing.routed[row] = best;
    routing.alpha[row] = Math.exp(logits[best]! - logSumExp(logits));
  }
  return routing;
}

/** Steps of one token each as one routing. */
function joinSteps(steps: TrueRouting[]): TrueRouting {
  const layers = steps[0]!.routed.length;
  const joined = {
    routed: new Uint16Array(layers * steps.length),
    alpha: new Float32Array(layers * steps.length),
  };
  steps.forEach(({ routed, alpha }, t) => {
    for (let layer = 0; layer < layers; layer++) {
      joined.routed[layer * steps.length + t] = routed[layer]!;
      joined.alpha[layer * steps.length + t] = alpha[layer]!;
    }
  });
  return joined;
}

function passOf(
  side: Side,
  { layers, found, dispatch }: RunResult,
  tokens: number,
  experts: number,
): TruePass {
  const needed = Array.from(layers, (flatLayer, layer) => {
    const ids: number[] = [];
    for (let e = 0; e < experts; e++) if (found[layer * experts + e] !== 0) ids.push(flatLayer * experts + e);
    return ids;
  });
  return { side, tokens, needed, dispatch };
}
