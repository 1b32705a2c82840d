/** Converts a classification request into its job. */
import type { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { Template } from '../../text/template.js';
import { checkTextBytes } from '../../text/text-bytes.js';
import {
  checkText,
  inputName,
  type RequestLimits,
  requireDecoder,
  requireTokenizer,
} from '../shared/request-checks.js';
import { runFieldsOf } from '../shared/run-fields.js';
import { checkBytesTogether } from '../shared/text-limits.js';
import type { PreparedJob } from '../task.js';
import type { ClassifyJob } from './job.js';
import type { ClassifyRequest } from './schema.js';

/**
 * Most fields to fill in a request: filling one takes time, even with an empty text. Twice as many as the largest
 * request with each field once, 32 inputs with 64 fields.
 */
const MOST_FILLED = 4096;

export type ClassifyBody = z.infer<typeof ClassifyRequest>;

export function prepareClassify(
  request: ClassifyBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<ClassifyJob> {
  requireDecoder(model.shape);
  requireTokenizer(model, 'model');
  const { template: text, labels } =
    request.task === undefined
      ? { template: request.template!, labels: request.labels! }
      : declaredTask(model, request.task);
  if (request.task === undefined) checkText(text, limits, 'template');
  const template = new Template(text);
  if (request.task === undefined) requireField(template);
  const job: ClassifyJob = {
    kind: 'classify',
    inputs: filled(template, request.input, labels, limits),
    labels,
    ...runFieldsOf(request),
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

/** Fills the template for each input. Throws before it builds a text, if one or all together are too large. */
function filled(
  template: Template,
  input: ClassifyBody['input'],
  labels: readonly string[],
  limits: RequestLimits,
): string[] {
  const list = Array.isArray(input);
  const inputs = Array.isArray(input) ? input : [input];
  const all = inputs.map((each, index) => {
    const param = inputName('input', index, list);
    const values = template.values(each, param);
    const bytes = template.bytes(values);
    checkTextBytes(bytes, limits.maxInputBytes, param);
    return { values, bytes };
  });
  const own = labels.reduce((sum, label) => sum + Buffer.byteLength(label), 0);
  const bytes = all.reduce((sum, each) => sum + each.bytes, own);
  checkBytesTogether(bytes, limits, 'input', ', with the template once for each input and the labels');
  checkFilled(template, inputs.length);
  return all.map(({ values }) => template.render(values));
}

function checkFilled({ uses }: Template, inputs: number): void {
  const filled = uses * inputs;
  if (filled <= MOST_FILLED) return;
  throw new SidaError({
    code: 'request_too_large',
    message: `The template has ${uses} fields to fill for each of ${inputs} inputs, ${filled} together; the limit is ${MOST_FILLED}`,
    param: 'template',
    details: { uses, inputs, filled, limit: MOST_FILLED },
  });
}

function requireField({ fields }: Template): void {
  if (fields.length > 0) return;
  throw new SidaError({
    code: 'invalid_request',
    message: 'Expected the template to have a field in braces, such as {text}',
    param: 'template',
  });
}
