/** The API process's end of a stream: hands pieces on, and tells the engine process how many were taken. */
import type { CompletionDelta } from '../protocol/engine-messages.js';
import { DELTAS_IN_FLIGHT } from './delta-flow.js';

/** A promise: the piece is taken once it is settled. */
export type OnDelta = (delta: CompletionDelta) => void | Promise<void>;

/** Told together: a message for each piece would be as many messages as pieces. */
const TOLD_TOGETHER = DELTAS_IN_FLIGHT / 2;

export class DeltaTaker {
  readonly #onDelta: OnDelta | undefined;
  readonly #tell: (pieces: number) => void;
  #untold = 0;

  constructor(onDelta: OnDelta | undefined, tell: (pieces: number) => void) {
    this.#onDelta = onDelta;
    this.#tell = tell;
  }

  take(delta: CompletionDelta): void {
    const taken = this.#onDelta?.(delta);
    const count = () => this.#count();
    if (taken instanceof Promise) taken.then(count, count);
    else count();
  }

  #count(): void {
    this.#untold += 1;
    if (this.#untold < TOLD_TOGETHER) return;
    this.#tell(this.#untold);
    this.#untold = 0;
  }
}
