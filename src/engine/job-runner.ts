/**
 * Runs the engine process's jobs on its main thread. The tokenizer thread encodes a job's texts, and the job's task
 * prepares its inputs and its result.
 */

import type { BatchFeed } from '../batching/batch-feed.js';
import { clockMs } from '../clock.js';
import { SidaError } from '../errors.js';
import { noCost } from '../inference/job-costs.js';
import type { CompletionDelta, FromEngine, JobRequest, JobResult } from '../protocol/engine-messages.js';
import type { FromInference, JobEnd, ToInference } from '../protocol/thread-messages.js';
import type { TextToEncode } from '../protocol/tokenizer-messages.js';
import { taskOf } from '../tasks/registry.js';
import { checkTexts, type ModelLimits } from '../tasks/shared/prepared-input.js';
import type { JobResults, ModelWork, TokenizerWork } from '../tasks/task.js';
import { DeltaFlow } from './delta-flow.js';
import { type RoutingLimits, routingKOf } from './routing.js';
import type { Encoder } from './tokenizer-link.js';

export interface EngineLimits extends ModelLimits {
  routing: RoutingLimits;
}

interface JobRunnerOptions {
  limits: EngineLimits;
  /** Undefined if the model has no tokenizer. */
  encoder: Encoder | undefined;
  batches: Pick<BatchFeed, 'add' | 'cancel'>;
  toInference: (message: ToInference) => void;
  send: (message: FromEngine) => void;
}

type Tokens = Extract<FromInference, { type: 'tokens' }>['tokens'];

interface StartedJob {
  id: string;
  request: JobRequest;
  /** By the clock of `clockMs`. */
  begin: number;
}

interface RunningJob {
  id: string;
  job: number;
  request: JobRequest;
  /** Number of the job's first item. Its other items follow consecutively. */
  firstItem: number;
  items: number;
  promptTokens: number;
  tokenizeMs: number;
  tokenizedMs: number;
  results: JobResults<JobResult>;
}

export class JobRunner {
  readonly #options: JobRunnerOptions;
  readonly #deltas: DeltaFlow;
  readonly #byId = new Map<string, RunningJob>();
  /** By job: cancels the encoding of its texts. */
  readonly #encoding = new Map<string, () => void>();
  readonly #byNumber = new Map<number, RunningJob>();
  readonly #byItem = new Map<number, RunningJob>();
  #nextJob = 0;
  #nextItem = 0;

  constructor(options: JobRunnerOptions) {
    this.#options = options;
    this.#deltas = new DeltaFlow(options.send);
  }

  get running(): number {
    return this.#byId.size + this.#encoding.size;
  }

  start(id: string, request: JobRequest): void {
    const begin = clockMs();
    this.#orRefuse(id, () => {
      const { engine } = taskOf(request);
      const texts = engine.texts(request, this.#options.limits);
      checkTexts(texts, this.#options.limits);
      this.#encode(id, texts, (ids) => {
        if (engine.runs === 'model') this.#start({ id, request, begin }, engine, ids);
        else this.#finish({ id, request, begin }, engine, ids);
      });
    });
  }

  /** Cancels the job. Nothing more is sent for it. */
  cancel(id: string): void {
    this.#encoding.get(id)?.();
    this.#encoding.delete(id);
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
  #encode(id: string, texts: readonly TextToEncode[], then: (ids: number[][]) => void): void {
    if (texts.length === 0) {
      then([]);
      return;
    }
    // A task asks for texts only if there is a tokenizer.
    this.#encoding.set(id, () => undefined);
    const cancel = this.#options.encoder!.encode(texts, (found) => {
      this.#encoding.delete(id);
      this.#orRefuse(id, () => {
        if (found instanceof SidaError) throw found;
        then(found);
      });
    });
    if (this.#encoding.has(id)) this.#encoding.set(id, cancel);
  }

  #finish(
    { id, request, begin }: StartedJob,
    work: TokenizerWork<JobRequest, JobResult>,
    ids: number[][],
  ): void {
    const { limits, send } = this.#options;
    const own = work.result(request, limits, ids);
    const timing = { tokenizeMs: clockMs() - begin, queueMs: 0, inferenceMs: 0 };
    send({
      type: 'result',
      id,
      result: { kind: request.kind, ...own, experts: noCost(limits.shape.topK), timing },
    });
  }

  #start({ id, request, begin }: StartedJob, work: ModelWork<JobRequest, JobResult>, ids: number[][]): void {
    const { limits, batches } = this.#options;
    const inputs = work.inputs(request, limits, ids);
    const routingK = routingKOf(request.routing, limits.routing);
    if (inputs.length === 0) {
      throw new SidaError({ code: 'invalid_request', message: 'The request has no inputs', param: 'input' });
    }
    const job: RunningJob = {
      id,
      job: this.#nextJob++,
      request,
      firstItem: this.#nextItem,
      items: inputs.length,
      promptTokens: inputs.reduce((sum, { tokens }) => sum + tokens.length, 0),
      tokenizeMs: clockMs() - begin,
      tokenizedMs: clockMs(),
      results: work.results(request, limits),
    };
    this.#nextItem += inputs.length;
    this.#byId.set(id, job);
    this.#byNumber.set(job.job, job);
    inputs.forEach((_, index) => {
      this.#byItem.set(job.firstItem + index, job);
    });
    const items = inputs.map(({ tokens, work }, index) => {
      return {
        item: job.firstItem + index,
        job: job.job,
        jobItems: inputs.length,
        explain: request.explain ?? false,
        routingK,
        work,
        tokens,
      };
    });
    batches.add(items);
  }

  /** Returns the delta that the token adds to the job's stream, or undefined if there is none to send. */
  #onToken(token: Tokens[number]): { id: string; delta: CompletionDelta } | undefined {
    const { item, choice } = token;
    const job = this.#byItem.get(item);
    const delta = job?.results.token?.(item - job.firstItem, token);
    if (job === undefined || delta === undefined) return undefined;
    if (delta.finishReason === 'stop') this.#options.toInference({ type: 'stop', item, choice });
    return job.request.stream ? { id: job.id, delta } : undefined;
  }

  #onDone({ item, scores, beamTokens, end }: Extract<FromInference, { type: 'done' }>): void {
    const job = this.#byItem.get(item);
    if (job === undefined) return;
    if (scores !== undefined) job.results.scores?.(item - job.firstItem, scores);
    if (beamTokens !== undefined) job.results.beamTokens?.(beamTokens);
    if (end === undefined) return;
    this.#deltas.end({ type: 'result', id: job.id, result: result(job, end) });
    this.#forget(job);
  }

  #drop(job: RunningJob): void {
    const { batches, toInference } = this.#options;
    toInference({ type: 'cancel', job: job.job, lastBatch: batches.cancel(job.job) });
    this.#forget(job);
  }

  #forget(job: RunningJob): void {
    this.#byId.delete(job.id);
    this.#byNumber.delete(job.job);
    const { firstItem, items } = job;
    for (let item = firstItem; item < firstItem + items; item++) this.#byItem.delete(item);
  }
}

function result(job: RunningJob, { cost, startedMs, endedMs }: JobEnd): JobResult {
  const { request, promptTokens, tokenizeMs, tokenizedMs, results } = job;
  const timing = { tokenizeMs, queueMs: startedMs - tokenizedMs, inferenceMs: endedMs - startedMs };
  return { kind: request.kind, ...results.finish(), promptTokens, experts: cost, timing };
}
