/**
 * The answers of ended jobs as JSON. All who read a job at about the same time get the same bytes, so that many slow
 * readers of a large answer hold it once, and that it is written once.
 */
import { hasEnded, type JobRecord } from '../queue/job-queue.js';

/** Smaller answers are not worth it. */
const LARGE_BYTES = 64 * 1024;
/** Most bytes of the answers that are held for readers to come. */
const HELD_BYTES = 64 * 1024 ** 2;

export class WrittenJobs {
  /** By job, the least recently read first. */
  readonly #held = new Map<string, Buffer>();
  #heldBytes = 0;
  /** Those that a reader still takes, also if they are not held any more. */
  readonly #read = new Map<string, WeakRef<Buffer>>();
  readonly #gone = new FinalizationRegistry<string>((id) => {
    if (this.#read.get(id)?.deref() === undefined) this.#read.delete(id);
  });
  readonly #turns: (() => void)[] = [];

  /** The job as JSON in UTF-8, of which `answer` makes the object. Do not change the bytes. */
  write(record: JobRecord, answer: () => object): Buffer {
    const ended = hasEnded(record);
    const known = ended ? this.#read.get(record.id)?.deref() : undefined;
    const written = known ?? Buffer.from(JSON.stringify(answer()));
    if (ended && written.length >= LARGE_BYTES) this.#hold(record.id, written, known === undefined);
    return written;
  }

  /** Runs `send` at once, or in a round of the event loop of its own if the answer is large. */
  inTurn(written: Buffer, send: () => void): void {
    if (written.length < LARGE_BYTES) {
      send();
      return;
    }
    this.#turns.push(send);
    if (this.#turns.length === 1) setImmediate(() => this.#turn());
  }

  #turn(): void {
    try {
      this.#turns[0]!();
    } finally {
      this.#turns.shift();
      if (this.#turns.length > 0) setImmediate(() => this.#turn());
    }
  }

  #hold(id: string, written: Buffer, isNew: boolean): void {
    if (isNew) {
      this.#read.set(id, new WeakRef(written));
      this.#gone.register(written, id);
    }
    if (this.#held.delete(id)) this.#heldBytes -= written.length;
    this.#held.set(id, written);
    this.#heldBytes += written.length;
    for (const [other, bytes] of this.#held) {
      if (this.#heldBytes <= HELD_BYTES) break;
      this.#held.delete(other);
      this.#heldBytes -= bytes.length;
    }
  }
}
