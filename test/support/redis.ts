/** A real redis-server on a free loopback port, with its own directory. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { describe } from 'vitest';
import { freePort } from './free-port.js';
import { hasRedis } from './install-tools.js';

const SETTINGS = [
  '--appendonly',
  'yes',
  '--appendfsync',
  'everysec',
  '--save',
  '',
  '--maxmemory-policy',
  'noeviction',
];

function installed(): boolean {
  if (hasRedis()) return true;
  process.stderr.write('SKIPPED: redis-server is not installed\n');
  return false;
}

/** `describe`, or `describe.skip` with a message when redis-server is not installed. */
export const describeWithRedis = installed() ? describe : describe.skip;

export class RedisServer {
  readonly port: number;
  readonly url: string;
  readonly #directory = mkdtempSync(join(tmpdir(), 'sida-redis-'));
  readonly #settings: string[];
  #child: ChildProcess | undefined;

  private constructor(port: number, settings: string[]) {
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
    this.#settings = settings;
  }

  /** Starts a server. `settings` are added to the settings that sida recommends. */
  static async start(settings: string[] = []): Promise<RedisServer> {
    const server = await RedisServer.absent(settings);
    await server.up();
    return server;
  }

  /** A server that is not running yet. */
  static async absent(settings: string[] = []): Promise<RedisServer> {
    return new RedisServer(await freePort(), settings);
  }

  /** Starts the server with its earlier data. Resolves when it answers. */
  async up(): Promise<void> {
    const address = ['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.#directory];
    this.#child = spawn('redis-server', [...address, ...SETTINGS, ...this.#settings], { stdio: 'ignore' });
    await this.use(async (client) => {
      const tillMs = performance.now() + 30_000;
      while (this.#child?.exitCode === null && performance.now() < tillMs) {
        if ((await client.ping().catch(() => '')) === 'PONG') return;
        await delay(25);
      }
      throw new Error(`redis-server did not start; its exit code is ${this.#child?.exitCode}`);
    });
  }

  /** Ends the server and keeps its files. */
  async down(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await exited;
  }

  /** Suspends the process until `thaw`. */
  freeze(): void {
    this.#child?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child?.kill('SIGCONT');
  }

  /** Runs `work` with a client of its own, and disconnects it. */
  async use<T>(work: (client: Redis) => Promise<T>): Promise<T> {
    const client = new Redis(this.url, { maxRetriesPerRequest: 0, retryStrategy: () => 25 });
    client.on('error', () => undefined);
    try {
      return await work(client);
    } finally {
      client.disconnect();
    }
  }

  async end(): Promise<void> {
    this.thaw();
    await this.down('SIGKILL');
    // A process that Redis forked to write its data may still be writing.
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
}
