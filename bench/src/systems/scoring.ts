/** Scores labels on the native engine directly, without threads, queues or other processes. */
import {
  type Engine,
  type NativeBatch,
  NO_PARENT,
  type RunResult,
  type RunStats,
} from '../../../dist/native/addon-types.js';
import type { ScoringPlan } from '../../../dist/protocol/item-work.js';
import { passAnswers, passBatch } from '../../../dist/scheduler/pass-batch.js';
import { LabelScoring, planScoring, targetsWithin } from '../../../dist/scheduler/scoring.js';
import { tokenizerOf } from '../support/sst2.js';

/** Runs one pass. */
export type Pass = (batch: NativeBatch) => RunResult;

export interface ScoringInputs {
  /** Token ids of each text. */
  inputs: Int32Array[];
  encode: (text: string) => Int32Array;
  plan: ScoringPlan;
}

/** The texts and labels as the engine gets them. */
export function scoringInputs(
  pack: string,
  { vocabSize, tokens: special }: Engine['shape'],
  texts: readonly string[],
  labels: readonly string[],
): ScoringInputs {
  const tokenizer = tokenizerOf(pack, vocabSize);
  const labelIds = labels.map((label) => tokenizer.encodePlain(label));
  const encode = (text: string) => Int32Array.from(tokenizer.encode(text));
  return { inputs: texts.map(encode), encode, plan: planScoring(labelIds, special.start, special.end[0]) };
}

export interface GroupAnswer {
  /** Of each sentence. */
  scores: number[][];
  stats: RunStats[];
}

/** Runs the sentences through the encoder in one pass, and all their labels through the decoder in another. */
export function scoreGroup(engine: Engine, pass: Pass, group: readonly Int32Array[], plan: ScoringPlan): GroupAnswer {
  const sentences = group.map((tokens, i) => ({ job: 0, sequence: i + 1, parent: NO_PARENT, tokens }));
  const encoded = pass(passBatch(0, sentences));
  const labels = sentences.flatMap(({ sequence: parent }, i) =>
    plan.inputs.map((fed, j) => {
      const sequence = group.length + 1 + i * plan.inputs.length + j;
      return { job: 0, sequence, parent, tokens: fed.tokens, ...targetsWithin(fed, 0, fed.tokens.length) };
    }),
  );
  const decoded = pass(passBatch(1, labels));
  const scorings = group.map(() => new LabelScoring(plan));
  passAnswers(labels, decoded).forEach(({ logprobs }, i) => {
    scorings[Math.floor(i / plan.inputs.length)]!.take(labels[i]!.targets, logprobs);
  });
  engine.releaseSequences(Int32Array.from([...labels, ...sentences], ({ sequence }) => sequence));
  return { scores: scorings.map((scoring) => scoring.sums()), stats: [encoded.stats, decoded.stats] };
}
