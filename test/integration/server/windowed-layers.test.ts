// A model whose layers see a window of 16 tokens, over HTTP: requests wait until its few pages suffice, and no answer
// depends on what else runs.
import { describe, expect, it } from 'vitest';
import { oracleFixture } from '../../support/oracle-fixture.js';
import { type Answer, ServerProcess } from '../../support/server-process.js';

const FIXTURE = oracleFixture('gpt-oss-tiny');

const start = (budget: string, more: string[]) =>
  ServerProcess.start([
    ...['--model', FIXTURE, '--memory-budget', budget, '--max-batch-tokens', '32', '--kv-tokens', '4096'],
    ...more,
  ]);

const prompt = (length: number, seed: number) =>
  Array.from({ length }, (_, i) => 3 + ((i * 37 + seed * 11) % 500));
const REQUESTS = [150, 5, 80, 17, 200, 33, 64, 1].map((length, i) => ({
  prompt: prompt(length, i),
  max_tokens: 30 + i,
  return_token_ids: true,
  ...(i % 3 === 2 && { n: 2, temperature: 1, seed: i }),
}));

const tokensOf = ({ status, body }: Answer): number[][] => {
  expect(status, JSON.stringify(body)).toBe(200);
  return (body.choices as { token_ids: number[] }[]).map(({ token_ids }) => token_ids);
};

const ask = (server: ServerProcess, request: object) =>
  server.post('/v1/completions', request).then(tokensOf);

describe('a model with windows', () => {
  it('gives every request the answer that it gets alone, with the pages of two windows', async () => {
    const wide = await start('100%', ['--kv-windows', '64']);
    const narrow = await start('1%', ['--kv-windows', '2']);
    try {
      const alone: number[][][] = [];
      for (const request of REQUESTS) alone.push(await ask(wide, request));
      expect(await Promise.all(REQUESTS.map((request) => ask(narrow, request)))).toEqual(alone);
      // 32 tokens of a pass and 15 before them touch 4 pages, a further window has 3.
      await narrow.until(async () => {
        const { body } = await narrow.get('/metrics');
        return /^sida_kv_window_pages 7$/m.test(body) && /^sida_kv_window_pages_free 7$/m.test(body);
      });
      const { kv: bytes } = (await narrow.get('/admin/budget')).body.device;
      expect([bytes.used_bytes, bytes.cached_bytes]).toEqual([0, 0]);
      expect(bytes.free_bytes).toBeGreaterThan(0);
      const refused = await narrow.post('/v1/completions', { ...REQUESTS[0], n: 4, temperature: 1 });
      expect([refused.status, refused.body.error.code]).toEqual([422, 'cannot_run']);
      expect(refused.body.error.message).toMatch(/layers with a window of 16, the cache has 7/);
    } finally {
      await Promise.all([wide.stop(), narrow.stop()]);
    }
  });
});
