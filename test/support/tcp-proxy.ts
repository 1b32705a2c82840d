/** A TCP proxy on loopback that simulates faults of a network. */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';

export type Weather =
  | 'clear'
  /** Bytes to the server arrive SLOW_MS later. */
  | 'slow'
  /** Every byte is a separate write. */
  | 'drip';

/** Milliseconds that `slow` adds to a round trip. */
export const SLOW_MS = 200;

interface Pair {
  app: Socket;
  redis: Socket;
  /** The connection is open on both sides, but the proxy drops all bytes. */
  silent: boolean;
}

export class TcpProxy {
  weather: Weather = 'clear';
  /** Where new connections lead. */
  target: number;
  readonly #pairs = new Set<Pair>();
  readonly #server: Server;

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.target = target;
  }

  /** Starts a proxy to `port`, which listens on a free port. */
  static async to(port: number): Promise<TcpProxy> {
    // Half-closed connections stay half-closed, so that each side sees what the other side did.
    const server = createServer({ allowHalfOpen: true, noDelay: true });
    const proxy = new TcpProxy(server, port);
    server.on('connection', (app) => proxy.#join(app, proxy.target));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get connections(): number {
    return this.#pairs.size;
  }

  /** Silences the current connections, which stay open, and returns their number. New connections work. */
  silence(): number {
    for (const pair of this.#pairs) pair.silent = true;
    return this.#pairs.size;
  }

  /** Resets one connection on both sides. */
  reset(at: number): void {
    const pair = [...this.#pairs][at];
    pair?.app.resetAndDestroy();
    pair?.redis.resetAndDestroy();
  }

  async close(): Promise<void> {
    for (const { app, redis } of this.#pairs) {
      app.destroy();
      redis.destroy();
    }
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(app: Socket, port: number): void {
    const redis = connect({ host: '127.0.0.1', port, noDelay: true, allowHalfOpen: true });
    const pair: Pair = { app, redis, silent: false };
    this.#pairs.add(pair);
    this.#pass(pair, app, redis, true);
    this.#pass(pair, redis, app, false);
  }

  #pass(pair: Pair, from: Socket, to: Socket, up: boolean): void {
    // Chunks keep their order even when the weather changes between them.
    let before: Promise<void> = Promise.resolve();
    const then = (work: () => Promise<void> | void) => {
      before = before.then(() => (pair.silent || to.destroyed ? undefined : work()));
    };
    from.on('data', (bytes) => {
      const due = this.weather === 'slow' && up ? performance.now() + SLOW_MS : 0;
      then(async () => {
        const wait = due - performance.now();
        if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
        if (pair.silent || to.destroyed) return;
        if (this.weather !== 'drip') return void to.write(bytes);
        for (const byte of bytes) {
          if (to.destroyed) return;
          to.write(Buffer.of(byte));
          await turn();
        }
      });
    });
    from.on('error', () => undefined);
    from.on('end', () => then(() => void to.end()));
    from.on('close', () => {
      this.#pairs.delete(pair);
      // The client of a silent connection does not learn that the server side has closed.
      if (!pair.silent || up) to.destroy();
    });
  }
}
