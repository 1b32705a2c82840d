/** Learns the `token` hash function from records. */

import { tableK } from '../../protocol/hash-table.js';
import { type TokenRows, TokenTable } from '../functions/token-table.js';
import type { RoutingShape } from '../hash-function.js';
import type { TeacherRecord } from '../teacher.js';
import { BACK_OFF_WEIGHT, type BackOffWeights, tuneBackOff } from './back-off-tuning.js';
import { backedOff, TokenCounts } from './token-counts.js';

/** Fewest experts kept per token and layer. */
const LEAST_WIDTH = 8;

/** A token id that no record has, for the back-off row. */
const UNKNOWN = -1;

export class TokenTableLearner {
  readonly #shape: RoutingShape;
  readonly #counts: readonly TokenCounts[];

  constructor(shape: RoutingShape) {
    this.#shape = shape;
    this.#counts = shape.stacks.map(({ layers }) => new TokenCounts(layers, shape));
  }

  add(record: TeacherRecord): void {
    this.#counts.forEach((counts, stack) => {
      counts.add(record.stacks[stack]!, record.top);
    });
  }

  /** No record of `heldOut` may have been added. */
  tuneBackOff(heldOut: readonly TeacherRecord[]): BackOffWeights {
    return tuneBackOff(this.#shape, this.#counts, heldOut);
  }

  /** Builds the table from all records added so far, with `width` experts per token. */
  finish({
    width = Math.max(LEAST_WIDTH, tableK(this.#shape)),
    backOff,
  }: {
    width?: number;
    backOff?: BackOffWeights;
  } = {}): TokenTable {
    const rows = this.#counts.map((_, stack) =>
      this.#rows(stack, Math.min(width, this.#shape.experts), backOff?.[stack]),
    );
    return new TokenTable(this.#shape, rows);
  }

  #rows(stack: number, width: number, weights: readonly number[] | undefined): TokenRows {
    const { stacks, experts: perLayer } = this.#shape;
    const { layers } = stacks[stack]!;
    const counts = this.#counts[stack]!;
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
