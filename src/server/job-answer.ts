/** Builds the answer of the job routes from the record of a kept job. */
import { SidaError } from '../errors.js';
import type { JobResult } from '../protocol/engine-messages.js';
import type { JobRecord } from '../queue/job-queue.js';
import { taskOf } from '../tasks/registry.js';
import type { Answers } from '../tasks/task.js';
import { type ModelContext, requireModel } from './context.js';
import { errorAnswer } from './middleware/errors.js';
import type { JobAnswer } from './schemas/jobs.js';

export function jobAnswer(context: ModelContext, record: JobRecord): JobAnswer {
  const { id, status, createdMs, startedMs, finishedMs, attempts, result, error } = record;
  const common = {
    object: 'job',
    id,
    type: taskOf(record).jobType ?? record.kind,
    status,
    created_ms: createdMs,
    started_ms: startedMs,
    finished_ms: finishedMs,
    attempts,
  } as const;
  if (error !== null) return { ...common, answer: null, error: jobError(new SidaError(error)) };
  if (result === null) return { ...common, answer: null, error: null };
  const answers = answersOf(context, record);
  try {
    return { ...common, answer: answers.whole(result), error: null };
  } catch (thrown) {
    // The type's own route would answer with this error, such as nonfinite_output, so the job counts as failed.
    return { ...common, status: 'failed', answer: null, error: jobError(SidaError.from(thrown)) };
  }
}

/** Creates the writer of a kept job's answers. One writer writes the chunks of only one run. */
export function answersOf(context: ModelContext, record: JobRecord): Answers<JobResult> {
  const { id, createdMs, form } = record;
  return taskOf(record).answers({ model: requireModel(context).name, id, createdMs, form });
}

function jobError(error: SidaError): JobAnswer['error'] {
  return errorAnswer(error, 'job id').error;
}
