/** The scope in which a key's requests share KV pages. Without keys there is one scope for all. */
import { createHash } from 'node:crypto';
import { ANYONE, type Caller } from '../access/key-ring.js';
import type { JobRequest } from '../protocol/engine-messages.js';

export function withPrefixScope<Request extends JobRequest>(request: Request, caller: Caller): Request {
  if (caller === ANYONE) return request;
  const prefixScope = createHash('sha256').update(caller.owner).digest('base64url').slice(0, 22);
  return { ...request, prefixScope };
}
