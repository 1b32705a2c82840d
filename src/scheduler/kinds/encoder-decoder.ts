/**
 * Encoder-decoder models. The prompts of a batch run through the encoder in one pass. Decoder sequences hold a label,
 * or the start token and the generated tokens, and attend to their prompt.
 */

import { clockMs } from '../../clock.js';
import { SidaError } from '../../errors.js';
import { joinSpans, needsOf, tableRows } from '../../forecast/pass-forecast.js';
import { NO_PARENT } from '../../native/addon-types.js';
import { firstMoeLayer } from '../../native/model-shape.js';
import type { HashTable } from '../../protocol/hash-table.js';
import {
  type GenerateWork,
  labelTokens,
  type ScoringPlan,
  type SearchWork,
} from '../../protocol/item-work.js';
import { RunningSearch } from '../beam-search.js';
import { Generation, nextStep } from '../generation.js';
import type { Running, StepAnswer } from '../generations.js';
import type { PassAnswer, PassSequence } from '../pass-batch.js';
import type { Request } from '../request.js';
import { LabelScoring, targetsWithin } from '../scoring.js';
import { StateMean } from '../state-mean.js';
import type { KindOptions, ModelKind } from './model-kind.js';

const ENCODER = 0;
const DECODER = 1;

interface Scored {
  request: Request;
  plan: ScoringPlan;
}

export class EncoderDecoder implements ModelKind {
  readonly #options: KindOptions;
  readonly #decoderFirstLayer: number;

  constructor(options: KindOptions) {
    this.#options = options;
    this.#decoderFirstLayer = firstMoeLayer(options.engine.shape, DECODER);
  }

  /** Each round encodes at most one batch, and then all generations take a step. */
  takesMore(batches: number): boolean {
    return batches === 0;
  }

  start(requests: readonly Request[]): void {
    const labels = labelTable(requests);
    const answers = this.#encode(requests, labels);
    if (answers === null) return;
    const scored: Scored[] = [];
    for (const [at, request] of requests.entries()) {
      const { work } = request;
      if (work.kind === 'score') scored.push({ request, plan: work.plan });
      else if (work.kind === 'embed') this.#embed(request, answers[at]!);
      else if (work.kind === 'search') this.#search(request, work);
      else for (const choice of work.choices.keys()) this.#generate(request, work, choice);
    }
    if (scored.length > 0) this.#score(scored, labels);
  }

  step(): void {
    const { generations } = this.#options;
    // Collected so that a round sends one message.
    const answers: StepAnswer[] = [];
    for (const group of generations.byRouting().values()) this.#stepGroup(group, answers);
    generations.take(answers);
  }

  /** No request gives way: each has all its pages from the start. */
  makeWay(): boolean {
    return false;
  }

  stop(): void {}

  /** Does nothing, because no request waits between two rounds. */
  dropJob(): void {}

  /** `labels` is the table of the labels that follow. */
  #encode(requests: readonly Request[], labels: HashTable | null): PassAnswer[] | null {
    const { batch, routingK } = requests[0]!;
    const [encoder = null] = batch.tables;
    // KV pages may admit only some requests of the batch.
    const table = joinSpans(
      requests.map(({ begin, tokens }) => ({ table: encoder, row: begin, count: tokens.length })),
      routingK,
    );
    const sequences = requests.map(({ job, prompt, tokens, work }): PassSequence => {
      return { job, sequence: prompt, parent: NO_PARENT, tokens, states: work.kind === 'embed' };
    });
    const begin = clockMs();
    const answers = this.#options.passes.run(ENCODER, sequences, {
      own: needsOf(table, 0),
      behind: needsOf(labels, this.#decoderFirstLayer),
      predicted: tableRows(table),
      routingK,
    });
    if (answers !== null) this.#options.tableWait.passTook(clockMs() - begin);
    return answers;
  }

  /** The encoder's states are the embedding. */
  #embed(request: Request, { states }: PassAnswer): void {
    const { running, outcomes } = this.#options;
    try {
      const mean = new StateMean();
      mean.add(states!, request.tokens.length);
      running.partDone(request, { embedding: mean.values() });
    } catch (error) {
      outcomes.failed(request.job, SidaError.from(error));
    }
  }

  #generate(request: Request, work: GenerateWork, choice: number): void {
    const { engine, passes, generations, matchers } = this.#options;
    const generation = new Generation({
      request,
      choice,
      work,
      matcher: work.grammar && matchers.open(work.grammar, request),
      sequence: passes.newId(),
      parent: request.prompt,
      length: 0,
      nextToken: engine.shape.tokens.start!,
      prompt: [engine.shape.tokens.start!],
    });
    generations.begin(generation, request.tokens);
  }

  #search(request: Request, work: SearchWork): void {
    const { engine, passes, generations } = this.#options;
    const search = new RunningSearch({ request, work, shape: engine.shape, newId: () => passes.newId() });
    for (const beam of search.beams) generations.begin(beam, request.tokens);
  }

  #stepGroup(group: readonly Running[], answers: StepAnswer[]): void {
    const { generations, passes } = this.#options;
    const table = generations.stepTable(group);
    const known = {
      own: needsOf(table, this.#decoderFirstLayer),
      behind: [],
      predicted: tableRows(table),
      routingK: group[0]!.request.routingK,
    };
    const begin = clockMs();
    passes.runAll(DECODER, group.map(nextStep), known, (i, { picked: [picked] }) => {
      answers.push({ running: group[i]!, picked: picked! });
    });
    generations.stepTook(clockMs() - begin);
  }

  #score(scored: readonly Scored[], table: HashTable | null): void {
    const { engine, passes, running, outcomes } = this.#options;
    const states = scored.map(({ request, plan }) => {
      return { request, scoring: new LabelScoring(plan), left: plan.inputs.length };
    });
    const labels = states.flatMap((state) =>
      state.scoring.plan.inputs.map((fed) => {
        return {
          state,
          sequence: passes.newId(),
          tokens: fed.tokens,
          ...targetsWithin(fed, 0, fed.tokens.length),
        };
      }),
    );
    const sequences = labels.map(({ state: { request }, sequence, tokens, queries }): PassSequence => {
      return { job: request.job, sequence, parent: request.prompt, tokens, queries };
    });
    const known = {
      own: needsOf(table, this.#decoderFirstLayer),
      behind: [],
      predicted: tableRows(table),
      routingK: scored[0]!.request.routingK,
    };
    passes.runAll(DECODER, sequences, known, (i, { logprobs }) => {
      const { state, targets } = labels[i]!;
      try {
        state.scoring.take(targets, logprobs);
        state.left -= 1;
      } catch (error) {
        outcomes.failed(state.request.job, SidaError.from(error));
      }
    });
    engine.releaseSequences(Int32Array.from(labels, ({ sequence }) => sequence));
    for (const { request, scoring, left } of states)
      if (left === 0) running.partDone(request, { scores: scoring.sums() });
  }
}

/** The rows of the batch's table of labels that describe the labels of these requests. */
function labelTable(requests: readonly Request[]): HashTable | null {
  const { batch, routingK } = requests[0]!;
  const table = batch.tables[DECODER] ?? null;
  const spans = requests.map(({ work, labelBegin }) => ({
    table,
    row: labelBegin,
    count: labelTokens(work),
  }));
  return joinSpans(spans, routingK);
}
