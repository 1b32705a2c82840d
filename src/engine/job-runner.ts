/**
 * Runs the engine process's jobs on its main thread. The tokenizer thread encodes a job's texts, and the job's task
 * prepares its inputs and its result.
 */

import { clockMs } from '../clock.js';
import type { PrefixCacheMode } from '../config/engine-options.js';
import { SidaError } from '../errors.js';
import type {
  CompletionDelta,
  FromEngine,
  JobRequest,
  JobResult,
  JobTimes,
} from '../protocol/engine-messages.js';
import { noCost } from '../protocol/expert-cost.js';
import type { FromInference, JobEnd, PreparedRequest, ToInference } from '../protocol/inference-messages.js';
import type { GrammarWork, ItemWork } from '../protocol/item-work.js';
import type { Quote } from '../protocol/quote.js';
import type { TextToEncode } from '../protocol/tokenizer-messages.js';
import type { Quoter } from '../quote/quoter.js';
import type { BatchFeed } from '../scheduler/batch.js';
import { dueTime } from '../scheduler/due-time.js';
import type { GrammarPreparer, PreparedGrammar } from '../structured-output/grammar.js';
import { taskOf } from '../tasks/registry.js';
import {
  checkTexts,
  type ModelLimits,
  type PreparedInput,
  requireTexts,
} from '../tasks/shared/prepared-input.js';
import type { DetokenizerWork, JobResults, ModelWork, OwnResult } from '../tasks/task.js';
import { DeltaFlow } from './delta-flow.js';
import { type RoutingLimits, routingKOf } from './routing.js';
import type { Encoder } from './tokenizer-link.js';

export interface EngineLimits extends ModelLimits {
  routing: RoutingLimits;
}

interface JobRunnerOptions {
  limits: EngineLimits;
  prefixCache: PrefixCacheMode;
  /** Undefined if the model has no tokenizer. */
  encoder: Encoder | undefined;
  /** Undefined if the model has no tokenizer. */
  grammars?: GrammarPreparer | undefined;
  batches: Pick<BatchFeed, 'add' | 'cancel'>;
  quoter: Quoter;
  toInference: (message: ToInference) => void;
  send: (message: FromEngine) => void;
}

type Tokens = Extract<FromInference, { type: 'tokens' }>['tokens'];

interface StartedJob {
  id: string;
  request: JobRequest;
  /** By the clock of `clockMs`. */
  begin: number;
  times: JobTimes;
}

interface RunningJob {
  id: string;
  job: number;
  request: JobRequest;
  /** Number of the job's first item. Its other items follow consecutively. */
  firstItem: number;
  items: number;
  promptTokens: number;
  cachedTokens: number;
  tokenizeMs: number;
  tokenizedMs: number;
  firstTokenMs: number | undefined;
  quote: Quote;
  /** Of the grammar that binds its answers, if one does. */
  grammar: PreparedGrammar | undefined;
  results: JobResults<JobResult>;
}

export class JobRunner {
  readonly #options: JobRunnerOptions;
  readonly #deltas: DeltaFlow;
  readonly #byId = new Map<string, RunningJob>();
  /** By job that is being prepared: cancels the encoding of its texts, or the compiling of its grammar. */
  readonly #preparing = new Map<string, () => void>();
  readonly #byNumber = new Map<number, RunningJob>();
  readonly #byItem = new Map<number, RunningJob>();
  #nextJob = 0;
  #nextItem = 0;

  constructor(options: JobRunnerOptions) {
    this.#options = options;
    this.#deltas = new DeltaFlow(options.send);
  }

  get running(): number {
    return this.#byId.size + this.#preparing.size;
  }

  /** Inputs that are not done. */
  get inputs(): number {
    return this.#byItem.size;
  }

  start(id: string, request: JobRequest, times?: JobTimes): void {
    const begin = clockMs();
    const unbound = { arrivedMs: begin, deadlineMs: Number.POSITIVE_INFINITY };
    const started = { id, request, begin, times: times ?? unbound };
    this.#orRefuse(id, () => {
      const { engine } = taskOf(request);
      if (engine.runs === 'detokenizer') {
        this.#decode(started, engine);
        return;
      }
      const texts = engine.texts(request, this.#options.limits);
      checkTexts(texts, this.#options.limits);
      this.#encode(id, texts, (ids) => {
        if (engine.runs === 'model') this.#start(started, engine, ids);
        else this.#finish(started, engine.result(request, this.#options.limits, ids));
      });
    });
  }

  /** What the job would cost if it began now. Refuses texts and routing as a run does; compiles no grammar. */
  async quote(request: JobRequest): Promise<Quote> {
    const begin = clockMs();
    const { limits, encoder, quoter } = this.#options;
    const { engine } = taskOf(request);
    if (engine.runs !== 'model') {
      const message = `There is nothing to quote: a request of the kind "${request.kind}" runs no model`;
      throw new SidaError({ code: 'invalid_request', message });
    }
    const texts = engine.texts(request, limits);
    checkTexts(texts, limits);
    routingKOf(request.routing, limits.routing);
    const ids = await new Promise<Int32Array[]>((resolve, reject) => {
      if (texts.length === 0) resolve([]);
      else encoder!.encode(texts, (found) => (found instanceof SidaError ? reject(found) : resolve(found)));
    });
    return quoter.quote(request.kind, engine.inputs(request, limits, ids), clockMs() - begin);
  }

  /** Cancels the job. Nothing more is sent for it. */
  cancel(id: string): void {
    this.#preparing.get(id)?.();
    this.#preparing.delete(id);
    this.#deltas.drop(id);
    const job = this.#byId.get(id);
    if (job !== undefined) this.#drop(job);
  }

  taken(id: string, deltas: number): void {
    this.#deltas.taken(id, deltas);
  }

  onInference(message: FromInference): void {
    if (message.type === 'tokens') {
      const deltas = message.tokens.map((token) => this.#onToken(token)).filter((d) => d !== undefined);
      this.#deltas.add(deltas);
    } else if (message.type === 'done') {
      this.#onDone(message);
    } else if (message.type === 'job-error') {
      const job = this.#byNumber.get(message.job);
      if (job === undefined) return;
      this.#deltas.end({ type: 'error', id: job.id, error: message.error });
      this.#drop(job);
    }
  }

  #orRefuse(id: string, run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#options.send({ type: 'error', id, error: SidaError.from(error).toBody() });
    }
  }

  /** Calls `then` with the ids of the texts, unless the job is cancelled or refused before. */
  #encode(id: string, texts: readonly TextToEncode[], then: (ids: Int32Array[]) => void): void {
    if (texts.length === 0) {
      then([]);
      return;
    }
    // A task asks for texts only if there is a tokenizer.
    this.#await<Int32Array[]>(id, (done) => this.#options.encoder!.encode(texts, done), then);
  }

  #decode(job: StartedJob, { lists, result }: DetokenizerWork<JobRequest, JobResult>): void {
    requireTexts(this.#options.limits, 'ids');
    this.#await<string[]>(
      job.id,
      (done) => this.#options.encoder!.decode(lists(job.request), done),
      (texts) => this.#finish(job, result(job.request, texts)),
    );
  }

  /** Calls `then` with what `begin` finds, unless the job is cancelled or refused before. `begin` returns a cancel. */
  #await<Found>(
    id: string,
    begin: (done: (found: Found | SidaError) => void) => () => void,
    then: (found: Found) => void,
  ): void {
    // It may be found before `begin` returns.
    this.#preparing.set(id, () => undefined);
    const cancel = begin((found) => {
      this.#preparing.delete(id);
      this.#orRefuse(id, () => {
        if (found instanceof SidaError) throw found;
        then(found);
      });
    });
    if (this.#preparing.has(id)) this.#preparing.set(id, cancel);
  }

  /** Answers a job that needs only the tokenizer. */
  #finish(
    { id, request, begin }: StartedJob,
    own: OwnResult<JobResult> & Pick<JobResult, 'promptTokens'>,
  ): void {
    const { limits, send } = this.#options;
    const timing = { tokenizeMs: clockMs() - begin, queueMs: 0, inferenceMs: 0 };
    send({
      type: 'result',
      id,
      result: { kind: request.kind, ...own, experts: noCost(limits.shape.topK), timing },
    });
  }

  #start(started: StartedJob, work: ModelWork<JobRequest, JobResult>, ids: Int32Array[]): void {
    const { id, request } = started;
    const inputs = work.inputs(request, this.#options.limits, ids);
    if (inputs.length === 0) {
      throw new SidaError({ code: 'invalid_request', message: 'The request has no inputs', param: 'input' });
    }
    this.#prepare(id, request, inputs, (grammar) => this.#run(started, work, inputs, grammar));
  }

  /** Calls `then` with the grammar that binds the inputs, unless the job is cancelled or refused before. */
  #prepare(
    id: string,
    { owner = '' }: JobRequest,
    inputs: readonly PreparedInput[],
    then: (grammar: PreparedGrammar | undefined) => void,
  ): void {
    // All inputs of a job have the same grammar.
    const bound = inputs.map(grammarOf).find((grammar) => grammar !== undefined);
    if (bound === undefined) {
      then(undefined);
      return;
    }
    const { text, param } = bound;
    // Whoever has a grammar has a tokenizer.
    const begin = (done: (found: PreparedGrammar | SidaError) => void) =>
      this.#options.grammars!.prepare({ grammar: text, owner, param }, done);
    this.#await(id, begin, (found) => {
      try {
        then(found);
      } catch (error) {
        found.release();
        throw error;
      }
    });
  }

  #run(
    { id, request, begin, times }: StartedJob,
    { results }: ModelWork<JobRequest, JobResult>,
    inputs: readonly PreparedInput[],
    grammar: PreparedGrammar | undefined,
  ): void {
    const { limits, batches, prefixCache, quoter } = this.#options;
    const routingK = routingKOf(request.routing, limits.routing);
    const number = this.#nextJob++;
    const tokenizeMs = clockMs() - begin;
    const job: RunningJob = {
      id,
      job: number,
      request,
      firstItem: this.#nextItem,
      items: inputs.length,
      promptTokens: inputs.reduce((sum, { tokens }) => sum + tokens.length, 0),
      cachedTokens: 0,
      tokenizeMs,
      tokenizedMs: clockMs(),
      firstTokenMs: undefined,
      quote: quoter.admit(number, request.kind, inputs, tokenizeMs),
      grammar,
      results: results(request, limits, inputs),
    };
    this.#nextItem += inputs.length;
    this.#byId.set(id, job);
    this.#byNumber.set(job.job, job);
    inputs.forEach((_, index) => {
      this.#byItem.set(job.firstItem + index, job);
    });
    const { owner = '', maxSeconds = Number.POSITIVE_INFINITY } = request;
    const { arrivedMs, deadlineMs } = times;
    const leftMs = Math.min(deadlineMs - arrivedMs, maxSeconds * 1000);
    const dueMs = dueTime(arrivedMs, job.quote.aloneSeconds, leftMs);
    const requests = inputs.map(({ tokens, work }, index): PreparedRequest => {
      return {
        item: job.firstItem + index,
        job: job.job,
        jobItems: inputs.length,
        routingK,
        owner,
        dueMs,
        ...(prefixCache !== 'off' && { prefixScope: prefixCache === 'per-key' ? owner : '' }),
        work: onThread(work, grammar),
        tokens,
      };
    });
    batches.add(requests);
  }

  /** Returns the delta that the token adds to the job's stream, or undefined if there is none to send. */
  #onToken(token: Tokens[number]): { id: string; delta: CompletionDelta } | undefined {
    const { item, choice } = token;
    const job = this.#byItem.get(item);
    if (job === undefined) return undefined;
    const first = job.firstTokenMs === undefined;
    if (first && !token.ofPrompt) {
      job.firstTokenMs = clockMs();
      this.#options.quoter.begun(job.job);
    }
    const delta = job.results.token?.(item - job.firstItem, token);
    if (delta === undefined) return undefined;
    if (delta.finishReason === 'stop') this.#options.toInference({ type: 'stop', item, choice });
    if (!job.request.stream) return undefined;
    return { id: job.id, delta: first ? { ...delta, promptTokens: job.promptTokens } : delta };
  }

  #onDone({
    item,
    scores,
    beamTokens,
    cachedTokens = 0,
    embedding,
    end,
  }: Extract<FromInference, { type: 'done' }>): void {
    const job = this.#byItem.get(item);
    if (job === undefined) return;
    this.#byItem.delete(item);
    job.cachedTokens += cachedTokens;
    if (scores !== undefined) job.results.scores?.(item - job.firstItem, scores);
    if (beamTokens !== undefined) job.results.beamTokens?.(beamTokens);
    if (embedding !== undefined) job.results.embedding?.(item - job.firstItem, embedding);
    if (end === undefined) return;
    const answer = result(job, end);
    this.#learn(job, answer, end);
    this.#deltas.end({ type: 'result', id: job.id, result: answer });
    this.#forget(job);
  }

  #learn({ job, tokenizeMs, tokenizedMs, firstTokenMs }: RunningJob, answer: JobResult, end: JobEnd): void {
    const { promptTokens, cachedTokens = 0, completionTokens, experts: cost } = answer;
    const seconds = (end.endedMs - tokenizedMs) / 1000;
    const firstSeconds = firstTokenMs === undefined ? seconds : (firstTokenMs - tokenizedMs) / 1000;
    const outcome = { firstSeconds, seconds, cost, promptTokens, cachedTokens, completionTokens };
    this.#options.quoter.answered(job, outcome, tokenizeMs);
  }

  #drop(job: RunningJob): void {
    const { batches, toInference } = this.#options;
    toInference({ type: 'cancel', job: job.job, lastBatch: batches.cancel(job.job) });
    this.#forget(job);
  }

  #forget(job: RunningJob): void {
    job.grammar?.release();
    this.#options.quoter.dropped(job.job);
    this.#byId.delete(job.id);
    this.#byNumber.delete(job.job);
    const { firstItem, items } = job;
    for (let item = firstItem; item < firstItem + items; item++) this.#byItem.delete(item);
  }
}

function result(job: RunningJob, { cost, startedMs, endedMs }: JobEnd): JobResult {
  const { request, promptTokens, cachedTokens, tokenizeMs, tokenizedMs, firstTokenMs, quote, results } = job;
  const inferenceMs = endedMs - startedMs;
  const timing = {
    tokenizeMs,
    queueMs: startedMs - tokenizedMs,
    // The token reaches this thread a little after it was generated.
    ...(firstTokenMs !== undefined && {
      promptMs: Math.max(0, Math.min(firstTokenMs - startedMs, inferenceMs)),
    }),
    inferenceMs,
  };
  return {
    kind: request.kind,
    ...results.finish(),
    promptTokens,
    ...(cachedTokens > 0 && { cachedTokens }),
    ...(request.quoted && { quote }),
    experts: cost,
    timing,
  };
}

function grammarOf({ work }: PreparedInput): GrammarWork | undefined {
  return work.kind === 'generate' ? work.grammar : undefined;
}

function onThread(work: ItemWork, prepared: PreparedGrammar | undefined): ItemWork {
  if (prepared === undefined || work.kind !== 'generate' || work.grammar === undefined) return work;
  return { ...work, grammar: { ...work.grammar, thread: prepared.thread } };
}
