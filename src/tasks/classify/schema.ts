/** The request and the answer of /v1/classify. */
import { z } from 'zod';
import { listOf } from '../../text/list-schema.js';
import { MOST_INPUTS } from '../shared/limits.js';
import { Experts, Include, MaxSeconds, Model, Quote, Routing, RoutingK } from '../shared/schema.js';

/** Most template fields in one input. */
const MOST_FIELDS = 64;
const MOST_LABELS = 64;
const LABEL_BYTES = 1024;

const ONE_INPUT = `a text or an object of up to ${MOST_FIELDS} template fields with texts`;

/** Counts the fields before checking their values, because a body may have 4,096 fields. */
const Fields = z
  .custom<Record<string, string>>((value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
    const texts = Object.values(value);
    return texts.length <= MOST_FIELDS && texts.every((text) => typeof text === 'string');
  })
  .meta({ type: 'object', additionalProperties: { type: 'string' }, maxProperties: MOST_FIELDS });

const Input = z.union([z.string(), Fields], { error: `Expected ${ONE_INPUT}` });

const Label = z
  .string()
  .min(1)
  .refine((label) => Buffer.byteLength(label) <= LABEL_BYTES, {
    error: `A label may have ${LABEL_BYTES} bytes`,
  });

export const ClassifyRequest = z
  .strictObject({
    model: Model,
    task: z.string().optional().meta({ description: 'A task the model declares', example: 'category' }),
    template: z
      .string()
      .optional()
      .meta({ description: 'Instead of a task, with `labels`', example: 'category of: {text}' }),
    labels: listOf(Label, MOST_LABELS)
      .min(2)
      .refine((labels) => new Set(labels).size === labels.length, {
        error: 'Each label may stand there once',
      })
      .optional(),
    input: z
      .union([Input, listOf(Input, MOST_INPUTS).min(1)], {
        error: `Expected ${ONE_INPUT}, or a list of 1 to ${MOST_INPUTS} of these`,
      })
      .meta({ example: 'river' }),
    routing: Routing,
    routing_k: RoutingK,
    max_seconds: MaxSeconds,
    include: Include,
  })
  .check(({ value, issues }) => {
    const fault = (message: string, field: keyof typeof value) =>
      issues.push({ code: 'custom', message, path: [field], input: value[field] });
    if (value.task !== undefined) {
      if (value.template !== undefined) fault('It cannot stand beside "task"', 'template');
      if (value.labels !== undefined) fault('It cannot stand beside "task"', 'labels');
    } else if (value.template === undefined) {
      fault('Expected a task, or a template and labels', 'task');
    } else if (value.labels === undefined) {
      fault('Expected the labels that belong to the template', 'labels');
    }
  })
  .meta({ id: 'ClassifyRequest' });

export const ClassifyAnswer = z
  .object({
    object: z.literal('classification'),
    model: z.string(),
    data: z.array(z.object({ index: z.int(), label: z.string(), scores: z.record(z.string(), z.number()) })),
    usage: z.object({ prompt_tokens: z.int() }),
    experts: Experts.optional(),
    quote: Quote.optional(),
  })
  .meta({ id: 'Classification' });
