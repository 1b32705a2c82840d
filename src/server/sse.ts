/** Server-sent events with a bound on what a slow reader makes the server keep. */
import type { ServerResponse } from 'node:http';
import { LIMITS } from './limits.js';

export class SseStream {
  readonly #res: ServerResponse;
  readonly #onOverflow: () => void;
  readonly #stallMs: number;
  #largest = 0;

  /** `onOverflow` is called once, when the reader fell too far behind; the connection is closed then. */
  constructor(res: ServerResponse, onOverflow: () => void, stallMs: number = LIMITS.streamStallMs) {
    this.#res = res;
    this.#onOverflow = onOverflow;
    this.#stallMs = stallMs;
  }

  get opened(): boolean {
    return this.#res.headersSent;
  }

  /** Sends the headers: until then an error can have a status of its own. */
  open(): void {
    if (this.opened || this.#res.destroyed) return;
    this.#res.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // Proxies would otherwise collect chunks before passing them on.
      'x-accel-buffering': 'no',
    });
  }

  /** Sends one event, and the headers before the first. Without a name it is what readers take for a `message`. */
  send(data: unknown, name?: string): void {
    const event = name === undefined ? '' : `event: ${name}\n`;
    this.#write(`${event}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
  }

  /** Sends what readers leave out: it keeps a quiet connection from being closed. */
  comment(): void {
    this.#write(':\n\n');
  }

  end(): void {
    if (this.#res.destroyed || this.#res.writableEnded) return;
    // Nothing more is sent that would show how far behind the reader is.
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
    // One event may be larger than the bound; a reader is slow that has not taken it when the next ones come.
    if (this.#res.writableLength > LIMITS.streamBufferBytes + this.#largest) {
      this.#overflow();
      return;
    }
    this.#largest = Math.max(this.#largest, Buffer.byteLength(text));
    this.#res.write(text);
  }
}
