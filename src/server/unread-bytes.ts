/**
 * Bounds the bytes that wait for clients to read them, of all clients together. Beyond the bound, the client that has
 * most of them loses the connection that has waited longest.
 */

/** Something that waits for its readers. */
export interface Waiting {
  /** A key or an address. */
  readonly client: string;
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
      const oldest = this.#oldestOfMost();
      this.#onClose();
      this.read(oldest);
      oldest.close();
    }
  }

  #oldestOfMost(): Waiting {
    const bytes = new Map<string, number>();
    for (const each of this.#waiting) bytes.set(each.client, (bytes.get(each.client) ?? 0) + each.bytes);
    const most = Math.max(...bytes.values());
    return [...this.#waiting].find(({ client }) => bytes.get(client) === most)!;
  }

  /** They were read, or nobody reads them any more; by default all. */
  read(waiting: Waiting, bytes = waiting.bytes): void {
    const read = Math.min(bytes, waiting.bytes);
    waiting.bytes -= read;
    this.#bytes -= read;
    if (waiting.bytes === 0) this.#waiting.delete(waiting);
  }
}
