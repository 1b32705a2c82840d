/** Builds the route of a task. The response carries the answer, whole or as a stream. */

import { limitsOf } from '../../tasks/shared/request-checks.js';
import type { AnyTask, TaskBody } from '../../tasks/task.js';
import { selectModel, withModel } from '../context.js';
import { requireExperts } from '../middleware/auth.js';
import { runJob } from '../run-job.js';
import { streamAnswer } from '../stream-answer.js';
import type { Route } from './route.js';

export function taskRoute(task: AnyTask): Route {
  const { route, schemas } = task;
  return {
    method: 'post',
    path: route.path,
    scope: 'infer',
    summary: route.summary,
    body: schemas.request,
    ...(route.ignores !== undefined && { ignores: route.ignores }),
    answers: { 200: { description: route.answer, schema: schemas.answer } },
    async handle(context, _req, res, body) {
      const request = body as TaskBody;
      const served = selectModel(context, request.model);
      await withModel(context, served, res, async (model) => {
        const { job, streamUsage = false } = task.prepare(request, model, limitsOf(model, served.options));
        requireExperts(res, served.keys, job);
        const answers = task.answers({
          model: model.name,
          id: res.locals.requestId as string,
          createdMs: Date.now(),
          form: task.form(job),
          streamUsage,
        });
        if (job.stream) await streamAnswer(served, res, job, answers, route.namedEvents);
        else {
          const result = await runJob(served, res, job);
          await served.writer.send(res, () => answers.whole(result));
        }
      });
    },
  };
}
