/** The hash graph: which experts of a layer follow those of the layer before. The two stacks are apart. */
import type { TensorData } from '../../checkpoint/safetensors.js';
import { layersOf, type RoutingShape, type Side } from '../hash-function.js';
import { GraphRefiner, type Rescorers } from './graph-refiner.js';
import { LayerRescorer } from './layer-rescorer.js';
import { type TokenRows, TokenTable } from './token-table.js';

type F32 = Float32Array<ArrayBuffer>;

/** What the graph knows of one stack of L MoE layers with E experts. */
export interface GraphSide {
  /** Share of the tokens that go to each expert, above 0; (L, E). */
  frequencies: F32;
  /** P(f in layer l + 1 | e in layer l); (L - 1, E, E), none without layers. */
  transitions: F32;
  /** The router's mean probability of an expert where it is the best; (L, E). */
  alpha: F32;
}

/** How strongly the graph corrects the tables of one hash function; chosen on held-out traces. */
export interface RefinerSettings {
  /** [layer known][layer to sharpen], 0 for no change; (L, L). */
  exponents: F32;
}

/** Hash functions whose tables the graph can refine. */
export const REFINED = ['lstm', 'token', 'graph'] as const;
export type Refined = (typeof REFINED)[number];

export type GraphTensors = Record<string, { shape: number[]; data: TensorData }>;

export class HashGraph {
  readonly shape: RoutingShape;
  readonly sides: Readonly<Record<Side, GraphSide>>;
  readonly refiners = new Map<Refined, Record<Side, RefinerSettings>>();

  constructor(shape: RoutingShape, sides: Record<Side, GraphSide>) {
    this.shape = shape;
    this.sides = sides;
  }

  /** P(f in layer `to` | e in layer `from`) along the chain of layers between; (E, E). */
  chain(side: Side, from: number, to: number): Float64Array {
    const { experts } = this.shape;
    const step = (layer: number) =>
      this.sides[side].transitions.subarray(layer * experts * experts, (layer + 1) * experts * experts);
    let product = Float64Array.from(step(from));
    for (let layer = from + 1; layer < to; layer++) product = multiply(product, step(layer), experts);
    return product;
  }

  /** Of layer `to` from layer `from`, as the settings of one hash function say. */
  rescorer(side: Side, from: number, to: number, exponent: number): LayerRescorer {
    const { experts } = this.shape;
    const { frequencies, alpha } = this.sides[side];
    const ratios = Float32Array.from(
      this.chain(side, from, to),
      (p, i) => (p / frequencies[to * experts + (i % experts)]!) ** exponent,
    );
    const ofLayer = (values: F32) => values.subarray(to * experts, (to + 1) * experts);
    return new LayerRescorer({ ratios, frequencies: ofLayer(frequencies), alpha: ofLayer(alpha) });
  }

  /** The refiner of a hash function's tables; undefined where none was tuned for it. */
  refiner(name: Refined): GraphRefiner | undefined {
    const settings = this.refiners.get(name);
    if (settings === undefined) return undefined;
    const rescorers = (side: Side): Rescorers => {
      const layers = layersOf(this.shape, side);
      const { exponents } = settings[side];
      return Array.from({ length: layers }, (_, from) =>
        Array.from({ length: layers }, (_, to) => {
          const at = from * layers + to;
          if (to <= from || exponents[at] === 0) return undefined;
          return this.rescorer(side, from, to, exponents[at]!);
        }),
      );
    };
    return new GraphRefiner({ encoder: rescorers('encoder'), decoder: rescorers('decoder') });
  }

  /** The `graph` hash function: the token table's first layer, and what follows from it along the graph. */
  hashFunction(table: TokenTable): TokenTable {
    const rows = (side: Side) => this.#chained(side, table.sides[side]);
    return new TokenTable(this.shape, { encoder: rows('encoder'), decoder: rows('decoder') }, 'graph');
  }

  #chained(side: Side, { tokens, width, ...first }: TokenRows): TokenRows {
    const { experts: perLayer } = this.shape;
    const { frequencies, alpha: sureness } = this.sides[side];
    const layers = layersOf(this.shape, side);
    const rows = tokens.length + 1;
    const experts = new Uint16Array(layers * rows * width);
    const alpha = new Float32Array(experts.length);
    const chance = new Float32Array(experts.length);
    experts.set(first.experts.subarray(0, rows * width));
    alpha.set(first.alpha.subarray(0, rows * width));
    chance.set(first.chance.subarray(0, rows * width));
    const likely = new Float64Array(perLayer);
    const order = Array.from({ length: perLayer }, (_, i) => i);
    for (let layer = 1; layer < layers; layer++) {
      const chain = this.chain(side, 0, layer);
      for (let row = 0; row < rows; row++) {
        const begin = first.chance.subarray(row * width, (row + 1) * width);
        const rest = Math.max(0, 1 - begin.reduce((sum, p) => sum + p, 0));
        for (let f = 0; f < perLayer; f++) likely[f] = rest * frequencies[layer * perLayer + f]!;
        for (let j = 0; j < width; j++) {
          const base = first.experts[row * width + j]! * perLayer;
          for (let f = 0; f < perLayer; f++) likely[f]! += begin[j]! * chain[base + f]!;
        }
        order.sort((a, b) => likely[b]! - likely[a]! || a - b);
        const to = (layer * rows + row) * width;
        for (let j = 0; j < width; j++) {
          experts[to + j] = order[j]!;
          alpha[to + j] = sureness[layer * perLayer + order[j]!]!;
          chance[to + j] = likely[order[j]!]!;
        }
      }
    }
    return { tokens, width, experts, alpha, chance };
  }
}

function multiply(a: Float64Array, b: Float32Array, n: number): Float64Array<ArrayBuffer> {
  const product = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      const weight = a[i * n + j]!;
      for (let f = 0; f < n; f++) product[i * n + f]! += weight * b[j * n + f]!;
    }
  }
  return product;
}
