/** The answer that tells a kept job. */
import { SidaError } from '../errors.js';
import type { JobRecord } from '../queue/job-queue.js';
import { classifyAnswer } from './classify-answer.js';
import { CompletionAnswers } from './completion-answer.js';
import { requireModel, type ServerContext } from './context.js';
import { errorAnswer } from './middleware/errors.js';
import type { JobAnswer } from './schemas/jobs.js';

export function jobAnswer(context: ServerContext, record: JobRecord): JobAnswer {
  const { id, kind, status, createdMs, startedMs, finishedMs, attempts, error } = record;
  const told = {
    object: 'job',
    id,
    type: kind === 'classify' ? 'classify' : 'completion',
    status,
    created_ms: createdMs,
    started_ms: startedMs,
    finished_ms: finishedMs,
    attempts,
  } as const;
  if (error !== null) return { ...told, answer: null, error: jobError(new SidaError(error)) };
  const model = record.result === null ? '' : requireModel(context).name;
  try {
    return { ...told, answer: answerOf(model, record), error: null };
  } catch (thrown) {
    // Where the type's own route would answer with an error, such as nonfinite_output, the job has failed.
    return { ...told, status: 'failed', answer: null, error: jobError(SidaError.from(thrown)) };
  }
}

/** Builds the pieces of a completion that belong to one run of its job. */
export function jobPieces(context: ServerContext, { id, createdMs, form }: JobRecord): CompletionAnswers {
  return new CompletionAnswers({ model: requireModel(context).name, id, createdMs, form });
}

function answerOf(model: string, { id, createdMs, form, result }: JobRecord): JobAnswer['answer'] {
  switch (result?.kind) {
    case undefined:
      return null;
    case 'classify':
      return classifyAnswer(model, result, form);
    case 'complete':
      return new CompletionAnswers({ model, id, createdMs, form }).whole(result);
    case 'tokenize':
      throw new Error('A kept job tokenizes. This is a bug.');
  }
}

function jobError(error: SidaError): JobAnswer['error'] {
  return errorAnswer(error, 'job id').error;
}
