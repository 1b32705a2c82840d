/** Deltas of streams on their way from a worker through Redis to a server. */
import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { DELTA_BYTES, deltasTooLarge } from '../refusals.js';
import { deltaOf, type Progress } from './stored-job.js';

interface DeltaWriterOptions {
  /** `seq` is the number of deltas before these. */
  write: (seq: number, deltas: CompletionDelta[]) => Promise<void>;
  /** Called once, when no more deltas can be written. */
  onError: (error: SidaError) => void;
}

/** Writes the deltas of one run in order. The next write sends all deltas that arrive during a write. */
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

/** Takes the deltas of a job's runs from reports that may come twice, late, or not at all. */
export class DeltaReader {
  #turn = 0;
  #run = 0;
  #known = 0;

  /** Whether the report begins another run than the last one. */
  starts({ turn, run }: Progress): boolean {
    return turn > this.#turn || (turn === this.#turn && run > this.#run);
  }

  /** Returns the deltas that are new; undefined when earlier ones are missing. */
  take(report: Progress): CompletionDelta[] | undefined {
    if (this.starts(report)) {
      this.#turn = report.turn;
      this.#run = report.run;
      this.#known = 0;
    }
    // A worker that was frozen may still write about an earlier run.
    if (report.turn !== this.#turn || report.run !== this.#run) return [];
    if (report.seq > this.#known) return undefined;
    const fresh = report.deltas.slice(this.#known - report.seq).map(deltaOf);
    this.#known += fresh.length;
    return fresh;
  }
}
