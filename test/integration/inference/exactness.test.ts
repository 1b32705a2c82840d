// Exact mode over HTTP: the answers are the same by other policies and at budgets that change meanwhile.
// predictor-exactness.test.ts has the other policies.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { classifyAll, MINI, ServerProcess, sst2 } from '../../support/server-process.js';

/** SST-2's whole validation set. */
const sentences = sst2();
const REQUEST = 32;
/** Every third request of the set, as `classifyAll` divides it. */
const third = <T>(rows: readonly T[]) => rows.filter((_, i) => Math.floor(i / REQUEST) % 3 === 0);
/** With every expert resident. */
let reference: { label: string; scores: object }[] = [];

/** Accuracy on the model card: transformers, float32, 872 sentences. */
const CARD_ACCURACY = 0.8154;

describe.each(['fifo', 'lfu'])('policy %s', (policy) => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', MINI, '--memory-budget', '100%', '--policy', policy]);
    if (reference.length === 0) reference = await classifyAll(server, sentences);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it.each([
    ['50%', third],
    ['25%', <T>(rows: readonly T[]) => [...rows]],
    ['smallest', third],
  ] as const)(
    'gives the same bits with a budget of %s',
    async (budget, part) => {
      const changed = await server.setBudget(budget);
      expect(changed.used_bytes).toBeLessThanOrEqual(changed.budget_bytes);
      expect(await classifyAll(server, part(sentences))).toEqual(part(reference));
      const after = await server.get('/admin/budget');
      expect(after.body.device.used_bytes).toBeLessThanOrEqual(after.body.device.budget_bytes);
    },
    180_000,
  );
});

it('reaches the accuracy of the card with every expert resident', () => {
  const names = ['negative', 'positive'];
  const right = reference.filter((answer, i) => answer.label === names[sentences[i]!.label]).length;
  expect(reference).toHaveLength(872);
  expect(Math.abs(right / reference.length - CARD_ACCURACY)).toBeLessThan(0.001);
});
