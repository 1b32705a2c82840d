/** A real redis-server on a free loopback port with a directory of its own. Ended by process id. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { describe } from 'vitest';
import { freePort } from './free-port.js';
import { hasRedis } from './install-redis.js';

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

/** `describe`, or where there is no redis-server and none could be installed, a loud skip. */
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

  /** `settings` are added to those that sida asks for. */
  static async start(settings: string[] = []): Promise<RedisServer> {
    const server = await RedisServer.absent(settings);
    await server.up();
    return server;
  }

  /** One that is not running yet. */
  static async absent(settings: string[] = []): Promise<RedisServer> {
    return new RedisServer(await freePort(), settings);
  }

  /** Starts it, with what it held before. */
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

  /** Ends it; what it had written stays. */
  async down(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await exited;
  }

  /** Stops it in its tracks, and lets it go on. */
  freeze(): void {
    this.#child?.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child?.kill('SIGCONT');
  }

  /** A client of the test's own. */
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
    // A process that Redis forked to write its data may not know yet that it is alone.
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
}
