/**
 * Decoder-only models. A pass mixes single tokens with chunks of prompts. Running generations go first, so that a
 * long prompt does not delay them; prompts fill the remaining room in order of arrival. Labels and further choices
 * continue the prompt's sequence and share its pages.
 */

import { Generation, nextStep, pickAt, type RunningInput } from '../../batching/generation.js';
import type { Running, StepAnswer } from '../../batching/generations.js';
import type { AdmittedItem, HeldBatch } from '../../batching/held-batch.js';
import { joinSpans, type RowSpan } from '../../batching/row-spans.js';
import { clockMs } from '../../clock.js';
import { SidaError } from '../../errors.js';
import { NO_PARENT } from '../../native/addon-types.js';
import { visitsOf } from '../../predictor/expected-visits.js';
import { cannotRoute, tableRows } from '../../predictor/pass-forecast.js';
import { type HashTable, TABLE_READY } from '../../protocol/hash-table.js';
import type { GenerateWork, ScoringPlan } from '../../protocol/item-work.js';
import { type PromptFeed, scoringFeed } from './continued-labels.js';
import { advanced, type Chunk, chunkSequence, type Feed, fillRoom, tokensLeft } from './feed.js';
import type { KindOptions, ModelKind } from './model-kind.js';

const STACK = 0;

export class DecoderOnly implements ModelKind {
  readonly #options: KindOptions;
  /** Prompts and labels that have not run completely, in the order in which they will run. */
  #feeds: Feed[] = [];
  /** Feeds of labels whose prompts finished in the current pass. */
  #labels: Feed[] = [];
  /** Tokens picked in the current round. */
  #answers: StepAnswer[] = [];

  constructor(options: KindOptions) {
    this.#options = options;
  }

  /** Returns true until the started prompts, with their labels, fill the next pass. */
  takesMore(): boolean {
    const waiting = this.#feeds.reduce((sum, feed) => sum + tokensLeft(feed) + feed.behind, 0);
    return waiting < this.#options.passes.maxBatchTokens;
  }

  start(items: readonly AdmittedItem[], { batch, tables }: HeldBatch): void {
    const { passes, inputs, outcomes } = this.#options;
    const { routingK } = batch;
    const [table = null] = tables;
    for (const { item, job, pages, work, tokens, begin, labelBegin } of items) {
      const input: RunningInput = { item, job, pages, routingK, prompt: passes.newId() };
      inputs.hold(input, work.kind === 'generate' ? work.choices.length : 1);
      if (routingK > 0 && table?.state !== TABLE_READY) {
        outcomes.failed(job, cannotRoute());
        continue;
      }
      const prompt = { input, sequence: input.prompt, parent: NO_PARENT, tokens, fed: 0, table, row: begin };
      if (work.kind === 'generate') this.#feeds.push(this.#generating(prompt, work));
      else if (work.kind === 'score')
        this.#feeds.push(this.#scoring(prompt, work.plan, batch.tokens.length + labelBegin));
      else throw new Error('A decoder-only model got a beam search. This is a bug.');
    }
  }

  step(): void {
    const { generations } = this.#options;
    const running = generations.byRouting();
    const routings = new Set([...running.keys(), ...this.#feeds.map(({ input }) => input.routingK)]);
    for (const routingK of routings) this.#stepRouting(running.get(routingK) ?? [], routingK);
    generations.take(this.#answers);
    this.#answers = [];
  }

  dropJob(job: number): void {
    const dropped = this.#feeds.filter(({ input }) => input.job === job);
    this.#feeds = this.#feeds.filter(({ input }) => input.job !== job);
    this.#options.engine.releaseSequences(Int32Array.from(dropped, ({ sequence }) => sequence));
  }

  /** Splits generations that do not fit into one pass. Prompts fill the last of these passes. */
  #stepRouting(generations: readonly Running[], routingK: number): void {
    const { maxBatchTokens } = this.#options.passes;
    for (let begin = 0; begin === 0 || begin < generations.length; begin += maxBatchTokens) {
      const now = generations.slice(begin, begin + maxBatchTokens);
      const last = begin + now.length === generations.length;
      this.#pass(now, last ? fillRoom(this.#feeds, maxBatchTokens - now.length, routingK) : [], routingK);
    }
  }

  #pass(generations: readonly Running[], chunks: readonly Chunk[], routingK: number): void {
    const { passes, tableWait, outcomes } = this.#options;
    const stepTable = this.#options.generations.stepTable(generations);
    if (routingK > 0 && stepTable === null && generations.length > 0) {
      for (const { input } of generations) outcomes.failed(input.job, cannotRoute());
      if (chunks.length > 0) this.#pass([], chunks, routingK);
      return;
    }
    const spans = [{ table: stepTable, row: 0, count: generations.length }, ...chunks.map(spanOf)];
    const table = joinSpans(
      spans.filter(({ count }) => count > 0),
      routingK,
    );
    const sequences = [...generations.map(nextStep), ...chunks.map(chunkSequence)];
    const rows = sequences.reduce((sum, { tokens }) => sum + tokens.length, 0);
    const begin = clockMs();
    const answers = passes.run(STACK, sequences, {
      own: visitsOf(table, 0),
      behind: visitsOf(this.#tableBehind(chunks, generations.length, routingK), 0),
      predicted: tableRows(table, [...Array(rows).keys()]),
      routingK,
    });
    if (answers === null) return;
    if (chunks.length > 0) tableWait.passTook(clockMs() - begin);
    if (generations.length > 0) this.#options.generations.stepTook(clockMs() - begin);
    generations.forEach((running, i) => {
      this.#answers.push({ running, picked: answers[i]!.picked[0]! });
    });
    chunks.forEach(({ feed, count }, i) => {
      try {
        feed.take(feed.fed, count, answers[generations.length + i]!);
        feed.fed += count;
      } catch (error) {
        outcomes.failed(feed.input.job, SidaError.from(error));
      }
    });
    this.#feeds = [...this.#labels, ...this.#feeds.filter((feed) => tokensLeft(feed) > 0)];
    this.#labels = [];
  }

  /** The forecast of the next pass over prompts; null if no table describes it. */
  #tableBehind(chunks: readonly Chunk[], generations: number, routingK: number): HashTable | null {
    const room = Math.max(0, this.#options.passes.maxBatchTokens - generations);
    const next = fillRoom(advanced(this.#feeds, chunks), room, routingK);
    return joinSpans(next.map(spanOf), routingK);
  }

  #generating(prompt: PromptFeed, work: GenerateWork): Feed {
    const { length } = prompt.tokens;
    return {
      ...prompt,
      behind: 0,
      picks: work.choices.map((_, choice) => pickAt({ work, choice }, length)),
      queries: () => [],
      take: (_begin, _count, { picked }) => {
        picked.forEach((token, choice) => {
          const generation = this.#generation(prompt.input, work, choice, prompt.tokens);
          this.#options.generations.begin(generation, prompt.tokens);
          this.#answers.push({ running: generation, picked: token });
        });
      },
    };
  }

  /** Labels of a prompt run before later prompts. */
  #scoring(prompt: PromptFeed, plan: ScoringPlan, row: number): Feed {
    const { engine, passes, inputs } = this.#options;
    return scoringFeed({
      plan,
      prompt,
      row,
      newId: () => passes.newId(),
      feed: (labels) => this.#labels.push(...labels),
      release: (sequence) => engine.releaseSequences(Int32Array.of(sequence)),
      done: (input, scores) => inputs.partDone(input, { scores }),
    });
  }

  /**
   * The generation starts as if the prompt's last token were its latest step. A single choice continues the prompt's
   * own sequence.
   */
  #generation(
    input: RunningInput,
    work: GenerateWork,
    choice: number,
    tokens: ArrayLike<number>,
  ): Generation {
    const alone = work.choices.length === 1;
    return new Generation({
      input,
      choice,
      work,
      sequence: alone ? input.prompt : this.#options.passes.newId(),
      parent: alone ? NO_PARENT : input.prompt,
      length: tokens.length - 1,
      nextToken: tokens[tokens.length - 1]!,
    });
  }
}

function spanOf({ feed, count }: Chunk): RowSpan {
  return { table: feed.table, row: feed.row + feed.fed, count };
}
