import { describe, expect, it } from 'vitest';
import { type TaskJob, type TaskResult, taskOf } from '../../../src/tasks/registry.js';
import type { StoredStructure } from '../../../src/tasks/shared/structure.js';
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

describe('the schemas of a request', () => {
  const bytesOf = (job: TaskJob) => taskOf(job).tokens.bytes(job);
  const textsOf = (job: TaskJob) => taskOf(job).tokens.texts(job);
  const schema = JSON.stringify({ description: 'x'.repeat(3_000) });
  const content = { schema, closed: true };
  const tools = [{ type: 'function', function: { name: 'f', parameters: JSON.parse(schema) } }];
  const chat = (conversation: object, structure?: StoredStructure): TaskJob => ({
    kind: 'chat',
    conversation: JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], ...conversation }),
    answer: { kind: 'channels' },
    tools: true,
    ...(structure && { structure }),
    maxTokens: 5,
    stop: [],
    logprobs: null,
    stream: false,
  });

  it.each<[string, (structure?: StoredStructure) => TaskJob]>([
    ['a completion', (structure) => ({ ...complete(['hi'], 5), ...(structure && { structure }) }) as TaskJob],
    ['a chat', (structure) => chat({}, structure)],
    ['a response', (structure) => ({ ...chat({}, structure), kind: 'respond', echo: {} }) as TaskJob],
  ])('of %s count as held, as worked on and as charged', (_, jobOf) => {
    const [plain, bound] = [jobOf(), jobOf({ content })];
    expect(bytesOf(bound) - bytesOf(plain)).toBe(schema.length);
    expect(textsOf(bound)).toEqual([...textsOf(plain), schema]);
    expect(costOf(bound).estimated - costOf(plain).estimated).toBe(Math.ceil(schema.length / 2));
  });

  it('of tools are held twice, and charged once, with the conversation', () => {
    const call = { name: 'f', param: 'tools.0.function.parameters', ...content };
    const [plain, bound] = [chat({ tools }), chat({ tools }, { calls: [call] })];
    expect(textsOf(plain)[0]).toContain(schema);
    expect(bytesOf(bound) - bytesOf(plain)).toBe(schema.length);
    expect(textsOf(bound)).toEqual(textsOf(plain));
    expect(costOf(bound)).toEqual(costOf(plain));
  });

  it('and all else that a response repeats is held', () => {
    const respond = { ...chat({}), kind: 'respond' } as TaskJob;
    const echo = { metadata: { a: 'x'.repeat(3_000) } };
    const more = { ...respond, echo } as TaskJob;
    const less = { ...respond, echo: {} } as TaskJob;
    expect(bytesOf(more) - bytesOf(less)).toBe(JSON.stringify(echo).length - 2);
  });
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

  it('grows with the biases that every generated token takes', () => {
    const biases = (count: number) => {
      const list = Array.from({ length: count }, (_, id): [number, number] => [id, 1]);
      return { adjustments: { presence: 0, frequency: 0, repetition: 1, biases: list } };
    };
    const biased = (count: number) => ({ ...complete([[1, 2, 3]], 16), ...biases(count) }) as TaskJob;
    const chat = (count: number) =>
      ({
        kind: 'chat',
        conversation: '{}',
        answer: { kind: 'channels' },
        tools: false,
        maxTokens: 16,
        choices: 2,
        stop: [],
        logprobs: null,
        stream: false,
        ...biases(count),
      }) as TaskJob;
    expect([0, 1, 256, 1_024].map((count) => costOf(biased(count)).known)).toEqual([19, 35, 35, 83]);
    expect(tokensUsed(biased(1_024), used(3, 5))).toBe(3 + 5 * 5);
    expect([0, 1_024].map((count) => costOf(chat(count)).known)).toEqual([32, 160]);
    expect(tokensUsed(chat(1_024), used(3, 5))).toBe(3 + 5 * 5);
  });

  it('counts every label for every input', () => {
    const request: TaskJob = { kind: 'classify', inputs: ['abcd', 'abcd'], labels: ['ab', 'abc', 'a'] };
    expect(costOf(request)).toEqual({ known: 0, estimated: 4 + 2 * 4 });
    expect(tokensUsed(request, used(7, 0))).toBe(7 + 2 * 4);
  });
});
