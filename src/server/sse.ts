/** Server-sent events with a limit on the bytes that the server buffers for a slow reader. */
import type { ServerResponse } from 'node:http';
import { LIMITS } from './limits.js';

export class SseStream {
  readonly #res: ServerResponse;
  readonly #onOverflow: () => void;
  readonly #stallMs: number;
  #largest = 0;

  /** `onOverflow` is called once when the reader falls too far behind; the connection is then closed. */
  constructor(res: ServerResponse, onOverflow: () => void, stallMs: number = LIMITS.streamStallMs) {
    this.#res = res;
    this.#onOverflow = onOverflow;
    this.#stallMs = stallMs;
  }

  get opened(): boolean {
    return this.#res.headersSent;
  }

  /** Sends the headers. Before that, an error can still be answered with its own status. */
  open(): void {
    if (this.opened || this.#res.destroyed) return;
    this.#res.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // Without this header, proxies collect chunks before they pass them on.
      'x-accel-buffering': 'no',
    });
  }

  /** Sends one event, and the headers before the first one. Without `name`, readers get it as a `message`. */
  send(data: unknown, name?: string): void {
    const event = name === undefined ? '' : `event: ${name}\n`;
    this.#write(`${event}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
  }

  /** Sends a comment, which readers ignore. It keeps a quiet connection open. */
  comment(): void {
    this.#write(':\n\n');
  }

  end(): void {
    if (this.#res.destroyed || this.#res.writableEnded) return;
    // No later event would reveal a slow reader, so a timeout takes over.
    this.#res.setTimeout(this.#stallMs, () => this.#overflow());
    this.#res.end();
  }

  #overflow(): void {
    this.#onOverflow();
    this.#res.destroy();
  }

  #write(text: string): void {
    if (this.#res.destroyed || this.#res.writableEnded) return;
    this.open();
    // One event may be larger than the bound. The reader is slow if that event is still buffered along with as many
    // bytes as the bound when the next event comes.
    if (this.#res.writableLength > LIMITS.streamBufferBytes + this.#largest) {
      this.#overflow();
      return;
    }
    this.#largest = Math.max(this.#largest, Buffer.byteLength(text));
    this.#res.write(text);
  }
}
