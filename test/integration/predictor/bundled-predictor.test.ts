// The models of `npm start` find the predictors in their own directories without any option. defaults.test.ts has that
// of olmoe-mini.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { metricsOf, REPO, ServerProcess } from '../../support/server-process.js';

interface Manifest {
  default: string;
  heldOut: Record<'lstm' | 'attention' | 'token', { layer: string; hits: number[] }[]>;
}

const BUNDLED = ['switch-words', 'olmoe-mini'] as const;
const directoryOf = (model: string) => join(REPO, 'models', model);
const manifestOf = (model: string): Manifest =>
  JSON.parse(readFileSync(join(directoryOf(model), 'predictor/sida-predictor.json'), 'utf8'));
const meanHits = (layers: readonly { hits: number[] }[], rank: number) =>
  layers.reduce((sum, { hits }) => sum + hits[rank]!, 0) / layers.length;

describe.each(BUNDLED)('the predictor of %s', (model) => {
  it("is the SiDA paper's network, with another kind and the token table beside it", () => {
    const manifest = manifestOf(model);
    expect(manifest.default).toBe('lstm');
    expect(Object.keys(manifest.heldOut).sort()).toEqual(['attention', 'lstm', 'token']);
  });
});

it('that of switch-words is in use by default, and reaches the hit rates of its card on words that it did not see', async () => {
  const model = directoryOf('switch-words');
  const words = readFileSync(join(model, 'words/known-held-out.jsonl'), 'utf8').trimEnd().split('\n');
  const server = await ServerProcess.start([...['--model', model, '--memory-budget', '25%']]);
  try {
    const sums = { predicted: 0, hits_top1: 0, hits_top3: 0 };
    for (const line of words.slice(0, 100)) {
      const { status, body } = await server.post('/v1/classify', {
        ...{ task: 'category', include: ['experts'] },
        input: (JSON.parse(line) as { text: string }).text,
      });
      expect(status, JSON.stringify(body)).toBe(200);
      for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += body.experts[name];
    }
    // Late tables are not counted.
    expect(sums.predicted).toBeGreaterThan(0);
    const { lstm } = manifestOf('switch-words').heldOut;
    const encoder = lstm.filter(({ layer }) => layer.startsWith('encoder'));
    expect(Math.abs(sums.hits_top1 / sums.predicted - meanHits(encoder, 0))).toBeLessThan(0.1);
    expect(Math.abs(sums.hits_top3 / sums.predicted - meanHits(encoder, 2))).toBeLessThan(0.1);
    const metric = await metricsOf(server);
    expect(metric('sida_predictor_up{function="lstm"}')).toBe(1);
    expect(metric('sida_hash_tables_total{state="ready"}')).toBeGreaterThan(0);
  } finally {
    expect(await server.stop()).toBe(0);
  }
}, 120_000);
