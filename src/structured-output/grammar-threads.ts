/**
 * The engine main thread's end of the grammar threads. It bounds the time of compiling, keeps the outcomes, and
 * replaces threads that needed too long, broke, or hold too much memory.
 */
import { readFileSync } from 'node:fs';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { clockMs } from '../clock.js';
import { type ErrorBody, SidaError } from '../errors.js';
import type {
  FromGrammarThread,
  GrammarFigures,
  GrammarThreadData,
  ThreadLife,
} from '../protocol/grammar-messages.js';
import { oneLine } from '../text/one-line.js';
import { CompiledCache } from './compiled-cache.js';
import type { GrammarPreparer, GrammarRequest, PreparedGrammar } from './grammar.js';
import { KEPT_GRAMMARS } from './matcher-table.js';

export interface GrammarThreadsOptions {
  data: Omit<GrammarThreadData, 'matchers' | 'memoryBytes'>;
  /** Takes the inference thread's port to a thread that has started. */
  connect: (life: ThreadLife, port: MessagePort) => void;
  compileMs?: number;
  memoryBytes?: number;
  /** Most MiB of JavaScript's heap in a thread. */
  heapMb?: number;
  threads?: number;
}

/** Processor time for compiling: ten times what usual schemas need with a large vocabulary. */
const COMPILE_MS = 5_000;
const MEMORY_BYTES = 512 << 20;
/** Room for the largest tokenizers while they are read, and for a grammar's text of 16 MiB. */
const HEAP_MB = 512;
/** So that a grammar can be compiled where no generation waits for its tokens. */
const THREADS = 2;
/** Parts of the time for compiling after which it is looked at. */
const LOOKS = 10;
/** Why grammars were refused, kept so that they are not tried again. */
const KEPT_REFUSALS = { count: 256, bytes: 4 << 20 };

/** Grammars of one owner that wait. */
const MOST_WAITING = 32;
/** Grammars of all owners that wait, but each owner may have one. */
const MOST_WAITING_ALL = 64;

interface Waiting extends GrammarRequest {
  /** Undefined once nobody waits for it. */
  done: ((found: PreparedGrammar | SidaError) => void) | undefined;
}

interface Thread {
  index: number;
  incarnation: number;
  worker: Worker;
  /** Ended threads start again when there is work. */
  state: 'starting' | 'opened' | 'ended';
  /** The system's number of the thread; empty where there is none. */
  systemId: string;
  /** The grammar that it compiles, or compiles once it has started. */
  current: Waiting | undefined;
  /** Of prepared grammars that are in use. */
  used: number;
  bytes: number;
  timer: NodeJS.Timeout | undefined;
}

export class GrammarThreads implements GrammarPreparer {
  readonly #options: Required<GrammarThreadsOptions>;
  readonly #threads: Thread[] = [];
  #waiting: Waiting[] = [];
  /** Owners in the order of their latest turns. */
  #turns: string[] = [];
  /** The thread of each compiled grammar. */
  readonly #compiled = new CompiledCache<Thread>(KEPT_GRAMMARS);
  readonly #refused = new CompiledCache<ErrorBody>(KEPT_REFUSALS);
  #started = 0;

  constructor(options: GrammarThreadsOptions) {
    const limits = { compileMs: COMPILE_MS, memoryBytes: MEMORY_BYTES, heapMb: HEAP_MB, threads: THREADS };
    this.#options = { ...limits, ...options };
  }

  get figures(): GrammarFigures {
    const running = this.#threads.filter(({ state }) => state !== 'ended');
    return { threads: running.length, bytes: running.reduce((sum, { bytes }) => sum + bytes, 0) };
  }

  prepare(request: GrammarRequest, done: NonNullable<Waiting['done']>): () => void {
    const waiting: Waiting = { ...request, done };
    if (this.#answers(waiting)) return () => undefined;
    const own = this.#waiting.filter(({ owner }) => owner === request.owner).length;
    if (own >= MOST_WAITING || (this.#waiting.length >= MOST_WAITING_ALL && own > 0)) {
      const message = `${own} other structures${request.owner === '' ? '' : ' of this key'} wait to be compiled: try again later`;
      done(new SidaError({ code: 'queue_full', message, read: true }));
      return () => undefined;
    }
    this.#waiting.push(waiting);
    this.#compileNext();
    return () => {
      waiting.done = undefined;
      this.#waiting = this.#waiting.filter((each) => each !== waiting);
    };
  }

  /** The thread has not answered the inference thread: it is replaced, unless it has been since. */
  stuck({ thread: index, incarnation }: ThreadLife): void {
    const thread = this.#threads[index];
    if (thread?.incarnation === incarnation && thread.state !== 'ended') this.#replace(thread);
  }

  async close(): Promise<void> {
    await Promise.all(
      this.#threads.map(({ worker, timer }) => {
        clearInterval(timer);
        worker.removeAllListeners();
        return worker.terminate();
      }),
    );
  }

  /** Calls `done` if the outcome of the grammar is known. */
  #answers({ grammar, param, done }: Waiting): boolean {
    const refused = this.#refused.get(grammar);
    const known = this.#compiled.get(grammar);
    if (refused !== undefined) done?.(new SidaError({ ...refused, param }));
    else if (known !== undefined) done?.(this.#use(known));
    return refused !== undefined || known !== undefined;
  }

  /** Gives waiting grammars to threads that compile none. */
  #compileNext(): void {
    while (this.#threads.length < this.#options.threads || this.#threads.some(({ current }) => !current)) {
      const next = this.#takeNext();
      if (next === undefined) return;
      if (this.#answers(next)) continue;
      const thread = this.#idlest();
      thread.current = next;
      if (thread.state === 'ended') this.#start(thread);
      else this.#compile(thread);
    }
  }

  /**
   * Removes the next grammar that may be compiled now: keys take turns, and no key has two threads. A grammar that is
   * being compiled waits for the outcome.
   */
  #takeNext(): Waiting | undefined {
    const compiling = this.#threads.flatMap(({ current }) => current ?? []);
    const turn = ({ owner }: Waiting) => this.#turns.indexOf(owner);
    const [next] = this.#waiting
      .filter(({ owner, grammar }) =>
        compiling.every((other) => other.grammar !== grammar && (owner === '' || other.owner !== owner)),
      )
      .sort((a, b) => turn(a) - turn(b));
    if (next === undefined) return undefined;
    this.#waiting = this.#waiting.filter((each) => each !== next);
    this.#turns = [...this.#turns.filter((owner) => owner !== next.owner), next.owner];
    return next;
  }

  #compile({ worker, state, current }: Thread): void {
    if (state === 'opened' && current) worker.postMessage({ type: 'compile', grammar: current.grammar });
  }

  /** The thread that compiles none and is used least; a new one while all are used and there may be more. */
  #idlest(): Thread {
    const [least] = this.#threads.filter(({ current }) => !current).toSorted((a, b) => a.used - b.used);
    if (least !== undefined && (least.used === 0 || this.#threads.length === this.#options.threads))
      return least;
    const index = this.#threads.length;
    const own = { systemId: '', current: undefined, used: 0, bytes: 0, timer: undefined };
    const thread: Thread = { index, ...this.#worker(index), state: 'starting', ...own };
    this.#threads.push(thread);
    this.#listen(thread);
    return thread;
  }

  #start(thread: Thread): void {
    Object.assign(thread, this.#worker(thread.index));
    thread.state = 'starting';
    this.#listen(thread);
  }

  #worker(thread: number): Pick<Thread, 'worker' | 'incarnation'> {
    const { data, connect, memoryBytes, heapMb } = this.#options;
    const { port1, port2 } = new MessageChannel();
    const worker = new Worker(new URL('grammar-thread.js', import.meta.url), {
      name: 'grammar',
      workerData: { ...data, memoryBytes, matchers: port1 } satisfies GrammarThreadData,
      transferList: [port1],
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    const incarnation = this.#started++;
    connect({ thread, incarnation }, port2);
    return { worker, incarnation };
  }

  #listen(thread: Thread): void {
    const { worker } = thread;
    worker.on('message', (message: FromGrammarThread) => this.#onMessage(thread, message));
    worker.on('error', (error) => this.#onBroken(thread, error.message, { compiling: true, own: false }));
    worker.on('exit', () => this.#onBroken(thread, 'its thread ended', { compiling: true, own: false }));
  }

  #onMessage(thread: Thread, message: FromGrammarThread): void {
    switch (message.type) {
      case 'opened':
        thread.state = 'opened';
        thread.systemId = message.systemId;
        this.#compile(thread);
        return;
      case 'failed':
        this.#onFailed(thread, new SidaError(message.error));
        return;
      case 'compiling':
        this.#limitCompiling(thread);
        return;
      case 'compiled':
        thread.bytes = message.bytes;
        this.#onCompiled(thread);
        return;
      case 'refused':
        this.#refuseCurrent(thread, refusal(message.reason), true);
        this.#compileNext();
        return;
      case 'broken':
        // Other grammars may have filled the memory.
        this.#onBroken(thread, message.reason, { compiling: message.compiling, own: thread.used === 0 });
    }
  }

  #onCompiled(thread: Thread): void {
    clearInterval(thread.timer);
    const { grammar, done } = thread.current!;
    thread.current = undefined;
    this.#compiled.set(grammar, thread);
    if (done === undefined) this.#released(thread);
    else done(this.#use(thread));
    this.#compileNext();
  }

  /** The time of a grammar counts neither what the thread did before it nor the work of other threads. */
  #limitCompiling(thread: Thread): void {
    const { compileMs } = this.#options;
    const begin = processorMs(thread);
    const look = () => {
      if (processorMs(thread) - begin < compileMs) return;
      this.#replace(thread);
      this.#refuseCurrent(thread, slowRefusal(compileMs), true);
      this.#compileNext();
    };
    thread.timer = setInterval(look, compileMs / LOOKS);
  }

  /** `own`: the reason lies in the grammar alone, so it is refused again. */
  #refuseCurrent(thread: Thread, refusal: ErrorBody, own: boolean): void {
    clearInterval(thread.timer);
    const { current } = thread;
    thread.current = undefined;
    if (current === undefined) return;
    if (own) this.#refused.set(current.grammar, refusal);
    current.done?.(new SidaError({ ...refusal, param: current.param }));
  }

  #onBroken(thread: Thread, reason: string, { compiling, own }: { compiling: boolean; own: boolean }): void {
    if (thread.state === 'starting') {
      this.#onFailed(
        thread,
        new SidaError({ code: 'internal', message: `The grammar thread failed: ${reason}` }),
      );
      return;
    }
    this.#replace(thread);
    if (compiling) this.#refuseCurrent(thread, refusal(reason), own);
    this.#compileNext();
  }

  /** The thread starts again for the next grammar that it is given. */
  #onFailed(thread: Thread, error: SidaError): void {
    this.#end(thread);
    const { current } = thread;
    thread.current = undefined;
    current?.done?.(error);
    this.#compileNext();
  }

  /** The inference thread opens its matchers again. */
  #replace(thread: Thread): void {
    this.#end(thread);
    this.#start(thread);
  }

  #end(thread: Thread): void {
    clearInterval(thread.timer);
    thread.worker.removeAllListeners();
    thread.worker.on('error', () => undefined);
    void thread.worker.terminate();
    thread.bytes = 0;
    thread.state = 'ended';
    this.#compiled.remove((of) => of === thread);
  }

  #use(thread: Thread): PreparedGrammar {
    thread.used += 1;
    let used = true;
    const release = () => {
      if (!used) return;
      used = false;
      thread.used -= 1;
      this.#released(thread);
    };
    return { thread: thread.index, release };
  }

  /** Its memory never shrinks, so a thread that holds much is replaced once nothing uses it. */
  #released(thread: Thread): void {
    const works = thread.used > 0 || thread.current !== undefined;
    if (works || thread.bytes <= this.#options.memoryBytes / 2) return;
    this.#replace(thread);
  }
}

function refusal(reason: string): ErrorBody {
  const message = `The answer cannot be held to this structure: ${oneLine(reason, 300)}`;
  return { code: 'invalid_request', message };
}

function slowRefusal(ms: number): ErrorBody {
  const message = `The structure of the answer took longer than ${ms} ms of processor time to compile: try again later or simplify it`;
  return { code: 'too_slow', message };
}

/** Processor time of a thread in ms, in steps of 10; the time of day where the system does not tell. */
function processorMs({ systemId }: Thread): number {
  try {
    const [, fields] = readFileSync(`/proc/self/task/${systemId}/stat`, 'utf8').split(') ') as [
      string,
      string,
    ];
    const [user, system] = fields.split(' ').slice(11, 13).map(Number) as [number, number];
    return 10 * (user + system);
  } catch {
    return clockMs();
  }
}
