/** Writes a stream's pieces into the ledger in order; those that come while a write is on its way go together in the next. */

import { SidaError } from '../errors.js';
import type { CompletionDelta } from '../protocol/engine-messages.js';
import { PIECE_BYTES } from './redis-ledger.js';

export class PieceWriter {
  readonly #append: (pieces: string[]) => Promise<string>;
  #waiting: string[] = [];
  #writing: Promise<void> | undefined;
  #error: SidaError | undefined;

  /** `append` answers `full` when the job's pieces have become too large. */
  constructor(append: (pieces: string[]) => Promise<string>) {
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

  /** Resolves when all pieces are written; rejects when they were too many bytes. */
  async written(): Promise<void> {
    await this.#writing;
    if (this.#error !== undefined) throw this.#error;
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0 && this.#error === undefined) {
      const pieces = this.#waiting;
      this.#waiting = [];
      try {
        if ((await this.#append(pieces)) === 'full') this.#error = tooLarge();
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
    message: `The stream is larger than ${PIECE_BYTES} bytes, which is its limit; ask for fewer tokens or no log-probabilities`,
    details: { limit: PIECE_BYTES },
  });
}
