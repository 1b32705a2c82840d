/** Measures what forecasts save: passes with one, beside passes without. */
import type { RunStats } from '../native/addon-types.js';

/** What is left of the measured passes without a forecast after one more: about the last 50 count. */
const KEPT = 0.98;

export class ForecastSaving {
  #stallNs = 0;
  #loads = 0;

  /**
   * Returns the seconds that the pass waited less for each expert that it had to load than passes without a forecast
   * do. Undefined for those, and before the first of them.
   */
  judge(
    { stallNs, prefetched, late, onDemand }: Pick<RunStats, 'stallNs' | 'prefetched' | 'late' | 'onDemand'>,
    forecast: boolean,
  ): number | undefined {
    const loads = prefetched + late + onDemand;
    if (!forecast) {
      this.#stallNs = this.#stallNs * KEPT + stallNs;
      this.#loads = this.#loads * KEPT + loads;
      return undefined;
    }
    return this.#loads > 0 ? ((this.#stallNs / this.#loads) * loads - stallNs) / 1e9 : undefined;
  }
}
