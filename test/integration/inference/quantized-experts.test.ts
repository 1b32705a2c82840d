// Quantized packs through a real server: packed on first use, reported to clients, and bit-identical at every budget.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { classifyAll, MINI, ServerProcess, sst2 } from '../../support/server-process.js';

const sentences = sst2().slice(0, 160);

describe.each([
  {
    flags: '--experts int8',
    model: { expert_dtype: 'int8', expert_group: null, dense_dtype: 'bf16' },
  },
  {
    flags: '--experts int8 --dense int8 --activations int8',
    model: { expert_dtype: 'int8', expert_group: null, dense_dtype: 'int8', activations: 'int8' },
  },
  {
    flags: '--experts int4',
    model: { expert_dtype: 'int4', expert_group: 64, dense_dtype: 'bf16' },
  },
  {
    flags: '--experts int4 --group 32 --activations int8',
    model: { expert_dtype: 'int4', expert_group: 32, dense_dtype: 'bf16' },
  },
  {
    flags: '--experts bf16 --dense bf16 --activations bf16',
    model: { expert_dtype: 'bf16', expert_group: null, dense_dtype: 'bf16', activations: 'bf16' },
  },
  {
    flags: '--experts f32 --dense f32',
    model: { expert_dtype: 'f32', expert_group: null, dense_dtype: 'f32', activations: 'f32' },
  },
])('sida serve --model … $flags', ({ flags, model }) => {
  let reference: { label: string; scores: object }[];

  describe.each(['farthest-next-use', 'lfu'])('policy %s', (policy) => {
    let server: ServerProcess;
    beforeAll(async () => {
      server = await ServerProcess.start([
        ...['--model', MINI, '--memory-budget', '100%', '--policy', policy],
        ...flags.split(' '),
      ]);
    });
    afterAll(async () => {
      expect(await server.stop()).toBe(0);
    });

    it('packs on first use with progress, and reports its formats', async () => {
      expect(server.output).toMatch(/Packing experts: 100 % \(256\/256 experts\)/);
      expect((await server.get('/v1/models')).body.data[0]).toMatchObject(model);
    });

    it('gives the same bits with every expert resident and with a budget of 50%, 25% and the smallest', async () => {
      reference ??= await classifyAll(server, sentences);
      expect(reference).toHaveLength(sentences.length);
      for (const budget of ['100%', '50%', '25%', 'smallest']) {
        const before = await server.get('/admin/budget');
        const device = budget === 'smallest' ? before.body.device.smallest_bytes : budget;
        expect((await server.request('PUT', '/admin/budget', { device: String(device) })).status).toBe(200);
        expect(await classifyAll(server, sentences), budget).toEqual(reference);
        const after = await server.get('/admin/budget');
        expect(after.body.device.used_bytes).toBeLessThanOrEqual(after.body.device.budget_bytes);
      }
    });
  });
});
