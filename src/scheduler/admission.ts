/** Decides which inputs start: takes batches from the queue, and gives each owner its turn at the KV pages. */

import type { OpenTables } from '../predictor/table-needs.js';
import type { QueueConsumer } from '../protocol/hash-table-queue.js';
import type { QueuedBatch } from '../protocol/inference-messages.js';
import { type AdmittedItem, HeldBatch, ownerOf } from './held-batch.js';
import type { HeldInputs } from './held-inputs.js';
import type { ModelKind } from './kinds/model-kind.js';
import type { PageLeases } from './page-leases.js';
import { nextOwner, WaitingBatches } from './waiting-batches.js';

interface AdmissionOptions {
  queue: QueueConsumer<QueuedBatch>;
  pages: PageLeases;
  inputs: HeldInputs;
  kind: ModelKind;
  encoderDecoder: boolean;
  /** Called for each batch that is taken. Returns its tables. */
  onTaken: (queued: QueuedBatch) => OpenTables;
  /** Starts inputs that have their pages. */
  onStart: (items: readonly AdmittedItem[], batch: HeldBatch) => void;
}

export class InputAdmission {
  readonly #options: AdmissionOptions;
  readonly #waiting = new WaitingBatches();
  /** Jobs whose items are skipped, and the last batch that may hold any of them. */
  readonly #dropped = new Map<number, number>();

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /**
   * Inputs that gave way go on, and others start, owner by owner in turn, until one lacks pages. Returns the number of
   * starts.
   */
  startInputs(): number {
    const { kind, inputs, pages, queue } = this.#options;
    let starts = 0;
    let blocked = false;
    while (!blocked) {
      const suspended = new Set(kind.suspendedOwners);
      const owners = new Set([...suspended, ...this.#waiting.owners]);
      const owner = nextOwner(owners, (each) => inputs.of(each));
      if (owner !== undefined && suspended.has(owner)) {
        if (!kind.resume(owner)) blocked = !this.#makesWay(owner, owners);
      } else if (!kind.takesMore(starts)) break;
      else if (owner === undefined) {
        if (!this.#takeBatch()) break;
      } else if (this.#start(owner, owners.size === 1)) starts += 1;
      else blocked = !this.#makesWay(owner, owners);
    }
    if (blocked && inputs.count === 0) {
      throw new Error(
        `An input waits for KV pages, ${pages.free} of ${pages.total} are free and nothing runs. This is a bug.`,
      );
    }
    queue.blocked = blocked;
    return starts;
  }

  /** Skips the items of a job in all batches up to `lastBatch`, also in those that are not taken yet. */
  drop(job: number, lastBatch: number): void {
    this.#waiting.drop(job);
    if (lastBatch > this.#waiting.lastFinished) this.#dropped.set(job, lastBatch);
    else this.#dropped.delete(job);
  }

  /**
   * For an owner that lacks pages. If nothing of this owner runs, an owner with several running inputs gives one up.
   * Otherwise batches of owners that are not known here may have their turn before it. Returns false if nothing helps.
   */
  #makesWay(owner: string, owners: ReadonlySet<string>): boolean {
    const { inputs, kind, queue, encoderDecoder } = this.#options;
    if (inputs.of(owner) === 0 && kind.makeWay()) return true;
    if (encoderDecoder) return false;
    const isNew = ({ batch }: QueuedBatch) => batch.items.some((item) => !owners.has(ownerOf(item)));
    return queue.waiting().some(isNew) && this.#takeBatch();
  }

  /** Starts inputs of the owner, one if other owners wait too. Returns false if its pages are not available. */
  #start(owner: string, alone: boolean): boolean {
    const held = this.#waiting.of(owner)!;
    const items = held.admit(this.#options.pages, owner, alone ? undefined : 1);
    if (items.length === 0) return false;
    this.#options.onStart(items, held);
    this.#forgetFinished();
    return true;
  }

  /** Returns false if no batch waits in the queue. */
  #takeBatch(): boolean {
    const queued = this.#options.queue.tryTake();
    if (queued === undefined) return false;
    const tables = this.#options.onTaken(queued);
    // A round of an encoder-decoder model encodes the inputs of a batch together, whoever sent them.
    const held = new HeldBatch(queued.batch, tables, !this.#options.encoderDecoder);
    for (const job of this.#dropped.keys()) held.drop(job);
    this.#waiting.add(held);
    this.#forgetFinished();
    return true;
  }

  #forgetFinished(): void {
    this.#waiting.forgetFinished();
    const last = this.#waiting.lastFinished;
    for (const [job, lastBatch] of this.#dropped) if (lastBatch <= last) this.#dropped.delete(job);
  }
}
