/** The engine process's jobs, from request to result, on its main thread. */

import type { BatchFeed } from '../batching/batch-feed.js';
import { softmax } from '../batching/softmax.js';
import { clockMs } from '../clock.js';
import { SidaError } from '../errors.js';
import { noCost } from '../inference/job-costs.js';
import { profiled } from '../profile/thread-events.js';
import type {
  Classification,
  CompletionDelta,
  FromEngine,
  JobRequest,
  JobResult,
  RunRequest,
} from '../protocol/engine-messages.js';
import type { FromInference, JobEnd, ToInference } from '../protocol/thread-messages.js';
import { Completion } from './completion.js';
import { DeltaFlow } from './delta-flow.js';
import { type ModelLimits, prepareJob, requireTokenizer } from './prepare-job.js';
import { routingKOf } from './routing.js';

export interface JobRunnerOptions {
  limits: ModelLimits;
  batches: Pick<BatchFeed, 'add' | 'cancel'>;
  toInference: (message: ToInference) => void;
  send: (message: FromEngine) => void;
}

type Tokens = Extract<FromInference, { type: 'tokens' }>['tokens'];

type CompleteRequest = Extract<JobRequest, { kind: 'complete' }>;

interface RunningJob {
  id: string;
  job: number;
  request: RunRequest;
  /** Number of its first item: the others follow. */
  firstItem: number;
  promptTokens: number;
  tokenizeMs: number;
  tokenizedMs: number;
  /** All choices of the first prompt first. */
  completions: Completion[];
  /** Of each input, once scored. */
  data: Classification[];
}

export class JobRunner {
  readonly #options: JobRunnerOptions;
  readonly #pieces: DeltaFlow;
  readonly #byId = new Map<string, RunningJob>();
  readonly #byNumber = new Map<number, RunningJob>();
  readonly #byItem = new Map<number, RunningJob>();
  #nextJob = 0;
  #nextItem = 0;

  constructor(options: JobRunnerOptions) {
    this.#options = options;
    this.#pieces = new DeltaFlow(options.send);
  }

  get running(): number {
    return this.#byId.size;
  }

  start(id: string, request: JobRequest): void {
    try {
      if (request.kind === 'tokenize')
        this.#options.send({ type: 'result', id, result: this.#tokenize(request) });
      else this.#start(id, request);
    } catch (error) {
      this.#options.send({ type: 'error', id, error: SidaError.from(error).toBody() });
    }
  }

  /** Nothing more is sent for the job. */
  cancel(id: string): void {
    this.#pieces.drop(id);
    const job = this.#byId.get(id);
    if (job !== undefined) this.#drop(job);
  }

  taken(id: string, pieces: number): void {
    this.#pieces.taken(id, pieces);
  }

  onInference(message: FromInference): void {
    if (message.type === 'tokens') {
      const deltas = message.tokens.map((token) => this.#onToken(token)).filter((d) => d !== undefined);
      this.#pieces.add(deltas);
    } else if (message.type === 'done') {
      this.#onDone(message);
    } else if (message.type === 'job-error') {
      const job = this.#byNumber.get(message.job);
      if (job !== undefined) this.#pieces.end({ type: 'error', id: job.id, error: message.error });
      if (job !== undefined) this.#drop(job);
    }
  }

  #tokenize({ inputs, addSpecialTokens }: Extract<JobRequest, { kind: 'tokenize' }>): JobResult {
    const begin = clockMs();
    const { limits } = this.#options;
    const tokenizer = requireTokenizer(limits, 'input');
    const data = inputs.map((text) => {
      const ids = addSpecialTokens ? tokenizer.encode(text) : tokenizer.encodePlain(text);
      return { ids, tokens: ids.map((id) => tokenizer.idToToken(id)) };
    });
    const promptTokens = data.reduce((sum, { ids }) => sum + ids.length, 0);
    const timing = { tokenizeMs: clockMs() - begin, queueMs: 0, inferenceMs: 0 };
    return {
      kind: 'tokenize',
      data,
      promptTokens,
      completionTokens: 0,
      experts: noCost(limits.shape.topK),
      timing,
    };
  }

  #start(id: string, request: RunRequest): void {
    const { limits, batches } = this.#options;
    const begin = clockMs();
    const inputs = profiled('tokenize', () => prepareJob(request, limits));
    const routingK = routingKOf(request.routing, limits.routing);
    if (inputs.length === 0) {
      throw new SidaError({ code: 'invalid_request', message: 'The request has no inputs', param: 'input' });
    }
    const job: RunningJob = {
      id,
      job: this.#nextJob++,
      request,
      firstItem: this.#nextItem,
      promptTokens: inputs.reduce((sum, { tokens }) => sum + tokens.length, 0),
      tokenizeMs: clockMs() - begin,
      tokenizedMs: clockMs(),
      completions: request.kind === 'complete' ? this.#completions(request) : [],
      data: [],
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

  #completions(request: CompleteRequest): Completion[] {
    const { maxTokens, stop, prompts, choices = 1 } = request;
    const { shape, tokenizer } = this.#options.limits;
    const logprobs = request.logprobs !== null;
    const common = { maxTokens, stop, endTokens: shape.tokens.end, tokenizer, logprobs };
    return Array.from(
      { length: prompts.length * choices },
      (_, index) => new Completion({ index, ...common }),
    );
  }

  /** What the token adds to a stream, if its job is one. */
  #onToken(token: Tokens[number]): { id: string; delta: CompletionDelta } | undefined {
    const job = this.#byItem.get(token.item);
    if (job === undefined || job.request.kind !== 'complete') return undefined;
    const { item, choice } = token;
    const delta = job.completions[(item - job.firstItem) * (job.request.choices ?? 1) + choice]!.push(token);
    if (delta === undefined) return undefined;
    if (delta.finishReason === 'stop') this.#options.toInference({ type: 'stop', item, choice });
    return job.request.stream ? { id: job.id, delta } : undefined;
  }

  #onDone({ item, scores, end }: Extract<FromInference, { type: 'done' }>): void {
    const job = this.#byItem.get(item);
    if (job === undefined) return;
    if (scores !== undefined && job.request.kind === 'classify') {
      job.data[item - job.firstItem] = classification(job.request.labels, scores);
    }
    if (end === undefined) return;
    this.#pieces.end({ type: 'result', id: job.id, result: result(job, end) });
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
    const { request, firstItem } = job;
    const items = request.kind === 'classify' ? request.inputs.length : request.prompts.length;
    for (let item = firstItem; item < firstItem + items; item++) this.#byItem.delete(item);
  }
}

function classification(labels: readonly string[], logprobs: readonly number[]): Classification {
  const scores = softmax(logprobs);
  const best = logprobs.reduce((top, logprob, label) => (logprob > logprobs[top]! ? label : top), 0);
  // fromEntries also takes a label named __proto__.
  return { label: labels[best]!, scores: Object.fromEntries(labels.map((label, i) => [label, scores[i]!])) };
}

function result(job: RunningJob, { cost, startedMs, endedMs }: JobEnd): JobResult {
  const { promptTokens, tokenizeMs } = job;
  const timing = { tokenizeMs, queueMs: startedMs - job.tokenizedMs, inferenceMs: endedMs - startedMs };
  const choices = job.completions.map(({ choice }) => choice);
  const completionTokens = choices.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  const common = { promptTokens, completionTokens, experts: cost, timing };
  if (job.request.kind === 'classify') return { kind: 'classify', data: job.data, ...common };
  return { kind: 'complete', choices, ...common };
}
