/**
 * Requests that are no work, while many connections are open. They are handled one at a time, each followed by a pause
 * in proportion to what the event loop was busy with meanwhile, so that all of them together take only a share of it,
 * however dear one is.
 * Clients with few connections come first, so that a crowd of one address does not keep a monitor out. Where there is
 * no room, the newest comes first: those who came before it are the next to be closed, and would be closed before they
 * have read their answer.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { LIMITS } from './limits.js';

/** Length of a pause, in times of the loop's work before it: where there is room, and where there is none. */
const PAUSE = { room: 3, full: 9 };
/** A client that reads slowly keeps the others waiting for no longer than this. */
const LONGEST_MS = 100;

interface Waiting {
  req: IncomingMessage;
  res: ServerResponse;
  taken: boolean;
}

const isThere = ({ req }: Waiting): boolean => !req.destroyed && !req.socket.destroyed;

interface Room {
  isFull(): boolean;
  /** Whether the client that sent it holds few connections. */
  hasFew(req: IncomingMessage): boolean;
}

export class ProbeTurns {
  readonly #handle: RequestListener;
  readonly #room: Room;
  readonly #longestMs: number;
  /** Each from the oldest on. */
  #ofFew: Waiting[] = [];
  #ofMany: Waiting[] = [];
  /** The next one, while it is found out whether its client is there. */
  #next: Waiting | undefined;
  #going = false;

  constructor(handle: RequestListener, room: Room, longestMs = LONGEST_MS) {
    this.#handle = handle;
    this.#room = room;
    this.#longestMs = longestMs;
  }

  add(req: IncomingMessage, res: ServerResponse): void {
    const waiting = { req, res, taken: false };
    if (!this.#going) {
      this.#going = true;
      this.#begin(waiting);
      return;
    }
    const group = this.#room.hasFew(req) ? this.#ofFew : this.#ofMany;
    group.push(waiting);
    // What its connection sends meanwhile stays in the kernel. Node reads on after each whole request, which is later.
    // The rest of a body is read, as it must arrive in time.
    process.nextTick(() => {
      if (!waiting.taken && req.complete) req.socket.pause();
    });
    if (this.#ofFew.length + this.#ofMany.length > 2 * LIMITS.connections) this.#forgetGone();
  }

  /** Handles all that wait: a draining server refuses what begins after it. */
  handOver(): void {
    const next = this.#next === undefined ? [] : [this.#next];
    const waiting = [...next, ...this.#ofFew.splice(0), ...this.#ofMany.splice(0)].filter(isThere);
    for (const each of waiting) this.#handOne(each);
  }

  async #goOn(): Promise<void> {
    for (;;) {
      const next = this.#take();
      if (next === undefined) break;
      this.#next = next;
      await readOn(next.req.socket);
      this.#next = undefined;
      if (next.taken || !isThere(next)) continue;
      this.#begin(next);
      return;
    }
    this.#going = false;
  }

  #begin(waiting: Waiting): void {
    const { res } = waiting;
    const begun = performance.eventLoopUtilization();
    const over = () => {
      clearTimeout(late);
      res.off('close', over);
      const times = this.#room.isFull() ? PAUSE.full : PAUSE.room;
      const busyMs = performance.eventLoopUtilization(begun).active;
      setTimeout(() => this.#goOn(), times * busyMs).unref();
    };
    const late = setTimeout(over, this.#longestMs).unref();
    res.once('close', over);
    this.#handOne(waiting);
  }

  #handOne(waiting: Waiting): void {
    waiting.taken = true;
    waiting.req.socket.resume();
    this.#handle(waiting.req, waiting.res);
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

/** That a client has gone shows only once all that it has sent is read, and the end is a read of its own. */
async function readOn(socket: Socket): Promise<void> {
  socket.resume();
  await setImmediate();
  await setImmediate();
}
