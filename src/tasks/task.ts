/** The interface of a task to the server, the queue and the engine process. index.ts lists the tasks. */
import type { z } from 'zod';
import type {
  AnswerForm,
  CompletionDelta,
  JobRequest,
  JobResult,
  ModelInfo,
} from '../protocol/engine-messages.js';
import type { GeneratedToken } from '../protocol/inference-messages.js';
import type { IdsToDecode, TextToEncode } from '../protocol/tokenizer-messages.js';
import type { ModelLimits, PreparedInput } from './shared/prepared-input.js';
import type { RequestLimits } from './shared/request-checks.js';
import type { StreamUsage } from './shared/stream-options.js';
import type { RequestCost } from './shared/token-estimates.js';

/** Callers find a task by a job's kind or by a route, and pass it only jobs and results of its kind. */
export interface Task<
  Body extends TaskBody,
  Job extends JobRequest,
  Result extends JobResult,
  Form extends AnswerForm,
> {
  /** The task's name in messages, Redis, logs and metrics. */
  kind: Job['kind'];
  route: TaskRoute;
  /** The task's name in /v1/jobs; undefined if its answers are not kept. */
  jobType?: string;
  /** Schemas of the route's request and answer. */
  schemas: { request: z.ZodObject; answer: z.ZodObject };
  /** Schemas that check stored data when it is read back. */
  stored: { job: z.ZodType<Job>; result: z.ZodType<Result>; form: z.ZodType<Form> };
  /** Converts a request into its job. Throws if the model or the limits refuse the request. */
  prepare(body: Body, model: ModelInfo, limits: RequestLimits): PreparedJob<Job>;
  form(job: Job): Form;
  answers(about: AnswerAbout<Form>): Answers<Result>;
  tokens: TaskTokens<Job, Result>;
  engine: ModelWork<Job, Result> | TokenizerWork<Job, Result> | DetokenizerWork<Job, Result>;
}

export type AnyTask = Task<TaskBody, JobRequest, JobResult, AnswerForm>;

/** Fields that every request may have. */
export interface TaskBody {
  model?: string | null | undefined;
}

interface TaskRoute {
  /** Path for POST requests. */
  path: string;
  summary: string;
  /** Describes the answer in the OpenAPI document. */
  answer: string;
  /**
   * Present for a route of OpenAI's: fields of its API that have no effect here. They and unknown fields are accepted
   * and named in a header of the answer; with --strict, unknown ones are refused.
   */
  ignores?: readonly string[];
  /** Whether the events of a stream are named by their `type`, and none marks its end. */
  namedEvents?: boolean;
}

export interface PreparedJob<Job> {
  job: Job;
  /**
   * The job without values that were drawn for it. Default: the job. Requests with the same idempotency key must
   * agree in it.
   */
  asked?: unknown;
  /** Default: none. */
  streamUsage?: StreamUsage;
}

export interface AnswerAbout<Form> {
  /** Name of the model. */
  model: string;
  /** Id of the request or of the job. */
  id: string;
  createdMs: number;
  form: Form;
  streamUsage?: StreamUsage;
}

/** The `error` of an error answer. */
export interface AnswerError {
  message: string;
  code: string;
}

/** Builds the parts of one answer. */
export interface Answers<Result> {
  whole(result: Result): object;
  /** Optional: builds the chunks of a stream that a delta becomes. Call it in the order of the deltas. */
  chunks?(delta: CompletionDelta): readonly object[];
  /** Optional: builds the chunks after the last delta. */
  closing?(result: Result): readonly object[];
  /** Optional: builds the chunks that end a stream which failed. Default: one with the `error` of an error answer. */
  failed?(error: AnswerError): readonly object[];
}

/** Token counts of a job, for admission and for fair shares of the engine. */
export interface TaskTokens<Job, Result> {
  /** Approximate tokens of the job's inputs; at least 1. */
  input(job: Job): number;
  /** Approximate bytes that the job takes while it waits. */
  bytes(job: Job): number;
  /** Tokens to reserve before the job runs. */
  cost(job: Job): RequestCost;
  /** Texts that the engine works on: those that it encodes, and schemas of answers. */
  texts(job: Job): readonly string[];
  /** Tokens to charge once the job has run. */
  used(job: Job, result: Result): number;
}

/** Engine part of a task that runs the model. */
export interface ModelWork<Job, Result extends JobResult> {
  runs: 'model';
  /** Returns the texts to encode before `inputs` is called. Throws if the job cannot be run. */
  texts(job: Job, limits: ModelLimits): TextToEncode[];
  /** Returns one input per text or prompt, in order. `ids` are those of `texts`. Throws if an input does not fit. */
  inputs(job: Job, limits: ModelLimits, ids: readonly Int32Array[]): PreparedInput[];
  /** `inputs` are those of the job. */
  results(job: Job, limits: ModelLimits, inputs: readonly PreparedInput[]): JobResults<Result>;
}

/** Engine part of a task that needs only the tokenizer. It completes when the texts are encoded. */
export interface TokenizerWork<Job, Result extends JobResult> {
  runs: 'tokenizer';
  /** Returns the texts to encode before `result` is called. Throws if the job cannot be run. */
  texts(job: Job, limits: ModelLimits): TextToEncode[];
  /** `ids` are those of `texts`. */
  result(
    job: Job,
    limits: ModelLimits,
    ids: readonly Int32Array[],
  ): OwnResult<Result> & Pick<JobResult, 'promptTokens'>;
}

/** Engine part of a task that needs only the texts of token ids. */
export interface DetokenizerWork<Job, Result extends JobResult> {
  runs: 'detokenizer';
  lists(job: Job): IdsToDecode[];
  /** `texts` are those of `lists`. */
  result(job: Job, texts: readonly string[]): OwnResult<Result> & Pick<JobResult, 'promptTokens'>;
}

/** Collects the results of one job's passes. `input` counts the job's inputs from 0. */
export interface JobResults<Result extends JobResult> {
  /** Optional: takes a generated token and returns the resulting delta, or undefined after the end of its choice. */
  token?(input: number, token: GeneratedToken): CompletionDelta | undefined;
  /** Optional: takes the summed log-probability of each label. */
  scores?(input: number, scores: readonly number[]): void;
  /** Optional: takes the mean of an input's last hidden states. */
  embedding?(input: number, values: readonly number[]): void;
  /** Optional: takes the tokens that all beams of an input's search were fed. */
  beamTokens?(tokens: number): void;
  /** Call it once, after the last input. */
  finish(): OwnResult<Result>;
}

/** The part of a result that the task itself provides. */
export type OwnResult<Result extends JobResult> = Omit<
  Result,
  'kind' | 'promptTokens' | 'cachedTokens' | 'experts' | 'timing'
>;
