import { expect, it } from 'vitest';
import { inputTokens } from '../../../../src/queue/memory/input-tokens.js';

it('counts token ids, and texts by their bytes', () => {
  const complete = { kind: 'complete' as const, maxTokens: 99, stop: [], logprobs: null, stream: false };
  expect(inputTokens({ ...complete, prompts: [[1, 2, 3, 4], 'seven b', ''] })).toBe(4 + 3 + 1);
  expect(inputTokens({ kind: 'classify', inputs: ['äöü', 'x'], labels: ['long label'] })).toBe(2 + 1);
  expect(inputTokens({ kind: 'tokenize', inputs: ['x'.repeat(900)], addSpecialTokens: true })).toBe(1);
});
