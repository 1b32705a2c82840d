import { formOf } from '../../queue/job-queue.js';
import { classifyAnswer } from '../classify-answer.js';
import { classifyJob } from '../classify-job.js';
import { requireModel } from '../context.js';
import { runJob } from '../jobs.js';
import { ClassifyAnswer, ClassifyRequest } from '../schemas/classify.js';
import { bodyRoute } from './route.js';

export const classify = bodyRoute({
  method: 'post',
  path: '/v1/classify',
  scope: 'infer',
  summary: 'Scores labels as continuations of each input',
  body: ClassifyRequest,
  answers: { 200: { description: 'One entry for each input', schema: ClassifyAnswer } },
  async handle(context, _req, res, request) {
    const job = classifyJob(context, request);
    const { name } = requireModel(context);
    res.json(classifyAnswer(name, await runJob<'classify'>(context, res, job), formOf(job)));
  },
});
