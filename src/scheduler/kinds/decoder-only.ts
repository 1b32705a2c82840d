/**
 * Decoder-only models. A pass mixes single tokens with chunks of prompts. Running generations go first, so that a
 * long prompt does not delay them; prompts fill the remaining room in order of arrival. Labels and further choices
 * continue the prompt's sequence and share its pages.
 */

import { clockMs } from '../../clock.js';
import { SidaError } from '../../errors.js';
import { NO_PARENT } from '../../native/addon-types.js';
import { cannotRoute, tableRows } from '../../predictor/pass-forecast.js';
import { needsOf } from '../../predictor/table-needs.js';
import { type HashTable, TABLE_READY } from '../../protocol/hash-table.js';
import { type GenerateWork, partsOf, type ScoringPlan } from '../../protocol/item-work.js';
import { Generation, nextStep, pickAt } from '../generation.js';
import type { Running, StepAnswer } from '../generations.js';
import { givingWay } from '../giving-way.js';
import type { AdmittedItem, HeldBatch } from '../held-batch.js';
import { joinSpans, type RowSpan } from '../row-spans.js';
import { type RunningInput, startInput } from '../running-input.js';
import { SeenTokens } from '../seen-tokens.js';
import { StateMean } from '../state-mean.js';
import { type PromptFeed, scoringFeed } from './continued-labels.js';
import { advanced, type Chunk, chunkSequence, type Feed, fillRoom, isReady, tokensLeft } from './feed.js';
import type { KindOptions, ModelKind } from './model-kind.js';
import { withPromptLogprobs } from './prompt-logprobs.js';
import { SuspendedFeeds } from './suspended-feeds.js';

const STACK = 0;

export class DecoderOnly implements ModelKind {
  readonly #options: KindOptions;
  /** Prompts and labels that have not run completely, in the order in which they will run. */
  #feeds: Feed[] = [];
  /** Feeds of labels whose prompts finished in the current pass. */
  #labels: Feed[] = [];
  /** Inputs that gave way to others. */
  readonly #suspended = new SuspendedFeeds();
  #started = 0;
  /** Tokens picked in the current round. */
  #answers: StepAnswer[] = [];

  constructor(options: KindOptions) {
    this.#options = options;
  }

  /** Returns true until the started prompts that do not wait for grammars, with their labels, fill the next pass. */
  takesMore(): boolean {
    const feeds = this.#feeds.filter(isReady);
    const waiting = feeds.reduce((sum, feed) => sum + tokensLeft(feed) + feed.behind, 0);
    return waiting < this.#options.passes.maxBatchTokens;
  }

  start(items: readonly AdmittedItem[], { batch, tables }: HeldBatch): void {
    const { passes, inputs, outcomes } = this.#options;
    const { routingK } = batch;
    const [table = null] = tables;
    for (const item of items) {
      const { work, tokens, begin, labelBegin } = item;
      const input = startInput(item, {
        order: this.#started++,
        routingK,
        prompt: passes.newId(),
      });
      inputs.hold(input, partsOf(work));
      if (routingK > 0 && table?.state !== TABLE_READY) {
        outcomes.failed(item.job, cannotRoute());
        continue;
      }
      const fed = inputs.start(input);
      const feed = { input, sequence: input.prompt, parent: NO_PARENT, tokens, fed, table, row: begin };
      if (work.kind === 'generate') this.#feeds.push(this.#generating(feed, work));
      else if (work.kind === 'score')
        this.#feeds.push(this.#scoring(feed, work.plan, batch.tokens.length + labelBegin));
      else if (work.kind === 'embed') this.#feeds.push(this.#embedding(feed));
      else throw new Error('A decoder-only model got a beam search. This is a bug.');
    }
  }

  get suspendedOwners(): Iterable<string> {
    return this.#suspended.owners;
  }

  resume(owner: string): boolean {
    const { passes, inputs } = this.#options;
    const resumes = ({ input, tokens }: Feed) => inputs.resume(input, tokens, passes.newId());
    const feed = this.#suspended.take(owner, resumes);
    if (feed === undefined) return false;
    this.#feeds.push({ ...feed, sequence: feed.input.prompt, fed: inputs.begin(feed.input, feed.tokens) });
    return true;
  }

  makeWay(): boolean {
    const way = givingWay(this.#growing());
    if (way === undefined || way.ofOwner < 2) return false;
    this.#suspend(way.input);
    return true;
  }

  stop(item: number): void {
    const { inputs } = this.#options;
    const stops = ({ input }: Feed) => input.item === item && input.lease.grows;
    for (const { input } of this.#suspended.drop((input) => input.item === item)) inputs.done(input);
    for (const { input } of this.#feeds.filter(stops)) inputs.partDone(input);
    this.#feeds = this.#feeds.filter((feed) => !stops(feed));
  }

  step(): void {
    const { generations } = this.#options;
    this.#makeRoom();
    const running = generations.byRouting(
      this.#feeds.flatMap(({ picks }) => picks.map(({ allowed }) => allowed)),
    );
    const routings = new Set([...running.keys(), ...this.#feeds.map(({ input }) => input.routingK)]);
    for (const routingK of routings) this.#stepRouting(running.get(routingK) ?? [], routingK);
    generations.take(this.#answers);
    this.#answers = [];
  }

  dropJob(job: number): void {
    this.#suspended.drop((input) => input.job === job);
    const dropped = this.#feeds.filter(({ input }) => input.job === job);
    this.#feeds = this.#feeds.filter(({ input }) => input.job !== job);
    this.#options.engine.releaseSequences(Int32Array.from(dropped, ({ sequence }) => sequence));
  }

  /** Takes the pages of the next step, for the oldest inputs first. Where they are not available, others give way. */
  #makeRoom(): void {
    const { generations, inputs } = this.#options;
    for (const { input, length } of generations.growing()) {
      while (inputs.runs(input) && !inputs.cover(input, length + 1)) {
        this.#suspend(givingWay(this.#growing())!.input);
      }
    }
  }

  /** Running inputs whose pages are taken as they grow. */
  #growing(): RunningInput[] {
    const prompts = this.#feeds.filter(({ input }) => input.lease.grows);
    return [...this.#options.generations.growing(), ...prompts].map(({ input }) => input);
  }

  #suspend(input: RunningInput): void {
    const feed = this.#feeds.find((each) => each.input === input);
    if (feed !== undefined) this.#suspendFeed(feed);
    else this.#suspendGeneration(this.#options.generations.growing().find((each) => each.input === input)!);
  }

  #suspendFeed(feed: Feed): void {
    this.#feeds = this.#feeds.filter((other) => other !== feed);
    this.#options.inputs.suspend(feed.input, feed.tokens.subarray(0, feed.fed));
    this.#suspended.add(feed);
  }

  #suspendGeneration(generation: Generation): void {
    const { generations, inputs } = this.#options;
    const { input, tokens, length } = generation;
    generations.suspend(generation);
    inputs.suspend(input, tokens.subarray(0, length));
    this.#suspended.add(this.#continuing(generation, tokens));
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
    if (generations.length + chunks.length === 0) return;
    const { passes, tableWait, inputs, outcomes } = this.#options;
    const stepTable = this.#options.generations.stepTable(generations);
    if (routingK > 0 && stepTable === null && generations.length > 0) {
      for (const { input } of generations) outcomes.failed(input.job, cannotRoute());
      if (chunks.length > 0) this.#pass([], chunks, routingK);
      return;
    }
    const spans = [{ table: stepTable, row: 0, count: generations.length }, ...chunks.map(spanOf)];
    const table = joinSpans(spans, routingK);
    const sequences = [...generations.map(nextStep), ...chunks.map(chunkSequence)];
    const begin = clockMs();
    const answers = passes.run(STACK, sequences, {
      own: needsOf(table, 0),
      behind: needsOf(this.#tableBehind(chunks, generations.length, routingK), 0),
      predicted: tableRows(table),
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
        if (endsPrompt({ feed, count })) inputs.ran(feed.input, feed.tokens);
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
    const { matchers } = this.#options;
    const seen = new SeenTokens(work.adjustments, prompt.tokens);
    const bound = work.choices.map(() => work.grammar && matchers.open(work.grammar, prompt.input));
    const feed: Feed = {
      ...prompt,
      behind: 0,
      picks: work.choices.map((_, choice) => pickAt({ work, choice, matcher: bound[choice] }, length, seen)),
      queries: () => [],
      take: (_begin, _count, { picked }) => {
        picked.forEach((token, choice) => {
          const own = { work, choice, matcher: bound[choice] };
          const generation = this.#generation(prompt.input, own, prompt.tokens);
          this.#options.generations.begin(generation, prompt.tokens);
          this.#answers.push({ running: generation, picked: token });
        });
      },
    };
    if (!work.promptLogprobs) return feed;
    return withPromptLogprobs(feed, work.logprobs ?? 0, (tokens) => this.#options.outcomes.tokens(tokens));
  }

  /** Feeds a generation that gave way what it had, and goes on with its next token. */
  #continuing(generation: Generation, tokens: Int32Array): Feed {
    const { input } = generation;
    return {
      input,
      sequence: input.prompt,
      parent: NO_PARENT,
      tokens,
      fed: 0,
      behind: 0,
      table: null,
      row: 0,
      picks: [generation.pick()],
      queries: () => [],
      take: (_begin, _count, { picked: [picked] }) => {
        if (picked === undefined) return;
        generation.sequence = input.prompt;
        this.#options.generations.begin(generation, tokens);
        this.#answers.push({ running: generation, picked });
      },
    };
  }

  #embedding(prompt: PromptFeed): Feed {
    const mean = new StateMean();
    return {
      ...prompt,
      behind: 0,
      picks: [],
      states: true,
      queries: () => [],
      take: (begin, count, { states }) => {
        mean.add(states!, count);
        if (begin + count < prompt.tokens.length) return;
        this.#options.inputs.partDone(prompt.input, { embedding: mean.values() });
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
    own: Pick<Generation, 'work' | 'choice' | 'matcher'>,
    tokens: ArrayLike<number>,
  ): Generation {
    const alone = own.work.choices.length === 1;
    return new Generation({
      input,
      ...own,
      sequence: alone ? input.prompt : this.#options.passes.newId(),
      parent: alone ? NO_PARENT : input.prompt,
      length: tokens.length - 1,
      nextToken: tokens[tokens.length - 1]!,
      prompt: tokens,
    });
  }
}

function endsPrompt({ feed, count }: Chunk): boolean {
  return feed.sequence === feed.input.prompt && count === tokensLeft(feed);
}

function spanOf({ feed, count }: Chunk): RowSpan {
  return { table: feed.table, row: feed.row + feed.fed, count };
}
