/**
 * Writes the deltas of a stream to the ledger in order. The next write sends all deltas that arrive during a write.
 */

import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { deltasTooLarge } from '../refusals.js';

interface DeltaWriterOptions {
  /**
   * `from` is the number of deltas before these. Resolves with `full` when the run's deltas exceed DELTA_BYTES.
   */
  append: (from: number, deltas: string[]) => Promise<string>;
  /** Called once, when no more deltas can be written. */
  onError: () => void;
}

export class DeltaWriter {
  readonly #options: DeltaWriterOptions;
  #waiting: string[] = [];
  #written = 0;
  #writing: Promise<void> | undefined;
  #error: SidaError | undefined;

  constructor(options: DeltaWriterOptions) {
    this.#options = options;
  }

  /** Why no more deltas are written. */
  get error(): SidaError | undefined {
    return this.#error;
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
    const { append, onError } = this.#options;
    while (this.#waiting.length > 0 && this.#error === undefined) {
      const deltas = this.#waiting;
      this.#waiting = [];
      try {
        if ((await append(this.#written, deltas)) === 'full') this.#error = deltasTooLarge();
        this.#written += deltas.length;
      } catch (error) {
        this.#error = SidaError.from(error);
      }
    }
    this.#waiting = [];
    this.#writing = undefined;
    if (this.#error !== undefined) onError();
  }
}
