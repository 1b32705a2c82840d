/** Learns the `token` hash function: how often, and how surely, each token id went to each expert. */
import { type TokenRows, TokenTable } from '../functions/token-table.js';
import { layersOf, type RoutingShape, SIDES, type Side } from '../hash-function.js';
import { type TeacherRecord, teacherProbabilities } from './teacher.js';

/** Experts kept of a token and layer. */
export const TOKEN_TABLE_WIDTH = 8;

/** The layer's overall frequencies count as this many occurrences of every token. */
const BACK_OFF_WEIGHT = 0.5;

/** Counts of one token, or of all: (layers, experts) each. */
interface Counts {
  occurrences: number;
  /** Times the expert was the router's best. */
  wins: Float64Array;
  /** Sum of the expert's probabilities. */
  mass: Float64Array;
}

/** Memory grows with the token ids that occur, not with the trace. */
export class TokenTableLearner {
  readonly #shape: RoutingShape;
  readonly #counts: Record<Side, Map<number, Counts>> = { encoder: new Map(), decoder: new Map() };

  constructor(shape: RoutingShape) {
    this.#shape = shape;
  }

  add(record: TeacherRecord): void {
    const { top } = record;
    const { experts: perLayer } = this.#shape;
    const probabilities = new Float64Array(top);
    for (const side of SIDES) {
      const { tokens, experts, logits } = record[side];
      const layers = layersOf(this.#shape, side);
      for (let t = 0; t < tokens.length; t++) {
        const counts = this.#of(side, tokens[t]!);
        counts.occurrences++;
        for (let layer = 0; layer < layers; layer++) {
          const from = (layer * tokens.length + t) * top;
          teacherProbabilities(logits, from, top, probabilities);
          counts.wins[layer * perLayer + experts[from]!]!++;
          for (let i = 0; i < top; i++) {
            counts.mass[layer * perLayer + experts[from + i]!]! += probabilities[i]!;
          }
        }
      }
    }
  }

  #of(side: Side, token: number): Counts {
    let counts = this.#counts[side].get(token);
    if (counts === undefined) {
      const entries = layersOf(this.#shape, side) * this.#shape.experts;
      counts = { occurrences: 0, wins: new Float64Array(entries), mass: new Float64Array(entries) };
      this.#counts[side].set(token, counts);
    }
    return counts;
  }

  /** The table of all records added so far, `width` experts a token. */
  finish(width = TOKEN_TABLE_WIDTH): TokenTable {
    const rows = (side: Side) => this.#rows(side, Math.min(width, this.#shape.experts));
    return new TokenTable(this.#shape, { encoder: rows('encoder'), decoder: rows('decoder') });
  }

  #rows(side: Side, width: number): TokenRows {
    const layers = layersOf(this.#shape, side);
    const { experts: perLayer } = this.#shape;
    const known = [...this.#counts[side]].sort(([a], [b]) => a - b);
    const all = total(
      known.map(([, counts]) => counts),
      layers * perLayer,
      perLayer,
    );
    const rows = [...known.map(([, counts]) => counts), all];
    const experts = new Uint16Array(layers * rows.length * width);
    const alpha = new Float32Array(experts.length);
    const wins = new Float64Array(perLayer);
    const order = Array.from({ length: perLayer }, (_, i) => i);
    rows.forEach((counts, row) => {
      const sum = counts.occurrences + BACK_OFF_WEIGHT;
      for (let layer = 0; layer < layers; layer++) {
        const base = layer * perLayer;
        const blend = (own: number, overall: number) => (own + BACK_OFF_WEIGHT * overall) / sum;
        for (let e = 0; e < perLayer; e++) {
          wins[e] = blend(counts.wins[base + e]!, all.wins[base + e]! / all.occurrences);
        }
        order.sort((a, b) => wins[b]! - wins[a]! || a - b);
        const to = (layer * rows.length + row) * width;
        for (let j = 0; j < width; j++) {
          const e = order[j]!;
          experts[to + j] = e;
          alpha[to + j] = blend(counts.mass[base + e]!, all.mass[base + e]! / all.occurrences);
        }
      }
    });
    return { tokens: Int32Array.from(known, ([token]) => token), width, experts, alpha };
  }
}

/** Without any record every expert is as likely as another. */
function total(rows: Counts[], entries: number, experts: number): Counts {
  const sum = { occurrences: 1, wins: new Float64Array(entries), mass: new Float64Array(entries) };
  sum.wins.fill(1 / experts);
  sum.mass.fill(1 / experts);
  for (const { occurrences, wins, mass } of rows) {
    sum.occurrences += occurrences;
    for (let i = 0; i < entries; i++) {
      sum.wins[i]! += wins[i]!;
      sum.mass[i]! += mass[i]!;
    }
  }
  return sum;
}
