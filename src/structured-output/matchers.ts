/**
 * The inference thread's end of the grammar threads: a matcher for each generation that a grammar binds. It lives as
 * long as its item, also while the generation has given its pages away.
 */
import type { MessagePort } from 'node:worker_threads';
import { clockMs } from '../clock.js';
import { SidaError } from '../errors.js';
import { type ThreadLife, TOKEN_MS, type ToMatchers } from '../protocol/grammar-messages.js';
import type { GrammarWork } from '../protocol/item-work.js';
import { type MatcherFault, MatcherState } from '../protocol/matcher-state.js';

/** Time that the tokens allowed next may take, also while a grammar thread is replaced. */
const ANSWER_MS = 60_000;
/** A call of the library that takes longer than this may never end. A shorter one is measured by its thread. */
const CALL_MS = 2 * TOKEN_MS;

/** The tokens that a pass may pick. */
export interface AllowedTokens {
  /** Whether `bitmap` holds the tokens that are allowed now. */
  readonly ready: boolean;
  /** (ceil(vocab / 32)). Null where the generation will fail: then any token may be picked. */
  readonly bitmap: Uint32Array | null;
  /** Waits at most `ms` until it is ready. */
  wait(ms: number): void;
}

/** Time that a pass waits for grammars. Most answer before the pass that they belong to has ended. */
const SETTLE_MS = 5;

/** Waits until all are ready, but not longer than a step may be held up. */
export function settle(allowed: readonly (AllowedTokens | undefined)[]): void {
  const missing = allowed.filter((each) => each?.ready === false);
  const until = clockMs() + SETTLE_MS;
  for (const each of missing) {
    const left = until - clockMs();
    if (left <= 0) return;
    each!.wait(left);
  }
}

interface Connection {
  incarnation: number;
  port: MessagePort;
}

/** Whose matcher it is. */
interface Owner {
  item: number;
  job: number;
}

export class Matchers {
  readonly #vocabSize: number;
  readonly #onStuck: (life: ThreadLife) => void;
  readonly #connections = new Map<number, Connection>();
  readonly #open = new Set<Matcher>();
  #nextId = 0;

  /** `onStuck` is told of a thread that does not answer. */
  constructor(vocabSize: number, onStuck: (life: ThreadLife) => void = () => undefined) {
    this.#vocabSize = vocabSize;
    this.#onStuck = onStuck;
  }

  get count(): number {
    return this.#open.size;
  }

  /** The thread has started, or was replaced. Its matchers begin again with the tokens that they have taken. */
  connect({ thread, incarnation }: ThreadLife, port: MessagePort): void {
    this.#connections.get(thread)?.port.close();
    this.#connections.set(thread, { incarnation, port });
    for (const matcher of this.#open) if (matcher.thread === thread) matcher.begin();
  }

  open({ text, thread }: GrammarWork, { item, job }: Owner): Matcher {
    const id = this.#nextId++;
    const matcher = new Matcher({
      id,
      grammar: text,
      thread,
      owner: { item, job },
      vocabSize: this.#vocabSize,
      connection: () => this.#connections.get(thread),
      onStuck: (incarnation) => this.#onStuck({ thread, incarnation }),
    });
    this.#open.add(matcher);
    matcher.begin();
    return matcher;
  }

  endItem(item: number): void {
    this.#end(({ owner }) => owner.item === item);
  }

  endJob(job: number): void {
    this.#end(({ owner }) => owner.job === job);
  }

  #end(ends: (matcher: Matcher) => boolean): void {
    for (const matcher of this.#open) {
      if (!ends(matcher)) continue;
      matcher.close();
      this.#open.delete(matcher);
    }
  }
}

interface MatcherOptions {
  id: number;
  grammar: string;
  thread: number;
  owner: Owner;
  vocabSize: number;
  /** Of its thread; undefined before the thread has started. */
  connection: () => Connection | undefined;
  onStuck: (incarnation: number) => void;
}

export class Matcher implements AllowedTokens {
  readonly #options: MatcherOptions;
  readonly #taken: number[] = [];
  #state: MatcherState;
  #askedMs = clockMs();
  /** The incarnation that was asked. One that replaced it is not to blame for the time before. */
  #asked: number | undefined;
  /** The call of the library that was last seen, and when it was first. */
  #call = { calls: 0, sinceMs: 0 };
  /** Why it is no longer waited for. */
  #late: MatcherFault = '';

  constructor(options: MatcherOptions) {
    this.#options = options;
    this.#state = new MatcherState(options.vocabSize);
  }

  get owner(): Owner {
    return this.#options.owner;
  }

  get thread(): number {
    return this.#options.thread;
  }

  get ready(): boolean {
    if (this.#late !== '' || this.#state.isAnswered(this.#taken.length)) return true;
    const now = clockMs();
    if (this.#callLasts(now)) this.#giveUp('slow', this.#options.connection()?.incarnation);
    else if (now - this.#askedMs > ANSWER_MS) this.#giveUp('broken', this.#asked);
    return this.#late !== '';
  }

  get bitmap(): Uint32Array | null {
    return this.#fault === '' ? this.#state.allowed : null;
  }

  wait(ms: number): void {
    this.#state.wait(this.#taken.length, ms);
  }

  /** Sends the matcher to its thread, with what it has taken. */
  begin(): void {
    const connection = this.#options.connection();
    if (connection === undefined || this.#late !== '') return;
    if (this.#fault !== '' && this.#state.isAnswered(this.#taken.length)) return;
    const { id, grammar, vocabSize } = this.#options;
    // Only the time of an open question counts on.
    if (this.#state.isAnswered(this.#taken.length)) this.#ask();
    // A thread that was ended may still write the old one.
    this.#state = new MatcherState(vocabSize);
    this.#call = { calls: 0, sinceMs: 0 };
    this.#asked ??= connection.incarnation;
    this.#post({ type: 'open', id, grammar, tokens: [...this.#taken], state: this.#state.buffer });
  }

  /** Takes the picked token. Throws where the grammar cannot be followed. */
  take(token: number): void {
    const fault = this.#fault;
    if (fault !== '') throw faultError(fault);
    this.#taken.push(token);
    this.#ask();
    this.#post({ type: 'take', id: this.#options.id, token });
  }

  close(): void {
    this.#post({ type: 'close', id: this.#options.id });
  }

  #ask(): void {
    this.#askedMs = clockMs();
    this.#asked = this.#options.connection()?.incarnation;
  }

  #callLasts(now: number): boolean {
    const { calls } = this.#state;
    if (calls !== this.#call.calls) this.#call = { calls, sinceMs: now };
    return calls % 2 === 1 && now - this.#call.sinceMs > CALL_MS;
  }

  /** `incarnation` is the thread that is to blame. */
  #giveUp(fault: MatcherFault, incarnation: number | undefined): void {
    this.#late = fault;
    if (incarnation !== undefined) this.#options.onStuck(incarnation);
  }

  #post(message: ToMatchers): void {
    this.#options.connection()?.port.postMessage(message);
  }

  get #fault(): MatcherFault {
    return this.#late === '' ? this.#state.fault : this.#late;
  }
}

function faultError(fault: MatcherFault): SidaError {
  if (fault === 'stuck') {
    const message =
      'No token of the model can continue this answer as its "response_format" or its tools demand';
    return new SidaError({ code: 'cannot_run', message });
  }
  if (fault === 'slow') {
    const message = `The grammar of this answer needed longer than ${TOKEN_MS} ms for one token`;
    return new SidaError({ code: 'cannot_run', message });
  }
  if (fault === 'broken') {
    const message = 'The grammar of this answer could not be followed to its end';
    return new SidaError({ code: 'cannot_run', message });
  }
  return new SidaError({
    code: 'internal',
    message: 'A grammar refused a token that it allowed. This is a bug.',
  });
}
