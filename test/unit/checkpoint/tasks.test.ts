// The tasks that a model declares in sida.json.
import { expect, it } from 'vitest';
import { parseTasks } from '../../../src/checkpoint/tasks.js';

const parse = (task: object) =>
  parseTasks(Buffer.from(JSON.stringify({ tasks: { t: task } })), 'm/sida.json');

it('have a template with fields and labels that differ', () => {
  const task = { template: 'a: {text}', labels: ['x', 'y'] };
  expect(parse(task)).toEqual({ t: task });
  expect(parseTasks(undefined, 'm/sida.json')).toEqual({});
});

it.each([
  [{ template: 'a', labels: ['x', 'y'] }, 'tasks.t.template: Expected a field in braces'],
  [{ template: '{text}', labels: ['x', 'x'] }, 'tasks.t.labels: Each label may stand there once'],
  [{ template: '{text}', labels: ['', 'x'] }, 'tasks.t.labels.0: Expected a text that is not empty'],
  [{ template: '{text}', labels: ['x'] }, 'tasks.t.labels: Expected a list of at least 2 entries'],
])('are refused with the path when one is %j', (task, message) => {
  expect(() => parse(task)).toThrow(`m/sida.json: ${message}`);
});
