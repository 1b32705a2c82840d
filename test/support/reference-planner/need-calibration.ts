/**
 * Corrects the forecasts of tables with the observed routing. A table treats its tokens as independent, ignores
 * earlier texts, and may be wrong. Logistic regression with stochastic gradient descent therefore learns, as passes
 * run, the chance that a layer needs an expert. Its inputs are the forecast, the frequency of the expert's uses, and
 * the time since its last use.
 */
import type { ExpectedVisit } from './expected-visit.js';
import type { PlannedVisit } from './planned-visit.js';

/**
 * Upper bounds of the age classes: visits of the layer since the expert's last use. One more class holds the rest.
 */
const AGES = [1, 2, 4, 8, 16];
const OLDEST = AGES.at(-1)! + 1;
/** (visits since the last use, at most OLDEST), the age class. */
const AGE_CLASSES = Uint8Array.from(
  { length: OLDEST + 1 },
  (_, age) => AGES.filter((bound) => age > bound).length,
);
/** The learning rate falls from FIRST_RATE to LAST_RATE, and not to 0, because texts change. */
const FIRST_RATE = 0.1;
const LAST_RATE = 0.02;
const SLOWING = 16;
/** Extra factor on the rate of weights whose inputs are log-odds, which reach ±9. */
const ODDS_RATE = 0.3;
/** Keeps the log-odds of 0 and 1 finite. */
const EDGE = 1e-4;
/** An expert without a need teaches nothing below these log-odds: its chance is below 0.7 %. */
const CERTAIN_ODDS = -5;
/** Experts below these log-odds are left out of plans: their chance is below 1 %. */
const LEAST_ODDS = -4.6;
/** The frequency of an expert without needs changes slowly, so that one visit in so many refreshes it. A power of 2. */
const REFRESH = 16;
/** Weights change slowly after so many visits, so that one visit in four is learned from, at random. */
const SETTLED = 64;

const NO_ODDS = Math.log(EDGE / (1 + EDGE));

interface Layer {
  visits: number;
  bias: number;
  /** Weights of the forecast and the frequency, and of each age class. */
  forecast: number;
  frequency: number;
  age: Float64Array;
  /** (experts), visits that needed the expert. */
  uses: Float64Array;
  /** (experts), share of the visits that needed the expert, in log-odds. */
  frequencies: Float64Array;
  /** (experts), visits since the last use, at most OLDEST. */
  ages: Uint8Array;
}

export class NeedCalibration {
  /** By flat id of the layer's first expert. */
  readonly #layers = new Map<number, Layer>();
  /** By the memory of the forecast and the flat id of the layer's first expert. */
  readonly #corrected = new WeakMap<ArrayBufferLike, Map<number, PlannedVisit>>();

  /**
   * Weight of the tables' forecast, mean over layers. 1 trusts the tables, 0 ignores them, and a negative weight
   * inverts them. It starts at 1.
   */
  get tableWeight(): number {
    if (this.#layers.size === 0) return 1;
    let sum = 0;
    for (const { forecast } of this.#layers.values()) sum += forecast;
    return sum / this.#layers.size;
  }

  /**
   * Returns the experts that the visit may need. Their chances are the forecast's until the layer is learned from. A
   * row of a table is corrected when it is first asked for.
   */
  corrected(visit: ExpectedVisit): PlannedVisit {
    const { firstId, need } = visit;
    let rows = this.#corrected.get(need.buffer);
    if (rows === undefined) {
      rows = new Map();
      this.#corrected.set(need.buffer, rows);
    }
    let planned = rows.get(firstId);
    if (planned === undefined) {
      planned = this.#correct(firstId, need);
      rows.set(firstId, planned);
    }
    return planned;
  }

  #correct(firstId: number, need: Float32Array): PlannedVisit {
    const layer = this.#layers.get(firstId);
    const ids: number[] = [];
    const chances: number[] = [];
    for (let index = 0; index < need.length; index++) {
      const forecast = need[index]!;
      if (layer === undefined) {
        if (forecast === 0) continue;
        ids.push(firstId + index);
        chances.push(forecast);
        continue;
      }
      const sum = layer.forecast * odds(forecast) + historyOdds(layer, index);
      if (sum < LEAST_ODDS) continue;
      ids.push(firstId + index);
      chances.push(chanceOf(sum));
    }
    return { firstId, experts: need.length, ids, chances };
  }

  /** `needed` is (experts per layer): not 0 if the visit needed the expert. */
  learn({ firstId, need }: ExpectedVisit, needed: ArrayLike<number>): void {
    const layer = this.#layer(firstId, need.length);
    const { visits } = layer;
    if (visits < SETTLED || isSampled(visits + firstId)) adjust(layer, need, needed);
    count(layer, needed);
    layer.visits += 1;
  }

  #layer(firstId: number, experts: number): Layer {
    let layer = this.#layers.get(firstId);
    if (layer === undefined) {
      layer = {
        visits: 0,
        bias: 0,
        forecast: 1,
        frequency: 0,
        age: new Float64Array(AGES.length + 1),
        uses: new Float64Array(experts),
        frequencies: new Float64Array(experts),
        ages: new Uint8Array(experts).fill(OLDEST),
      };
      this.#layers.set(firstId, layer);
    }
    return layer;
  }
}

/** A regular choice would see only a part of texts that repeat. */
function isSampled(number: number): boolean {
  return Math.imul(number, 0x9e3779b1) >>> 30 === 0;
}

function adjust(layer: Layer, need: Float32Array, needed: ArrayLike<number>): void {
  const { frequencies, ages } = layer;
  const rate = LAST_RATE + (FIRST_RATE - LAST_RATE) / (1 + layer.visits / SLOWING);
  for (let index = 0; index < need.length; index++) {
    const forecast = odds(need[index]!);
    const sum = layer.forecast * forecast + historyOdds(layer, index);
    const used = needed[index] !== 0;
    if (!used && sum < CERTAIN_ODDS) continue;
    const step = ((used ? 1 : 0) - chanceOf(sum)) * rate;
    layer.bias += step;
    layer.forecast += ODDS_RATE * step * forecast;
    layer.frequency += ODDS_RATE * step * frequencies[index]!;
    layer.age[AGE_CLASSES[ages[index]!]!]! += step;
  }
}

function count({ visits, uses, frequencies, ages }: Layer, needed: ArrayLike<number>): void {
  for (let index = 0; index < uses.length; index++) {
    if (needed[index] !== 0) {
      uses[index]! += 1;
      ages[index] = 1;
    } else {
      if (ages[index]! < OLDEST) ages[index]! += 1;
      if (visits > REFRESH && ((index ^ visits) & (REFRESH - 1)) !== 0) continue;
    }
    frequencies[index] = odds((uses[index]! + 0.5) / (visits + 2));
  }
}

function historyOdds({ bias, frequency, frequencies, age, ages }: Layer, index: number): number {
  return bias + frequency * frequencies[index]! + age[AGE_CLASSES[ages[index]!]!]!;
}

function chanceOf(odds: number): number {
  return 1 / (1 + Math.exp(-odds));
}

/** Most forecasts are 0, and a logarithm costs more than all else here. */
function odds(chance: number): number {
  return chance === 0 ? NO_ODDS : Math.log((chance + EDGE) / (1 - chance + EDGE));
}
