/**
 * Cross-embedding dependency: how often does a token go to other experts when other tokens of its input are replaced,
 * or change their places? After the corruption experiment of SiDA-MoE (MLSys 2024, figures 6 and 7), on the model's own
 * routers.
 */

import { trueRouting } from '../../../dist/evaluation/model-runner.js';
import { type Engine, NO_PARENT } from '../../../dist/native/addon-types.js';
import { randomOf } from '../../../dist/predictor/random.js';
import { type Corrupted, corrupt, positions, swap } from './corruption.js';
import { CRITICAL, ExpectedChanges } from './critical-tokens.js';

export interface DependencyOptions {
  /** Shares of the other tokens that are replaced, above 0, at most 1. */
  shares: readonly number[];
  seed: number;
}

export interface ChangeShares {
  /** (token, corruption) pairs looked at. */
  probes: number;
  /** Share of their experts that changed; a number for each layer of the first stack. */
  changed: number[];
}

export interface CorruptionChanges extends ChangeShares {
  share: number;
  /**
   * Equation 2 of the paper at the places that were changed, for 1 to 4 critical tokens, and for each layer the number
   * of critical tokens that comes nearest to what was measured. Not of a causal stack: its tokens do not see those
   * behind them.
   */
  equation?: { expected: number[]; nearest: number[] };
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
  corruption: CorruptionChanges[];
  /** By the share of the other tokens that changed their places. */
  swaps: CorruptionChanges[];
  /**
   * What any figure lies between: the same input again, and another token of the same input, drawn at random, in the
   * place of the token itself.
   */
  controls: { again: ChangeShares; anotherToken: ChangeShares };
}

const ONE = Int32Array.of(1);

class Changes {
  probes = 0;
  readonly #changed: Float64Array;
  readonly #topK: number;

  constructor(layers: number, topK: number) {
    this.#changed = new Float64Array(layers);
    this.#topK = topK;
  }

  /** The token at `t`, and in `after` that at `u`, of (layers, tokens, topK) each. */
  add(before: Uint16Array, after: Uint16Array, t: number, u = t): void {
    const k = this.#topK;
    const tokens = before.length / this.#changed.length / k;
    this.probes += 1;
    for (let layer = 0; layer < this.#changed.length; layer++) {
      const at = (layer * tokens + t) * k;
      const now = (layer * tokens + u) * k;
      const chosen = after.subarray(now, now + k);
      for (const expert of before.subarray(at, at + k)) if (!chosen.includes(expert)) this.#changed[layer]! += 1 / k;
    }
  }

  result(): ChangeShares {
    return {
      probes: this.probes,
      changed: Array.from(this.#changed, (count) => count / Math.max(1, this.probes)),
    };
  }
}

/** One share of the others changed in one way: what happened, and what equation 2 expects. */
class CorruptionTally {
  readonly #share: number;
  readonly #changes: Changes;
  readonly #expected = new ExpectedChanges();

  constructor(share: number, layers: number, topK: number) {
    this.#share = share;
    this.#changes = new Changes(layers, topK);
  }

  add(before: Uint16Array, after: Uint16Array, { corrupted, kept }: Corrupted): void {
    const words = corrupted.length - 1;
    this.#expected.add(kept.length, words - 1, words - kept.length);
    for (const t of kept) this.#changes.add(before, after, t);
  }

  result(causal: boolean): CorruptionChanges {
    const changes = this.#changes.result();
    const equation = {
      expected: CRITICAL.map((critical) => this.#expected.of(critical)),
      nearest: changes.changed.map((share) => this.#expected.nearest(share)),
    };
    return { share: this.#share, ...changes, ...(!causal && { equation }) };
  }
}

/**
 * `inputs`: token ids, the last of each the end token, which is never replaced. Replacements are tokens of the inputs
 * themselves, drawn at random, so that they are as common as in real text.
 */
export function measureDependency(
  engine: Engine,
  inputs: readonly Int32Array[],
  { shares, seed }: DependencyOptions,
): Omit<DependencyReport, 'model' | 'data'> {
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
  const tallies = () => shares.map((share) => new CorruptionTally(share, layers.length, topK));
  const [replaced, moved] = [tallies(), tallies()];
  const [again, anotherToken] = [new Changes(layers.length, topK), new Changes(layers.length, topK)];
  for (const tokens of inputs) {
    const before = routesOf(engine, tokens);
    const places = positions(tokens.length - 1, tokens.length - 1, random);
    const repeated = routesOf(engine, tokens);
    places.forEach((t, p) => {
      again.add(before, repeated, t);
      anotherToken.add(before, before, t, places[(p + 1) % places.length]);
    });
    replaced.forEach((tally, s) => {
      const input = corrupt(tokens, shares[s]!, random, other);
      tally.add(before, routesOf(engine, input.corrupted), input);
    });
    for (const [s, tally] of moved.entries()) {
      // Of two words one would have to stay and the other to move.
      if (tokens.length < 4) continue;
      const input = swap(tokens, shares[s]!, random);
      tally.add(before, routesOf(engine, input.corrupted), input);
    }
  }
  return {
    inputs: inputs.length,
    tokens: words.length,
    seed,
    layers,
    corruption: replaced.map((tally) => tally.result(causal)),
    swaps: moved.map((tally) => tally.result(causal)),
    controls: { again: again.result(), anotherToken: anotherToken.result() },
  };
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
