/** Converts a classification request into its job. */
import type { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { renderTemplate, templateFields } from '../../text/template.js';
import { checkText, inputName, type RequestLimits, requireTokenizer } from '../shared/request-checks.js';
import type { PreparedJob } from '../task.js';
import type { ClassifyJob } from './job.js';
import type { ClassifyRequest } from './schema.js';

export type ClassifyBody = z.infer<typeof ClassifyRequest>;

export function prepareClassify(
  request: ClassifyBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<ClassifyJob> {
  requireTokenizer(model, 'model');
  const { template, labels } =
    request.task === undefined
      ? { template: checkTemplate(request.template!, limits), labels: request.labels! }
      : declaredTask(model, request.task);
  const fields = templateFields(template);
  const list = Array.isArray(request.input);
  const inputs = (Array.isArray(request.input) ? request.input : [request.input]).map((input, index) => {
    const param = inputName('input', index, list);
    const prompt = renderTemplate(template, fields, input, param);
    checkText(prompt, limits, param);
    return prompt;
  });
  const job: ClassifyJob = {
    kind: 'classify',
    inputs,
    labels,
    explain: request.include?.includes('experts') ?? false,
    routing: { mode: request.routing ?? null, k: request.routing_k ?? null },
  };
  return { job };
}

/** Finds the template and labels of a task that the model's sida.json declares, or throws invalid_request. */
function declaredTask({ name, tasks }: ModelInfo, task: string): { template: string; labels: string[] } {
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

function checkTemplate(template: string, limits: RequestLimits): string {
  checkText(template, limits, 'template');
  if (templateFields(template).length > 0) return template;
  throw new SidaError({
    code: 'invalid_request',
    message: 'Expected the template to have a field in braces, such as {text}',
    param: 'template',
  });
}
