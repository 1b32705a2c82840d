/** The inputs that have started: each holds its KV pages and the sequence of its prompt until the last of its parts is done. */
import type { Engine } from '../native/addon-types.js';
import type { RunningInput } from './generation.js';
import type { KvPages } from './kv-pages.js';
import type { Outcomes } from './outcomes.js';

export class HeldInputs {
  readonly #engine: Pick<Engine, 'releaseSequences'>;
  readonly #pages: KvPages;
  readonly #outcomes: Outcomes;
  /** Choices of each that are not done; an input that is scored has one part. */
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

  /** One part is done; with the last one the input is. */
  partDone(input: RunningInput, scores?: number[]): void {
    const left = this.#partsLeft.get(input)! - 1;
    this.#partsLeft.set(input, left);
    if (left > 0) return;
    this.#release(input);
    this.#outcomes.done(input.item, input.job, scores);
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
