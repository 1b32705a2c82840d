// A kept job holds its key's place in the queue and its tokens for as long as the queue has the job.
import { expect, it, vi } from 'vitest';
import type { JobEvent, JobQueue, JobRecord } from '../../../src/queue/job-queue.js';
import type { ModelContext } from '../../../src/server/context.js';
import { keepJob } from '../../../src/server/run-job.js';
import { eventually } from '../../support/eventually.js';
import { job } from '../../support/queue-conformance/harness.js';

const RECORD = { id: 'job', status: 'queued' } as JobRecord;

/** Keeps a job, and returns what its ticket was told and a function that reports events of the queue. */
async function kept(queue: Partial<JobQueue> = {}) {
  const ticket = { holds: true, done: vi.fn(), failed: vi.fn(), unused: vi.fn() };
  let tell: (event: JobEvent) => void = () => undefined;
  const context = {
    admission: { admit: async () => ticket },
    queue: {
      enqueue: async () => ({ record: RECORD, created: true }),
      find: async () => RECORD,
      watch: async (_id: string, _owner: string, listener: typeof tell) => {
        tell = listener;
        return () => undefined;
      },
      ...queue,
    },
    logger: { warn: () => undefined },
  } as unknown as ModelContext;
  await keepJob(context, { locals: {} } as never, job('a'), undefined);
  await new Promise((resolve) => setTimeout(resolve, 5));
  return { ticket, tell: (event: JobEvent) => tell(event) };
}

it('frees the place when the queue has lost the job', async () => {
  const { ticket, tell } = await kept();
  expect(ticket.failed).not.toHaveBeenCalled();
  tell({ type: 'lost' });
  await eventually(() => ticket.failed.mock.calls.length > 0, 'the end of the ticket');
  expect([ticket.failed.mock.calls.length, ticket.done.mock.calls.length]).toEqual([1, 0]);
});

it('frees the place when the job is lost before it can be watched', async () => {
  const { ticket } = await kept({ watch: async () => undefined, find: async () => undefined });
  expect(ticket.failed).toHaveBeenCalledTimes(1);
});

it('frees the place when the queue cannot be asked', async () => {
  const watch = () => Promise.reject(new Error('Redis is away'));
  const { ticket } = await kept({ watch });
  expect(ticket.failed).toHaveBeenCalledTimes(1);
});
