/** Schemas of /v1/jobs. The job types are those of the tasks whose answers can be kept. */
import { z } from 'zod';
import { JOB_STATUSES } from '../../queue/job-queue.js';
import { ALL_TASKS } from '../../tasks/registry.js';
import type { AnyTask, TaskBody } from '../../tasks/task.js';
import { listed } from '../../text/listed.js';
import { ErrorAnswer } from './service.js';

type KeptTask = AnyTask & { jobType: string };
type OneOrMore<T> = [T, ...T[]];

const KEPT = ALL_TASKS.filter((task): task is KeptTask => task.jobType !== undefined);
const TYPES = KEPT.map(({ jobType }) => jobType) as OneOrMore<string>;

export function taskOfType(type: string): AnyTask {
  return KEPT.find(({ jobType }) => jobType === type)!;
}

/** The schema of the task's own request, extended by the job type. */
function jobRequest({ jobType, schemas }: KeptTask) {
  const id = `${jobType[0]!.toUpperCase()}${jobType.slice(1)}Job`;
  return schemas.request.safeExtend({ type: z.literal(jobType) }).meta({ id });
}

export const JobPath = z.object({ id: z.uuid().meta({ description: "The job's id" }) });

export const JobHeaders = z.object({
  'idempotency-key': z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, { error: 'Expected 1 to 255 visible ASCII characters' })
    .optional()
    .meta({ description: 'Requests with the same key and the same body make one job' }),
});

export const JobRequest = z
  .discriminatedUnion('type', KEPT.map(jobRequest) as OneOrMore<ReturnType<typeof jobRequest>>, {
    error: `Expected ${listed(
      TYPES.map((type) => `"${type}"`),
      'or',
    )}`,
  })
  .meta({ description: "A type, and beside it the body of the type's own route" });

export type JobBody = TaskBody & { type: string };

const milliseconds = z.int().meta({ description: 'Unix milliseconds' });

export const JobAnswer = z
  .object({
    object: z.literal('job'),
    id: z.uuid(),
    type: z.enum(TYPES),
    status: z.enum(JOB_STATUSES),
    created_ms: milliseconds,
    started_ms: milliseconds.nullable(),
    finished_ms: milliseconds.nullable(),
    attempts: z.int().meta({ description: 'Runs so far; more than 1 after a crash of the engine' }),
    answer: z
      .union(KEPT.map(({ schemas }) => schemas.answer))
      .nullable()
      .meta({ description: "Once completed: what the type's own route answers" }),
    error: ErrorAnswer.shape.error.nullable().meta({ description: 'Once failed or cancelled' }),
  })
  .meta({ id: 'Job' });

/** `answer` follows the task's own schema, which its type does not show. */
export type JobAnswer = Omit<z.infer<typeof JobAnswer>, 'answer'> & { answer: object | null };
