/** A request as the ledger holds it. */
import { createHash } from 'node:crypto';
import type { JobRequest } from '../../protocol/engine-messages.js';
import { taskOf } from '../../tasks/registry.js';
import type { Idempotency } from '../job-queue.js';
import type { NewJob } from './redis-ledger.js';

/** A kept job. Only `owner` may see it. */
export function describeJob(
  id: string,
  request: JobRequest,
  owner = '',
  idempotency?: Idempotency,
): Omit<NewJob, 'bound' | 'deadlineMs'> {
  return {
    id,
    kind: request.kind,
    owner,
    sync: false,
    form: JSON.stringify(taskOf(request).form(request)),
    request: JSON.stringify(request),
    // Hashed: a key may be as long as a header, and readers of Redis need not see clients' keys.
    key: idempotency === undefined ? '' : hashOf(owner, idempotency.key),
    digest: idempotency?.digest ?? '',
  };
}

function hashOf(...parts: string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
