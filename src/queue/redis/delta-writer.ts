/**
 * Writes the deltas of one run to Redis in order. The next write sends all deltas that arrive during a write.
 */
import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { DELTA_BYTES, deltasTooLarge } from '../refusals.js';

interface DeltaWriterOptions {
  /** `seq` is the number of deltas before these. */
  write: (seq: number, deltas: CompletionDelta[]) => Promise<void>;
  /** Called once, when no more deltas can be written. */
  onError: (error: SidaError) => void;
}

export class DeltaWriter {
  readonly #options: DeltaWriterOptions;
  #waiting: CompletionDelta[] = [];
  #seq = 0;
  #bytes = 0;
  #writing: Promise<void> | undefined;
  #broken = false;

  constructor(options: DeltaWriterOptions) {
    this.#options = options;
  }

  add(delta: CompletionDelta): void {
    if (this.#broken) return;
    this.#bytes += Buffer.byteLength(JSON.stringify(delta));
    if (this.#bytes > DELTA_BYTES) this.#fail(deltasTooLarge());
    else {
      this.#waiting.push(delta);
      this.#writing ??= this.#write();
    }
  }

  /** Resolves when all deltas are written or dropped after an error. */
  async written(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const deltas = this.#waiting;
        this.#waiting = [];
        await this.#options.write(this.#seq, deltas);
        this.#seq += deltas.length;
      }
    } catch (error) {
      this.#fail(SidaError.from(error));
    }
    this.#writing = undefined;
  }

  #fail(error: SidaError): void {
    this.#broken = true;
    this.#waiting = [];
    this.#options.onError(error);
  }
}
