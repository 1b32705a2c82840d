/** Runs a job and streams its answer as server-sent events that end with `[DONE]`, as in OpenAI's API. */
import type { Response } from 'express';
import { SidaError } from '../errors.js';
import type { CompletionDelta, JobRequest, JobResult } from '../protocol/engine-messages.js';
import type { Answers } from '../tasks/task.js';
import type { ServerContext } from './context.js';
import { runJob } from './jobs.js';
import { errorAnswer } from './middleware/errors.js';
import { SseStream } from './sse.js';

export async function streamAnswer(
  context: ServerContext,
  res: Response,
  job: JobRequest,
  answers: Answers<JobResult>,
): Promise<void> {
  const abort = new AbortController();
  const events = new SseStream(res, () => {
    context.metrics.countSlowReader();
    context.logger.warn({ requestId: res.locals.requestId }, 'stream closed: its reader fell too far behind');
    abort.abort();
  });
  let failure: unknown;
  const onDelta = (delta: CompletionDelta) => {
    if (failure !== undefined) return;
    try {
      const chunk = answers.chunk?.(delta);
      if (chunk !== undefined) events.send(chunk);
    } catch (error) {
      // The queue reports to other streams as well. Close only this one.
      failure = error;
      abort.abort();
    }
  };
  try {
    const result = await runJob(context, res, job, { abort, onDelta });
    if (failure !== undefined) throw failure;
    const closing = answers.closing?.(result);
    if (closing !== undefined) events.send(closing);
    events.send('[DONE]');
  } catch (thrown) {
    const error = SidaError.from(failure ?? thrown);
    if (!events.opened || error.code === 'cancelled') throw error;
    context.logger.error({ requestId: res.locals.requestId, err: error }, 'stream failed');
    events.send(errorAnswer(error));
  }
  events.end();
}
