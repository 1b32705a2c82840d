/** The routes of jobs whose answers are kept, so that clients can ask for them later. */
import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';
import { SidaError } from '../../errors.js';
import type { Idempotency, JobRecord } from '../../queue/job-queue.js';
import { limitsOf } from '../../tasks/shared/request-checks.js';
import { findInModels, type ModelContext, type ServerContext, selectModel, withModel } from '../context.js';
import { jobAnswer } from '../job-answer.js';
import { streamJob } from '../job-events.js';
import { callerOf, payerOf, requireExperts } from '../middleware/auth.js';
import { bodyRoute, type Route } from '../route.js';
import { keepJob } from '../run-job.js';
import { JobAnswer, type JobBody, JobHeaders, JobPath, JobRequest, taskOfType } from '../schemas/jobs.js';
import { ErrorAnswer } from '../schemas/service.js';

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
    const { type, ...request } = body as unknown as JobBody;
    const served = selectModel(context, request.model);
    await withModel(context, served, res, async (model) => {
      const { job, asked = job } = taskOfType(type).prepare(request, model, limitsOf(model, served.options));
      requireExperts(res, served.keys, job);
      const { record, created } = await keepJob(served, res, job, idempotencyOf(req, asked));
      if (!created) res.setHeader('idempotent-replayed', 'true');
      res.status(202).setHeader('location', `/v1/jobs/${record.id}`);
      res.json(jobAnswer(served, record));
    });
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
    await answerJob(context, res, ({ queue }) => queue.find(idOf(req), callerOf(res).owner));
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
    await answerJob(context, res, ({ queue }) => queue.cancel(idOf(req), callerOf(res).owner));
  },
};

export const getJobEvents: Route = {
  method: 'get',
  path: '/v1/jobs/:id/events',
  scope: 'infer',
  summary: 'The statuses of a job, and the deltas of a completion with `stream`, as server-sent events',
  params: JobPath,
  answers: {
    200: {
      description:
        'Events `status` with the job and `piece` with a delta of the answer; ends with the last status, or without it when Redis has lost the job',
      contentType: 'text/event-stream',
    },
    404: notFound,
    429: { description: 'The key has too many streams open', schema: ErrorAnswer },
  },
  async handle(context, req, res) {
    const { owner } = callerOf(res);
    const free = context.streams.take(payerOf(res));
    try {
      const found = await findInModels(context, (served) => streamJob(served, res, idOf(req), owner));
      if (found === undefined) throw unknown();
    } finally {
      free();
    }
  },
};

function idOf(req: Request): string {
  return String(req.params.id);
}

/** Answers with the job that `look` finds in one of the models. */
async function answerJob(
  context: ServerContext,
  res: Response,
  look: (served: ModelContext) => Promise<JobRecord | undefined>,
): Promise<void> {
  const found = await findInModels(context, async (served) => {
    const record = await look(served);
    return record && { served, record };
  });
  if (found === undefined) throw unknown();
  const { served, record } = found;
  await served.writer.send(res, () => jobAnswer(served, record));
}

function unknown(): SidaError {
  return new SidaError({ code: 'not_found', message: 'There is no such job, or it is no longer kept' });
}

function idempotencyOf(req: Request, asked: unknown): Idempotency | undefined {
  const key = req.headers['idempotency-key'];
  if (typeof key !== 'string') return undefined;
  // The digest covers the prepared job, so the order of fields and explicit defaults make no difference.
  return { key, digest: createHash('sha256').update(JSON.stringify(asked)).digest('hex') };
}
