/**
 * A few attackers beside good clients: each sends one dear request after the other with a pause, or holds connections.
 * Their requests may be served or refused; no answer may be a failure of the server. They come from an address of their
 * own.
 */
import { type Agent, Agent as HttpAgent } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { ask } from '../support/http-client.js';

interface Attack {
  what: string;
  path: string;
  /** Differs from time to time, so that no cache serves it. */
  body: (time: number) => string;
}

const json = (value: object) => JSON.stringify(value);
/** Letters that no bundled tokenizer knows. */
const letter = (time: number) => String.fromCodePoint(0x0400 + 2 * (time % 400));
const many = (count: number, text: string) => Array.from({ length: count }, () => text);

/** As many of `text` as a body of 1 MiB has room for beside `rest` bytes. */
const fill = (text: string, bytes: number) => text.repeat(Math.floor(bytes / Buffer.byteLength(text)));

const ATTACKS: Attack[] = [
  {
    what: 'tokenize unknown letters',
    path: '/v1/tokenize',
    body: (time) => json({ input: many(32, letter(time).repeat(16_300)) }),
  },
  {
    what: 'classify unknown letters',
    path: '/v1/classify',
    body: (time) => json({ task: 'sst2', input: many(32, letter(time).repeat(16_000)) }),
  },
  {
    what: 'complete unknown letters',
    path: '/v1/completions',
    body: (time) => json({ prompt: letter(time).repeat(30_000), max_tokens: 1 }),
  },
  {
    what: '64 labels of 1,000 tokens',
    path: '/v1/classify',
    body: (time) =>
      json({
        template: '{text}',
        input: 'a',
        labels: many(64, '').map((_, i) => `${time}${i}${' a'.repeat(1_000)}`),
      }),
  },
  {
    what: '40 labels of 500 tokens for 32 inputs',
    path: '/v1/classify',
    body: (time) =>
      json({
        template: '{text}',
        input: many(32, `a${time}`),
        labels: many(40, '').map((_, i) => `${i}${' b'.repeat(500)}`),
      }),
  },
  {
    what: 'a template that multiplies its field',
    path: '/v1/classify',
    body: () => json({ template: fill('{a}', 65_500), labels: ['x', 'y'], input: { a: 'z'.repeat(60_000) } }),
  },
  {
    what: 'a template that multiplies many fields',
    path: '/v1/classify',
    body: () =>
      json({
        template: fill('{a}{b}', 30_000),
        labels: ['x', 'y'],
        input: many(8, '').map(() => ({ a: fill('é', 50_000), b: fill('ж', 50_000) })),
      }),
  },
  {
    what: 'duplicate keys',
    path: '/v1/classify',
    body: (time) => `{"task":"sst2","input":"a","task":"sst2","input":"${time}","\\u0069nput":"b"}`,
  },
  {
    what: 'wrong keys of many names',
    path: '/v1/classify',
    body: (time) =>
      json({
        task: 'sst2',
        input: 'a',
        ...Object.fromEntries(many(3_000, 'k').map((k, i) => [`${k}${time}${i}`, 0])),
      }),
  },
];

/** Beside what was sent rightly: refusals, and a deadline that the attacker's own request misses. */
const ALLOWED = [200, 400, 408, 413, 422, 429, 503, 504];
const ADDRESS = '127.0.0.2';

export interface AttackOptions {
  port: number;
  headers: Record<string, string>;
  /** Between two requests of one attacker. */
  pauseMs: number;
  /** Connections that ping, and those that send a body byte by byte. */
  pingers: number;
  slowBodies: number;
}

export class Attackers {
  /** Answers by attack and status; 408 stands for a connection, too, that was closed without an answer. */
  readonly answers = new Map<string, number>();
  /** Connections of pingers and slow bodies that the server closed. */
  closed = 0;
  readonly #options: AttackOptions;
  readonly #agent: Agent = new HttpAgent({ localAddress: ADDRESS });
  readonly #sockets = new Set<Socket>();
  #working: Promise<unknown> = Promise.resolve();
  #going = false;

  constructor(options: AttackOptions) {
    this.#options = options;
  }

  begin(): void {
    const options = this.#options;
    this.#going = true;
    const ping = 'GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n';
    const length = 'content-type: application/json\r\ncontent-length: 100000';
    const head = Object.entries(options.headers)
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('');
    const body = `POST /v1/classify HTTP/1.1\r\nhost: localhost\r\n${head}${length}\r\n\r\n{`;
    this.#working = Promise.all([
      ...ATTACKS.map((attack) => this.#send(attack)),
      ...Array.from({ length: options.pingers }, () => this.#hold('', ping, 2_000)),
      ...Array.from({ length: options.slowBodies }, () => this.#hold(body, ' ', 1_000)),
    ]);
  }

  /** Answers that no attack may get. */
  get failures(): string[] {
    return [...this.answers]
      .map(([as]) => as)
      .filter((as) => !ALLOWED.includes(Number(as.split(' ').at(-1))));
  }

  get sent(): number {
    return [...this.answers.values()].reduce((sum, count) => sum + count, 0);
  }

  async stop(): Promise<void> {
    this.#going = false;
    for (const socket of this.#sockets) socket.destroy();
    await this.#working;
    this.#agent.destroy();
  }

  async #send({ what, path, body }: Attack): Promise<void> {
    const { port, headers, pauseMs } = this.#options;
    for (let time = 0; this.#going; time += 1) {
      const asked = { method: 'POST', headers: { ...headers, 'content-type': 'application/json' } };
      const answer = await ask(port, path, { ...asked, body: body(time), agent: this.#agent }).catch(
        () => undefined,
      );
      // A large body may meet the end of its connection before its refusal is read.
      const as = `${what}: ${answer?.status ?? 408}`;
      this.answers.set(as, (this.answers.get(as) ?? 0) + 1);
      await this.#pause(pauseMs * (0.5 + Math.random()));
    }
  }

  /** Keeps one connection for as long as the server lets it, then opens the next. */
  async #hold(first: string, drip: string, everyMs: number): Promise<void> {
    while (this.#going) {
      const socket = connect({ host: '127.0.0.1', port: this.#options.port, localAddress: ADDRESS });
      this.#sockets.add(socket);
      const timer = setInterval(() => socket.writable && socket.write(drip), everyMs);
      await new Promise<void>((resolve) => {
        socket
          .on('error', () => undefined)
          .on('close', () => resolve())
          .on('data', () => undefined);
        socket.on('connect', () => socket.write(first === '' ? drip : first));
      });
      clearInterval(timer);
      this.#sockets.delete(socket);
      if (this.#going) this.closed += 1;
      await this.#pause(500);
    }
  }

  async #pause(ms: number): Promise<void> {
    const end = performance.now() + ms;
    while (this.#going && performance.now() < end) await delay(Math.min(100, ms));
  }
}
