/** Loads models when requests ask for them, and unloads those that nobody uses, within one budget. */
import { setTimeout as delay } from 'node:timers/promises';
import type { EngineHandle } from '../engine/engine-handle.js';
import { SidaError } from '../errors.js';
import type { JobQueue } from '../queue/job-queue.js';
import type { SharedBudget } from './shared-budget.js';

/** Time between two looks whether a model has become idle. */
const LOOK_MS = 100;

interface Loadable {
  /** Undefined for the only model of a server. */
  name: string | undefined;
  engine: Pick<EngineHandle, 'state' | 'start' | 'unload' | 'onState'>;
  queue: Pick<JobQueue, 'stats'>;
}

/** Requests that wait for the same model, and are let in together. */
interface Turn {
  users: number;
  begun: boolean;
  begins: Promise<void>;
}

export interface Loading {
  /** Milliseconds that an unused model stays loaded. */
  keepAliveMs: number;
  /** Bytes of each model once it is loaded. */
  bytes: Map<string, number>;
  /** Undefined for the only model of a server. */
  sharedBudget: SharedBudget | undefined;
}

export class LoadedModels {
  readonly #models: readonly Loadable[];
  readonly #loading: Loading;
  // Callers have other objects for a model than `#models` has, with the same engine. So the engine is the key.
  readonly #users = new Map<Loadable['engine'], number>();
  readonly #usedAt = new Map<Loadable['engine'], number>();
  /** Milliseconds that a request asked for, in place of `keepAliveMs`. */
  readonly #keptMs = new Map<Loadable['engine'], number>();
  readonly #timer: NodeJS.Timeout;
  /** Turns that have not begun, at most one for each model. */
  readonly #turns = new Map<Loadable['engine'], Turn>();
  /** The last turn. Who waits for memory is not overtaken, so that loaded models do not keep it for ever. */
  #last: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(models: readonly Loadable[], loading: Loading) {
    this.#models = models;
    this.#loading = loading;
    this.#timer = setInterval(() => void this.#unloadUnused(), LOOK_MS);
    this.#timer.unref();
  }

  /**
   * Resolves when the model is loaded, and keeps it loaded until the returned function is called. Rejects with
   * not_ready when it cannot be opened, and with `signal`'s reason when that aborts first.
   */
  async use(model: Loadable, signal: AbortSignal): Promise<() => void> {
    const turn = this.#turns.get(model.engine) ?? this.#newTurn(model);
    turn.users += 1;
    const leave = () => {
      if (!turn.begun) turn.users -= 1;
      else this.#users.set(model.engine, this.#usersOf(model) - 1);
      this.#usedAt.set(model.engine, performance.now());
    };
    try {
      await abortable(turn.begins, signal);
      await abortable(opened(model.engine), signal);
      return leave;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /**
   * Changes how long the model stays loaded when nobody uses it; undefined: as all models. It still makes room for
   * another model.
   */
  keep(model: Loadable, ms: number | undefined): void {
    if (ms === undefined) this.#keptMs.delete(model.engine);
    else this.#keptMs.set(model.engine, ms);
  }

  /** Milliseconds until the model is unloaded if nobody uses it. */
  leftMs(model: Loadable): number {
    const busy = this.#usersOf(model) + model.queue.stats.waiting + model.queue.stats.active > 0;
    return this.#keepMs(model) - (busy ? 0 : performance.now() - this.#lastUse(model));
  }

  #keepMs(model: Loadable): number {
    return this.#keptMs.get(model.engine) ?? this.#loading.keepAliveMs;
  }

  #newTurn(model: Loadable): Turn {
    const turn: Turn = { users: 0, begun: false, begins: this.#last.then(() => this.#begin(model, turn)) };
    this.#turns.set(model.engine, turn);
    // A turn that fails fails its own requests alone.
    this.#last = turn.begins.catch(() => undefined);
    return turn;
  }

  async #begin(model: Loadable, turn: Turn): Promise<void> {
    if (model.engine.state.phase === 'idle' && (await this.#makeRoom(model, turn))) model.engine.start();
    this.#turns.delete(model.engine);
    turn.begun = true;
    this.#users.set(model.engine, this.#usersOf(model) + turn.users);
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
  }

  /**
   * Unloads the models that were used longest ago until `model` fits. Waits for those that are in use. Resolves with
   * false when nobody waits for the model any more.
   */
  async #makeRoom({ name }: Loadable, turn: Turn): Promise<boolean> {
    const { sharedBudget, bytes } = this.#loading;
    while (turn.users > 0) {
      if (sharedBudget === undefined || name === undefined) return true;
      if (sharedBudget.load(name, bytes.get(name)!)) return true;
      const [oldest] = this.#unused().sort((a, b) => this.#lastUse(a) - this.#lastUse(b));
      if (oldest === undefined) await delay(LOOK_MS);
      else await this.#unload(oldest);
    }
    return false;
  }

  async #unloadUnused(): Promise<void> {
    for (const model of this.#models) {
      if (model.queue.stats.waiting + model.queue.stats.active > 0)
        this.#usedAt.set(model.engine, performance.now());
    }
    for (const model of this.#unused()) if (this.leftMs(model) < 0) await this.#unload(model);
  }

  async #unload({ name, engine }: Loadable): Promise<void> {
    await engine.unload?.();
    const { sharedBudget, bytes } = this.#loading;
    // A budget that an operator has changed holds at the next start, too.
    if (sharedBudget !== undefined && name !== undefined) bytes.set(name, sharedBudget.unload(name));
  }

  #unused(): Loadable[] {
    if (this.#closed) return [];
    return this.#models.filter(
      (model) =>
        model.engine.state.phase === 'ready' &&
        this.#usersOf(model) === 0 &&
        model.queue.stats.waiting + model.queue.stats.active === 0,
    );
  }

  #usersOf(model: Loadable): number {
    return this.#users.get(model.engine) ?? 0;
  }

  /** A model that a kept job alone has loaded was never used by a request. */
  #lastUse(model: Loadable): number {
    return this.#usedAt.get(model.engine) ?? performance.now();
  }
}

/** Resolves when the engine is ready. Rejects when it cannot open its model. */
function opened(engine: Loadable['engine']): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = () => {
      const { phase, detail } = engine.state;
      if (phase !== 'ready' && phase !== 'failed' && phase !== 'closed') return;
      off();
      if (phase === 'ready') resolve();
      else
        reject(new SidaError({ code: phase === 'closed' ? 'shutting_down' : 'not_ready', message: detail }));
    };
    const off = engine.onState(look);
    look();
  });
}

function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
