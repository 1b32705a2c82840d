/** `sida serve` as a process of its own on a free loopback port. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { SIDA } from './paths.js';

const READY_MS = 120_000;
/** Of /proc/PID/stat, on every Linux that Node runs on. */
const TICK_MS = 10;
const LAST_WORDS = 4000;

const running = new Set<ChildProcess>();
// A measurement that ends early takes its servers with it.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

interface ServeOptions {
  /** What the command begins with, such as a shell that joins a group of processes first. */
  through?: readonly string[];
}

export class ServeProcess {
  readonly port: number;
  readonly url: string;
  readonly #child: ChildProcess;
  #words = '';

  /** Resolves when it takes requests. `args`: flags of `sida serve` but --port. */
  static async start(args: readonly string[], { through = [] }: ServeOptions = {}): Promise<ServeProcess> {
    const serve = new ServeProcess(args, through, await freePort());
    await serve.#ready();
    return serve;
  }

  private constructor(args: readonly string[], through: readonly string[], port: number) {
    this.port = port;
    this.url = `http://127.0.0.1:${port}`;
    const serve = [SIDA, 'serve', '--host', '127.0.0.1', '--port', String(port), ...args];
    const [command, ...rest] = [...through, process.execPath, ...serve];
    this.#child = spawn(command!, rest, { stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.#child);
    this.#child.once('exit', () => running.delete(this.#child));
    for (const stream of [this.#child.stdout!, this.#child.stderr!]) {
      stream.on('data', (chunk: Buffer) => {
        this.#words = (this.#words + chunk.toString()).slice(-LAST_WORDS);
      });
    }
  }

  async #ready(): Promise<void> {
    const begin = performance.now();
    while (performance.now() - begin < READY_MS) {
      if (this.#ended()) break;
      const answer = await fetch(`${this.url}/health/ready`).catch(() => undefined);
      await answer?.arrayBuffer();
      if (answer?.status === 200) return;
      await pause(50);
    }
    const how = this.#ended() ? `ended with ${this.#child.exitCode ?? this.#child.signalCode}` : 'was not ready';
    await this.stop();
    throw new Error(`sida serve ${how} after ${Math.round(performance.now() - begin)} ms: ${this.#words}`);
  }

  #ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Throws with the status where the answer is not 200. */
  async post<Answer>(path: string, body: unknown): Promise<Answer> {
    const answer = await fetch(this.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
    return JSON.parse(text) as Answer;
  }

  /** Figures of /metrics by name and labels, as they stand there. */
  async metrics(): Promise<Map<string, number>> {
    const text = await (await fetch(`${this.url}/metrics`)).text();
    const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    return new Map(
      lines.map((line) => {
        const at = line.lastIndexOf(' ');
        return [line.slice(0, at), Number(line.slice(at + 1))];
      }),
    );
  }

  /** CPU time so far of the process that answers requests, and of the engine process, its child. */
  cpu(): { apiMs: number; engineMs: number } {
    const { pid } = this.#child;
    const [engine] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    return { apiMs: cpuMs(pid!), engineMs: cpuMs(Number(engine)) };
  }

  /** Lets it end its work; resolves when it is gone. */
  async stop(): Promise<void> {
    if (this.#ended()) return;
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGTERM');
    await gone;
  }
}

/** CPU time of a process so far, all its threads. */
function cpuMs(pid: number): number {
  // The name, in brackets, may hold spaces: fields are counted behind it.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('No free port. This is a bug.');
  return address.port;
}
