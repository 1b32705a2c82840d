/** Where the workers of a queue tell each other which experts they hold and how busy they are. */
import type { Redis } from 'ioredis';
import { decodeSummary, encodeSummary, type WorkerSummary } from '../placement/worker-summary.js';
import { callScript } from './redis-client.js';

export interface BoardOptions {
  client: Redis;
  /** Of the ledger's keys. */
  prefix: string;
  worker: string;
  /** Undefined: it takes no jobs now. The time is the board's to set. */
  own: () => Omit<WorkerSummary, 'worker' | 'publishedMs'> | undefined;
}

interface Given {
  worker: string;
  /** When it was known to be taken; undefined: it is on offer. */
  takenMs: number | undefined;
}

export interface OtherWorker {
  summary: WorkerSummary;
  /** Jobs that this worker gave it since and that it still holds. */
  given: number;
}

/** Between two times that a worker tells of itself, with nothing new. */
const TELL_MS = 500;
/** Between two times with something new, for each worker on the board: what all of them read grows with their square. */
const NEWS_MS_PER_WORKER = 15;
/** A choice among workers that hold other experts by now is a guess. */
const FRESH_MS = 20;
/** A worker that was silent for so long is not on the board. */
const SILENT_MS = 2_500;
/** Of a model with 200,000 experts; larger ones are not read. */
const SUMMARY_BYTES = 40_000;

export class WorkerBoard {
  readonly #options: BoardOptions;
  /** By job: what was given to others and is not yet in what they tell. */
  readonly #given = new Map<string, Given>();
  #others: WorkerSummary[] = [];
  #nowMs = 0;
  #told = '';
  #exchangedMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: BoardOptions) {
    this.#options = options;
    void this.#tell();
  }

  /** The workers of the board but this one. */
  get others(): OtherWorker[] {
    const given = [...this.#given.values()];
    return this.#others.map((summary) => {
      return { summary, given: given.filter(({ worker }) => worker === summary.worker).length };
    });
  }

  /** Redis's time when the board was read: all summaries' times are of that clock. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** What is known of the others is not older than a choice can bear after this. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#exchangedMs > FRESH_MS) await this.#exchange(this.#own());
  }

  /** This worker offers one of them a job. */
  offered(worker: string, job: string): void {
    this.#given.set(job, { worker, takenMs: undefined });
  }

  taken(job: string): void {
    const given = this.#given.get(job);
    if (given !== undefined) given.takenMs = performance.now();
  }

  /** The other worker has it no more, or never had. */
  ended(job: string): void {
    this.#given.delete(job);
  }

  /** Takes this worker off the board. */
  async leave(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#others = [];
    await this.#exchange('');
  }

  async #tell(): Promise<void> {
    const text = this.#own();
    const sinceMs = performance.now() - this.#exchangedMs;
    if (text !== this.#told || sinceMs >= TELL_MS) await this.#exchange(text);
    if (this.#closed) return;
    const pauseMs = NEWS_MS_PER_WORKER * (this.#others.length + 1);
    this.#timer = setTimeout(() => void this.#tell(), pauseMs).unref();
  }

  /** What it would tell now; empty: it takes no jobs. */
  #own(): string {
    const about = this.#closed ? undefined : this.#options.own();
    if (about === undefined) return '';
    return encodeSummary({ ...about, worker: this.#options.worker, publishedMs: 0 });
  }

  /** Tells of this worker and hears of the others. Without Redis there are none. */
  async #exchange(own: string): Promise<void> {
    const { client, prefix, worker } = this.#options;
    this.#told = own;
    this.#exchangedMs = performance.now();
    let answer: unknown = [this.#nowMs];
    // Otherwise the command would wait for the connection, and tell of the past when it comes.
    if (client.status === 'ready') {
      const all = [worker, own, SILENT_MS, SUMMARY_BYTES];
      answer = await callScript(client, 'placementBoard', prefix, ...all).catch(() => answer);
    }
    if (!this.#closed) this.#read(answer);
  }

  #read(answer: unknown): void {
    const [now, ...told] = answer as [number, ...(number | string)[]];
    this.#nowMs = now;
    this.#others = [];
    for (let at = 0; at + 1 < told.length; at += 2) {
      const summary = decodeSummary(String(told[at + 1]));
      if (summary === undefined || summary.worker === this.#options.worker) continue;
      const publishedMs = Number(told[at]);
      this.#others.push({ ...summary, publishedMs });
    }
    const ageMs = new Map(this.#others.map(({ worker, publishedMs }) => [worker, now - publishedMs]));
    for (const [job, { worker, takenMs }] of this.#given) {
      const sinceMs = takenMs === undefined ? 0 : performance.now() - takenMs;
      // A worker that told of itself after it took the job counted it in.
      if ((ageMs.get(worker) ?? 0) < sinceMs) this.#given.delete(job);
    }
  }
}
