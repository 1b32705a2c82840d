import type { Response } from 'express';
import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { formOf } from '../../queue/job-queue.js';
import { CompletionAnswers } from '../completion-answer.js';
import { type CompleteJob, completionJob } from '../completion-job.js';
import { requireModel, type ServerContext } from '../context.js';
import { runJob } from '../jobs.js';
import { errorAnswer } from '../middleware/errors.js';
import { CompletionAnswer, CompletionRequest } from '../schemas/completions.js';
import { SseStream } from '../sse.js';
import { bodyRoute } from './route.js';

export const completions = bodyRoute({
  method: 'post',
  path: '/v1/completions',
  scope: 'infer',
  summary: 'Completes each prompt; with `stream` as server-sent events that end with `[DONE]`',
  body: CompletionRequest,
  answers: { 200: { description: 'One choice for each prompt', schema: CompletionAnswer } },
  async handle(context, _req, res, request) {
    const job = completionJob(context, request);
    const answers = new CompletionAnswers({
      model: requireModel(context).name,
      id: res.locals.requestId as string,
      createdMs: Date.now(),
      form: formOf(job),
      includeUsage: request.stream_options?.include_usage ?? false,
    });
    if (job.stream) return stream(context, res, job, answers);
    res.json(answers.whole(await runJob<'complete'>(context, res, job)));
  },
});

async function stream(
  context: ServerContext,
  res: Response,
  job: CompleteJob,
  answers: CompletionAnswers,
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
      events.send(answers.piece(delta));
    } catch (error) {
      // Who tells it has others to tell: only this stream ends.
      failure = error;
      abort.abort();
    }
  };
  try {
    const result = await runJob<'complete'>(context, res, job, { abort, onDelta });
    if (failure !== undefined) throw failure;
    const closing = answers.closing(result);
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
