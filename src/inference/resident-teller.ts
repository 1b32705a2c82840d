/** Tells which experts are resident, to those who choose among workers by it. */
import type { Engine } from '../native/addon-types.js';
import { residentBits } from '../placement/worker-summary.js';
import { clockMs } from './clock.js';
import type { FromInference } from './messages.js';

/** A snapshot of thousands of experts takes some microseconds: not one a pass. */
const TELL_MS = 20;

export class ResidentTeller {
  readonly #engine: Pick<Engine, 'residency'>;
  readonly #emit: (message: FromInference) => void;
  #toldMs = Number.NEGATIVE_INFINITY;
  /** Something may have moved since it was told. */
  #stale = true;

  constructor(engine: Pick<Engine, 'residency'>, emit: (message: FromInference) => void) {
    this.#engine = engine;
    this.#emit = emit;
  }

  /** After every pass. */
  changed(): void {
    this.#stale = true;
    if (clockMs() - this.#toldMs >= TELL_MS) this.#tell();
  }

  /** Nothing moves until the next pass. */
  settled(): void {
    if (this.#stale) this.#tell();
  }

  #tell(): void {
    this.#toldMs = clockMs();
    this.#stale = false;
    this.#emit({ type: 'resident', resident: residentBits(this.#engine.residency().state) });
  }
}
