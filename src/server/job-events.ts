/** Streams a kept job as server-sent events, from its present status to its last. */
import type { Response } from 'express';
import type { JobResult } from '../protocol/engine-messages.js';
import { hasEnded, type JobEvent, type JobRecord } from '../queue/job-queue.js';
import type { Answers } from '../tasks/task.js';
import { type ModelContext, requireModel } from './context.js';
import { EventStream, SERVER_SENT } from './event-stream.js';
import { answersOf, jobAnswer } from './job-answer.js';
import { LIMITS } from './limits.js';
import { payerOf } from './middleware/auth.js';
import type { UnreadBytes, Waiting } from './unread-bytes.js';

/** Resolves true when the stream has ended. Resolves with undefined, and nothing sent, when `owner` has no such job. */
export async function streamJob(
  context: ModelContext,
  res: Response,
  id: string,
  owner: string,
): Promise<true | undefined> {
  // Answers need the model's name. Throws before the model is known; afterwards it stays known.
  requireModel(context);
  const sse = new EventStream(res, SERVER_SENT, () => {
    context.metrics.countSlowReader();
    context.logger.warn({ requestId: res.locals.requestId }, 'stream closed: its reader fell too far behind');
  });
  const missed = new MissedEvents(payerOf(res), context.unread, () => sse.overflow());
  // The queue is watched before the record is read, so an event in between arrives twice rather than never. sendEvents
  // drops the second one.
  const stop = await context.queue.watch(id, owner, (event) => missed.add(event));
  if (stop === undefined) return undefined;
  const beat = setInterval(() => sse.beat(), LIMITS.streamBeatMs);
  res.once('close', () => missed.end());
  if (res.destroyed) missed.end();
  try {
    const record = await context.queue.find(id, owner);
    if (record === undefined) return undefined;
    sse.open();
    // A HEAD request needs only the headers.
    if (res.req.method !== 'HEAD') await sendEvents(context, sse, record, missed);
    sse.end();
  } finally {
    clearInterval(beat);
    missed.end();
    stop();
  }
  return true;
}

async function sendEvents(
  context: ModelContext,
  sse: EventStream,
  first: JobRecord,
  missed: MissedEvents,
): Promise<void> {
  let record = first;
  let run = 0;
  let answers: Answers<JobResult> | undefined;
  const sendStatus = () => sse.sendPieces(context.writer.pieces(jobAnswer(context, record)), 'status');
  await sendStatus();
  for (;;) {
    if (hasEnded(record)) return;
    const event = await missed.next();
    if (event === undefined || event.type === 'lost') return;
    if (event.type === 'status') {
      if (stageOf(event.record) <= stageOf(record)) continue;
      record = event.record;
      await sendStatus();
      continue;
    }
    const { attempt, delta } = event;
    // Drop a delta whose run has ended according to the last status sent.
    if (stageOfRun(attempt) < stageOf(record)) continue;
    if (attempt !== run || answers === undefined) answers = answersOf(context, record);
    run = attempt;
    for (const chunk of answers.chunks?.(delta) ?? []) sse.send(chunk, 'piece');
    await sse.drained();
  }
}

/** Events that the reader has not taken yet. */
class MissedEvents implements Waiting {
  readonly client: string;
  bytes = 0;
  readonly #unread: UnreadBytes;
  readonly #close: () => void;
  #events: JobEvent[] = [];
  /** Those that are taken one after the other. */
  #taking: JobEvent[] = [];
  /** Whether the reader has ever taken all events; a late one may still have to take all those of the run. */
  #caughtUp = false;
  #ended = false;
  #wake = (): void => undefined;

  /** `close` closes the connection of the reader. */
  constructor(client: string, unread: UnreadBytes, close: () => void) {
    this.client = client;
    this.#unread = unread;
    this.#close = close;
  }

  close(): void {
    this.end();
    this.#close();
  }

  add(event: JobEvent): void {
    if (this.#ended) return;
    this.#events.push(event);
    this.#unread.add(this, bytesOf(event));
    if (this.#caughtUp && this.bytes > LIMITS.streamBufferBytes) this.close();
    this.#wake();
  }

  /** Resolves with undefined after the end. */
  async next(): Promise<JobEvent | undefined> {
    while (this.#taking.length === 0) {
      if (this.#ended) return undefined;
      this.#taking = this.#events.reverse();
      this.#events = [];
      if (this.#taking.length > 0) break;
      this.#caughtUp = true;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const event = this.#taking.pop()!;
    this.#unread.read(this, bytesOf(event));
    return event;
  }

  end(): void {
    this.#ended = true;
    this.#taking = [];
    this.#unread.read(this);
    this.#wake();
  }
}

/** About what a delta takes in memory. Records are shared. */
function bytesOf(event: JobEvent): number {
  if (event.type !== 'delta') return 0;
  const { text, parts = [], tokenIds, logprobs } = event.delta;
  const named = logprobs?.reduce((sum, { top }) => sum + 1 + top.length, 0) ?? 0;
  const letters = parts.reduce(
    (sum, part) => sum + ('text' in part ? part.text : part.name).length,
    text.length,
  );
  return 2 * letters + 100 * parts.length + 8 * tokenIds.length + 100 * named;
}

/** Grows with each status of a job: queued, running, queued again after a crash, running, …, ended. */
function stageOf(record: JobRecord): number {
  if (hasEnded(record)) return Number.POSITIVE_INFINITY;
  return stageOfRun(record.attempts) + (record.status === 'running' ? 0 : 1);
}

function stageOfRun(attempt: number): number {
  return 2 * attempt;
}
