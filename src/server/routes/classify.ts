import type { ModelInfo } from '../../engine/messages.js';
import { SidaError } from '../../errors.js';
import { renderTemplate, templateFields } from '../../text/template.js';
import type { ServerContext } from '../context.js';
import { requireModel } from '../context.js';
import { checkText, inputName, requireTokenizer } from '../inputs.js';
import { runJob } from '../jobs.js';
import { ClassifyAnswer, ClassifyRequest } from '../schemas/classify.js';
import { expertsAnswer } from '../schemas/common.js';
import { bodyRoute } from './route.js';

export const classify = bodyRoute({
  method: 'post',
  path: '/v1/classify',
  scope: 'infer',
  summary: 'Scores labels as continuations of each input',
  body: ClassifyRequest,
  answers: { 200: { description: 'One entry for each input', schema: ClassifyAnswer } },
  async handle(context, _req, res, request) {
    const model = requireModel(context, request.model);
    requireTokenizer(model, 'model');
    const { template, labels } =
      request.task === undefined
        ? { template: checkTemplate(context, request.template!), labels: request.labels! }
        : findTask(model, request.task);
    const list = Array.isArray(request.input);
    const inputs = (Array.isArray(request.input) ? request.input : [request.input]).map((input, index) => {
      const param = inputName('input', index, list);
      const prompt = renderTemplate(template, input, param);
      checkText(prompt, context.options, param);
      return prompt;
    });
    const result = await runJob<'classify'>(context, res, {
      kind: 'classify',
      inputs,
      labels,
      explain: request.include?.includes('experts') ?? false,
      routing: { mode: request.routing ?? null, k: request.routing_k ?? null },
    });
    checkScores(result.data.flatMap(({ scores }) => Object.values(scores)));
    res.json({
      object: 'classification',
      model: model.name,
      data: result.data.map(({ label, scores }, index) => ({ index, label, scores })),
      usage: { prompt_tokens: result.promptTokens },
      ...(request.include?.includes('experts') && { experts: expertsAnswer(result.experts) }),
    } satisfies typeof ClassifyAnswer._output);
  },
});

function findTask({ name, tasks }: ModelInfo, task: string): { template: string; labels: string[] } {
  const found = Object.hasOwn(tasks, task) ? tasks[task] : undefined;
  if (found !== undefined) return found;
  const known = Object.keys(tasks);
  const hint = known.length > 0 ? `its tasks are ${known.join(', ')}` : 'it declares none';
  throw new SidaError({
    code: 'invalid_request',
    message: `The model ${JSON.stringify(name)} has no task ${JSON.stringify(task.slice(0, 100))}: ${hint}`,
    param: 'task',
  });
}

function checkTemplate({ options }: ServerContext, template: string): string {
  checkText(template, options, 'template');
  if (templateFields(template).length > 0) return template;
  throw new SidaError({
    code: 'invalid_request',
    message: 'Expected the template to have a field in braces, such as {text}',
    param: 'template',
  });
}

/** JSON would turn these into null, which a client cannot tell from an answer. */
function checkScores(scores: number[]): void {
  if (scores.every(Number.isFinite)) return;
  throw new SidaError({
    code: 'nonfinite_output',
    message: 'The model gave a score that is not a finite number',
  });
}
