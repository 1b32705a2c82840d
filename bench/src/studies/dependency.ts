/**
 * Cross-embedding dependency: how often does a token go to other experts when other tokens of its input are replaced?
 * After the corruption experiment of SiDA-MoE (MLSys 2024, figures 6 and 7), on the model's own routers.
 */

import { trueRouting } from '../../../dist/evaluation/model-runner.js';
import { type Engine, NO_PARENT } from '../../../dist/native/addon-types.js';
import { randomOf, shuffle } from '../../../dist/predictor/random.js';

export interface DependencyOptions {
  /** Shares of the other tokens that are replaced, above 0, at most 1. */
  shares: readonly number[];
  /** Tokens of each input that are replaced alone, to see how far that reaches. */
  singles: number;
  seed: number;
  /** Awaited after each input. It may throw to stop the experiment. */
  onProgress: (done: number, total: number) => Promise<void>;
}

export interface ChangeShares {
  /** (token, corruption) pairs looked at. */
  probes: number;
  /** Share of their experts that changed; a number for each layer of the first stack. */
  changed: number[];
}

export interface DependencyReport {
  /** Name of the model, and of the data. */
  model: string;
  data: string;
  inputs: number;
  tokens: number;
  seed: number;
  /** `encoder.1`, … */
  layers: string[];
  /** By the share of the other tokens that was replaced. */
  corruption: ({ share: number } & ChangeShares)[];
  /** By the distance, in tokens, to the only one that was replaced. */
  distance: ({ least: number; most: number } & ChangeShares)[];
}

/** Upper ends of the distance classes. */
const DISTANCES = [1, 2, 4, 8, 16, 32, 64, 128, 1 << 20];
const ONE = Int32Array.of(1);

class Changes {
  probes = 0;
  readonly #changed: Float64Array;
  readonly #topK: number;

  constructor(layers: number, topK: number) {
    this.#changed = new Float64Array(layers);
    this.#topK = topK;
  }

  /** The token at `t` of (layers, tokens, topK) each. */
  add(before: Uint16Array, after: Uint16Array, t: number): void {
    const k = this.#topK;
    const tokens = before.length / this.#changed.length / k;
    this.probes += 1;
    for (let layer = 0; layer < this.#changed.length; layer++) {
      const at = (layer * tokens + t) * k;
      const now = after.subarray(at, at + k);
      for (const expert of before.subarray(at, at + k))
        if (!now.includes(expert)) this.#changed[layer]! += 1 / k;
    }
  }

  result(): ChangeShares {
    return {
      probes: this.probes,
      changed: Array.from(this.#changed, (count) => count / Math.max(1, this.probes)),
    };
  }
}

/**
 * `inputs`: token ids, the last of each the end token, which is never replaced. Replacements are tokens of the inputs
 * themselves, drawn at random, so that they are as common as in real text.
 */
export async function measureDependency(
  engine: Engine,
  inputs: readonly Int32Array[],
  { shares, singles, seed, onProgress }: DependencyOptions,
): Promise<Omit<DependencyReport, 'model' | 'data'>> {
  const { stacks, topK } = engine.shape;
  const { causal, moeLayers } = stacks[0]!;
  const layers = engine.shape.moeLayers.slice(0, moeLayers.length);
  const random = randomOf(seed);
  const words = inputs.flatMap((tokens) => [...tokens.subarray(0, -1)]);
  const other = (than: number): number => {
    for (let tries = 0; tries < 100; tries++) {
      const word = words[Math.floor(random() * words.length)]!;
      if (word !== than) return word;
    }
    return than === 0 ? 1 : 0;
  };
  const byShare = shares.map(() => new Changes(layers.length, topK));
  const byDistance = DISTANCES.map(() => new Changes(layers.length, topK));
  for (const [i, tokens] of inputs.entries()) {
    const before = routesOf(engine, tokens);
    shares.forEach((share, s) => {
      const { corrupted, kept } = corrupt(tokens, share, random, other);
      const after = routesOf(engine, corrupted);
      for (const t of kept) byShare[s]!.add(before, after, t);
    });
    for (const at of positions(tokens.length - 1, singles, random)) {
      const changed = tokens.slice();
      changed[at] = other(tokens[at]!);
      const after = routesOf(engine, changed);
      for (let t = 0; t + 1 < tokens.length; t++) {
        // A causal stack's tokens do not see those after them.
        if (t === at || (causal && t < at)) continue;
        const distance = Math.abs(t - at);
        byDistance[DISTANCES.findIndex((most) => distance <= most)]!.add(before, after, t);
      }
    }
    await onProgress(i + 1, inputs.length);
  }
  return {
    inputs: inputs.length,
    tokens: words.length,
    seed,
    layers,
    corruption: shares.map((share, s) => ({ share, ...byShare[s]!.result() })),
    distance: DISTANCES.map((most, d) => ({
      least: (DISTANCES[d - 1] ?? 0) + 1,
      most,
      ...byDistance[d]!.result(),
    })).filter(({ probes }) => probes > 0),
  };
}

/** Replaces a share of the tokens but the end token. At least one token stays, to be compared. */
export function corrupt(
  tokens: Int32Array,
  share: number,
  random: () => number,
  other: (than: number) => number,
): { corrupted: Int32Array; kept: number[] } {
  const words = tokens.length - 1;
  const count = Math.min(Math.max(0, words - 1), Math.max(1, Math.round(share * (words - 1))));
  const order = positions(words, words, random);
  const corrupted = tokens.slice();
  for (const at of order.slice(0, count)) corrupted[at] = other(tokens[at]!);
  return { corrupted, kept: order.slice(count) };
}

/** `count` different places below `length`, in random order. */
function positions(length: number, count: number, random: () => number): number[] {
  const all = Array.from({ length: Math.max(0, length) }, (_, t) => t);
  return shuffle(all, random).slice(0, count);
}

/**
 * The experts with the largest logits of each layer of the first stack and token, capacity aside; (layers, tokens,
 * topK).
 */
function routesOf(engine: Engine, tokens: Int32Array): Uint16Array {
  try {
    const run = engine.runBatch(
      {
        stack: 0,
        sequences: ONE,
        parents: Int32Array.of(NO_PARENT),
        offsets: Int32Array.of(0, tokens.length),
        tokens,
        routerLogits: true,
      },
      null,
    );
    return trueRouting(run, tokens.length, engine.shape).experts;
  } finally {
    engine.releaseSequences(ONE);
  }
}
