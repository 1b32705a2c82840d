/** Submits the jobs of requests to the queue, and settles what admission has reserved for them. */
import { createHash, randomUUID } from 'node:crypto';
import type { Response } from 'express';
import { ANYONE, type Caller } from '../access/key-ring.js';
import { type ErrorBody, SidaError } from '../errors.js';
import type { CompletionDelta, JobRequest, JobResult } from '../protocol/engine-messages.js';
import { type Accepted, hasEnded, type Idempotency, type JobRecord } from '../queue/job-queue.js';
import { taskOf } from '../tasks/registry.js';
import type { Ticket } from './admission/admission.js';
import type { TimeKind } from './budget/target-window.js';
import type { ModelContext } from './context.js';
import { callerOf } from './middleware/auth.js';
import { refuseByQuote } from './quotes.js';
import { cancelledBy } from './requests-in-flight.js';

interface RunJobOptions {
  onDelta?: (delta: CompletionDelta) => void;
  /** Aborting this controller cancels the job. */
  abort?: AbortController;
}

/**
 * Runs a job to its end, and cancels it when the client goes away. Sets the timing headers unless the answer has begun.
 * Rejects with SidaError.
 */
export async function runJob(
  context: ModelContext,
  res: Response,
  request: JobRequest,
  { onDelta, abort = new AbortController() }: RunJobOptions = {},
): Promise<JobResult> {
  const { admission, queue, metrics, inFlight, keeper } = context;
  const caller = callerOf(res);
  const ticket = await admission.admit(res, request);
  const onClose = () => abort.abort();
  if (res.destroyed) onClose();
  res.once('close', onClose);
  const { count, end } = inFlight.begin(res, request, abort);
  const begin = performance.now();
  let told = false;
  const timed = (kind: TimeKind, cut = false) => {
    if (taskOf(request).engine.runs !== 'model') return;
    const now = performance.now();
    keeper?.window.add(kind, now - begin, now, cut);
  };
  try {
    const outcome = await refuseByQuote(context, request, ticket, {
      limitMs: context.options.maxQuote,
      signal: abort.signal,
    })
      .then(() =>
        queue.submit(randomUUID(), withOwner(request, caller), {
          owner: caller.owner,
          signal: abort.signal,
          ...(onDelta !== undefined && {
            onDelta: (delta) => {
              told = true;
              count(delta);
              onDelta(delta);
            },
          }),
        }),
      )
      .catch(async (error) => {
        timed('answer', true);
        if (onDelta !== undefined && !told) timed('firstToken', true);
        await ticket.failed(SidaError.from(error));
        throw cancelledBy(abort.signal) ?? error;
      });
    timed('answer');
    await ticket.done(outcome.result);
    metrics.observeOutcome(request.kind, outcome);
    const { timing } = outcome.result;
    if (!res.headersSent) {
      res.setHeader('x-queue-time', (outcome.queueMs + timing.queueMs).toFixed(3));
      res.setHeader('x-inference-time', timing.inferenceMs.toFixed(3));
    }
    return outcome.result;
  } finally {
    end();
    res.off('close', onClose);
  }
}

/** It is unknown how much of the job ran, so that its tokens stay charged. */
const UNSEEN: ErrorBody = { code: 'cancelled', message: 'The end of the job was not seen' };

/** Enqueues a job whose answer is kept. What it has reserved is settled when it has ended. */
export async function keepJob(
  context: ModelContext,
  res: Response,
  request: JobRequest,
  idempotency: Idempotency | undefined,
): Promise<Accepted> {
  const { admission, queue, logger } = context;
  const caller = callerOf(res);
  const { owner } = caller;
  // Before admission, so that a client whose answer was lost finds its job whatever it may still send.
  const earlier = idempotency && (await queue.repeated(owner, idempotency));
  if (earlier !== undefined) return { record: earlier, created: false };
  const ticket = await admission.admit(res, request);
  let accepted: Accepted;
  try {
    await refuseByQuote(context, request, ticket);
    accepted = await queue.enqueue(randomUUID(), owner, withOwner(request, caller), idempotency);
  } catch (error) {
    await ticket.failed(SidaError.from(error));
    throw error;
  }
  // Of requests that came at once with one idempotency key, one is charged.
  if (!accepted.created) await ticket.unused();
  else if (ticket.holds) {
    settleAtEnd(context, accepted.record, owner, ticket).catch(async (error) => {
      logger.warn({ requestId: res.locals.requestId, err: error }, 'a kept job keeps its reservation');
      await ticket.failed(new SidaError(UNSEEN));
    });
  }
  return accepted;
}

async function settleAtEnd(
  { queue }: ModelContext,
  { id }: JobRecord,
  owner: string,
  ticket: Ticket,
): Promise<void> {
  let tell: (record: JobRecord | undefined) => void;
  const ended = new Promise<JobRecord | undefined>((resolve) => {
    tell = resolve;
  });
  await queue.watch(id, owner, (event) => {
    if (event.type === 'lost') tell(undefined);
    else if (event.type === 'status' && hasEnded(event.record)) tell(event.record);
  });
  // The job may have ended before the watch began.
  const now = await queue.find(id, owner);
  if (now === undefined || hasEnded(now)) tell!(now);
  const record = await ended;
  if (record?.result) await ticket.done(record.result);
  else await ticket.failed(new SidaError(record?.error ?? UNSEEN));
}

/** Names the key that sends the job, without revealing the key's name to the engine. Without keys all are one. */
function withOwner(request: JobRequest, caller: Caller): JobRequest {
  if (caller === ANYONE) return request;
  return { ...request, owner: createHash('sha256').update(caller.owner).digest('base64url').slice(0, 22) };
}
