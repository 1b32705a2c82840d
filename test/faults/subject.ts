/**
 * The server that a fault is done to, and what must hold after every fault: the processes live, nothing was thrown
 * unseen, memory and descriptors are back, and the next answers are the golden ones.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { MINI, metricsOf, ServerProcess, sst2 } from '../integration/server-process.js';
import { type Answer, type Asked, ask, raw } from '../support/http-client.js';
import type { FaultReport } from './fault.js';

const MIB = 1024 ** 2;
const SENTENCES = sst2()
  .slice(0, 20)
  .map(({ text }) => text);
/** So often are the good requests sent before the baseline is taken: a fresh heap grows at anything. */
const WARM_UP = 20;
const BACK_MS = 30_000;

interface Footprint {
  rssBytes: number;
  descriptors: number;
}

export class Subject {
  readonly server: ServerProcess;
  readonly #golden: string[] = [];
  #baseline: Footprint = { rssBytes: 0, descriptors: 0 };

  private constructor(server: ServerProcess) {
    this.server = server;
  }

  /** A ready server of the bundled model; `args` beside the model and the budget. */
  static async start(...args: string[]): Promise<Subject> {
    const flags = ['--model', MINI, '--memory-budget', '100%', '--log-level', 'warn'];
    const subject = new Subject(await ServerProcess.start([...flags, ...args]));
    subject.#golden.push(...(await subject.#answers()));
    for (let i = 1; i < WARM_UP; i += 1) await subject.good();
    subject.#baseline = footprint(subject.server.child.pid!);
    return subject;
  }

  get port(): number {
    return Number(new URL(this.server.url).port);
  }

  ask(path: string, asked?: Asked): Promise<Answer> {
    return ask(this.port, path, asked);
  }

  raw(bytes: string | Buffer, limitMs?: number): Promise<string> {
    return raw(this.port, bytes, limitMs);
  }

  /** Descriptors beyond those of the idle server: its connections. */
  descriptors(): number {
    return footprint(this.server.child.pid!).descriptors - this.#baseline.descriptors;
  }

  metrics(): ReturnType<typeof metricsOf> {
    return metricsOf(this.server);
  }

  /** Twenty good requests, one after the other, with the answers of the undisturbed server. */
  async good(): Promise<void> {
    expect(await this.#answers()).toEqual(this.#golden);
  }

  async #answers(): Promise<string[]> {
    const answers: string[] = [];
    for (const input of SENTENCES) {
      const { status, text, json } = await this.ask('/v1/classify', {
        method: 'POST',
        body: { task: 'sst2', input },
      });
      expect(status, text).toBe(200);
      answers.push(JSON.stringify(json.data));
    }
    return answers;
  }

  /** One good request; its milliseconds. */
  async oneGood(): Promise<number> {
    const started = performance.now();
    const { status, text, json } = await this.ask('/v1/classify', {
      method: 'POST',
      body: { task: 'sst2', input: SENTENCES[0] },
    });
    expect(status, text).toBe(200);
    expect(JSON.stringify(json.data)).toBe(this.#golden[0]);
    return performance.now() - started;
  }

  /** Forgets the highest memory so far; the returned function tells by how much it has risen since. */
  watchMemory(): () => number {
    const pid = this.server.child.pid!;
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
    const before = statusBytes(pid, 'VmRSS');
    return () => Math.max(0, statusBytes(pid, 'VmHWM') - before);
  }

  /** The pass line of every fault. */
  async recovered(report: FaultReport): Promise<void> {
    const { child } = this.server;
    expect(child.exitCode, this.server.output).toBeNull();
    await this.good();
    const most = Math.max(this.#baseline.rssBytes * 1.1, this.#baseline.rssBytes + 32 * MIB);
    const end = performance.now() + BACK_MS;
    let now = footprint(child.pid!);
    while (performance.now() < end && (now.rssBytes > most || now.descriptors > this.#baseline.descriptors)) {
      await delay(500);
      now = footprint(child.pid!);
    }
    expect(now.descriptors, 'descriptors').toBeLessThanOrEqual(this.#baseline.descriptors);
    expect(this.server.output).not.toMatch(/unhandledRejection|uncaughtException|This is a bug/i);
    const grown = (bytes: number) => Math.round((bytes - this.#baseline.rssBytes) / MIB);
    report.atMost('memory grown by', grown(now.rssBytes), grown(most), 'MiB');
  }

  async stop(): Promise<void> {
    expect(await this.server.stop()).toBe(0);
  }
}

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
