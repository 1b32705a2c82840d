import { z } from 'zod';
import { JOB_STATUSES } from '../../queue/job-queue.js';
import { ClassifyAnswer, ClassifyRequest } from './classify.js';
import { ErrorAnswer } from './common.js';
import { CompletionAnswer, CompletionRequest } from './completions.js';

export const JobPath = z.object({ id: z.uuid().meta({ description: "The job's id" }) });

export const JobHeaders = z.object({
  'idempotency-key': z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, { error: 'Expected 1 to 255 visible ASCII characters' })
    .optional()
    .meta({ description: 'Requests with the same key and the same body make one job' }),
});

export const JobRequest = z
  .discriminatedUnion(
    'type',
    [
      ClassifyRequest.safeExtend({ type: z.literal('classify') }).meta({ id: 'ClassifyJob' }),
      CompletionRequest.safeExtend({ type: z.literal('completion') }).meta({ id: 'CompletionJob' }),
    ],
    { error: 'Expected "classify" or "completion"' },
  )
  .meta({ description: "A type, and beside it the body of the type's own route" });

const milliseconds = z.int().meta({ description: 'Unix milliseconds' });

export const JobAnswer = z
  .object({
    object: z.literal('job'),
    id: z.uuid(),
    type: z.enum(['classify', 'completion']),
    status: z.enum(JOB_STATUSES),
    created_ms: milliseconds,
    started_ms: milliseconds.nullable(),
    finished_ms: milliseconds.nullable(),
    attempts: z.int().meta({ description: 'Runs so far; more than 1 after a crash of the engine' }),
    answer: z
      .union([ClassifyAnswer, CompletionAnswer])
      .nullable()
      .meta({ description: "Once completed: what the type's own route answers" }),
    error: ErrorAnswer.shape.error.nullable().meta({ description: 'Once failed or cancelled' }),
  })
  .meta({ id: 'Job' });

export type JobAnswer = z.infer<typeof JobAnswer>;
