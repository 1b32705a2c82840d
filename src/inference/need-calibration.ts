/**
 * Corrects the forecasts of tables with the observed routing. A table treats its tokens as independent, ignores
 * earlier texts, and may be wrong. Logistic regression with stochastic gradient descent therefore learns, as passes
 * run, the chance that a layer needs an expert. Its inputs are the forecast, the frequency of the expert's uses, and
 * the time since its last use.
 */
import type { ExpectedVisit } from '../predictor/expected-visits.js';

/**
 * Upper bounds of the age classes: visits of the layer since the expert's last use. One more class holds the rest.
 */
const AGES = [1, 2, 4, 8, 16];
/** The learning rate falls from FIRST_RATE to LAST_RATE, and not to 0, because texts change. */
const FIRST_RATE = 0.1;
const LAST_RATE = 0.02;
const SLOWING = 16;
/** Extra factor on the rate of weights whose inputs are log-odds, which reach ±9. */
const ODDS_RATE = 0.3;
/** Keeps the log-odds of 0 and 1 finite. */
const EDGE = 1e-4;

interface LayerWeights {
  bias: number;
  forecast: number;
  frequency: number;
  age: Float64Array;
}

export class NeedCalibration {
  /** By flat id of a layer's first expert. */
  readonly #weights = new Map<number, LayerWeights>();
  /** Visits of each layer, by the same id. */
  readonly #visits = new Map<number, number>();
  /** (experts), visits that needed the expert. */
  readonly #uses: Float64Array;
  /** (experts), the layer's visit that last needed the expert. */
  readonly #usedAt: Float64Array;

  /** `experts` counts the experts of all layers. */
  constructor(experts: number) {
    this.#uses = new Float64Array(experts);
    this.#usedAt = new Float64Array(experts).fill(Number.NEGATIVE_INFINITY);
  }

  /**
   * Weight of the tables' forecast, mean over layers. 1 trusts the tables, 0 ignores them, and a negative weight
   * inverts them. It starts at 1.
   */
  get tableWeight(): number {
    if (this.#weights.size === 0) return 1;
    let sum = 0;
    for (const { forecast } of this.#weights.values()) sum += forecast;
    return sum / this.#weights.size;
  }

  /** Returns the visit with corrected chances. Returns it unchanged until its layer has been learned from. */
  corrected(visit: ExpectedVisit): ExpectedVisit {
    if (!this.#visits.has(visit.firstId)) return visit;
    const need = visit.need.slice();
    this.#chances(visit, (index, chance) => {
      need[index] = chance;
    });
    return { ...visit, need };
  }

  /** `needed` is (experts per layer): not 0 if the visit needed the expert. */
  learn(visit: ExpectedVisit, needed: ArrayLike<number>): void {
    const { firstId, need } = visit;
    const visits = this.#visits.get(firstId) ?? 0;
    const weights = this.#layer(firstId);
    const rate = LAST_RATE + (FIRST_RATE - LAST_RATE) / (1 + visits / SLOWING);
    this.#chances(visit, (index, chance, frequency, age) => {
      const step = ((needed[index] === 0 ? 0 : 1) - chance) * rate;
      weights.bias += step;
      weights.forecast += ODDS_RATE * step * odds(need[index]!);
      weights.frequency += ODDS_RATE * step * frequency;
      weights.age[age]! += step;
    });
    for (let index = 0; index < need.length; index++) {
      if (needed[index] === 0) continue;
      this.#uses[firstId + index]! += 1;
      this.#usedAt[firstId + index] = visits;
    }
    this.#visits.set(firstId, visits + 1);
  }

  /** Calls `each` for every expert of the visit. `frequency` is in log-odds. */
  #chances(
    { firstId, need }: ExpectedVisit,
    each: (index: number, chance: number, frequency: number, age: number) => void,
  ): void {
    const visits = this.#visits.get(firstId) ?? 0;
    const weights = this.#layer(firstId);
    for (let index = 0; index < need.length; index++) {
      const id = firstId + index;
      const frequency = odds((this.#uses[id]! + 0.5) / (visits + 1));
      const age = ageOf(visits - this.#usedAt[id]!);
      const { bias, forecast, frequency: often, age: recent } = weights;
      const sum = bias + forecast * odds(need[index]!) + often * frequency + recent[age]!;
      each(index, 1 / (1 + Math.exp(-sum)), frequency, age);
    }
  }

  #layer(firstId: number): LayerWeights {
    let weights = this.#weights.get(firstId);
    if (weights === undefined) {
      weights = { bias: 0, forecast: 1, frequency: 0, age: new Float64Array(AGES.length + 1) };
      this.#weights.set(firstId, weights);
    }
    return weights;
  }
}

function odds(chance: number): number {
  return Math.log((chance + EDGE) / (1 - chance + EDGE));
}

function ageOf(visits: number): number {
  let age = 0;
  while (age < AGES.length && visits > AGES[age]!) age += 1;
  return age;
}
