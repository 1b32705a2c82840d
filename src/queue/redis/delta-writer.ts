/**
 * Writes the deltas of a stream to the ledger in order. The next write sends all deltas that arrive during a write.
 */

import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { DELTA_BYTES } from './redis-ledger.js';

export class DeltaWriter {
  readonly #append: (deltas: string[]) => Promise<string>;
  #waiting: string[] = [];
  #writing: Promise<void> | undefined;
  #error: SidaError | undefined;

  /** `append` resolves with `full` when the run's deltas exceed DELTA_BYTES. */
  constructor(append: (deltas: string[]) => Promise<string>) {
    this.#append = append;
  }

  /** Resolves when the delta has been written or, after an error, dropped. Never rejects. */
  add(delta: CompletionDelta): Promise<void> {
    if (this.#error === undefined) {
      this.#waiting.push(JSON.stringify(delta));
      this.#writing ??= this.#write();
    }
    return this.#writing ?? Promise.resolve();
  }

  /** Resolves when all deltas are written. Rejects when they exceed DELTA_BYTES or a write failed. */
  async written(): Promise<void> {
    await this.#writing;
    if (this.#error !== undefined) throw this.#error;
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0 && this.#error === undefined) {
      const deltas = this.#waiting;
      this.#waiting = [];
      try {
        if ((await this.#append(deltas)) === 'full') this.#error = tooLarge();
      } catch (error) {
        this.#error = SidaError.from(error);
      }
    }
    this.#waiting = [];
    this.#writing = undefined;
  }
}

function tooLarge(): SidaError {
  return new SidaError({
    code: 'cannot_run',
    message: `The stream is larger than ${DELTA_BYTES} bytes, which is its limit; ask for fewer tokens or no log-probabilities`,
    details: { limit: DELTA_BYTES },
  });
}
