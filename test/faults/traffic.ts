/**
 * Clients that ask and keep book: of every request that was accepted, how it ended. They behave as careful
 * clients do: a job of /v1/jobs is sent with an idempotency key, and again with it when no answer came; its end
 * is asked for until known.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Answer, ask } from '../support/http-client.js';
import { randomFrom } from '../support/malformed-requests.js';
import type { FaultReport } from './fault.js';
import { essence, type Question } from './golden.js';
import { percentile } from './subject.js';

export interface TrafficOptions {
  port: number;
  golden: Question[];
  seed?: number;
  /** Clients of the synchronous routes and of /v1/jobs. */
  sync?: number;
  kept?: number;
  /** Share of the jobs that is cancelled. */
  cancels?: number;
  /** What every request carries. */
  headers?: Record<string, string>;
  /** What each client waits between requests. */
  pauseMs?: number;
}

interface KeptJob {
  id: string;
  path: string;
  key: string;
  question: Question;
  /** As the server first told its end. */
  end?: string;
}

/** A job that has not ended so long after the clients were told to stop is unfinished. */
const SETTLE_MS = 60_000;
const ENDS = ['completed', 'failed', 'cancelled'];

export class Traffic {
  /** Synchronous requests and jobs that were accepted. */
  accepted = 0;
  completed = 0;
  cancelled = 0;
  wrong: string[] = [];
  /** Accepted, and no answer came of it. */
  lost: string[] = [];
  /** A job that is two, or that had two different ends. */
  doubled: string[] = [];
  /** Synchronous requests whose connection broke before an answer. */
  broken = 0;
  /** By status and code, such as `503 not_ready`. */
  readonly refusals = new Map<string, number>();
  /** Of requests that were refused, the longest wait. */
  slowestRefusalMs = 0;
  readonly latencies: number[] = [];
  /** The longest time in which no request was answered rightly. */
  longestGapMs = 0;
  #lastAnswer = performance.now();
  readonly #options: Required<TrafficOptions>;
  readonly #random: () => number;
  readonly #jobs: KeptJob[] = [];
  readonly #clients: Promise<void>;
  #going = true;
  #settleBy = Number.POSITIVE_INFINITY;
  /** Of its idempotency keys: no other client's. */
  readonly #name = randomUUID();
  #keys = 0;

  /** Clients ask while `work` goes on, and no longer than that whatever becomes of it. */
  static async around(options: TrafficOptions, work: (traffic: Traffic) => Promise<void>): Promise<void> {
    const traffic = new Traffic(options);
    try {
      await work(traffic);
    } finally {
      traffic.#going = false;
      traffic.#settleBy = 0;
      await traffic.#clients;
    }
  }

  private constructor(options: TrafficOptions) {
    this.#options = { seed: 1, sync: 4, kept: 4, cancels: 0, headers: {}, pauseMs: 20, ...options };
    this.#random = randomFrom(this.#options.seed);
    const clients = [
      ...Array.from({ length: this.#options.sync }, () => () => this.#askOnce()),
      ...Array.from({ length: this.#options.kept }, () => () => this.#keepOne()),
    ];
    this.#clients = Promise.all(clients.map((client) => this.#repeat(client))).then(() => undefined);
  }

  /** Resolves after `answers` more; gives the milliseconds it took. */
  async goesOn(answers = 1): Promise<number> {
    const started = performance.now();
    const enough = this.completed + answers;
    while (this.completed < enough) {
      if (performance.now() - started > SETTLE_MS)
        throw new Error(`no ${answers} answers in ${SETTLE_MS} ms`);
      await delay(10);
    }
    return performance.now() - started;
  }

  /** No more requests; resolves when every accepted one has ended, and has been asked for once more. */
  async stop(): Promise<void> {
    this.#going = false;
    this.#settleBy = performance.now() + SETTLE_MS;
    await this.#clients;
    for (const { id, path, end } of this.#jobs.slice(-1_000)) {
      if (end === undefined) continue;
      const again = await this.#ask(path);
      if (again?.status !== 200) this.lost.push(`${id}: its end can no longer be read (${again?.status})`);
      else if (again.text !== end) this.doubled.push(`${end} and then ${again.text}`);
    }
  }

  /** What must hold of every request, and the figures. */
  tell(report: FaultReport): void {
    const refused = [...this.refusals].map(([as, count]) => `${count} refused with ${as}`);
    report.note(`accepted ${this.accepted}`);
    report.note(`completed ${this.completed}`);
    if (this.cancelled > 0) report.note(`cancelled ${this.cancelled}`);
    for (const each of refused) report.note(each);
    report.note(`lost ${this.lost.length}, wrong ${this.wrong.length}, dup-visible ${this.doubled.length}`);
    for (const share of this.latencies.length > 0 ? [0.5, 0.99] : [])
      report.note(`p${100 * share} ${percentile(this.latencies, share).toFixed(0)} ms`);
    expect(this.lost).toEqual([]);
    expect(this.wrong).toEqual([]);
    expect(this.doubled).toEqual([]);
    expect([...this.refusals.keys()].filter((as) => !/^(503 not_ready|429 )/.test(as))).toEqual([]);
    expect([this.broken, this.accepted]).toEqual([0, this.completed + this.cancelled]);
  }

  async #repeat(client: () => Promise<void>): Promise<void> {
    while (this.#going) {
      await client();
      await delay(this.#options.pauseMs * (0.5 + this.#random()));
    }
  }

  #question(): Question {
    const { golden } = this.#options;
    return golden[Math.floor(this.#random() * golden.length)]!;
  }

  async #askOnce(): Promise<void> {
    const question = this.#question();
    const started = performance.now();
    const answer = await this.#ask(question.path, { method: 'POST', body: question.body });
    if (answer === undefined) {
      this.broken += 1;
      return;
    }
    const ms = performance.now() - started;
    const code = answer.json?.error?.code as string | undefined;
    if (answer.status === 200) {
      this.accepted += 1;
      this.completed += 1;
      this.latencies.push(ms);
      this.#check(question, answer.json);
    } else if (wasAccepted(answer)) {
      this.accepted += 1;
      this.lost.push(`${question.path}: ${answer.status} ${answer.text}`);
    } else this.#refused(`${answer.status} ${code}`, ms);
  }

  async #keepOne(): Promise<void> {
    const question = this.#question();
    this.#keys += 1;
    const key = `${this.#name}-${this.#keys}`;
    const job = await this.#accept(question, key);
    if (job === undefined) return;
    this.#jobs.push(job);
    this.accepted += 1;
    const cancel = this.#random() < this.#options.cancels;
    if (cancel) await this.#ask(job.path, { method: 'DELETE' });
    const ended = await this.#end(job);
    if (ended === undefined) return;
    job.end = ended.text;
    const { status, answer, error } = ended.json;
    if (status === 'completed') {
      this.completed += 1;
      this.#check(question, answer);
    } else if (status === 'cancelled' && cancel) this.cancelled += 1;
    else this.lost.push(`${job.id}: ${status} ${error?.code}: ${error?.message}`);
    const same = await this.#post(question, key);
    if (same?.status === 202 && same.json.id !== job.id) {
      this.doubled.push(`${key} is ${job.id} and ${same.json.id}`);
    }
  }

  #post({ type, body }: Question, key: string): Promise<Answer | undefined> {
    return this.#ask('/v1/jobs', {
      method: 'POST',
      headers: { 'idempotency-key': key },
      body: { type, ...body },
    });
  }

  async #accept(question: Question, key: string): Promise<KeptJob | undefined> {
    do {
      const started = performance.now();
      const answer = await this.#post(question, key);
      if (answer?.status === 202) {
        const { id } = answer.json;
        return { id, path: `/v1/jobs/${id}`, key, question };
      }
      if (answer !== undefined) {
        this.#refused(`${answer.status} ${answer.json?.error?.code}`, performance.now() - started);
      }
      await delay(200);
    } while (this.#going);
    return undefined;
  }

  async #end(job: KeptJob): Promise<Answer | undefined> {
    while (performance.now() < this.#settleBy) {
      const answer = await this.#ask(job.path);
      if (answer?.status === 200 && ENDS.includes(answer.json.status)) return answer;
      if (answer?.status === 404) {
        this.lost.push(`${job.id}: 404`);
        return undefined;
      }
      await delay(answer?.status === 200 ? 25 : 200);
    }
    this.lost.push(`${job.id}: unfinished`);
    return undefined;
  }

  #check(question: Question, answer: Parameters<typeof essence>[0]): void {
    const now = performance.now();
    this.longestGapMs = Math.max(this.longestGapMs, now - this.#lastAnswer);
    this.#lastAnswer = now;
    const got = essence(answer);
    if (got !== question.right) this.wrong.push(`${JSON.stringify(question.body)}: ${got}`);
  }

  #refused(as: string, ms: number): void {
    this.refusals.set(as, (this.refusals.get(as) ?? 0) + 1);
    this.slowestRefusalMs = Math.max(this.slowestRefusalMs, ms);
  }

  /** Undefined: the connection broke. */
  #ask(path: string, asked: Parameters<typeof ask>[2] = {}): Promise<Answer | undefined> {
    const headers = { ...this.#options.headers, ...asked.headers };
    return ask(this.#options.port, path, { ...asked, headers }).catch(() => undefined);
  }
}

/** Whether a request that failed had been taken before: it was given up, ran out of time, or is no longer known. */
function wasAccepted({ status, json }: Answer): boolean {
  const { code, message = '' } = json?.error ?? {};
  if (code === 'not_ready') return /no longer knows/.test(message);
  return !(status === 429 || code === 'shutting_down');
}
