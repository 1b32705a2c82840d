/** What the server, the queue and the engine process ask of a task. They name no task: see index.ts. */
import type { z } from 'zod';
import type {
  AnswerForm,
  CompletionDelta,
  JobRequest,
  JobResult,
  ModelInfo,
} from '../protocol/engine-messages.js';
import type { GeneratedToken } from '../protocol/thread-messages.js';
import type { ModelLimits, PreparedInput } from './shared/prepared-input.js';
import type { RequestLimits } from './shared/request-checks.js';
import type { TokenCost } from './shared/token-estimates.js';

/** Callers find a task by the kind of a job or by a route, and give it only jobs and results of its kind. */
export interface Task<
  Body extends TaskBody,
  Job extends JobRequest,
  Result extends JobResult,
  Form extends AnswerForm,
> {
  /** Names the task in messages, in Redis, in logs and in metrics. */
  kind: Job['kind'];
  route: TaskRoute;
  /** Name of the task in /v1/jobs; undefined: its answers are not kept. */
  jobType?: string;
  /** The request and the answer of its route. */
  schemas: { request: z.ZodObject; answer: z.ZodObject };
  /** What is stored, checked when it is read back. */
  stored: { job: z.ZodType<Job>; result: z.ZodType<Result>; form: z.ZodType<Form> };
  /** The job of a request. Throws what the model or the limits refuse. */
  prepare(body: Body, model: ModelInfo, limits: RequestLimits): PreparedJob<Job>;
  form(job: Job): Form;
  answers(about: AnswerAbout<Form>): Answers<Result>;
  tokens: TaskTokens<Job, Result>;
  engine: ModelWork<Job, Result> | TokenizerWork<Job, Result>;
}

export type AnyTask = Task<TaskBody, JobRequest, JobResult, AnswerForm>;

/** What every request may name. */
export interface TaskBody {
  model?: string | undefined;
}

interface TaskRoute {
  /** The route takes POST requests. */
  path: string;
  summary: string;
  /** Describes the answer in the OpenAPI document. */
  answer: string;
}

export interface PreparedJob<Job> {
  job: Job;
  /**
   * The job without what was drawn for it; default: the job. Requests with the same idempotency key must agree in it.
   */
  asked?: unknown;
  /** A stream ends with a chunk that says what was used. */
  streamUsage?: boolean;
}

export interface AnswerAbout<Form> {
  /** Name of the model. */
  model: string;
  /** Of the request or of the job. */
  id: string;
  createdMs: number;
  form: Form;
  streamUsage?: boolean;
}

/** Writes one answer. */
export interface Answers<Result> {
  whole(result: Result): object;
  /** Optional: a chunk of a stream. */
  chunk?(delta: CompletionDelta): object;
  /** Optional: what follows the last chunk of a stream; undefined where nothing was asked for. */
  closing?(result: Result): object | undefined;
}

/** Tokens of a job, for admission and for fair shares of the engine. */
export interface TaskTokens<Job, Result> {
  /** What the job brings to the engine, about; at least 1. */
  input(job: Job): number;
  /** What is reserved before the job runs. */
  cost(job: Job): TokenCost;
  /** What is charged once it has run. */
  used(job: Job, result: Result): number;
}

/** Of a task that runs the model. */
export interface ModelWork<Job, Result extends JobResult> {
  runs: 'model';
  /** One input for each text or prompt, in order. Throws what does not fit. */
  inputs(job: Job, limits: ModelLimits): PreparedInput[];
  results(job: Job, limits: ModelLimits): JobResults<Result>;
}

/** Of a task that needs the tokenizer alone; it is done at once. */
export interface TokenizerWork<Job, Result extends JobResult> {
  runs: 'tokenizer';
  result(job: Job, limits: ModelLimits): OwnResult<Result> & Pick<JobResult, 'promptTokens'>;
}

/** Collects what the passes give for one job. `input` counts the job's inputs from 0. */
export interface JobResults<Result extends JobResult> {
  /** Optional: takes a generated token. Gives what it adds; undefined after the end of its choice. */
  token?(input: number, token: GeneratedToken): CompletionDelta | undefined;
  /** Optional: takes the summed log-probability of each label. */
  scores?(input: number, scores: readonly number[]): void;
  /** Call it once, after the last input. */
  finish(): OwnResult<Result>;
}

/** The part of a result that the task itself makes. */
export type OwnResult<Result extends JobResult> = Omit<
  Result,
  'kind' | 'promptTokens' | 'experts' | 'timing'
>;
