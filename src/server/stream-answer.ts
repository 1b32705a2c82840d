/** Runs a job and streams its answer. */
import type { Response } from 'express';
import { SidaError } from '../errors.js';
import type { CompletionDelta, JobRequest, JobResult } from '../protocol/engine-messages.js';
import type { Answers } from '../tasks/task.js';
import { exactJson } from '../text/exact-json.js';
import type { ModelContext } from './context.js';
import { type EventFormat, EventStream, JSON_LINES, SERVER_SENT } from './event-stream.js';
import { LIMITS } from './limits.js';
import { errorAnswer } from './middleware/errors.js';
import { cancelledBy } from './requests-in-flight.js';
import { runJob } from './run-job.js';

/** How a stream is written, as the interface of the route asks. */
export interface StreamStyle {
  format: EventFormat;
  /** Whether events are named by their `type`. */
  named: boolean;
  /** Whether objects of a model, such as arguments of calls, are written with their digits. */
  exact?: true;
  /** Text of the event that marks the end. */
  end?: string;
}

export const ENDS_WITH_DONE: StreamStyle = { format: SERVER_SENT, named: false, end: '[DONE]' };
export const NAMED_EVENTS: StreamStyle = { format: SERVER_SENT, named: true };
export const OBJECT_LINES: StreamStyle = { format: JSON_LINES, named: false, exact: true };

export async function streamAnswer(
  context: ModelContext,
  res: Response,
  job: JobRequest,
  answers: Answers<JobResult>,
  { format, named, exact, end }: StreamStyle,
): Promise<void> {
  const timed = context.metrics.timeStream(job.kind);
  const abort = new AbortController();
  const events = new EventStream(res, format, () => {
    context.metrics.countSlowReader();
    context.logger.warn({ requestId: res.locals.requestId }, 'stream closed: its reader fell too far behind');
    abort.abort();
  });
  const nameOf = (chunk: object) => (named ? (chunk as { type: string }).type : undefined);
  const send = (chunks: readonly object[]) => {
    for (const chunk of chunks) events.send(exact ? exactJson(chunk) : chunk, nameOf(chunk));
  };
  let failure: unknown;
  const onDelta = (delta: CompletionDelta) => {
    if (failure !== undefined) return;
    try {
      send(answers.chunks?.(delta) ?? []);
      timed(delta);
    } catch (error) {
      // The queue reports to other streams as well. Close only this one.
      failure = error;
      abort.abort();
    }
  };
  const beat = setInterval(() => events.beat(), LIMITS.streamBeatMs);
  try {
    const result = await runJob(context, res, job, { abort, onDelta });
    if (failure !== undefined) throw failure;
    // The last event of a response repeats the whole answer.
    for (const chunk of answers.closing?.(result) ?? []) {
      await events.sendPieces(context.writer.pieces(chunk), nameOf(chunk));
    }
    if (end !== undefined) events.send(end);
  } catch (thrown) {
    const error = SidaError.from(failure ?? thrown);
    const left = error.code === 'cancelled' && cancelledBy(abort.signal) === undefined;
    if (!events.opened || left) throw error;
    context.logger.error({ requestId: res.locals.requestId, err: error }, 'stream failed');
    const answer = errorAnswer(error);
    send(answers.failed?.(answer.error) ?? [answer]);
  } finally {
    clearInterval(beat);
  }
  events.end();
}
