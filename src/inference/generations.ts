/** All running generations: they take their steps together and give back what they held. */
import type { Engine } from '../native/addon-types.js';
import type { HashTable } from '../predictor/hash-table.js';
import { profiled } from '../profile/thread-events.js';
import { clockMs } from './clock.js';
import { visitsOf } from './expected-visits.js';
import { type Foreknowledge, tableRows } from './foreknowledge.js';
import type { Foresight } from './foresight.js';
import { decodeStep, type Generation, type StepOutcome } from './generation.js';
import type { KvPages } from './kv-pages.js';
import type { NativeSteps } from './native-steps.js';
import type { StepTables } from './step-tables.js';

export interface GenerationsOptions {
  engine: Engine;
  steps: NativeSteps;
  foresight: Foresight;
  /** Null: nobody predicts generations. */
  stepTables: StepTables | null;
  pages: KvPages;
  /** Number of the decoder's first MoE layer. */
  decoderFirstLayer: number;
}

export class Generations {
  readonly #options: GenerationsOptions;
  /** By item. */
  readonly #running = new Map<number, Generation>();

  constructor(options: GenerationsOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#running.size;
  }

  /** `context`: its encoder tokens. */
  begin(generation: Generation, context: Int32Array): void {
    const { foresight, stepTables } = this.#options;
    this.#running.set(generation.item, generation);
    const required = generation.routingK > 0;
    if (required || foresight.foresees) stepTables?.begin(generation.sequence, context, required);
  }

  /** One step of each. Those that finished hold nothing any more; those that failed do until their job is released. */
  step(): StepOutcome {
    const { engine, steps, stepTables } = this.#options;
    const outcomes = [...groupByRouting(this.#running.values())].map((running) => {
      const known = this.#foreknow(running);
      const begin = clockMs();
      const outcome = decodeStep(running, steps, engine.shape.eosTokenId, known);
      stepTables?.stepTook(clockMs() - begin);
      return outcome;
    });
    const finished = outcomes.flatMap((outcome) => outcome.finished);
    for (const generation of finished) this.#release(generation);
    return {
      tokens: outcomes.flatMap(({ tokens }) => tokens),
      finished,
      failed: outcomes.flatMap(({ failed }) => failed),
    };
  }

  /** Ends the item's generation before its time; undefined where it has ended. */
  stop(item: number): Generation | undefined {
    const generation = this.#running.get(item);
    if (generation !== undefined) this.#release(generation);
    return generation;
  }

  releaseJob(job: number): void {
    for (const generation of this.#running.values()) if (generation.job === job) this.#release(generation);
  }

  #foreknow(running: readonly Generation[]): Foreknowledge {
    const { routingK } = running[0]!;
    const sequences = running.map(({ sequence }) => sequence);
    const tokens = running.map(({ nextToken }) => nextToken);
    const table = this.#stepTable(sequences, tokens, routingK);
    return {
      own: visitsOf(table, this.#options.decoderFirstLayer),
      behind: [],
      predicted: tableRows(table, [...running.keys()]),
      routingK,
    };
  }

  #stepTable(sequences: number[], tokens: number[], routingK: number): HashTable | null {
    const { foresight, stepTables } = this.#options;
    if (routingK > 0 || foresight.foresees)
      return profiled('step table', () => stepTables?.step(sequences, tokens, routingK) ?? null);
    for (const sequence of sequences) stepTables?.end(sequence);
    return null;
  }

  #release({ item, sequence, context, pages }: Generation): void {
    const { engine, stepTables, pages: kvPages } = this.#options;
    this.#running.delete(item);
    stepTables?.end(sequence);
    engine.releaseSequences(Int32Array.of(sequence));
    engine.releaseContexts(Int32Array.of(context));
    kvPages.release(pages);
  }
}

function groupByRouting(generations: Iterable<Generation>): Iterable<Generation[]> {
  const groups = new Map<number, Generation[]>();
  for (const generation of generations) {
    const group = groups.get(generation.routingK);
    if (group === undefined) groups.set(generation.routingK, [generation]);
    else group.push(generation);
  }
  return groups.values();
}
