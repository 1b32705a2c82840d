/** Learns the `token` hash function: how often each token id was routed to each expert, and with which α. */

import { tableK } from '../../protocol/hash-table.js';
import type { StackRecord } from '../../trace/trace-record.js';
import { type TokenRows, TokenTable } from '../functions/token-table.js';
import { expertsOfStack, type RoutingShape } from '../hash-function.js';
import { routerAlphas } from '../router-probabilities.js';
import type { TeacherRecord } from './corpus.js';

/** Fewest experts kept per token and layer. */
const LEAST_WIDTH = 8;
/** The layer's means count as this many extra occurrences of every token. */
const BACK_OFF = 0.5;

/** Counts of one token id, or of all: `wins` and `mass` are (layers, experts). */
interface Counts {
  occurrences: number;
  /** Times that the router chose the expert. */
  wins: Float64Array;
  /** Sum of the expert's α. */
  mass: Float64Array;
}

/** Memory grows with the number of distinct token ids, not with the length of the traces. */
export class TokenTableLearner {
  readonly #shape: RoutingShape;
  readonly #stacks: readonly StackCounts[];

  constructor(shape: RoutingShape) {
    this.#shape = shape;
    this.#stacks = shape.stacks.map((_, stack) => new StackCounts(shape, stack));
  }

  add(record: TeacherRecord): void {
    this.#stacks.forEach((counts, stack) => {
      counts.add(record.stacks[stack]!, record.top);
    });
  }

  /** Builds the table from all records added so far, with `width` experts per token. */
  finish(width = Math.max(LEAST_WIDTH, tableK(this.#shape))): TokenTable {
    const most = Math.min(width, this.#shape.experts);
    return new TokenTable(
      this.#shape,
      this.#stacks.map((counts) => counts.rows(most)),
    );
  }
}

class StackCounts {
  readonly #tokens = new Map<number, Counts>();
  /** Sum over all tokens. It starts with one occurrence for which all experts are equally likely. */
  readonly #all: Counts;
  readonly #layers: number;
  /** Of each layer. */
  readonly #experts: readonly number[];
  readonly #shape: RoutingShape;

  constructor(shape: RoutingShape, stack: number) {
    this.#experts = expertsOfStack(shape, stack);
    this.#layers = this.#experts.length;
    this.#shape = shape;
    const { experts, topK, normalized } = shape;
    this.#all = this.#counts(1);
    this.#experts.forEach((own, layer) => {
      const [from, to] = [layer * experts, layer * experts + own];
      this.#all.wins.fill(topK / own, from, to);
      this.#all.mass.fill(normalized ? 1 / topK : 1 / own, from, to);
    });
  }

  add({ tokens, experts, logits }: StackRecord, top: number): void {
    const alphas = new Float64Array(top);
    const { experts: perLayer, topK } = this.#shape;
    for (let t = 0; t < tokens.length; t++) {
      const counted = this.#tokens.get(tokens[t]!) ?? this.#counts(0);
      this.#tokens.set(tokens[t]!, counted);
      counted.occurrences++;
      this.#all.occurrences++;
      for (let layer = 0; layer < this.#layers; layer++) {
        const from = (layer * tokens.length + t) * top;
        const base = layer * perLayer;
        const own = this.#experts[layer]!;
        const unrecorded = routerAlphas(logits, from, top, { ...this.#shape, experts: own }, alphas);
        for (const counts of [counted, this.#all]) {
          for (let i = 0; i < topK; i++) counts.wins[base + experts[from + i]!]!++;
          const mass = counts.mass.subarray(base, base + perLayer);
          for (let i = 0; i < top; i++) mass[experts[from + i]!]! += alphas[i]! - unrecorded;
          for (let e = 0; e < own; e++) mass[e]! += unrecorded;
        }
      }
    }
  }

  /** One row per known token, then the back-off row, which has the means over all tokens. */
  rows(width: number): TokenRows {
    const { experts: perLayer } = this.#shape;
    const known = [...this.#tokens.keys()].sort((a, b) => a - b);
    const rows = known.length + 1;
    const experts = new Uint16Array(this.#layers * rows * width);
    const alpha = new Float32Array(experts.length);
    const chance = new Float32Array(experts.length);
    const chances = new Float64Array(perLayer);
    const order = Array.from({ length: perLayer }, (_, i) => i);
    [...known, undefined].forEach((token, row) => {
      const counts = token === undefined ? undefined : this.#tokens.get(token);
      for (let layer = 0; layer < this.#layers; layer++) {
        const base = layer * perLayer;
        for (let e = 0; e < perLayer; e++) chances[e] = this.#mean(counts, 'wins', base + e);
        order.sort((a, b) => chances[b]! - chances[a]! || a - b);
        const to = (layer * rows + row) * width;
        for (let j = 0; j < width; j++) {
          const e = order[j]!;
          experts[to + j] = e;
          alpha[to + j] = this.#mean(counts, 'mass', base + e);
          chance[to + j] = chances[e]!;
        }
      }
    });
    return { tokens: Int32Array.from(known), width, experts, alpha, chance };
  }

  /** Mean of `entry` for a token, backed off to the mean over all tokens. */
  #mean(own: Counts | undefined, field: 'wins' | 'mass', entry: number): number {
    const overall = this.#all[field][entry]! / this.#all.occurrences;
    if (own === undefined) return overall;
    return (own[field][entry]! + BACK_OFF * overall) / (own.occurrences + BACK_OFF);
  }

  #counts(occurrences: number): Counts {
    const entries = this.#layers * this.#shape.experts;
    return { occurrences, wins: new Float64Array(entries), mass: new Float64Array(entries) };
  }
}
