/** Which waiting inputs make the next batch: pure functions of what waits. Sequences do not meet: answers never change. */
import { type ExpertSet, newIn, union } from '../predictor/expert-set.js';

export const BATCH_ORDERS = ['arrival', 'overlap'] as const;
export type BatchOrder = (typeof BATCH_ORDERS)[number];

export interface WaitingInput {
  tokens: number;
  /** Experts that tables route its tokens to; 0: the routers do. Equal within a batch. */
  routingK: number;
  /** Experts that its tables name; null: it has none (yet). */
  experts: ExpertSet | null;
  /** Batches that took a younger input and left this one. */
  passedOver: number;
}

export interface BatchLimits {
  /** Tokens of one batch; the oldest input goes even if it alone has more. */
  maxTokens: number;
  /** An input passed over this often goes before any that is chosen for its experts. */
  maxPassedOver: number;
}

/** Numbers of the inputs of the next batch, ascending; `waiting`, the oldest first, is not empty. */
export function byArrival(waiting: readonly WaitingInput[], { maxTokens }: BatchLimits): number[] {
  const batch = new Choice(waiting, maxTokens);
  batch.addInOrder(batch.rest());
  return batch.chosen();
}

/**
 * As `byArrival`, but chosen for few experts: the oldest input, then those passed over too often, by arrival; then,
 * one after the other, whichever brings the least new experts a token, the older on ties; last those without tables,
 * by arrival. Where the oldest has no tables it is `byArrival`. No starvation: every batch takes the oldest, and with a
 * single routingK an input waits for at most maxPassedOver + 2 · (tokens older than it) / maxTokens + 2 batches.
 */
export function byOverlap(waiting: readonly WaitingInput[], limits: BatchLimits): number[] {
  const oldest = waiting[0]!;
  if (oldest.experts === null) return byArrival(waiting, limits);
  const batch = new Choice(waiting, limits.maxTokens);
  const overdue = batch.rest().filter((i) => waiting[i]!.passedOver >= limits.maxPassedOver);
  batch.addInOrder([0, ...overdue.filter((i) => i !== 0)]);
  const named = batch.rest().filter((i) => waiting[i]!.experts !== null);
  for (let next = batch.leastNew(named); next !== undefined; next = batch.leastNew(named)) batch.add(next);
  batch.addInOrder(batch.rest().filter((i) => waiting[i]!.experts === null));
  return batch.chosen();
}

class Choice {
  readonly #waiting: readonly WaitingInput[];
  readonly #maxTokens: number;
  readonly #chosen = new Set<number>();
  #tokens = 0;
  #experts: ExpertSet | undefined;

  constructor(waiting: readonly WaitingInput[], maxTokens: number) {
    this.#waiting = waiting;
    this.#maxTokens = maxTokens;
  }

  chosen(): number[] {
    return [...this.#chosen].sort((a, b) => a - b);
  }

  /** Inputs that may join the oldest one, the oldest first. */
  rest(): number[] {
    const { routingK } = this.#waiting[0]!;
    return [...this.#waiting.keys()].filter(
      (i) => !this.#chosen.has(i) && this.#waiting[i]!.routingK === routingK,
    );
  }

  add(input: number): void {
    const { tokens, experts } = this.#waiting[input]!;
    this.#chosen.add(input);
    this.#tokens += tokens;
    if (experts !== null) this.#experts = this.#experts ? union(this.#experts, experts) : experts;
  }

  /** Up to the first that does not fit: nobody overtakes it. */
  addInOrder(inputs: readonly number[]): void {
    for (const input of inputs) {
      if (!this.#fits(input)) return;
      this.add(input);
    }
  }

  /** Of inputs with experts; undefined when none fits. */
  leastNew(inputs: readonly number[]): number | undefined {
    let best: number | undefined;
    let bestNew = 0;
    for (const input of inputs) {
      if (this.#chosen.has(input) || !this.#fits(input)) continue;
      const { tokens, experts } = this.#waiting[input]!;
      const more = newIn(experts!, this.#experts!);
      // more / tokens < bestNew / bestTokens, in whole numbers.
      if (best !== undefined && more * this.#waiting[best]!.tokens >= bestNew * tokens) continue;
      best = input;
      bestNew = more;
    }
    return best;
  }

  #fits(input: number): boolean {
    return this.#chosen.size === 0 || this.#tokens + this.#waiting[input]!.tokens <= this.#maxTokens;
  }
}
