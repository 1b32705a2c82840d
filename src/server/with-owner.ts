/** Names the key that sends a job to the engine, which need not see the key's name. Without keys all are one. */
import { createHash } from 'node:crypto';
import { ANYONE, type Caller } from '../access/key-ring.js';
import type { JobRequest } from '../protocol/engine-messages.js';

export function withOwner<Request extends JobRequest>(request: Request, caller: Caller): Request {
  if (caller === ANYONE) return request;
  return { ...request, owner: createHash('sha256').update(caller.owner).digest('base64url').slice(0, 22) };
}
