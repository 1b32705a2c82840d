/** Finds and cancels kept jobs in Redis. */
import { hasEnded, type JobRecord } from '../job-queue.js';
import { cancelled } from '../refusals.js';
import type { QueueLink } from './queue-link.js';
import { dataOf, inOrder, recordOf, resultOf, type StoredJob } from './stored-job.js';

export class KeptRecords {
  readonly #keptMs: number;

  /** `keptMs` is the time that an ended job is kept. */
  constructor(keptMs: number) {
    this.#keptMs = keptMs;
  }

  /** The job with this id and the digest of its request. Removes one that is kept no longer, so that its id is free. */
  async earlier(link: QueueLink, id: string): Promise<{ record: JobRecord; digest: string } | undefined> {
    const job = await link.find(id);
    if (job === undefined) return undefined;
    if (this.#tooOld(job)) {
      await link.queue.remove(id);
      return undefined;
    }
    return { record: await this.read(link, job), digest: dataOf(job).digest };
  }

  async find(link: QueueLink, id: string, owner: string): Promise<JobRecord | undefined> {
    const job = await this.#visible(link, id, owner);
    return job && this.read(link, job);
  }

  async read(link: QueueLink, job: StoredJob): Promise<JobRecord> {
    const record = recordOf(job, dataOf(job));
    if (record.status !== 'completed') return inOrder(record);
    const { kind, id } = record;
    const { attempts, startedMs, result } = await resultOf(kind, job.returnvalue, (at) => link.row(id, at));
    return inOrder({ ...record, attempts, startedMs, result });
  }

  /** Resolves with the record, and whether this call has ended the job. */
  async cancel(
    link: QueueLink,
    id: string,
    owner: string,
  ): Promise<{ record: JobRecord; ended: boolean } | undefined> {
    const job = await this.#visible(link, id, owner);
    if (job === undefined) return undefined;
    const before = await this.read(link, job);
    if (hasEnded(before)) return { record: before, ended: false };
    const data = dataOf(job);
    const { attempts, startedMs } = before;
    const stopped = { atMs: Date.now(), error: cancelled().toBody(), attempts, startedMs };
    await job.updateData({ ...data, request: null, stopped });
    const now = await link.find(id);
    if (now === undefined) return undefined;
    if (now.finishedOn !== undefined) {
      // The job ended before it was marked.
      await now.updateData(data);
      return { record: await this.read(link, now), ended: false };
    }
    // A worker ends a running job at once. The next worker with room takes a waiting one and ends it without a run.
    await Promise.all([
      link.stop(id),
      job.changePriority({ lifo: true }),
      // Watchers read the record now.
      link.queue.updateJobProgress(id, { stopped: true }),
    ]);
    return { record: await this.read(link, now), ended: true };
  }

  async #visible(link: QueueLink, id: string, owner: string): Promise<StoredJob | undefined> {
    const job = await link.find(id);
    if (job === undefined || this.#tooOld(job)) return undefined;
    const data = dataOf(job);
    return data.sync || data.owner !== owner ? undefined : job;
  }

  /** BullMQ removes old jobs only now and then. */
  #tooOld({ finishedOn }: StoredJob): boolean {
    return finishedOn !== undefined && Date.now() - finishedOn > this.#keptMs;
  }
}
