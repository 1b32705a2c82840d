/** The requests that run. Each holds its KV pages and its prompt's sequence until its last part is done. */
import type { Engine } from '../native/addon-types.js';
import type { ItemResults } from '../protocol/inference-messages.js';
import { partsOf } from '../protocol/item-work.js';
import { growingNeed, pageNeed } from './page-need.js';
import type { PageLeases } from './pages.js';
import type { Outcomes, Request } from './request.js';

interface RunningOptions {
  engine: Pick<Engine, 'releaseSequences'>;
  pages: PageLeases;
  outcomes: Outcomes;
  newId: () => number;
}

export class RunningRequests {
  readonly #options: RunningOptions;
  readonly #requests = new Set<Request>();
  /** Requests that run, by owner. */
  readonly #owners = new Map<string, number>();
  /** Since the thread started. The fields are those of ThreadCounters. */
  readonly counts = { preemptions: 0, prefixQueriedTokens: 0, prefixHitTokens: 0 };

  constructor(options: RunningOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#requests.size;
  }

  /** Requests of the owner that run. */
  of(owner: string): number {
    return this.#owners.get(owner) ?? 0;
  }

  get keepsPrefixes(): boolean {
    return this.#options.pages.cache !== null;
  }

  /** For an error: free pages of all pages. */
  get freePages(): string {
    const { free, total } = this.#options.pages;
    return `${free} of ${total}`;
  }

  /**
   * Takes the pages with which the request starts, or goes on, and begins its sequence with those that the prefix cache
   * has. Returns false if they are not available.
   */
  start(request: Request): boolean {
    const { pages, newId } = this.#options;
    const { scope, most, work } = request;
    const { tokens } = request.suspended ?? request;
    const prompt = newId();
    const prefix = scope === null ? null : pages.cache!.find(scope, tokens);
    let begun = 0;
    const begin = () => {
      if (prefix !== null) begun = pages.cache!.begin(prompt, prefix, tokens);
    };
    const need =
      most === null
        ? pageNeed(tokens.length, work, pages.room)
        : growingNeed(tokens.length, most, pages.room);
    const lease = pages.lease(need, { node: prefix?.node ?? null, grows: most !== null, begin });
    if (lease === undefined) return false;
    Object.assign(request, { lease, prompt, begun, partsLeft: partsOf(work) });
    if (request.suspended === null) this.#countCached(request);
    this.#requests.add(request);
    this.#owners.set(request.owner, this.of(request.owner) + 1);
    return true;
  }

  /** Where passes over the prompt end, so that its states can be kept. Empty if none can. */
  cuts({ scope, tokens, begun, work }: Request): number[] {
    const { cache, freeStates } = this.#options.pages;
    if (scope === null || freeStates === 0) return [];
    return cache!.cuts(scope, tokens, begun, work.kind === 'generate');
  }

  /** The prompt has run `tokens`, up to one of its cuts. */
  ranToCut({ lease, scope, prompt }: Request, tokens: Int32Array): void {
    this.#options.pages.keepState(lease!, { scope: scope!, tokens }, prompt);
  }

  /** The request's own sequence has run `tokens`, and goes on: the prefix cache keeps its pages. */
  ran({ lease, scope, prompt }: Request, tokens: Int32Array): void {
    if (scope !== null) this.#options.pages.keepRunning(lease!, { scope, tokens }, prompt);
  }

  /** The prefix cache keeps the pages of a sequence of the request that ends with `tokens`. */
  keep({ lease, scope, prompt, tokens: own }: Request, sequence: number, tokens: Int32Array): void {
    // A further choice that ended at its first token never ran.
    if (sequence !== prompt && tokens.length === own.length) return;
    if (scope !== null) this.#options.pages.keepEnded(lease!, { scope, tokens }, sequence);
  }

  /** Takes pages for `tokens` tokens of a request that grows. Returns false if they are not available. */
  cover({ lease }: Request, tokens: number): boolean {
    return this.#options.pages.cover(lease!, tokens);
  }

  /** The request gives up its pages. Its sequence has run `tokens`. */
  suspend(request: Request, tokens: Int32Array): void {
    if (tokens.length > 0) this.keep(request, request.prompt, tokens);
    this.#release(request);
    this.counts.preemptions += 1;
  }

  /** Counts one part as done. The last part releases the request and reports it done. */
  partDone(request: Request, results: ItemResults = {}): void {
    request.partsLeft -= 1;
    if (request.partsLeft > 0) return;
    this.#release(request);
    this.done(request, results);
  }

  /** Reports a request done that holds nothing any more. */
  done({ item, job, cachedTokens }: Request, results: ItemResults = {}): void {
    this.#options.outcomes.done(item, job, { ...results, ...(cachedTokens > 0 && { cachedTokens }) });
  }

  dropJob(job: number): void {
    for (const request of this.#requests) if (request.job === job) this.#release(request);
  }

  #countCached(request: Request): void {
    const { scope, tokens, begun } = request;
    request.cachedTokens = begun;
    if (scope !== null) this.counts.prefixQueriedTokens += tokens.length;
    this.counts.prefixHitTokens += begun;
  }

  #release(request: Request): void {
    this.#requests.delete(request);
    const others = this.of(request.owner) - 1;
    if (others > 0) this.#owners.set(request.owner, others);
    else this.#owners.delete(request.owner);
    this.#options.engine.releaseSequences(Int32Array.of(request.prompt));
    this.#options.pages.end(request.lease!);
    request.lease = null;
  }
}
