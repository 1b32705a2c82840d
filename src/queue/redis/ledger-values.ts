/** Checks values read from Redis, because a value edited there must not break a server or a worker. */
import { z } from 'zod';
import { ERROR_CODES, type ErrorBody, type ErrorCode, SidaError } from '../../errors.js';
import type { AnswerForm, CompletionDelta, JobRequest, JobResult } from '../../protocol/engine-messages.js';
import { findTask, taskOf } from '../../tasks/registry.js';
import { storedDelta } from '../../tasks/shared/stored.js';
import { JOB_STATUSES, type JobRecord } from '../job-queue.js';

/** Most bytes of one request: the HTTP body plus the text that the template adds to each input. */
export const REQUEST_BYTES = 8 << 20;

const errorBody = z.object({
  code: z.enum(Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]]),
  message: z.string(),
  param: z.string().optional(),
  details: z.record(z.string(), z.union([z.number(), z.string()])).optional(),
  ran: z.literal(true).optional(),
  read: z.literal(true).optional(),
});

const kind = z.string().refine((name) => findTask(name) !== undefined);
const ofKind = z.looseObject({ kind });

const number = z.coerce.number().min(0);
const record = z.object({
  kind,
  owner: z.string(),
  sync: z.enum(['0', '1']),
  form: z.string(),
  status: z.enum(JOB_STATUSES),
  createdMs: number,
  startedMs: number.nullable(),
  finishedMs: number.nullable(),
  attempts: number,
  result: z.string().nullable(),
  error: z.string().nullable(),
});

/** A job record with the fields that clients do not see. */
export interface LedgerRecord extends Omit<JobRecord, 'form'> {
  /** Null where it was not asked for, and of a job whose client waits. */
  form: AnswerForm | null;
  owner: string;
  /** True when a client waits for the job; no other request can see it. */
  sync: boolean;
}

/** Throws `internal` when the text is not a request of this version. */
export function parseRequest(text: string): JobRequest {
  const value = parseJson(text, 'request');
  return check(taskOf(check(ofKind, value, 'request')).stored.job, value, 'request');
}

export function parseDelta(text: string): CompletionDelta {
  return parse(storedDelta, text, 'delta');
}

/**
 * `fields` are in the order of read.lua. Undefined when there is no such job; throws `internal` when a field is
 * invalid.
 */
export function parseRecord(id: string, fields: unknown[]): LedgerRecord | undefined {
  if (fields.every((field) => field === null)) return undefined;
  const named = Object.fromEntries(Object.keys(record.shape).map((name, at) => [name, fields[at]]));
  const parsed = record.safeParse(named);
  if (!parsed.success) throw broken('record', parsed.error);
  const { sync, result, error, form, ...rest } = parsed.data;
  const { stored } = taskOf(rest);
  return {
    ...rest,
    id,
    form: form === '' ? null : parse(stored.form, form, 'form'),
    sync: sync === '1',
    result: result === null ? null : parse(stored.result, result, 'result'),
    error: error === null ? null : (parse(errorBody, error, 'error') as ErrorBody),
  };
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

function parse<T>(schema: z.ZodType<T>, text: string, what: string): T {
  return check(schema, parseJson(text, what), what);
}

function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
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
