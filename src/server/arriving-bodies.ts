/**
 * Requests whose bodies still arrive while there is no room for connections. Each is handled once its body is there or
 * fills its buffer, and after LIMITS.connectionGraceMs unless it arrives slowly. Slow ones wait until they are closed
 * or there is room again, and cost no more than their headers.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { LIMITS } from './limits.js';

/** A request is checked first after this time, then each time that its wait has doubled, and at least so often. */
const FIRST_CHECK_MS = 20;
const LONGEST_CHECK_MS = 250;

interface Waiting {
  res: ServerResponse;
  since: number;
  /** Time of its next check. */
  next: number;
}

export class ArrivingBodies {
  readonly #handle: RequestListener;
  readonly #mayWait: (req: IncomingMessage) => boolean;
  readonly #waiting = new Map<IncomingMessage, Waiting>();
  #timer: NodeJS.Timeout | undefined;

  /** `mayWait` tells whether a request waits on after its time. */
  constructor(handle: RequestListener, mayWait: (req: IncomingMessage) => boolean) {
    this.#handle = handle;
    this.#mayWait = mayWait;
  }

  add(req: IncomingMessage, res: ServerResponse): void {
    // Most bodies come with their headers, and are read before this runs.
    setImmediate(() => {
      if (hasArrived(req)) this.#handle(req, res);
      else this.#wait(req, res);
    });
  }

  /** Handles all that wait: a draining server refuses what begins after it. */
  handOver(): void {
    this.#handOver(() => true);
  }

  #wait(req: IncomingMessage, res: ServerResponse): void {
    const since = performance.now();
    this.#waiting.set(req, { res, since, next: since + FIRST_CHECK_MS });
    this.#timer ??= setInterval(() => this.#check(), FIRST_CHECK_MS).unref();
  }

  #check(): void {
    const now = performance.now();
    this.#handOver((req, waiting) => {
      if (now < waiting.next) return false;
      const waitedMs = now - waiting.since;
      waiting.next = now + Math.min(waitedMs, LONGEST_CHECK_MS);
      return hasArrived(req) || (waitedMs >= LIMITS.connectionGraceMs && !this.#mayWait(req));
    });
  }

  #handOver(ready: (req: IncomingMessage, waiting: Waiting) => boolean): void {
    for (const [req, waiting] of this.#waiting) {
      if (!req.destroyed && !ready(req, waiting)) continue;
      this.#waiting.delete(req);
      if (!req.destroyed) this.#handle(req, waiting.res);
    }
    if (this.#waiting.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** Whether nothing more of the body comes before somebody reads it. */
function hasArrived(req: IncomingMessage): boolean {
  return req.complete || req.readableLength >= req.readableHighWaterMark;
}
