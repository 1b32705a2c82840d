import { describe, expect, it } from 'vitest';
import { type TaskJob, type TaskResult, taskOf } from '../../../src/tasks/registry.js';
import { COST } from '../queue/scripted-engine.js';

const input = (job: TaskJob) => taskOf(job).tokens.input(job);
const costOf = (job: TaskJob) => taskOf(job).tokens.cost(job);
const tokensUsed = (job: TaskJob, result: TaskResult) => taskOf(job).tokens.used(job, result);

it('counts token ids exactly, and estimates texts from their bytes', () => {
  const complete = { kind: 'complete' as const, maxTokens: 99, stop: [], logprobs: null, stream: false };
  expect(input({ ...complete, prompts: [[1, 2, 3, 4], 'seven b', ''] })).toBe(4 + 3 + 1);
  expect(input({ kind: 'classify', inputs: ['äöü', 'x'], labels: ['long label'] })).toBe(3 + 2 * 4);
  expect(input({ kind: 'tokenize', inputs: ['x'.repeat(900)], addSpecialTokens: true })).toBe(300);
});

it('counts the bytes of biases beside those of the prompts', () => {
  const job = {
    ...complete(['abc', [1, 2]], 5),
    adjustments: { presence: 0, frequency: 0, repetition: 1, biases: [[5, 1]] as [number, number][] },
  } as TaskJob;
  expect(taskOf(job).tokens.bytes(job)).toBe(3 + 16 + 16);
});

const complete = (prompts: (string | number[])[], maxTokens: number): TaskJob => ({
  kind: 'complete',
  prompts,
  maxTokens,
  stop: [],
  logprobs: null,
  stream: false,
});

const used = (promptTokens: number, completionTokens: number) =>
  ({
    promptTokens,
    completionTokens,
    experts: COST,
    timing: { tokenizeMs: 0, queueMs: 0, inferenceMs: 0 },
    kind: 'tokenize',
    data: [],
  }) satisfies TaskResult;

describe('the cost of a request', () => {
  it('is exact for token ids, and includes the tokens that may be generated', () => {
    const request = complete([[1, 2, 3], [4]], 16);
    expect(costOf(request)).toEqual({ known: 4 + 2 * 16, estimated: 0 });
    expect(tokensUsed(request, used(4, 5))).toBe(9);
  });

  it('is estimated from the bytes of texts', () => {
    expect(costOf(complete(['abcde', 'é'], 10))).toEqual({ known: 20, estimated: 3 + 1 });
    const tokenize: TaskJob = { kind: 'tokenize', inputs: ['abcd'], addSpecialTokens: true };
    expect(costOf(tokenize)).toEqual({ known: 0, estimated: 2 });
  });

  it('counts every label for every input', () => {
    const request: TaskJob = { kind: 'classify', inputs: ['abcd', 'abcd'], labels: ['ab', 'abc', 'a'] };
    expect(costOf(request)).toEqual({ known: 0, estimated: 4 + 2 * 4 });
    expect(tokensUsed(request, used(7, 0))).toBe(7 + 2 * 4);
  });
});
