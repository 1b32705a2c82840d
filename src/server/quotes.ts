/** Quotes requests: for those who ask, and to refuse those that will take too long. */
import type { Response } from 'express';
import { SidaError } from '../errors.js';
import type { JobRequest } from '../protocol/engine-messages.js';
import type { Quote } from '../protocol/quote.js';
import { clientGone } from '../queue/refusals.js';
import { taskOf } from '../tasks/registry.js';
import { quoteAnswer } from '../tasks/shared/schema.js';
import { LEAST_ANSWERS, quoteDetails, type Ticket } from './admission/admission.js';
import { control, type ModelContext } from './context.js';

/** Quotes that are made at a time, because the queue does not bound the texts that the tokenizer reads for them. */
const MOST_OPEN = 16;
const open = new WeakMap<ModelContext, number>();

/** Whether the request wants its quote and no answer. */
export function isQuote(res: Response): boolean {
  return res.locals.quote === true;
}

/** Throws not_ready where a quote would load the model. */
export function refuseToLoad({ engine }: ModelContext): void {
  if (engine.state.phase !== 'idle') return;
  const message = 'The model is not loaded, and a quote loads none: send the request itself';
  throw new SidaError({ code: 'not_ready', message, read: true });
}

/** What the request would cost if it came now. The queue before the engine counts, too. */
async function quoteOf(context: ModelContext, job: JobRequest): Promise<Quote> {
  const { quote } = await control(context, { kind: 'quote', job });
  const { waiting, waitMs } = context.queue.stats;
  const wait = waitMs / 1000;
  const later = ({ p50, p90 }: Quote['seconds']) => ({ p50: p50 + wait, p90: p90 + wait });
  return {
    ...quote,
    firstSeconds: later(quote.firstSeconds),
    seconds: later(quote.seconds),
    queueSeconds: quote.queueSeconds + wait,
    jobsAhead: quote.jobsAhead + waiting,
  };
}

/** The answer of /v1/quote. Charges the texts that were encoded for it, as of a refused request. */
export async function answeredQuote(context: ModelContext, res: Response, job: JobRequest): Promise<object> {
  const running = open.get(context) ?? 0;
  if (running >= MOST_OPEN) {
    const message = `${MOST_OPEN} quotes are being made; try again later`;
    throw new SidaError({ code: 'queue_full', message, read: true });
  }
  open.set(context, running + 1);
  try {
    const ticket = await context.admission.admit(res, job);
    try {
      const quote = await quoteOf(context, job);
      return { object: 'quote', model: context.engine.model!.name, ...quoteAnswer(quote) };
    } finally {
      await ticket.failed(new SidaError({ code: 'cannot_run', message: 'A quote runs nothing', read: true }));
    }
  } finally {
    open.set(context, open.get(context)! - 1);
  }
}

/**
 * Rejects with too_expensive or too_late when the request will likely take longer than it or the server allows, and
 * with rate_limited when it will move more bytes than its key may this minute. An engine that is not ready, or runs in
 * another process, gives no quotes; its requests wait in the queue.
 */
export async function refuseByQuote(
  context: ModelContext,
  job: JobRequest,
  ticket: Ticket,
  { limitMs, signal }: { limitMs?: number | undefined; signal?: AbortSignal } = {},
): Promise<void> {
  const limit = Math.min(
    job.maxSeconds ?? Number.POSITIVE_INFINITY,
    (limitMs ?? Number.POSITIVE_INFINITY) / 1000,
  );
  if (limit === Number.POSITIVE_INFINITY && !ticket.countsBytes) return;
  if (ticket.countsBytes) await ticket.checkBytes();
  const quote = givesQuote(context, job) ? await quoteOf(context, job).catch(unquoted) : undefined;
  if (quote !== undefined && quote.measured >= LEAST_ANSWERS && quote.seconds.p50 > limit)
    throw refusal(context, job, quote, limit);
  if (signal?.aborted) throw clientGone();
  if (ticket.countsBytes) await ticket.reserveBytes(quote);
}

/** The request waits in the queue for an engine that restarts. */
function unquoted(error: SidaError): undefined {
  if (!['engine_crashed', 'not_ready', 'deadline_exceeded'].includes(error.code)) throw error;
}

function givesQuote({ engine, queue, queueBound }: ModelContext, job: JobRequest): boolean {
  if (engine.computes === undefined || engine.state.phase !== 'ready') return false;
  // A full queue refuses the request without its text being read.
  return taskOf(job).engine.runs === 'model' && queue.stats.waiting < queueBound;
}

function refusal({ metrics }: ModelContext, job: JobRequest, quote: Quote, limit: number): SidaError {
  const { seconds, queueSeconds } = quote;
  metrics.countRefusal('quote');
  const own = seconds.p50 - queueSeconds;
  const which = limit === job.maxSeconds ? '"max_seconds"' : '--max-quote';
  const told = `The request will likely take ${shown(seconds.p50)} s, ${shown(queueSeconds)} s of them behind others, and 90 % of its like at most ${shown(seconds.p90)} s; ${which} allows ${shown(limit)} s`;
  const details = { ...quoteDetails(quote), limit_seconds: limit };
  if (own > limit) {
    return new SidaError({
      code: 'too_expensive',
      message: `${told}. Ask for fewer tokens: it counts on up to ${quote.maxTokens}`,
      details,
      read: true,
    });
  }
  const wait = Math.min(60, Math.max(1, Math.ceil(seconds.p50 - limit)));
  return new SidaError({
    code: 'too_late',
    message: told,
    details: { ...details, retry_after_s: wait },
    read: true,
  });
}

function shown(seconds: number): string {
  return String(Number(seconds.toPrecision(3)));
}
