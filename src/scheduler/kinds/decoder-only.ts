/**
 * Decoder-only models. A pass mixes single tokens with chunks of prompts. Running generations go first, so that a
 * long prompt does not delay them; prompts fill the remaining room in order of arrival. Labels and further choices
 * continue the prompt's sequence and share its pages.
 */

import { clockMs } from '../../clock.js';
import { SidaError } from '../../errors.js';
import { cannotRoute, joinSpans, needsOf, type RowSpan, tableRows } from '../../forecast/pass-forecast.js';
import { NO_PARENT } from '../../native/addon-types.js';
import { type HashTable, TABLE_READY } from '../../protocol/hash-table.js';
import type { GenerateWork, ScoringPlan } from '../../protocol/item-work.js';
import { Generation, nextStep, pickAt, SeenTokens } from '../generation.js';
import type { Running, StepAnswer } from '../generations.js';
import type { Request, Sequence } from '../request.js';
import { StateMean } from '../state-mean.js';
import { lastTurn } from '../turns.js';
import type { KindOptions, ModelKind } from './model-kind.js';
import {
  advanced,
  type Chunk,
  chunkSequence,
  fillRoom,
  isReady,
  type Prompt,
  scoringPrompt,
  tokensLeft,
  withPromptLogprobs,
} from './sequence.js';

const STACK = 0;

export class DecoderOnly implements ModelKind {
  readonly #options: KindOptions;
  /** Prompts and labels that have not run completely, in the order in which they will run. */
  #sequences: Sequence[] = [];
  /** Labels whose prompts finished in the current pass. */
  #labels: Sequence[] = [];
  /** Tokens picked in the current round. */
  #answers: StepAnswer[] = [];

  constructor(options: KindOptions) {
    this.#options = options;
  }

  /** Returns true until the started prompts that do not wait for grammars, with their labels, fill the next pass. */
  takesMore(): boolean {
    const ready = this.#sequences.filter(isReady);
    const waiting = ready.reduce((sum, each) => sum + tokensLeft(each) + each.behind, 0);
    return waiting < this.#options.passes.maxBatchTokens;
  }

  start(requests: readonly Request[]): void {
    const { running, outcomes } = this.#options;
    for (const request of requests) {
      const { work, tokens, begin, batch, routingK, suspended } = request;
      const [table = null] = batch.tables;
      if (routingK > 0 && table?.state !== TABLE_READY) {
        outcomes.failed(request.job, cannotRoute());
        continue;
      }
      const { prompt: sequence, begun: fed } = request;
      request.suspended = null;
      const cuts = running.cuts(request);
      const prompt = { request, sequence, parent: NO_PARENT, tokens, fed, cuts, table, row: begin };
      if (suspended !== null) this.#sequences.push({ ...suspended, sequence, fed });
      else if (work.kind === 'generate') this.#sequences.push(this.#generating(prompt, work));
      else if (work.kind === 'score') this.#sequences.push(this.#scoring(prompt, work.plan));
      else if (work.kind === 'embed') this.#sequences.push(this.#embedding(prompt));
      else throw new Error('A decoder-only model got a beam search. This is a bug.');
    }
  }

  makeWay(): boolean {
    const last = lastTurn(this.#growing());
    if (last === undefined || last.ofOwner < 2) return false;
    this.#suspend(last.each);
    return true;
  }

  stop(item: number): void {
    const stops = ({ request }: Sequence) => request.item === item && request.most !== null;
    for (const { request } of this.#sequences.filter(stops)) this.#options.running.partDone(request);
    this.#sequences = this.#sequences.filter((each) => !stops(each));
  }

  step(): void {
    const { generations } = this.#options;
    this.#makeRoom();
    const running = generations.byRouting(
      this.#sequences.flatMap(({ picks }) => picks.map(({ allowed }) => allowed)),
    );
    const routings = new Set([...running.keys(), ...this.#sequences.map(({ request }) => request.routingK)]);
    for (const routingK of routings) this.#stepRouting(running.get(routingK) ?? [], routingK);
    generations.take(this.#answers);
    this.#answers = [];
  }

  dropJob(job: number): void {
    const dropped = this.#sequences.filter(({ request }) => request.job === job);
    this.#sequences = this.#sequences.filter(({ request }) => request.job !== job);
    this.#options.engine.releaseSequences(Int32Array.from(dropped, ({ sequence }) => sequence));
  }

  /** Takes the pages of the next step, for the oldest requests first. Where they are not available, others give way. */
  #makeRoom(): void {
    const { generations, running } = this.#options;
    for (const { request, length } of generations.growing()) {
      while (request.lease !== null && !running.cover(request, length + 1)) {
        this.#suspend(lastTurn(this.#growing())!.each);
      }
    }
  }

  /** Running requests whose pages are taken as they grow. */
  #growing(): Request[] {
    const prompts = this.#sequences.filter(({ request }) => request.most !== null);
    return [...this.#options.generations.growing(), ...prompts].map(({ request }) => request);
  }

  #suspend(request: Request): void {
    const { generations, running, onSuspend } = this.#options;
    const prompt = this.#sequences.find((each) => each.request === request);
    if (prompt !== undefined) {
      this.#sequences = this.#sequences.filter((other) => other !== prompt);
      running.suspend(request, prompt.tokens.subarray(0, prompt.fed));
      request.suspended = prompt;
    } else {
      const generation = generations.growing().find((each) => each.request === request)!;
      const { tokens, length } = generation;
      generations.suspend(generation);
      running.suspend(request, tokens.subarray(0, length));
      request.suspended = this.#continuing(generation, tokens);
    }
    onSuspend(request);
  }

  /** Splits generations that do not fit into one pass. Prompts fill the last of these passes. */
  #stepRouting(generations: readonly Running[], routingK: number): void {
    const { maxBatchTokens } = this.#options.passes;
    for (let begin = 0; begin === 0 || begin < generations.length; begin += maxBatchTokens) {
      const now = generations.slice(begin, begin + maxBatchTokens);
      const last = begin + now.length === generations.length;
      this.#pass(now, last ? fillRoom(this.#sequences, maxBatchTokens - now.length, routingK) : [], routingK);
    }
  }

  #pass(generations: readonly Running[], chunks: readonly Chunk[], routingK: number): void {
    if (generations.length + chunks.length === 0) return;
    const { passes, tableWait, running, outcomes } = this.#options;
    const stepTable = this.#options.generations.stepTable(generations);
    if (routingK > 0 && stepTable === null && generations.length > 0) {
      for (const { request } of generations) outcomes.failed(request.job, cannotRoute());
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
    generations.forEach((each, i) => {
      this.#answers.push({ running: each, picked: answers[i]!.picked[0]! });
    });
    chunks.forEach(({ of, count }, i) => {
      try {
        if (endsPrompt({ of, count })) running.ran(of.request, of.tokens);
        of.take(of.fed, count, answers[generations.length + i]!);
        of.fed += count;
        if (of.cuts?.includes(of.fed)) running.ranToCut(of.request, of.tokens.subarray(0, of.fed));
      } catch (error) {
        outcomes.failed(of.request.job, SidaError.from(error));
      }
    });
    this.#sequences = [...this.#labels, ...this.#sequences.filter((each) => tokensLeft(each) > 0)];
    this.#labels = [];
  }

  /** The forecast of the next pass over prompts; null if no table describes it. */
  #tableBehind(chunks: readonly Chunk[], generations: number, routingK: number): HashTable | null {
    const room = Math.max(0, this.#options.passes.maxBatchTokens - generations);
    const next = fillRoom(advanced(this.#sequences, chunks), room, routingK);
    return joinSpans(next.map(spanOf), routingK);
  }

  #generating(prompt: Prompt, work: GenerateWork): Sequence {
    const { length } = prompt.tokens;
    const { generations, matchers, outcomes } = this.#options;
    const seen = new SeenTokens(work.adjustments, prompt.tokens);
    const bound = work.choices.map(() => work.grammar && matchers.open(work.grammar, prompt.request));
    const sequence: Sequence = {
      ...prompt,
      behind: 0,
      picks: work.choices.map((_, choice) => pickAt({ work, choice, matcher: bound[choice] }, length, seen)),
      queries: () => [],
      take: (_begin, _count, { picked }) => {
        picked.forEach((token, choice) => {
          const generation = this.#generation(prompt, { work, choice, matcher: bound[choice] });
          generations.begin(generation, prompt.tokens);
          this.#answers.push({ running: generation, picked: token });
        });
      },
    };
    if (!work.promptLogprobs) return sequence;
    return withPromptLogprobs(sequence, work.logprobs ?? 0, (tokens) => outcomes.tokens(tokens));
  }

  /** Feeds a generation that gave way what it had, and goes on with its next token. */
  #continuing(generation: Generation, tokens: Int32Array): Sequence {
    const { request } = generation;
    return {
      request,
      sequence: request.prompt,
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
        generation.sequence = request.prompt;
        this.#options.generations.begin(generation, tokens);
        this.#answers.push({ running: generation, picked });
      },
    };
  }

  #embedding(prompt: Prompt): Sequence {
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
        this.#options.running.partDone(prompt.request, { embedding: mean.values() });
      },
    };
  }

  /** Labels of a prompt run before later prompts. */
  #scoring(prompt: Prompt, plan: ScoringPlan): Sequence {
    const { engine, passes, running } = this.#options;
    const { batch, labelBegin } = prompt.request;
    return scoringPrompt({
      plan,
      prompt,
      row: batch.promptTokens + labelBegin,
      newId: () => passes.newId(),
      feed: (labels) => this.#labels.push(...labels),
      release: (sequence) => engine.releaseSequences(Int32Array.of(sequence)),
      done: (request, scores) => running.partDone(request, { scores }),
    });
  }

  /**
   * The generation starts as if the prompt's last token were its latest step. A single choice continues the prompt's
   * own sequence.
   */
  #generation({ request, tokens }: Prompt, own: Pick<Generation, 'work' | 'choice' | 'matcher'>): Generation {
    const alone = own.work.choices.length === 1;
    return new Generation({
      request,
      ...own,
      sequence: alone ? request.prompt : this.#options.passes.newId(),
      parent: alone ? NO_PARENT : request.prompt,
      length: tokens.length - 1,
      nextToken: tokens[tokens.length - 1]!,
      prompt: tokens,
    });
  }
}

function endsPrompt({ of, count }: Chunk): boolean {
  return of.sequence === of.request.prompt && count === tokensLeft(of);
}

function spanOf({ of, count }: Chunk): RowSpan {
  return { table: of.table, row: of.row + of.fed, count };
}
