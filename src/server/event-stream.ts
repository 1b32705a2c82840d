/** A stream of events in an answer, with a limit on the bytes that the server buffers for a slow reader. */
import type { ServerResponse } from 'node:http';
import { LIMITS } from './limits.js';

/** How events are written. */
export interface EventFormat {
  contentType: string;
  /** Stands before the data of an event. */
  begin: (name?: string) => string;
  /** Stands after it. */
  end: string;
  /** Characters of a JSON text that would end the event, which are escaped. */
  breaks?: RegExp;
  /** Readers ignore it. It keeps a quiet connection open. */
  beat: string;
}

export const SERVER_SENT: EventFormat = {
  contentType: 'text/event-stream; charset=utf-8',
  // Without a name, readers get the event as a `message`.
  begin: (name) => `${name === undefined ? '' : `event: ${name}\n`}data: `,
  end: '\n\n',
  beat: ':\n\n',
};

/**
 * One JSON object a line. JSON may begin with spaces, and readers fail at an empty line. Readers in Python end a line
 * at three more characters.
 */
export const JSON_LINES: EventFormat = {
  contentType: 'application/x-ndjson',
  begin: () => '',
  end: '\n',
  breaks: /[\u0085\u2028\u2029]/g,
  beat: ' ',
};

export class EventStream {
  readonly #res: ServerResponse;
  readonly #format: EventFormat;
  readonly #onOverflow: () => void;
  readonly #stallMs: number;
  #largest = 0;
  /** Bytes of this round of the event loop, which the connection cannot have taken yet. */
  #fresh = 0;
  /** Whether an event is being sent in pieces. */
  #within = false;

  /** `onOverflow` is called once when the reader falls too far behind; the connection is then closed. */
  constructor(
    res: ServerResponse,
    format: EventFormat,
    onOverflow: () => void,
    stallMs: number = LIMITS.streamStallMs,
  ) {
    this.#res = res;
    this.#format = format;
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
      'content-type': this.#format.contentType,
      'cache-control': 'no-store',
      // Without this header, proxies collect chunks before they pass them on.
      'x-accel-buffering': 'no',
    });
  }

  /** Sends one event, and the headers before the first one. */
  send(data: unknown, name?: string): void {
    const { begin, end, breaks } = this.#format;
    const text = typeof data === 'string' ? data : JSON.stringify(data);
    const line = breaks === undefined ? text : text.replace(breaks, escaped);
    this.#write(`${begin(name)}${line}${end}`);
  }

  /** Sends an event whose data is JSON in pieces, as fast as the reader takes them. Send nothing else meanwhile. */
  async sendPieces(pieces: AsyncIterable<Buffer>, name?: string): Promise<void> {
    this.#within = true;
    this.#write(this.#format.begin(name));
    for await (const piece of pieces) {
      if (this.#res.destroyed) break;
      this.#write(piece);
      await this.drained();
    }
    this.#write(this.#format.end);
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

  /** Keeps a quiet connection open. */
  beat(): void {
    if (!this.#within) this.#write(this.#format.beat);
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

function escaped(mark: string): string {
  return `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`;
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
