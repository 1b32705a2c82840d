/** Checks of what is read back from Redis: whoever can write there must not be able to break a server or a worker. */
import { z } from 'zod';
import { ERROR_CODES, type ErrorBody, type ErrorCode, SidaError } from '../errors.js';
import type { CompletionDelta, JobRequest, JobResult } from '../protocol/engine-messages.js';
import { JOB_STATUSES, type JobRecord } from './job-queue.js';

/** Most bytes of one request: the body of an HTTP request and what the templates add to each of its inputs. */
export const REQUEST_BYTES = 8 << 20;

const count = z.int().min(0);
const amount = z.number().min(0);
const texts = z.array(z.string()).max(4096);
const routing = z.object({ mode: z.enum(['exact', 'predicted']).nullable(), k: z.int().min(1).nullable() });

const sampling = z.object({
  temperature: z.number().gt(0),
  topP: z.number().gt(0).max(1),
  topK: count,
  minP: z.number().min(0).max(1),
  seed: z.int(),
});

const jobRequest = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('classify'),
    inputs: texts.min(1),
    labels: texts.min(1),
    explain: z.boolean().optional(),
    routing: routing.optional(),
  }),
  z.object({
    kind: z.literal('complete'),
    prompts: z
      .array(z.union([z.string(), z.array(count)]))
      .min(1)
      .max(4096),
    choices: z.int().min(1).max(4096).optional(),
    maxTokens: z.int().min(1),
    sampling: sampling.optional(),
    stop: texts,
    logprobs: count.nullable(),
    stream: z.boolean(),
    showTokenIds: z.boolean().optional(),
    explain: z.boolean().optional(),
    routing: routing.optional(),
  }),
  z.object({ kind: z.literal('tokenize'), inputs: texts, addSpecialTokens: z.boolean() }),
]);

const experts = z.record(z.string(), z.number());

const tokenLogprobs = z.object({
  id: count,
  token: z.string(),
  offset: count,
  logprob: z.number(),
  top: z.array(z.object({ id: count, token: z.string(), logprob: z.number() })),
});

const common = {
  promptTokens: count,
  completionTokens: count,
  experts,
  timing: z.object({ tokenizeMs: amount, queueMs: z.number(), inferenceMs: amount }),
};

const jobResult = z.discriminatedUnion('kind', [
  z.object({
    ...common,
    kind: z.literal('classify'),
    data: z.array(z.object({ label: z.string(), scores: z.record(z.string(), z.number()) })),
  }),
  z.object({
    ...common,
    kind: z.literal('complete'),
    choices: z.array(
      z.object({
        index: count,
        text: z.string(),
        tokenIds: z.array(count),
        finishReason: z.enum(['stop', 'length']),
        logprobs: z.array(tokenLogprobs).nullable(),
      }),
    ),
  }),
  z.object({
    ...common,
    kind: z.literal('tokenize'),
    data: z.array(z.object({ ids: z.array(count), tokens: z.array(z.string()) })),
  }),
]);

const completionDelta = z.object({
  index: count,
  text: z.string(),
  tokenIds: z.array(count),
  logprobs: z.array(tokenLogprobs).nullable(),
  finishReason: z.enum(['stop', 'length']).nullable(),
});

const errorBody = z.object({
  code: z.enum(Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]]),
  message: z.string(),
  param: z.string().optional(),
  details: z.record(z.string(), z.union([z.number(), z.string()])).optional(),
});

const answerForm = z.object({ logprobs: count.nullable(), tokenIds: z.boolean(), experts: z.boolean() });

const number = z.coerce.number().min(0);
const record = z.object({
  kind: z.enum(['classify', 'complete', 'tokenize']),
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

/** A record with what only the ledger's users may see. */
export interface LedgerRecord extends JobRecord {
  owner: string;
  /** Its client waits for it; nobody else may ask. */
  sync: boolean;
}

/** Refuses with `invalid_request`. */
export function parseRequest(text: string): JobRequest {
  return parse(jobRequest, text, 'request') as JobRequest;
}

export function parseDelta(text: string): CompletionDelta {
  return parse(completionDelta, text, 'piece');
}

/** `fields` in the order of the ledger's read; undefined: there is no such job. */
export function parseRecord(id: string, fields: unknown[]): LedgerRecord | undefined {
  if (fields.every((field) => field === null)) return undefined;
  const named = Object.fromEntries(Object.keys(record.shape).map((name, at) => [name, fields[at]]));
  const parsed = record.safeParse(named);
  if (!parsed.success) throw broken('record', parsed.error);
  const { sync, result, error, form, ...rest } = parsed.data;
  return {
    ...rest,
    id,
    form: parse(answerForm, form, 'form'),
    sync: sync === '1',
    result: result === null ? null : (parse(jobResult, result, 'result') as unknown as JobResult),
    error: error === null ? null : (parse(errorBody, error, 'error') as ErrorBody),
  };
}

/** JSON of a result. JSON would turn a number that is not finite into null, which a client cannot tell from an answer. */
export function resultText(result: JobResult): string {
  return JSON.stringify(result, (_key, value: unknown) => {
    if (typeof value !== 'number' || Number.isFinite(value)) return value;
    const message = 'The model gave a score that is not a finite number';
    throw new SidaError({ code: 'nonfinite_output', message });
  });
}

function parse<T>(schema: z.ZodType<T>, text: string, what: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw broken(what, error);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw broken(what, parsed.error);
}

function broken(what: string, cause: unknown): SidaError {
  const where = cause instanceof z.ZodError ? cause.issues[0]!.path.join('.') : '';
  const message = `The job's ${what} in Redis is not what this version writes${where === '' ? '' : ` (at ${where})`}`;
  return new SidaError({ code: 'internal', message }, { cause });
}
