// The models of `npm start` find the predictor in their own directories without any option.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { MINI, metricsOf, ServerProcess, sst2 } from '../../support/server-process.js';

interface Manifest {
  default: 'lstm' | 'attention';
  heldOut: Record<'lstm' | 'attention' | 'token', { layer: string; hits: [number, number, number] }[]>;
}

const manifest = JSON.parse(readFileSync(join(MINI, 'predictor', 'sida-predictor.json'), 'utf8')) as Manifest;

describe('the bundled predictor', () => {
  it("beats the token table in every layer, by its own card's figures", () => {
    const { token, [manifest.default]: networks } = manifest.heldOut;
    expect(networks.map(({ layer }) => layer)).toEqual(['encoder.1', 'encoder.3', 'decoder.1', 'decoder.3']);
    networks.forEach(({ hits }, i) => {
      for (const rank of [0, 2] as const) expect(hits[rank]).toBeGreaterThan(token[i]!.hits[rank]);
    });
  });

  it('is found beside the model and reaches the hit rates of its card', async () => {
    const server = await ServerProcess.start(['--model', MINI, '--memory-budget', '25%', '--governor', 'off']);
    try {
      const sums = { predicted: 0, hits_top1: 0, hits_top3: 0 };
      for (const { text } of sst2().slice(0, 60)) {
        const { status, body } = await server.post('/v1/classify', {
          task: 'sst2',
          input: text,
          include: ['experts'],
        });
        expect(status).toBe(200);
        for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += body.experts[name];
      }
      // 60 sentences of the held-out set, with a tolerance around its hit rates. Late tables are not counted.
      const card = (rank: number) =>
        manifest.heldOut[manifest.default].slice(0, 2).reduce((sum, { hits }) => sum + hits[rank]!, 0) / 2;
      expect(sums.predicted).toBeGreaterThan(0);
      expect(Math.abs(sums.hits_top1 / sums.predicted - card(0))).toBeLessThan(0.1);
      expect(Math.abs(sums.hits_top3 / sums.predicted - card(2))).toBeLessThan(0.1);
      const metrics = await metricsOf(server);
      expect(metrics('sida_hash_tables_total{state="ready"}')).toBeGreaterThan(0);
      expect(metrics(`sida_predictor_up{function="${manifest.default}"}`)).toBe(1);
    } finally {
      expect(await server.stop()).toBe(0);
    }
  });
});
