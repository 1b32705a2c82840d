import { expect, it } from 'vitest';
import { parseBody } from '../../../../src/server/request-checks.js';
import { ClassifyRequest } from '../../../../src/tasks/classify/schema.js';

it.each([
  [{ input: 'a' }, 'task', 'The field "task" is missing. Expected a task, or a template and labels'],
  [
    { input: 'a', template: '{a}' },
    'labels',
    'The field "labels" is missing. Expected the labels that belong to the template',
  ],
  [
    { input: 'a', task: 't', template: '{a}' },
    'template',
    'The field "template" is wrong. It cannot stand beside "task"',
  ],
])('says which field of %j is missing, and which is wrong', (body, param, message) => {
  expect(() => parseBody(ClassifyRequest, body)).toThrow(expect.objectContaining({ param, message }));
});
