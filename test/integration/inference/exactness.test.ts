// Exact mode over HTTP: the answers to SST-2's whole validation set are the same for every policy and at four budgets
// that change while the server runs.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { classifyAll, MINI, ServerProcess, sst2 } from '../../support/server-process.js';

const sentences = sst2();
let reference: { label: string; scores: object }[];

/** Accuracy on the model card: transformers, float32, 872 sentences. */
const CARD_ACCURACY = 0.8154;

describe.each(['lru', 'fifo', 'lfu'])('policy %s', (policy) => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start(['--model', MINI, '--memory-budget', '100%', '--policy', policy]);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('reaches the accuracy of the card with every expert resident', async () => {
    const answers = await classifyAll(server, sentences);
    const names = ['negative', 'positive'];
    const right = answers.filter((answer, i) => answer.label === names[sentences[i]!.label]).length;
    expect(answers).toHaveLength(872);
    expect(Math.abs(right / answers.length - CARD_ACCURACY)).toBeLessThan(0.001);
    reference ??= answers;
    expect(answers).toEqual(reference);
  });

  it.each(['50%', '25%', 'smallest'])(
    'gives the same bits with a budget of %s',
    async (budget) => {
      const before = await server.get('/admin/budget');
      const device = budget === 'smallest' ? before.body.device.smallest_bytes : budget;
      const changed = await server.request('PUT', '/admin/budget', { device: String(device) });
      expect(changed.status, JSON.stringify(changed.body)).toBe(200);
      expect(changed.body.device.used_bytes).toBeLessThanOrEqual(changed.body.device.budget_bytes);
      expect(await classifyAll(server, sentences)).toEqual(reference);
      const after = await server.get('/admin/budget');
      expect(after.body.device.used_bytes).toBeLessThanOrEqual(after.body.device.budget_bytes);
    },
    180_000,
  );
});
