/** Writes answers as JSON, large ones in pieces, so that they do not hold the event loop. */
import { setImmediate } from 'node:timers/promises';
import type { Response } from 'express';
import { jsonPieces } from '../text/json-pieces.js';
import { nextDrain } from './event-stream.js';
import { payerOf } from './middleware/auth.js';
import type { UnreadBytes, Waiting } from './unread-bytes.js';

export class AnswerWriter {
  readonly #unread: UnreadBytes;
  #turn: Promise<void> = Promise.resolve();

  constructor(unread: UnreadBytes) {
    this.#unread = unread;
  }

  /** Sends the whole answer. Resolves when the client has taken nearly all of it, or has gone. */
  async send(res: Response, answer: () => object): Promise<void> {
    // `answer` makes the numbers of embeddings.
    await this.#nextTurn();
    if (res.destroyed) return;
    const text: Waiting = { client: payerOf(res), bytes: 0, close: () => res.destroy() };
    try {
      await this.#write(res, await this.#textOf(answer(), res, text));
    } finally {
      this.#unread.read(text);
    }
  }

  /** The text of an event in pieces, each made when the one before is taken. Nothing of it waits for a slow reader. */
  async *pieces(value: object): AsyncGenerator<Buffer> {
    let turns = 0;
    for (const json of jsonPieces(value)) {
      if (turns++ > 0) await this.#nextTurn();
      yield Buffer.from(json);
    }
  }

  async #textOf(value: object, res: Response, text: Waiting): Promise<Buffer[]> {
    const pieces: Buffer[] = [];
    for await (const piece of this.pieces(value)) {
      if (res.destroyed) break;
      pieces.push(piece);
      this.#unread.add(text, piece.length);
    }
    return pieces;
  }

  async #write(res: Response, pieces: readonly Buffer[]): Promise<void> {
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
  }

  /** In a turn of the event loop one whole answer or one piece is made, however many answers there are. */
  #nextTurn(): Promise<void> {
    this.#turn = this.#turn.then(() => setImmediate());
    return this.#turn;
  }
}
