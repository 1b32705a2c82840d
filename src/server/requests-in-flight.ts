/** The requests to one model whose clients wait for the answer. Operators see them and cancel them. */
import type { Response } from 'express';
import { ANYONE } from '../access/key-ring.js';
import { SidaError } from '../errors.js';
import type { CompletionDelta, JobRequest } from '../protocol/engine-messages.js';
import { taskOf } from '../tasks/registry.js';
import { callerOf } from './middleware/auth.js';

export interface RequestInFlight {
  id: string;
  kind: string;
  /** Null without keys. */
  key: string | null;
  startedMs: number;
  /** Tokens that it may take: its input, by an estimate where that is text, and the longest answer. */
  mostTokens: () => number;
  /** Generated so far; null where the answer is not streamed. */
  tokens: number | null;
  abort: AbortController;
}

export class RequestsInFlight {
  readonly #requests = new Set<RequestInFlight>();
  /** Grows with each request that begins or ends. */
  changes = 0;

  /** The oldest first. */
  list(): RequestInFlight[] {
    return [...this.#requests];
  }

  /** Returns a function that counts a delta of the answer, and one to call when the request has ended. */
  begin(res: Response, request: JobRequest, abort: AbortController) {
    const caller = callerOf(res);
    let mostTokens: number | undefined;
    const entry: RequestInFlight = {
      id: res.locals.requestId,
      kind: request.kind,
      key: caller === ANYONE ? null : caller.owner,
      startedMs: Date.now(),
      // Long texts take milliseconds to count, and few servers are watched.
      mostTokens: () => {
        if (mostTokens !== undefined) return mostTokens;
        const { known, estimated } = taskOf(request).tokens.cost(request);
        mostTokens = known + estimated;
        return mostTokens;
      },
      tokens: request.stream ? 0 : null,
      abort,
    };
    this.#requests.add(entry);
    this.changes += 1;
    return {
      count: ({ tokenIds }: CompletionDelta) => {
        entry.tokens = (entry.tokens ?? 0) + tokenIds.length;
      },
      end: () => {
        this.#requests.delete(entry);
        this.changes += 1;
      },
    };
  }

  /** Cancels the requests with this id, which clients may have chosen twice. False if there are none. */
  cancel(id: string): boolean {
    const found = this.list().filter((entry) => entry.id === id);
    for (const { abort } of found)
      abort.abort(new SidaError({ code: 'cancelled', message: 'An operator cancelled the request' }));
    return found.length > 0;
  }
}

/** Why the operator cancelled what has failed; undefined if none did. */
export const cancelledBy = ({ reason }: AbortSignal): SidaError | undefined =>
  reason instanceof SidaError ? reason : undefined;
