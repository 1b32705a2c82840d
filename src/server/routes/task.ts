/** Builds the route of a task. The response carries the answer, whole or as a stream. */

import type { AnyTask, TaskBody } from '../../tasks/task.js';
import { answerRequest } from '../answer-request.js';
import type { Route } from '../route.js';
import { ENDS_WITH_DONE, NAMED_EVENTS } from '../stream-answer.js';

export function taskRoute(task: AnyTask): Route {
  const { route, schemas } = task;
  const style = route.namedEvents ? NAMED_EVENTS : ENDS_WITH_DONE;
  return {
    method: 'post',
    path: route.path,
    scope: 'infer',
    summary: route.summary,
    body: schemas.request,
    ...(route.ignores !== undefined && { ignores: route.ignores }),
    ...(task.engine.runs === 'model' && { quotes: true }),
    answers: { 200: { description: route.answer, schema: schemas.answer } },
    handle(context, _req, res, body) {
      const request = body as TaskBody;
      return answerRequest(
        context,
        res,
        request.model,
        (model, limits) => {
          const { job, streamUsage = 'none' } = task.prepare(request, model, limits);
          const id = res.locals.requestId as string;
          const about = { model: model.name, id, createdMs: Date.now(), form: task.form(job), streamUsage };
          return { job, answers: task.answers(about) };
        },
        style,
      );
    },
  };
}
