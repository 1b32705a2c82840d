/** Server-sent events with a bound on what a slow reader makes the server keep. */
import type { ServerResponse } from 'node:http';
import { LIMITS } from './limits.js';

export class SseStream {
  readonly #res: ServerResponse;
  readonly #onOverflow: () => void;

  /** `onOverflow` is called once, when the reader fell too far behind; the connection is closed then. */
  constructor(res: ServerResponse, onOverflow: () => void) {
    this.#res = res;
    this.#onOverflow = onOverflow;
  }

  get opened(): boolean {
    return this.#res.headersSent;
  }

  /** Sends one event. The first one sends the headers too: until then an error can have a status of its own. */
  send(data: unknown): void {
    if (this.#res.destroyed) return;
    if (!this.opened) {
      this.#res.writeHead(200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-store',
        // Proxies would otherwise collect pieces before passing them on.
        'x-accel-buffering': 'no',
      });
    }
    this.#res.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
    if (this.#res.writableLength > LIMITS.streamBufferBytes) {
      this.#onOverflow();
      this.#res.destroy();
    }
  }

  end(): void {
    if (!this.#res.destroyed) this.#res.end();
  }
}
