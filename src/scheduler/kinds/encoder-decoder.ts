/**
 * Encoder-decoder models. The prompts of a batch run through the encoder in one pass. Decoder sequences hold a label,
 * or the start token and the generated tokens, and attend to their prompt.
 */

import { clockMs } from '../../clock.js';
import { SidaError } from '../../errors.js';
import { NO_PARENT } from '../../native/addon-types.js';
import { firstMoeLayer } from '../../native/model-shape.js';
import { tableRows } from '../../predictor/pass-forecast.js';
import { needsOf } from '../../predictor/table-needs.js';
import type { HashTable } from '../../protocol/hash-table.js';
import {
  type GenerateWork,
  labelTokens,
  partsOf,
  type ScoringPlan,
  type SearchWork,
} from '../../protocol/item-work.js';
import { Generation, nextStep } from '../generation.js';
import type { Running, StepAnswer } from '../generations.js';
import type { AdmittedItem, HeldBatch } from '../held-batch.js';
import { LabelScoring, targetsWithin } from '../label-scoring.js';
import type { PassAnswer, PassSequence } from '../pass-batch.js';
import { joinSpans } from '../row-spans.js';
import { type RunningInput, startInput } from '../running-input.js';
import { RunningSearch } from '../running-search.js';
import { StateMean } from '../state-mean.js';
import type { KindOptions, ModelKind } from './model-kind.js';

const ENCODER = 0;
const DECODER = 1;

interface ScoredInput {
  input: RunningInput;
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

  start(items: readonly AdmittedItem[], batch: HeldBatch): void {
    const { passes, inputs } = this.#options;
    const { routingK } = batch.batch;
    const started = items.map((item) => {
      const input = startInput(item, { order: 0, routingK, prompt: passes.newId() });
      inputs.hold(input, partsOf(item.work));
      return { ...item, input };
    });
    const labels = labelTable(items, batch);
    const answers = this.#encode(started, batch, labels);
    if (answers === null) return;
    const scored: ScoredInput[] = [];
    for (const [at, { input, work, tokens }] of started.entries()) {
      if (work.kind === 'score') scored.push({ input, plan: work.plan });
      else if (work.kind === 'embed') this.#embed(input, answers[at]!, tokens.length);
      else if (work.kind === 'search') this.#search(input, work, tokens);
      else for (const choice of work.choices.keys()) this.#generate(input, work, choice, tokens);
    }
    if (scored.length > 0) this.#score(scored, batch, labels);
  }

  step(): void {
    const { generations } = this.#options;
    // Collected so that a round sends one message.
    const answers: StepAnswer[] = [];
    for (const group of generations.byRouting().values()) this.#stepGroup(group, answers);
    generations.take(answers);
  }

  /** An input has all its pages from the start, so that none gives way. */
  readonly suspendedOwners = [];

  resume(): boolean {
    return false;
  }

  makeWay(): boolean {
    return false;
  }

  stop(): void {}

  /** Does nothing, because no input waits between two rounds. */
  dropJob(): void {}

  /** `labels` is the table of the labels that follow. */
  #encode(
    items: readonly (AdmittedItem & { input: RunningInput })[],
    { batch: { routingK }, tables: [encoder = null] }: HeldBatch,
    labels: HashTable | null,
  ): PassAnswer[] | null {
    // KV pages may admit only some inputs of the batch.
    const table = joinSpans(
      items.map(({ begin, tokens }) => ({ table: encoder, row: begin, count: tokens.length })),
      routingK,
    );
    const sequences = items.map(({ input: { job, prompt }, tokens, work }): PassSequence => {
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
  #embed(input: RunningInput, { states }: PassAnswer, tokens: number): void {
    const { inputs, outcomes } = this.#options;
    try {
      const mean = new StateMean();
      mean.add(states!, tokens);
      inputs.partDone(input, { embedding: mean.values() });
    } catch (error) {
      outcomes.failed(input.job, SidaError.from(error));
    }
  }

  #generate(input: RunningInput, work: GenerateWork, choice: number, context: Int32Array): void {
    const { engine, passes, generations, matchers } = this.#options;
    const generation = new Generation({
      input,
      choice,
      work,
      matcher: work.grammar && matchers.open(work.grammar, input),
      sequence: passes.newId(),
      parent: input.prompt,
      length: 0,
      nextToken: engine.shape.tokens.start!,
      prompt: [engine.shape.tokens.start!],
    });
    generations.begin(generation, context);
  }

  #search(input: RunningInput, work: SearchWork, context: Int32Array): void {
    const { engine, passes, generations } = this.#options;
    const search = new RunningSearch({ input, work, shape: engine.shape, newId: () => passes.newId() });
    for (const beam of search.beams) generations.begin(beam, context);
  }

  #stepGroup(group: readonly Running[], answers: StepAnswer[]): void {
    const { generations, passes } = this.#options;
    const table = generations.stepTable(group);
    const known = {
      own: needsOf(table, this.#decoderFirstLayer),
      behind: [],
      predicted: tableRows(table),
      routingK: group[0]!.input.routingK,
    };
    const begin = clockMs();
    passes.runAll(DECODER, group.map(nextStep), known, (i, { picked: [picked] }) => {
      answers.push({ running: group[i]!, picked: picked! });
    });
    generations.stepTook(clockMs() - begin);
  }

  #score(scored: readonly ScoredInput[], { batch }: HeldBatch, table: HashTable | null): void {
    const { engine, passes, inputs, outcomes } = this.#options;
    const states = scored.map(({ input, plan }) => {
      return { input, scoring: new LabelScoring(plan), left: plan.inputs.length };
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
    const sequences = labels.map(({ state: { input }, sequence, tokens, queries }): PassSequence => {
      return { job: input.job, sequence, parent: input.prompt, tokens, queries };
    });
    const known = {
      own: needsOf(table, this.#decoderFirstLayer),
      behind: [],
      predicted: tableRows(table),
      routingK: batch.routingK,
    };
    passes.runAll(DECODER, sequences, known, (i, { logprobs }) => {
      const { state, targets } = labels[i]!;
      try {
        state.scoring.take(targets, logprobs);
        state.left -= 1;
      } catch (error) {
        outcomes.failed(state.input.job, SidaError.from(error));
      }
    });
    engine.releaseSequences(Int32Array.from(labels, ({ sequence }) => sequence));
    for (const { input, scoring, left } of states)
      if (left === 0) inputs.partDone(input, { scores: scoring.sums() });
  }
}

/** The rows of the batch's table of labels that describe the labels of these inputs. */
function labelTable(items: readonly AdmittedItem[], { batch, tables }: HeldBatch): HashTable | null {
  const table = tables[DECODER] ?? null;
  const spans = items.map(({ work, labelBegin }) => ({ table, row: labelBegin, count: labelTokens(work) }));
  return joinSpans(spans, batch.routingK);
}
