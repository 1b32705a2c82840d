/** Sequences that are fed their tokens in chunks: prompts, and labels that continue them. */

import type { GeneratedToken } from '../../protocol/inference-messages.js';
import { planTokens, type ScoringPlan } from '../../protocol/item-work.js';
import { assertFiniteLogprobs, type PassSequence } from '../pass-batch.js';
import type { Request, Sequence } from '../request.js';
import { LabelScoring, targetsWithin } from '../scoring.js';

/** The part of a sequence that runs in one pass. */
export interface Chunk {
  of: Sequence;
  count: number;
}

export function tokensLeft({ tokens, fed }: Sequence): number {
  return tokens.length - fed;
}

/** The tokens up to which a pass may feed it. */
function passEnd({ tokens, fed, cuts = [] }: Sequence): number {
  return cuts.find((cut) => cut > fed) ?? tokens.length;
}

/** Whether the grammars of its picks have answered. */
export function isReady({ picks }: Sequence): boolean {
  return picks.every(({ allowed }) => allowed?.ready ?? true);
}

/** Cuts sequences, in order, into chunks that fit into `room` tokens. Skips those that wait or have another routing. */
export function fillRoom(sequences: readonly Sequence[], room: number, routingK: number): Chunk[] {
  const chunks: Chunk[] = [];
  let left = room;
  for (const each of sequences) {
    if (left === 0) break;
    if (each.request.routingK !== routingK || !isReady(each)) continue;
    const count = Math.min(left, passEnd(each) - each.fed);
    chunks.push({ of: each, count });
    left -= count;
  }
  return chunks;
}

/** Returns the unfinished sequences as they will be once the chunks have run. */
export function advanced(sequences: readonly Sequence[], chunks: readonly Chunk[]): Sequence[] {
  const running = new Map(chunks.map(({ of, count }) => [of, count]));
  return sequences
    .map((each) => ({ ...each, fed: each.fed + (running.get(each) ?? 0) }))
    .filter((each) => tokensLeft(each) > 0);
}

/** The rows of [begin, begin + count) that another token follows. */
function followedRows({ length }: Int32Array, begin: number, count: number): number[] {
  const end = Math.min(begin + count, length - 1);
  return Array.from({ length: Math.max(0, end - begin) }, (_, i) => begin + i);
}

export function chunkSequence({ of, count }: Chunk): PassSequence {
  const { request, sequence, parent, tokens, fed, picks, promptTop = 0, states = false } = of;
  const ranked = promptTop === 0 ? [] : followedRows(tokens, fed, count);
  return {
    job: request.job,
    sequence,
    parent,
    tokens: tokens.subarray(fed, fed + count),
    picks: [
      ...ranked.map((row) => ({ row: row - fed, sampling: null, position: row + 1, top: promptTop })),
      ...(fed + count === tokens.length ? picks : []),
    ],
    queries: of.queries(fed, count),
    states,
  };
}

/**
 * The sequence also reports each token of its prompt from the second on, with the `top` most likely tokens in its
 * place. Each row of the prompt tells how likely the token after it was. `report` gets each token once, also when the
 * prompt is computed again after its request gave way.
 */
export function withPromptLogprobs(
  sequence: Sequence,
  top: number,
  report: (tokens: GeneratedToken[]) => void,
): Sequence {
  const { tokens, request } = sequence;
  const { item } = request;
  let reported = 0;
  return {
    ...sequence,
    promptTop: top,
    queries: (begin, count) => {
      return followedRows(tokens, begin, count).map((row) => ({ row: row - begin, token: tokens[row + 1]! }));
    },
    take(begin, count, answer) {
      const { picked, logprobs } = answer;
      assertFiniteLogprobs(logprobs);
      const rows = followedRows(tokens, begin, count);
      const ranked = top === 0 ? [] : picked.slice(0, rows.length);
      const found = rows.map((row, i): GeneratedToken => {
        const own = { logprob: logprobs[i]!, top: ranked[i]?.top ?? [] };
        return { item, choice: 0, id: tokens[row + 1]!, ofPrompt: true, logprobs: own };
      });
      report(found.filter((_, i) => rows[i]! >= reported));
      reported = Math.max(reported, begin + count);
      sequence.take(begin, count, { ...answer, picked: picked.slice(ranked.length) });
    },
  };
}

/** A prompt without what its task adds. */
export type Prompt = Omit<Sequence, 'behind' | 'picks' | 'queries' | 'take'>;

interface ScoringOptions {
  plan: ScoringPlan;
  prompt: Prompt;
  /** Row of the prompt's first label token in its table. */
  row: number;
  newId: () => number;
  /** Receives the labels' sequences once the prompt has run. */
  feed: (labels: Sequence[]) => void;
  /** Called once a label's sequence has run completely. */
  release: (sequence: number) => void;
  done: (request: Request, scores: number[]) => void;
}

/**
 * A prompt that labels continue. Its last row scores the first tokens of the labels. Forks of the prompt's sequence,
 * which it adds once it has run, score the other tokens.
 */
export function scoringPrompt(options: ScoringOptions): Sequence {
  const { plan, prompt, feed, done } = options;
  const scoring = new LabelScoring(plan);
  const { length } = prompt.tokens;
  const endsWithin = (begin: number, count: number) => begin + count === length;
  return {
    ...prompt,
    behind: planTokens(plan),
    picks: [],
    queries: (begin, count) =>
      endsWithin(begin, count) ? plan.first.map(({ token }) => ({ row: count - 1, token })) : [],
    take: (begin, count, { logprobs }) => {
      if (!endsWithin(begin, count)) return;
      scoring.take(plan.first, logprobs);
      if (plan.inputs.length === 0) done(prompt.request, scoring.sums());
      else feed(labelSequences(options, scoring));
    },
  };
}

function labelSequences(
  { plan, prompt, row, newId, release, done }: ScoringOptions,
  scoring: LabelScoring,
): Sequence[] {
  let left = plan.inputs.length;
  let begin = row;
  return plan.inputs.map((label): Sequence => {
    const sequence = newId();
    const first = begin;
    begin += label.tokens.length;
    return {
      request: prompt.request,
      sequence,
      parent: prompt.sequence,
      tokens: Int32Array.from(label.tokens),
      fed: 0,
      behind: 0,
      table: prompt.table,
      row: first,
      picks: [],
      queries: (at, count) => targetsWithin(label, at, count).queries,
      take: (at, count, { logprobs }) => {
        scoring.take(targetsWithin(label, at, count).targets, logprobs);
        if (at + count < label.tokens.length) return;
        release(sequence);
        left -= 1;
        if (left === 0) done(prompt.request, scoring.sums());
      },
    };
  });
}
