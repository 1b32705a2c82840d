/**
 * All sequences that take one token a pass. Builds the tables of their steps, takes their tokens, and releases them as
 * they end.
 */
import { SidaError } from '../errors.js';
import type { StepForecaster } from '../forecast/step-forecaster.js';
import type { Engine } from '../native/addon-types.js';
import { profiled } from '../profile/thread-events.js';
import type { HashTable } from '../protocol/hash-table.js';
import type { GeneratedToken } from '../protocol/inference-messages.js';
import { type AllowedTokens, settle } from '../structured-output/matchers.js';
import { Beam, type RunningSearch } from './beam-search.js';
import { Generation, type RunningSequence } from './generation.js';
import type { PickedToken } from './pass-batch.js';
import type { Planner } from './passes.js';
import type { Outcomes, Request } from './request.js';
import type { RunningRequests } from './running-requests.js';

interface GenerationsOptions {
  engine: Engine;
  planner: Pick<Planner, 'needsForecast' | 'takeSaved'>;
  /** Null if generations are not predicted. */
  stepTables: StepForecaster | null;
  requests: RunningRequests;
  outcomes: Outcomes;
}

export type Running = Generation | Beam;

/** What a pass picked for a sequence. */
export interface StepAnswer {
  running: Running;
  picked: PickedToken;
}

export class Generations {
  readonly #options: GenerationsOptions;
  /** In the order of the passes. A new beam stands before the beam that it continues. */
  readonly #running = new Set<Running>();
  /** Whether a step ran without a table because forecasts were of no use, or cost too much. */
  #unforecast = false;

  constructor(options: GenerationsOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#running.size;
  }

  /** Requests that they belong to. */
  get requests(): number {
    return new Set([...this.#running].map(({ request }) => request)).size;
  }

  /** `context` holds the tokens that the sequence attends to or continues. */
  begin(running: Running, context: Int32Array): void {
    const { planner, stepTables } = this.#options;
    this.#running.add(running);
    const required = running.request.routingK > 0;
    if (!required && stepTables?.paused) this.#unforecast = true;
    if (required || planner.needsForecast) stepTables?.begin(running.sequence, context, required);
  }

  /**
   * Groups the sequences that may share a pass, by experts per token that tables route; 0 for the model's routers.
   * Generations whose grammar has not answered sit out. `others` share the time that is waited for grammars.
   */
  byRouting(others: readonly (AllowedTokens | undefined)[] = []): Map<number, Running[]> {
    const groups = new Map<number, Running[]>();
    const bound = [...this.#running].map((running) =>
      running instanceof Generation ? running.matcher : undefined,
    );
    settle([...bound, ...others]);
    for (const running of this.#running) {
      if (running instanceof Generation && !running.ready) continue;
      const { routingK } = running.request;
      const group = groups.get(routingK);
      if (group === undefined) groups.set(routingK, [running]);
      else group.push(running);
    }
    return groups;
  }

  /**
   * Builds the hash table of the next step, or returns null if that is not possible. All sequences must have the same
   * routing.
   */
  stepTable(group: readonly RunningSequence[]): HashTable | null {
    if (group.length === 0) return null;
    const { planner, stepTables } = this.#options;
    const sequences = group.map(({ sequence }) => sequence);
    const { routingK } = group[0]!.request;
    if (routingK > 0 || planner.needsForecast) {
      if (routingK === 0 && stepTables?.paused) this.#unforecast = true;
      else if (routingK === 0) this.#resumeForecasts();
      const tokens = group.map(({ nextToken }) => nextToken);
      return profiled('step table', () => stepTables?.step(sequences, tokens, routingK) ?? null);
    }
    for (const sequence of sequences) stepTables?.end(sequence);
    this.#unforecast = true;
    return null;
  }

  /** Begins the forecasts of generations again that have run without them. Beams do not keep their tokens. */
  #resumeForecasts(): void {
    if (!this.#unforecast) return;
    this.#unforecast = false;
    const { engine, stepTables } = this.#options;
    const { stacks, tokens } = engine.shape;
    for (const running of this.#running) {
      if (!(running instanceof Generation) || running.request.routingK > 0) continue;
      const { sequence, length, request, tokens: all } = running;
      if (stacks.length === 1) stepTables?.begin(sequence, all.subarray(0, length), false);
      else {
        // It has been fed the start token, and all that it generated but the last.
        const fed = all.slice(request.tokens.length - 1);
        fed[0] = tokens.start!;
        stepTables?.begin(sequence, request.tokens, false, fed.subarray(0, length));
      }
    }
  }

  stepTook(ms: number): void {
    const { planner, stepTables } = this.#options;
    stepTables?.stepTook(ms, planner.takeSaved('steps'));
  }

  /**
   * Takes the tokens of one round. What has ended releases its sequences. What has failed keeps them until its job is
   * released.
   */
  take(answers: readonly StepAnswer[]): void {
    const tokens: GeneratedToken[] = [];
    const ended: (Generation | RunningSearch)[] = [];
    const searches = new Map<RunningSearch, Map<Beam, PickedToken>>();
    for (const { running, picked } of answers) {
      if (running instanceof Beam) {
        const { search } = running;
        const picks = searches.get(search) ?? new Map<Beam, PickedToken>();
        searches.set(search, picks.set(running, picked));
      } else if (this.#orFailed(running, () => tokens.push(running.take(picked)))) {
        if (running.hasEnded(this.#endTokens)) ended.push(running);
      }
    }
    for (const [search, picks] of searches) {
      // A beam lacks its pick if its pass has failed, and then its job has failed too.
      if (picks.size < search.beams.length || !this.#orFailed(search, () => this.#stepBeams(search, picks)))
        continue;
      if (search.beams.length > 0) continue;
      tokens.push(...search.tokens());
      ended.push(search);
    }
    if (tokens.length > 0) this.#options.outcomes.tokens(tokens);
    for (const each of ended) this.#end(each);
  }

  /** Ends a choice early. Does nothing if the choice has already ended. */
  stop(item: number, choice: number): void {
    for (const running of this.#running) {
      if (running instanceof Generation && running.request.item === item && running.choice === choice) {
        this.#end(running);
      }
    }
  }

  /** The generations whose pages are taken as they grow, the oldest first. */
  growing(): Generation[] {
    const growing = [...this.#running].filter(
      (running): running is Generation => running instanceof Generation && running.request.most !== null,
    );
    return growing.sort((a, b) => a.request.order - b.request.order);
  }

  /** Takes the generation out of the passes. Its tokens stay, and `begin` continues it. */
  suspend(generation: Generation): void {
    this.#running.delete(generation);
    this.#options.stepTables?.end(generation.sequence);
  }

  /** Drops the job's sequences. RunningRequests releases its requests. */
  dropJob(job: number): void {
    for (const running of this.#running) if (running.request.job === job) this.#drop(running);
  }

  get #endTokens(): readonly number[] {
    return this.#options.engine.shape.tokens.end;
  }

  /** Returns false if `run` throws, which fails the job. */
  #orFailed({ request }: { request: Request }, run: () => void): boolean {
    try {
      run();
      return true;
    } catch (error) {
      this.#options.outcomes.failed(request.job, SidaError.from(error));
      return false;
    }
  }

  #stepBeams(search: RunningSearch, picks: ReadonlyMap<Beam, PickedToken>): void {
    const { dropped, forked, kept } = search.step(search.beams.map((beam) => picks.get(beam)!));
    for (const beam of dropped) this.#drop(beam);
    for (const { beam, from } of forked) {
      this.#options.stepTables?.fork(from.sequence, beam.sequence);
      this.#running.add(beam);
    }
    for (const beam of kept) {
      this.#running.delete(beam);
      this.#running.add(beam);
    }
  }

  #end(ended: Generation | RunningSearch): void {
    const { requests } = this.#options;
    if (ended instanceof Generation) {
      const { request, sequence, tokens, length } = ended;
      requests.keep(request, sequence, tokens.subarray(0, length));
      this.#drop(ended);
      requests.partDone(request);
    } else {
      requests.partDone(ended.request, { beamTokens: ended.fed });
    }
  }

  #drop(running: Running): void {
    const { engine, stepTables } = this.#options;
    this.#running.delete(running);
    stepTables?.end(running.sequence);
    engine.releaseSequences(Int32Array.of(running.sequence));
  }
}
