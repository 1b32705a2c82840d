/** What /metrics must tell of a fault between server and Redis, once it is over. */
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import type { FaultReport } from './fault.js';
import type { Subject } from './subject.js';
import type { Traffic } from './traffic.js';

export class RedisFigures {
  readonly #subject: Subject;
  readonly #outages: number;
  readonly #refused: number;
  #slowestSeconds = 0;
  #downs = 0;
  #ups = 0;

  private constructor(subject: Subject, scrape: string) {
    this.#subject = subject;
    expect(sum(scrape, 'sida_queue_up')).toBe(1);
    this.#outages = sum(scrape, 'sida_queue_outages_total');
    this.#refused = refused(scrape);
  }

  /** Before the fault. */
  static async begin(subject: Subject): Promise<RedisFigures> {
    return new RedisFigures(subject, await scrapeOf(subject));
  }

  /** Looks while the fault lasts. */
  async look(): Promise<void> {
    const scrape = await scrapeOf(this.#subject);
    if (sum(scrape, 'sida_queue_up') === 1) this.#ups += 1;
    else this.#downs += 1;
    this.#slowestSeconds = Math.max(this.#slowestSeconds, sum(scrape, 'sida_queue_redis_seconds'));
  }

  /** Looks of which the metrics told that the queue was up, and that it was not. */
  get looks(): { ups: number; downs: number } {
    return { ups: this.#ups, downs: this.#downs };
  }

  /** The longest that Redis took for an answer, in seconds. */
  get slowestSeconds(): number {
    return this.#slowestSeconds;
  }

  /** After it, with nothing under way: gives the outages told. */
  async end(report: FaultReport, traffic: Traffic): Promise<number> {
    // The server looks at the queue twice a second.
    await eventually(async () => jobsIn(await scrapeOf(this.#subject)) === 0, 'a queue without jobs');
    const scrape = await scrapeOf(this.#subject);
    const outages = sum(scrape, 'sida_queue_outages_total') - this.#outages;
    report.note(`the metrics tell of ${outages} outages`);
    expect(sum(scrape, 'sida_queue_up')).toBe(1);
    // Clients ask again under their keys, and do not book those refusals.
    const seen = traffic.refusals.get('503 not_ready') ?? 0;
    expect(refused(scrape) - this.#refused).toBeGreaterThanOrEqual(seen);
    return outages;
  }
}

async function scrapeOf(subject: Subject): Promise<string> {
  return (await subject.ask('/metrics')).text;
}

function jobsIn(scrape: string): number {
  return sum(scrape, 'sida_queue_waiting_jobs') + sum(scrape, 'sida_queue_active_jobs');
}

function refused(scrape: string): number {
  return sum(scrape, 'sida_http_requests_total', 'method="POST"', 'status="503"');
}

/** Of all series of the name with these labels. */
function sum(scrape: string, name: string, ...labels: string[]): number {
  const series = scrape
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .filter((line) => labels.every((label) => line.includes(label)));
  return series.reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
