/**
 * How busy the link into device memory is. While it has time to spare, prefetches may move extra bytes to save time.
 */
import type { DeviceUsage, RunStats } from '../native/addon-types.js';

/** Passes weigh by their time; this much of it is remembered. */
const MEMORY_SECONDS = 0.5;
/** Below CALM the link has time to spare, above BUSY no longer: the gap keeps the verdict from swinging. */
const CALM = 0.5;
const BUSY = 0.85;

export class LinkLoad {
  readonly #linkBandwidth: number;
  readonly #diskBandwidth: number;
  #busySeconds = 0;
  #seconds = 0;
  #spare = false;

  /** `linkBandwidth`: of a simulated link, bytes a second; 0: none. */
  constructor({ disk }: Pick<DeviceUsage, 'disk'>, linkBandwidth: number) {
    this.#linkBandwidth = linkBandwidth;
    const rates = disk.map(({ bytesPerSecond }) => bytesPerSecond);
    this.#diskBandwidth = rates.includes(0) ? 0 : rates.reduce((sum, rate) => sum + rate, 0);
  }

  /** False where a rate is not known. */
  get spare(): boolean {
    return this.#spare;
  }

  /** After each pass. */
  judge({ bytesMoved, diskBytes, passNs }: Pick<RunStats, 'bytesMoved' | 'diskBytes' | 'passNs'>): void {
    if (this.#diskBandwidth === 0) return;
    const link = this.#linkBandwidth === 0 ? 0 : bytesMoved / this.#linkBandwidth;
    const kept = Math.exp(-passNs / 1e9 / MEMORY_SECONDS);
    this.#busySeconds = this.#busySeconds * kept + Math.max(link, diskBytes / this.#diskBandwidth);
    this.#seconds = this.#seconds * kept + passNs / 1e9;
    const busy = this.#busySeconds / this.#seconds;
    this.#spare = busy < (this.#spare ? BUSY : CALM);
  }
}
