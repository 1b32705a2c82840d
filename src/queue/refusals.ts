/** The errors that both queues refuse and end jobs with. */
import { SidaError } from '../errors.js';

/** Most bytes of all jobs that wait, by default. */
export const QUEUE_BYTES = 128 * 1024 ** 2;

/** `seconds` is the expected time until the queue has room. */
export function queueFull(bound: number, seconds: number): SidaError {
  return new SidaError({
    code: 'queue_full',
    message: `The queue is full: ${bound} requests are waiting, which is its limit; try again later`,
    details: { retry_after_s: retryAfter(seconds), limit: bound },
  });
}

export function queueBytesFull(bytes: number, limit: number, seconds: number): SidaError {
  return new SidaError({
    code: 'queue_full',
    message: `The queue is full: the requests that wait would have ${bytes} bytes together, its limit is ${limit}; try again later`,
    details: { retry_after_s: retryAfter(seconds), bytes, limit },
  });
}

function retryAfter(seconds: number): number {
  return Math.min(60, Math.max(1, Math.ceil(seconds)));
}

export function expired(deadlineMs: number): SidaError {
  return new SidaError({
    code: 'deadline_exceeded',
    message: `The request was not answered within its deadline of ${deadlineMs / 1000} s`,
  });
}

export function shuttingDown(): SidaError {
  return new SidaError({
    code: 'shutting_down',
    message: 'The server is shutting down; send the request again',
  });
}

export function clientGone(): SidaError {
  return new SidaError({ code: 'cancelled', message: 'The client went away' });
}

export function cancelled(): SidaError {
  return new SidaError({ code: 'cancelled', message: 'The job was cancelled' });
}

export function keyConflict(): SidaError {
  return new SidaError({
    code: 'idempotency_conflict',
    message: 'This idempotency key came with another request before; take a new key for a new request',
  });
}

/** Most bytes of the deltas of one run, as JSON. */
export const DELTA_BYTES = 16 * 1024 ** 2;

export function deltasTooLarge(): SidaError {
  return new SidaError({
    code: 'cannot_run',
    message: `The stream is larger than ${DELTA_BYTES} bytes, which is its limit; ask for fewer tokens or no log-probabilities`,
    details: { limit: DELTA_BYTES },
    ran: true,
  });
}

/** Most bytes of a kept answer, as JSON. */
export const ANSWER_BYTES = 64 * 1024 ** 2;

export function answerTooLarge(bytes: number, limit: number): SidaError {
  return new SidaError({
    code: 'cannot_run',
    message: `The answer has ${bytes} bytes, more than a kept answer may have, which is ${limit} bytes`,
    details: { bytes, limit },
    ran: true,
  });
}

/** The error of a job whose workers stopped again and again while they had it. */
export function givenUp(): SidaError {
  return new SidaError({
    code: 'engine_crashed',
    message: 'This request was given up: its worker stopped again and again, so it is not run once more',
  });
}

export function streamBroken(): SidaError {
  return new SidaError({
    code: 'engine_crashed',
    message: 'The worker stopped while this answer was being streamed; send the request again',
  });
}
