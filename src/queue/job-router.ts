/** Whether a job that this worker was given had better run on another one, which holds its experts already. */
import type { EngineHandle } from '../engine/engine-handle.js';
import type { ModelInfo, RunRequest } from '../engine/messages.js';
import { CHOICE_DEFAULTS, chooseWorker } from '../placement/choose-worker.js';
import type { JobPassing } from './job-passing.js';
import type { Run } from './job-runs.js';
import { parseRequest } from './ledger-values.js';
import { later } from './persist.js';
import type { PlacementStats } from './placement-stats.js';
import type { WorkerBoard } from './worker-board.js';

export interface RouterOptions {
  engine: EngineHandle;
  model: ModelInfo;
  board: WorkerBoard;
  passing: JobPassing;
  /** Jobs that this worker runs or is about to. */
  load: () => number;
  stats: PlacementStats;
}

/** What naming a job's experts may cost it. */
const NEED_MS = 100;

export class JobRouter {
  readonly #options: RouterOptions;

  constructor(options: RouterOptions) {
    this.#options = options;
  }

  /** True: the run and its lock are another worker's. */
  async passOn(run: Run, entryToken: string): Promise<boolean> {
    const { passing, board, stats } = this.#options;
    const to = await this.#choose(run);
    if (to === undefined) {
      stats.here += 1;
      return false;
    }
    let taken = false;
    try {
      taken = (await passing.pass({ id: run.id, token: run.token, entryToken }, to)) === 'taken';
    } finally {
      if (taken) board.taken(run.id);
      else board.ended(run.id);
    }
    stats[taken ? 'passed' : 'returned'] += 1;
    return taken;
  }

  /** The worker that the job is offered to; undefined: it stays. */
  async #choose({ id, begun, abort: { signal } }: Run): Promise<string | undefined> {
    const { board, engine, model, load } = this.#options;
    // A job that was begun before has waited long enough.
    if (begun.attempt > 1 || board.others.length === 0 || engine.resident === undefined) return undefined;
    // Redis tells of the others while the engine names the experts.
    const [need] = await Promise.all([this.#need(begun.request), board.refresh()]);
    if (need === null || signal.aborted) return undefined;
    const others = board.others;
    const { nowMs } = board;
    const { experts, slot } = model.plan;
    const { resident = new Uint8Array() } = engine;
    const own = { worker: '', experts, resident, load: load(), capacity: Infinity, publishedMs: nowMs };
    // With turn 0 the first of those who are alike: this worker.
    const choice = chooseWorker(need, [{ summary: own }, ...others], {
      ...CHOICE_DEFAULTS,
      nowMs,
      bytesOf: () => slot,
      turn: 0,
    });
    const to = others[(choice?.worker ?? 0) - 1]?.summary.worker;
    // In the same turn: many jobs choose at once, and each counts for the next.
    if (to !== undefined) board.offered(to, id);
    return to;
  }

  /** By the engine's hash-building thread; null: it does not say, or not in time. */
  async #need(text: string): Promise<Float64Array | null> {
    try {
      const request = parseRequest(text);
      if (request.kind === 'tokenize') return null;
      return await Promise.race([this.#ask(request), later(NEED_MS).then(() => null)]);
    } catch {
      // Running it tells what is wrong.
      return null;
    }
  }

  async #ask(request: RunRequest): Promise<Float64Array | null> {
    const reply = await this.#options.engine.control({ kind: 'need', request });
    return reply.kind === 'need' ? reply.need : null;
  }
}
