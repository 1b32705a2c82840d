/**
 * Requests whose bodies still arrive while there is no room for connections. Each is handled once its body is there or
 * fills its buffer, and after LIMITS.connectionGraceMs unless it arrives slowly. Slow ones wait until they are closed
 * or there is room again, and cost no more than their headers.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { LIMITS } from './limits.js';

const CHECK_MS = 20;

export class ArrivingBodies {
  readonly #handle: RequestListener;
  readonly #mayWait: (req: IncomingMessage) => boolean;
  /** With the time at which each is handled at the latest. */
  readonly #waiting = new Map<IncomingMessage, { res: ServerResponse; due: number }>();
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
    this.#waiting.set(req, { res, due: performance.now() + LIMITS.connectionGraceMs });
    this.#timer ??= setInterval(() => this.#check(), CHECK_MS).unref();
  }

  #check(): void {
    const now = performance.now();
    this.#handOver((req, due) => hasArrived(req) || (now >= due && !this.#mayWait(req)));
  }

  #handOver(ready: (req: IncomingMessage, due: number) => boolean): void {
    for (const [req, { res, due }] of this.#waiting) {
      if (!req.destroyed && !ready(req, due)) continue;
      this.#waiting.delete(req);
      if (!req.destroyed) this.#handle(req, res);
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
