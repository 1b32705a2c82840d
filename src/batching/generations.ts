/** All running generations: builds the tables of their steps, takes their tokens, and releases them as they end. */
import { SidaError } from '../errors.js';
import type { Engine } from '../native/addon-types.js';
import type { StepTables } from '../predictor/step-tables.js';
import { profiled } from '../profile/thread-events.js';
import type { HashTable } from '../protocol/hash-table.js';
import { type Generation, hasEnded, takeToken } from './generation.js';
import type { HeldInputs } from './held-inputs.js';
import type { Outcomes } from './outcomes.js';
import type { PickedToken } from './pass-batch.js';

interface GenerationsOptions {
  engine: Engine;
  /** Whether forecasts are useful, which they are if experts may have to be evicted. */
  planner: { readonly needsForecast: boolean };
  /** Null if generations are not predicted. */
  stepTables: StepTables | null;
  inputs: HeldInputs;
  outcomes: Outcomes;
}

/** The token that a pass picked for a generation. */
export interface StepAnswer {
  generation: Generation;
  picked: PickedToken;
}

export class Generations {
  readonly #options: GenerationsOptions;
  readonly #running = new Set<Generation>();

  constructor(options: GenerationsOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#running.size;
  }

  /** `context` holds the tokens that the sequence attends to or continues. */
  begin(generation: Generation, context: Int32Array): void {
    const { planner, stepTables } = this.#options;
    this.#running.add(generation);
    const required = generation.input.routingK > 0;
    if (required || planner.needsForecast) stepTables?.begin(generation.sequence, context, required);
  }

  /**
   * Groups the generations that may share a pass, by experts per token that tables route; 0 for the model's routers.
   */
  byRouting(): Map<number, Generation[]> {
    const groups = new Map<number, Generation[]>();
    for (const generation of this.#running) {
      const { routingK } = generation.input;
      const group = groups.get(routingK);
      if (group === undefined) groups.set(routingK, [generation]);
      else group.push(generation);
    }
    return groups;
  }

  /**
   * Builds the hash table of the generations' next step, or returns null if that is not possible. All must have the
   * same routing.
   */
  stepTable(generations: readonly Generation[]): HashTable | null {
    const { planner, stepTables } = this.#options;
    const sequences = generations.map(({ sequence }) => sequence);
    const routingK = generations[0]?.input.routingK ?? 0;
    if (generations.length > 0 && (routingK > 0 || planner.needsForecast)) {
      const tokens = generations.map(({ nextToken }) => nextToken);
      return profiled('step table', () => stepTables?.step(sequences, tokens, routingK) ?? null);
    }
    for (const sequence of sequences) stepTables?.end(sequence);
    return null;
  }

  stepTook(ms: number): void {
    this.#options.stepTables?.stepTook(ms);
  }

  /**
   * Takes the tokens of one round. An ended generation releases its sequence. A failed one keeps it until its job is
   * released.
   */
  take(answers: readonly StepAnswer[]): void {
    const { engine, outcomes } = this.#options;
    const ended: Generation[] = [];
    const tokens = answers.flatMap(({ generation, picked }) => {
      try {
        const token = takeToken(generation, picked);
        if (hasEnded(generation, engine.shape.tokens.end)) ended.push(generation);
        return [token];
      } catch (error) {
        outcomes.failed(generation.input.job, SidaError.from(error));
        return [];
      }
    });
    if (tokens.length > 0) outcomes.tokens(tokens);
    for (const generation of ended) this.#end(generation);
  }

  /** Ends a choice early. Does nothing if the choice has already ended. */
  stop(item: number, choice: number): void {
    for (const generation of this.#running) {
      if (generation.input.item === item && generation.choice === choice) this.#end(generation);
    }
  }

  /** Drops the job's generations. HeldInputs releases the job's inputs. */
  dropJob(job: number): void {
    for (const generation of this.#running) if (generation.input.job === job) this.#drop(generation);
  }

  #end(generation: Generation): void {
    this.#drop(generation);
    this.#options.inputs.partDone(generation.input);
  }

  #drop(generation: Generation): void {
    const { engine, stepTables } = this.#options;
    this.#running.delete(generation);
    stepTables?.end(generation.sequence);
    engine.releaseSequences(Int32Array.of(generation.sequence));
  }
}
