/** The API process's end of a stream: passes deltas on and reports to the engine process how many were taken. */
import type { CompletionDelta } from '../protocol/engine-messages.js';
import { DELTAS_IN_FLIGHT } from './delta-flow.js';

/** May return a promise. The delta counts as taken once the promise has settled. */
export type OnDelta = (delta: CompletionDelta) => void | Promise<void>;

/** Number of deltas that one message reports. */
const REPORTED_TOGETHER = DELTAS_IN_FLIGHT / 2;

export class DeltaTaker {
  readonly #onDelta: OnDelta | undefined;
  readonly #report: (deltas: number) => void;
  #unreported = 0;

  constructor(onDelta: OnDelta | undefined, report: (deltas: number) => void) {
    this.#onDelta = onDelta;
    this.#report = report;
  }

  take(delta: CompletionDelta): void {
    const taken = this.#onDelta?.(delta);
    const count = () => this.#count();
    if (taken instanceof Promise) taken.then(count, count);
    else count();
  }

  #count(): void {
    this.#unreported += 1;
    if (this.#unreported < REPORTED_TOGETHER) return;
    this.#report(this.#unreported);
    this.#unreported = 0;
  }
}
