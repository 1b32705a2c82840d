/**
 * Requests that are no work, while many connections are open. They are handled one at a time, each followed by a pause
 * in proportion to its time, so that all of them together take only a share of the event loop, however dear one is.
 * Clients with few connections come first, so that a crowd of one address does not keep a monitor out. Where there is
 * no room, the newest comes first: those who came before it are the next to be closed, and would be closed before they
 * have read their answer.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { LIMITS } from './limits.js';

/** Length of a pause, in times of the request before it: where there is room, and where there is none. */
const PAUSE = { room: 3, full: 9 };
/** A client that reads slowly keeps the others waiting for no longer than this. */
const LONGEST_MS = 100;

interface Waiting {
  req: IncomingMessage;
  res: ServerResponse;
}

const isThere = ({ req }: Waiting): boolean => !req.destroyed;

interface Room {
  isFull(): boolean;
  /** Whether the client that sent it holds few connections. */
  hasFew(req: IncomingMessage): boolean;
}

export class ProbeTurns {
  readonly #handle: RequestListener;
  readonly #room: Room;
  /** Each from the oldest on. */
  #ofFew: Waiting[] = [];
  #ofMany: Waiting[] = [];
  #going = false;

  constructor(handle: RequestListener, room: Room) {
    this.#handle = handle;
    this.#room = room;
  }

  add(req: IncomingMessage, res: ServerResponse): void {
    const group = this.#room.hasFew(req) ? this.#ofFew : this.#ofMany;
    group.push({ req, res });
    if (this.#ofFew.length + this.#ofMany.length > 2 * LIMITS.connections) this.#forgetGone();
    if (!this.#going) this.#next();
  }

  /** Handles all that wait: a draining server refuses what begins after it. */
  handOver(): void {
    const waiting = [...this.#ofFew.splice(0), ...this.#ofMany.splice(0)].filter(isThere);
    for (const { req, res } of waiting) this.#handle(req, res);
  }

  #next(): void {
    const next = this.#take();
    this.#going = next !== undefined;
    if (next === undefined) return;
    const { req, res } = next;
    const begun = performance.now();
    const over = () => {
      clearTimeout(late);
      res.off('close', over);
      const times = this.#room.isFull() ? PAUSE.full : PAUSE.room;
      setTimeout(() => this.#next(), times * (performance.now() - begun)).unref();
    };
    const late = setTimeout(over, LONGEST_MS).unref();
    res.once('close', over);
    this.#handle(req, res);
  }

  #take(): Waiting | undefined {
    for (const group of [this.#ofFew, this.#ofMany]) {
      while (group.length > 0) {
        const next = this.#room.isFull() ? group.pop()! : group.shift()!;
        if (isThere(next)) return next;
      }
    }
    return undefined;
  }

  /** Each connection has one that waits at most, so half of as many as twice the connections have gone. */
  #forgetGone(): void {
    this.#ofFew = this.#ofFew.filter(isThere);
    this.#ofMany = this.#ofMany.filter(isThere);
  }
}
