/**
 * Writes answers as JSON. A large one is written in pieces, so that it does not hold the event loop, and its text is
 * shared by all who read it at the same time.
 */
import { setImmediate } from 'node:timers/promises';
import type { Response } from 'express';
import { jsonPieces } from '../text/json-pieces.js';
import { nextDrain } from './event-stream.js';
import { payerOf } from './middleware/auth.js';
import type { UnreadBytes, Waiting } from './unread-bytes.js';

/** The text of an answer, and who reads it. */
class Text implements Waiting {
  readonly client: string;
  readonly readers = new Set<Response>();
  bytes = 0;
  pieces: Promise<Buffer[]> = Promise.resolve([]);

  constructor(first: Response) {
    this.client = payerOf(first);
    this.readers.add(first);
  }

  get isRead(): boolean {
    return [...this.readers].some(({ destroyed }) => !destroyed);
  }

  close(): void {
    for (const reader of this.readers) reader.destroy();
  }
}

export class AnswerWriter {
  readonly #unread: UnreadBytes;
  /** Those that are being read, by key. */
  readonly #texts = new Map<unknown, Text>();
  #turn: Promise<void> = Promise.resolve();

  constructor(unread: UnreadBytes) {
    this.#unread = unread;
  }

  /** Sends the whole answer. Resolves when the client has taken nearly all of it, or has gone. */
  send(res: Response, answer: () => object, key?: unknown): Promise<void> {
    const write = async (pieces: Buffer[]) => {
      if (res.destroyed) return;
      const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
      res.setHeader('content-type', 'application/json; charset=utf-8').setHeader('content-length', bytes);
      if (res.req.method === 'HEAD') return void res.end();
      for (const piece of pieces.slice(0, -1)) {
        if (res.write(piece)) await setImmediate();
        else await nextDrain(res);
        if (res.destroyed) return;
      }
      res.end(pieces.at(-1));
    };
    return this.write(res, answer, write, key);
  }

  /**
   * Calls `use` with the text of the answer in pieces. Answers with an equal `key`, by default `res`, must be the same.
   * Rejects when `answer` throws.
   */
  async write(
    res: Response,
    answer: () => object,
    use: (pieces: Buffer[]) => Promise<void>,
    key: unknown = res,
  ): Promise<void> {
    let text = this.#texts.get(key);
    if (text === undefined) {
      const value = answer();
      text = new Text(res);
      this.#texts.set(key, text);
      text.pieces = this.#piecesOf(value, text);
    }
    text.readers.add(res);
    try {
      await use(await text.pieces);
    } finally {
      text.readers.delete(res);
      if (text.readers.size === 0) {
        this.#texts.delete(key);
        this.#unread.read(text);
      }
    }
  }

  async #piecesOf(value: object, text: Text): Promise<Buffer[]> {
    const pieces: Buffer[] = [];
    for (const json of jsonPieces(value)) {
      if (pieces.length > 0) await this.#nextTurn();
      if (!text.isRead) break;
      const piece = Buffer.from(json);
      pieces.push(piece);
      this.#unread.add(text, piece.length);
    }
    return pieces;
  }

  /** In a turn of the event loop one piece is made, however many answers there are. */
  #nextTurn(): Promise<void> {
    this.#turn = this.#turn.then(() => setImmediate());
    return this.#turn;
  }
}
