/** The inputs that have started. Each holds its KV pages and its prompt's sequence until its last part is done. */
import type { Engine } from '../native/addon-types.js';
import type { ItemResults } from '../protocol/inference-messages.js';
import { growingNeed } from './kv-pages.js';
import type { Outcomes } from './outcomes.js';
import type { PageLeases } from './page-leases.js';
import type { RunningInput } from './running-input.js';

export class HeldInputs {
  readonly #engine: Pick<Engine, 'releaseSequences'>;
  readonly #pages: PageLeases;
  readonly #outcomes: Outcomes;
  /** Unfinished parts of each input: its choices, or 1 if the input is scored or searched. */
  readonly #partsLeft = new Map<RunningInput, number>();
  /** Inputs that hold pages, by owner. */
  readonly #owners = new Map<string, number>();
  /** Since the thread started. The fields are those of ThreadCounters. */
  readonly counts = { preemptions: 0, prefixQueriedTokens: 0, prefixHitTokens: 0 };

  constructor(engine: Pick<Engine, 'releaseSequences'>, pages: PageLeases, outcomes: Outcomes) {
    this.#engine = engine;
    this.#pages = pages;
    this.#outcomes = outcomes;
  }

  get count(): number {
    return this.#partsLeft.size;
  }

  /** Inputs of the owner that hold pages. */
  of(owner: string): number {
    return this.#owners.get(owner) ?? 0;
  }

  /** Whether the input holds pages. */
  runs(input: RunningInput): boolean {
    return this.#partsLeft.has(input);
  }

  hold(input: RunningInput, parts: number): void {
    this.#partsLeft.set(input, parts);
    this.#owners.set(input.owner, this.of(input.owner) + 1);
  }

  /** Begins the sequence of an input that has just started. Returns the tokens that the prefix cache has. */
  start(input: RunningInput): number {
    const { scope, tokens } = input;
    input.cachedTokens = this.begin(input, tokens);
    if (scope !== null) this.counts.prefixQueriedTokens += tokens.length;
    this.counts.prefixHitTokens += input.cachedTokens;
    return input.cachedTokens;
  }

  /** Begins the prompt's sequence with the pages that the prefix cache has. Returns their tokens. */
  begin({ lease, prompt }: RunningInput, tokens: Int32Array): number {
    return lease.node === null ? 0 : this.#pages.cache!.begin(prompt, lease.node, tokens);
  }

  /** The input's own sequence has run `tokens`, and goes on: the prefix cache keeps its pages. */
  ran({ lease, scope, prompt }: RunningInput, tokens: Int32Array): void {
    if (scope !== null) this.#pages.keepRunning(lease, { scope, tokens }, prompt);
  }

  /** The prefix cache keeps the pages of a sequence of the input that ends with `tokens`. */
  keep({ lease, scope, prompt, tokens: own }: RunningInput, sequence: number, tokens: Int32Array): void {
    // A further choice that ended at its first token never ran.
    if (sequence !== prompt && tokens.length === own.length) return;
    if (scope !== null) this.#pages.keepEnded(lease, { scope, tokens }, sequence);
  }

  /** Takes pages for `tokens` tokens of an input that grows. Returns false if they are not available. */
  cover({ lease }: RunningInput, tokens: number): boolean {
    return this.#pages.cover(lease, tokens);
  }

  /** The input gives up its pages. Its sequence has run `tokens`. */
  suspend(input: RunningInput, tokens: Int32Array): void {
    if (tokens.length > 0) this.keep(input, input.prompt, tokens);
    this.#release(input);
    this.counts.preemptions += 1;
  }

  /** Takes pages for a suspended input, whose next tokens are `tokens`. Returns false if they are not available. */
  resume(input: RunningInput, tokens: Int32Array, sequence: number): boolean {
    const { scope, most } = input;
    const node = scope === null ? null : this.#pages.cache!.find(scope, tokens);
    const need = growingNeed(tokens.length, most!, this.#pages.room);
    const lease = this.#pages.lease(need, { node, grows: true });
    if (lease === undefined) return false;
    input.lease = lease;
    input.prompt = sequence;
    this.hold(input, 1);
    return true;
  }

  /** Counts one part as done. The last part releases the input and reports it done. */
  partDone(input: RunningInput, results: ItemResults = {}): void {
    const left = this.#partsLeft.get(input)! - 1;
    this.#partsLeft.set(input, left);
    if (left > 0) return;
    this.#release(input);
    this.done(input, results);
  }

  /** Reports an input done that holds nothing any more. */
  done({ item, job, cachedTokens }: RunningInput, results: ItemResults = {}): void {
    this.#outcomes.done(item, job, { ...results, ...(cachedTokens > 0 && { cachedTokens }) });
  }

  dropJob(job: number): void {
    for (const input of this.#partsLeft.keys()) if (input.job === job) this.#release(input);
  }

  #release(input: RunningInput): void {
    this.#partsLeft.delete(input);
    const others = this.of(input.owner) - 1;
    if (others > 0) this.#owners.set(input.owner, others);
    else this.#owners.delete(input.owner);
    this.#engine.releaseSequences(Int32Array.of(input.prompt));
    this.#pages.end(input.lease);
  }
}
