/** Attackers beside good clients. Their requests may be served or refused; no answer may be a failure of the server. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';

/** Beside what was sent rightly: refusals, and a deadline that the attacker's own request misses. */
const ALLOWED = [200, 400, 408, 413, 422, 429, 503, 504];
/** Attackers have machines of their own; here they only get what the server leaves. */
export const LOW_PRIORITY = 10;

interface AttackOptions {
  port: number;
  /** Between two requests of one attacker. */
  pauseMs: number;
  /** The bodies of each attacker, sent again and again. Answers are counted by their names. */
  lists: { what: string; path: string; bodies: { name: string; body: string }[] }[];
}

export class Attackers {
  readonly #options: AttackOptions;
  #child: ChildProcess | undefined;
  /** Answers by attack and status, once the attackers have stopped. */
  answers = new Map<string, number>();

  constructor(options: AttackOptions) {
    this.#options = options;
  }

  /** Resolves when they attack: the start of their process and the way of their bodies to it are no attack. */
  async begin(): Promise<void> {
    const child = fork(new URL('./attack-process.mjs', import.meta.url), { execArgv: [] });
    this.#child = child;
    setPriority(child.pid!, LOW_PRIORITY);
    child.send(this.#options);
    await once(child, 'message');
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

  async stop(): Promise<void> {
    const child = this.#child!;
    if (!child.connected) throw new Error(`the attackers ended early, with ${child.exitCode}`);
    child.send('stop');
    const [answers] = (await once(child, 'message')) as [Record<string, number>];
    this.answers = new Map(Object.entries(answers));
  }
}
