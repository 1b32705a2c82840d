/** Streams a kept job as server-sent events, from its present status to its last. */
import type { Response } from 'express';
import type { JobResult } from '../protocol/engine-messages.js';
import { hasEnded, type JobEvent, type JobRecord } from '../queue/job-queue.js';
import type { Answers } from '../tasks/task.js';
import { type ModelContext, requireModel } from './context.js';
import { answersOf, jobAnswer } from './job-answer.js';
import { joinDeltas } from './join-deltas.js';
import { LIMITS } from './limits.js';
import { SseStream } from './sse.js';
import type { StreamPlaces } from './stream-places.js';

/** Resolves true when the stream has ended. Resolves with undefined, and nothing sent, when `owner` has no such job. */
export async function streamJob(
  context: ModelContext,
  res: Response,
  id: string,
  owner: string,
): Promise<true | undefined> {
  // Answers need the model's name. Throws before the model is known; afterwards it stays known.
  requireModel(context);
  const early: JobEvent[] = [];
  let take = (event: JobEvent): void => void early.push(event);
  // The queue is watched before the record is read, so an event in between arrives twice rather than never. JobEvents
  // drops the second one.
  const stop = await context.queue.watch(id, owner, (event) => take(event));
  if (stop === undefined) return undefined;
  try {
    const record = await context.queue.find(id, owner);
    if (record === undefined) return undefined;
    const events = new JobEvents(context, res);
    // A late reader gets joined deltas rather than thousands of single ones, as fast as it takes them.
    const missed = new MissedEvents(context.streams, () => events.overflow());
    for (const event of [{ type: 'status', record } as const, ...early]) missed.add(event);
    take = (event) => missed.add(event);
    try {
      for (let next = missed.take(); next !== undefined; next = missed.take()) {
        events.take(next);
        await events.drained();
      }
    } finally {
      missed.drop();
    }
    take = (event) => events.take(event);
    await events.ended;
  } finally {
    stop();
  }
  return true;
}

/** What a late reader has missed and not taken yet. All late readers together hold a bounded number of bytes. */
class MissedEvents {
  readonly #places: StreamPlaces;
  readonly #onFull: () => void;
  #events: JobEvent[] = [];
  #joined: JobEvent[] = [];
  #bytes = 0;

  constructor(places: StreamPlaces, onFull: () => void) {
    this.#places = places;
    this.#onFull = onFull;
  }

  add(event: JobEvent): void {
    this.#events.push(event);
    if (this.#events.length % LIMITS.streamEventsJoined === 0) this.#events = joinDeltas(this.#events);
    const bytes = bytesOf(event);
    this.#bytes += bytes;
    if (!this.#places.hold(bytes)) this.#onFull();
  }

  take(): JobEvent | undefined {
    if (this.#joined.length === 0) {
      this.#joined = joinDeltas(this.#events).reverse();
      this.#events = [];
    }
    const event = this.#joined.pop();
    if (event === undefined) return undefined;
    const bytes = bytesOf(event);
    this.#bytes -= bytes;
    this.#places.release(bytes);
    return event;
  }

  drop(): void {
    this.#places.release(this.#bytes);
    this.#bytes = 0;
    this.#events = [];
    this.#joined = [];
  }
}

/** About what a delta takes in memory. Records are shared. */
function bytesOf(event: JobEvent): number {
  if (event.type !== 'delta') return 0;
  const { text, tokenIds, logprobs } = event.delta;
  const named = logprobs?.reduce((sum, { top }) => sum + 1 + top.length, 0) ?? 0;
  return 2 * text.length + 8 * tokenIds.length + 100 * named;
}

class JobEvents {
  /** Resolves when the last status has been sent or the reader has gone. */
  readonly ended: Promise<void>;
  readonly #context: ModelContext;
  readonly #res: Response;
  readonly #sse: SseStream;
  #end = (): void => undefined;
  #record: JobRecord | undefined;
  #attempt = 0;
  #answers: Answers<JobResult> | undefined;

  constructor(context: ModelContext, res: Response) {
    this.#context = context;
    this.#res = res;
    const requestId = res.locals.requestId;
    this.#sse = new SseStream(res, () => {
      context.metrics.countSlowReader();
      context.logger.warn({ requestId }, 'stream closed: its reader fell too far behind');
    });
    const beat = setInterval(() => this.#sse.comment(), LIMITS.streamBeatMs);
    this.ended = new Promise<void>((resolve) => {
      this.#end = () => {
        clearInterval(beat);
        this.#sse.end();
        resolve();
      };
    });
    res.once('close', this.#end);
    if (res.destroyed) this.#end();
    this.#sse.open();
    // A HEAD request needs only the headers.
    if (res.req.method === 'HEAD') this.#end();
  }

  /** Resolves when the reader has taken most of what was sent, or has gone. */
  drained(): Promise<void> {
    return this.#sse.drained();
  }

  /** Closes the connection of a reader that is too far behind. */
  overflow(): void {
    this.#sse.overflow();
  }

  take(event: JobEvent): void {
    try {
      if (event.type === 'status') this.#status(event.record);
      else if (event.type === 'delta') this.#delta(event);
      else this.#end();
    } catch (error) {
      // The queue reports to other readers as well. Close only this stream.
      this.#context.logger.error({ requestId: this.#res.locals.requestId, err: error }, 'stream failed');
      this.#res.destroy();
    }
  }

  #status(record: JobRecord): void {
    if (this.#record !== undefined && stageOf(record) <= stageOf(this.#record)) return;
    this.#record = record;
    const { written } = this.#context;
    const json = written.write(record, () => jobAnswer(this.#context, record));
    written.inTurn(json, () => {
      this.#sse.sendWritten(json, 'status');
      if (hasEnded(record)) this.#end();
    });
  }

  #delta({ attempt, delta }: Extract<JobEvent, { type: 'delta' }>): void {
    // Drop a delta whose run has ended according to the last status sent.
    if (this.#record === undefined || stageOfRun(attempt) < stageOf(this.#record)) return;
    if (attempt !== this.#attempt || this.#answers === undefined) {
      this.#answers = answersOf(this.#context, this.#record);
      this.#attempt = attempt;
    }
    for (const chunk of this.#answers.chunks?.(delta) ?? []) this.#sse.send(chunk, 'piece');
  }
}

/** Grows with each status of a job: queued, running, queued again after a crash, running, …, ended. */
function stageOf(record: JobRecord): number {
  if (hasEnded(record)) return Number.POSITIVE_INFINITY;
  return stageOfRun(record.attempts) + (record.status === 'running' ? 0 : 1);
}

function stageOfRun(attempt: number): number {
  return 2 * attempt;
}
