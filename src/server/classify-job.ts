/** From a request to classify to the job that runs it. */
import type { z } from 'zod';
import { SidaError } from '../errors.js';
import type { JobRequest, ModelInfo } from '../protocol/engine-messages.js';
import { renderTemplate, templateFields } from '../text/template.js';
import { requireModel, type ServerContext } from './context.js';
import { checkText, inputName, requireTokenizer } from './inputs.js';
import type { ClassifyRequest } from './schemas/classify.js';

export function classifyJob(
  context: ServerContext,
  request: z.infer<typeof ClassifyRequest>,
): Extract<JobRequest, { kind: 'classify' }> {
  const model = requireModel(context, request.model);
  requireTokenizer(model, 'model');
  const { template, labels } =
    request.task === undefined
      ? { template: checkTemplate(context, request.template!), labels: request.labels! }
      : findTask(model, request.task);
  const fields = templateFields(template);
  const list = Array.isArray(request.input);
  const inputs = (Array.isArray(request.input) ? request.input : [request.input]).map((input, index) => {
    const param = inputName('input', index, list);
    const prompt = renderTemplate(template, fields, input, param);
    checkText(prompt, context.options, param);
    return prompt;
  });
  return {
    kind: 'classify',
    inputs,
    labels,
    explain: request.include?.includes('experts') ?? false,
    routing: { mode: request.routing ?? null, k: request.routing_k ?? null },
  };
}

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
