/** The batches whose inputs have not all started, and the turns of the keys that sent them. */
import type { HeldBatch } from './held-batch.js';

export class WaitingBatches {
  /** In the order in which they were taken. */
  #batches: HeldBatch[] = [];
  #last = -1;

  add(batch: HeldBatch): void {
    this.#last = batch.batch.id;
    this.#batches.push(batch);
    this.forgetFinished();
  }

  /** Id of the last batch before which all batches have finished, itself included. */
  get lastFinished(): number {
    return (this.#batches[0]?.batch.id ?? this.#last + 1) - 1;
  }

  /** Owners with an input that waits, in order of arrival. */
  get owners(): Set<string> {
    return new Set(this.#batches.flatMap(({ owners }) => [...owners]));
  }

  /** The batch with the owner's oldest input. */
  of(owner: string): HeldBatch | undefined {
    return this.#batches.find((batch) => batch.has(owner));
  }

  drop(job: number): void {
    for (const batch of this.#batches) batch.drop(job);
    this.forgetFinished();
  }

  forgetFinished(): void {
    this.#batches = this.#batches.filter(({ finished }) => !finished);
  }
}

/**
 * The owner whose turn it is: the first of those with the fewest running inputs. An owner with none running thus comes
 * before all others, and since what runs ends, each has its turn.
 */
export function nextOwner(owners: Iterable<string>, running: (owner: string) => number): string | undefined {
  let next: string | undefined;
  for (const owner of owners) if (next === undefined || running(owner) < running(next)) next = owner;
  return next;
}
