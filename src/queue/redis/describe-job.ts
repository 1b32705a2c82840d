/** Turns a request into the job that the ledger stores. */
import { createHash } from 'node:crypto';
import type { JobRequest } from '../../protocol/engine-messages.js';
import { taskOf } from '../../tasks/registry.js';
import type { Idempotency } from '../job-queue.js';
import type { NewJob } from './redis-ledger.js';

/** Describes a kept job, which only `owner` can see. */
export function describeJob(
  id: string,
  request: JobRequest,
  owner = '',
  idempotency?: Idempotency,
): Omit<NewJob, 'bound' | 'boundBytes' | 'deadlineMs'> {
  return {
    id,
    kind: request.kind,
    owner,
    sync: false,
    form: JSON.stringify(taskOf(request).form(request)),
    request: JSON.stringify(request),
    // The ledger stores a hash, because a key can be as long as a header and readers of Redis need not see clients'
    // keys.
    key: idempotency === undefined ? '' : hashOf(owner, idempotency.key),
    digest: idempotency?.digest ?? '',
  };
}

function hashOf(...parts: string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
