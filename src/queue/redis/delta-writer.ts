/**
 * Writes the deltas of a stream into the ledger in order. Deltas that arrive during a write go into the next one
 * together.
 */

import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { DELTA_BYTES } from './redis-ledger.js';

export class DeltaWriter {
  readonly #append: (deltas: string[]) => Promise<string>;
  #waiting: string[] = [];
  #writing: Promise<void> | undefined;
  #error: SidaError | undefined;

  /** `append` answers `full` when the job's deltas have become too large. */
  constructor(append: (deltas: string[]) => Promise<string>) {
    this.#append = append;
  }

  /** Resolves when it is written, or will not be. */
  add(delta: CompletionDelta): Promise<void> {
    if (this.#error === undefined) {
      this.#waiting.push(JSON.stringify(delta));
      this.#writing ??= this.#write();
    }
    return this.#writing ?? Promise.resolve();
  }

  /** Resolves when all deltas are written; rejects when they were too many bytes. */
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
