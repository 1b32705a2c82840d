/** Reports the statuses and deltas of a kept job to a listener. */
import { hasEnded, type JobEvent, type JobRecord } from '../job-queue.js';
import { DeltaReader } from './deltas.js';
import type { LinkEvent, QueueLink } from './queue-link.js';
import { isLater, type Progress, progressOf } from './stored-job.js';

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
  /** Events are handled one after another, since most of them need a look into Redis. */
  #before = Promise.resolve();
  #record: JobRecord;
  /** Rows of the job's log that were read. */
  #rows = 0;
  #ended = false;

  /** `record` must not have ended. Events are heard from now on. */
  constructor(job: WatchedJob, record: JobRecord) {
    this.#job = job;
    this.#record = record;
    this.#unlisten = job.link.listen(record.id, (event) => this.#queue(() => this.#take(event)));
    this.look();
  }

  stop(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#unlisten();
    this.#job.onEnd();
  }

  /** Reports what happened since the last event, which events may not have told. */
  look(): void {
    this.#queue(() => this.#look());
  }

  #queue(work: () => Promise<void>): void {
    // Any error means that Redis is away. Another event or look follows once it is back.
    this.#before = this.#before.then(() => (this.#ended ? undefined : work().catch(() => undefined)));
  }

  async #take({ type, data }: LinkEvent): Promise<void> {
    const report = type === 'progress' ? progressOf(data) : undefined;
    if (report === undefined) return this.#look();
    this.#tellRun(report);
    await this.#readLog();
  }

  async #look(): Promise<void> {
    const record = await this.#job.read();
    if (record === undefined) {
      this.stop();
      return this.#job.listener({ type: 'lost' });
    }
    const ran = record.attempts > 0 && record.status !== 'cancelled';
    if (!hasEnded(record)) this.#tell(record);
    else if (ran) this.#tell({ ...record, status: 'running', finishedMs: null, result: null, error: null });
    await this.#readLog();
    if (!hasEnded(record) || this.#ended) return;
    this.stop();
    this.#job.listener({ type: 'status', record });
  }

  /** Reports the deltas of the latest run that the log has got since. */
  async #readLog(): Promise<void> {
    const { logs } = await this.#job.link.queue.getJobLogs(this.#record.id, this.#rows);
    this.#rows += logs.length;
    const reports = logs.map(reportIn).filter((report) => report !== undefined);
    const latest = reports.reduce((a, b) => (isLater(b, a) ? b : a), { turn: 0, run: 0 });
    for (const report of reports) {
      if (isLater(latest, report)) continue;
      this.#tellRun(report);
      for (const delta of this.#reader.take(report) ?? [])
        if (!this.#ended) this.#job.listener({ type: 'delta', attempt: report.run, delta });
    }
  }

  #tellRun({ run: attempts, startedMs, queued }: Progress): void {
    if (attempts < this.#record.attempts) return;
    this.#tell({ ...this.#record, status: queued ? 'queued' : 'running', attempts, startedMs });
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
