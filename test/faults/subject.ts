/**
 * The server that a fault is done to, and what must hold after every fault: the processes live, nothing was thrown
 * unseen, memory and descriptors are back, and the next answers are the golden ones.
 */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Agent } from 'node:http';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Answer, type Asked, ask, raw } from '../support/http-client.js';
import { type Metric, MINI, metricsIn, REPO, ServerProcess, sst2 } from '../support/server-process.js';
import { type FaultReport, fault } from './fault.js';

export const MIB = 1024 ** 2;
/** So often are the good requests sent before the baseline is taken: a fresh heap grows at anything. */
const WARM_UP = 20;
const BACK_MS = 30_000;
const COLLECTS_GARBAGE = ['--expose-gc', '--import', new URL('collect-garbage.mjs', import.meta.url).href];

interface Footprint {
  rssBytes: number;
  descriptors: number;
}

/** A model and twenty requests to it whose answers are the golden ones. */
interface Sample {
  model: string;
  path: string;
  bodies: object[];
  /** What of an answer is compared: the rest names the request. */
  told: (json: Answer['json']) => unknown;
}

export const TINY = join(REPO, 'test/fixtures/switch-tiny-capacity4');

const SAMPLES = {
  /** switch-mini. */
  mini: {
    model: MINI,
    path: '/v1/classify',
    bodies: sst2()
      .slice(0, 20)
      .map(({ text }) => ({ task: 'sst2', input: text })),
    told: ({ data }) => data,
  },
  /** olmoe-mini, which has a chat template. */
  chat: {
    model: join(REPO, 'models/olmoe-mini'),
    path: '/v1/completions',
    bodies: sst2()
      .slice(0, 20)
      .map(({ text }) => ({ prompt: text, max_tokens: 4, return_token_ids: true })),
    told: ({ choices }) => choices,
  },
  /** Random weights, without a tokenizer: its completions do not end by themselves. */
  tiny: {
    model: TINY,
    path: '/v1/completions',
    bodies: Array.from({ length: 20 }, (_, i) => ({
      prompt: [3 * i + 2, 5 * i + 7],
      max_tokens: 8,
      logprobs: 2,
    })),
    told: ({ choices }) => choices,
  },
} satisfies Record<string, Sample>;

export interface SubjectOptions {
  sample?: keyof typeof SAMPLES;
  /** Another path of the sample's model. */
  model?: string;
  /** What the subject's own requests carry. */
  headers?: Record<string, string>;
}

export class Subject {
  readonly server: ServerProcess;
  readonly #sample: Sample;
  readonly #headers: Record<string, string>;
  readonly #golden: string[] = [];
  #baseline: Footprint = { rssBytes: 0, descriptors: 0 };

  private constructor(server: ServerProcess, sample: Sample, headers: Record<string, string>) {
    this.server = server;
    this.#sample = sample;
    this.#headers = headers;
  }

  /** A ready server of switch-mini; `args` beside the model and the budget. */
  static start(...args: string[]): Promise<Subject> {
    return Subject.startWith({}, ...args);
  }

  static async startWith(
    { sample = 'mini', model = SAMPLES[sample].model, headers = {} }: SubjectOptions,
    ...args: string[]
  ): Promise<Subject> {
    const chosen = SAMPLES[sample];
    const flags = ['--model', model, '--memory-budget', '100%', '--log-level', 'warn'];
    const server = await ServerProcess.start([...flags, ...args], 60_000, COLLECTS_GARBAGE);
    const subject = new Subject(server, chosen, headers);
    subject.#golden.push(...(await subject.#answers()));
    for (let i = 1; i < WARM_UP; i += 1) await subject.good();
    subject.#baseline = await subject.#footprint();
    return subject;
  }

  get port(): number {
    return this.server.port;
  }

  ask(path: string, { headers, ...asked }: Asked = {}): Promise<Answer> {
    return ask(this.port, path, { ...asked, headers: { ...this.#headers, ...headers } });
  }

  raw(bytes: string | Buffer, limitMs?: number): Promise<string> {
    return raw(this.port, bytes, limitMs);
  }

  /** Descriptors beyond those of the idle server: its connections. */
  descriptors(): number {
    return footprint(this.server.child.pid!).descriptors - this.#baseline.descriptors;
  }

  async metrics(): Promise<Metric> {
    return metricsIn((await this.ask('/metrics')).text);
  }

  /** Twenty good requests, one after the other, with the answers of the undisturbed server. */
  async good(): Promise<void> {
    expect(await this.#answers()).toEqual(this.#golden);
  }

  async #answers(): Promise<string[]> {
    const answers: string[] = [];
    for (const body of this.#sample.bodies) answers.push(await this.#answer(body));
    return answers;
  }

  async #answer(body: object, agent?: Agent): Promise<string> {
    const asked = { method: 'POST', body, ...(agent && { agent }) };
    const { status, text, json } = await this.ask(this.#sample.path, asked);
    expect(status, text).toBe(200);
    return JSON.stringify(this.#sample.told(json));
  }

  /** One good request; its milliseconds. `agent` keeps its connection. */
  async oneGood(agent?: Agent): Promise<number> {
    const started = performance.now();
    expect(await this.#answer(this.#sample.bodies[0]!, agent)).toBe(this.#golden[0]);
    return performance.now() - started;
  }

  /** Milliseconds of good requests, one after the other with `pauseMs` between them, until `ended`. */
  async goodUntil(ended: Promise<unknown>, pauseMs = 50): Promise<number[]> {
    let over = false;
    const end = () => {
      over = true;
    };
    ended.then(end, end);
    const latencies: number[] = [];
    while (!over) {
      latencies.push(await this.oneGood());
      await delay(pauseMs);
    }
    return latencies;
  }

  /** Forgets the highest memory so far; the returned function tells by how much it has risen since. */
  async watchMemory(): Promise<() => number> {
    const pid = this.server.child.pid!;
    const { rssBytes } = await this.#footprint();
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
    return () => Math.max(0, statusBytes(pid, 'VmHWM') - rssBytes);
  }

  /** Collects garbage: memory that rises afterwards is what the next load holds, not what V8 had not yet collected. */
  async collect(): Promise<void> {
    process.kill(this.server.child.pid!, 'SIGUSR2');
    await delay(20);
  }

  /** Takes what the server holds now, after a load like the fault's, as what it must come back to. */
  async settle(): Promise<void> {
    this.#baseline = await this.#footprint();
  }

  /** The pass line of every fault. */
  async recovered(report: FaultReport): Promise<void> {
    const { child } = this.server;
    expect(child.exitCode, this.server.output).toBeNull();
    await this.good();
    const most = Math.max(this.#baseline.rssBytes * 1.1, this.#baseline.rssBytes + 32 * MIB);
    const end = performance.now() + BACK_MS;
    let now = await this.#footprint();
    while (performance.now() < end && (now.rssBytes > most || now.descriptors > this.#baseline.descriptors)) {
      now = await this.#footprint();
    }
    expect(now.descriptors, 'descriptors').toBeLessThanOrEqual(this.#baseline.descriptors);
    expect(this.server.output).not.toMatch(/unhandledRejection|uncaughtException|This is a bug/i);
    const grown = (bytes: number) => Math.round((bytes - this.#baseline.rssBytes) / MIB);
    report.atMost('memory grown by', grown(now.rssBytes), grown(most), 'MiB');
  }

  /** V8 keeps garbage for as long as there is room, so what is held shows only once it was collected. */
  async #footprint(): Promise<Footprint> {
    await this.collect();
    await delay(500);
    return footprint(this.server.child.pid!);
  }

  async stop(): Promise<void> {
    expect(await this.server.stop()).toBe(0);
  }
}

/** A fault that is done to one server, which must recover. `args` are flags beside the model and the budget. */
export function serverFault(
  what: string,
  { args = [], ...options }: SubjectOptions & { args?: string[] },
  run: (subject: Subject, report: FaultReport) => Promise<void>,
): void {
  fault(what, async (report) => {
    const subject = await Subject.startWith(options, ...args);
    try {
      await run(subject, report);
      await subject.recovered(report);
    } finally {
      await subject.stop();
    }
  });
}

/** As it stands, garbage and all. */
export function footprint(pid: number): Footprint {
  return { rssBytes: statusBytes(pid, 'VmRSS'), descriptors: readdirSync(`/proc/${pid}/fd`).length };
}

function statusBytes(pid: number, field: string): number {
  const match = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  if (match === null) throw new Error(`process ${pid} has no ${field}`);
  return Number(match[1]) * 1024;
}

/** The value below which a share of `values` lies. */
export function percentile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}
