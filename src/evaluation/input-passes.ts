/**
 * The passes over an input whose tokens are all known before it runs: its text, and the labels that are scored after
 * it.
 */

import { NO_PARENT } from '../native/addon-types.js';
import type { HashInput } from '../predictor/hash-function.js';
import type { ScoringPlan, ScoringTarget } from '../protocol/item-work.js';
import { offsetsOf } from '../ragged.js';
import type { PassSequence } from '../scheduler/pass-batch.js';
import { targetsWithin } from '../scheduler/scoring.js';

export interface EvaluationInput {
  /** Line of the file, from 1. */
  line: number;
  tokens: Int32Array;
  /** With `text`, each token after the first is scored, given the tokens before it. */
  work: { kind: 'score'; plan: ScoringPlan } | { kind: 'continue'; maxNewTokens: number } | { kind: 'text' };
}

export interface InputPass {
  stack: number;
  sequences: PassSequence[];
  /** The targets of its sequences' queries, in order. */
  targets: ScoringTarget[];
  /** Its tokens in the form that hash functions read. */
  input: HashInput;
}

/** Sequence number of an input's own tokens. The other sequences have the next numbers. */
export const PROMPT = 1;

/** `crosses` means that labels are sequences of a second stack, with cross-attention to the input. */
export function passesOf({ tokens, work }: EvaluationInput, crosses: boolean): InputPass[] {
  const first = firstPass(tokens, work);
  if (work.kind !== 'score' || work.plan.inputs.length === 0) return [first];
  const { inputs } = work.plan;
  const parts = inputs.map((input) => targetsWithin(input, 0, input.tokens.length));
  const sequences = inputs.map((input, i): PassSequence => {
    return {
      job: 0,
      sequence: PROMPT + 1 + i,
      parent: PROMPT,
      tokens: input.tokens,
      queries: parts[i]!.queries,
    };
  });
  return [
    first,
    {
      stack: crosses ? 1 : 0,
      sequences,
      targets: parts.flatMap(({ targets }) => targets),
      input: inputBehind(
        inputs.map((input) => input.tokens),
        tokens,
      ),
    },
  ];
}

function firstPass(tokens: Int32Array, work: EvaluationInput['work']): InputPass {
  const last = tokens.length - 1;
  const targets =
    work.kind === 'score'
      ? work.plan.first
      : work.kind === 'text'
        ? Array.from(tokens.subarray(1), (token, step) => ({ label: 0, step, token }))
        : [];
  const queries = targets.map(({ token, step }) => ({ row: work.kind === 'text' ? step : last, token }));
  const prompt: PassSequence = { job: 0, sequence: PROMPT, parent: NO_PARENT, tokens, queries };
  const input = { tokens, offsets: Int32Array.of(0, tokens.length) };
  return { stack: 0, sequences: [prompt], targets, input };
}

/** The hash input of sequences that all have the same context. */
export function inputBehind(sequences: readonly (readonly number[])[], context: Int32Array): HashInput {
  const contextTokens = new Int32Array(sequences.length * context.length);
  for (let i = 0; i < sequences.length; i++) contextTokens.set(context, i * context.length);
  return {
    tokens: Int32Array.from(sequences.flat()),
    offsets: offsetsOf(sequences.map(({ length }) => length)),
    contextTokens,
    contextOffsets: offsetsOf(sequences.map(() => context.length)),
  };
}

/** The number of labels whose summed log-probabilities the passes compute. */
export function labelsOf(work: EvaluationInput['work']): number {
  return work.kind === 'score' ? work.plan.labels : 1;
}
