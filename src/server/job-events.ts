/** A kept job as server-sent events, from its present status to its last. */
import type { Response } from 'express';
import { hasEnded, type JobEvent, type JobRecord } from '../queue/job-queue.js';
import type { CompletionAnswers } from './completion-answer.js';
import { requireModel, type ServerContext } from './context.js';
import { jobAnswer, jobPieces } from './job-answer.js';
import { joinPieces } from './join-pieces.js';
import { LIMITS } from './limits.js';
import { SseStream } from './sse.js';

/** Resolves when the stream has ended; false, with nothing sent, where `owner` has no such job. */
export async function streamJob(
  context: ServerContext,
  res: Response,
  id: string,
  owner: string,
): Promise<boolean> {
  // Known from here on: what is told later needs its name.
  requireModel(context);
  const early: JobEvent[] = [];
  let take = (event: JobEvent): void => void early.push(event);
  // Before the record is read: what happens in between is then told twice rather than never, and left out here.
  const stop = await context.queue.watch(id, owner, (event) => take(event));
  const record = stop && (await context.queue.find(id, owner));
  if (stop === undefined || record === undefined) {
    stop?.();
    return false;
  }
  const sse = new SseStream(res, () => {
    context.metrics.countSlowReader();
    context.logger.warn({ requestId: res.locals.requestId }, 'stream closed: its reader fell too far behind');
  });
  sse.open();
  // A request for the headers alone.
  if (res.req.method !== 'HEAD') {
    const beat = setInterval(() => sse.comment(), LIMITS.streamBeatMs);
    await new Promise<void>((resolve) => {
      const events = new JobEvents(context, sse, resolve);
      take = (event) => events.take(event);
      res.once('close', resolve);
      events.take({ type: 'status', record });
      // Joined, so that who comes late is not sent thousands of pieces at once.
      for (const event of joinPieces(early)) events.take(event);
    });
    clearInterval(beat);
  }
  stop();
  sse.end();
  return true;
}

class JobEvents {
  readonly #context: ServerContext;
  readonly #sse: SseStream;
  readonly #onEnd: () => void;
  #record: JobRecord | undefined;
  #attempt = 0;
  #pieces: CompletionAnswers | undefined;

  constructor(context: ServerContext, sse: SseStream, onEnd: () => void) {
    this.#context = context;
    this.#sse = sse;
    this.#onEnd = onEnd;
  }

  take(event: JobEvent): void {
    if (this.#record !== undefined && hasEnded(this.#record)) return;
    if (event.type === 'delta') {
      // Pieces of a run that was given up are of no use to a reader who has seen the next one begin.
      if (event.attempt < this.#attempt || this.#record === undefined) return;
      if (event.attempt > this.#attempt || this.#pieces === undefined) {
        this.#pieces = jobPieces(this.#context, this.#record);
        this.#attempt = event.attempt;
      }
      this.#sse.send(this.#pieces.piece(event.delta), 'piece');
      return;
    }
    const { record } = event;
    if (this.#record !== undefined && stageOf(record) <= stageOf(this.#record)) return;
    this.#record = record;
    this.#sse.send(jobAnswer(this.#context, record), 'status');
    if (hasEnded(record)) this.#onEnd();
  }
}

/** Grows with each status of a job: queued, running, queued again after a crash, running, …, ended. */
function stageOf(record: JobRecord): number {
  if (hasEnded(record)) return Number.POSITIVE_INFINITY;
  return record.status === 'running' ? 2 * record.attempts : 2 * record.attempts + 1;
}
