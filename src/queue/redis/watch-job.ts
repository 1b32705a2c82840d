/** Reports the statuses and deltas of a kept job to a listener. */
import { hasEnded, type JobEvent, type JobRecord } from '../job-queue.js';
import { DeltaReader } from './deltas.js';
import type { LinkEvent, QueueLink } from './queue-link.js';
import { type Progress, progressOf } from './stored-job.js';

interface WatchedJob {
  link: QueueLink;
  /** The record of the job now; undefined when Redis no longer has it. */
  read: () => Promise<JobRecord | undefined>;
  listener: (event: JobEvent) => void;
  /** Called once, when the job has ended or is lost, or the listener has left. */
  onEnd: () => void;
}

export class JobWatch {
  readonly #job: WatchedJob;
  readonly #reader = new DeltaReader();
  readonly #unlisten: () => void;
  /** Events are handled one after another, since some of them need a look into Redis. */
  #before: Promise<void>;
  #record: JobRecord;
  #ended = false;

  /** `record` must not have ended. Events are heard from now on. */
  constructor(job: WatchedJob, record: JobRecord) {
    this.#job = job;
    this.#record = record;
    this.#unlisten = job.link.listen(record.id, (event) => this.#queue(() => this.#take(event)));
    this.#before = this.#begin();
  }

  stop(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#unlisten();
    this.#job.onEnd();
  }

  /** Redis no longer has the job. */
  lose(): void {
    if (this.#ended) return;
    this.stop();
    this.#job.listener({ type: 'lost' });
  }

  /** Reads the record, because events may be missing. */
  look(): void {
    this.#queue(() => this.#end());
  }

  #queue(work: () => Promise<void>): void {
    // Any error means that Redis is away. Another event or look follows once it is back.
    this.#before = this.#before.then(() => (this.#ended ? undefined : work().catch(() => undefined)));
  }

  /** Reports the deltas before now, and what happened since the record was read. */
  async #begin(): Promise<void> {
    try {
      const record = await this.#job.read();
      if (record === undefined) return this.lose();
      if (hasEnded(record)) return this.#finish(record);
      this.#tell(record);
      await this.#readLog();
    } catch {
      // As in #queue.
    }
  }

  async #take(event: LinkEvent): Promise<void> {
    if (event.type === 'active') await this.#taken();
    else if (event.type === 'progress') await this.#progress(progressOf(event.report));
    else if (event.type === 'completed' || event.type === 'failed') await this.#end();
  }

  async #taken(): Promise<void> {
    const record = await this.#job.read();
    if (record === undefined || record.attempts === 0 || record.startedMs === null) return;
    // The job may have ended since. The listener still gets the status `running`.
    this.#tell({ ...record, status: 'running', finishedMs: null, result: null, error: null });
  }

  async #progress(report: Progress | undefined): Promise<void> {
    // The job was cancelled.
    if (report === undefined) return this.#end();
    const { run: attempts, startedMs, queued } = report;
    if (attempts >= this.#record.attempts)
      this.#tell({ ...this.#record, status: queued ? 'queued' : 'running', attempts, startedMs });
    if (!this.#deliver(report)) await this.#readLog();
  }

  #deliver(report: Progress): boolean {
    const deltas = this.#reader.take(report);
    for (const delta of deltas ?? []) {
      if (!this.#ended) this.#job.listener({ type: 'delta', attempt: report.run, delta });
    }
    return deltas !== undefined;
  }

  async #readLog(): Promise<void> {
    const { logs } = await this.#job.link.queue.getJobLogs(this.#record.id);
    const reports = logs.map(reportIn).filter((report) => report !== undefined);
    // Only those of the latest run count.
    const last = reports.reduce((a, b) => (b.turn > a.turn || (b.turn === a.turn && b.run > a.run) ? b : a), {
      turn: 0,
      run: 0,
    });
    for (const report of reports) {
      if (report.turn === last.turn && report.run === last.run) this.#deliver(report);
    }
  }

  async #end(): Promise<void> {
    const record = await this.#job.read();
    if (record === undefined) this.lose();
    else if (hasEnded(record)) this.#finish(record);
  }

  #finish(record: JobRecord): void {
    if (record.attempts > 0 && record.status !== 'cancelled')
      this.#tell({ ...record, status: 'running', finishedMs: null, result: null, error: null });
    if (this.#ended) return;
    this.stop();
    this.#job.listener({ type: 'status', record });
  }

  #tell(record: JobRecord): void {
    const same = record.status === this.#record.status && record.attempts === this.#record.attempts;
    this.#record = record;
    if (!same && !this.#ended) this.#job.listener({ type: 'status', record });
  }
}

/** The report in a row of the job's log. The last row may be an answer. */
function reportIn(row: string): Progress | undefined {
  try {
    return progressOf(JSON.parse(row));
  } catch {
    return undefined;
  }
}
