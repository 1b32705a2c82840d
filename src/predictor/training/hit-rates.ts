/** How often a hash function names the expert that the model's router chose. */
import { type HashFunction, layersOf, SIDES, type Side } from '../hash-function.js';
import { probabilitiesOf } from './router-probabilities.js';
import { bestExperts, type TeacherRecord, type TeacherSource } from './teacher.js';

const TOP = 3;

export interface LayerHits {
  /** `encoder.1`, … */
  layer: string;
  tokens: number;
  /** Tokens whose expert is among the best 1, 2 and 3 named. */
  hits: [number, number, number];
  /** Mean |α − the router's probability| over the hits of the first. */
  alphaError: number;
  /** Tokens of batches of which the function could not say anything; they count as missed. */
  unknown: number;
}

export interface HitRateOptions {
  /** Entries of a token that the function fills. */
  k?: number;
  /** Tokens of one call. */
  batchTokens?: number;
}

/** Layers in the order of the model, encoder first. */
export async function hitRates(
  hash: HashFunction,
  teacher: TeacherSource,
  { k = TOP, batchTokens = 2048 }: HitRateOptions = {},
): Promise<LayerHits[]> {
  const counters = { encoder: [] as Counter[], decoder: [] as Counter[] };
  for (const side of SIDES) {
    const layers = layersOf(teacher.shape, side);
    counters[side] = Array.from({ length: layers }, () => new Counter());
  }
  const flush = (batch: TeacherRecord[]) => {
    for (const side of SIDES) {
      countBatch(hash, side, batch, Math.max(k, TOP), teacher.shape.experts, counters[side]);
    }
  };
  let batch: TeacherRecord[] = [];
  let tokens = 0;
  for await (const record of teacher.records()) {
    batch.push(record);
    tokens += record.encoder.tokens.length;
    if (tokens < batchTokens) continue;
    flush(batch);
    batch = [];
    tokens = 0;
  }
  if (batch.length > 0) flush(batch);
  const all = [...counters.encoder, ...counters.decoder];
  return teacher.layers.map((layer, i) => all[i]!.result(layer));
}

class Counter {
  tokens = 0;
  unknown = 0;
  readonly hits: [number, number, number] = [0, 0, 0];
  error = 0;

  result(layer: string): LayerHits {
    const { tokens, hits, unknown, error } = this;
    return { layer, tokens, hits, alphaError: hits[0] === 0 ? 0 : error / hits[0], unknown };
  }
}

/** Records of a side as one input, with the encoder's tokens behind those of the decoder. */
export function inputOf(records: readonly TeacherRecord[], side: Side) {
  const join = (name: Side) => {
    const offsets = Int32Array.of(0, ...records.map((record) => record[name].tokens.length));
    for (let i = 1; i < offsets.length; i++) offsets[i]! += offsets[i - 1]!;
    const tokens = new Int32Array(offsets.at(-1)!);
    records.forEach((record, i) => {
      tokens.set(record[name].tokens, offsets[i]);
    });
    return { tokens, offsets };
  };
  if (side === 'encoder') return join('encoder');
  const { tokens: contextTokens, offsets: contextOffsets } = join('encoder');
  return { ...join('decoder'), contextTokens, contextOffsets };
}

/** The recorded best experts of several records, (layers, tokens). */
export function routedOf(records: readonly TeacherRecord[], side: Side, layers: number): Uint16Array {
  const tokens = records.reduce((sum, record) => sum + record[side].tokens.length, 0);
  const routed = new Uint16Array(layers * tokens);
  let at = 0;
  for (const record of records) {
    const own = bestExperts(record, side);
    const n = record[side].tokens.length;
    for (let layer = 0; layer < layers; layer++) {
      routed.set(own.subarray(layer * n, (layer + 1) * n), layer * tokens + at);
    }
    at += n;
  }
  return routed;
}

function countBatch(
  hash: HashFunction,
  side: Side,
  records: TeacherRecord[],
  k: number,
  perLayer: number,
  counters: Counter[],
): void {
  const layers = counters.length;
  const input = inputOf(records, side);
  const tokens = input.tokens.length;
  const experts = new Uint16Array(layers * tokens * k);
  const alpha = new Float32Array(experts.length);
  const chance = new Float32Array(experts.length);
  for (const counter of counters) counter.tokens += tokens;
  if (!hash.fill(side, input, k, experts, alpha, chance)) {
    for (const counter of counters) counter.unknown += tokens;
    return;
  }
  const routed = routedOf(records, side, layers);
  const sure = probabilitiesOf(routed, records, side, layers, perLayer);
  counters.forEach((counter, layer) => {
    for (let t = 0; t < tokens; t++) {
      const row = layer * tokens + t;
      const rank = experts.subarray(row * k, row * k + TOP).indexOf(routed[row]!);
      if (rank < 0) continue;
      for (let n = rank; n < TOP; n++) counter.hits[n]!++;
      if (rank === 0) counter.error += Math.abs(alpha[row * k]! - sure[row]!);
    }
  });
}
