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

/** (experts per layer) each. */
interface UseHistory {
  /** Share of the layer's visits that needed the expert, in log-odds. */
  frequency: Float64Array;
  /** The age class of its last use. */
  age: Uint8Array;
}

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
  /** By layer: what its uses say. Dropped when the layer is learned from. */
  readonly #history = new Map<number, UseHistory>();
  /** (experts per layer), the forecast in log-odds. The tables of waiting batches are corrected before each pass. */
  readonly #forecasts = new WeakMap<ExpectedVisit, Float64Array>();

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
    const { firstId } = visit;
    const weights = this.#layer(firstId);
    const forecasts = this.#forecastsOf(visit);
    const { frequency, age } = this.#historyOf(visit);
    const need = new Float32Array(visit.need.length);
    for (let index = 0; index < need.length; index++) {
      const history = historyOdds(weights, frequency[index]!, age[index]!);
      need[index] = chanceOf(weights.forecast * forecasts[index]! + history);
    }
    return { firstId, need };
  }

  /** `needed` is (experts per layer): not 0 if the visit needed the expert. */
  learn(visit: ExpectedVisit, needed: ArrayLike<number>): void {
    const { firstId, need } = visit;
    const visits = this.#visits.get(firstId) ?? 0;
    const weights = this.#layer(firstId);
    const rate = LAST_RATE + (FIRST_RATE - LAST_RATE) / (1 + visits / SLOWING);
    const forecasts = this.#forecastsOf(visit);
    const { frequency, age } = this.#historyOf(visit);
    for (let index = 0; index < need.length; index++) {
      const history = historyOdds(weights, frequency[index]!, age[index]!);
      const chance = chanceOf(weights.forecast * forecasts[index]! + history);
      const step = ((needed[index] === 0 ? 0 : 1) - chance) * rate;
      weights.bias += step;
      weights.forecast += ODDS_RATE * step * forecasts[index]!;
      weights.frequency += ODDS_RATE * step * frequency[index]!;
      weights.age[age[index]!]! += step;
    }
    for (let index = 0; index < need.length; index++) {
      if (needed[index] === 0) continue;
      this.#uses[firstId + index]! += 1;
      this.#usedAt[firstId + index] = visits;
    }
    this.#visits.set(firstId, visits + 1);
    this.#history.delete(firstId);
  }

  #forecastsOf(visit: ExpectedVisit): Float64Array {
    let forecasts = this.#forecasts.get(visit);
    if (forecasts === undefined) {
      // Not by `from` with a function, which takes several times as long.
      forecasts = new Float64Array(visit.need.length);
      for (let index = 0; index < forecasts.length; index++) forecasts[index] = odds(visit.need[index]!);
      this.#forecasts.set(visit, forecasts);
    }
    return forecasts;
  }

  #historyOf({ firstId, need }: ExpectedVisit): UseHistory {
    let history = this.#history.get(firstId);
    if (history === undefined) {
      const visits = this.#visits.get(firstId) ?? 0;
      history = { frequency: new Float64Array(need.length), age: new Uint8Array(need.length) };
      for (let index = 0; index < need.length; index++) {
        history.frequency[index] = odds((this.#uses[firstId + index]! + 0.5) / (visits + 1));
        history.age[index] = ageOf(visits - this.#usedAt[firstId + index]!);
      }
      this.#history.set(firstId, history);
    }
    return history;
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

function historyOdds(
  { bias, frequency: often, age: recent }: LayerWeights,
  frequency: number,
  age: number,
): number {
  return bias + often * frequency + recent[age]!;
}

function chanceOf(odds: number): number {
  return 1 / (1 + Math.exp(-odds));
}

function odds(chance: number): number {
  return Math.log((chance + EDGE) / (1 - chance + EDGE));
}

function ageOf(visits: number): number {
  let age = 0;
  while (age < AGES.length && visits > AGES[age]!) age += 1;
  return age;
}
