// `sida worker` processes with a redis-server and servers of their own, on loopback. Ended by process id.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const MODEL = 'models/switch-mini';
const READY_MS = 120_000;
const FIGURES = {
  bytes: 'sida_experts_moved_bytes_total',
  needed: 'sida_experts_needed_total',
  batches: 'sida_batches_total',
  inputs: 'sida_batch_inputs_total',
  passed: 'sida_placement_jobs_total\\{fate="passed"\\}',
  returned: 'sida_placement_jobs_total\\{fate="returned"\\}',
};

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A bench that is interrupted takes its programs with it. */
const running = new Set();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

class Program {
  words = '';
  #child;

  constructor(command, args) {
    this.#child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.#child);
    this.#child.once('exit', () => running.delete(this.#child));
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.on('data', (piece) => {
        this.words += piece;
      });
    }
  }

  static sida(...args) {
    return new Program('node', ['dist/cli/main.js', ...args, '--log-level', 'warn']);
  }

  /** What it said, once it has said it. */
  async says(pattern) {
    for (const begin = performance.now(); performance.now() - begin < READY_MS; await pause(20)) {
      const match = pattern.exec(this.words);
      if (match !== null) return match;
      if (this.#child.exitCode !== null) break;
    }
    throw new Error(`A program of the bench did not begin: ${this.words}`);
  }

  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGTERM');
    await gone;
  }
}

export class Fleet {
  #folder = mkdtempSync(join(tmpdir(), 'sida-fleet-'));
  #programs = [];
  #servers = [];
  #metrics = [];

  /** `system`: `in turn`, or a value of --placement. */
  static async start(options) {
    const fleet = new Fleet();
    try {
      await fleet.#start(options);
      return fleet;
    } catch (error) {
      await fleet.stop();
      throw error;
    }
  }

  async #start({ system, workers, budget }) {
    const port = await freePort();
    const redis = new Program('redis-server', [
      '--port',
      port,
      '--bind',
      '127.0.0.1',
      '--dir',
      this.#folder,
      '--save',
      '',
      '--appendonly',
      'yes',
      '--maxmemory-policy',
      'noeviction',
    ]);
    this.#programs.push(redis);
    await redis.says(/Ready to accept connections/);
    const databases = system === 'in turn' ? workers : 1;
    const urlOf = (i) => `redis://127.0.0.1:${port}/${i % databases}`;
    const placement = system === 'in turn' ? 'any' : system;
    const fleet = Array.from({ length: workers }, (_, i) =>
      Program.sida(
        'worker',
        '--redis',
        urlOf(i),
        '--model',
        MODEL,
        '--memory-budget',
        budget,
        '--threads',
        '1',
        '--placement',
        placement,
        '--metrics-port',
        '0',
        '--pack-dir',
        join(this.#folder, `packs-${i}`),
      ),
    );
    this.#programs.push(...fleet);
    this.#metrics = await Promise.all(
      fleet.map(async (worker) => (await worker.says(/metrics at (\S+)/))[1]),
    );
    const servers = Array.from({ length: databases }, (_, i) =>
      Program.sida('serve', '--redis', urlOf(i), '--model', 'switch-mini', '--no-worker', '--port', '0'),
    );
    this.#programs.push(...servers);
    this.#servers = await Promise.all(
      servers.map(async (server) => (await server.says(/at (http:\/\/\S+)/))[1]),
    );
    for (const url of this.#servers) {
      while ((await fetch(`${url}/health/ready`)).status !== 200) await pause(20);
    }
    // Until the workers know of each other.
    await pause(1000);
  }

  /** The number of the request deals it out. */
  async classify(number, { text, labels }) {
    const url = `${this.#servers[number % this.#servers.length]}/v1/classify`;
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ template: '{text}', labels, input: text }),
    });
    const body = await answer.json();
    if (answer.status !== 200) throw new Error(JSON.stringify(body));
    return body.data[0].scores;
  }

  /** Of each worker, since it began. */
  async figures() {
    // What the engine counts arrives up to a second later.
    await pause(1500);
    return Promise.all(
      this.#metrics.map(async (url) => {
        const text = await (await fetch(url)).text();
        const read = (name) => Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)[1]);
        return Object.fromEntries(Object.entries(FIGURES).map(([own, name]) => [own, read(name)]));
      }),
    );
  }

  async stop() {
    for (const program of this.#programs.reverse()) await program.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
