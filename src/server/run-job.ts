/** Submits a request's job to the queue and cancels it when the client goes away. */
import { randomUUID } from 'node:crypto';
import type { Response } from 'express';
import { SidaError } from '../errors.js';
import type { CompletionDelta, JobRequest, JobResult } from '../protocol/engine-messages.js';
import type { ModelContext } from './context.js';
import { callerOf } from './middleware/auth.js';
import { withOwner } from './with-owner.js';

interface RunJobOptions {
  onDelta?: (delta: CompletionDelta) => void;
  /** Aborting this controller cancels the job. */
  abort?: AbortController;
}

/** Runs a job to its end. Sets the timing headers unless the answer has begun. Rejects with SidaError. */
export async function runJob(
  { admission, queue, metrics }: ModelContext,
  res: Response,
  request: JobRequest,
  { onDelta, abort = new AbortController() }: RunJobOptions = {},
): Promise<JobResult> {
  const caller = callerOf(res);
  const ticket = await admission.admit(res, request);
  const onClose = () => abort.abort();
  if (res.destroyed) onClose();
  res.once('close', onClose);
  try {
    const outcome = await queue
      .submit(randomUUID(), withOwner(request, caller), {
        owner: caller.owner,
        signal: abort.signal,
        ...(onDelta !== undefined && { onDelta }),
      })
      .catch(async (error) => {
        await ticket.failed(SidaError.from(error));
        throw error;
      });
    await ticket.done(outcome.result);
    metrics.observeOutcome(request.kind, outcome);
    const { timing } = outcome.result;
    if (!res.headersSent) {
      res.setHeader('x-queue-time', (outcome.queueMs + timing.queueMs).toFixed(3));
      res.setHeader('x-inference-time', timing.inferenceMs.toFixed(3));
    }
    return outcome.result;
  } finally {
    res.off('close', onClose);
  }
}
