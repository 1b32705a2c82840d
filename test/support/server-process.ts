import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from './free-port.js';
import { EXACT_HALF, ownPacks, REPO, SidaProcess } from './sida-process.js';

export { REPO };

export const MINI = join(REPO, 'models', 'switch-mini');

export interface Answer {
  status: number;
  headers: Headers;
  // The tests look into answers of many shapes.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  body: any;
}

/** `sida serve` as a child process on a free loopback port. */
export class ServerProcess extends SidaProcess {
  readonly url: string;

  private constructor(port: number, args: string[], nodeArgs: string[]) {
    const { flags, remove } = ownPacks();
    super(['serve', '--port', String(port), ...EXACT_HALF, ...flags, ...args], remove, nodeArgs);
    this.url = `http://127.0.0.1:${port}`;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** `nodeArgs` are arguments of Node itself. Does not wait until the server is ready. */
  static async launch(args: string[], nodeArgs: string[] = [], port?: number): Promise<ServerProcess> {
    return new ServerProcess(port ?? (await freePort()), args, nodeArgs);
  }

  static async start(args: string[], readyMs = 60_000, nodeArgs: string[] = []): Promise<ServerProcess> {
    const server = await ServerProcess.launch(args, nodeArgs);
    await server.ready(readyMs);
    return server;
  }

  /** Waits until /health/ready answers 200, and returns the time in milliseconds. */
  async ready(limitMs: number): Promise<number> {
    const started = performance.now();
    while (performance.now() - started < limitMs) {
      if (!this.alive) break;
      const answer = await this.get('/health/ready').catch(() => undefined);
      if (answer?.status === 200) return performance.now() - started;
      await delay(20);
    }
    throw new Error(`the server did not become ready within ${limitMs} ms:\n${this.output}`);
  }

  /** Waits until `holds` returns true. Throws after about a minute. */
  async until(holds: () => boolean | Promise<boolean>): Promise<void> {
    for (let tries = 0; tries < 3_000; tries++) {
      if (await holds()) return;
      await delay(20);
    }
    throw new Error(`what the test waits for did not happen within a minute:\n${this.output}`);
  }

  get(path: string): Promise<Answer> {
    return this.request('GET', path);
  }

  post(path: string, body: unknown): Promise<Answer> {
    return this.request('POST', path, body);
  }

  /** A share, bytes, or "smallest". Returns the budget that the server has then. */
  async setBudget(budget: string): Promise<Answer['body']> {
    const { smallest_bytes: smallest } = (await this.get('/admin/budget')).body.device;
    const device = budget === 'smallest' ? String(smallest) : budget;
    const { status, body } = await this.request('PUT', '/admin/budget', { device });
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
    return body.device;
  }

  async request(method: string, path: string, body?: unknown): Promise<Answer> {
    const response = await fetch(this.url + path, {
      method,
      ...(body !== undefined && {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    });
    const text = await response.text();
    const json = response.headers.get('content-type')?.includes('json');
    return { status: response.status, headers: response.headers, body: json ? JSON.parse(text) : text };
  }
}

/** Returns the value of a metric. `name` includes the labels as the scrape writes them. */
export type Metric = (name: string) => number;

export async function metricsOf(server: ServerProcess): Promise<Metric> {
  return metricsIn((await server.get('/metrics')).body);
}

export function metricsIn(scrape: string): Metric {
  const lines = scrape.split('\n');
  return (name) => {
    const line = lines.find((each) => each.startsWith(`${name} `));
    if (line === undefined) throw new Error(`no metric ${name}:\n${scrape}`);
    return Number(line.slice(name.length + 1));
  };
}

export interface Sentence {
  text: string;
  label: number;
}

export function sst2(): Sentence[] {
  const text = readFileSync(join(REPO, 'test/data/sst2-validation.jsonl'), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Sentence);
}

/** Classifies sentences in requests of 32, eight requests at a time. */
export async function classifyAll(
  server: ServerProcess,
  sentences: Sentence[],
): Promise<{ label: string; scores: object }[]> {
  const chunks: Sentence[][] = [];
  for (let i = 0; i < sentences.length; i += 32) chunks.push(sentences.slice(i, i + 32));
  const results: { label: string; scores: object }[][] = [];
  let next = 0;
  const client = async () => {
    while (next < chunks.length) {
      const index = next++;
      const answer = await server.post('/v1/classify', {
        task: 'sst2',
        input: chunks[index]!.map((row) => row.text),
      });
      if (answer.status !== 200) throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`);
      results[index] = answer.body.data.map(({ label, scores }: { label: string; scores: object }) => ({
        label,
        scores,
      }));
    }
  };
  await Promise.all(Array.from({ length: 8 }, client));
  return results.flat();
}
