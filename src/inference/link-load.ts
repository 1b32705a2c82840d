/**
 * Measures how busy the way into device memory is: the disk, and a simulated link. Copies to a GPU are not measured.
 * While the way has spare time, prefetches may move extra bytes to reduce waiting.
 */
import type { DeviceUsage, RunStats } from '../native/addon-types.js';

/** Decay time of the average. Each pass is weighted by its duration. */
const MEMORY_SECONDS = 0.5;
/** The link becomes spare below CALM and stops being spare above BUSY. The gap prevents oscillation. */
const CALM = 0.5;
const BUSY = 0.85;

export class LinkLoad {
  readonly #linkBandwidth: number;
  readonly #diskBandwidth: number;
  #busySeconds = 0;
  #seconds = 0;
  #spare = false;

  /** `linkBandwidth` is that of a simulated link in bytes per second; 0 means none. */
  constructor({ disk }: Pick<DeviceUsage, 'disk'>, linkBandwidth: number) {
    this.#linkBandwidth = linkBandwidth;
    const rates = disk.map(({ bytesPerSecond }) => bytesPerSecond);
    this.#diskBandwidth = rates.includes(0) ? 0 : rates.reduce((sum, rate) => sum + rate, 0);
  }

  /** Whether the link has spare time. False while a disk's rate is unknown. */
  get spare(): boolean {
    return this.#spare;
  }

  /** Call it after each pass. */
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
