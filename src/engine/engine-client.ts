/** The API process's handle of the engine process: starts it, replaces it after a crash, and sends it jobs. */

import { type ChildProcess, fork } from 'node:child_process';
import type { Lock } from '../checkpoint/lock-file.js';
import { holdPack } from '../checkpoint/pack-use.js';
import type { EngineConfig } from '../config/engine-config.js';
import { type ErrorBody, SidaError } from '../errors.js';
import { HEAP_FLAGS } from '../heap-flags.js';
import { hasEncoder } from '../native/model-shape.js';
import type {
  ControlReply,
  ControlRequest,
  EngineCounters,
  FromEngine,
  JobRequest,
  JobResult,
  ModelInfo,
  ToEngine,
} from '../protocol/engine-messages.js';
import type { GrammarFigures } from '../protocol/grammar-messages.js';
import type { TokenizerFigures } from '../protocol/tokenizer-messages.js';
import { warnLines } from '../text/print.js';
import { DeltaTaker } from './delta-taker.js';
import { withoutSecrets } from './engine-environment.js';
import type { EngineHandle, EngineState, RunOptions } from './engine-handle.js';
import { Watchdog } from './watchdog.js';

interface Run {
  resolve: (result: JobResult) => void;
  reject: (error: SidaError) => void;
  taker: DeltaTaker;
}

interface Control {
  resolve: (reply: ControlReply) => void;
  reject: (error: SidaError) => void;
}

/** Delays before consecutive restarts, in milliseconds. The first restart is immediate. */
const RESTART_DELAYS_MS = [0, 250, 500, 1000, 2000, 5000];
/** An engine that has been ready this long resets the count of consecutive restarts. */
const STABLE_MS = 30_000;
/** Longest wait for a closing engine before it is killed, in milliseconds. */
const CLOSE_MS = 2000;

const PROGRESS_TEXT = { convert: 'converting', hash: 'verifying', load: 'loading' } as const;

export class EngineClient implements EngineHandle {
  #config: EngineConfig;
  readonly #listeners = new Set<(state: EngineState) => void>();
  readonly #runs = new Map<string, Run>();
  readonly #controls = new Map<number, Control>();
  readonly #killChild = (): void => void this.#child?.kill('SIGKILL');
  /** It only kills the process. The exit handler rejects the jobs and starts a replacement. */
  readonly #watchdog = new Watchdog(this.#killChild);
  #state: EngineState = { phase: 'starting', detail: 'not started' };
  #model: ModelInfo | undefined;
  #computes: EngineHandle['computes'];
  #counters: EngineCounters | undefined;
  #tokenizer: TokenizerFigures | undefined;
  #grammars: GrammarFigures | undefined;
  #child: ChildProcess | undefined;
  /** Keeps the served pack from being removed, also between a crash and the restart. */
  #hold: Promise<Lock | undefined> | undefined;
  #restarts = 0;
  #startsInARow = 0;
  #readySince = 0;
  #restartTimer: NodeJS.Timeout | undefined;
  #nextControl = 0;
  #closing: Promise<void> | undefined;
  #idle: (() => void) | undefined;
  #unloading: Promise<void> | undefined;

  constructor(config: EngineConfig) {
    this.#config = config;
  }

  get state(): EngineState {
    return this.#state;
  }

  get model(): ModelInfo | undefined {
    return this.#model;
  }

  get computes(): EngineHandle['computes'] {
    return this.#computes;
  }

  get counters(): EngineCounters | undefined {
    return this.#counters;
  }

  get tokenizer(): TokenizerFigures | undefined {
    return this.#tokenizer;
  }

  get grammars(): GrammarFigures | undefined {
    return this.#grammars;
  }

  get restarts(): number {
    return this.#restarts;
  }

  /** Id of the running engine process. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  start(): void {
    if (this.#unloading !== undefined) return void this.#unloading.then(() => this.start());
    if (this.#child !== undefined || this.#closing !== undefined) return;
    process.removeListener('exit', this.#killChild);
    process.once('exit', this.#killChild);
    this.#spawn();
  }

  unload(): Promise<void> {
    if (this.#runs.size > 0 || this.#closing !== undefined) return Promise.resolve();
    this.#unloading ??= this.#unload();
    return this.#unloading;
  }

  async #unload(): Promise<void> {
    const ended = this.#child && this.#endChild(this.#child);
    // From here on, jobs wait for the next start.
    this.#setState({ phase: 'idle', detail: 'not loaded' });
    await ended;
    this.#counters = undefined;
    this.#unloading = undefined;
  }

  run(id: string, request: JobRequest, { signal, onDelta, times }: RunOptions): Promise<JobResult> {
    return new Promise((resolve, reject) => {
      const refusal = this.#refusal();
      if (refusal !== undefined) return reject(refusal);
      if (signal.aborted) return reject(cancelled());
      if (this.#runs.has(id)) throw new Error(`Job ${id} runs already. This is a bug.`);
      const onAbort = (): void => {
        this.#post({ type: 'cancel', id });
        this.#settle(id)?.reject(cancelled());
      };
      signal.addEventListener('abort', onAbort, { once: true });
      const done = (): void => signal.removeEventListener('abort', onAbort);
      this.#runs.set(id, {
        taker: new DeltaTaker(onDelta, (deltas) => this.#post({ type: 'taken', id, deltas })),
        resolve: (result) => {
          done();
          resolve(result);
        },
        reject: (error) => {
          done();
          reject(error);
        },
      });
      this.#post({ type: 'job', id, request, ...(times !== undefined && { times }) });
    });
  }

  control(request: ControlRequest): Promise<ControlReply> {
    return new Promise((resolve, reject) => {
      const refusal = this.#refusal();
      if (refusal !== undefined) return reject(refusal);
      const id = this.#nextControl++;
      const onReply = (reply: ControlReply): void => {
        // Keep the new budget, so that a replacement engine starts with it.
        if (request.kind === 'set-budget') this.#config = { ...this.#config, memoryBudget: request.device };
        resolve(reply);
      };
      this.#controls.set(id, { resolve: onReply, reject });
      this.#post({ type: 'control', id, request });
    });
  }

  onState(listener: (state: EngineState) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  close(drainMs: number): Promise<void> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<void> {
    clearTimeout(this.#restartTimer);
    if (this.#runs.size > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#idle = resolve;
        timer = setTimeout(resolve, drainMs);
      });
      clearTimeout(timer);
    }
    const child = this.#child;
    if (child !== undefined) await this.#endChild(child);
    (await this.#hold)?.release();
    this.#rejectAll({ code: 'shutting_down', message: 'The server is shutting down' });
    process.removeListener('exit', this.#killChild);
    this.#setState({ phase: 'closed', detail: 'closed' });
  }

  async #endChild(child: ChildProcess): Promise<void> {
    const exited = new Promise<void>((resolve) => {
      child.once('exit', () => resolve());
    });
    const kill = setTimeout(() => child.kill('SIGKILL'), CLOSE_MS);
    if (this.#state.phase === 'ready') this.#post({ type: 'close' });
    // Until it is ready, the process reads no messages and holds no state that a kill could damage.
    else child.kill('SIGKILL');
    await exited;
    clearTimeout(kill);
  }

  #refusal(): SidaError | undefined {
    if (this.#closing !== undefined) {
      return new SidaError({ code: 'shutting_down', message: 'The server is shutting down' });
    }
    if (this.#state.phase === 'ready') return undefined;
    return new SidaError({ code: 'not_ready', message: `The engine is not ready: ${this.#state.detail}` });
  }

  #spawn(): void {
    const child = fork(new URL('./engine-main.js', import.meta.url), [JSON.stringify(this.#config)], {
      serialization: 'advanced',
      execArgv: HEAP_FLAGS,
      env: withoutSecrets(process.env),
      // The engine's output goes to stderr: stdout belongs to the command.
      stdio: ['ignore', 2, 2, 'ipc'],
    });
    this.#child = child;
    child.on('message', (message) => this.#onMessage(message as FromEngine));
    child.on('error', (error) => warnLines(`engine process: ${error.message}`));
    child.once('exit', (code, signal) => this.#onExit(signal ?? `code ${code}`));
    if (this.#restarts === 0 || this.#state.phase === 'idle')
      this.#setState({ phase: 'starting', detail: 'starting the engine process' });
  }

  #post(message: ToEngine): void {
    // A message to a process that has just died is lost. The exit handler settles the waiting jobs.
    if (this.#child?.connected) this.#child.send(message, () => {});
  }

  #onMessage(message: FromEngine): void {
    this.#watchdog.heard();
    switch (message.type) {
      case 'progress':
        this.#onProgress(message);
        return;
      case 'ready':
        this.#model = message.model;
        this.#computes = { device: this.#config.device, isa: message.isa };
        this.#config = { ...this.#config, ...sizedBy(message.model), served: servedBy(message) };
        this.#holdPack(message.pack);
        this.#readySince = performance.now();
        this.#watchdog.start();
        this.#setState({ phase: 'ready', detail: `serving ${message.model.name}` });
        return;
      case 'failed':
        this.#setState({ phase: 'failed', detail: message.error.message, error: message.error });
        return;
      case 'deltas':
        for (const { id, delta } of message.deltas) this.#runs.get(id)?.taker.take(delta);
        return;
      case 'result':
        this.#settle(message.id)?.resolve(message.result);
        return;
      case 'error':
        this.#settle(message.id)?.reject(new SidaError(message.error));
        return;
      case 'control-reply':
        this.#settleControl(message.id)?.resolve(message.reply);
        return;
      case 'control-error':
        this.#settleControl(message.id)?.reject(new SidaError(message.error));
        return;
      case 'counters':
        this.#counters = message.counters;
        return;
      case 'alive':
        this.#tokenizer = message.tokenizer ?? undefined;
        this.#grammars = message.grammars ?? undefined;
        return;
    }
  }

  #holdPack(pack: string): void {
    const before = this.#hold;
    this.#hold = holdPack(pack).catch((error: Error) => {
      warnLines(`${pack} is not kept from being removed while the engine restarts: ${error.message}`);
      return undefined;
    });
    // The same pack may have been made again under its name.
    void this.#hold.then(async () => (await before)?.release());
  }

  #onProgress({ phase, done, total }: Extract<FromEngine, { type: 'progress' }>): void {
    const detail = `${PROGRESS_TEXT[phase]} the model`;
    const progress = { phase, done, total };
    // The state stays `restarting` until the restart is complete.
    if (this.#restarts > 0) this.#setState({ phase: 'restarting', detail, progress });
    else this.#setState({ phase: phase === 'load' ? 'loading' : 'converting', detail, progress });
  }

  #onExit(reason: string): void {
    this.#child = undefined;
    this.#watchdog.stop();
    if (this.#closing !== undefined || this.#unloading !== undefined) return;
    const message = `The engine process ended (${reason})`;
    this.#rejectAll({ code: 'engine_crashed', message });
    if (this.#state.phase === 'failed') return;
    if (this.#state.phase === 'ready' && performance.now() - this.#readySince > STABLE_MS)
      this.#startsInARow = 0;
    const delay = RESTART_DELAYS_MS[Math.min(this.#startsInARow, RESTART_DELAYS_MS.length - 1)]!;
    this.#startsInARow += 1;
    this.#restarts += 1;
    this.#setState({ phase: 'restarting', detail: `${message}; starting it again` });
    this.#restartTimer = setTimeout(() => this.#spawn(), delay);
  }

  #settle(id: string): Run | undefined {
    const run = this.#runs.get(id);
    this.#runs.delete(id);
    if (this.#runs.size === 0) this.#idle?.();
    return run;
  }

  #settleControl(id: number): Control | undefined {
    const control = this.#controls.get(id);
    this.#controls.delete(id);
    return control;
  }

  #rejectAll(error: ErrorBody): void {
    for (const id of [...this.#runs.keys()]) this.#settle(id)?.reject(new SidaError(error));
    for (const id of [...this.#controls.keys()]) this.#settleControl(id)?.reject(new SidaError(error));
  }

  #setState(state: EngineState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener(state);
  }
}

/** A replacement engine opens the same pack, so that answers do not change under a running server. */
function servedBy({ pack, model }: Extract<FromEngine, { type: 'ready' }>): EngineConfig['served'] & object {
  const { name, fingerprint, predictor } = model;
  return { pack, name, fingerprint, predictor: predictor.fingerprint };
}

/** A replacement engine has the same sizes, whatever the machine has free by then. */
function sizedBy({ usage, shape, ...model }: ModelInfo): Partial<EngineConfig> {
  return {
    memoryBudget: String(usage.budgetBytes),
    kvTokens: model.kvTokens,
    ...(!hasEncoder(shape) && { context: model.contextTokens }),
  };
}

function cancelled(): SidaError {
  return new SidaError({ code: 'cancelled', message: 'The request was cancelled' });
}
