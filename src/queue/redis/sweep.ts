/** Mends what faults leave behind between the ledger and BullMQ. */
import type { Queue } from 'bullmq';
import type { Logger } from '../../observability/logger.js';
import { addEntry, ENTRY_DATA, entryIdOf } from './bullmq-entry.js';
import type { RedisLedger } from './redis-ledger.js';

export async function sweep(ledger: RedisLedger, bullmq: Queue, logger: Logger): Promise<void> {
  const { orphans, changed } = await ledger.strays(ENTRY_DATA);
  // Its producer died while adding it, or BullMQ gave it up. Whether it may run once more is the ledger's to say.
  for (const id of orphans) await addEntry(bullmq, id);
  for (const id of changed) {
    logger.error({ job: id }, 'a job whose entry in Redis somebody changed is failed');
    const message = "The job's entry in Redis is not what this version writes";
    await ledger.stop(id, 'failed', { code: 'internal', message });
    // Fails while a worker holds it; BullMQ then lets it go with that worker's lock.
    await bullmq.remove(entryIdOf(id)).catch(() => undefined);
  }
}
