/** Scores the labels of inputs whose contexts were just encoded. */
import { SidaError } from '../errors.js';
import type { Expectation } from './foresight.js';
import type { DecodeSequence, NativeSteps } from './native-steps.js';
import type { TableRows } from './routing-quality.js';
import { assertFinite, logSumExp } from './sampler.js';
import { LabelScores, type ScoringPlan } from './scoring.js';

export interface ScoringInput {
  item: number;
  job: number;
  context: number;
  plan: ScoringPlan;
}

export interface ScoringOutcome {
  /** Summed log-probability of each label, for the inputs whose steps all ran. */
  scored: { input: ScoringInput; scores: number[] }[];
  failed: { input: ScoringInput; error: SidaError }[];
  /** Decoder sequences to release. */
  sequences: number[];
}

/** `predicted`: rows of the inputs' label tokens, in order. */
export function scoreLabels(
  inputs: readonly ScoringInput[],
  steps: NativeSteps,
  expected: Expectation,
  predicted: TableRows | null,
): ScoringOutcome {
  const outcome: ScoringOutcome = { scored: [], failed: [], sequences: [] };
  const sequences: DecodeSequence[] = [];
  const owners: { state: State; decoderInput: number }[] = [];
  const states = inputs.map((input): State => {
    return { input, scores: new LabelScores(input.plan.labels), left: input.plan.inputs.length };
  });
  for (const state of states) {
    const { job, context, plan } = state.input;
    plan.inputs.forEach(({ tokens, rows }, decoderInput) => {
      const sequence = steps.newId();
      outcome.sequences.push(sequence);
      sequences.push({ job, sequence, context, tokens, rows: rows.map(({ position }) => position) });
      owners.push({ state, decoderInput });
    });
  }
  steps.decode(sequences, expected, predicted, (index, logits) => {
    const { state, decoderInput } = owners[index]!;
    try {
      addRows(state, decoderInput, logits);
    } catch (error) {
      state.error ??= SidaError.from(error);
    }
  });
  for (const { input, scores, left, error } of states) {
    if (error !== undefined) outcome.failed.push({ input, error });
    else if (left === 0) outcome.scored.push({ input, scores: scores.sums() });
  }
  return outcome;
}

interface State {
  input: ScoringInput;
  scores: LabelScores;
  /** Decoder inputs without their logits yet. */
  left: number;
  error?: SidaError;
}

function addRows(state: State, decoderInput: number, logits: Float32Array[]): void {
  state.input.plan.inputs[decoderInput]!.rows.forEach(({ targets }, i) => {
    const row = logits[i]!;
    assertFinite(row);
    const logSum = logSumExp(row);
    for (const target of targets) state.scores.set(target, row[target.token]! - logSum);
  });
  state.left -= 1;
}
