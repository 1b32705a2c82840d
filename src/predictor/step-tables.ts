/**
 * Hash tables of generations, one per step. The inference thread builds them between two passes, because handing the
 * work to another thread takes longer than building a table.
 */

import { clockMs } from '../clock.js';
import { fillNeed } from '../forecast/expert-need.js';
import type { StepForecaster } from '../forecast/step-forecaster.js';
import { TableWorth } from '../forecast/table-wait.js';
import { createHashTable, type HashTable, TABLE_READY, tableK } from '../protocol/hash-table.js';
import type { DecoderStepper, RoutingShape } from './hash-function.js';
import { copyRows } from './table-rows.js';

interface StepTablesOptions {
  stepper: DecoderStepper;
  shape: RoutingShape;
  onError: (error: unknown) => void;
  /** In milliseconds. */
  clock?: () => number;
}

/** Steps that are charged with the time of beginning their sequence: as many as a short answer has. */
const SPREAD = 64;

/** Least weight of the latest step in the moving average of what tables save. */
const LATEST = 0.1;

const NONE = new Int32Array();

export class StepTables implements StepForecaster {
  readonly #options: StepTablesOptions;
  readonly #clock: () => number;
  readonly #worth: TableWorth;
  /** By sequence: the part of the time of its beginning that no step has been charged with. */
  readonly #sequences = new Map<number, number>();
  #savedMs = 0;
  #savedCount = 0;

  constructor(options: StepTablesOptions) {
    this.#options = options;
    this.#clock = options.clock ?? clockMs;
    this.#worth = new TableWorth(this.#clock);
  }

  get paused(): boolean {
    return this.#worth.paused;
  }

  begin(sequence: number, context: Int32Array, required: boolean, fed = NONE): void {
    if (this.#sequences.has(sequence) || (!required && this.#worth.paused)) return;
    const begin = this.#clock();
    try {
      this.#options.stepper.begin(sequence, context, fed);
    } catch (error) {
      // It may have failed after the first of the fed tokens.
      this.#options.stepper.end(sequence);
      this.#options.onError(error);
      return;
    }
    this.#sequences.set(sequence, this.#clock() - begin);
  }

  fork(from: number, sequence: number): void {
    if (!this.#sequences.has(from)) return;
    try {
      this.#options.stepper.fork(from, sequence);
    } catch (error) {
      this.#options.onError(error);
      return;
    }
    this.#sequences.set(sequence, 0);
  }

  end(sequence: number): void {
    if (this.#sequences.delete(sequence)) this.#options.stepper.end(sequence);
  }

  stepTook(ms: number, saved: number | undefined): void {
    this.#worth.passTook(ms);
    if (saved === undefined) return;
    this.#savedCount += 1;
    this.#savedMs += Math.max(LATEST, 1 / this.#savedCount) * (saved * 1000 - this.#savedMs);
  }

  step(sequences: readonly number[], tokens: readonly number[], routingK: number): HashTable | null {
    const required = routingK > 0;
    if (!required && this.#worth.paused) {
      for (const sequence of sequences) this.end(sequence);
      return null;
    }
    const rows = [...sequences.keys()].filter((row) => this.#sequences.has(sequences[row]!));
    if (rows.length === 0 || (required && rows.length < sequences.length)) return null;
    const begin = this.#clock();
    const table = this.#table(tokens.length);
    const known = rows.length === tokens.length ? table : this.#table(rows.length);
    const ids = Int32Array.from(rows, (row) => sequences[row]!);
    const fed = Int32Array.from(rows, (row) => tokens[row]!);
    if (!this.#step(ids, fed, known)) {
      for (const sequence of ids) this.end(sequence);
      return null;
    }
    if (known !== table) copyRows(known, rows.keys(), table, rows);
    fillNeed(table, required ? routingK : 0);
    table.settle(TABLE_READY);
    const tookMs = this.#clock() - begin + this.#shareOfBegins(ids);
    if (this.#savedCount > 0 && tookMs > this.#savedMs) this.#worth.lost(tookMs);
    else this.#worth.delayedPass(tookMs);
    return table;
  }

  #shareOfBegins(sequences: Int32Array): number {
    let sum = 0;
    for (const sequence of sequences) {
      const left = this.#sequences.get(sequence)!;
      const share = left / SPREAD;
      this.#sequences.set(sequence, left - share);
      sum += share;
    }
    return sum;
  }

  #table(tokens: number): HashTable {
    const { shape } = this.#options;
    return createHashTable({
      batchId: 0,
      layers: shape.stacks.at(-1)!.layers,
      tokens,
      k: tableK(shape),
      expertsPerLayer: shape.experts,
    });
  }

  #step(ids: Int32Array, tokens: Int32Array, table: HashTable): boolean {
    try {
      return this.#options.stepper.step(ids, tokens, table);
    } catch (error) {
      this.#options.onError(error);
      return false;
    }
  }
}
