/**
 * Holds the budget of a model for its operator: as small as a latency target allows, and smaller while the machine runs
 * short of memory. An operator's own change sets the cap, which is never exceeded.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ServeOptions } from '../../config/options.js';
import type { EngineHandle } from '../../engine/engine-handle.js';
import { memoryNow } from '../../machine/free-memory.js';
import type { Logger } from '../../observability/logger.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { formatBytes } from '../../text/bytes.js';
import { PressurePolicy } from './pressure-policy.js';
import { TargetController } from './target-controller.js';
import { TargetWindow } from './target-window.js';

const LOOK_MS = 250;
const PRESSURE_MS = 1_000;
/** Pause after a change that failed. */
const AGAIN_MS = 10_000;
/** As long as no larger budget is tried after one was refused, because other models hold the memory. */
const REFUSED_MS = 60_000;

/** What changes a budget without a request. */
export type Keeper = 'target' | 'pressure';

export interface Kept {
  capBytes: number;
  /** What the budget is below the cap for. */
  by: Keeper | null;
  /** Measured over target in the last window; above 1 the target is missed. Null before the first. */
  ratio: number | null;
  /** Why the target cannot be met; null where it can. */
  unmet: string | null;
}

type Options = Pick<ServeOptions, 'latencyP95' | 'firstTokenP95' | 'tokensPerSecond' | 'memoryPressure'>;
/** Changes the budget. Resolves with the bytes that hold then. */
type Change = (bytes: number, by: Keeper) => Promise<number>;

export class BudgetKeeper {
  readonly window: TargetWindow;
  readonly #pressure: PressurePolicy | undefined;
  #controller: TargetController | undefined;
  /** 0 before the engine was looked at. */
  #cap = 0;
  #held = 0;
  #wanted = 0;
  #last: Promise<unknown> = Promise.resolve();
  #ceiling = Number.POSITIVE_INFINITY;
  #refusedMs = Number.NEGATIVE_INFINITY;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #ratio: number | null = null;
  #by: Keeper | null = null;
  #unmet: string | null = null;

  private constructor(
    { latencyP95, firstTokenP95, tokensPerSecond, memoryPressure }: Options,
    models: number,
  ) {
    const token = tokensPerSecond === undefined ? undefined : 1000 / tokensPerSecond;
    this.window = new TargetWindow({ answer: latencyP95, firstToken: firstTokenP95, token });
    this.#pressure = memoryPressure === 'yield' ? new PressurePolicy(models) : undefined;
  }

  /** Undefined where the options leave the budget as it is. `models`: of the server. */
  static of(options: Options, models: number): BudgetKeeper | undefined {
    const keeper = new BudgetKeeper(options, models);
    return keeper.window.hasTarget || keeper.#pressure !== undefined ? keeper : undefined;
  }

  get kept(): Kept {
    return { capBytes: this.#cap, by: this.#by, ratio: this.#ratio, unmet: this.#unmet };
  }

  /** Runs changes of the budget one after the other, so that the cap of the last one holds. */
  alone<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#last.then(change);
    this.#last = done.catch(() => undefined);
    return done;
  }

  /** An operator has set the budget: it is the cap from now on. */
  setCap(bytes: number): void {
    this.#cap = bytes;
    this.#hold(bytes);
    this.#refusedMs = Number.NEGATIVE_INFINITY;
    this.#ratio = this.#unmet = null;
    this.window.begin(performance.now());
  }

  #hold(bytes: number): void {
    this.#held = this.#wanted = bytes;
    this.#controller = new TargetController(bytes);
  }

  /** Looks at the engine until the signal aborts. */
  async keep(engine: EngineHandle, change: Change, logger: Logger, signal: AbortSignal): Promise<void> {
    let pause = LOOK_MS;
    while (!signal.aborted) {
      await delay(pause, undefined, { signal, ref: false }).catch(() => undefined);
      pause = LOOK_MS;
      const { state, model } = engine;
      if (signal.aborted || state.phase !== 'ready' || model === undefined) continue;
      try {
        await this.alone(() => this.#look(model, change, logger));
      } catch (err) {
        // The engine has crashed, or other models hold what this one wants.
        logger.warn({ err }, 'the budget could not be changed');
        pause = AGAIN_MS;
      }
    }
  }

  async #look({ plan, usage }: ModelInfo, change: Change, logger: Logger): Promise<void> {
    if (this.#cap === 0) this.setCap(usage.budgetBytes);
    const now = performance.now();
    const refused = now - this.#refusedMs < REFUSED_MS ? this.#held : Number.POSITIVE_INFINITY;
    const range = { least: plan.smallest, most: Math.min(this.#cap, plan.resident, refused) };
    if (this.#pressure !== undefined && now - this.#lookedMs >= PRESSURE_MS) {
      this.#lookedMs = now;
      this.#ceiling = this.#pressure.ceiling(memoryNow(), this.#held, range);
    }
    const ratio = this.window.take(now);
    if (ratio !== undefined) {
      this.#ratio = ratio;
      this.#wanted = this.#controller!.next(ratio, { ...range, most: Math.min(range.most, this.#ceiling) });
      this.#tell(this.#controller!.unmet ? this.#reason(plan.resident) : null, logger);
    }
    const budget = Math.min(this.#wanted, this.#ceiling, refused);
    const by = budget < this.#wanted ? 'pressure' : budget < this.#cap ? 'target' : null;
    if (budget !== this.#held) {
      try {
        this.#held = await change(budget, by ?? this.#by ?? 'target');
      } catch (error) {
        this.#refusedMs = now;
        // The controller must not count a budget that was not held. Without a target, the cap stays wanted.
        if (this.window.hasTarget) this.#hold(this.#held);
        throw error;
      }
      this.window.begin(performance.now());
    }
    this.#by = by;
  }

  #reason(resident: number): string {
    if (performance.now() - this.#refusedMs < REFUSED_MS) return 'a larger budget was refused';
    if (this.#ceiling < this.#cap) return 'the machine is short of memory';
    if (this.#cap >= resident) return 'every expert is in memory';
    return `the cap is ${formatBytes(this.#cap)}`;
  }

  #tell(unmet: string | null, logger: Logger): void {
    if (unmet !== this.#unmet) {
      const about = { ratio: this.#ratio, reason: unmet };
      if (unmet === null) logger.info(about, 'the latency target is met');
      else logger.warn(about, 'the latency target cannot be met');
    }
    this.#unmet = unmet;
  }
}
