/** Server-sent events with a limit on the bytes that the server buffers for a slow reader. */
import type { ServerResponse } from 'node:http';
import { LIMITS } from './limits.js';

export class SseStream {
  readonly #res: ServerResponse;
  readonly #onOverflow: () => void;
  readonly #stallMs: number;
  #largest = 0;
  /** Bytes of this round of the event loop, which the connection cannot have taken yet. */
  #fresh = 0;
  /** Whether an event is being sent in pieces. */
  #within = false;

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
    this.#write(`${nameLine(name)}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`);
  }

  /** Sends an event whose data is JSON in pieces, as fast as the reader takes them. Send nothing else meanwhile. */
  async sendPieces(pieces: readonly Buffer[], name?: string): Promise<void> {
    this.#within = true;
    this.#write(`${nameLine(name)}data: `);
    for (const piece of pieces) {
      this.#write(piece);
      await this.drained();
    }
    this.#write('\n\n');
    this.#within = false;
  }

  /**
   * Resolves when the reader has taken most of what was sent, or the stream is closed, as it is when the reader takes
   * nothing for too long.
   */
  async drained(): Promise<void> {
    const res = this.#res;
    const { socket } = res;
    if (socket === null || res.writableLength <= LIMITS.streamBufferBytes) return;
    const before = socket.timeout ?? 0;
    const stalled = () => this.overflow();
    res.setTimeout(this.#stallMs, stalled);
    while (res.writableLength > LIMITS.streamBufferBytes && !res.destroyed) await nextDrain(res);
    res.off('timeout', stalled);
    socket.setTimeout(before);
  }

  /** Sends a comment, which readers ignore. It keeps a quiet connection open. */
  comment(): void {
    if (!this.#within) this.#write(':\n\n');
  }

  end(): void {
    if (this.#res.destroyed || this.#res.writableEnded) return;
    // No later event would reveal a slow reader, so a timeout takes over.
    this.#res.setTimeout(this.#stallMs, () => this.overflow());
    this.#res.end();
  }

  /** Closes the connection of a reader that is too far behind. */
  overflow(): void {
    if (this.#res.destroyed) return;
    this.#onOverflow();
    this.#res.destroy();
  }

  #write(part: string | Buffer): void {
    if (this.#res.destroyed || this.#res.writableEnded) return;
    this.open();
    // One event may be larger than the bound. The reader is slow if that event is still buffered along with as many
    // bytes as the bound when the next event comes.
    if (this.#res.writableLength - this.#fresh > LIMITS.streamBufferBytes + this.#largest) {
      this.overflow();
      return;
    }
    const bytes = Buffer.byteLength(part);
    this.#largest = Math.max(this.#largest, bytes);
    if (this.#fresh === 0) setImmediate(() => (this.#fresh = 0));
    this.#fresh += bytes;
    this.#res.write(part);
  }
}

function nameLine(name: string | undefined): string {
  return name === undefined ? '' : `event: ${name}\n`;
}

/** Resolves when the reader has taken all that was written, or has gone. */
export function nextDrain(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      res.off('drain', done).off('close', done);
      resolve();
    };
    res.on('drain', done).on('close', done);
  });
}
