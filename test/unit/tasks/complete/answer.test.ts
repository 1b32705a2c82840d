import { expect, it } from 'vitest';
import { CompletionAnswers } from '../../../../src/tasks/complete/answer.js';

it('of several likely tokens with the same text, the answer has the most likely one', () => {
  const answers = new CompletionAnswers({
    model: 'm',
    id: 'a',
    createdMs: 0,
    form: { logprobs: 3, tokenIds: false, experts: false },
  } as ConstructorParameters<typeof CompletionAnswers>[0]);
  const top = [
    { id: 5, token: 'A', logprob: -0.5 },
    { id: 6, token: 'A', logprob: -2 },
    { id: 7, token: '__proto__', logprob: -3 },
  ];
  const logprobs = [{ id: 5, token: 'A', offset: 0, logprob: -0.5, top }];
  const [chunk] = answers.chunks({ index: 0, text: 'A', tokenIds: [5], logprobs, finishReason: null });
  const { tokens, top_logprobs: found } = chunk!.choices[0]!.logprobs!;
  expect(tokens).toEqual(['A']);
  expect(Object.entries(found![0]!)).toEqual([
    ['A', -0.5],
    ['__proto__', -3],
  ]);
});
