/** What BullMQ holds of a job: its id and nothing else. The rest stands in the ledger, which is checked when it is read. */
import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { KEY_PREFIX } from './queue-name.js';

/** As it stands in Redis. */
export const ENTRY_DATA = '{}';
const BEFORE_ID = 'job-';

export function bullmqQueue(name: string, client: Redis, attempts: number): Queue {
  const queue = new Queue(name, {
    prefix: KEY_PREFIX,
    connection: client,
    defaultJobOptions: { attempts, removeOnComplete: true, removeOnFail: true },
  });
  // The connection's errors are its owner's to tell.
  queue.on('error', () => undefined);
  return queue;
}

/** Does nothing where BullMQ has the job already. */
export async function addEntry(queue: Queue, id: string): Promise<void> {
  await queue.add('job', {}, { jobId: entryIdOf(id) });
}

/** BullMQ takes no id that is a number; the prefix makes it none. */
export function entryIdOf(id: string): string {
  return BEFORE_ID + id;
}

export function idOf(entryId: string): string {
  return entryId.slice(BEFORE_ID.length);
}
