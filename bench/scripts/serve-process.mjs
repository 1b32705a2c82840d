// `sida serve` as a process of its own on a free loopback port.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

const READY_MS = 120_000;
/** Of /proc/PID/stat, on every Linux that Node runs on. */
const TICK_MS = 10;

/** CPU time of a process so far, all its threads. */
function cpuMs(pid) {
  // The name, in brackets, may hold spaces: fields are counted behind it.
  const [, rest] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
  const fields = rest.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

const running = new Set();
// A bench that is interrupted takes its servers with it.
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

export class ServeProcess {
  #child;
  #words = '';
  port;

  /** Resolves when it takes requests. `nodeArgs`: of the API process. */
  static async start(args, nodeArgs = []) {
    const serve = new ServeProcess();
    await serve.#start(args, nodeArgs);
    return serve;
  }

  async #start(args, nodeArgs) {
    const command = [...nodeArgs, 'dist/cli/main.js', 'serve', '--port', '0', ...args];
    this.#child = spawn('node', command, { stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.#child);
    this.#child.once('exit', () => running.delete(this.#child));
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.on('data', (piece) => {
        this.#words += piece;
      });
    }
    const begin = performance.now();
    for (;;) {
      this.port ??= /http:\/\/127\.0\.0\.1:(\d+)/.exec(this.#words)?.[1];
      if (this.port !== undefined && (await this.#ready())) return;
      if (this.#child.exitCode !== null || performance.now() - begin > READY_MS) {
        await this.stop();
        throw new Error(`sida serve did not become ready: ${this.#words}`);
      }
      await pause(50);
    }
  }

  #ready() {
    const url = `http://127.0.0.1:${this.port}/health/ready`;
    return fetch(url).then(({ status }) => status === 200, () => false); // biome-ignore format: one line
  }

  /** A metric without labels. */
  async metric(name) {
    const text = await (await fetch(`http://127.0.0.1:${this.port}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)[1]);
  }

  /** CPU time so far of the process that answers requests, and of the engine process, its child. */
  cpu() {
    const { pid } = this.#child;
    const [engine] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    return { apiMs: cpuMs(pid), engineMs: cpuMs(engine) };
  }

  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGTERM');
    await gone;
  }
}
