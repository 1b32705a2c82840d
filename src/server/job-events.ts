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
    let missed: JobEvent[] = [{ type: 'status', record }, ...early.splice(0)];
    take = (event) => {
      if (early.push(event) > LIMITS.streamEventsBehind) events.overflow();
    };
    while (missed.length > 0) {
      for (const event of joinDeltas(missed)) {
        events.take(event);
        await events.drained();
      }
      missed = early.splice(0);
    }
    take = (event) => events.take(event);
    await events.ended;
  } finally {
    stop();
  }
  return true;
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
