/** Learns the `token` hash function from records. */
import { type TokenRows, TokenTable } from '../functions/token-table.js';
import { layersOf, type RoutingShape, SIDES, type Side } from '../hash-function.js';
import { BACK_OFF_WEIGHT, type BackOffWeights, tuneBackOff } from './back-off-tuning.js';
import type { TeacherRecord } from './teacher.js';
import { backedOff, TokenCounts } from './token-counts.js';

/** Experts kept of a token and layer. */
export const TOKEN_TABLE_WIDTH = 8;

/** Stands for no token id. */
const UNKNOWN = -1;

export class TokenTableLearner {
  readonly #shape: RoutingShape;
  readonly #counts: Record<Side, TokenCounts>;

  constructor(shape: RoutingShape) {
    this.#shape = shape;
    const counts = (side: Side) => new TokenCounts(layersOf(shape, side), shape.experts);
    this.#counts = { encoder: counts('encoder'), decoder: counts('decoder') };
  }

  add(record: TeacherRecord): void {
    for (const side of SIDES) this.#counts[side].add(record[side], record.top);
  }

  /** From records that were not added. */
  tuneBackOff(heldOut: readonly TeacherRecord[]): BackOffWeights {
    return tuneBackOff(this.#shape, this.#counts, heldOut);
  }

  /** The table of all records added so far, `width` experts a token. */
  finish({
    width = TOKEN_TABLE_WIDTH,
    backOff,
  }: {
    width?: number;
    backOff?: BackOffWeights;
  } = {}): TokenTable {
    const rows = (side: Side) => this.#rows(side, Math.min(width, this.#shape.experts), backOff?.[side]);
    return new TokenTable(this.#shape, { encoder: rows('encoder'), decoder: rows('decoder') });
  }

  #rows(side: Side, width: number, weights: readonly number[] | undefined): TokenRows {
    const layers = layersOf(this.#shape, side);
    const { experts: perLayer } = this.#shape;
    const counts = this.#counts[side];
    const known = [...counts.tokens.keys()].sort((a, b) => a - b);
    const rows = known.length + 1;
    const experts = new Uint16Array(layers * rows * width);
    const alpha = new Float32Array(experts.length);
    const chance = new Float32Array(experts.length);
    const chances = new Float64Array(perLayer);
    const order = Array.from({ length: perLayer }, (_, i) => i);
    [...known, UNKNOWN].forEach((token, row) => {
      for (let layer = 0; layer < layers; layer++) {
        const base = layer * perLayer;
        const weight = weights?.[layer] ?? BACK_OFF_WEIGHT;
        for (let e = 0; e < perLayer; e++) chances[e] = backedOff(counts, token, 'wins', base + e, weight);
        order.sort((a, b) => chances[b]! - chances[a]! || a - b);
        const to = (layer * rows + row) * width;
        for (let j = 0; j < width; j++) {
          const e = order[j]!;
          experts[to + j] = e;
          alpha[to + j] = backedOff(counts, token, 'mass', base + e, BACK_OFF_WEIGHT);
          chance[to + j] = chances[e]!;
        }
      }
    });
    return { tokens: Int32Array.from(known), width, experts, alpha, chance };
  }
}
