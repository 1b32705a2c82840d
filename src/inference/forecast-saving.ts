/** Measures what forecasts save: compares the waits of passes with a forecast and without. */
import type { RunStats } from '../native/addon-types.js';

/** What is left of the measured passes without a forecast after one more: about the last 50 count. */
const KEPT = 0.98;

export class ForecastSaving {
  #stallNs = 0;
  #loads = 0;

  /**
   * Returns the seconds that the forecast saved: as many loads take longer waits in passes without one. Undefined for
   * a pass without a forecast, and before the first such pass.
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
