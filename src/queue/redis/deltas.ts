/** Deltas of streams on their way from a worker through Redis to a server. */
import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { DELTA_BYTES, deltasTooLarge } from '../refusals.js';
import { deltaOf, isLater, type Progress } from './stored-job.js';

/** Writes the deltas of one run in order. The next write sends all deltas that arrive during a write. */
export class DeltaWriter {
  readonly #write: (seq: number, deltas: CompletionDelta[]) => Promise<void>;
  readonly #onError: (error: SidaError) => void;
  #waiting: CompletionDelta[] = [];
  #seq = 0;
  #bytes = 0;
  #writing: Promise<void> | undefined;
  #broken = false;

  /** `write` gets the number of deltas before these. `onError` is called once, when no more can be written. */
  constructor(
    write: (seq: number, deltas: CompletionDelta[]) => Promise<void>,
    onError: (error: SidaError) => void,
  ) {
    this.#write = write;
    this.#onError = onError;
  }

  add(delta: CompletionDelta): void {
    if (this.#broken) return;
    this.#bytes += Buffer.byteLength(JSON.stringify(delta));
    if (this.#bytes > DELTA_BYTES) {
      this.#fail(deltasTooLarge());
      return;
    }
    this.#waiting.push(delta);
    this.#writing ??= this.#writeAll();
  }

  /** Resolves when all deltas are written or dropped after an error. */
  async written(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const deltas = this.#waiting.splice(0);
        await this.#write(this.#seq, deltas);
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
    this.#onError(error);
  }
}

/** Takes the deltas of a job's runs from reports that may come twice, late, or not at all. */
export class DeltaReader {
  #latest = { turn: 0, run: 0 };
  /** Deltas of the latest run that were taken. */
  taken = 0;

  /** Whether the report begins another run than the last one. */
  starts(report: Progress): boolean {
    return isLater(report, this.#latest);
  }

  /** Returns the deltas that are new; undefined when earlier ones are missing. */
  take(report: Progress): CompletionDelta[] | undefined {
    if (this.starts(report)) {
      this.#latest = report;
      this.taken = 0;
    }
    // A worker that was frozen may still write about an earlier run.
    if (isLater(this.#latest, report)) return [];
    if (report.seq > this.taken) return undefined;
    const fresh = report.deltas.slice(this.taken - report.seq).map(deltaOf);
    this.taken += fresh.length;
    return fresh;
  }
}
