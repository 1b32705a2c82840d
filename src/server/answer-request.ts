/** Runs the job of a request and sends its answer, whole or as a stream. */
import type { Response } from 'express';
import type { JobRequest, JobResult, ModelInfo } from '../protocol/engine-messages.js';
import { limitsOf, type RequestLimits } from '../tasks/shared/request-checks.js';
import type { Answers } from '../tasks/task.js';
import { type ServerContext, selectModel, withModel } from './context.js';
import { requireExperts } from './middleware/auth.js';
import { answeredQuote, isQuote, refuseToLoad } from './quotes.js';
import { runJob } from './run-job.js';
import { type StreamStyle, streamAnswer } from './stream-answer.js';

/** What a request asks of a model. */
export interface AskedJob {
  job: JobRequest;
  answers: Answers<JobResult>;
}

/** `asked` names the model. `prepare` is called once it is loaded. */
export async function answerRequest(
  context: ServerContext,
  res: Response,
  asked: string | null | undefined,
  prepare: (model: ModelInfo, limits: RequestLimits) => AskedJob,
  style: StreamStyle,
): Promise<void> {
  const served = selectModel(context, asked);
  if (isQuote(res)) refuseToLoad(served);
  await withModel(context, served, res, async (model) => {
    const { job, answers } = prepare(model, limitsOf(model, served.options));
    requireExperts(res, served.keys, job);
    if (isQuote(res)) return void res.json(await answeredQuote(served, res, job));
    const warnings = warn(res, job);
    if (job.stream) return streamAnswer(served, res, job, answers, style);
    const result = await runJob(served, res, job);
    const whole = () => ({ ...answers.whole(result), ...(warnings.length > 0 && { warnings }) });
    await served.writer.send(res, whole);
  });
}

/** Returns what the answer has to say of the request. Streams have it in a header; that of ignored fields is set. */
function warn(res: Response, job: JobRequest): string[] {
  const { warnings: ignored = [] } = res.locals as { warnings?: string[] };
  const { warnings = [] } = job as { warnings?: readonly string[] };
  if (warnings.length > 0) res.setHeader('x-warnings', warnings.join('; '));
  return [...ignored, ...warnings];
}
