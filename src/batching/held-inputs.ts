/** The inputs that have started. Each holds its KV pages and its prompt's sequence until its last part is done. */
import type { Engine } from '../native/addon-types.js';
import type { ItemResults } from '../protocol/thread-messages.js';
import type { RunningInput } from './generation.js';
import type { KvPages } from './kv-pages.js';
import type { Outcomes } from './outcomes.js';

export class HeldInputs {
  readonly #engine: Pick<Engine, 'releaseSequences'>;
  readonly #pages: KvPages;
  readonly #outcomes: Outcomes;
  /** Unfinished parts of each input: its choices, or 1 if the input is scored or searched. */
  readonly #partsLeft = new Map<RunningInput, number>();

  constructor(engine: Pick<Engine, 'releaseSequences'>, pages: KvPages, outcomes: Outcomes) {
    this.#engine = engine;
    this.#pages = pages;
    this.#outcomes = outcomes;
  }

  get count(): number {
    return this.#partsLeft.size;
  }

  hold(input: RunningInput, parts: number): void {
    this.#partsLeft.set(input, parts);
  }

  /** Counts one part as done. The last part releases the input and reports it done. */
  partDone(input: RunningInput, results: ItemResults = {}): void {
    const left = this.#partsLeft.get(input)! - 1;
    this.#partsLeft.set(input, left);
    if (left > 0) return;
    this.#release(input);
    this.#outcomes.done(input.item, input.job, results);
  }

  dropJob(job: number): void {
    for (const input of this.#partsLeft.keys()) if (input.job === job) this.#release(input);
  }

  #release(input: RunningInput): void {
    this.#partsLeft.delete(input);
    this.#engine.releaseSequences(Int32Array.of(input.prompt));
    this.#pages.release(input.pages);
  }
}
