/** Measures how often a hash function predicts the experts that the model's routers chose. */

import { tableK } from '../../protocol/hash-table.js';
import { concatenated } from '../../ragged.js';
import type { HashFunction, HashInput, RoutingShape } from '../hash-function.js';
import { countHits, hitRanks } from '../hit-ranks.js';
import { alphasOf } from '../router-probabilities.js';
import { bestExperts, type TeacherRecord, type TeacherSource } from '../teacher.js';

export interface LayerHits {
  /** `encoder.1`, … */
  layer: string;
  tokens: number;
  /** Choices among the first predicted experts, for each rank of hitRanks(), out of tokens · topK. */
  hits: number[];
  /** Mean α of the router's first choice. */
  alpha: number;
  /** Mean |α − the router's α| over the tokens whose first predicted expert is the router's first. */
  alphaError: number;
  /** Tokens of batches that the function could not predict; their choices count as missed. */
  unknown: number;
}

interface HitRateOptions {
  /** Fewest tokens of the first stack in a call of the function; the last call may have fewer. */
  batchTokens?: number;
}

/** Returns one entry per layer, in the order of the model. */
export async function hitRates(
  hash: HashFunction,
  teacher: TeacherSource,
  { batchTokens = 2048 }: HitRateOptions = {},
): Promise<LayerHits[]> {
  const { shape } = teacher;
  const counters = shape.stacks.map(({ layers }) =>
    Array.from({ length: layers }, () => new Counter(hitRanks(shape.topK))),
  );
  const flush = (batch: TeacherRecord[]) => {
    counters.forEach((own, stack) => {
      countBatch(hash, stack, batch, shape, own);
    });
  };
  let batch: TeacherRecord[] = [];
  let tokens = 0;
  for await (const record of teacher.records()) {
    batch.push(record);
    tokens += record.stacks[0]!.tokens.length;
    if (tokens < batchTokens) continue;
    flush(batch);
    batch = [];
    tokens = 0;
  }
  if (batch.length > 0) flush(batch);
  const all = counters.flat();
  return teacher.layers.map((layer, i) => all[i]!.result(layer));
}

class Counter {
  tokens = 0;
  unknown = 0;
  readonly hits: number[];
  readonly ranks: readonly number[];
  /** Sum of the router's α of its first choice over the tokens that are not unknown. */
  alpha = 0;
  /** Tokens whose first predicted expert is the router's first, and the sum of their absolute errors in α. */
  firsts = 0;
  error = 0;

  constructor(ranks: readonly number[]) {
    this.ranks = ranks;
    this.hits = ranks.map(() => 0);
  }

  result(layer: string): LayerHits {
    const { tokens, hits, unknown, firsts, error } = this;
    const alpha = tokens === unknown ? 0 : this.alpha / (tokens - unknown);
    return { layer, tokens, hits, alpha, alphaError: firsts === 0 ? 0 : error / firsts, unknown };
  }
}

/** Joins a stack's records into one input, with the previous stack as context if the stack has cross-attention. */
export function inputOf(
  records: readonly TeacherRecord[],
  stack: number,
  { stacks }: Pick<RoutingShape, 'stacks'>,
): HashInput {
  const join = (which: number) => {
    const { values: tokens, offsets } = concatenated(records.map((record) => record.stacks[which]!.tokens));
    return { tokens, offsets };
  };
  if (!stacks[stack]!.crosses) return join(stack);
  const { tokens: contextTokens, offsets: contextOffsets } = join(stack - 1);
  return { ...join(stack), contextTokens, contextOffsets };
}

/** Returns the experts that the routers chose in several records, (layers, tokens, topK). */
export function routedOf(
  records: readonly TeacherRecord[],
  stack: number,
  { stacks, topK }: Pick<RoutingShape, 'stacks' | 'topK'>,
): Uint16Array {
  const tokens = records.reduce((sum, record) => sum + record.stacks[stack]!.tokens.length, 0);
  const { layers } = stacks[stack]!;
  const routed = new Uint16Array(layers * tokens * topK);
  let at = 0;
  for (const record of records) {
    const own = bestExperts(record, stack, topK);
    const entries = own.length / layers;
    for (let layer = 0; layer < layers; layer++) {
      routed.set(own.subarray(layer * entries, (layer + 1) * entries), layer * tokens * topK + at);
    }
    at += entries;
  }
  return routed;
}

function countBatch(
  hash: HashFunction,
  stack: number,
  records: TeacherRecord[],
  shape: RoutingShape,
  counters: Counter[],
): void {
  const layers = counters.length;
  const { topK } = shape;
  const k = tableK(shape);
  const input = inputOf(records, stack, shape);
  const tokens = input.tokens.length;
  const experts = new Uint16Array(layers * tokens * k);
  const alpha = new Float32Array(experts.length);
  for (const counter of counters) counter.tokens += tokens;
  if (!hash.fill(stack, input, k, experts, alpha, new Float32Array(experts.length))) {
    for (const counter of counters) counter.unknown += tokens;
    return;
  }
  const routed = routedOf(records, stack, shape);
  const scale = alphasOf(routed, topK, records, stack, shape);
  counters.forEach((counter, layer) => {
    for (let row = layer * tokens; row < (layer + 1) * tokens; row++) {
      const named = experts.subarray(row * k, (row + 1) * k);
      counter.alpha += scale[row * topK]!;
      countHits(counter.hits, counter.ranks, routed.subarray(row * topK, (row + 1) * topK), named);
      if (named[0] !== routed[row * topK]) continue;
      counter.firsts += 1;
      counter.error += Math.abs(alpha[row * k]! - scale[row * topK]!);
    }
  });
}
