/**
 * Measures how busy the way into device memory is: the disk, a simulated link, or the copies to a GPU. The native
 * planner decides by it from which chance of need on a load pays before a layer asks for it.
 */
import type { DeviceUsage, RunStats } from '../native/addon-types.js';

/** Decay time of the averages. Each pass is weighted by its duration. */
const MEMORY_SECONDS = 0.5;

export interface LinkState {
  /** Share of the time in which the link moves experts. 1 while it is not known. */
  busy: number;
  /** Visits that an expert stays on the device, about: slots over loads a visit. Infinite without loads. */
  stay: number;
}

type PassMoves = Pick<RunStats, 'bytesMoved' | 'diskBytes' | 'passNs' | 'prefetchesBegun' | 'onDemand'>;

export class LinkLoad {
  readonly #simulated: number;
  readonly #disk: number;
  /** Fastest that bytes have come so far. It stands for a link whose rate nobody states, as that of a GPU. */
  #fastest = 0;
  #busySeconds = 0;
  #seconds = 0;
  #loads = 0;
  #visits = 0;

  /** `linkBandwidth` is that of a simulated link in bytes per second; 0 means none. */
  constructor({ disk }: Pick<DeviceUsage, 'disk'>, linkBandwidth: number) {
    this.#simulated = linkBandwidth;
    this.#disk = disk.bytesPerSecond;
  }

  /** `slots`: on the device. */
  state(slots: number): LinkState {
    const known = this.#disk > 0 && this.#seconds > 0;
    return {
      busy: known ? Math.min(1, this.#busySeconds / this.#seconds) : 1,
      stay: this.#loads > 0 ? (slots * this.#visits) / this.#loads : Number.POSITIVE_INFINITY,
    };
  }

  /** Call it after each pass, which visited so many layers. */
  judge({ bytesMoved, diskBytes, passNs, prefetchesBegun, onDemand }: PassMoves, visits: number): void {
    const seconds = passNs / 1e9;
    const kept = Math.exp(-seconds / MEMORY_SECONDS);
    this.#loads = this.#loads * kept + prefetchesBegun + onDemand;
    this.#visits = this.#visits * kept + visits;
    if (this.#disk === 0) return;
    this.#fastest = Math.max(this.#fastest, bytesMoved / seconds);
    const rate = this.#simulated || this.#fastest;
    // What the disk delivers, the copy from the page-aligned buffers does not slow down.
    const link = rate === 0 || (this.#simulated === 0 && diskBytes > 0) ? 0 : bytesMoved / rate;
    this.#busySeconds = this.#busySeconds * kept + Math.max(link, diskBytes / this.#disk);
    this.#seconds = this.#seconds * kept + seconds;
  }
}
