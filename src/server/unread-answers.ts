/**
 * Bounds the memory of whole answers that their clients do not read. A client that reads a byte now and then is never
 * silent, so time alone does not bound it.
 */
import type { Response } from 'express';
import { ANYONE } from '../access/key-ring.js';
import { clientOf } from './client-address.js';
import { callerOf } from './middleware/auth.js';

interface Unread {
  bytes: number;
  /** A key, or without keys an address. */
  client: string;
  close(): void;
}

export class UnreadAnswers {
  readonly #mostBytes: number;
  readonly #onClose: () => void;
  /** The oldest first. */
  readonly #unread = new Set<Unread>();
  #bytes = 0;

  /** `onClose` is called before the connection of an answer is closed. */
  constructor(mostBytes: number, onClose: () => void) {
    this.#mostBytes = mostBytes;
    this.#onClose = onClose;
  }

  /**
   * Sends the answer as JSON. While there are more unread bytes than `mostBytes`, closes the connection of the oldest
   * answer of the key, or without keys the address, that has most of them.
   */
  send(res: Response, answer: object): void {
    // Its close has passed, and would not come again.
    if (res.destroyed) return;
    const json = Buffer.from(JSON.stringify(answer));
    const { socket } = res.req;
    const caller = callerOf(res);
    const unread = {
      bytes: json.length,
      client: caller === ANYONE ? clientOf(socket.remoteAddress ?? '') : `key ${caller.owner}`,
      close: () => socket.destroy(),
    };
    this.#unread.add(unread);
    this.#bytes += unread.bytes;
    // Once the kernel has taken all of it, or the connection is gone.
    res.once('close', () => this.#forget(unread));
    res.setHeader('content-type', 'application/json; charset=utf-8');
    res.send(json);
    // What the kernel takes at once is taken when the loop turns.
    if (this.#bytes > this.#mostBytes) setImmediate(() => this.#makeRoom());
  }

  #makeRoom(): void {
    while (this.#bytes > this.#mostBytes) {
      const most = this.#clientOfMost();
      const oldest = [...this.#unread].find(({ client }) => client === most)!;
      this.#forget(oldest);
      this.#onClose();
      oldest.close();
    }
  }

  #clientOfMost(): string | undefined {
    const bytes = new Map<string, number>();
    for (const each of this.#unread) bytes.set(each.client, (bytes.get(each.client) ?? 0) + each.bytes);
    return [...bytes].toSorted(([, a], [, b]) => b - a)[0]?.[0];
  }

  #forget(unread: Unread): void {
    if (this.#unread.delete(unread)) this.#bytes -= unread.bytes;
  }
}
