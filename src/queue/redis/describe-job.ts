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
    ...(idempotency === undefined ? { key: '', digest: '' } : ledgerKey(owner, idempotency)),
  };
}

/**
 * The key is a hash, because a client's key can be as long as a header, and readers of Redis need not see it.
 */
export function ledgerKey(owner: string, { key, digest }: Idempotency): Pick<NewJob, 'key' | 'digest'> {
  return {
    key: createHash('sha256')
      .update(JSON.stringify([owner, key]))
      .digest('hex'),
    digest,
  };
}
