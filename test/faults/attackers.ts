/** Attackers beside good clients. Their requests may be served or refused; no answer may be a failure of the server. */
import { type ChildProcess, fork } from 'node:child_process';
import { setPriority } from 'node:os';

/** Beside what was sent rightly: refusals, and a deadline that the attacker's own request misses. */
const ALLOWED = [200, 400, 408, 413, 422, 429, 503, 504];
/** Attackers have machines of their own; here they only get what the server leaves. */
export const LOW_PRIORITY = 10;

export interface AttackBody {
  /** Answers are counted by it. */
  name: string;
  body: string;
}

export interface AttackOptions {
  port: number;
  headers: Record<string, string>;
  /** Between two requests of one attacker. */
  pauseMs: number;
  /** Connections that ping, and those that send a body byte by byte. */
  pingers: number;
  slowBodies: number;
  /** The bodies of each attacker, sent again and again. Default: one attacker of each kind that is known. */
  lists?: { what: string; path: string; bodies: AttackBody[] }[];
}

interface Figures {
  answers: Record<string, number>;
  closed: number;
}

export class Attackers {
  readonly #options: AttackOptions;
  #child: ChildProcess | undefined;
  /** Of all attacks that were stopped. */
  readonly #figures: Figures = { answers: {}, closed: 0 };
  #exited: Promise<unknown> | undefined;

  constructor(options: AttackOptions) {
    this.#options = options;
  }

  /** Resolves when they attack: the start of their process and the way of their bodies to it are no attack. */
  async begin(): Promise<void> {
    const child = fork(new URL('./attack-process.mjs', import.meta.url), { execArgv: [] });
    this.#child = child;
    this.#exited = new Promise((resolve) => child.once('exit', resolve));
    setPriority(child.pid!, LOW_PRIORITY);
    const began = new Promise((resolve) => child.once('message', resolve));
    child.send(this.#options);
    // A process that ends early is told of by `stop`.
    await Promise.race([began, this.#exited]);
  }

  /** Answers by attack and status, once the attackers have stopped. */
  get answers(): Map<string, number> {
    return new Map(Object.entries(this.#figures.answers));
  }

  /** Connections of pingers and slow bodies that the server closed. */
  get closed(): number {
    return this.#figures.closed;
  }

  /** Answers that no attack may get. */
  get failures(): string[] {
    return [...this.answers.keys()].filter((as) => !ALLOWED.includes(Number(as.split(' ').at(-1))));
  }

  /** Statuses of the answers to one body of a list. */
  statusesOf(what: string, name: string): number[] {
    const begin = `${what}, ${name}: `;
    const own = [...this.answers.keys()].filter((as) => as.startsWith(begin));
    return own.map((as) => Number(as.slice(begin.length)));
  }

  get sent(): number {
    return [...this.answers.values()].reduce((sum, count) => sum + count, 0);
  }

  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    if (!child.connected)
      throw new Error(`the attackers ended early, with ${child.exitCode ?? child.signalCode}`);
    child.on('message', (message) => {
      const { answers, closed } = message as Figures;
      this.#figures.closed += closed;
      for (const [as, count] of Object.entries(answers)) {
        this.#figures.answers[as] = (this.#figures.answers[as] ?? 0) + count;
      }
    });
    child.send('stop');
    await this.#exited;
  }
}
