/**
 * What a job stores in Redis: data, progress and return value. Values are checked when they are read, because another
 * version of sida may have written them.
 */
import { createHash } from 'node:crypto';
import { type Job, UnrecoverableError } from 'bullmq';
import { z } from 'zod';
import { ERROR_CODES, type ErrorBody, SidaError } from '../../errors.js';
import type { AnswerForm, CompletionDelta, JobRequest, JobResult } from '../../protocol/engine-messages.js';
import { findTask, taskOf } from '../../tasks/registry.js';
import { storedDelta } from '../../tasks/shared/stored.js';
import type { JobRecord } from '../job-queue.js';
import { cancelled, expired, givenUp } from '../refusals.js';

const jobData = z.object({
  owner: z.string(),
  /** A client waits for the answer, so no other request can see the job. */
  sync: z.boolean(),
  /** The client of a synchronous job wants deltas. */
  streams: z.boolean(),
  /** Null once the job has ended. */
  request: z.unknown(),
  form: z.unknown(),
  /** Digest of the request, where an idempotency key came with it. */
  digest: z.string(),
  /** Says which of several requests with one idempotency key created the job. */
  nonce: z.string(),
  /** Unix milliseconds. */
  deadlineAt: z.number(),
  /** A cancelled job, as it was then: a worker that takes it later only to end it changes nothing that clients see. */
  stopped: z
    .object({ atMs: z.number(), attempts: z.int().min(0), startedMs: z.number().nullable() })
    .optional(),
});

export type JobData = z.infer<typeof jobData>;

/** A job after BullMQ has read it. Its data is not checked. */
export type StoredJob = Job<unknown, unknown, string>;

const progress = z.object({
  /** Number of times that workers have taken the job. */
  turn: z.int().min(1),
  /** Number of the run; a worker runs a job again when its engine has crashed. */
  run: z.int().min(0),
  startedMs: z.number(),
  /** The job waits for another run. */
  queued: z.boolean(),
  /** Number of the run's deltas before these. */
  seq: z.int().min(0),
  deltas: z.array(z.unknown()),
});

export type Progress = z.infer<typeof progress>;

/** Whether `a` is about a later run than `b`. */
export function isLater(a: Pick<Progress, 'turn' | 'run'>, b: Pick<Progress, 'turn' | 'run'>): boolean {
  return a.turn > b.turn || (a.turn === b.turn && a.run > b.run);
}

const returned = z.object({
  attempts: z.int().min(1),
  startedMs: z.number(),
  result: z.unknown().optional(),
  /** Row of the job's log that has the result as JSON, when it is too large for an event. */
  row: z.int().min(0).optional(),
});

export type Returned = z.infer<typeof returned>;

/**
 * The id of a kept job: a UUID of version 8 whose first part is made of its owner, the rest of its idempotency key, or
 * of `id`. A key may be as long as a header, and readers of Redis need not see it.
 */
export function keptId(owner: string, id: string, key: string | undefined): string {
  const rest = key === undefined ? id : hash(JSON.stringify([owner, key]));
  const digits = hash(owner).slice(0, 8) + rest.replaceAll('-', '').slice(8);
  return digits.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/, '$1-$2-8$3-a$4-$5');
}

/** Whether a job is kept, by its id. Other jobs have ids of version 4. */
export function isKept(id: string): boolean {
  return id[14] === '8';
}

/** The part of a kept job's id that all jobs of its owner have. */
export function ownerPart(id: string): string {
  return id.slice(0, 8);
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

export function formOf(request: JobRequest): AnswerForm {
  return taskOf(request).form(request);
}

/** Throws `internal` when the data is not of this version. */
export function dataOf({ data }: Pick<StoredJob, 'data'>): JobData {
  return check(jobData, data, 'data');
}

/** Throws `internal` when the request is not one of this version. */
export function requestOf({ request }: Pick<JobData, 'request'>): JobRequest {
  const { kind } = check(z.looseObject({ kind: z.string() }), request, 'request');
  const task = findTask(kind);
  if (task === undefined) throw broken('request', undefined);
  return check(task.stored.job, request, 'request');
}

/** Undefined before a worker has reported about the job. */
export function progressOf(value: unknown): Progress | undefined {
  const parsed = progress.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}

export function deltaOf(value: unknown): CompletionDelta {
  return check(storedDelta, value, 'delta');
}

/** `row` reads a row of the job's log. */
export async function resultOf(
  kind: string,
  value: unknown,
  row: (at: number) => Promise<string | undefined>,
): Promise<Returned & { result: JobResult }> {
  const about = check(returned, value, 'result');
  const found = about.row === undefined ? about.result : parseJson(await row(about.row), 'result');
  const task = findTask(kind);
  if (task === undefined) throw broken('result', undefined);
  return { ...about, result: check(task.stored.result, found, 'result') };
}

/** The error of a failed job. Only a text that BullMQ wrote itself is not JSON. */
export function errorOf(reason: string): ErrorBody {
  if (reason.startsWith('job stalled')) return givenUp().toBody();
  try {
    const body = JSON.parse(reason) as ErrorBody;
    if (Object.hasOwn(ERROR_CODES, body.code)) return body;
  } catch {
    // As below.
  }
  return { code: 'internal', message: 'The job failed for a reason that this version does not know' };
}

/** Fails the job for good with this error. */
export function failure(error: SidaError): UnrecoverableError {
  return new UnrecoverableError(JSON.stringify(error.toBody()));
}

/** The record of a kept job, without its result. */
export function recordOf(job: StoredJob, data: JobData): JobRecord {
  const { form } = taskOf({ kind: job.name }).stored;
  // A worker reports the beginning of each run, and repeats it with the result.
  const report = progressOf(job.progress);
  const run = returned.safeParse(job.returnvalue).data ?? {
    attempts: report?.run ?? 0,
    startedMs: report?.startedMs ?? null,
  };
  const createdMs = job.timestamp;
  // The times come from the clocks of several machines.
  const startedMs = run.startedMs && Math.max(run.startedMs, createdMs);
  const finished = (atMs: number) => Math.max(atMs, startedMs ?? createdMs);
  const record: JobRecord = {
    id: job.id!,
    kind: job.name as JobRecord['kind'],
    status: (report?.queued ?? true) ? 'queued' : 'running',
    createdMs,
    form: check(form, data.form, 'form'),
    startedMs,
    finishedMs: null,
    attempts: run.attempts,
    result: null,
    error: null,
  };
  const failed = (finishedMs: number, error: ErrorBody): JobRecord => ({
    ...record,
    status: error.code === 'cancelled' ? 'cancelled' : 'failed',
    finishedMs: finished(finishedMs),
    error,
  });
  if (data.stopped !== undefined) {
    const { atMs, ...before } = data.stopped;
    return { ...failed(atMs, cancelled().toBody()), ...before };
  }
  if (job.finishedOn !== undefined) {
    if (job.failedReason !== undefined) return failed(job.finishedOn, errorOf(job.failedReason));
    return { ...record, status: 'completed', finishedMs: finished(job.finishedOn) };
  }
  // A worker that takes the job ends it for the same reason.
  if (record.status === 'queued' && Date.now() > data.deadlineAt)
    return failed(data.deadlineAt, deadlineError(job, data).toBody());
  return record;
}

export function deadlineError({ timestamp }: StoredJob, { deadlineAt }: JobData): SidaError {
  return expired(deadlineAt - timestamp);
}

/**
 * Returns the JSON of a result. Throws nonfinite_output for a number that is not finite, because JSON would turn it
 * into null, which a client could take for an answer.
 */
export function resultText(result: JobResult): string {
  return JSON.stringify(result, (_key, value: unknown) => {
    if (typeof value !== 'number' || Number.isFinite(value)) return value;
    const message = 'The model gave a score that is not a finite number';
    throw new SidaError({ code: 'nonfinite_output', message });
  });
}

function parseJson(text: string | undefined, what: string): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch (error) {
    throw broken(what, error);
  }
}

function check<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw broken(what, parsed.error);
}

function broken(what: string, cause: unknown): SidaError {
  const where = cause instanceof z.ZodError ? cause.issues[0]!.path.join('.') : '';
  const message = `The job's ${what} in Redis is not what this version writes${where === '' ? '' : ` (at ${where})`}`;
  return new SidaError({ code: 'internal', message }, { cause });
}
