/** Jobs whose answers are kept for whoever asks later. */
import { createHash } from 'node:crypto';
import type { Request } from 'express';
import type { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { JobRequest as QueuedRequest } from '../../protocol/engine-messages.js';
import type { Idempotency, JobRecord } from '../../queue/job-queue.js';
import { classifyJob } from '../classify-job.js';
import { askedJob, completionJob } from '../completion-job.js';
import type { ServerContext } from '../context.js';
import { jobAnswer } from '../job-answer.js';
import { streamJob } from '../job-events.js';
import { keepJob } from '../keep-job.js';
import { callerOf } from '../middleware/auth.js';
import { ErrorAnswer } from '../schemas/common.js';
import { JobAnswer, JobHeaders, JobPath, JobRequest } from '../schemas/jobs.js';
import { bodyRoute, type Route } from './route.js';

const notFound = { description: 'Unknown, of another key, or no longer kept', schema: ErrorAnswer };

export const postJob = bodyRoute({
  method: 'post',
  path: '/v1/jobs',
  scope: 'infer',
  summary: 'Takes a job and answers at once; it runs on when the client has gone',
  headers: JobHeaders,
  body: JobRequest,
  answers: {
    202: { description: 'Accepted, or accepted before under the same key', schema: JobAnswer },
    422: { description: 'The idempotency key came with another request before', schema: ErrorAnswer },
  },
  async handle(context, req, res, body) {
    const [request, asked] = jobOf(context, body);
    const { record, created } = await keepJob(context, res, request, idempotencyOf(req, asked));
    if (!created) res.setHeader('idempotent-replayed', 'true');
    res.status(202).setHeader('location', `/v1/jobs/${record.id}`);
    res.json(jobAnswer(context, record));
  },
});

export const getJob: Route = {
  method: 'get',
  path: '/v1/jobs/:id',
  scope: 'infer',
  summary: 'A job, with its answer once it is completed',
  params: JobPath,
  answers: { 200: { description: 'The job', schema: JobAnswer }, 404: notFound },
  async handle(context, req, res) {
    res.json(jobAnswer(context, known(await context.queue.find(idOf(req), callerOf(res).owner))));
  },
};

export const deleteJob: Route = {
  method: 'delete',
  path: '/v1/jobs/:id',
  scope: 'infer',
  summary: 'Cancels a job that has not ended; one that has stays as it is',
  params: JobPath,
  answers: { 200: { description: 'The job', schema: JobAnswer }, 404: notFound },
  async handle(context, req, res) {
    res.json(jobAnswer(context, known(await context.queue.cancel(idOf(req), callerOf(res).owner))));
  },
};

export const getJobEvents: Route = {
  method: 'get',
  path: '/v1/jobs/:id/events',
  scope: 'infer',
  summary: 'The statuses of a job, and the pieces of a completion with `stream`, as server-sent events',
  params: JobPath,
  answers: {
    200: {
      description: 'Events `status` with the job and `piece` with a piece; ends with the last status',
      contentType: 'text/event-stream',
    },
    404: notFound,
  },
  async handle(context, req, res) {
    const found = await streamJob(context, res, idOf(req), callerOf(res).owner);
    if (!found) throw unknown();
  },
};

function idOf(req: Request): string {
  return String(req.params.id);
}

function known(record: JobRecord | undefined): JobRecord {
  if (record !== undefined) return record;
  throw unknown();
}

function unknown(): SidaError {
  return new SidaError({ code: 'not_found', message: 'There is no such job, or it is no longer kept' });
}

/** The job, and what of it the request asks for. */
function jobOf(
  context: ServerContext,
  body: z.infer<typeof JobRequest>,
): [job: QueuedRequest, asked: unknown] {
  if (body.type === 'classify') {
    const job = classifyJob(context, body);
    return [job, job];
  }
  const job = completionJob(context, body);
  return [job, askedJob(job, body)];
}

function idempotencyOf(req: Request, asked: unknown): Idempotency | undefined {
  const key = req.headers['idempotency-key'];
  if (typeof key !== 'string') return undefined;
  // Of what is to run, so that the order of fields and defaults written out make no difference.
  return { key, digest: createHash('sha256').update(JSON.stringify(asked)).digest('hex') };
}
