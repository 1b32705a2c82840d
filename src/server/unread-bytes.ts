/**
 * Bounds the bytes that wait for clients to read them, of all clients together. Beyond the bound, the client that has
 * waited longest loses its connection.
 */

/** Something that waits for its readers. */
export interface Waiting {
  /** Only UnreadBytes changes them. */
  bytes: number;
  /** Closes the connections of its readers. */
  close(): void;
}

export class UnreadBytes {
  readonly #most: number;
  readonly #onClose: () => void;
  /** The one that began to wait first is the first. */
  readonly #waiting = new Set<Waiting>();
  #bytes = 0;

  /** `onClose` is called before something is closed. */
  constructor(most: number, onClose: () => void) {
    this.#most = most;
    this.#onClose = onClose;
  }

  add(waiting: Waiting, bytes: number): void {
    if (bytes === 0) return;
    this.#waiting.add(waiting);
    waiting.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > this.#most) {
      const oldest = this.#waiting.values().next().value!;
      this.#onClose();
      this.read(oldest);
      oldest.close();
    }
  }

  /** They were read, or nobody reads them any more; by default all. */
  read(waiting: Waiting, bytes = waiting.bytes): void {
    const read = Math.min(bytes, waiting.bytes);
    waiting.bytes -= read;
    this.#bytes -= read;
    if (waiting.bytes === 0) this.#waiting.delete(waiting);
  }
}
